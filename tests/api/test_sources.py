"""Sources: blocks with accounts of their own, read together, charged together, pinned, and of one
tenant only."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.certificates import is_signed
from discreet.ledger.verification import verify
from discreet_client.certificates import charged_accounts
from discreet_client.client import ApiError, Client
from discreet_client.errors import BudgetExhausted, Conflict, Forbidden, InvalidInput, NotFound
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser
from tests.reliability.chains import superuser_url

PUBLIC = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
VERIFIER = Path(__file__).parents[2] / "clients" / "verifier" / "discreet_verify.py"
_numbers = itertools.count(1)


def create(client: Client, **more: Any) -> dict[str, Any]:
    body = {
        "name": f"City trips {next(_numbers)}",
        "kind": "routing",
        "public": PUBLIC,
        "by": "day",
        "cap": {"epsilon": 1, "delta": 0},
        **more,
    }
    return dict(client.sources.create(body))


def day(number: int) -> str:
    return f"2026-10-{number:02}"


def trips(date: str | None, count: int = 5) -> dict[str, Any]:
    """A few trips of a day; without a date where blocks have labels."""
    dated = {} if date is None else {"date": date}
    rows = [
        {"period": 0, "origin": 1, "destination": 2, "count": count},
        {"period": 1, "origin": 2, "destination": 3, "count": 1},
    ]
    return {"trips": [{**row, **dated} for row in rows]}


def filled(client: Client, days: int, **more: Any) -> dict[str, Any]:
    source = create(client, **more)
    for number in range(1, days + 1):
        client.sources.add(source["id"], day(number), trips(day(number), number))
    return source


def job(source: dict[str, Any], epsilon: float = 0.1, **chosen: Any) -> dict[str, Any]:
    problem = {
        "kind": "routing",
        "source": {"id": source["id"], **chosen},
        "network": bodies.network(),
    }
    return {"problem": problem, "privacy": {"epsilon": epsilon}}


def solved(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    made = client.submit(body)
    ended = client.wait(made["id"])
    assert ended["state"] == "succeeded", ended
    return dict(client.result(made["id"]))


def balances(client: Client, source: dict[str, Any]) -> dict[str, float]:
    """Epsilon spent and reserved, by block."""
    found = client.sources.get(source["id"])["blocks"] or []
    return {
        one["block"]: round(one["spent"]["epsilon"] + one["reserved"]["epsilon"], 9)
        for one in found
    }


def test_a_month_of_days_is_charged_to_the_days_that_are_read(
    service: Installation, tmp_path: Path
) -> None:
    with service.client(service.owner_of("months")) as client:
        source = filled(client, 5)
        assert (
            client.sources.create({k: source[k] for k in ("name", "kind", "public", "by", "cap")})
            == source
        )
        client.sources.add(source["id"], day(6), None)  # a day without trips is a block too
        assert [one["id"] for one in client.sources.list()] == [source["id"]]
        assert list(client.datasets()) == []  # blocks stand with their source

        plan = client.plan(job(source, blocks=f"{day(2)}/{day(4)}"))
        assert plan["admitted"]
        assert [one["block"] for one in plan["plan"]["source"]["blocks"]] == [
            day(2),
            day(3),
            day(4),
        ]
        answer = solved(client, job(source, blocks=f"{day(2)}/{day(4)}"))
        assert balances(client, source) == {
            day(n): 0.1 if n in (2, 3, 4) else 0.0 for n in range(1, 7)
        }
        solved(client, job(source, 0.2, last=3))
        assert balances(client, source) == {
            day(1): 0.0, day(2): 0.1, day(3): 0.1, day(4): 0.3, day(5): 0.2, day(6): 0.2
        }  # fmt: skip

        certificate = answer["certificate"]
        assert is_signed(certificate)
        named = {one["block"]: one["version"] for one in certificate["source"]["blocks"]}
        blocks = {one["block"]: one for one in client.sources.get(source["id"])["blocks"] or []}
        assert named == {name: blocks[name]["dataset"] for name in (day(2), day(3), day(4))}
        (charged,) = certificate["ledger_entry"]  # one entry for all of them
        assert charged["blocks"] == [[2, 4]]
        assert charged_accounts(charged) == [blocks[name]["account"] for name in named]
        assert any(
            "lies in exactly one block, by the day of its date" in one
            for one in certificate["assumptions"]
        )
        assert client.job(answer["job"]["id"])["problem"]["source"]["versions"] == list(
            named.values()
        )
        exported, named_by = tmp_path / "export.jsonl", tmp_path / "certificate.json"
        with exported.open("wb") as out:
            client.export_ledger(out)
        assert (
            verify(
                exported.read_bytes().splitlines(keepends=True), head=client.ledger_head()
            ).accounts
            == 1
        )
        named_by.write_text(json.dumps(certificate))
        for what in (["ledger", exported], ["certificate", named_by, "--ledger", exported]):
            subprocess.run([sys.executable, str(VERIFIER), *map(str, what)], check=True)

        # Asked again of what was released, for nothing; and rehearsed on synthetic data of the same
        # shape.
        again = client.ask_again(answer["job"]["id"], skims=True)
        assert again.certificate["guarantee"]["type"] == "post_processing"
        assert client.plan(job(source, blocks=f"{day(2)}/{day(4)}"))["reusable"] == [
            answer["job"]["id"]
        ]
        assert client.plan(job(source, blocks=f"{day(2)}/{day(5)}"))["reusable"] == []
        rehearsal: Any = {"problem": job(source, last=2)["problem"], "epsilons": [1]}
        rehearsed = client.call(
            operations.rehearse_job(rehearsal, idempotency_key="rehearsed source")
        )
        assert client.wait(rehearsed["id"])["state"] == "succeeded"
    # The pages show the band and every block.
    with Browser.logged_in(service) as browser:
        assert "Sources" in browser.get("/sources").text


def test_a_plan_says_which_blocks_its_jobs_would_spend(service: Installation) -> None:
    """By the blocks that have least left, and not at all where nothing more passes or what is left
    is far off."""
    with service.client(service.owner_of("outlook")) as client:
        source = filled(client, 4)
        solved(client, job(source, 0.5, blocks=[day(3)]))
        asked = job(source, 0.2, last=4)
        assert client.plan(asked)["until_spent"] == {
            "jobs": 2,
            "number": 1,
            "blocks": [day(3)],
            "sentence": "2 such jobs fit on these blocks, this one among them, until block "
            "2026-10-03 is spent",
        }
        elsewhere = client.plan(job(source, 0.25, blocks=f"{day(1)}/{day(2)}"))["until_spent"]
        assert (elsewhere["jobs"], elsewhere["number"], elsewhere["blocks"]) == (
            4,
            2,
            [day(1), day(2)],
        )
        assert client.plan(job(source, 0.0001, blocks=day(1))).get("until_spent") is None
        for left in (1, 0):  # what was promised is what is admitted
            solved(client, asked)
            plan = client.plan(asked)
            assert plan["admitted"] == (left > 0)
            assert plan.get("until_spent", {}).get("jobs") == (left or None)
        whole = filled(client, 2, cap_of="source")
        ends = client.plan(job(whole, 1, last=2))["until_spent"]
        assert (ends["jobs"], ends["blocks"]) == (1, [])
        assert "the budget of the source is spent" in ends["sentence"]


def test_late_records_are_a_version_on_the_same_account(service: Installation) -> None:
    with service.client(service.owner_of("late")) as client:
        source = filled(client, 2)
        before = {one["block"]: one for one in client.sources.get(source["id"])["blocks"] or []}
        waiting = job(source, blocks=[day(1), day(2)])
        first = client.submit(waiting, idempotency_key="pinned")
        late = client.sources.add(source["id"], day(1), trips(day(1), 900))
        assert (late["version"], late["account"]) == (2, before[day(1)]["account"])
        assert client.sources.add(source["id"], day(1), trips(day(1), 900)) == late
        # The same key is the same job, whatever is the newest version now; and the job reads what
        # it was accepted for.
        assert client.submit(waiting, idempotency_key="pinned")["id"] == first["id"]
        assert client.wait(first["id"])["state"] == "succeeded"
        pinned = client.job(first["id"])["problem"]["source"]
        assert pinned["versions"] == [before[day(1)]["dataset"], before[day(2)]["dataset"]]
        second = client.submit(waiting)
        assert client.job(second["id"])["problem"]["source"]["versions"][0] == late["dataset"]
        third = client.submit({**waiting, "problem": {**waiting["problem"], "source": pinned}})
        assert client.job(third["id"])["problem"]["source"] == pinned
        assert balances(client, source)[day(1)] == pytest.approx(0.3)
        with pytest.raises(NotFound) as refused:
            client.plan(job(source, blocks=[day(2)], versions=[late["dataset"]]))
        assert refused.value.errors[0].pointer == "/problem/source/versions"
        with pytest.raises(Conflict, match="version 1 of this block"):
            client.sources.add(source["id"], day(1), trips(day(1), 1))


def test_a_trajectory_that_its_dates_cut_is_in_one_block_at_most(api_only: Installation) -> None:
    """A file of every day, each row under its own date: what of a trajectory comes on later days
    is refused there, and the plan says what of that was checked."""
    visits = {
        "unit": "trajectory",
        "states": 2,
        "reward_bound": 1,
        "horizon": 3,
        "off_policy": False,
        "max_trajectories": 10,
    }

    def steps(date: str, *numbers: int) -> dict[str, Any]:
        row = {"trajectory": "ann", "state": 0, "next_state": 1, "reward": 0.5, "terminal": False}
        return {"transitions": [{**row, "step": number, "date": date} for number in numbers]}

    with api_only.client(api_only.owner_of("cut trajectories")) as client:
        source = create(client, kind="off_policy_evaluation", public=visits)
        client.sources.add(source["id"], day(1), steps(day(1), 0, 1))
        with pytest.raises(InvalidInput) as refused:
            client.sources.add(source["id"], day(2), steps(day(2), 2))
        (error,) = refused.value.errors
        assert error.pointer == "/content/transitions/0/step"
        assert "a trajectory of a block begins at step 0" in error.detail
        assert "found 2" in error.detail
        asked = {"id": source["id"], "blocks": day(1)}
        problem = {"kind": "off_policy_evaluation", "discount": 0.9, "source": asked}
        plan = client.plan({"problem": problem, "privacy": {"epsilon": 0.1}})["plan"]
        assert any("does not begin at step 0 was refused" in one for one in plan["assumptions"])


def test_one_block_that_cannot_pay_refuses_the_whole_job(service: Installation) -> None:
    with service.client(service.owner_of("thirty")) as client:
        source = filled(client, 30)
        client.wait(client.submit(job(source, 0.9, blocks=day(17)))["id"])
        for ask in (client.plan, client.submit):
            if ask == client.plan:
                plan = client.plan(job(source, 0.2, last=30))
                assert not plan["admitted"]
                assert plan["binding"]["block"] == day(17)
                continue
            with pytest.raises(
                BudgetExhausted, match=f"the cap of block {day(17)} of {source['name']} binds"
            ):
                client.submit(job(source, 0.2, last=30))
        assert balances(client, source) == {day(n): 0.9 if n == 17 else 0.0 for n in range(1, 31)}
        solved(client, job(source, 0.1, last=30))
        assert balances(client, source) == {day(n): 1.0 if n == 17 else 0.1 for n in range(1, 31)}


def test_records_of_other_days_are_named(service: Installation, tmp_path: Path) -> None:
    with service.client(service.owner_of("other days")) as client:
        source = create(client)
        with pytest.raises(InvalidInput) as refused:
            client.sources.add(
                source["id"], day(1), {"trips": [*trips(day(1))["trips"], *trips(day(2))["trips"]]}
            )
        (error,) = refused.value.errors
        assert error.pointer == "/content/trips/2/date"
        assert f"'{day(2)}' is not of block {day(1)}" in error.detail
        assert "(and 1 more like this, up to /content/trips/3/date)" in error.detail
        with pytest.raises(InvalidInput, match="a date such as"):
            client.sources.add(source["id"], day(1), trips(None))
        columns = {"period": [0, 1], "origin": [1, 2], "destination": [2, 3], "count": [4, 5]}
        good, bad, bare = tmp_path / "good.csv", tmp_path / "bad.csv", tmp_path / "head.csv"
        good.write_text(
            f"date,period,origin,destination,count\n{day(1)} 07:10,0,1,2,4\n{day(1)} "
            "23:59,1,2,3,5\n"
        )
        bad.write_text(
            f"date,period,origin,destination,count\n{day(1)},0,1,2,4\n{day(3)},1,2,3,5\n"
        )
        bare.write_text("date,period,origin,destination,count\n")
        with pytest.raises(InvalidInput) as refused:
            client.sources.add(source["id"], day(1), bad)
        assert [one.pointer for one in refused.value.errors] == ["/content/1/date"]
        undated = tmp_path / "undated.parquet"
        pq.write_table(pa.table(columns), undated)
        with pytest.raises(InvalidInput, match="a column `date` is needed"):
            client.sources.add(source["id"], day(1), undated)
        assert (client.sources.get(source["id"])["blocks"] or []) == []
        first = client.sources.add(source["id"], day(1), good)
        dated = tmp_path / "dated.parquet"
        days = pa.array([np.datetime64(f"{day(1)}T07:00:00"), np.datetime64(f"{day(1)}T08:00:00")])
        pq.write_table(pa.table({"date": days, **columns}), dated)
        # The same records, whatever their format.
        assert client.sources.add(source["id"], day(1), dated) == first
        assert client.sources.add(source["id"], day(2), bare)["version"] == 1
        assert client.sources.add(source["id"], day(3), {"trips": []})["version"] == 1
        for name in ("2026-10-32", "2026-10", "today"):
            with pytest.raises(InvalidInput) as refused:
                client.sources.add(source["id"], name, good)
            assert refused.value.errors[0].pointer == "/block"
        with pytest.raises(NotFound, match=f"not registered: {day(4)}"):
            client.plan(job(source, blocks=f"{day(1)}/{day(4)}"))


@pytest.mark.parametrize(
    ("more", "pointer", "says"),
    [
        (
            {"public": {**PUBLIC, "unit": "person"}},
            "/public",
            "a person's trips lie in many blocks",
        ),
        (
            {"public": {**PUBLIC, "unit": "person"}, "cap_of": "source"},
            "/public",
            "nor one cap of the source",
        ),
        ({"public": {**PUBLIC, "zones": 0}}, "/public/zones", "must be at least 1"),
        ({"kind": "dr_ensemble"}, "/kind", "one dataset for all days"),
        ({"by": "count"}, "/by", "day"),
        ({"block_bytes": 1 << 40}, "/block_bytes", "at most"),
        ({"cap": {"epsilon": 0}}, "/cap/epsilon", "0"),
    ],
)
def test_what_is_no_source_is_refused(
    service: Installation, more: dict[str, Any], pointer: str, says: str
) -> None:
    with service.client() as client, pytest.raises(InvalidInput) as refused:
        create(client, **more)
    assert [one.pointer for one in refused.value.errors] == [pointer]
    assert says in refused.value.errors[0].detail


def test_names_sizes_labels_and_one_account(service: Installation, tmp_path: Path) -> None:
    with service.client(service.owner_of("labels")) as client:
        source = create(client, by="label", cap_of="source", block_bytes=1024)
        with pytest.raises(Conflict, match="with another block_by"):
            create(client, name=source["name"], cap_of="source", block_bytes=1024)
        for ward in ("ward 9", "ward 1"):
            client.sources.add(
                source["id"], ward, trips(None, len(ward) if ward == "ward 9" else 77)
            )
        with pytest.raises(Conflict, match="block ward 1 already"):
            client.sources.add(source["id"], "ward 2", trips(None, 77))
        many = {
            "trips": [
                {"period": p, "origin": o, "destination": d, "count": 1}
                for p in range(2)
                for o in (1, 2, 3)
                for d in (1, 2, 3)
            ]
            * 3
        }
        client.sources.add(source["id"], "ward 4", many)  # summed it has 18 cells of 32 bytes
        large = create(client, by="label", block_bytes=1024, public={**PUBLIC, "periods": 50})
        rows = [{"period": p, "origin": 1, "destination": 2, "count": 1} for p in range(50)]
        with pytest.raises(ApiError) as refused:
            client.sources.add(large["id"], "x", {"trips": rows})
        assert refused.value.code == "payload_too_large"
        answer = solved(client, job(source, blocks=["ward 1", "ward 9"]))
        (entry,) = answer["certificate"]["ledger_entry"]
        assert entry["account"] == source["account"]
        assert any(
            "to which each job is charged once" in one
            for one in answer["certificate"]["assumptions"]
        )
        with pytest.raises(InvalidInput, match="labels have no order"):
            client.plan(job(source, blocks="ward 1/ward 9"))
        huge = create(client, by="label", block_bytes=service.settings.content_bytes)
        for ward in ("a", "b"):
            client.sources.add(huge["id"], ward, trips(None, 40 + ord(ward)))
        with pytest.raises(InvalidInput, match="at most 1 blocks are read at once"):
            client.plan(job(huge, last=2))
        # A block is no dataset by itself.
        block = (client.sources.get(source["id"])["blocks"] or [])[0]
        with pytest.raises(InvalidInput, match="is block ward 9 of a source"):
            client.plan(bodies.job(block["dataset"]))
        # Its content can be erased, which its account outlives; then it is not read.
        client.delete_dataset(block["dataset"])
        with pytest.raises(NotFound, match="the content is erased of ward 9"):
            client.submit(job(source, blocks=["ward 1", "ward 9"]))
        assert [one["erased"] for one in client.sources.get(source["id"])["blocks"] or []] == [
            True,
            False,
            False,
        ]
        back = client.sources.add(source["id"], "ward 9", trips(None, 6))
        assert (back["version"], back["account"]) == (2, source["account"])


def test_of_one_tenant_and_its_roles(service: Installation) -> None:
    with service.client() as client, service.client(service.owner_of("far source")) as other:
        source = filled(client, 1)
        for call in (
            lambda: other.sources.get(source["id"]),
            lambda: other.sources.add(source["id"], day(2), trips(day(2))),
            lambda: other.plan(job(source, last=1)),
            lambda: other.submit(job(source, last=1)),
        ):
            with pytest.raises(NotFound):
                call()
        assert list(other.sources.list()) == []
        assert create(other, name=source["name"])["id"] != source["id"]  # names are of a tenant
        theirs = filled(other, 1)
        version = (client.sources.get(source["id"])["blocks"] or [])[0]["dataset"]
        with pytest.raises(NotFound):
            other.submit(job(theirs, blocks=[day(1)], versions=[version]))
    for role in ("analyst", "auditor"):
        with service.client(service.key_of(role)) as reader:
            assert reader.sources.get(source["id"])["name"] == source["name"]
            with pytest.raises(Forbidden):
                create(reader)
            with pytest.raises(Forbidden):
                reader.sources.add(source["id"], day(3), trips(day(3)))


def test_a_simulation_over_blocks_is_that_of_one_dataset(service: Installation) -> None:
    """Bit for bit, under one seed; and erasing one of its blocks forgets what it released."""
    with service.client(service.owner_of("simulated blocks")) as client:
        source = filled(client, 3, mode="simulation")
        rows = [
            {
                **{name: value for name, value in row.items() if name != "date"},
                "period": row["period"] + 2 * (number - 1),
            }
            for number in (1, 2, 3)
            for row in trips(day(number), number)["trips"]
        ]
        whole = {
            "name": "whole", "kind": "routing", "public": {**PUBLIC, "periods": 6},
            "content": {"trips": rows}, "mode": "simulation", "cap": {"epsilon": 1, "delta": 0},
        }  # fmt: skip
        dataset = client.register(whole)["id"]
        blocks, one = (
            solved(client, {**body, "seed": 11})
            for body in (job(source, last=3), bodies.job(dataset))
        )
        assert blocks["result"] == one["result"]
        assert blocks["certificate"]["result_digest"] == one["certificate"]["result_digest"]
        assert blocks["certificate"]["guarantee"]["type"] == "none"
        assert set(balances(client, source).values()) == {0.0}
        client.delete_dataset((client.sources.get(source["id"])["blocks"] or [])[1]["dataset"])
        with pytest.raises(Conflict, match="erased"):
            client.ask_again(blocks["job"]["id"], skims=True)


def test_what_was_changed_behind_the_service_is_not_read(
    service: Installation, postgres: EmbeddedPostgres
) -> None:
    """A block that is called another, and a job that is given other blocks than it was accepted
    for."""
    with service.client(service.owner_of("forged blocks")) as client:
        source = filled(client, 3)
        with psycopg.connect(superuser_url(postgres, service.settings)) as connection:
            connection.execute(
                "UPDATE datasets SET block = '2026-10-09' WHERE source_id = %s AND block = %s",
                [source["id"], day(3)],
            )
        made = client.submit(job(source, blocks=["2026-10-09"]))
        ended = client.wait(made["id"])
        assert ended["error"]["code"] == "content_unreadable"
        assert balances(client, source)["2026-10-09"] == 0.0


def test_from_the_command_line(service: Installation, tmp_path: Path) -> None:
    ask = ("--server", service.url, "--key", service.owner_key, "--json")

    def said(*command: str) -> Any:
        done = CliRunner().invoke(app, [*command, *ask])
        assert done.exit_code == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    name = "Trips from files"
    made = said(
        "source",
        "create",
        name,
        "--kind",
        "routing",
        "--by",
        "day",
        "--epsilon",
        "1",
        "--public",
        json.dumps(PUBLIC),
    )
    for number in (1, 2):
        file = tmp_path / f"trips-{day(number)}.csv"
        file.write_text(f"date,period,origin,destination,count\n{day(number)},0,1,2,{number}\n")
        assert said("source", "add", name, str(file))["block"] == day(number)
    assert said("source", "add", name, "--block", day(3), "--empty")["version"] == 1
    assert made["id"] in [one["id"] for one in said("source", "list")]
    assert [one["block"] for one in said("source", "show", name)["blocks"]] == [
        day(1),
        day(2),
        day(3),
    ]
    body = {
        "problem": {
            "kind": "routing",
            "source": {"id": name, "last": 3},
            "network": bodies.network(),
        }
    }
    (tmp_path / "job.json").write_text(json.dumps(body))
    plan = said("plan", str(tmp_path / "job.json"), "--epsilon", "0.1")
    assert plan["plan"]["source"]["id"] == made["id"]
    ends = CliRunner().invoke(
        app, ["plan", str(tmp_path / "job.json"), "--epsilon", "0.5", *ask[:-1]]
    )
    assert (
        "2 such jobs fit on these blocks, this one among them, until 3 blocks "
        f"({day(1)}, {day(2)}, {day(3)}) are spent"
    ) in " ".join(ends.stdout.split())
    shown = CliRunner().invoke(app, ["source", "show", name, *ask[:-1]])
    assert shown.exit_code == 0
    assert day(3) in shown.stdout
    for wrong in (["source", "add", name], ["source", "add", name, "--empty"]):
        assert CliRunner().invoke(app, [*wrong, *ask]).exit_code == 2
    with Browser.logged_in(service) as browser:
        page = browser.get(f"/sources/{made['id']}")
        assert name in page.text
        assert f"From {day(1)} on the left to {day(3)}" in page.text
        assert f"/sources/{made['id']}" in browser.get("/sources").links
        assert "/sources" in browser.get("/").links


def private_on(account: str) -> dict[str, Any]:
    body = bodies.dataset(mode="private") | {"account": account}
    return {name: value for name, value in body.items() if name != "cap"}


def test_a_chain_is_no_budget_and_its_entries_are_shown(service: Installation) -> None:
    """One entry for all blocks: with its source and blocks on the pages, of each block in its
    history; nobody grants, asks or registers on the chain itself."""
    key = service.owner_of("chained")
    with service.client(key) as client:
        source = filled(client, 3)
        answer = solved(client, job(source, last=2))
        (entry,) = answer["certificate"]["ledger_entry"]
        chain = entry["account"]
        blocks = {one["block"]: one for one in client.sources.get(source["id"])["blocks"] or []}
        assert [one["account"] for one in blocks.values()] == [f"{chain}.{n}" for n in (1, 2, 3)]
        assert chain not in {one["id"] for one in client.budgets()}
        more: Any = {"epsilon": 9, "delta": 0, "reason": "r"}
        for refused in (
            lambda: client.budget(chain),
            lambda: client.grant(chain, **more),
            lambda: client.request_budget(chain, **more),
            lambda: client.budget(f"{chain}.4"),
            lambda: client.grant(f"{chain}.4", **more),
            lambda: client.register(private_on(chain)),
        ):
            with pytest.raises(NotFound):
                refused()
        raised = client.grant(f"{chain}.1", **more)
        assert raised["cap"]["epsilon"] == 9
    with Browser.logged_in(service, key) as browser:
        page = browser.get(f"/ledger/{chain}/{entry['seq']}")
        assert f'href="/sources/{source["id"]}"' in page.response.text
        for number in (2, 3):
            assert f'href="/budgets/{chain}.{number}"' in page.response.text
        assert f'href="/sources/{source["id"]}"' in browser.get("/ledger").response.text
        assert answer["job"]["id"] in browser.get(f"/ledger?account={chain}.2").response.text
        assert answer["job"]["id"] not in browser.get(f"/ledger?account={chain}.1").response.text
        assert answer["job"]["id"] in browser.get(f"/budgets/{chain}.3").response.text

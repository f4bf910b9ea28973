"""Corrections: another public part while nothing was given away, and never a second budget."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet_agent import canonical
from discreet_client.client import Client
from discreet_client.errors import ApiError, InvalidInput, NotFound
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser

_numbers = itertools.count(1)

Json = dict[str, Any]


def walks(**public: Any) -> Json:
    """Trajectories of one step, with the probabilities of both policies; no other dataset has
    them."""
    unique = next(_numbers)
    rows = [
        {
            "trajectory": walk,
            "step": 0,
            "reward": 1.0 if walk % 2 else unique / 1000,
            "terminal": True,
            "behaviour": 0.5,
            "target": 1.0 if walk % 2 else 0.25,
        }
        for walk in range(40)
    ]
    return {
        "name": f"walks {unique}",
        "kind": "off_policy_evaluation",
        "public": {"unit": "trajectory", "reward_bound": 1, "horizon": 1, **public},
        "content": {"transitions": rows},
        "cap": {"epsilon": 1, "delta": 0},
    }


def patch(http: httpx.Client, dataset: str, **body: Any) -> httpx.Response:
    return http.patch(f"/v1/datasets/{dataset}", json=body)


def refused(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, str(answer.json().get("code"))


def spend(client: Client, dataset: str, epsilon: float = 0.1) -> Json:
    return dict(client.wait(client.submit(bodies.job(dataset, epsilon))["id"]))


# The walk -----------------------------------------------------------------------------------------


def test_a_forgotten_bound_is_named_and_then_declared(service: Installation) -> None:
    """An accuracy in per cent needs `max_total`: the plan says so, and how; after that it plans."""
    with service.client() as client, service.http() as http:
        made = client.register(bodies.dataset())
        asked = {
            "problem": bodies.job(made["id"])["problem"],
            "privacy": {"accuracy": {"quantity": "total_travel_time", "within": "60%"}},
        }
        before = http.post("/v1/plans", json=asked)
        assert before.status_code == 422
        says = before.json()["detail"]
        assert "max_total" in says
        assert f"discreet dataset correct {made['id']}" in says
        assert f"PATCH /v1/datasets/{made['id']}" in says

        tight = patch(http, made["id"], public={"max_total": 10})
        assert refused(tight) == (422, "invalid_input")
        assert "the stored rows do not fit the corrected figures" in tight.json()["detail"]
        after = patch(http, made["id"], public={"max_total": 5000})
        assert after.status_code == 200, after.text
        said = after.json()
        kept = ("id", "account", "name", "created_at", "mode")
        assert {name: said[name] for name in kept} == {name: made[name] for name in kept}
        assert said["public"] == {**made["public"], "max_total": 5000}
        assert said["revision"] == 2
        plan = http.post("/v1/plans", json=asked)
        assert plan.status_code == 200, plan.text
        digest = canonical.digest(said["public"])
        assert plan.json()["plan"]["public_digest"] == digest

        done = spend(client, made["id"])
        assert done["state"] == "succeeded", done
        certificate = client.result(done["id"])["certificate"]
        assert certificate["public_digest"] == digest
        # What was spent holds the public part from now on; the way out is beside.
        late = patch(http, made["id"], public={"max_total": 6000})
        assert refused(late) == (409, "released")
        assert f"--same-people-as {made['id']}" in late.json()["detail"]
        changes = http.get("/v1/audit-log").json()["changes"]
        (noted,) = [
            one
            for one in changes
            if (one["action"], one["object"]) == ("dataset.correct", made["id"])
        ]
        assert noted["details"]["fields"] == ["max_total"]
        assert noted["details"]["content"] == "stays"


def test_a_refusal_names_the_correction_of_a_forgotten_ratio(api_only: Installation) -> None:
    with api_only.client() as client, api_only.http() as http:
        body = walks()
        made = client.register(body)
        asked = {
            "problem": {
                "kind": "off_policy_evaluation",
                "dataset": made["id"],
                "method": "importance_sampling",
                "discount": 1,
            },
            "privacy": {"epsilon": 0.5},
        }
        before = http.post("/v1/plans", json=asked)
        told = before.json()
        text = json.dumps(told)
        assert "max_ratio" in text, text
        assert f"discreet dataset correct {made['id']}" in text, text
        after = patch(http, made["id"], public={"max_ratio": 2})
        assert after.status_code == 200, after.text
        narrow = patch(http, made["id"], public={"max_ratio": 1.5})
        assert refused(narrow) == (422, "invalid_input")
        assert http.post("/v1/plans", json=asked).status_code == 200
        # The same content with the same words is the same dataset; with others the correction is
        # named.
        again = http.post("/v1/datasets", json={**body, "public": after.json()["public"]})
        assert (again.status_code, again.json()["id"]) == (200, made["id"])
        other = http.post("/v1/datasets", json={**body, "public": {**body["public"]}})
        assert refused(other) == (409, "content_known")
        assert f"PATCH /v1/datasets/{made['id']}" in other.json()["detail"]


# What decided how rows were read ------------------------------------------------------------------


def test_what_decided_how_rows_were_read_needs_the_content_again(api_only: Installation) -> None:
    body = bodies.dataset()
    with api_only.client() as client, api_only.http() as http:
        made = client.register(body)
        alone = patch(http, made["id"], public={"zones": 5})
        assert refused(alone) == (422, "invalid_input")
        assert alone.json()["errors"][0]["pointer"] == "/content"
        assert "zones decided how the rows were read" in alone.json()["detail"]
        both = patch(http, made["id"], public={"zones": 5}, content=body["content"])
        assert both.status_code == 200, both.text
        assert both.json()["public"]["zones"] == 5
        form = {
            "metadata": (None, json.dumps({"public": {"zones": 4}}), "application/json"),
            "content": (
                "trips.csv",
                "period,origin,destination,count\n0,1,4,7\n1,2,3,9\n",
                "text/csv",
            ),
        }
        file = http.patch(f"/v1/datasets/{made['id']}", files=form)
        assert file.status_code == 200, file.text
        assert (file.json()["public"]["zones"], file.json()["revision"]) == (4, 3)
        wrong = {**form, "content": ("trips.csv", "period,origin\n0,1\n", "text/csv")}
        assert refused(http.patch(f"/v1/datasets/{made['id']}", files=wrong))[0] == 422
        unit = patch(http, made["id"], public={"unit": "person"})
        assert refused(unit) == (422, "invalid_input")
        assert unit.json()["errors"][0]["pointer"] == "/public/unit"
        nothing = patch(http, made["id"], public={"max_total": None})
        assert (nothing.status_code, nothing.json()["revision"]) == (200, 3)


def test_the_corrected_content_is_what_a_job_reads(service: Installation) -> None:
    """A simulation without noise worth the name: the figures are those of the new content."""
    body = {**bodies.dataset(mode="simulation"), "mode": "simulation"}
    rows = [{**row, "count": 2 * row["count"]} for row in body["content"]["trips"]]
    with service.client() as client, service.http() as http:
        made = client.register(body)
        first = client.wait(client.submit(bodies.job(made["id"], 1000))["id"])
        replaced = patch(http, made["id"], content={"trips": rows})
        assert replaced.status_code == 200, replaced.text
        second = client.wait(client.submit(bodies.job(made["id"], 1000))["id"])
        one, two = (client.result(job["id"]) for job in (first, second))
        ratio = two["result"]["total_travel_time"] / one["result"]["total_travel_time"]
        assert ratio > 1.8
        # The first keeps its result and its certificate; its release, which is of what the dataset
        # was, is asked nothing more.
        assert one["certificate"]["public_digest"] == two["certificate"]["public_digest"]
        again = {"problem": {**bodies.job("")["problem"], "dataset": None, "release": first["id"]}}
        late = http.post("/v1/plans", json=again)
        assert refused(late) == (409, "no_release")
        assert "corrected since" in late.json()["detail"]
        # A simulation may be corrected whenever no job is on it.
        assert patch(http, made["id"], public={"max_total": 5000}).status_code == 200


# Never two budgets --------------------------------------------------------------------------------


def test_read_otherwise_and_corrected_back_is_the_first_budget(service: Installation) -> None:
    """The same file by another reader is other content on another account, as far as the ledger
    can know; corrected back it would be the first content with a second budget."""
    right = bodies.dataset()
    wrong = bodies.dataset()
    with service.client() as client, service.http() as http:
        first, second = client.register(right), client.register(wrong)
        spend(client, first["id"], 0.9)
        back = patch(http, second["id"], content=right["content"])
        assert refused(back) == (409, "content_known")
        assert first["id"] in back.json()["detail"]
        client.delete_dataset(first["id"])
        back = patch(http, second["id"], content=right["content"])
        assert refused(back) == (409, "content_known")


def test_what_a_dataset_was_leads_to_its_account(service: Installation) -> None:
    """Registered by the wrong reader, corrected, and registered by the wrong reader once more: one
    account, whatever is erased between."""
    wrong, right = bodies.dataset(), bodies.dataset()
    with service.client() as client, service.http() as http:
        made = client.register(wrong)
        fixed = patch(http, made["id"], content=right["content"])
        assert fixed.status_code == 200, fixed.text
        beside = client.register(wrong)
        assert (beside["account"], beside["id"] != made["id"]) == (made["account"], True)
        client.delete_dataset(beside["id"])
        client.delete_dataset(made["id"])
        other = client.register(bodies.dataset())
        for body in (wrong, right):
            moved = {**body, "cap": None, "account": other["account"]}
            assert refused(http.post("/v1/datasets", json=moved)) == (409, "content_known")
        assert client.register(wrong)["account"] == made["account"]
        assert client.register(right)["account"] == made["account"]
        # As a simulation neither is released for nothing.
        for body in (wrong, right):
            free = http.post("/v1/datasets", json={**body, "mode": "simulation"})
            assert refused(free) == (409, "content_known")
        # Nor by correcting a simulation into it.
        simulated = client.register({**bodies.dataset(), "mode": "simulation"})
        for body in (wrong, right):
            free = patch(http, simulated["id"], content=body["content"])
            assert refused(free) == (409, "content_known")


def test_erased_data_come_back_with_another_public_part(service: Installation) -> None:
    body = bodies.dataset()
    other = {**body, "public": {**body["public"], "period_minutes": 30}}
    with service.client() as client, service.http() as http:
        made = client.register(body)
        assert refused(patch(http, "dst_none", public={})) == (404, "not_found")
        client.delete_dataset(made["id"])
        assert refused(patch(http, made["id"], public={})) == (404, "not_found")
        back = client.register(other)
        assert back["public"]["period_minutes"] == 30
        spend(client, back["id"])
        client.delete_dataset(back["id"])
        late = http.post("/v1/datasets", json=body)
        assert refused(late) == (409, "content_known")
        assert f"--same-people-as {back['id']}" in late.json()["detail"]
        beside = http.post("/v1/datasets", json={**body, "cap": None, "account": back["account"]})
        assert (beside.status_code, beside.json()["account"]) == (201, back["account"])


def test_beside_what_was_released_on_the_same_account(service: Installation) -> None:
    """The way out that `released` names: the same content with another public part, charged where
    the first is."""
    body = bodies.dataset()
    with service.client() as client, service.http() as http:
        made = client.register(body)
        spend(client, made["id"], 0.4)
        public = {**body["public"], "max_total": 5000}
        beside = {**body, "public": public, "cap": None, "account": made["account"]}
        second = http.post("/v1/datasets", json=beside)
        assert second.status_code == 201, second.text
        assert http.post("/v1/datasets", json=beside).json()["id"] == second.json()["id"]
        spend(client, second.json()["id"], 0.4)
        assert client.budget(made["account"])["spent"]["epsilon"] == pytest.approx(0.8)
        with pytest.raises(ApiError, match="largest"):
            client.submit(bodies.job(made["id"], 0.4))


# Who, and when ------------------------------------------------------------------------------------


def test_only_its_owner_corrects(api_only: Installation) -> None:
    with api_only.client() as client:
        made = client.register(bodies.dataset())
        for role in ("analyst", "auditor"):
            key = client.create_key(role=role, principal=f"{role} of corrections")["key"]
            with api_only.http(key) as http:
                answer = patch(http, made["id"], public={"max_total": 5000})
                assert refused(answer) == (403, "forbidden")
    with api_only.http(api_only.owner_of("strangers to corrections")) as http:
        assert refused(patch(http, made["id"], public={"max_total": 5000})) == (404, "not_found")
    with api_only.client() as client:
        assert client.dataset(made["id"])["revision"] == 1


def test_a_job_that_waits_holds_the_public_part(api_only: Installation) -> None:
    """Nobody runs it here. Cancelled before it touched data, it has given nothing away."""
    with api_only.client() as client, api_only.http() as http:
        for mode, code in (("private", "released"), ("simulation", "dataset_in_use")):
            made = client.register({**bodies.dataset(), "mode": mode})
            job = client.submit(bodies.job(made["id"]))
            answer = patch(http, made["id"], public={"max_total": 5000})
            assert refused(answer) == (409, code)
            assert "cancel it first" in answer.json()["detail"]
            client.cancel(job["id"])
            assert patch(http, made["id"], public={"max_total": 5000}).status_code == 200


def test_corrections_and_submissions_at_once(api_only: Installation) -> None:
    """Each job was planned for the public part that it was accepted under, or the correction is
    refused: none is charged under another description."""
    with api_only.client() as client, ThreadPoolExecutor(12) as pool:
        for _ in range(4):
            made = client.register(bodies.dataset(epsilon=100))

            def correct(total: int, dataset: str = made["id"]) -> tuple[int, str]:
                with api_only.http() as http:
                    return refused(patch(http, dataset, public={"max_total": total}))

            def submit(epsilon: float, dataset: str = made["id"]) -> str:
                with api_only.client() as other:
                    return str(other.submit(bodies.job(dataset, epsilon))["id"])

            corrections = [pool.submit(correct, 5000 + number) for number in range(6)]
            submissions = [pool.submit(submit, 0.01 * (1 + number)) for number in range(6)]
            answers = [one.result() for one in corrections]
            jobs = [one.result() for one in submissions]  # all are accepted, planned anew or not
            assert {code for status, code in answers if status != 200} <= {
                "released",
                "dataset_changed",
                "too_many_uploads",
            }
            now = client.dataset(made["id"])
            assert now["revision"] == 1 + sum(status == 200 for status, _ in answers)
            digest = canonical.digest(now["public"])
            for job in jobs:
                assert client.job(job)["plan"]["public_digest"] == digest
                client.cancel(job)


def test_two_corrections_at_once_lose_nothing(api_only: Installation) -> None:
    with api_only.client() as client, ThreadPoolExecutor(8) as pool:
        made = client.register(bodies.dataset())
        fields = ["max_total", "max_pair", "max_rows"] * 3

        def correct(number: int) -> tuple[str, int]:
            with api_only.http() as http:
                value = 5000 + number
                return fields[number], patch(
                    http, made["id"], public={fields[number]: value}
                ).status_code

        done = list(pool.map(correct, range(len(fields))))
        assert {status for _, status in done} <= {200, 409, 429}
        now = client.dataset(made["id"])
        assert now["revision"] == 1 + sum(status == 200 for _, status in done)
        assert {field for field, status in done if status == 200} == set(now["public"]) - set(
            made["public"]
        )


def test_a_block_is_corrected_with_its_source(api_only: Installation) -> None:
    with api_only.client() as client, api_only.http() as http:
        source = client.sources.create(
            {
                "name": "corrected as a whole",
                "kind": "routing",
                "public": {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60},
                "by": "day",
                "cap": {"epsilon": 1, "delta": 0},
            }
        )
        address = f"/v1/sources/{source['id']}"
        assert http.patch(address, json={"public": {"zones": 4}}).status_code == 200
        row = {"date": "2026-10-01", "period": 0, "origin": 1, "destination": 4, "count": 5}
        block = client.sources.add(source["id"], "2026-10-01", {"trips": [row]})
        alone = patch(http, block["dataset"], public={"max_total": 10})
        assert alone.status_code == 409
        assert f"PATCH {address}" in alone.json()["detail"]
        assert refused(http.patch(address, json={"public": {"zones": 5}})) == (422, "invalid_input")
        tight = http.patch(address, json={"public": {"max_total": 4}})
        assert refused(tight) == (422, "invalid_input")
        assert "block 2026-10-01" in tight.json()["detail"]
        fixed = http.patch(address, json={"public": {"max_total": 10}})
        assert (fixed.status_code, fixed.json()["revision"]) == (200, 3), fixed.text
        assert client.dataset(block["dataset"])["public"]["max_total"] == 10
        problem = {
            "kind": "routing",
            "source": {"id": source["id"], "last": 1},
            "network": bodies.network(),
        }
        job = client.submit({"problem": problem, "privacy": {"epsilon": 0.1}})
        held = http.patch(address, json={"public": {"max_total": 20}})
        assert refused(held) == (409, "released")
        client.cancel(job["id"])
        assert http.patch(address, json={"public": {"max_total": 20}}).status_code == 200
        with pytest.raises(NotFound):
            client.sources.get("src_none")
        key = client.create_key(role="analyst", principal="analyst of sources")["key"]
        with api_only.http(key) as other:
            assert refused(other.patch(address, json={"public": {}})) == (403, "forbidden")
    with api_only.http(api_only.owner_of("strangers to sources")) as http:
        assert refused(http.patch(address, json={"public": {}})) == (404, "not_found")


# Clients ------------------------------------------------------------------------------------------


def test_a_network_whose_zones_stand_in_another_order_is_refused(api_only: Installation) -> None:
    """Zone k is node k: a right answer would be shown at other places."""
    table = {"von": ["Ost", "West"], "nach": ["West", "Nord"], "count": [5, int(next(_numbers))]}
    columns = {"origin": "von", "destination": "nach"}
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    ways = [(1, 2), (2, 3), (3, 1)]
    links = [
        {"tail": tail, "head": head, "free_flow_time": 1, "capacity": 9} for tail, head in ways
    ]
    network = {"nodes": 3, "links": links, "node_names": ["West", "Nord", "Ost"]}
    right = {**network, "node_names": [" Ost ", "West", "Nord"]}
    with api_only.client() as client:

        def add(zones: Any) -> str:
            made = client.datasets.add(
                {**table, "period": [0, 0]},
                kind="routing",
                public={**public, "reader": {"zones": zones}},
                columns=columns,
                cap=1,
                name=f"order {next(_numbers)}",
                other_people=True,
            )
            return str(made["id"])

        def plan(dataset: str, roads: Any) -> Json:
            asked = {"kind": "routing", "dataset": dataset, "network": roads}
            return client.plan(asked, epsilon=0.1)

        body = {"name": f"order {next(_numbers)}", "network": right}
        stored = client.call(operations.add_network(body))["id"]
        for zones in (["Ost", "West", "Nord"], {"Ost": 1, "West": 2, "Nord": 3}):
            dataset = add(zones)
            assert plan(dataset, right)
            assert plan(dataset, {**network, "node_names": None})
            with pytest.raises(InvalidInput, match="in another order: zone 1 must be its node 1"):
                plan(dataset, network)
            with pytest.raises(InvalidInput, match="in another order"):
                client.solve({"kind": "routing", "dataset": dataset, "network": network}, epsilon=1)
            table["count"][1] = int(next(_numbers))
        dataset = add({"network": stored})
        assert plan(dataset, stored)
        assert plan(dataset, right)
        with pytest.raises(InvalidInput, match="zone 1 is 'West' in it, and was ' Ost ' in the"):
            plan(dataset, network)


def test_sdk_and_command_line_correct(api_only: Installation, tmp_path: Path) -> None:
    table = {
        "von": ["a", "b", "a"],
        "nach": ["b", "c", "c"],
        "period": [0, 1, 0],
        "count": [5, 3, int(next(_numbers))],
    }
    columns = {"origin": "von", "destination": "nach"}
    public = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
    reader = {"reader": {"zones": ["a", "b", "c"]}}
    with api_only.client() as client:
        made = client.datasets.add(
            table,
            kind="routing",
            public=public | reader,
            columns=columns,
            cap=1,
            name=f"clients {next(_numbers)}",
            other_people=True,
        )
        assert "max_total" in made["undeclared"]
        fixed = client.datasets.correct(made, {"max_total": 500})
        assert (fixed["revision"], fixed["public"]["max_total"]) == (2, 500)
        assert "max_total" not in fixed["undeclared"]
        other = {"reader": {"zones": ["c", "b", "a"]}}
        again = client.datasets.correct(made["id"], other, table, columns=columns)
        assert (again["revision"], again["public"]) == (3, fixed["public"])
        with pytest.raises(InvalidInput, match="reader decided how the rows were read"):
            client.datasets.correct(made, other)
        with pytest.raises(InvalidInput, match="zones decided how the rows were read"):
            client.datasets.correct(made, {"zones": 4})

        file = tmp_path / "trips.csv"
        rows = zip(*table.values(), strict=True)
        file.write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]))
        server = ["--server", api_only.url, "--key", api_only.owner_key, "--json"]

        def command(*arguments: str) -> Json:
            found = CliRunner().invoke(app, ["dataset", "correct", *arguments, *server])
            assert found.exit_code == 0, found.output
            return dict(json.loads(found.stdout))

        assert command(made["id"], "--set", "max_total=null")["public"] == made["public"]
        named = tmp_path / "zones.csv"
        named.write_text("id,number\na,1\nb,2\nc,4\n")
        sets = ["--set", "zones=4", "--columns", "origin=von,destination=nach"]
        last = command(made["name"], str(file), *sets, "--zones", str(named))
        assert last["public"] == {**made["public"], "zones": 4}
        assert last["revision"] == 5
        plain = tmp_path / "plain.csv"
        plain.write_text("period,origin,destination,count\n0,1,5,7\n")
        own = ["--set", "reader=null", "--set", "columns=null", "--set", "zones=5"]
        assert command(made["id"], str(plain), *own)["public"]["zones"] == 5


def test_the_page_corrects_and_asks_for_the_content(api_only: Installation) -> None:
    with api_only.client() as client, Browser.logged_in(api_only) as browser:
        made = client.register(bodies.dataset())
        address = f"/datasets/{made['id']}/correct"
        shown = browser.get(f"/datasets/{made['id']}")
        assert address in shown.links
        assert "Not declared: max_total" in shown.text
        page = browser.get(address)
        assert page.status == 200
        bound = json.dumps({**made["public"], "max_total": 5000})
        done = browser.submit(page, address, public=bound)
        assert "Corrected." in done.text
        assert client.dataset(made["id"])["public"]["max_total"] == 5000
        wrong = browser.submit(browser.get(address), address, public='{"unit": "request"}')
        assert wrong.status == 422
        zones = json.dumps({**made["public"], "zones": 4})
        asked = browser.submit(browser.get(address), address, public=zones)
        assert asked.status == 422
        assert "zones decided how the rows were read" in asked.text
        file = {"content": ("trips.csv", "period,origin,destination,count\n0,1,4,11\n", "text/csv")}
        looked = browser.submit(asked, f"{address}/read", files=file)
        # A description that is refused is mended at its field: the file is here.
        nowhere = {"rule-zones-network": "net_nowhere"}
        refused = browser.submit(looked, f"{address}/reading", look="yes", **nowhere)
        assert refused.status == 422
        assert "no stored network net_nowhere" in refused.text
        nowhere = {"rule-zones-network": ""}
        last = browser.submit(refused, f"{address}/reading", register="yes", **nowhere)
        assert "Corrected." in last.text
        assert client.dataset(made["id"])["public"] == {**made["public"], "zones": 4}
        job = client.submit(bodies.job(made["id"]))
        held = browser.get(address)
        assert held.status == 409
        assert "cancel it first" in held.text
        client.cancel(job["id"])
        for role in ("analyst", "auditor"):
            key = client.create_key(role=role, principal=f"{role} of pages")["key"]
            with Browser.logged_in(api_only, key) as other:
                assert other.get(address).status == 403

"""The command line as people use it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pydantic import ValidationError

from discreet import cli
from discreet.problems import DATASETS, KINDS
from discreet.settings import Settings
from discreet.usecases import running
from discreet.usecases.services import open_services
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation
from tests.templates import templates


def discreet(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line in this process: what a process of its own takes is mostly its start."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, _with(environment), clear=True),
        mock.patch("sys.stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = cli.run(list(arguments))
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same as a shell runs it: for commands that start servers, and for what a start says."""
    return subprocess.run(
        [sys.executable, "-m", "discreet", *arguments],
        env=_with(environment),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def forked(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """The status of a part of a service that ends by itself, and all that it wrote: in a process of
    its own, which need not import what others have imported."""
    log = tmp_path / "written"
    with log.open("wb") as output:
        process = templates().start(arguments, _with(environment), (), output.fileno())
        status = process.wait(DEADLINE_SECONDS)
    return status, log.read_text()


def _with(environment: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")}
    return {**kept, **environment}


def whole_body(epsilon: float = 0.1) -> dict[str, Any]:
    return {
        "problem": {"kind": "routing", "dataset": bodies.dataset(), "network": bodies.network()},
        "privacy": {"epsilon": epsilon},
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(whole_body()))
    return path


@pytest.mark.long
def test_solve_leaves_a_result_and_a_ledger_and_no_server(file: Path, tmp_path: Path) -> None:
    state, out = tmp_path / "a state", tmp_path / "result.json"
    first = in_a_process("solve", str(file), "--state", str(state), "--out", str(out))
    assert first.returncode == 0, first.stderr
    assert "certificate: epsilon 0.1; neighbouring datasets:" in first.stdout
    assert "epsilon 0.9 of 1" in first.stdout, "what is left"
    answer = json.loads(out.read_text())
    assert answer["certificate"]["guarantee"]["epsilon"] == 0.1
    assert len(answer["result"]["policy"]) == 6
    assert "The 10 busiest of 12 links" in first.stdout
    assert not (state / "ready.json").exists()
    commands = [
        path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.exists()
    ]
    assert not any(
        str(state).encode() in command and b"postgres" in command for command in commands
    )

    file.write_text(json.dumps({**json.loads(file.read_text()), "privacy": {"epsilon": 0.95}}))
    offered = in_a_process("solve", str(file), "--state", str(state))
    assert offered.returncode == 1
    assert "Pay again: --anew" in offered.stderr
    over = in_a_process("solve", str(file), "--anew", "--state", str(state))
    assert over.returncode == 1
    offer, refusal = over.stderr.strip().splitlines()
    job = answer["job"]["id"]
    assert offer == (
        f"{job} released this. Free: discreet ask {job} --set @FILE, with the other fields of this "
        "job."
    )
    assert "the largest request that passes is epsilon 0.9 " in refusal
    assert not (state / "ready.json").exists()


def test_ask_says_what_changes_and_names_what_cannot(
    service: Installation, file: Path, tmp_path: Path
) -> None:
    """Other answers from what one job released, at price 0."""
    out = tmp_path / "result.json"
    server = {"DISCREET_URL": service.url, "DISCREET_KEY": service.owner_key}
    first = discreet("submit", str(file), "--wait", "--out", str(out), "--json", **server)
    assert first.returncode == 0, first.stderr
    answer = json.loads(out.read_text())
    job = answer["job"]["id"]
    asked = discreet("ask", job, "--set", "objective=user_equilibrium", "--out", str(out), **server)
    assert asked.returncode == 0, asked.stderr
    assert f"follows from what {job} released, which was charged epsilon 0.1" in " ".join(
        asked.stdout.split()
    )
    second = json.loads(out.read_text())
    assert second["result"]["demand"] == answer["result"]["demand"]
    assert second["result"]["total_travel_time"] != answer["result"]["total_travel_time"]
    assert second["job"]["name"] == "objective=user_equilibrium"
    wrong = discreet("ask", job, "--set", "method=gradient", **server)
    assert (wrong.returncode, "/problem/method: fixed when" in wrong.stderr) == (1, True)
    assert discreet("ask", job, "--set", "objective", **server).returncode == 2
    named = discreet("ask", job, "--set", "network=roads.json", **server)
    assert named.returncode == 2
    assert "network=@roads.json" in named.stderr

    links = bodies.network()["links"]
    busiest = max(range(len(links)), key=lambda place: answer["result"]["link_flows"][place])
    road = f"{links[busiest]['tail']}->{links[busiest]['head']}"
    values = ["--set", "latency.type=bpr", "--set", "latency.b=0.2"]
    closed = discreet("ask", job, "--close", road, *values, "--out", str(out), **server)
    assert closed.returncode == 0, closed.stderr
    assert f"closed: {road.replace('->', ' → ')}" in closed.stderr
    third = json.loads(out.read_text())
    assert third["result"]["demand"] == answer["result"]["demand"]
    assert third["result"]["link_flows"][busiest] == 0
    assert third["job"]["headline"].startswith("Closing ")
    assert third["job"]["headline"] in " ".join(closed.stdout.split())
    assert "Link time (BPR): free-flow time × (1 + 0.2 (flow/capacity)⁴)." in " ".join(
        closed.stdout.split()
    )
    assert "to total travel time (90 % NI: " in " ".join(closed.stdout.split())
    assert f"The 10 busiest of {len(links)} links" in closed.stdout
    assert third["job"]["price"]["epsilon"] == 0
    assert third["job"]["name"] == "; ".join([f"Without {road}", *values[1::2]])
    unknown = discreet("ask", job, "--close", "Hauptstr.", **server)
    assert (
        unknown.returncode,
        "no link is called 'Hauptstr.'; links are: \"1 → 2\"" in unknown.stderr,
    ) == (1, True)


def test_plan_needs_no_server_and_names_bad_fields(file: Path) -> None:
    planned = discreet("plan", str(file), "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["price"]["epsilon"] == 0.1
    shown = discreet("plan", str(file))
    assert "one trip added or removed" in shown.stdout
    free = (
        "free follow-ups: discreet ask JOB --set FIELD=VALUE, with another objective, latency, "
        "network"
    )
    assert free in " ".join(shown.stdout.split())
    of_persons = whole_body()
    of_persons["problem"]["max_trips_per_person"] = 2
    data = of_persons["problem"]["dataset"]
    data["public"]["unit"] = "person"
    for place, trip in enumerate(data["content"]["trips"]):
        trip["person"] = place // 2
    file.write_text(json.dumps(of_persons))
    assert "neighbouring datasets: " in discreet("plan", str(file)).stdout

    bad = whole_body()
    bad["problem"]["dataset"]["content"]["trips"][3]["count"] = -1
    file.write_text(json.dumps(bad))
    refused = discreet("plan", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "/problem/dataset/content/trips/3/count" in refused.stderr
    file.write_text("{")
    assert "line 1" in discreet("plan", str(file)).stderr


README = (Path(__file__).parents[2] / "README.md").read_text()
PLANS = re.findall(r"^\.venv/bin/discreet (plan .+?) *(?:#.*)?$", README, re.MULTILINE)


@pytest.mark.parametrize("line", PLANS)
def test_plans_of_the_readme_run_as_they_are_printed(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    planned = discreet(*shlex.split(line))
    assert planned.returncode == 0, planned.stderr
    assert "price: epsilon" in planned.stdout


def test_what_no_public_figure_tells_is_said_with_what_would(file: Path) -> None:
    """Neither per cent nor a number of it: what is asked for instead, and what the dataset would
    need."""
    assert len(PLANS) >= 3
    for within in ("5%", "1000000"):
        refused = discreet("plan", str(file), "--within", within)
        assert refused.returncode == 1
        assert (
            "/privacy/accuracy/quantity: nothing is promised about total_travel_time"
            in refused.stderr
        )
        assert (
            "a public max_total of the dataset, the most trips of a period, would tell"
            in refused.stderr
        )
        assert "or of demand, link_flows, as a number (--quantity, --within)" in refused.stderr
    part = discreet("plan", str(file), "--within", "5%", "--quantity", "demand")
    assert "give a number, in trips a period, instead of per cent" in part.stderr
    assert discreet("plan", str(file), "--within", "2", "--quantity", "demand").returncode == 0
    body = json.loads(file.read_text())
    body["problem"]["dataset"]["public"]["max_total"] = 1_000_000
    file.write_text(json.dumps(body))
    assert discreet("plan", str(file), "--within", "5%").returncode == 0


def test_a_plan_for_another_budget_than_the_file_says(file: Path) -> None:
    usual = discreet("plan", str(file), "--preset", "usual")
    assert "privacy: epsilon 1.0, delta 0.0, to be sent with a job" in usual.stdout
    assert "usual is epsilon 1" in usual.stdout
    exact = discreet("plan", str(file), "--epsilon", "0.123456789", "--json")
    assert json.loads(exact.stdout)["price"]["epsilon"] == 0.123456789
    for arguments, code, says in (
        (["--epsilon", "1", "--preset", "usual"], 2, "one of them"),
        (["--epsilon", "much"], 2, "a number is needed"),
        (["--preset", "wild"], 1, "/privacy/preset"),
        (["--within", "5%", "--confidence", "2"], 1, "/privacy/accuracy/confidence"),
    ):
        refused = discreet("plan", str(file), *arguments)
        assert refused.returncode == code, refused.stdout
        assert says in refused.stderr


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_examples_of_all_kinds_can_be_planned(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "example.json"
    path.write_text(json.dumps(KINDS[kind].example()))
    assert discreet("plan", str(path)).returncode == 0


def test_commands_against_a_server(service: Installation, file: Path, tmp_path: Path) -> None:
    server = {"DISCREET_URL": service.url, "DISCREET_KEY": service.owner_key}
    out = tmp_path / "result.json"
    submitted = discreet("submit", str(file), "--wait", "--out", str(out), "--json", **server)
    assert submitted.returncode == 0, submitted.stderr
    job = json.loads(submitted.stdout)["job"]["id"]
    assert job in discreet("jobs", "--json", **server).stdout
    assert json.loads(discreet("result", job, "--json", **server).stdout) == json.loads(
        out.read_text()
    )
    twice = discreet("submit", str(file), **server)  # nobody can be asked whether to pay again
    assert (twice.returncode, twice.stdout) == (1, "")
    assert f"discreet ask {job} --set @FILE asks it again at price 0" in twice.stderr
    budgets = json.loads(discreet("ledger", "show", "--json", **server).stdout)
    assert any(budget["spent"]["epsilon"] == 0.1 for budget in budgets)
    account = next(budget["id"] for budget in budgets if budget["spent"]["epsilon"] == 0.1)
    assert "commit: price charged." in discreet("ledger", "show", account, **server).stdout
    (name,) = {
        one["name"] for budget in budgets for one in budget["datasets"] if budget["id"] == account
    }
    assert "commit: price charged." in discreet("ledger", "show", name, **server).stdout
    assert "no dataset is called nobody" in discreet("ledger", "show", "nobody", **server).stderr
    nightly = discreet("submit", str(file), "--anew", **server)
    assert nightly.returncode == 0, nightly.stderr
    assert nightly.stdout.startswith("job_")

    operator = {**server, "DISCREET_KEY": service.operator_key}
    made = discreet("tenant", "create", "road office", "--json", **operator)
    assert made.returncode == 0, made.stderr
    key = json.loads(
        discreet(
            "key", "create", "--tenant", "road office", "--role", "owner", "--json", **operator
        ).stdout
    )
    theirs = {**server, "DISCREET_KEY": key["key"]}
    assert json.loads(discreet("jobs", "--json", **theirs).stdout) == []
    assert discreet("key", "revoke", key["id"], **operator).returncode == 0
    refused = discreet("jobs", **theirs)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "revoked" in refused.stderr


PUBLIC = json.dumps(bodies.dataset()["public"])
TRIPS = "period,origin,destination,count\n0,1,2,5\n1,2,3,7\n"


def test_datasets_from_files_to_their_end(api_only: Installation, tmp_path: Path) -> None:
    server = {"DISCREET_URL": api_only.url, "DISCREET_KEY": api_only.owner_key}
    trips = tmp_path / "my trips.csv"
    trips.write_text(TRIPS)
    options = ("--kind", "routing", "--public", PUBLIC, "--epsilon", "0.7")
    added = discreet("dataset", "add", str(trips), *options, "--json", **server)
    assert added.returncode == 0, added.stderr
    made = json.loads(added.stdout)
    assert (made["name"], made["kind"], made["mode"]) == ("my trips", "routing", "private")
    with api_only.client() as client:
        assert client.budget(made["account"])["cap"]["epsilon"] == 0.7

    shown = discreet("dataset", "show", made["id"], COLUMNS="80", **server)
    assert made["id"] in shown.stdout
    assert made["account"] in shown.stdout
    listed = discreet("dataset", "list", COLUMNS="80", **server)
    assert made["id"] in listed.stdout
    assert made["id"] in [
        one["id"] for one in json.loads(discreet("dataset", "list", "--json", **server).stdout)
    ]

    # The same content, this time with its metadata in a file, and then as a whole body.
    told = tmp_path / "told.json"
    told.write_text(
        json.dumps(
            {"kind": "routing", "public": json.loads(PUBLIC), "cap": {"epsilon": 0.7, "delta": 0}}
        )
    )
    again = discreet("dataset", "add", str(trips), "--metadata", str(told), "--json", **server)
    assert json.loads(again.stdout)["id"] == made["id"], again.stderr
    whole = tmp_path / "whole.json"
    head, *rows = (line.split(",") for line in TRIPS.split())
    content = {"trips": [dict(zip(head, map(int, row), strict=True)) for row in rows]}
    whole.write_text(
        json.dumps({**json.loads(told.read_text()), "name": "whole", "content": content})
    )
    again = discreet("dataset", "add", str(whole), "--json", **server)
    assert json.loads(again.stdout)["id"] == made["id"], again.stderr

    asked = discreet("dataset", "delete", made["id"], **server)  # nobody answers
    assert asked.returncode == 1
    assert "my trips" in asked.stderr
    assert discreet("dataset", "show", made["id"], **server).returncode == 0
    assert discreet("dataset", "delete", made["id"], "--yes", **server).returncode == 0
    gone = discreet("dataset", "show", made["id"], **server)
    assert (gone.returncode, gone.stdout, len(gone.stderr.splitlines())) == (1, "", 1)


def test_the_same_people_are_charged_on_one_account(api_only: Installation, tmp_path: Path) -> None:
    """Another dataset of the same people has an account and a cap of its own, unless that is said:
    so it is asked."""
    with api_only.client(api_only.operator_key) as operator:
        owner = operator.create_key(
            role="owner", principal="owner", tenant=operator.create_tenant("one office")["id"]
        )
    server = {"DISCREET_URL": api_only.url, "DISCREET_KEY": owner["key"]}

    def add(count: int, *more: str) -> tuple[dict[str, Any], str]:
        trips = tmp_path / f"trips {count}.csv"
        trips.write_text(f"{TRIPS}1,1,3,{count}\n")
        done = discreet(
            "dataset",
            "add",
            str(trips),
            "--kind",
            "routing",
            "--public",
            PUBLIC,
            "--json",
            *more,
            **server,
        )
        assert done.returncode == 0, done.stderr
        said = [one for one in done.stderr.splitlines() if not one.startswith("not declared: ")]
        return json.loads(done.stdout), "\n".join(said)

    first, said = add(1, "--epsilon", "0.5")
    assert said == ""  # nobody else is there
    second, said = add(2, "--epsilon", "0.5")
    assert second["account"] != first["account"]
    assert "trips 1: epsilon 0 of 0.5 spent" in said
    assert (
        f"discreet dataset delete {second['id']}; then add it with --same-people-as {first['id']}"
        in said
    )
    assert discreet("dataset", "delete", second["id"], "--yes", **server).returncode == 0
    second, said = add(2, "--same-people-as", first["id"])
    assert second["account"] == first["account"]
    assert said == "trips 2 is charged on the account of trips 1: epsilon 0 of 0.5 spent"
    granted = discreet(
        "cap", "grant", "trips 2", "--epsilon", "0.8", "--reason", "asked twice", "--json", **server
    )
    assert granted.returncode == 0, granted.stderr
    assert json.loads(granted.stdout)["cap"] == {"epsilon": 0.8, "delta": 0}
    assert add(3, "--epsilon", "0.5", "--other-people")[1] == ""
    assert "For people in the data of two accounts" in discreet("ledger", "show", **server).stdout
    unknown = discreet(
        "dataset",
        "add",
        str(tmp_path / "trips 3.csv"),
        "--kind",
        "routing",
        "--public",
        PUBLIC,
        "--same-people-as",
        "nobody",
        **server,
    )
    assert (unknown.returncode, "no dataset is called nobody" in unknown.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--public", PUBLIC, "--epsilon", "1"], "--kind"),
        (["--kind", "routing", "--epsilon", "1"], "--public"),
        (["--kind", "routing", "--public", PUBLIC], "--epsilon"),
        (["--kind", "routing", "--public", "nowhere.json", "--epsilon", "1"], "--public"),
        (["--kind", "routing", "--public", PUBLIC, "--delta", "1e-6"], "--delta"),
        (["--kind", "routing", "--public", PUBLIC, "--epsilon", "abc"], "--epsilon"),
        (["--kind", "routing", "--public", PUBLIC, "--epsilon", "1", "--delta", "NaN"], "--delta"),
        (["--kind", "routing", "--public", "{zones: 3}", "--epsilon", "1"], "--public"),
        (["--kind", "routing", "--public", __file__, "--epsilon", "1"], "--public"),
    ],
)
def test_a_dataset_that_says_too_little_is_bad_usage(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    trips = tmp_path / "trips.csv"
    trips.write_text(TRIPS)
    refused = discreet(
        "dataset",
        "add",
        str(trips),
        *arguments,
        DISCREET_URL="http://127.0.0.1:9",
        DISCREET_KEY="x",
    )
    assert refused.returncode == 2, refused.stderr
    assert says in refused.stderr


@pytest.mark.parametrize("kind", DATASETS)
def test_who_says_nothing_of_what_is_public_is_told_the_least_that_does(
    tmp_path: Path, kind: str
) -> None:
    trips = tmp_path / "trips.csv"
    trips.write_text(TRIPS)
    refused = discreet(
        "dataset", "add", str(trips), "--kind", kind, "--epsilon", "1", COLUMNS="1000"
    )
    assert refused.returncode == 2
    (least,) = re.findall(r"--public '(\{.*\})'", refused.stderr)
    DATASETS[kind].read_public(json.loads(least))
    page = f"docs/problems/{kind}.md"
    assert page in refused.stderr
    assert (Path(__file__).parents[2] / page).is_file()


def test_cancel_says_what_comes_of_it(api_only: Installation) -> None:
    server = {"DISCREET_URL": api_only.url, "DISCREET_KEY": api_only.owner_key}
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())["id"]
        job = client.submit(bodies.job(dataset, 0.01))["id"]
        done = discreet("cancel", job, **server)
        assert (done.returncode, done.stdout) == (
            0,
            "the job is cancelled; nothing was charged\n",
        ), done.stderr
        again = json.loads(discreet("cancel", job, "--json", **server).stdout)
        assert (again["state"], again["cancel"], again["charge"]) == ("cancelled", "done", "none")

        paid = client.submit(bodies.job(dataset, 0.01))["id"]

        async def run() -> Any:
            async with open_services(api_only.settings) as services:
                held = await running.claim(services, paid)
                assert held is not None
                await running.touch(services, held)
                await running.keep_release(services, held, b"released")
                late = await asyncio.to_thread(discreet, "cancel", paid, **server)
                await running.publish(services, held, b"{}", {})
                return late

        late = asyncio.run(run())
        assert (late.returncode, late.stdout) == (1, "")
        assert late.stderr.startswith("discreet: it is too late")
    nothing = discreet("cancel", "job_nothing", **server)
    assert (nothing.returncode, nothing.stdout) == (1, "")


def test_no_server_is_said_in_one_line(tmp_path: Path) -> None:
    nobody = in_a_process("jobs", "--state", str(tmp_path))
    assert nobody.returncode == 1
    assert "discreet up" in nobody.stderr
    silent = discreet("jobs", DISCREET_URL="http://127.0.0.1:9", DISCREET_KEY="dsc_x")
    assert silent.returncode == 1
    assert "does not answer" in silent.stderr


@pytest.mark.parametrize(
    "arguments", [["solve"], ["solve", "/nowhere.json"], ["nonsense"], ["plan", "--what"]]
)
def test_bad_usage_is_two(arguments: list[str]) -> None:
    assert discreet(*arguments).returncode == 2


@pytest.mark.parametrize("part", ["api", "rpc", "worker"])
def test_a_part_that_cannot_start_says_why_in_one_line(part: str, tmp_path: Path) -> None:
    """The state folder has no secrets."""
    status, written = forked(
        tmp_path,
        part,
        DISCREET_STATE=str(tmp_path),
        DISCREET_DATABASE_URL="postgresql://u:p@127.0.0.1:1/x",
    )
    assert status == 1
    assert written.splitlines() == [
        f"discreet: there is no secrets file at {tmp_path}/secrets.json; `discreet up` makes one"
    ]


def test_settings_that_are_not_valid_are_named_in_one_line() -> None:
    """All that pydantic checks, whatever it checks; a value may hold a password, and is not
    repeated."""
    secret, checked = "a:secret\x7f", set[str]()
    for name in Settings.model_fields:
        variable, given = f"DISCREET_{name.upper()}", dict[str, Any]({name: secret})
        try:
            Settings(**given)
        except ValidationError:
            checked.add(name)
            done = discreet("migrate", **{variable: secret})
            assert done.returncode == 1
            assert done.stderr.startswith(f"discreet: settings that are not valid: {variable}: ")
            assert done.stderr.count("\n") == 1
            assert secret not in done.stderr
    assert {"cluster", "webhook_ports", "workers", "rpc_tls", "help_others"} < checked
    two = discreet("migrate", DISCREET_WORKERS="65", DISCREET_OIDC_NAME="")
    assert two.stderr == (
        "discreet: settings that are not valid: DISCREET_WORKERS: must be at most 64; "
        "DISCREET_OIDC_NAME: must not be empty\n"
    )


def test_a_variable_that_does_nothing_is_named(tmp_path: Path) -> None:
    """Misspelt, or of another version; those of clients are not meant."""
    status, written = forked(
        tmp_path,
        "worker",
        DISCREET_STATE=str(tmp_path),
        DISCREET_WORKR_CONCURRENCY="2",
        DISCREET_ROUTING_CLUSTER="tls://scheduler:8786",
        DISCREET_KEY="a key",
    )
    assert status == 1
    said = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert [line["detail"] for line in said if line["event"] == "unused variable"] == [
        "DISCREET_ROUTING_CLUSTER is not a setting of this version and has no effect;"
        " did you mean DISCREET_CLUSTER?",
        "DISCREET_WORKR_CONCURRENCY is not a setting of this version and has no effect;"
        " did you mean DISCREET_WORKER_CONCURRENCY?",
    ]

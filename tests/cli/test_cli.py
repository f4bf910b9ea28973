"""The command line as people use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discreet.problems import KINDS
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation


def discreet(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")}
    return subprocess.run(
        [sys.executable, "-m", "discreet", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


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


def test_solve_leaves_a_result_and_a_ledger_and_no_server(file: Path, tmp_path: Path) -> None:
    state, out = tmp_path / "a state", tmp_path / "result.json"
    first = discreet("solve", str(file), "--state", str(state), "--out", str(out))
    assert first.returncode == 0, first.stderr
    assert "pure_dp, epsilon 0.1" in first.stdout
    answer = json.loads(out.read_text())
    assert answer["certificate"]["guarantee"]["epsilon"] == 0.1
    assert len(answer["result"]["policy"]) == 6
    assert not (state / "ready.json").exists()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.exists()]
    assert not any(str(state).encode() in command and b"postgres" in command for command in commands)

    file.write_text(json.dumps({**json.loads(file.read_text()), "privacy": {"epsilon": 0.95}}))
    over = discreet("solve", str(file), "--state", str(state))
    assert over.returncode == 1
    assert "the largest request that passes is epsilon 0.9 " in over.stderr
    assert len(over.stderr.strip().splitlines()) == 1


def test_plan_needs_no_server_and_names_bad_fields(file: Path) -> None:
    planned = discreet("plan", str(file), "--json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["price"]["epsilon"] == 0.1
    shown = discreet("plan", str(file))
    assert "one trip added or removed" in shown.stdout

    bad = whole_body()
    bad["problem"]["dataset"]["content"]["trips"][3]["count"] = -1
    file.write_text(json.dumps(bad))
    refused = discreet("plan", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "/problem/dataset/content/trips/3/count" in refused.stderr
    file.write_text("{")
    assert "line 1" in discreet("plan", str(file)).stderr


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
    assert json.loads(discreet("result", job, "--json", **server).stdout) == json.loads(out.read_text())
    budgets = json.loads(discreet("ledger", "show", "--json", **server).stdout)
    assert any(budget["spent"]["epsilon"] == 0.1 for budget in budgets)
    account = next(budget["id"] for budget in budgets if budget["spent"]["epsilon"] == 0.1)
    assert "commit" in discreet("ledger", "show", account, **server).stdout

    operator = {**server, "DISCREET_KEY": service.operator_key}
    made = discreet("tenant", "create", "road office", "--json", **operator)
    assert made.returncode == 0, made.stderr
    key = json.loads(
        discreet("key", "create", "--tenant", "road office", "--role", "owner", "--json", **operator).stdout
    )
    theirs = {**server, "DISCREET_KEY": key["key"]}
    assert json.loads(discreet("jobs", "--json", **theirs).stdout) == []
    assert discreet("key", "revoke", key["id"], **operator).returncode == 0
    refused = discreet("jobs", **theirs)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "revoked" in refused.stderr


def test_no_server_is_said_in_one_line(tmp_path: Path) -> None:
    nobody = discreet("jobs", "--state", str(tmp_path))
    assert nobody.returncode == 1
    assert "discreet up" in nobody.stderr
    silent = discreet("jobs", DISCREET_URL="http://127.0.0.1:9", DISCREET_KEY="dsc_x")
    assert silent.returncode == 1
    assert "does not answer" in silent.stderr


@pytest.mark.parametrize("arguments", [["solve"], ["solve", "/nowhere.json"], ["nonsense"], ["plan", "--what"]])
def test_bad_usage_is_two(arguments: list[str]) -> None:
    assert discreet(*arguments).returncode == 2


@pytest.mark.parametrize("part", ["api", "rpc", "worker"])
def test_a_part_that_cannot_start_says_why_in_one_line(part: str, tmp_path: Path) -> None:
    """The state folder has no secrets."""
    done = discreet(part, DISCREET_STATE=str(tmp_path), DISCREET_DATABASE_URL="postgresql+psycopg://u:p@127.0.0.1:1/x")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"discreet: there is no secrets file at {tmp_path}/secrets.json; `discreet up` makes one"
    ]

"""What whoever operates an agent asks of it: status, history, refusals, a file of options, lines
of a log, exit codes."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet_agent import AgentError
from discreet_agent.cli import FAILED, UNREACHABLE, main
from discreet_agent.federation.errors import Declined
from discreet_agent.stubs import federation_pb2 as pb
from tests.rpc.hostile import Hostile, Listener, end, hostile
from tests.rpc.test_hostile_server import agent_of, spend, take_part
from tests.wheels import AGENT


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as made:
        yield made


def told(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What the command prints; it succeeds."""
    assert main([str(one) for one in arguments]) == 0
    return capsys.readouterr().out


def test_an_agent_says_what_it_gave_and_what_is_left(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = spend(server, tmp_path)
    options = ("--identity", tmp_path / "agent.key", "--limit-epsilon", "2", "--json")
    found = json.loads(told(capsys, "history", *options))
    (job,) = found["jobs"]
    assert (job["job"], job["server"]) == ("job_1", agent.link.server)
    assert (job["epsilon"], job["delta"], job["given_back"]) == ("0.8", "0", False)
    assert (job["rounds"], job["state"]) == (1, "succeeded")
    assert (found["spent"]["epsilon"], found["left"]["epsilon"]) == ("0.8", "1.2")
    status = json.loads(told(capsys, "status", *options))
    assert (status["fingerprint"], status["sessions"]) == (agent.identity.fingerprint, [])
    lines = told(capsys, "history", *options[:-1]).splitlines()
    assert len(lines) == 2
    assert "job_1" in lines[0]
    assert "epsilon 0.8" in lines[0]
    assert lines[1] == "spent epsilon 0.8, delta 0; left epsilon 1.2, delta 0"
    shutil.rmtree(tmp_path / "agent.state")  # the ledger alone says what was charged
    (job,) = json.loads(told(capsys, "history", *options))["jobs"]
    assert (job["epsilon"], job["rounds"], job["state"]) == ("0.8", None, None)


def test_a_running_session_is_in_the_status_and_a_charge_given_back_in_the_history(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    shown: list[dict[str, Any]] = []
    command = ("status", "--identity", tmp_path / "agent.key", "--json")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon="800000000")
        listener.hear()
        shown.append(json.loads(told(capsys, *command)))
        yield end(charged=False)

    server.script = script
    assert not take_part(agent).succeeded
    assert shown[0]["sessions"] == [{"session": "ses_1", "job": "job_1", "rounds": 0}]
    assert shown[0]["spent"]["epsilon"] == "0.8"
    found = json.loads(told(capsys, "history", *command[1:]))
    assert (found["jobs"][0]["given_back"], found["spent"]["epsilon"]) == (True, "0")


@pytest.mark.parametrize("name", ["job_1", "ses_1"])
def test_a_refused_job_is_declined_before_anything_is_charged(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    agent = agent_of(server, tmp_path, "ses_1")
    assert "refused" in told(capsys, "refuse", name, "--identity", tmp_path / "agent.key")

    def script(server: Hostile, listener: Listener) -> Iterator[Any]:
        yield server.start("ses_1", agent.identity, epsilon="1")
        listener.hear()

    server.script = script
    with pytest.raises(Declined, match="job_1 is refused"):
        take_part(agent)
    assert agent.ledger.entries() == []
    assert [said.code for said in server.heard if isinstance(said, pb.Decline)] == ["declined"]


def test_what_was_answered_cannot_be_refused(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spend(server, tmp_path)
    assert main(["refuse", "job_1", "--identity", str(tmp_path / "agent.key")]) == FAILED
    assert "has answered in job_1" in capsys.readouterr().err
    assert not (tmp_path / "agent.state" / "refused").exists()


def test_a_line_a_round(server: Hostile, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "discreet_agent"):
        spend(server, tmp_path)
    assert [record.getMessage() for record in caplog.records] == [
        "job_1 is signed; 1 agents take part",
        "round 1 of 3 answered",
        "the session succeeded",
    ]


def test_a_service_reads_its_options_from_a_file(
    server: Hostile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line counts before the file; a misspelt option is named."""
    (tmp_path / "token").write_text(server.link("ses_1") + "\n")
    problem = '[problem]\nkind = "multi_agent"\nobjective = "x^2"\n'
    config = tmp_path / "agent.toml"
    config.write_text(
        f'identity = "{tmp_path / "agent.key"}"\ntoken_file = "{tmp_path / "token"}"\n'
        f'limit_epsilon = 0.5\npatience = 0.1\nlog = false\nname = "x"\n{problem}'
        "announcement = {lower = 0, upper = 1, radius = 1}\n"
    )
    assert main(["status", "--config", str(config)]) == FAILED
    assert "there is no key" in capsys.readouterr().err
    agent_of(server, tmp_path, "ses_2")
    assert "left epsilon 0.5" in told(capsys, "status", "--config", config)
    assert "left epsilon 3" in told(capsys, "status", "--config", config, "--limit-epsilon", "3")
    config.write_text(config.read_text().replace("patience", "patients"))
    with pytest.raises(SystemExit) as usage:
        main(["run", "--config", str(config)])
    assert usage.value.code == 2
    assert "unknown patients; known: " in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_no_failure_for_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hostile() as server:
        link = server.link("ses_1")
    problem = {"kind": "multi_agent", "announcement": {"lower": 0, "upper": 1, "radius": 1}}
    (tmp_path / "problem.json").write_text(json.dumps(problem))
    options = ["--token", link, "--problem", str(tmp_path / "problem.json"), "--patience", "0.1"]
    assert main([*options, "--identity", str(tmp_path / "agent.key")]) == UNREACHABLE
    assert "Lost: no answer for 0.1 s" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="NO UNIT VERIFIED: no systemd")
def test_the_unit_is_one(tmp_path: Path) -> None:
    """Its program is put where this machine has one: systemd looks whether it is there."""
    unit = tmp_path / "discreet-agent.service"
    text = (AGENT / "discreet-agent.service").read_text()
    program = "/opt/discreet-agent/bin/discreet-agent"
    assert program in text
    unit.write_text(text.replace(program, str(shutil.which("true"))))
    done = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "discreet-agent.service" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_a_name_of_a_job_has_no_spaces(tmp_path: Path) -> None:
    from discreet_agent.accounts import refuse

    for name in ("", "job 1", "job_1\n"):
        with pytest.raises(AgentError, match="names no job"):
            refuse(tmp_path, name)

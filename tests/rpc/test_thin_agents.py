"""What a party installs and loads: agents of both kinds in sessions, with the wheel of the agent in
an environment that holds nothing but what it declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rpc.conftest import AgentProcess, Federation
from tests.rpc.helpers import final
from tests.rpc.test_coupled_qp import PAPER, QpAgent, spec, submit
from tests.wheels import Environment, wheel

COUNTING = """
import json, sys
from discreet_agent.cli import main
status = main(sys.argv[1:])
files = {name: getattr(one, "__file__", None) for name, one in sys.modules.items()}
own = sorted(name for name in files if name.split(".")[0] == "discreet_agent")
lines = {name: sum(1 for _ in open(files[name], encoding="utf-8")) for name in own}
tops = sorted({name.split(".")[0] for name in files})
print(json.dumps({"lines": lines, "tops": tops}), file=sys.stderr)
sys.exit(status)
"""
"""The command, and then what it has loaded."""
FORBIDDEN = {"attr", "discreet", "discreet_client", "gmpy2", "httpx", "phe", "pyarrow", "scipy"}
"""phe as well: these sessions encrypt nothing."""
MOST_LINES = {"multi_agent": 4500, "coupled_qp": 7700, "masked": 8200}
"""Own lines that a session may load, comments and blank lines included; of `coupled_qp` by `auto`
under masks."""
MOST_MEGABYTES = 60.0
"""Installed beside Python and NumPy."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = wheel("discreet_agent", tmp_path_factory.mktemp("wheel"))
    folder = tmp_path_factory.mktemp("alone") / "venv"
    return Environment(folder, ["discreet_agent"], [made])


def test_an_agent_is_small_where_it_is_installed(alone: Environment) -> None:
    assert 20.0 < alone.megabytes() < MOST_MEGABYTES


def loaded(agents: list[AgentProcess], kind: str) -> list[dict[str, Any]]:
    """What agents print, after what they have loaded was looked at."""
    outcomes = []
    for agent in agents:
        status, output, errors = agent.ended()
        assert status == 0, errors
        said = json.loads(errors.splitlines()[-1])
        assert not FORBIDDEN & set(said["tops"])
        assert 3000 < sum(said["lines"].values()) <= MOST_LINES[kind], said["lines"]
        outcomes.append(json.loads(output))
    return outcomes


@pytest.mark.long
def test_a_session_of_coupled_qp(shared: Federation, alone: Environment, tmp_path: Path) -> None:
    body = spec("masking")
    del body["steps"]  # `method: auto`
    job = submit(shared, body)
    agents: list[AgentProcess] = []
    for place, token in enumerate(shared.invite(job, 3)):
        agent = QpAgent(tmp_path / f"{place}", token, PAPER[place])
        agents.append(started(shared, alone, agent))
    shared.joined(job, 3)
    shared.cli("approve", job)
    outcomes = loaded(agents, "coupled_qp")
    assert all(outcome["settled"] for outcome in outcomes)
    assert final(shared, job)["state"] == "succeeded"


@pytest.mark.parametrize("masks", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_session_of_multi_agent(
    shared: Federation, alone: Environment, tmp_path: Path, masks: bool
) -> None:
    count = 4 if masks else 3
    announced: dict[str, Any] = {"lower": 0, "upper": 5, "radius": 0.5}
    body: dict[str, Any] = {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["x1 + x2 + x3 - 3"],
            "schedule": {"gamma": 0.05, "alpha": 0.2, "c1": 0.3333, "c2": 0.25, "iterations": 4},
            "protocol": "federated",
            "federation": {"agents": count, "join_seconds": 500, "round_seconds": 300},
        },
        "privacy": {"epsilon": 1, "delta": 0.01},
    }
    if masks:
        announced["masks"] = "sparse"
        body["problem"] |= {"masks": "sparse", "colluding": 1}
    with shared.client() as client:
        job = str(client.submit(body)["id"])
    limits = ("--limit-epsilon", "2", "--limit-delta", "0.05")
    agents = []
    for place, token in enumerate(shared.invite(job, count), 1):
        own = {"objective": f"(x{place} - 2)^2", "announcement": announced}
        problem = {"kind": "multi_agent", **own}
        folder, options = tmp_path / f"x{place}", ("--name", f"x{place}", *limits)
        agents.append(started(shared, alone, AgentProcess(folder, token, problem, options)))
    shared.joined(job, count)
    shared.approve(job)
    outcomes = loaded(agents, "masked" if masks else "multi_agent")
    assert {outcome["state"] for outcome in outcomes} == {"succeeded"}
    assert final(shared, job)["state"] == "succeeded"


def started(shared: Federation, alone: Environment, agent: AgentProcess) -> AgentProcess:
    """An agent that runs in this environment."""
    agent.command = (str(alone.python), "-c", COUNTING)
    shared.agents.append(agent)
    agent.start()
    return agent

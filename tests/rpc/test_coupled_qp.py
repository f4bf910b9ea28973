"""Coupled quadratic programs between processes: three agents, one operator that can open
nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from pydantic import TypeAdapter

from discreet.ledger.certificates import is_signed
from discreet.problems.coupled_qp.data import AgentData, part_of
from discreet.problems.coupled_qp.exposure import FROM_THE_SERVER
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.problems.federation import ROUNDS_ARE_SEEN
from discreet_client import secure_sum
from discreet_client.agent import Agent, Demands, QuadraticCost
from discreet_client.client import ApiError
from discreet_client.federation import spoken
from discreet_client.federation.errors import AgentError, Refused
from discreet_client.federation.identity import Identity
from discreet_client.priced_rounds import MOST_ROUNDS
from discreet_client.updates import Participant
from tests.conftest import eventually, first_of
from tests.rpc.conftest import ROOT, AgentProcess, Federation
from tests.rpc.helpers import final
from tests.solvers.test_spds import MULTIPLIERS, OPTIMUM, TOLERANCE, by_cvxpy

PAPER: list[dict[str, Any]] = CoupledQp.example()["problem"]["agents"]
PRIMAL = (0.1, 0.016, 0.1)


@dataclass
class QpAgent(AgentProcess):
    """`discreet-agent --problem agent.json` with nothing but the data."""

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True, parents=True)
        path = self.folder / "agent.json"
        path.write_text(
            json.dumps({"kind": "coupled_qp", "demands": {"exposure": "accepted"}, **self.problem})
        )
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")
        }
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "discreet_client.agent.cli", "--problem", str(path)),
                *("--identity", str(self.folder / "agent.key"), *self.options),
            ],
            env={**environment, "DISCREET_TOKEN": self.token},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def spec(scheme: str, iterations: int = 200, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "coupled_qp",
        "operator": {"c": [1, 1], "d": [-1, 1]},
        "agents": {"count": 3, "coupled": 2, "constraints": 2},
        "steps": {"primal": 0.016, "dual": 0.8, "shrink": 0.99, "iterations": iterations},
        "encryption": {"scheme": scheme, "key_bits": 2048},
        "protocol": "federated",
        "federation": {"agents": 3, "join_seconds": 1000.0, "round_seconds": 300.0},
        "exposure": "accepted",
        **changes,
    }


def submit(where: Federation, problem: dict[str, Any]) -> str:
    with where.client() as client:
        return str(client.submit({"problem": problem})["id"])


def join(where: Federation, job: str, data: Sequence[dict[str, Any]] = PAPER) -> list[QpAgent]:
    """The paper's agents, in processes of their own; then the owner signs roster and parameters."""
    agents = []
    for place, token in enumerate(where.invite(job, 3)):
        agent = QpAgent(
            where.folder / f"{job}-{place}", token, {**data[place], "primal": PRIMAL[place]}
        )
        where.agents.append(agent)
        agent.start()
        agents.append(agent)
    where.joined(job, 3)
    where.cli("approve", job)
    return agents


def optimal(outcomes: list[dict[str, Any]]) -> bool:
    found = np.concatenate([outcome["x"] for outcome in outcomes])
    near = float(np.max(np.abs(found - np.concatenate(OPTIMUM)))) < TOLERANCE
    return near and all(
        outcome["multipliers"] == pytest.approx(MULTIPLIERS, abs=TOLERANCE) for outcome in outcomes
    )


@pytest.mark.parametrize("scheme", first_of(["masking", "paillier"]))
def test_three_agents_come_to_the_papers_optimum(shared: Federation, scheme: str) -> None:
    job = submit(shared, spec(scheme))
    agents = join(shared, job)
    outcomes = [agent.outcome() for agent in agents]
    assert optimal(outcomes)
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer = client.result(job)
        checked = client.verify_certificate(answer["certificate"])
        assert checked["valid"]
        assert {"name": "transcript", "holds": True, "detail": "signed by all agents"} in checked[
            "checks"
        ]
    result, certificate = answer["result"], answer["certificate"]
    assert set(result) == {"status", "rounds", "transcript", "evidence", "tables"}
    assert (result["status"], answer["certificate"]["cryptographic"]["settled"]) == (
        "converged",
        True,
    )
    assert all(outcome["settled"] for outcome in outcomes)
    TypeAdapter(CoupledQp.Fields).validate_python(result, strict=True, extra="forbid")
    assert result["rounds"] == 202
    said = (
        "Converged in 202 rounds; each agent holds its part of the optimum if all followed the "
        "protocol"
    )
    assert answer["job"]["headline"] == said
    assert {outcome["transcript"] for outcome in outcomes} == {result["transcript"]}
    assert is_signed(certificate)
    assert certificate["assumptions"].count(ROUNDS_ARE_SEEN) == 1
    assert certificate["guarantee"] == {
        "type": "cryptographic",
        "epsilon": None,
        "delta": None,
        "unit": "agent",
        "neighbours": FROM_THE_SERVER,
    }
    section = certificate["cryptographic"]
    assert (section["scheme"], section["rounds"]) == (scheme, 202)
    # Every agent has signed the transcript with the key that the owner has approved.
    assert secure_sum.unsigned(section) == []
    keys = {Identity.open(agent.folder / "agent.key").public_key.hex() for agent in agents}
    assert set(json.loads(section["roster"])["members"]) == keys == set(section["signatures"])


@pytest.mark.long
def test_an_agent_that_is_killed_goes_on_where_it_was(shared: Federation) -> None:
    job = submit(shared, spec("paillier", iterations=200))
    agents = join(shared, job)
    for beyond in (2, 20, 60):
        eventually(lambda: shared.round_of(job) > beyond, "some rounds were run")  # noqa: B023
        agents[1].kill()
        assert agents[1].process is not None
        assert agents[1].process.returncode == -signal.SIGKILL
        agents[1].start()
    assert optimal([agent.outcome() for agent in agents])
    with shared.client() as client:
        assert secure_sum.unsigned(client.result(job)["certificate"]["cryptographic"]) == []


def test_agents_without_steps_come_to_the_optimum_also_when_one_is_killed(
    shared: Federation,
) -> None:
    """`method: auto`: what an agent has drawn and the prices of all rounds outlive its process."""
    problem = spec("masking")
    del problem["steps"]
    job = submit(shared, problem)
    agents = join(shared, job)
    for beyond in (5, 9):
        eventually(lambda: shared.round_of(job) > beyond, "some rounds were run")  # noqa: B023
        agents[1].kill()
        agents[1].start()
    outcomes = [agent.outcome() for agent in agents]
    found = np.concatenate([outcome["x"] for outcome in outcomes])
    # 1e-4 of the objective, which is flat at its optimum, is about 1e-2 of x.
    assert found == pytest.approx(np.concatenate(OPTIMUM), abs=0.02)
    assert all(outcome["settled"] for outcome in outcomes)
    with shared.client() as client:
        answer = client.result(job)
    assert answer["result"]["status"] == "converged"
    assert answer["result"]["rounds"] == outcomes[0]["rounds"] < 60
    assert secure_sum.unsigned(answer["certificate"]["cryptographic"]) == []
    assert answer["certificate"]["exposure"]["sums"] == 5 * MOST_ROUNDS


def test_agents_keep_the_sets_and_costs_that_they_alone_know(shared: Federation) -> None:
    """`budget`, `polytope` and `terms` in their files. Nobody else is told of them."""
    problem = spec("masking")
    del problem["steps"]
    data = [dict(one) for one in PAPER]
    data[2]["budget"] = {"lower": 0.5, "upper": 0.6}
    data[0]["terms"] = [{"kind": "entropy", "b": -0.1}, {"kind": "piecewise_linear"}]
    data[1]["polytope"] = {"A": [[1, 3]], "b": [0.5]}
    job = submit(shared, problem)
    outcomes = [agent.outcome() for agent in join(shared, job, data)]
    assert sum(outcomes[2]["x"]) == pytest.approx(0.5, abs=1e-6)
    assert np.array([1, 3]) @ outcomes[1]["x"] == pytest.approx(0.5, abs=1e-6)
    agents = TypeAdapter(tuple[AgentData, ...]).validate_python(data)
    operator = (np.array(problem["operator"][name]) for name in ("c", "d"))
    best, _ = by_cvxpy([part_of(agent) for agent in agents], *operator)
    assert np.concatenate([one["x"] for one in outcomes]) == pytest.approx(best, abs=0.02)
    told = json.dumps(final(shared, job)["problem"])
    assert not any(name in told for name in ("budget", "polytope", "terms"))


def test_an_agent_with_an_older_memory_ends_the_job(shared: Federation) -> None:
    """Its folder was restored from a copy: it might answer a round twice, so it answers none."""
    job = submit(
        shared,
        spec("masking", federation={"agents": 3, "join_seconds": 60.0, "round_seconds": 5.0}),
    )
    agents = join(shared, job)
    eventually(lambda: shared.round_of(job) > 5, "some rounds were run")
    (memory,) = (agents[1].folder / "agent.state").glob("*.json")
    copy = memory.read_bytes()
    seen = shared.round_of(job)
    eventually(lambda: shared.round_of(job) > seen + 5, "more rounds were run")
    agents[1].kill()
    memory.write_bytes(copy)
    agents[1].start()
    status, _, errors = agents[1].ended()
    assert status == 1, errors
    ended = final(shared, job)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "agent_declined")


@pytest.mark.long
def test_an_operator_that_is_killed_goes_on_where_it_was(shared: Federation) -> None:
    job = submit(shared, spec("masking"))
    agents = join(shared, job)
    eventually(lambda: shared.round_of(job) > 10, "some rounds were run")
    shared.rpcs[-1].kill()
    shared.rpcs[-1].wait()
    shared.start_rpc()
    assert optimal([agent.outcome() for agent in agents])
    with shared.client() as client:
        assert secure_sum.unsigned(client.result(job)["certificate"]["cryptographic"]) == []


def test_an_agent_whose_memory_is_gone_ends_the_job(shared: Federation) -> None:
    """Killed, and its files lost: it does not answer a round of which it knows nothing, and nothing
    is opened."""
    job = submit(
        shared,
        spec("masking", federation={"agents": 3, "join_seconds": 60.0, "round_seconds": 5.0}),
    )
    agents = join(shared, job)
    eventually(lambda: shared.round_of(job) > 10, "some rounds were run")
    agents[1].kill()
    for path in (agents[1].folder / "agent.state").iterdir():
        path.unlink()
    agents[1].start()
    assert agents[1].ended()[0] == 1
    ended = final(shared, job)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "agent_declined")
    assert [one["cause"] for one in ended["error"]["agents"]] == ["folder_lost"]
    assert [agent.ended()[0] for agent in (agents[0], agents[2])] == [1, 1]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"A_g": [[0, 1]]}, "rows; the owner has signed"),
        ({"upper": 1e12}, "the box is too large"),
    ],
)
def test_an_agent_refuses_what_its_owner_has_not_signed(
    shared: Federation, data: dict[str, Any], says: str
) -> None:
    """Its data do not fit the signed parameters: it says so, and the job ends without an answer."""
    job = submit(shared, spec("masking", iterations=5))
    agents = join(shared, job, [{**PAPER[0], **data}, *PAPER[1:]])
    status, output, errors = agents[0].ended()
    assert (status, output) == (1, "")
    assert says in errors
    ended = final(shared, job)
    assert shared.rounds_of(job) == 0
    assert (ended["state"], ended["error"]["code"]) == ("failed", "agent_declined")
    assert [one["cause"] for one in ended["error"]["agents"]] == ["unfit"]


WITHIN = {"count": 3, "coupled": 2, "constraints": 2, "reach": [2, 10, 1, 1]}
"""How far the rows of the paper's agents reach over their boxes."""


def add_a_million(where: Federation, job: str, token: str, key: Path) -> None:
    """Take part as the paper's third agent, with data that keep the signed reach, and a program
    that adds a million to a row. The owner signs meanwhile."""
    liar = Agent.from_token(token, key)
    liar.enroll()
    where.joined(job, 3)
    where.cli("approve", job)
    contribution = Participant.contribution

    def lie(participant: Participant) -> Any:
        return contribution(participant) + np.array([0, 1e6, 0, 0])

    mine = PAPER[2]
    with (
        mock.patch.object(Participant, "contribution", lie),
        pytest.raises(AgentError, match="sum_out_of_bounds; the sum of round 0 is wrong"),
    ):
        liar.solve(
            A_u=mine["A_u"],
            A_g=mine["A_g"],
            cost=QuadraticCost(np.array(mine["A_q"]), np.array(mine["a_l"])),
            upper=1,
            demands=Demands(exposure="accepted"),
        )


def test_a_million_from_one_agent_ends_the_job_by_what_the_others_sign(
    shared: Federation, tmp_path: Path
) -> None:
    """The owner has signed how far an agent's rows reach. One adds a million to a row all the
    same, in its own program; the others, of the command line, say what they have found."""
    job = submit(shared, spec("masking", agents=WITHIN))
    tokens = shared.invite(job, 3)
    problems = [{**PAPER[place], "primal": PRIMAL[place]} for place in range(3)]
    others = [QpAgent(tmp_path / str(place), tokens[place], problems[place]) for place in (0, 1)]
    for other in others:
        shared.agents.append(other)
        other.start()
    add_a_million(shared, job, tokens[2], tmp_path / "liar.key")
    for other in others:
        status, output, errors = other.ended()
        assert (status, output) == (1, "")
        assert "the session failed: sum_out_of_bounds; the sum of round 0 is wrong" in errors
        assert "is at most" in errors
    ended = final(shared, job)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "sum_out_of_bounds")


def test_an_agent_beyond_the_signed_reach_takes_no_part(shared: Federation) -> None:
    """All come to the optimum in a job in which it says what is true."""
    job = submit(shared, spec("masking", agents=WITHIN))
    agents = join(shared, job, [{**PAPER[0], "upper": 20}, *PAPER[1:]])
    status, output, errors = agents[0].ended()
    assert (status, output) == (1, "")
    assert "this agent's row 0 can reach 4; the owner has signed 2 as the bound for every" in errors
    assert final(shared, job)["error"]["code"] == "agent_declined"
    agents = join(shared, submit(shared, spec("masking", agents=WITHIN)))
    assert optimal([agent.outcome() for agent in agents])


def test_the_thirty_lines(shared: Federation, tmp_path: Path) -> None:
    """`Agent.solve` in this process, beside two agents of the command line."""
    job = submit(shared, spec("masking"))
    tokens = shared.invite(job, 3)
    others = [
        QpAgent(tmp_path / str(place), tokens[place], {**PAPER[place], "primal": PRIMAL[place]})
        for place in (1, 2)
    ]
    for other in others:
        shared.agents.append(other)
        other.start()
    mine = PAPER[0]
    agent = Agent.from_token(tokens[0], tmp_path / "agent.key")
    agent.enroll()
    shared.joined(job, 3)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"problem": spec("masking")}))
    shared.cli("approve", job, "--job", str(file))
    cost = QuadraticCost(np.array(mine["A_q"]), np.array(mine["a_l"]))
    mine_accepts = Demands(exposure="accepted")
    x = agent.solve(
        A_u=mine["A_u"],
        A_g=mine["A_g"],
        cost=cost,
        lower=0,
        upper=1,
        primal=0.1,
        demands=mine_accepts,
    )
    assert x == pytest.approx(OPTIMUM[0], abs=TOLERANCE)
    # Asked again it knows the answer.
    again = Agent.from_token(tokens[0], tmp_path / "agent.key")
    assert again.solve(
        A_u=mine["A_u"], A_g=mine["A_g"], cost=cost, lower=0, upper=1, demands=mine_accepts
    ) == pytest.approx(x)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"agents": {"count": 2, "coupled": 2, "constraints": 2}}, "/problem/agents"),
    ({"agents": PAPER}, "/problem/agents"),
    ({"federation": {"agents": 4}}, "/problem/federation/agents"),
    ({"federation": {"agents": 3, "quorum": 2}}, "/problem/federation/agents"),
    ({"federation": {"agents": 3, "on_missing": "finish"}}, "/problem/federation/on_missing"),
    ({"operator": {"c": [1], "d": [-1, 1]}}, "/problem/operator/c"),
    ({"operator": {"c": [1, 1e11], "d": [-1, 1]}}, "/problem/operator/c/1"),
    ({"agents": {**WITHIN, "reach": [1, 2]}}, "/problem/agents/reach"),
    ({"agents": {**WITHIN, "reach": [1, 1, 1, 1e12]}}, "/problem/agents/reach/3"),
    ({"agents": {**WITHIN, "reach": 1e12}}, "/problem/agents/reach"),
    ({"encryption": {"key_bits": 1024}}, "/problem/encryption/key_bits"),
    ({"steps": {"iterations": 5}}, "/problem/steps"),
    ({"steps": {"primal": [0.1] * 3, "dual": 0.8, "iterations": 5}}, "/problem/steps/primal"),
    ({"noise": {"epsilon": 1, "delta": 1e-6}}, "/problem/noise/clip"),
    ({"noise": {"epsilon": 1, "delta": 1e-6, "clip": 3}}, "/problem/noise"),
]


@pytest.mark.parametrize(("changes", "pointer"), REFUSED, ids=[pointer for _, pointer in REFUSED])
def test_bad_terms_are_refused_by_place(
    shared: Federation, changes: dict[str, Any], pointer: str
) -> None:
    with shared.client() as client, pytest.raises(ApiError) as refused:
        client.submit({"problem": spec("paillier", **changes)})
    assert refused.value.status == 422
    assert refused.value.problem["errors"][0]["pointer"] == pointer


def test_who_does_not_speak_what_a_job_needs_is_refused_by_name(
    shared: Federation, tmp_path: Path
) -> None:
    """Before, such an agent was on the signed roster, and the job ended in its first round."""
    job = submit(shared, spec("paillier"))
    (token,) = shared.invite(job)
    agent = Agent.from_token(token, tmp_path / "agent.key", name="Ward 3", unit="agent")
    agent.speaks = ("discreet/secure-sum/v2", "masking", "spds")
    with pytest.raises(Refused, match="agent Ward 3 does not speak paillier") as refused:
        agent.enroll()
    assert refused.value.code == "not_spoken"
    agent.speaks = spoken.AGENT
    agent.enroll()
    (shown,) = shared.cli("show", job)["agents"]
    assert shown["speaks"] == list(spoken.AGENT)


def test_a_lost_folder_is_named_and_what_was_opened_is_counted(shared: Federation) -> None:
    """An agent is killed, its folder is lost; it declines, everybody is told, and the owner starts
    again without it: of those that remain some sums are open."""
    many = {"count": 4, "coupled": 2, "constraints": 2}
    terms = {"agents": 4, "join_seconds": 1000.0, "round_seconds": 300.0}
    job = submit(shared, spec("masking", 100_000, agents=many, federation=terms))
    agents = []
    for place, token in enumerate(shared.invite(job, 4)):
        part = {**PAPER[min(place, 2)], "primal": 0.016}
        part["demands"] = {"exposure": "accepted", "rounds": None}
        agents.append(QpAgent(shared.folder / f"{job}-{place}", token, part))
        shared.agents.append(agents[-1])
        agents[-1].start()
    shared.joined(job, 4)
    shared.cli("approve", job)
    eventually(lambda: shared.round_of(job) >= 8, "sums are open")
    lost = agents[3]
    lost.kill()
    shutil.rmtree(lost.folder / "agent.state")
    lost.start()
    status, _, says = lost.ended()
    assert status == 1
    assert "FolderLost" in says
    error = final(shared, job)["error"]
    assert error["code"] == "agent_declined"
    assert [(one["fingerprint"], one["cause"]) for one in error["agents"]] == [
        (lost.fingerprint, "folder_lost")
    ]
    for agent in agents[:3]:
        _, _, says = agent.ended()
        assert f"agent {lost.fingerprint[:16]}: folder_lost" in says
    made = shared.cli("again", job)
    before = shared.cli("show", made["job"])["opened_before"]
    assert before["jobs"] == 1
    assert before["numbers"] >= 4 * 5
    assert before["for_each_agent"] == before["numbers"] / 4

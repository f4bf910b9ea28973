"""Coupled quadratic programs on secret shares between processes: agents that compute among
themselves, and a service that brings them together and sees nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.ledger.certificates import is_signed
from discreet_agent.cli import NOT_SETTLED
from discreet_agent.federation.evidence import unsigned
from discreet_agent.federation.identity import Identity
from discreet_agent.mpc import evidence
from discreet_agent.mpc.terms import PROTOCOL, Terms
from discreet_client.client import ApiError
from tests.clients.mpc.over_time import OverTime
from tests.clients.mpc.parties import Instance, asked
from tests.rpc.conftest import AgentProcess, Federation, free_port
from tests.rpc.helpers import final

ROUND_SECONDS = 200.0


def spec(instance: Instance | OverTime, **changes: Any) -> dict[str, Any]:
    terms = instance.terms
    return {
        "kind": "coupled_qp",
        "protocol": "mpc",
        **asked(instance),
        "agents": {
            "count": terms.agents,
            "coupled": terms.hours if terms.coupled else 0,
            "constraints": terms.hours if terms.limited else 0,
        },
        "federation": {
            "agents": terms.agents,
            "join_seconds": 1000.0,
            "round_seconds": ROUND_SECONDS,
        },
        **changes,
    }


def problem_of(instance: Instance | OverTime, place: int, **changes: Any) -> dict[str, Any]:
    """The file of one agent."""
    data = {name: np.asarray(value).tolist() for name, value in instance.agent(place).items()}
    if "budget" in data:
        data["budget"] = dict(zip(("lower", "upper"), data["budget"], strict=True))
    return {
        "kind": "coupled_qp",
        "protocol": "mpc",
        "listen": f"127.0.0.1:{free_port()}",
        **data,
        **changes,
    }


def submit(where: Federation, problem: dict[str, Any]) -> str:
    with where.client() as client:
        return str(client.submit({"problem": problem})["id"])


def join(
    where: Federation, job: str, instance: Instance | OverTime, **changes: Any
) -> list[AgentProcess]:
    """All agents, in processes of their own, enrolled; nobody has signed yet."""
    count = instance.terms.agents
    agents = []
    for place, token in enumerate(where.invite(job, count)):
        agent = AgentProcess(
            where.folder / f"{job}-{place}", token, problem_of(instance, place, **changes)
        )
        where.agents.append(agent)
        agent.start()
        agents.append(agent)
    where.joined(job, count)
    return agents


def test_agents_come_to_the_joint_optimum_and_nobody_sees_anything_else(shared: Federation) -> None:
    instance = Instance.draw(4, 3, 4)
    job = submit(shared, spec(instance))
    agents = join(shared, job, instance)
    shared.cli("approve", job)
    outcomes = [agent.outcome() for agent in agents]
    x = np.array([outcome["x"] for outcome in outcomes])
    best = instance.objective(instance.by_clarabel())
    assert instance.objective(x) == pytest.approx(best, abs=1e-4 * abs(best))
    assert instance.violation(x) <= 1e-4 * instance.terms.reach
    for outcome in outcomes:
        assert outcome["settled"]
        assert (outcome["security"], outcome["threshold"]) == (evidence.SECURITY, 1)
        assert outcome["assumptions"] == list(evidence.assumptions(instance.terms))
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer = client.result(job)
        checked = client.verify_certificate(answer["certificate"])
        receipts = [one["receipt"] for one in client.session(job)["agents"]]
    assert checked["valid"]
    assert {"name": "transcript", "holds": True, "detail": "signed by all agents"} in checked[
        "checks"
    ]
    result, certificate = answer["result"], answer["certificate"]
    assert set(result) == {"status", "rounds", "transcript", "evidence", "tables"}
    assert (result["status"], result["rounds"]) == ("converged", 0)
    assert answer["job"]["headline"].startswith("Computed on secret shares; ")
    assert is_signed(certificate)
    section = certificate["cryptographic"]
    assert (section["protocol"], section["security"], section["threshold"]) == (
        PROTOCOL,
        evidence.SECURITY,
        1,
    )
    assert certificate["guarantee"]["type"] == "cryptographic"
    assert any(
        one.startswith("honest majority: at most 1 of the 3") for one in certificate["assumptions"]
    )
    assert unsigned(section) == []
    keys = {Identity.open(agent.folder / "agent.key").public_key.hex() for agent in agents}
    assert {one["key"] for one in section["members"]} == keys == set(section["signatures"])
    # What else was said in the agents' names is found out.
    first = section["members"][0]["key"]
    assert set(unsigned({**section, "settled": False})) == keys
    assert unsigned({**section, "signatures": {**section["signatures"], first: "00" * 64}}) == [
        first
    ]
    assert all(receipts)  # each has booked the session in its own ledger, and signed that


@pytest.mark.long
def test_agents_whose_hours_are_coupled(shared: Federation) -> None:
    """Budgets and costs over time, by steps of ADMM: the same roster, signatures and receipts. Of
    four agents three compute, whichever come first on the roster."""
    instance = OverTime.draw(2, 4, 3)
    instance.iterations, instance.typical = 40, instance.usual_curvature
    body = spec(instance)
    with shared.client() as client:
        plan = client.plan({"problem": body})["plan"]
    assert plan["iterations"]["steps"] == 40
    assert "no sum is opened" in plan["exposure"]["sentence"]
    assert "what 40 steps have come to" in plan["exposure"]["sentence"]
    assert "2 of the 3 agents that compute find out everything" in plan["exposure"]["sentence"]
    assert any("1 of 3 agents that compute for all 4" in one for one in plan["advice"])
    job = submit(shared, body)
    agents = join(shared, job, instance)
    shared.cli("approve", job)
    outcomes = [agent.outcome() for agent in agents]
    x = np.array([outcome["x"] for outcome in outcomes])
    best = instance.objective(instance.by_clarabel())
    assert instance.objective(x) == pytest.approx(best, abs=1e-4 * abs(best))
    assert instance.violation(x) <= 1e-4 * instance.terms.reach
    assert instance.keeps(x)
    for outcome in outcomes:
        assert outcome["settled"]
        assert outcome["assumptions"] == list(evidence.assumptions(instance.terms))
        assert outcome["reveals"] == evidence.reveals(instance.terms)["agents"]
        assert (outcome["threshold"], outcome["computing"]) == (1, 3)
    assert any("at most 1 of the 3 agents that" in one for one in outcomes[0]["assumptions"])
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer = client.result(job)
        told = json.dumps([answer, client.session(job), client.job(job)])
        receipts = [one["receipt"] for one in client.session(job)["agents"]]
        assert client.verify_certificate(answer["certificate"])["valid"]
    assert all(receipts)
    section = answer["certificate"]["cryptographic"]
    assert unsigned(section) == []
    assert section["terms"] == instance.terms.fields
    assert answer["result"]["status"] == "converged"
    for place, budget in enumerate(instance.budgets):
        own = [*outcomes[place]["x"], *instance.slope[place], *(budget or ())]
        assert not any(repr(float(number))[:10] in told for number in own)


def test_nothing_of_an_agents_data_or_answer_is_at_the_service(shared: Federation) -> None:
    """The database, as text, holds none of the agents' numbers, and the answers none of each
    other's."""
    instance = Instance.draw(6, 3, 2)
    body = spec(instance)
    for name, factor in (
        ("reach", 1.1),
        ("price", 1.3),
        ("least_curvature", 0.9),
        ("most_curvature", 1.2),
    ):
        body["mpc"][name] *= factor  # public bounds that are nobody's data
    job = submit(shared, body)
    agents = join(shared, job, instance)
    shared.cli("approve", job)
    outcomes = [agent.outcome() for agent in agents]
    with shared.client() as client:
        told = json.dumps([client.result(job), client.session(job), client.job(job)])
    for place, outcome in enumerate(outcomes):
        own = [*outcome["x"], *instance.slope[place], *instance.upper[place], *instance.bend[place]]
        others = json.dumps([one for other, one in enumerate(outcomes) if other != place])
        for number in own:
            if abs(number - round(number, 3)) > 1e-9:  # those with many digits
                assert repr(float(number))[:10] not in told
                assert repr(float(number))[:10] not in others


def test_a_limit_that_cannot_be_kept(shared: Federation) -> None:
    instance = Instance.draw(8, 3, 1)
    assert instance.limit is not None
    instance.limit[0] = 3 * instance.terms.reach
    job = submit(shared, spec(instance))
    agents = join(shared, job, instance)
    shared.cli("approve", job)
    for agent in agents:
        status, output, errors = agent.ended()
        assert (status, json.loads(output)["settled"]) == (NOT_SETTLED, False)
        assert "the limit cannot be kept" in errors
    with shared.client() as client:
        answer = client.result(job)
    assert answer["result"]["status"] == "infeasible"
    assert "the limit cannot be kept in every hour" in answer["job"]["headline"]


def test_an_agent_that_cannot_be_reached_ends_the_job(shared: Federation) -> None:
    """It announces a port at which nothing listens: in the others' time, with a code that says what
    happened."""
    instance = Instance.draw(4, 3, 1)
    job = submit(
        shared,
        spec(instance, federation={"agents": 3, "join_seconds": 1000.0, "round_seconds": 24.0}),
    )
    agents = join(shared, job, instance, address=f"127.0.0.1:{free_port()}")
    shared.cli("approve", job)
    ended = final(shared, job)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "computation_broken")
    for agent in agents:
        status, output, errors = agent.ended()
        assert (status, output) == (1, "")
        assert "computation_broken" in errors


def test_agents_that_do_not_fit(shared: Federation, tmp_path: Path) -> None:
    """One with no address, and one of the protocol of sums: neither is enrolled, and each is told
    why."""
    instance = Instance.draw(4, 3, 1)
    job = submit(shared, spec(instance))
    for name, changes, says in (
        ("none", {"listen": None}, "listen"),
        (
            "sums",
            {"protocol": "federated", "listen": None},
            "must announce address, certificate and exchange",
        ),
    ):
        problem = {
            key: value
            for key, value in problem_of(instance, 0, **changes).items()
            if value is not None
        }
        agent = AgentProcess(tmp_path / name, shared.invite(job, 1)[0], problem)
        shared.agents.append(agent)
        agent.start()
        status, _, errors = agent.ended()
        assert status == 1
        assert says in errors
    with shared.client() as client:
        assert client.session(job)["agents"] == []
        client.cancel(job)


def test_an_agent_refuses_terms_that_its_data_pass(shared: Federation) -> None:
    """The signed reach is too small for one agent: it says so, answers nothing, and the job ends
    without it."""
    instance = Instance.draw(4, 3, 1)
    body = spec(instance, federation={"agents": 3, "join_seconds": 60.0, "round_seconds": 24.0})
    body["mpc"]["reach"] /= 2
    body["mpc"]["price"] *= 10
    job = submit(shared, body)
    agents = join(shared, job, instance)
    shared.cli("approve", job)
    ends = [agent.ended() for agent in agents]
    assert any(status == 1 and "beyond the signed reach" in errors for status, _, errors in ends)
    ended = final(shared, job)
    assert ended["state"] == "failed"
    assert ended["error"]["code"] in ("computation_broken", "agent_declined")


def test_a_demand_that_more_may_collude(shared: Federation) -> None:
    instance = Instance.draw(4, 3, 1)
    job = submit(
        shared,
        spec(instance, federation={"agents": 3, "join_seconds": 60.0, "round_seconds": 24.0}),
    )
    agents = join(shared, job, instance, demands={"colluding": 2})
    shared.cli("approve", job)
    for agent in agents:
        status, _, errors = agent.ended()
        assert status == 1
        assert "the shares withstand 1 colluding agents; this one asks for 2" in errors


def test_the_owner_compares_with_the_job_file(shared: Federation, tmp_path: Path) -> None:
    """`approve --job` computes terms from the file, and signs no others."""
    instance = Instance.draw(4, 3, 1)
    body = spec(instance)
    job = submit(shared, body)
    agents = join(shared, job, instance)
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"problem": body}))
    shared.cli("approve", job, "--job", str(file))
    assert all(agent.outcome()["settled"] for agent in agents)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"steps": {"iterations": 5}}, "/problem/steps"),
        ({"noise": {"epsilon": 1, "delta": 1e-6}}, "/problem/noise"),
        ({"mpc": None}, "/problem/mpc"),
        ({"encryption": {"scheme": "masking"}}, "/problem/encryption"),
        ({"encryption": {"colluding": 2}}, "/problem/encryption/colluding"),
        ({"federation": None}, "/problem/federation"),
        ({"federation": {"agents": 4}}, "/problem/federation/agents"),
        ({"federation": {"agents": 3, "round_seconds": 1}}, "/problem/federation/round_seconds"),
        ({"federation": {"agents": 3, "on_missing": "finish"}}, "/problem/federation/on_missing"),
        (
            {"agents": {"count": 11, "coupled": 2, "constraints": 2}, "federation": {"agents": 11}},
            "/problem/agents",
        ),
        (
            {
                "operator": {"c": [1], "d": [-1, 1]},
                "agents": {"count": 3, "coupled": 1, "constraints": 2},
            },
            "/problem/operator/d",
        ),
    ],
)
def test_what_is_refused_when_it_is_asked_for(
    shared: Federation, changes: dict[str, Any], pointer: str
) -> None:
    body = spec(Instance.draw(4, 3, 2)) | changes
    with shared.client() as client, pytest.raises(ApiError) as refused:
        client.plan({"problem": {name: value for name, value in body.items() if value is not None}})
    assert refused.value.status in (400, 422)
    assert pointer in [one.pointer for one in refused.value.errors]


def test_the_plan_says_what_it_rests_on(shared: Federation) -> None:
    instance = Instance.draw(4, 3, 2)
    with shared.client() as client:
        plan = client.plan({"problem": spec(instance)})["plan"]
    assert plan["exposure"]["sums"] == 0
    assert "no sum is opened" in plan["exposure"]["sentence"]
    assert "whether" in plan["exposure"]["sentence"]
    said = " ".join(plan["assumptions"])
    for words in ("semi-honest", "honest majority: at most 1 of the 3", "signs the right roster"):
        assert words in said
    terms: Terms = instance.terms
    assert f"{terms.bits} bits a number" in plan["advice"][0]
    assert plan["iterations"]["comparisons"] > 0

"""The cloud multi-agent problem with agents in processes of their own, over TLS."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.numbers import Budget
from discreet_agent.federation import history
from discreet_client.errors import Forbidden
from tests.conftest import eventually
from tests.problems import test_multi_agent_polytopes as polytopes
from tests.rpc.conftest import Federation, federation
from tests.rpc.helpers import entries, final

AGENTS = {
    "x1": "(x1 - 9)^2 + x1",
    "x2": "(x2 + 4)^4",
    "x3": "(x3 - 1)^8",
    "x4": "x4^2 + (x4 + 6)",
    "x5": "(x5 + 3)^6",
    "x6": "(x6 - 7)^2",
    "x7": "(x7 - 5)^2",
}
"""The example of Hale & Egerstedt 2015, Section IV."""
CONSTRAINTS = [
    "x1 + x2 + x3 - 3",
    "x5^2 + 1/12*x6^4 + 1/12*x7^4 - 20",
    "x3^2 + x4 + x6 - 1",
    "x6^2 + x7^2 - 5",
]
ROUNDS = 60


def body(agents: int, **federation_terms: Any) -> dict[str, Any]:
    return {
        "problem": {
            "kind": "multi_agent",
            "constraints": CONSTRAINTS,
            "schedule": {
                "gamma": 0.0005,
                "alpha": 0.2,
                "c1": 0.3333,
                "c2": 0.25,
                "iterations": ROUNDS,
            },
            "protocol": "federated",
            "federation": {
                "agents": agents,
                "join_seconds": 500,
                "round_seconds": 300,
                **federation_terms,
            },
        },
        "privacy": {"epsilon": 1, "delta": 0.01},
    }


@pytest.mark.long
def test_seven_agents_over_tls_and_one_that_is_killed(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    with federation(
        postgres, template, tmp_path / "state", {"DISCREET_RPC_TLS": "always"}
    ) as where:
        with where.client() as client:
            job = str(client.submit(body(7))["id"])
        tokens = where.invite(job, 7)
        limits = ("--limit-epsilon", "2", "--limit-delta", "0.05")
        agents = []
        for token, (name, objective) in zip(tokens, AGENTS.items(), strict=True):
            announcement = {"lower": -10, "upper": 10, "radius": 1}
            fields = {
                "kind": "multi_agent",
                "objective": objective,
                "announcement": announcement,
                "initial": 0,
            }
            agents.append(where.agent(token, "--name", name, *limits, name=name, **fields))
        where.joined(job, 7)
        where.approve(job)
        eventually(lambda: where.round_of(job) >= 5, "rounds go on")
        agents[3].kill()
        agents[3].start()
        outcomes = [agent.outcome() for agent in agents]
        assert final(where, job)["state"] == "succeeded"
        assert {outcome["state"] for outcome in outcomes} == {"succeeded"}
        for one, other in itertools.pairwise(outcomes):
            assert one["multipliers"] == other["multipliers"]
        with where.client() as client:
            answer = client.result(job)
        assert answer["result"]["multipliers"] == outcomes[0]["multipliers"]
        assert {outcome["history"] for outcome in outcomes} == {
            answer["result"]["agreement"]["history"]
        }
        assert all(outcome["unsigned"] == [] for outcome in outcomes)
        with where.client() as client:
            roster = client.session(job)["roster"].encode()
        assert (
            history.unsigned_of_result(answer["result"]["agreement"], answer["certificate"], roster)
            == []
        )
        assert len(answer["result"]["multiplier_path"]) == ROUNDS
        assert "state" not in answer["result"]
        TypeAdapter(MultiAgent.Fields).validate_python(
            answer["result"], strict=True, extra="forbid"
        )
        certificate = answer["certificate"]
        assert certificate["guarantee"]["type"] == "approximate_dp"
        assert certificate["guarantee"]["epsilon"] == 1
        assert certificate["federation"]["agents"] == 7
        charged = entries(where, job)
        assert len(charged) == 7
        assert all(
            kinds == ["open", "reserve", "data_touched", "commit"] for kinds in charged.values()
        )


def test_an_agent_within_a_polytope(shared: Federation) -> None:
    """A battery of three hours beside a fan: the agent ends where its rows allow, with the answer
    and the noise of the job, which are those of the same agents in a dataset."""
    rounds = 8
    schedule = {**body(2)["problem"]["schedule"], "gamma": 0.1, "iterations": rounds}
    asked = body(2)
    asked["problem"] |= {"constraints": polytopes.CONSTRAINTS, "schedule": schedule}
    with shared.client() as client:
        job = str(client.submit(asked)["id"])
    limits = ("--limit-epsilon", "2", "--limit-delta", "0.05")
    figures = {"ev": polytopes.EV, "fan": polytopes.FAN}
    agents = {}
    for token, (name, announcement) in zip(shared.invite(job, 2), figures.items(), strict=True):
        agents[name] = shared.agent(
            token,
            *("--name", name, *limits),
            name=f"{job}-{name}",
            kind="multi_agent",
            objective=polytopes.OBJECTIVES[name],
            announcement=announcement,
        )
    shared.joined(job, 2)
    shared.approve(job)
    outcomes = {name: agent.outcome() for name, agent in agents.items()}
    assert final(shared, job)["state"] == "succeeded"
    with shared.client() as client:
        answer = client.result(job)
    for outcome in outcomes.values():
        assert outcome["multipliers"] == answer["result"]["multipliers"]
        assert outcome["history"] == answer["result"]["agreement"]["history"]
        assert outcome["unsigned"] == []
    rows: Any = polytopes.EV["polytope"]
    x = np.array(outcomes["ev"]["x"])
    assert (np.array(rows["A"]) @ x <= np.array(rows["b"]) + 1e-9).all()
    assert np.array(rows["C"]) @ x == pytest.approx(rows["d"], abs=1e-9)
    assert ((x >= 0) & (x <= 4)).all()
    alone = polytopes.problem(schedule=schedule)
    plan = alone.plan(polytopes.public(), Budget(epsilon=10**9, delta=10**16))
    (event,), (charged,) = plan.events, answer["certificate"]["events"]
    assert charged["scale"] == event.scale


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("constraints", ["x1 +"], "/problem/constraints/0"),
        ("dataset", "dst_x", "/problem"),
        ("federation", None, "/problem"),
        (
            "schedule",
            {"gamma": 1, "alpha": 1, "c1": 0.2, "c2": 0.3, "iterations": 5},
            "/problem/schedule",
        ),
    ],
)
def test_bad_federated_jobs_name_the_field(
    shared: Federation, field: str, value: Any, pointer: str
) -> None:
    asked = body(7)
    asked["problem"][field] = value
    with shared.http() as http:
        answer = http.post("/v1/jobs", json=asked, headers={"Idempotency-Key": f"bad {field}"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)


def test_agents_with_bad_figures_are_refused_when_they_enrol(shared: Federation) -> None:
    with shared.client() as client:
        job = str(client.submit(body(7))["id"])
    (token,) = shared.invite(job, 1)
    fields = {
        "kind": "multi_agent",
        "objective": "(x1 - 9)^2",
        "announcement": {"lower": 1, "upper": 0, "radius": 1},
    }
    agent = shared.agent(token, "--name", "x1", "--limit-delta", "0.05", name="x1", **fields)
    status, _, errors = agent.ended()
    assert status == 1
    assert "lower must be below upper" in errors
    with shared.client() as client:
        client.cancel(job)


def test_only_an_agent_raises_its_own_limits(shared: Federation) -> None:
    """A roster over them is refused with whose limits bind and who can raise them; an owner cannot,
    whatever the role allows."""
    with shared.client() as client:
        job = str(client.submit(body(7))["id"])
    (token,) = shared.invite(job, 1)
    fields = {
        "kind": "multi_agent",
        "objective": "(x1 - 9)^2",
        "announcement": {"lower": -10, "upper": 10, "radius": 1},
    }
    agent = shared.agent(token, "--name", "x1", "--limit-delta", "0.01", name="tight", **fields)
    shared.joined(job, 1)
    with shared.client() as client:
        (member,) = client.session(job)["agents"]
        (account,) = (one for one in client.budgets() if one["subject"] == member["fingerprint"])
        with pytest.raises(Forbidden, match="only the agent can raise these limits"):
            client.grant(account["id"], epsilon=5, delta=0, reason="more")
        with pytest.raises(Forbidden, match="only the agent can raise these limits"):
            client.request_budget(account["id"], epsilon=5, reason="more")
        assert client.budget(account["id"])["cap"] == account["cap"]
        client.cancel(job)
    agent.kill()

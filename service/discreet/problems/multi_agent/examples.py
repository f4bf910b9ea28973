"""The example of the kind, which is small and really runs, and further inputs for rehearsals and
attacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours
from discreet.problems.contents import pack, unpack
from discreet.problems.federation import FederatedProblem, Member
from discreet.problems.multi_agent import masked
from discreet.problems.multi_agent.dataset import MAX_CONSTRAINTS, MultiAgentPublic
from discreet.problems.multi_agent.request import MultiAgentRequest
from discreet.problems.multi_agent.session import STATE
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet_agent.federation import history, signing

MADE_UP = (
    "The constraints are made up: put those that your agents share in their place, each an "
    "expression that is to be at most 0, and step sizes that fit."
)
MOST_IN_A_SUM = 100
"""The most agents of one constraint of an example: this many names fit in its text."""


def example() -> dict[str, Any]:
    """Two synthetic neighbours share a feeder: each wants power, and together they may take 4."""
    return {
        "problem": {
            "kind": "multi_agent",
            "dataset": {
                "name": "synthetic neighbours",
                "kind": "multi_agent",
                "public": {
                    "unit": "trajectory",
                    "agents": [
                        {"name": "left", "lower": 0, "upper": 5, "radius": 0.5},
                        {"name": "right", "lower": 0, "upper": 5, "radius": 0.5},
                    ],
                },
                "content": {"objectives": {"left": "(left - 3)^2", "right": "2 * (right - 4)^2"}},
                "cap": {"epsilon": 10, "delta": 1e-2},
            },
            "constraints": ["left + right - 4", "0.1 * left^2 + 0.1 * right^2 - 2"],
            "schedule": {
                "gamma": 0.05,
                "alpha": 0.05,
                "c1": 0.3333,
                "c2": 0.25,
                "iterations": 2000,
            },
        },
        "privacy": {"epsilon": 1, "delta": 1e-3},
    }


def example_for(public: MultiAgentPublic) -> dict[str, Any]:
    """Agents together stay below three quarters of their ranges, in groups that fit in one
    constraint."""
    body = example()
    del body["problem"]["dataset"]
    constraints = []
    count = len(public.names)
    for first in range(0, count, max(MOST_IN_A_SUM, -(-count // MAX_CONSTRAINTS))):
        names = public.names[first : first + max(MOST_IN_A_SUM, -(-count // MAX_CONSTRAINTS))]
        # Agents' sets have a point below: the nearest one to their lower ends.
        least, largest = (sum(ends[name] for name in names) for ends in _ends(public))
        most = least + 0.75 * (largest - least) if largest > least else least + 1
        constraints.append(f"{' + '.join(names)} {'-' if most >= 0 else '+'} {abs(most):.6g}")
    problem = {**body["problem"], "constraints": constraints}
    return {"problem": problem, "privacy": {"epsilon": 1, "delta": "auto"}}


def _ends(public: MultiAgentPublic) -> list[dict[str, float]]:
    """The value of every coordinate in the state nearest to the lower ends, and nearest to the
    upper ends."""
    found: list[dict[str, float]] = [{}, {}]
    for agent in public.agents:
        for place, end in enumerate((agent.lowers(), agent.uppers())):
            found[place] |= dict(zip(agent.coordinates, agent.projected(end).tolist(), strict=True))
    return found


def worst_cases(kind: type[FederatedProblem]) -> tuple[Neighbours, ...]:
    """One agent whose state differs by its radius in the only step; outputs differ by as much, one
    of them or many."""
    body = kind.example()
    public = MultiAgentPublic.model_validate(body["problem"]["dataset"]["public"])
    cases = []
    for name, constraints in (
        ("one output", ["left + right - 4"]),
        (
            "many outputs",
            [
                "left + right - 4",
                "2 * left - right - 9",
                "left^2 - right - 20",
                "right - 2 * left - 3",
            ],
        ),
    ):
        problem = kind.model_validate(
            {
                **body["problem"],
                "dataset": "example",
                "constraints": constraints,
                "schedule": {**body["problem"]["schedule"], "iterations": 1},
            }
        )
        plan = problem.plan(public, Budget(epsilon=6 * 10**9, delta=10**13))
        _, _, high = plan.parameters["box"][0]
        contents = [
            {"objectives": np.array(["0", "0"]), "initial": np.array([at, 1.0])}
            for at in (high - 0.5, high)
        ]
        cases.append(
            Neighbours(f"multi_agent, {name}", problem, public, plan, contents[0], contents[1])
        )
    return *cases, _worst_vector(kind), _worst_polytope(kind)


def _worst_vector(kind: type[FederatedProblem]) -> Neighbours:
    """An agent of four coordinates within a budget that moves all of them alike, by its radius in
    l2: their sum moves by twice that, and the sum of their squares by as much as it can."""
    return _worst_set(
        kind, "a vector", {"upper": 3, "budget": {"lower": 2, "upper": 12}}, largest=3, most=90
    )


def _worst_polytope(kind: type[FederatedProblem]) -> Neighbours:
    """The same in a polytope: all coordinates are alike, and the first is 2 at most. Its corner is
    inside the box, for which there would be more noise."""
    alike = [[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]]
    rows = {"A": [[2, 0, 0, 0]], "b": [4], "C": alike, "d": [0, 0, 0]}
    return _worst_set(kind, "a polytope", {"upper": 5, "polytope": rows}, largest=2, most=40)


def _worst_set(
    kind: type[FederatedProblem], name: str, within: dict[str, Any], largest: float, most: float
) -> Neighbours:
    """An agent of four coordinates within a set, whose corner all four at `largest` are, moves to
    it by its radius. `most`: what the squares stay below in public."""
    agents = [
        {"name": "left", "dimension": 4, "lower": 0, "radius": 0.5, **within},
        {"name": "right", "lower": 0, "upper": 5, "radius": 0.5},
    ]
    public = MultiAgentPublic.model_validate({"unit": "trajectory", "agents": agents})
    total = " + ".join(public.agents[0].coordinates)
    squares = " + ".join(f"{name}^2" for name in public.agents[0].coordinates)
    body = kind.example()["problem"]
    constraints = [f"{total} + right - 18", f"{squares} - right - {most}"]
    schedule = {**body["schedule"], "iterations": 1}
    problem = kind.model_validate(
        {**body, "dataset": "example", "constraints": constraints, "schedule": schedule}
    )
    plan = problem.plan(public, Budget(epsilon=6 * 10**9, delta=10**13))
    starts = [np.array([*[at] * 4, 1.0]) for at in (largest - 0.25, largest)]
    contents = [{"objectives": np.array(["0", "0"]), "initial": start} for start in starts]
    return Neighbours(f"multi_agent, {name}", problem, public, plan, contents[0], contents[1])


def rehearse_session(kind: type[FederatedProblem]) -> None:
    body = kind.example()["problem"]
    figures = body.pop("dataset")["public"]["agents"]
    schedule = {**body["schedule"], "iterations": 2}
    terms = {"agents": len(figures)}
    problem = kind.model_validate(
        {**body, "schedule": schedule, "protocol": "federated", "federation": terms}
    )
    names = [one.pop("name") for one in figures]
    members = [
        Member(signing.fingerprint(name.encode()), name, bytes(32), one)
        for name, one in zip(names, figures, strict=True)
    ]
    plan = problem.plan_federation(members, Budget(epsilon=10**9, delta=10**15))
    session = problem.open_session(plan, members)
    session.opening(Noise.secure())
    for number in range(session.rounds):
        answer = STATE.pack(1.0) if number < session.rounds - 1 else bytes(history.SIGNATURE_BYTES)
        session.step(number, {member.fingerprint: answer for member in members}, Noise.secure())
        session.restore(session.state())
    released = unpack(pack(session.released()))
    problem.finish(
        None, Plan.model_validate_json(plan.model_dump_json()), released, lambda step, total: None
    )
    masked.rehearse(kind, schedule)


def otherwise(problem: MultiAgentRequest) -> dict[str, dict[str, Any]]:
    """Another value of each field of the request."""
    first, *others = problem.constraints
    schedule = problem.schedule.model_dump()
    return {
        "constraints": {"constraints": [f"{first} - 0.5", *others]},
        "schedule": {"schedule": {**schedule, "gamma": schedule["gamma"] / 2}},
        "uncertainty": {"uncertainty": not problem.uncertainty},
    }

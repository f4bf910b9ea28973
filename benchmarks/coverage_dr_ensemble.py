"""Cases of coverage: demand response on synthetic chains of several kinds, with and without what
helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.coverage import Case, Floats, Silent
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.dr_ensemble import estimates
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan

STATES, STEPS = 6, 96
EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)
CHAINS = ("sticky", "neighbours only", "lively", "one seldom")
PARTICIPANTS = (120, 1000)
SELDOM = 60
"""Times as many releases of 1,000 loads hardly ever in one state: most say nothing of the load
under control."""
OTHERS = range(1, 5)
"""Seeds of more chains like it, told of together."""
DAYS = 20
"""Times as many releases of loads that follow the day."""


def chain(kind: str, states: int, rng: np.random.Generator) -> Floats:
    """A transition matrix float64[n, n] of loads that mostly stay, move by one state, or anywhere;
    or that are hardly ever in the last state."""
    if kind == "sticky":
        return 0.6 * np.eye(states) + 0.4 * rng.dirichlet(np.full(states, 0.5), states)
    if kind == "lively":
        return rng.dirichlet(np.full(states, rng.uniform(0.2, 1.5)), states)
    matrix = np.zeros((states, states))
    for state in range(states):
        near = range(max(0, state - 1), min(states, state + 2))
        matrix[state, near] = rng.dirichlet(np.ones(len(near)))
    if kind == "one seldom":
        matrix = 0.998 * matrix + 0.002 * np.eye(states)[[-1] * states]
        matrix[-1], matrix[-2, -1] = np.eye(states)[-2], 0.002
        matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


def trajectories(
    matrix: Floats, participants: int, steps: int, rng: np.random.Generator
) -> list[list[int]]:
    """State sequences of so many loads, which begin anywhere."""
    cumulated = matrix.cumsum(axis=1)
    found = np.empty((participants, steps), dtype=np.int64)
    states = np.flatnonzero(matrix.sum(axis=0) > 0.1)  # not where loads hardly ever are
    found[:, 0] = rng.choice(states, participants, p=rng.dirichlet(np.ones(states.size)))
    for step in range(1, steps):
        u = rng.random(participants)[:, None]
        found[:, step] = np.minimum(
            (u > cumulated[found[:, step - 1]]).sum(axis=1), len(matrix) - 1
        )
    rows: list[list[int]] = found.tolist()
    return rows


def problem(states: int = STATES, **fields: Any) -> DrEnsemble:
    """A day of 24 steps with a dear evening."""
    return DrEnsemble.model_validate(
        {
            "kind": "dr_ensemble",
            "dataset": "dst_x",
            "power": np.linspace(0, 5, states).tolist(),
            "price": [0.2] * 14 + [1.0] * 5 + [0.2] * 5,
            "discomfort_weight": 1.0,
            "initial": [1 / states] * states,
            **fields,
        }
    )


def case(
    kind: str,
    participants: int,
    epsilon: float,
    seed: int = 0,
    delta: int = 0,
    known: bool = True,
    **fields: Any,
) -> Case:
    """known: whether the numbers of participants and steps are public."""
    rng = np.random.default_rng([seed, CHAINS.index(kind), participants])
    support: Any = "all"
    if kind == "neighbours only":
        support = [(b, a) for b in range(STATES) for a in range(STATES) if abs(a - b) <= 1]
    extra = {"participants": participants, "steps": STEPS} if known else {}
    public = {"unit": "participant", "states": STATES, "support": support, **extra}
    rows = trajectories(chain(kind, STATES, rng), participants, STEPS, rng)
    said = f"{kind}, {participants:,} loads" + (f", delta {delta / 1e18:g}" if delta else "")
    said += "" if known else ", neither n nor steps public"
    said += "".join(f", {name} {value}" for name, value in fields.items())
    return case_of(said, public, rows, epsilon, delta, **fields)


def case_of(
    said: str,
    part: dict[str, Any],
    rows: list[list[int]],
    epsilon: float,
    delta: int = 0,
    **fields: Any,
) -> Case:
    """Of these state sequences."""
    public = DrEnsemblePublic.model_validate(part)
    content = DrEnsembleDataset.read_rows(public, DrEnsembleContent(trajectories=rows))
    asked = problem(
        **{"states": public.states, "initial": [1 / public.states] * public.states, **fields}
    )
    plan = asked.plan(public, Budget(epsilon=round(epsilon * 1e9), delta=delta))
    exact = partial(achieved, asked, public, plan, content)
    return Case("dr_ensemble", "counts", said, epsilon, asked, public, plan, content, exact)


def achieved(
    problem: DrEnsemble, public: DrEnsemblePublic, plan: Plan, content: Content, seed: int
) -> dict[str, Any]:
    """What following the signal of the release of this seed achieves on the true loads."""
    released = problem.release(public, plan, content, Noise.seeded(seed))
    signal = problem.finish(public, plan, released, lambda *_: None).to_json()["signal"]
    true = estimates.unnoised(public, plan, problem.diagnose(public, plan, content, Silent()))
    control = problem.control(public, plan)
    start = (
        control.start(true.visits) if problem.initial == "released" else np.array(problem.initial)
    )
    found = control.followed(true.transitions[None], np.array(signal), start)
    return {public.matrix: true.transitions, **{name: one[0] for name, one in found.items()}}


def day_case(epsilon: float) -> Case:
    """1,000 loads whose moves differ in four blocks of the day."""
    rng = np.random.default_rng(48)
    day: dict[str, Any] = {"steps": 48, "blocks": [0, 12, 20, 34]}
    matrices = np.array([chain("sticky", STATES, rng) for _ in day["blocks"]]).cumsum(axis=2)
    block = np.searchsorted(day["blocks"], np.arange(STEPS) % day["steps"], side="right") - 1
    states = rng.integers(0, STATES, (1000, STEPS))
    for step in range(1, STEPS):
        u = rng.random(1000)[:, None]
        drawn = (u > matrices[block[step - 1], states[:, step - 1]]).sum(axis=1)
        states[:, step] = np.minimum(drawn, STATES - 1)
    public = {
        "unit": "participant",
        "states": STATES,
        "steps": STEPS,
        "participants": 1000,
        "day": day,
    }
    return case_of(
        "four blocks of the day, 1,000 loads", public, states.tolist(), epsilon, first_step=14
    )


def cases() -> Iterator[Case]:
    for kind in CHAINS:
        for participants in PARTICIPANTS:
            for epsilon in EPSILONS:
                found = case(kind, participants, epsilon)
                yield replace(
                    found, repeats=SELDOM if (kind, participants) == ("one seldom", 1000) else 1
                )
    for epsilon in EPSILONS:
        for seed in OTHERS:
            found = case("one seldom", 1000, epsilon, seed)
            said = "one seldom, four other chains, 1,000 loads"
            yield replace(found, truth=said, part=seed, repeats=SELDOM // len(OTHERS))
        yield case("sticky", 1000, epsilon, known=False)
        yield case("sticky", 120, epsilon, delta=10**13, clip=0.5)
        yield case("sticky", 1000, epsilon, policy="taylor", concentration=50)
        yield case("lively", 1000, epsilon, initial="released")
        yield replace(day_case(epsilon), repeats=DAYS)

"""The example of the kind, which is small and really runs, and further inputs for rehearsals and
attacks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.problems.base import MOST_ROWS, UNITS, Neighbours, Problem, Synthesis
from discreet.problems.contents import Profile
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.request import DrEnsembleRequest
from discreet.problems.numbers import Budget, Privacy

HOURS = 24
MOST_STEPS = 288
"""Of a day that an example spans: five minutes each."""
SECONDS_A_DAY = 86_400
MOST_CELLS = 1_000_000
"""Of the policy of an example: steps times transitions."""
DAY = {"steps": 3, "blocks": [0, 2]}
EXACT = {"policy": "exact", "concentration": None, "samples": None}
LIMITED = {"limits": {"of": "each", "ramp": 0.2}}
PRIORS = (0, 1, 10, 100, 1000)


def example() -> dict[str, Any]:
    """Eighty synthetic loads that are off, low or high; power is dear in the middle of the day."""
    day = [0, 0, 1, 1, 2, 2, 2, 1, 2, 2, 1, 0]
    trajectories = [
        [max(0, state - ((load + step) % 5 == 0)) for step, state in enumerate(day)]
        for load in range(80)
    ]
    return {
        "problem": {
            "kind": "dr_ensemble",
            "dataset": {
                "name": "synthetic loads",
                "kind": "dr_ensemble",
                "public": {"unit": "participant", "states": 3, "participants": 80, "steps": 12},
                "content": {"trajectories": trajectories},
                "cap": {"epsilon": 10, "delta": 1e-4},
            },
            "power": [0.0, 1.5, 4.0],
            "price": [0.1, 0.1, 0.1, 0.6, 0.6, 0.6, 0.1, 0.1],
            "discomfort_weight": 1.0,
            "initial": [0.5, 0.3, 0.2],
        },
        "privacy": {"epsilon": 1},
    }


def example_for(kind: type[Problem], public: DrEnsemblePublic) -> dict[str, Any]:
    """Power by the public edges, else by the state's number; dear at midday; a prior where draws of
    rows need one."""
    day = _steps_a_day(public)
    horizon = max(2, min(public.steps or day, day, 1 + MOST_CELLS // int(public.mask().sum())))
    dear = range(horizon // 3, horizon - horizon // 3)
    cheap, high = (
        float(f"{price * HOURS / day:.3g}") for price in (0.1, 0.6)
    )  # a kWh, of the part that a step is
    problem = {
        "kind": "dr_ensemble",
        **({} if public.edges else {"power": [float(state) for state in range(public.states)]}),
        "price": [high if step in dear else cheap for step in range(horizon)],
        "discomfort_weight": 1.0,
        "initial": "released",
    }
    privacy = {"epsilon": 1, "delta": "auto"}
    if public.row_change is None:
        return {"problem": problem, "privacy": privacy}
    budget = Privacy.model_validate(privacy).settled(DrEnsembleDataset.most_units(public)).budget
    for prior in PRIORS:
        asked = {**problem, "prior": prior} if prior else problem
        with suppress(InvalidInput):
            kind.model_validate({**asked, "dataset": "example"}).plan(public, budget)
            return {"problem": asked, "privacy": privacy}
    return {"problem": problem, "privacy": privacy}


def _steps_a_day(public: DrEnsemblePublic) -> int:
    """By its blocks or by how often meters are read, as far as that goes up in a day; else
    hours."""
    if public.day is not None:
        steps = public.day.steps
    elif public.meters is not None and SECONDS_A_DAY % public.meters.interval_seconds == 0:
        steps = SECONDS_A_DAY // public.meters.interval_seconds
    else:
        return HOURS
    return steps if 2 <= steps <= MOST_STEPS else HOURS


def worst_cases(kind: type[Problem]) -> tuple[Neighbours, ...]:
    """One participant more, in blocks of the day too, replaced, or beyond the clip; two entries of
    one row moved."""
    fields = {**kind.example()["problem"], "dataset": "example"}
    still, moving = [0] * 5, [1] * 5
    others = [[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    cases = []
    # Policies are post-processing: other ones here so that a rehearsal meets all of their kernels.
    average: dict[str, Any] = {"policy": "average", "concentration": 10}
    sampled, known = {**average, "samples": 2}, {"participants": 3}
    for name, extra, left, right, delta, policy in (
        ("participant added", {"steps": 5}, others, [*others, moving], 0, {}),
        (
            "participant added, in blocks",
            {"steps": 5, "day": DAY},
            others,
            [*others, moving],
            0,
            EXACT | LIMITED,
        ),
        (
            "participant replaced, in blocks, clipped",
            {**known, "day": DAY},
            [*others, still],
            [*others, moving],
            10**13,
            EXACT,
        ),
        ("participant of any length added", {}, others, [*others, moving[:3]], 0, {}),
        (
            "participant replaced",
            {"steps": 5, **known},
            [*others, still],
            [*others, moving],
            0,
            average,
        ),
        ("participant added, clipped", {"steps": 5}, others, [*others, moving], 10**13, {}),
        (
            "participant replaced, clipped",
            known,
            [*others, still],
            [*others, moving],
            10**13,
            sampled,
        ),
    ):
        public = DrEnsemblePublic.model_validate({"unit": "participant", "states": 2, **extra})
        small = {
            **fields,
            "power": [0, 1],
            "initial": [1, 0],
            "clip": 0.3 if delta else None,
            **policy,
        }
        problem = kind.model_validate(small)
        plan = problem.plan(public, Budget(epsilon=(3 if delta else 1) * 10**9, delta=delta))
        one, other = (
            DrEnsembleDataset.read_rows(public, DrEnsembleContent(trajectories=each))
            for each in (left, right)
        )
        cases.append(Neighbours(f"dr_ensemble, counts, {name}", problem, public, plan, one, other))
    floor, change = 0.1, 0.03
    row = [floor + change / 2, floor, 1 - 2 * floor - change / 2]
    moved = [floor, floor + change / 2, 1 - 2 * floor - change / 2]
    end = [0.0, 0.0, 1.0]
    for unit, rows, others_rows in (
        ("row", [row, end, end], [moved, end, end]),
        ("participant", [row, row, end], [moved, moved, end]),
    ):
        support = [
            (origin, to) for origin, part in enumerate(rows) for to in range(3) if part[to] > 0
        ]
        public = DrEnsemblePublic.model_validate(
            {
                "unit": unit,
                "states": 3,
                "min_probability": floor,
                "row_change": change,
                "support": support,
            }
        )
        problem = kind.model_validate(fields)
        plan = problem.plan(public, Budget(epsilon=4 * 10**9, delta=10**13))
        one, other = (
            DrEnsembleDataset.read_rows(public, DrEnsembleContent(transitions=each))
            for each in (rows, others_rows)
        )
        cases.append(
            Neighbours(f"dr_ensemble, dirichlet, unit {unit}", problem, public, plan, one, other)
        )
    return tuple(cases)


def otherwise(problem: DrEnsembleRequest, public: DrEnsemblePublic) -> dict[str, dict[str, Any]]:
    """Another value of each field of the request."""
    states = public.states
    prices = problem.price or (1.0,) * problem.horizon
    taylor = {"policy": "taylor", "concentration": 20, "samples": None}
    return {
        "power": {"power": [2 * power + 1 for power in problem.power or range(states)]},
        "price": {"price": [2 * price for price in prices[1:]], "utility": None},
        "utility": {"price": None, "utility": [[float(state) for state in range(states)]] * 3},
        "discomfort_weight": {"discomfort_weight": 2 * problem.discomfort_weight},
        "initial": {
            "initial": "released" if problem.initial != "released" else [1 / states] * states
        },
        "first_step": {"first_step": problem.first_step + 1},
        "limits": {"limits": {"of": "each", "feeder": 1e6, "ramp": 1e6}, **EXACT},
        "event": {"event": [[0, 1]]},
        "method": {"method": "dirichlet" if public.row_change is None else "counts"},
        "policy": taylor,
        "concentration": {**taylor, "concentration": 30},
        "samples": {"policy": "average", "concentration": 20, "samples": 3},
        "clip": {"clip": problem.clip / 2 if isinstance(problem.clip, float) else 0.5},
        "prior": {"prior": problem.prior + 1},
        "uncertainty": {"uncertainty": not problem.uncertainty},
    }


# Synthesis ----------------------------------------------------------------------------------------
# Made-up loads of a public shape: a sticky transition matrix within the support, and trajectories
# drawn from it.

STEPS = 24
"""Steps of a trajectory where their number is not public."""
STAYING = 5.0
"""Added to the weight of staying in a state; all transitions have a weight of 1 on average."""


def rows(public: DrEnsemblePublic, units: int | None) -> int:
    """The number of states of all trajectories, or of entries of the matrix."""
    if public.row_change is not None:
        return public.states**2
    return (units or UNITS) * (public.steps or STEPS)


def columns(
    public: DrEnsemblePublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None = None,
) -> dict[str, Any]:
    """Columns of an upload. Around a release, loads begin in its states and move by its
    transitions."""
    mask = public.mask()
    if around is None:
        shape = mask.shape if public.day is None else (public.blocks, *mask.shape)
        weights = np.where(
            mask, generator.exponential(1.0, shape) + STAYING * np.eye(public.states), 0.0
        )
    else:
        weights = around["transitions"]
        people = around.get("participants")
        if units is None and people is not None:
            units = max(2, min(round(float(people)), MOST_ROWS // (public.steps or STEPS)))
    matrix = weights / weights.sum(axis=-1, keepdims=True)
    if public.row_change is not None:
        floor = public.min_probability or 0.0
        left = 1.0 - floor * mask.sum(axis=1, keepdims=True)
        origin, to = np.nonzero(np.ones_like(mask))
        return {
            "from": origin,
            "to": to,
            "probability": (np.where(mask, floor, 0.0) + left * matrix).ravel(),
        }
    count, steps = max(2, units or UNITS), public.steps or STEPS
    states = np.empty((count, steps), dtype=np.int64)
    start = (
        None if around is None else around["visits"] / around["visits"].sum(axis=-1, keepdims=True)
    )
    if start is not None and public.day is not None:
        start = start[0]
    block = (
        np.zeros(steps, dtype=np.int64)
        if public.day is None
        else public.day.block_of(np.arange(steps))
    )
    states[:, 0] = generator.choice(public.states, count, p=start)
    sums = np.cumsum(matrix, axis=-1).reshape(-1, public.states, public.states)
    # Where rounding would lead beyond, the last state that is possible.
    possible = np.where(mask, np.arange(public.states), -1).max(axis=1)
    for step in range(1, steps):
        before = states[:, step - 1]
        drawn = (generator.random(count)[:, None] >= sums[block[step - 1], before]).sum(axis=1)
        states[:, step] = np.minimum(drawn, possible[before])
    participant, step_of = np.indices(states.shape)
    return {"participant": participant.ravel(), "step": step_of.ravel(), "state": states.ravel()}


SYNTHESIS = Synthesis(rows, columns)

"""Made-up loads of a public shape: a sticky transition matrix within the support, and trajectories
drawn from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.contents import Profile
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.synthesis import MOST_ROWS, UNITS, Synthesis

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

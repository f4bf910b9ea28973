"""Made-up loads of a public shape: a sticky transition matrix within the support, and trajectories drawn from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.dr_ensemble.dataset import DrEnsemblePublic
from discreet.problems.synthesis import UNITS, Synthesis

STEPS = 24
"""States of a trajectory, where their number is not public."""
STAYING = 5.0
"""Weight of staying in a state, beside one in the mean for each other transition."""


def rows(public: DrEnsemblePublic, units: int | None) -> int:
    """States of all trajectories, or entries of the matrix."""
    if public.row_change is not None:
        return public.states**2
    return (units or UNITS) * (public.steps or STEPS)


def columns(public: DrEnsemblePublic, generator: np.random.Generator, units: int | None) -> dict[str, Any]:
    """Columns of an upload."""
    mask = public.mask()
    weights = np.where(mask, generator.exponential(1.0, mask.shape) + STAYING * np.eye(public.states), 0.0)
    matrix = weights / weights.sum(axis=1, keepdims=True)
    if public.row_change is not None:
        floor = public.min_probability or 0.0
        left = 1.0 - floor * mask.sum(axis=1, keepdims=True)
        origin, to = np.nonzero(np.ones_like(mask))
        return {"from": origin, "to": to, "probability": (np.where(mask, floor, 0.0) + left * matrix).ravel()}
    count, steps = max(2, units or UNITS), public.steps or STEPS
    states = np.empty((count, steps), dtype=np.int64)
    states[:, 0] = generator.integers(0, public.states, count)
    sums = np.cumsum(matrix, axis=1)
    possible = np.where(mask, np.arange(public.states), -1).max(axis=1)  # rounding ends in the last that may be
    for step in range(1, steps):
        before = states[:, step - 1]
        drawn = (generator.random(count)[:, None] >= sums[before]).sum(axis=1)
        states[:, step] = np.minimum(drawn, possible[before])
    participant, step_of = np.indices(states.shape)
    return {"participant": participant.ravel(), "step": step_of.ravel(), "state": states.ravel()}


SYNTHESIS = Synthesis(rows, columns)

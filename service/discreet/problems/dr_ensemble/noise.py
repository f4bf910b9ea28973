"""The events of the two mechanisms: how far a participant or a row moves what is released, and the
least noise for a budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy import calibration
from discreet.problems.dr_ensemble.dataset import GRID
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.numbers import Budget


def grid_of(public: DrEnsemblePublic, clip: float | None) -> int:
    """The sum of a participant's counts. Records of one public length need no rounding, unless they
    are clipped."""
    return GRID if public.steps is None or clip is not None else public.steps - 1


def counts_event(
    public: DrEnsemblePublic, budget: Budget, cells: int, clip: float | None
) -> tuple[Any, str, tuple[str, ...]]:
    """The event of noised counts, what they are, and the assumptions. A participant adds a point of
    the simplex, times the grid: l1 at most grid, l2 at most clip · grid.

    Replacing one moves the sum by a difference of two such vectors without negative entries: l1 at
    most twice that, l2 at most sqrt 2 times.
    """
    grid = grid_of(public, clip)
    replaced = public.participants is not None
    norm = (clip or 1.0) * grid
    neighbours = (
        "one participant's record replaced by another; the number of participants is public"
        if replaced
        else "one participant with all steps added or removed"
    )
    event = calibration.least_variance(
        sensitivity_l1=2 * grid if replaced else grid,
        sensitivity_l2=float(np.nextafter(norm * np.sqrt(2), np.inf)) if replaced else norm,
        epsilon=budget.epsilon,
        delta=budget.delta,
        neighbours=neighbours,
        rho=budget.rho,
    )
    length = "" if public.steps is None else f" of {public.steps} steps each"
    quantity = (
        f"{cells} shares of transitions, summed over participants{length}; a participant's sum to 1"
    )
    known = ["every participant's number of steps is public"] if public.steps is not None else []
    return event, quantity, (*known, "each trajectory is recorded under its own participant")


def dirichlet_event(
    public: DrEnsemblePublic, budget: Budget, prior: float
) -> tuple[Any, str, tuple[str, ...]]:
    """The event of noised rows, what they are, and the assumptions. Rows compose, since a person
    may be in all of them; a row with one possible transition tells nothing."""
    mask = public.mask()
    assert public.row_change is not None
    assert public.min_probability is not None
    random_rows = int((mask.sum(axis=1) > 1).sum())
    if random_rows == 0:
        raise InvalidInput(
            "every state has one transition: nothing is private", pointer="/problem/dataset"
        )
    entries = (
        "two entries of a row of the transition matrix move by at most "
        f"{public.row_change / 2:g} each"
    )
    one = public.unit == "row"
    event = calibration.dirichlet(
        public.row_change,
        public.min_probability,
        budget.epsilon,
        budget.delta,
        neighbours=f"{entries}, in {'one row' if one else f'each of its {random_rows} rows'}",
        offset=prior,
        count=1 if one else random_rows,
    )
    composed = (
        "the unit is one row: rows describe different people"
        if one
        else f"a participant may be in all {random_rows} rows, whose draws are composed"
    )
    return event, f"{random_rows} rows of the transition matrix, one draw each", (composed,)

"""One agent's input to a computation over time, from its own data; and its optimum, from the
quantities that were opened to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc.responses import ROUNDING, effect_of
from discreet_agent.mpc.terms import RELAXATION, Terms

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OwnProgram:
    """One agent's input: `rows` float64[hours + 1, 2 hours + 5], what `over_time.Programs` holds of
    it side by side (`columns` takes it apart); `x_of` turns the quantities that were opened to the
    agent into its optimum."""

    rows: Floats
    _effect: Floats
    _centre: Floats
    _own: Box | BudgetedBox
    _reach: float

    def x_of(self, quantities: Floats) -> Floats:
        """This agent's variables, inside its own set: float64[hours]."""
        found = (np.asarray(quantities) + self._centre) * self._reach / self._effect
        return np.asarray(self._own.project(found))


def columns(hours: int) -> dict[str, slice]:
    """The columns of `rows`, by their name in `over_time.Programs`."""
    width = 2 * hours + 1
    return {
        "matrix": slice(0, width),
        "base": slice(width, width + 1),
        "lower": slice(width + 1, width + 2),
        "upper": slice(width + 2, width + 3),
        "centre": slice(width + 3, width + 4),
    }


def own_program(
    terms: Terms, A_u: Floats, A_g: Floats, cost: QuadraticCost, own: Box | BudgetedBox
) -> OwnProgram:
    """An agent's input to the computation. ValueError, which says what does not fit, unless there
    is one variable per hour, each enters its own hour's sum, and cost and limit alike, and the
    bounds of the terms are kept."""
    hours = terms.hours
    a_l = np.asarray(cost.a_l, dtype=np.float64)
    if a_l.size != hours:
        raise ValueError(f"one variable per hour is needed, {hours} of them; a_l has {a_l.size}")
    effect = effect_of(terms, A_u, A_g)
    if np.any(effect == 0):
        raise ValueError(
            "every variable must enter its hour's sum; one that cannot be used needs a box of 0"
        )
    if isinstance(own, BudgetedBox) and np.ptp(np.abs(effect)) > ROUNDING * np.abs(effect).max():
        raise ValueError(
            "with a budget all hours of an agent must enter their sums with the same factor, in "
            "absolute value"
        )
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), hours)
        for side in (own.lower, own.upper)
    )
    if not np.all(np.isfinite([low, high])):
        raise ValueError("every variable needs a lower and an upper bound")
    A_q = np.asarray(cost.A_q, dtype=np.float64).reshape(-1, hours)
    # Quantities in units of reach, prices in units of price.
    scale = terms.reach / effect
    curvature = (scale[:, None] * (2 * A_q.T @ A_q) * scale) / (terms.reach * terms.price)
    slope = a_l * scale / (terms.reach * terms.price)
    lower, upper = np.sort([low / scale, high / scale], axis=0)
    _check_bounds(terms, curvature, slope, lower, upper)

    # The sum over hours is of x; its row in these units has length 1.
    row, least, most = _budget(own, scale, low, high)
    centre = np.asarray(own.project((low + high) / 2)) / scale
    box, budget, sums = terms.steps
    copies = np.vstack([np.eye(hours), row])
    inverse = np.linalg.inv(curvature + (box + sums) * np.eye(hours) + budget * np.outer(row, row))
    answers = copies @ inverse
    rows = np.zeros((hours + 1, 2 * hours + 5))
    part = columns(hours)
    rows[:, part["matrix"]] = RELAXATION * np.hstack(
        [box * answers, budget * (answers @ row)[:, None], sums * answers]
    )
    rows[:, part["base"]] = -RELAXATION * (answers @ (curvature @ centre + slope))[:, None]
    inside = row @ centre
    # Projections are exact to rounding only, and the centre is to be inside.
    rows[:hours, part["lower"].start] = np.minimum(lower - centre, 0.0)
    rows[:hours, part["upper"].start] = np.maximum(upper - centre, 0.0)
    rows[hours, part["lower"].start] = min(least - float(inside), 0.0)
    rows[hours, part["upper"].start] = max(most - float(inside), 0.0)
    rows[:hours, part["centre"].start] = centre
    return OwnProgram(rows, effect, centre, own, terms.reach)


def _budget(
    own: Box | BudgetedBox, scale: Floats, low: Floats, high: Floats
) -> tuple[Floats, float, float]:
    """The row of the budget, of length 1, and its bounds; without a budget all that the box
    allows, so that nobody sees who has one."""
    length = math.sqrt(float(scale @ scale))
    least, most = float(low.sum()), float(high.sum())
    if isinstance(own, BudgetedBox):
        least, most = max(least, own.least_sum), min(most, own.most_sum)
    return scale / length, least / length, most / length


def _check_bounds(
    terms: Terms, curvature: Floats, slope: Floats, lower: Floats, upper: Floats
) -> None:
    """In units of reach and price."""
    positive, negative = np.maximum(curvature, 0), np.minimum(curvature, 0)
    marginal = np.abs(
        [
            slope + positive @ upper + negative @ lower,
            slope + positive @ lower + negative @ upper,
        ]
    )
    eigenvalues = np.linalg.eigvalsh(curvature) * terms.price / terms.reach
    for name, found, bound in (
        ("reach", float(np.abs([lower, upper]).max()) * terms.reach, terms.reach),
        ("price", float(marginal.max()) * terms.price, terms.price),
        ("most_curvature", float(eigenvalues[-1]), terms.most_curvature),
    ):
        if found > bound * (1 + ROUNDING):
            raise ValueError(
                f"this agent's data reach {found:g}, beyond the signed {name} {bound:g}"
            )
    if eigenvalues[0] < terms.least_curvature * (1 - ROUNDING):
        raise ValueError(
            f"the curvature of this agent's cost is {eigenvalues[0]:g}, below the signed "
            f"least_curvature {terms.least_curvature:g}"
        )

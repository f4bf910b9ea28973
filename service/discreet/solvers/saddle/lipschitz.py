"""Certified Lipschitz constants of constraints and of their gradients over a box.

    sensitivities(constraints, names, box) -> Sensitivities

The figures that joint calibration needs (Hale & Egerstedt 2015, Section III, extended to joint
noise): how far each released output moves when one agent's state moves by 1. All are upper bounds,
by interval arithmetic with branch and bound; if that converges, they are within 1e-7 of the
supremum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import NoSolution
from discreet.solvers.saddle.intervals import Box, Work
from discreet.solvers.saddle.suprema import supremum
from discreet_client.expressions import ZERO, Expression, add, derivative, negate, power

Floats = NDArray[np.float64]


MOST_TOGETHER = 50_000_000
"""Boxes times nodes that all suprema of one problem together may evaluate beyond their first
boxes."""

MOST_DERIVED = 500_000
"""Nodes of the second derivatives times the variables in each: the cost of one evaluation of each
supremum."""


class NotLipschitz(NoSolution):
    """A constraint, or its gradient, has no finite Lipschitz constant over the box, or none was
    found within the work allowed."""


@dataclass(frozen=True)
class Sensitivities:
    """Suprema over a box, for m constraints g and n variables x; upper bounds.

    Whole vectors, as the paper groups them. `values[j]` = sup ||dg/dx_j||_2, float64[n].
    `gradients[i, j]` = sup ||d²g/dx_i dx_j||_2, float64[n, n]: the Lipschitz constant of the vector
    dg/dx_i in x_j.

    Single entries. `value_entries[k, j]` = sup |dg_k/dx_j|, float64[m, n]. `gradient_entries[k, i,
    j]` = sup |d²g_k/dx_i dx_j|, float64[m, n, n]. Zero exactly where the derivative is identically
    zero.
    """

    values: Floats
    gradients: Floats
    value_entries: Floats
    gradient_entries: Floats


def sensitivities(
    constraints: Sequence[Expression], names: Sequence[str], box: Box
) -> Sensitivities:
    """All of `Sensitivities` for `constraints` over `box`.

    Raises NotLipschitz, naming constraint and variables, if a figure is not finite: for abs where
    its argument is 0, sqrt at 0, or intervals that stay infinite for the number of boxes that a
    supremum may evaluate.
    """
    m, n = len(constraints), len(names)
    first = [[derivative(g, name) for name in names] for g in constraints]
    second: dict[tuple[int, int, int], Expression] = {}
    derived = 0
    places = [(k, i, j) for k in range(m) for i in range(n) for j in range(i, n)]
    for k, i, j in places:
        second[k, i, j] = derivative(first[k][i], names[j])
        derived += second[k, i, j].size * len(second[k, i, j].names)
        if derived > MOST_DERIVED:
            raise NotLipschitz(
                f"'{str(constraints[k])[:80]}' couples too many agents at once: its second "
                "derivatives are too large to be bounded; sums of terms in few agents each are "
                "cheaper"
            )
    together = Work(MOST_TOGETHER)
    value_entries = np.zeros((m, n))
    gradient_entries = np.zeros((m, n, n))
    for k, g in enumerate(constraints):
        for j in range(n):
            value_entries[k, j] = _checked(norm_bound([first[k][j]], box, together), g, names[j])
        for i in range(n):
            for j in range(i, n):
                bound = _checked(
                    norm_bound([second[k, i, j]], box, together), g, names[i], names[j]
                )
                gradient_entries[k, i, j] = gradient_entries[k, j, i] = bound
    values = np.array(
        [
            _column([first[k][j] for k in range(m)], value_entries[:, j], box, together)
            for j in range(n)
        ]
    )
    gradients = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            vector = [second[k, i, j] for k in range(m)]
            gradients[i, j] = gradients[j, i] = _column(
                vector, gradient_entries[:, i, j], box, together
            )
    return Sensitivities(values, gradients, value_entries, gradient_entries)


def _column(vector: Sequence[Expression], entries: Floats, box: Box, together: Work) -> float:
    """A bound of the vector's norm, at most the norm of its entries' bounds: those need fewer boxes
    to become tight."""
    apart = math.hypot(*entries.tolist()) * (1 + 1e-15 * (8 + len(entries)))
    if np.count_nonzero(entries) <= 1 or not any(part.names for part in vector):
        return apart
    return min(apart, norm_bound(vector, box, together))


def norm_bound(vector: Sequence[Expression], box: Box, together: Work | None = None) -> float:
    """An upper bound of sup ||vector||_2 over `box`; infinite where there is none."""
    parts = [part for part in vector if part != ZERO]
    if not parts:
        return 0.0
    if len(parts) == 1:
        # The absolute value itself rather than its square: a square could overflow, and a root must
        # be rounded.
        (part,) = parts
        up = supremum(part, box, together=together).upper
        down = supremum(negate(part), box, together=together).upper
        return max(up, down, 0.0)
    square = supremum(add(*(power(part, 2.0) for part in parts)), box, together=together).upper
    return _root_up(square)


def jacobian_norm_bound(constraints: Sequence[Expression], names: Sequence[str], box: Box) -> float:
    """An upper bound of sup ||dg/dx||_2, the spectral norm: the paper's K_g, which joint
    calibration does not need.

    The norm of a matrix is at most that of its entries' suprema M; for any v > 0, ||M||² <= max_i
    (M'M v)_i / v_i (Collatz 1942, Wielandt 1950), here for an approximate Perron vector. It is
    tight if one point attains all suprema.
    """
    entries = np.array(
        [[norm_bound([derivative(g, name)], box) for name in names] for g in constraints]
    )
    square = entries.T @ entries
    vector = np.ones(len(names))
    for _ in range(1000):
        image = square @ vector
        top = image.max()
        if not 0 < top < math.inf:
            return math.sqrt(top) if top == 0 else math.inf
        vector = image / top + 1e-9
    return float(
        np.sqrt((square @ vector / vector).max()) * (1 + 1e-12 * (len(names) + len(constraints)))
    )


def _root_up(square: float) -> float:
    return (
        math.nextafter(math.sqrt(max(square, 0.0)), math.inf) if math.isfinite(square) else math.inf
    )


def _checked(bound: float, constraint: Expression, *names: str) -> float:
    if math.isfinite(bound):
        return bound
    what = (
        f"derivative in {names[0]}"
        if len(names) == 1
        else f"second derivative in {names[0]} and {names[1]}"
    )
    raise NotLipschitz(
        f"'{constraint}' has no bounded {what} over the box: a release of it could not be made "
        "private"
    )

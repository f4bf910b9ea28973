"""Linear algebra of small dense systems, and the minimum of a quadratic over a box.

What several machines must decide alike from the same numbers is computed by `SAME`: elementwise
operations in a fixed order and exactly rounded sums, whose results IEEE 754 makes identical to the
last bit everywhere. `FAST` uses NumPy's library, whose last bits differ between processors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_STEPS = 200
PRECISION = 1e-12
"""A variable of a minimum over a box is off by at most this fraction of what its slope is the sum
of."""
SUFFICIENT = 1e-4
"""The sufficient-decrease constant of Armijo's rule."""


class Arithmetic(NamedTuple):
    """`times`: a matrix times a vector; `dot`: the product of two vectors; `solve`: the solution of
    a positive definite system, from its matrix and right-hand side."""

    times: Callable[[Floats, Floats], Floats]
    dot: Callable[[Floats, Floats], float]
    solve: Callable[[Floats, Floats], Floats]


def _times(matrix: Floats, vector: Floats) -> Floats:
    total = np.zeros(matrix.shape[0])
    for column, entry in zip(matrix.T, vector, strict=True):
        total += column * entry
    return total


def _dot(one: Floats, other: Floats) -> float:
    return math.fsum((one * other).tolist())


def _solve(matrix: Floats, vector: Floats) -> Floats:
    """By Cholesky's factorization, column by column. A pivot that rounding has made negative is
    replaced by a tiny one."""
    left, found = matrix.copy(), vector.copy()
    size = found.size
    tiny = 1e-14 * max(float(np.max(np.diag(left), initial=0.0)), 1e-300)
    for j in range(size):
        pivot = math.sqrt(max(float(left[j, j]), tiny))
        left[j, j] = pivot
        left[j + 1 :, j] /= pivot
        column = left[j + 1 :, j]
        left[j + 1 :, j + 1 :] -= column[:, None] * column[None, :]
        found[j] /= pivot
        found[j + 1 :] -= column * found[j]
    for j in range(size - 1, -1, -1):
        found[j] /= left[j, j]
        found[:j] -= left[j, :j] * found[j]
    return found


SAME = Arithmetic(_times, _dot, _solve)


def _library_times(matrix: Floats, vector: Floats) -> Floats:
    product: Floats = matrix @ vector
    return product


def _library_solve(matrix: Floats, vector: Floats) -> Floats:
    """Variables of other units are solved for in those in which the diagonal is 1."""
    unit = 1 / np.sqrt(np.diag(matrix))
    found: Floats = unit * np.linalg.solve(matrix * unit * unit[:, None], unit * vector)
    return found


FAST = Arithmetic(_library_times, lambda one, other: float(one @ other), _library_solve)


def box_minimum(
    H: Floats, p: Floats, lower: Floats, upper: Floats, start: Floats, arithmetic: Arithmetic = FAST
) -> Floats:
    """The minimum of `½ x'Hx + p'x` over `lower <= x <= upper`, H float64[k, k] positive definite,
    from any `start`.

    A projected Newton method (Bertsekas 1982): variables that their slope holds at a bound stay
    there, the free ones take their Newton step, backtracked along its projection. Up to rounding it
    reaches the minimum in finitely many steps; it takes MOST_STEPS at most. Bounds may be infinite.
    """
    times, dot, solve = arithmetic
    scale, sizes = np.diag(H), np.abs(H)
    x = np.minimum(np.maximum(start, lower), upper)
    for _ in range(MOST_STEPS):
        slope = times(H, x) + p
        moved = np.abs(x - np.minimum(np.maximum(x - slope / scale, lower), upper))
        if np.all(moved * scale <= PRECISION * (times(sizes, np.abs(x)) + np.abs(p))):
            break
        free = ~(((x <= lower) & (slope > 0)) | ((x >= upper) & (slope < 0)))
        step = np.zeros_like(x)
        step[free] = -solve(H[np.ix_(free, free)], slope[free])
        length, better = 1.0, x
        while length > 1e-10:
            better = np.minimum(np.maximum(x + length * step, lower), upper)
            change = better - x
            # f(better) - f(x), without the cancellation of two large values.
            if dot(slope, change) * (1 - SUFFICIENT) + dot(change, times(H, change)) / 2 <= 0:
                break
            length /= 2
        x = better
    return x

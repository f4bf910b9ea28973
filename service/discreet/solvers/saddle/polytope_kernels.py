"""The nearest point of a polytope, compiled: a dual active set method.

    onto_polytope(v, lower, upper, R, least, most)      in place; least <= R x <= most, in the box

The method of Goldfarb & Idnani (1983), with the identity as Hessian. It begins with the nearest
point of the box, which solves the problem without rows, and adds the most violated side to the
active set, one after the other; a side that would need a negative multiplier is dropped. So it ends
after finitely many steps at the solution, exact up to rounding: nothing is iterated to a tolerance.
Active sides of the box only remove their coordinates from the system, which has one equation per
active row.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""Fraction of the largest coordinate and limit: a side that is violated by less is satisfied."""
ALONG = 1e-12
"""A side whose unit normal is within the square root of this of the others' span depends on
them."""


@numba.njit(cache=True, nogil=True, error_model="numpy")
def most_turns(size: int, rows: int) -> int:
    """After this many steps the current point is taken: only an empty polytope, or rounding, needs
    them. Points far from dense rows took up to half of them in a trial of a thousand shapes; a
    tenth is usual."""
    return size * rows + 2 * (size + rows) + 20


def unit_rows(R: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats, Floats]:
    """The same polytope with rows of length 1 and without rows of zeros."""
    lengths = np.array([math.hypot(*row) for row in R])
    kept = lengths > 0
    lengths = lengths[kept]
    with np.errstate(over="ignore"):  # of a tiny row: then it is no constraint in any box
        return R[kept] / lengths[:, None], least[kept] / lengths, most[kept] / lengths


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _solved(gram: Floats, right: Floats, count: int) -> None:
    """Solve a symmetric positive definite system of `count` equations in place, by Cholesky
    factorization of the upper triangle. Loops run along its rows, which is fast."""
    for k in range(count):
        pivot = np.sqrt(max(gram[k, k], 1e-300))
        for j in range(k, count):
            gram[k, j] /= pivot
        for i in range(k + 1, count):
            factor = gram[k, i]
            for j in range(i, count):
                gram[i, j] -= factor * gram[k, j]
    for i in range(count):
        right[i] /= gram[i, i]
        for j in range(i + 1, count):
            right[j] -= gram[i, j] * right[i]
    for i in range(count - 1, -1, -1):
        for j in range(i + 1, count):
            right[i] -= gram[i, j] * right[j]
        right[i] /= gram[i, i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def onto_polytope(
    v: Floats, low: Floats, high: Floats, R: Floats, least: Floats, most: Floats
) -> None:
    """v: float64[d], in place; R: float64[r, d], with rows of length 1. If the polytope is empty, v
    becomes a point of the box."""
    d, r = v.size, most.size
    x = np.empty(d)
    # For every active side: its sign (+1 the lower one, -1 the upper one; 0: none) and multiplier;
    # coordinates first, then rows.
    sign, price = np.zeros(d + r), np.zeros(d + r)
    reach = 1.0
    for i in range(d):
        x[i] = min(max(v[i], low[i]), high[i])
        reach = max(reach, abs(low[i]), abs(high[i]))
        if x[i] != v[i]:
            sign[i] = 1.0 if x[i] > v[i] else -1.0
            price[i] = abs(x[i] - v[i])
    holding = np.empty(r, dtype=np.int64)
    gram, right, entry = np.empty((r, r)), np.empty(r), np.empty(r)
    normal, along, step = np.empty(d), np.empty(d), np.empty(d)
    chosen, side, added = -1, 0.0, 0.0
    for _ in range(most_turns(d, r)):
        if chosen < 0:  # the most violated side
            worst = 0.0
            for i in range(d):
                if sign[i] == 0.0:
                    below, above = low[i] - x[i], x[i] - high[i]
                    if max(below, above) > max(worst, ROUNDING * reach):
                        worst = max(below, above)
                        chosen, side = i, (1.0 if below > above else -1.0)
            for k in range(r):
                if sign[d + k] == 0.0:
                    reached = 0.0
                    for i in range(d):
                        reached += R[k, i] * x[i]
                    below, above = least[k] - reached, reached - most[k]
                    room = ROUNDING * (reach + abs(least[k] if below > above else most[k]))
                    if max(below, above) > max(worst, room):
                        worst = max(below, above)
                        chosen, side = d + k, (1.0 if below > above else -1.0)
            if chosen < 0:
                break
            added = 0.0
        for i in range(d):
            normal[i] = side * R[chosen - d, i] if chosen >= d else 0.0
        if chosen < d:
            normal[chosen] = side
        # The part of the normal in the span of the active rows, in free coordinates.
        count = 0
        for k in range(r):
            if sign[d + k] != 0.0:
                holding[count] = k
                count += 1
        for a in range(count):
            right[a] = 0.0
            for b in range(a, count):
                gram[a, b] = 0.0
        for i in range(d):
            if sign[i] == 0.0:
                for a in range(count):
                    entry[a] = sign[d + holding[a]] * R[holding[a], i]
                for a in range(count):
                    factor = entry[a]
                    right[a] += factor * normal[i]
                    for b in range(a, count):
                        gram[a, b] += factor * entry[b]
        _solved(gram, right, count)
        square = 0.0
        for i in range(d):
            along[i] = 0.0
            for a in range(count):
                along[i] += right[a] * sign[d + holding[a]] * R[holding[a], i]
            step[i] = normal[i] - along[i] if sign[i] == 0.0 else 0.0
            square += step[i] * step[i]
        # The step until a multiplier is zero, and until the chosen side is satisfied.
        free, leaving = np.inf, -1
        for i in range(d):
            if sign[i] != 0.0:
                rate = sign[i] * (normal[i] - along[i])
                if rate > 0.0 and price[i] / rate < free:
                    free, leaving = price[i] / rate, i
        for a in range(count):
            k = holding[a]
            if right[a] > 0.0 and least[k] < most[k] and price[d + k] / right[a] < free:
                free, leaving = price[d + k] / right[a], d + k
        full = np.inf
        if square > ALONG:
            at = 0.0
            for i in range(d):
                at += normal[i] * x[i]
            if chosen < d:
                limit = low[chosen] if side > 0.0 else -high[chosen]
            else:
                limit = least[chosen - d] if side > 0.0 else -most[chosen - d]
            full = max(limit - at, 0.0) / square
        length = min(free, full)
        if length == np.inf:
            break  # no point of the box satisfies all rows
        for i in range(d):
            if sign[i] != 0.0:
                price[i] = max(price[i] - length * sign[i] * (normal[i] - along[i]), 0.0)
        for a in range(count):
            k = holding[a]
            price[d + k] -= length * right[a]
            if least[k] < most[k]:
                price[d + k] = max(price[d + k], 0.0)
        added += length
        if square > ALONG:
            for i in range(d):
                x[i] += length * step[i]
        if full <= free:
            sign[chosen], price[chosen] = side, added
            if chosen < d:
                x[chosen] = low[chosen] if side > 0.0 else high[chosen]
            chosen = -1
        else:
            sign[leaving], price[leaving] = 0.0, 0.0
    for i in range(d):  # a value that is not a number would compare as not above
        v[i] = min(x[i], high[i]) if x[i] > low[i] else low[i]

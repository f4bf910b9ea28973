"""Compiled projections on agents' sets: `discreet_agent.projections`, which has the derivation, in
numba.

    project_sets(sets, lower, upper, states)      in place, every agent that has a set

The cloud's loop projects each agent in every step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet_agent.projections import FARTHEST, polytope_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BUDGET, BALL, POLYTOPE = range(3)


class Sets(NamedTuple):
    """Agents whose states have sets apart from the box. `begin`, `end`: int64[g], their
    coordinates. `code`: int64[g], BUDGET, BALL or POLYTOPE. `first`, `second`: float64[g], least
    and most of a budget's sum, or a ball's radius. `centre`: float64[n], of balls. For polytopes
    `row`: int64[g + 1], where an agent's rows begin in `least`, `most` (float64[r]), and `entry`:
    int64[g], where they begin in `entries`; rows have length 1.
    """

    begin: Ints
    end: Ints
    code: Ints
    first: Floats
    second: Floats
    centre: Floats
    row: Ints
    entry: Ints
    entries: Floats
    least: Floats
    most: Floats


def sets_of(groups: Sequence[tuple[int, int, dict[str, Any] | None]], coordinates: int) -> Sets:
    """The sets of agents: begin and end of each agent's coordinates, and its set in the form of
    `discreet_agent.projections.onto`."""
    given = [(begin, end, within) for begin, end, within in groups if within is not None]
    centre, rows = np.zeros(coordinates), []
    row, entry = [0], []
    entries, least, most = [np.empty(0)], [np.empty(0)], [np.empty(0)]
    for begin, end, within in given:
        entry.append(sum(part.size for part in entries))
        if "polytope" in within:
            R, *limits = unit_rows(*polytope_rows(within["polytope"], end - begin))
            rows.append((POLYTOPE, 0.0, 0.0))
            entries.append(R.ravel())
            least.append(limits[0])
            most.append(limits[1])
        elif "budget" in within:
            rows.append((BUDGET, within["budget"]["lower"], within["budget"]["upper"]))
        else:
            centre[begin:end] = within["ball"]["centre"]
            rows.append((BALL, within["ball"]["radius"], 0.0))
        row.append(sum(part.size for part in least))
    return Sets(
        np.array([begin for begin, *_ in given], dtype=np.int64),
        np.array([end for _, end, _ in given], dtype=np.int64),
        np.array([code for code, *_ in rows], dtype=np.int64),
        np.array([first for _, first, _ in rows], dtype=np.float64),
        np.array([second for *_, second in rows], dtype=np.float64),
        centre,
        np.array(row, dtype=np.int64),
        np.array(entry, dtype=np.int64),
        np.concatenate(entries),
        np.concatenate(least),
        np.concatenate(most),
    )


def in_closed_form(sets: Sets) -> Sets:
    """All sets except polytopes."""
    kept = sets.code != POLYTOPE
    return sets._replace(
        begin=sets.begin[kept],
        end=sets.end[kept],
        code=sets.code[kept],
        first=sets.first[kept],
        second=sets.second[kept],
        row=np.zeros(int(kept.sum()) + 1, dtype=np.int64),
        entry=sets.entry[kept],
    )


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _clipped(value: float, low: float, high: float) -> float:
    return float(min(max(value, low), high))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _onto_budget(v: Floats, low: Floats, high: Floats, least: float, most: float) -> None:
    total = 0.0
    for i in range(v.size):
        total += _clipped(v[i], low[i], high[i])
    nu = 0.0
    if total < least or total > most:
        target = least if total < least else most
        breaks = np.sort(np.concatenate((v - high, v - low)))
        below, above = -1, breaks.size
        while above - below > 1:
            middle = (below + above) // 2
            total = 0.0
            for i in range(v.size):
                total += _clipped(v[i] - breaks[middle], low[i], high[i])
            if total >= target:
                below = middle
            else:
                above = middle
        begin, end = breaks[max(below, 0)], breaks[min(below + 1, breaks.size - 1)]
        at, free, rest = 0.5 * (begin + end), 0, -target
        for i in range(v.size):
            if low[i] < v[i] - at < high[i]:
                free += 1
                rest += v[i]
            else:
                rest += _clipped(v[i] - at, low[i], high[i])
        nu = _clipped(rest / free, begin, end) if free > 0 else begin
    for i in range(v.size):
        v[i] = _clipped(v[i] - nu, low[i], high[i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _distance(t: float, v: Floats, low: Floats, high: Floats, centre: Floats) -> float:
    square = 0.0
    for i in range(v.size):
        part = _clipped(t * (v[i] - centre[i]), low[i] - centre[i], high[i] - centre[i])
        square += part * part
    return float(np.sqrt(square))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _onto_ball(v: Floats, low: Floats, high: Floats, centre: Floats, radius: float) -> None:
    if _distance(1.0, v, low, high, centre) <= radius:
        for i in range(v.size):
            v[i] = _clipped(v[i], low[i], high[i])
        return
    breaks = np.ones(2 * v.size + 2)
    breaks[0] = 0.0
    count = 1
    for i in range(v.size):
        away = v[i] - centre[i]
        if away != 0.0:
            for bound in (low[i] - centre[i], high[i] - centre[i]):
                if 0.0 < bound / away < 1.0:
                    breaks[count] = bound / away
                    count += 1
    breaks = np.sort(breaks[: count + 1])
    below, above = -1, breaks.size
    while above - below > 1:
        middle = (below + above) // 2
        if _distance(breaks[middle], v, low, high, centre) <= radius:
            below = middle
        else:
            above = middle
    begin, end = breaks[max(below, 0)], breaks[min(below + 1, breaks.size - 1)]
    at, free, rest = 0.5 * (begin + end), 0.0, radius * radius
    for i in range(v.size):
        away = v[i] - centre[i]
        part = _clipped(at * away, low[i] - centre[i], high[i] - centre[i])
        if away != 0.0 and low[i] - centre[i] < at * away < high[i] - centre[i]:
            free += away * away
        else:
            rest -= part * part
    t = _clipped(np.sqrt(max(rest, 0.0) / free), begin, end) if free > 0.0 else begin
    for i in range(v.size):
        part = _clipped(t * (v[i] - centre[i]), low[i] - centre[i], high[i] - centre[i])
        v[i] = _clipped(centre[i] + part, low[i], high[i])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def project_sets(sets: Sets, lower: Floats, upper: Floats, states: Floats) -> None:
    """Every agent with a set, in place; the others are left as they are."""
    for g in range(sets.begin.size):
        begin, end = sets.begin[g], sets.end[g]
        v, low, high = states[begin:end], lower[begin:end], upper[begin:end]
        for i in range(v.size):
            v[i] = _clipped(v[i], -FARTHEST, FARTHEST)
        if sets.code[g] == BUDGET:
            _onto_budget(v, low, high, sets.first[g], sets.second[g])
        elif sets.code[g] == BALL:
            _onto_ball(v, low, high, sets.centre[begin:end], sets.first[g])
        else:
            rows = slice(sets.row[g], sets.row[g + 1])
            count = sets.row[g + 1] - sets.row[g]
            flat = sets.entries[sets.entry[g] : sets.entry[g] + count * v.size]
            R = flat.reshape(count, v.size)
            onto_polytope(v, low, high, R, sets.least[rows], sets.most[rows])


# Polytope kernels ---------------------------------------------------------------------------------
# The nearest point of a polytope, compiled: a dual active set method.
#
# onto_polytope(v, lower, upper, R, least, most) in place; least <= R x <= most, in the box
#
# The method of Goldfarb & Idnani (1983), with the identity as Hessian. It begins with the nearest
# point of the box, which solves the problem without rows, and adds the most violated side to the
# active set, one after the other; a side that would need a negative multiplier is dropped. So it
# ends after finitely many steps at the solution, exact up to rounding: nothing is iterated to a
# tolerance. Active sides of the box only remove their coordinates from the system, which has one
# equation per active row.

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

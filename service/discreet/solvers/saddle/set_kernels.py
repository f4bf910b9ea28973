"""Compiled projections on agents' sets: `discreet_client.projections`, which has the derivation, in
numba.

    project_sets(sets, lower, upper, states)      in place, every agent that has a set

The cloud's loop projects each agent in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.saddle.polytope_kernels import onto_polytope, unit_rows
from discreet_client.projections import FARTHEST, polytope_rows

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
    `discreet_client.projections.onto`."""
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

"""Counts of trips, `public.trip_scale` for each trip: clipping of each person's trips by number and
by norm, and sums by pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.problems.routing.dataset import Ints
from discreet.problems.routing.public import RoutingPublic
from discreet.solvers.traffic import unit_flow_projection


def sums_by_pair(trips: Ints, zones: int, classes: int | None = None) -> Ints:
    """Trips of every ordered pair over all periods: int64[zones, zones]; for each of this many
    classes of users, int64[classes, zones, zones]."""
    if classes is not None:
        each = np.zeros((classes, zones, zones), dtype=np.int64)
        np.add.at(each, (trips[:, 4], trips[:, 1] - 1, trips[:, 2] - 1), trips[:, 3])
        return each
    sums = np.zeros((zones, zones), dtype=np.int64)
    np.add.at(sums, (trips[:, 1] - 1, trips[:, 2] - 1), trips[:, 3])
    return sums


def demand_of(public: RoutingPublic, trips: Ints) -> NDArray[np.float64]:
    """The mean demand of a period in trips, nonnegative and with the same sum, from counts that may
    be negative. For each class of users, if they are float64[classes, zones, zones]."""
    if trips.ndim > 2:
        return np.array([demand_of(public, one) for one in trips])
    mean = trips / public.counts_a_mean_trip
    pairs = ~np.eye(public.zones, dtype=bool)
    demand = np.zeros((public.zones, public.zones))
    demand[pairs] = unit_flow_projection.project(mean[pairs], max(0.0, float(mean[pairs].sum())))
    return demand


def clip(trips: Ints, person_start: Ints, most: int) -> Ints:
    """At most `most` trips of each person's record, spread evenly over the record: a function of
    that record alone.

    Of a record's trips 0..total-1 in order, numbers floor((i + 1/2) total / most) for i < most are
    kept.
    """
    clipped = trips.copy()
    length = np.diff(person_start)
    before = np.concatenate([[0], np.cumsum(trips[:, 3])])
    total = np.repeat(np.diff(before[person_start]), length)
    first = before[:-1] - np.repeat(before[person_start[:-1]], length)

    def kept(edge: Ints) -> Ints:
        """The number of kept trips with a number below `edge`."""
        below: Ints = (2 * most * edge + total - 1) // np.maximum(2 * total, 1)
        # Beyond 64 bits with integers of any length: a record that wrapped around would count more
        # than the clip.
        for row in np.flatnonzero(total > (1 << 61) // most):
            below[row] = (2 * most * int(edge[row]) + int(total[row]) - 1) // (2 * int(total[row]))
        return below

    clipped[:, 3] = np.where(total > most, kept(first + trips[:, 3]) - kept(first), trips[:, 3])
    return clipped


def shorten(trips: Ints, person_start: Ints, norm: int) -> Ints:
    """Each person's trips by pair and class of users (with period 0), scaled down if their l2 norm
    is above `norm`.

    Of h trips of a pair, floor(h norm/|h|) are kept; then, from the largest remainder on, one more
    each as long as the squares stay within norm². This is decided in integers, from this person's
    trips alone.
    """
    person = np.repeat(np.arange(len(person_start) - 1), np.diff(person_start))
    apart = trips[:, 1] != trips[:, 2]  # trips within a zone are not released
    keys = np.column_stack([person, trips[:, 1:3], trips[:, 4:]])[apart]
    cells, inverse = np.unique(keys, axis=0, return_inverse=True)
    counts = np.zeros(len(cells), dtype=np.int64)
    np.add.at(counts, inverse.ravel(), trips[apart, 3])
    owner = cells[:, 0]

    def squares(of: Ints) -> Ints:
        """Sum of squares of each row's person: exact, since records are clipped to MAX_TRIPS
        before."""
        sums = np.zeros(len(person_start), dtype=np.int64)
        np.add.at(sums, owner, of * of)
        each: Ints = sums[owner]
        return each

    before = squares(counts)
    long = before > norm * norm
    exact = counts * (norm / np.sqrt(np.maximum(before, 1)))
    kept = np.where(long, np.floor(exact), counts).astype(np.int64)
    kept[long & (squares(kept) > norm * norm)] -= 1  # doubles rounded up to an integer
    kept = np.maximum(kept, 0)
    room = norm * norm - squares(kept)
    order = np.lexsort((kept - exact, owner))
    order = order[(long & (kept < counts))[order]]
    costs = np.cumsum(2 * kept[order] + 1)
    first = np.searchsorted(owner[order], owner[order])
    costs -= np.concatenate([[0], costs])[first]
    more = order[costs <= room[order]]
    kept[more] += 1
    kept[squares(kept) > norm * norm] = 0  # never; whatever doubles round, the norm is kept
    period = np.zeros(len(cells), dtype=np.int64)
    return np.column_stack([period, cells[:, 1:3], kept, cells[:, 3:]])

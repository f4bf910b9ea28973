"""Standard analyses of a released policy: which pairs use a link (select link), and how long each
pair takes (skims).

Both follow from policy and demand as released. Their intervals are for the true trips on the
*released* policy, which is what happens once it is published: the shares of a pair are then fixed,
so its trips over a link have the noise of its own count, whose quantile is exact; and its time
depends on the flows of the links of its paths, which are linear combinations of the noise of all
pairs, times the slopes of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.problems.results import Output
from discreet.solvers.traffic.path_flows import link_costs
from discreet.solvers.traffic.sensitivity import gram, shares_of
from discreet.solvers.traffic.traffic_assignment import Assignment, Latency, Network, costs_of
from discreet.solvers.traffic.user_classes import UserClasses, pair_times

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

MOST_WORK = 2e10
"""The most links times entries of all pairs' shares of links: some ten seconds. Larger skims have
no interval."""
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Noised:
    """A pair's mean trips before and after the projection on nonnegative ones, and the effect of
    the noise on them.

    raw, demand: float64[zones, zones], with classes of users float64[classes, zones, zones]; reach:
    the exact half width of a pair's trips; spread: that of a linear combination of all pairs' trips
    with coefficients of l2 norm 1."""

    raw: Floats
    demand: Floats
    reach: float
    spread: float


@dataclass(frozen=True)
class Selected:
    """The pairs whose policy uses selected links, by link, class of users, origin and destination;
    zones and links are counted from 0. `pair`: their number among the ordered pairs of all
    classes."""

    pair: NDArray[np.int64]
    user_class: NDArray[np.int64]
    link: NDArray[np.int64]
    origin: NDArray[np.int64]
    destination: NDArray[np.int64]
    share: Floats
    trips: Floats

    @classmethod
    def of(cls, solution: Assignment, demand: Floats, links: Sequence[int]) -> Selected:
        policy = solution.paths
        chosen = np.unique(np.array(links, dtype=np.int64))
        columns = shares_of(policy).tocsc()[:, chosen].tocoo()
        order = np.lexsort((columns.row, columns.col))
        pair, share = columns.row[order], columns.data[order]
        used = share > 0
        pair, link, share = pair[used], chosen[columns.col[order][used]], share[used]
        origin, destination = policy.origin[pair], policy.destination[pair]
        own = pair // (demand.shape[-1] * (demand.shape[-1] - 1))
        trips = share * _pairs(demand)[pair]
        return cls(
            pair.astype(np.int64), own.astype(np.int64), link, origin, destination, share, trips
        )

    def field(self, classes: Sequence[str] = ()) -> Output:
        """As rows, with the names of the classes of users if there are some."""
        names: tuple[str, ...] = ("link", "origin", "destination", "share", "trips")
        columns: tuple[NDArray[Any], ...] = (
            self.link,
            self.origin + 1,
            self.destination + 1,
            self.share,
            self.trips,
        )
        if classes:
            names = ("user_class", *names)
            columns = (np.array(classes, dtype=object)[self.user_class], *columns)

        def rows() -> list[dict[str, Any]]:
            each = zip(*(column.tolist() for column in columns), strict=True)
            return [dict(zip(names, row, strict=True)) for row in each]

        table = pa.table(dict(zip(names, columns, strict=True)))
        return Output(rows, numbers=len(names) * self.link.size, table=lambda: table)

    def interval(self, noised: Noised) -> Ends:
        """The midpoint of the interval of each row's trips, and its half width."""
        return self.share * _pairs(noised.raw)[self.pair], self.share * noised.reach


def _pairs(matrix: Floats) -> Floats:
    """Values of pairs of distinct zones in order, of the first class, then the next."""
    return matrix[..., ~np.eye(matrix.shape[-1], dtype=np.bool_)].ravel()


def skims(
    network: Network, latency: Latency, solution: Assignment, classes: UserClasses | None = None
) -> Floats:
    """float64[zones, zones], with classes of users float64[classes, zones, zones]: the mean time of
    a trip of each pair on its paths at the released flows, including fixed costs by the class's own
    weight; 0 within a zone."""
    if classes is not None:
        return _square(network.zones, pair_times(network, latency, classes, solution))
    times = latency.times(network, solution.link_flows)
    return _square(network.zones, shares_of(solution.paths) @ times)


def skims_interval(
    network: Network,
    latency: Latency,
    solution: Assignment,
    noised: Noised,
    classes: UserClasses | None = None,
) -> Ends | None:
    """The midpoint of the interval of each pair's time if the true trips follow this policy, and
    its half width: each shaped as `skims`, to first order in the noise. None if it would take too
    long."""
    shares, zones = shares_of(solution.paths), network.zones
    if shares.nnz * network.tail.size > MOST_WORK:
        return None
    _, slope = link_costs(costs_of(network, latency, "user_equilibrium"), solution.link_flows)
    pce = np.ones(1) if classes is None else classes.pce
    counted = shares.multiply(np.repeat(pce, shares.shape[0] // pce.size)[:, None]).tocsr()
    times = _pairs(skims(network, latency, solution, classes))
    middle = times + shares @ (slope * (counted.T @ _pairs(noised.raw - noised.demand)))
    weighted = shares @ csr_array((slope, np.arange(slope.size), np.arange(slope.size + 1)))
    squares, widths = gram(counted), np.empty(shares.shape[0])
    for first in range(0, widths.size, ROWS_AT_ONCE):
        some = weighted[first : first + ROWS_AT_ONCE]
        widths[first : first + ROWS_AT_ONCE] = np.asarray(
            some.multiply(some @ squares).sum(axis=1)
        ).ravel()
    ends = middle, noised.spread * np.sqrt(np.maximum(widths, 0.0))
    shape = times.shape if classes is None else (classes.number, -1)
    low, high = (_square(zones, each.reshape(shape)) for each in ends)
    return low, high


def _square(zones: int, pairs: Floats) -> Floats:
    """The values of pairs of distinct zones, on the last axis."""
    found = np.zeros((*pairs.shape[:-1], zones, zones))
    found[..., ~np.eye(zones, dtype=np.bool_)] = pairs
    return found

"""What planners ask of a released policy: which pairs use a link (select link), and how long each
pair takes (skims).

Both follow from policy and demand as released. Their intervals say what the true trips do on the
*released* policy, which is what whoever publishes it will see: a pair's shares are as they are
then, so its trips over a link have the noise of its own count, whose quantile is exact; and its
time moves with the flows of the links of its paths, which are linear combinations of the noise of
all pairs, times the slopes of their times.
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

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

MOST_WORK = 2e10
"""Links times entries of all pairs' shares of links: some ten seconds. Larger skims have no
interval."""
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Noised:
    """A pair's mean trips before and after the projection on nonnegative ones, and what the noise
    does to them.

    raw, demand: float64[zones, zones]; reach: half the interval of a pair's trips, exact; spread:
    of a linear combination of all pairs' with coefficients of l2 norm 1."""

    raw: Floats
    demand: Floats
    reach: float
    spread: float


@dataclass(frozen=True)
class Selected:
    """The pairs whose policy leads over chosen links, by link, origin and destination; zones and
    links from 0."""

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
        return cls(link, origin, destination, share, share * demand[origin, destination])

    def field(self) -> Output:
        names = ("link", "origin", "destination", "share", "trips")
        columns = (self.link, self.origin + 1, self.destination + 1, self.share, self.trips)

        def rows() -> list[dict[str, Any]]:
            each = zip(*(column.tolist() for column in columns), strict=True)
            return [dict(zip(names, row, strict=True)) for row in each]

        table = pa.table(dict(zip(names, columns, strict=True)))
        return Output(rows, numbers=5 * self.link.size, table=lambda: table)

    def interval(self, noised: Noised) -> Ends:
        """The middle of each row's trips, and half the width."""
        return self.share * noised.raw[self.origin, self.destination], self.share * noised.reach


def skims(network: Network, latency: Latency, solution: Assignment) -> Floats:
    """float64[zones, zones]: the time that a trip of each pair takes in the mean on its paths at
    the released flows, fixed costs among it; 0 within a zone."""
    times = latency.times(network, solution.link_flows)
    return _square(network.zones, shares_of(solution.paths) @ times)


def skims_interval(
    network: Network, latency: Latency, solution: Assignment, noised: Noised
) -> Ends | None:
    """The middle of each pair's time where the true trips follow this policy, and half the width:
    float64[zones, zones] each, of the first order in the noise. None where it would take too
    long."""
    shares, zones = shares_of(solution.paths), network.zones
    if shares.nnz * network.tail.size > MOST_WORK:
        return None
    times, slope = link_costs(costs_of(network, latency, "user_equilibrium"), solution.link_flows)
    change = (noised.raw - noised.demand)[~np.eye(zones, dtype=np.bool_)]
    middle = shares @ (times + slope * (shares.T @ change))
    weighted = shares @ csr_array((slope, np.arange(slope.size), np.arange(slope.size + 1)))
    squares, widths = gram(shares), np.empty(shares.shape[0])
    for first in range(0, widths.size, ROWS_AT_ONCE):
        some = weighted[first : first + ROWS_AT_ONCE]
        widths[first : first + ROWS_AT_ONCE] = np.asarray(
            some.multiply(some @ squares).sum(axis=1)
        ).ravel()
    return _square(zones, middle), _square(zones, noised.spread * np.sqrt(np.maximum(widths, 0.0)))


def _square(zones: int, pairs: Any) -> Floats:
    found = np.zeros((zones, zones))
    found[~np.eye(zones, dtype=np.bool_)] = pairs
    return found

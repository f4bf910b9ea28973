"""What noise is expected to do to the answer of a demand that an earlier job has released: the
derivative there.

The same as intervals tell after a release, told before the next one. For trips of last month the
total travel time's width is within some per cent; at a demand made up of public figures, within
some ten.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from discreet.problems.contents import Profile
from discreet.problems.road_network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing.advice import Floats, Kept, Roads, roads_of
from discreet.problems.routing.intervals import MAX_LINKS
from discreet.solvers.traffic import simplex
from discreet.solvers.traffic.sensitivity import derivative
from discreet.solvers.traffic.traffic_assignment import Objective, assign

GAP, ITERATIONS = 1e-8, 200
MOST_WORK = 150_000
"""Zones times nodes: a second of processor time. Larger networks are looked at as with public
figures alone, by rounds of shortest paths."""


BUSY = 16
"""Links that noise moves most where trips may be negative, among which is that which it moves most
where not."""
DRAWS, MOST_PAIRS = 400, 2_500
"""Of noise, to tell within 2 % which part of it is left; of more pairs that is not looked at, and
all is said to be."""


def roads_around(
    network: RoadNetwork,
    latency: AffineLatency | BprLatency,
    objective: Objective,
    profile: Profile,
    deviation: float,
) -> tuple[Roads | None, Kept]:
    """What a profile's demand does, None where the network is too large to look; and what noise of
    such a deviation of a pair's mean trips keeps where no trips are negative."""
    demand = np.ascontiguousarray(profile["demand"], dtype=np.float64)
    roads, rows = _roads(network, latency, objective, len(demand), demand.tobytes())
    return roads, Kept() if rows is None else _kept(
        demand[~np.eye(len(demand), dtype=bool)], rows, deviation
    )


def _kept(demand: Floats, rows: Floats, deviation: float) -> Kept:
    """Trips are projected to nonnegative ones of the same sum, as those of a release are
    (`counts.demand_of`), so pairs without trips keep half of their noise at most. All pairs share
    what that adds to the sum, so totals keep more than flows do. rows: of the derivative, that of
    the total first."""
    if demand.size > MOST_PAIRS:
        return Kept()
    noise = np.random.default_rng(18).laplace(
        scale=deviation / math.sqrt(2), size=(DRAWS, demand.size)
    )
    total = float(demand.sum())
    moved = [
        simplex.project(demand + one, max(0.0, total + float(one.sum()))) - demand for one in noise
    ]
    free, left = (np.linalg.norm(each @ rows.T, axis=0) for each in (noise, np.array(moved)))

    def part(some: slice) -> float:
        """Of the number that is moved most."""
        most = float(free[some].max(initial=0.0))
        return min(1.0, float(left[some].max()) / most) if most > 0 else 1.0

    return Kept(total=part(slice(0, 1)), flows=part(slice(1, None)))


@lru_cache(maxsize=8)
def _roads(
    network: RoadNetwork,
    latency: AffineLatency | BprLatency,
    objective: Objective,
    zones: int,
    numbers: bytes,
) -> tuple[Roads | None, Floats | None]:
    demand: Floats = np.frombuffer(numbers).reshape(zones, zones)
    roads, form = network.arrays(zones), network.latencies(latency)
    if (
        zones * (roads.nodes + roads.first_through_node) > MOST_WORK
        or roads.tail.size > MAX_LINKS
        or not demand.any()
    ):
        return roads_of(network, latency, objective, zones, round(float(demand.sum()))), None
    solution = assign(roads, form, demand, objective, gap=GAP, max_iterations=ITERATIONS)
    slopes = derivative(roads, form, objective, solution)
    assert slopes.total is not None
    norms = slopes.flow_norms()
    busy = int(np.argmax(norms))
    found = Roads(
        norm=float(np.linalg.norm(slopes.total)),
        most=float(slopes.total.max(initial=0.0)),
        total=solution.total_travel_time,
        pairs=float(norms[busy]) ** 2,
        flow=float(solution.link_flows[busy]),
    )
    return found, np.vstack([slopes.total, slopes.flow_rows(np.argsort(norms)[-BUSY:])])

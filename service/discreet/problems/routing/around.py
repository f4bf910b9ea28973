"""The expected effect of noise on an answer, from the derivative at a demand that an earlier job
has released.

This gives before a release what intervals give after it. At last month's trips the width for the
total travel time is accurate to a few per cent; at a demand made up from public figures, to about
ten per cent.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from discreet.problems.contents import Profile
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing.result import MAX_LINKS, Each, Floats, Kept, Roads, roads_of
from discreet.solvers.traffic import unit_flow_projection
from discreet.solvers.traffic.sensitivity import derivative
from discreet.solvers.traffic.traffic_assignment import Objective, assign
from discreet.solvers.traffic.user_classes import (
    UserClasses,
    assign_classes,
    derivative_of_classes,
)

GAP, ITERATIONS = 1e-8, 200
MOST_WORK = 150_000
"""The most zones times nodes: about a second of processor time. For larger networks rounds of
shortest paths are used, as with public figures alone."""


BUSY = 16
"""Number of links that noise moves most if trips may be negative; the one that it moves most if
they may not is among them."""
DRAWS, MOST_PAIRS = 400, 2_500
"""Number of noise draws, which gives the remaining fraction of noise within 2 %; for more pairs it
is not computed, and taken to be 1."""


def roads_around(
    network: RoadNetwork,
    latency: AffineLatency | BprLatency,
    objective: Objective,
    profile: Profile,
    deviation: float,
    classes: UserClasses | None = None,
) -> tuple[Roads | None, Kept]:
    """The effect of a profile's demand, None if the network is too large; and the fraction that is
    left of noise with this deviation of a pair's mean trips after negative trips are projected
    out."""
    demand = np.ascontiguousarray(profile["demand"], dtype=np.float64)
    told = None if classes is None else (tuple(classes.weight), tuple(classes.pce))
    zones = demand.shape[-1]
    roads, rows = _roads(network, latency, objective, zones, demand.tobytes(), told)
    own = demand[..., ~np.eye(zones, dtype=bool)].reshape(-1, zones * (zones - 1))
    return roads, Kept() if rows is None else _kept(own, rows, deviation)


def _kept(demand: Floats, rows: Floats, deviation: float) -> Kept:
    """Trips are projected to nonnegative ones of the same sum, as those of a release are
    (`counts.demand_of`), so pairs without trips keep at most half of their noise. The amount that
    this adds to the sum is shared by all pairs, so totals keep more noise than flows. rows: those
    of the derivative, the total first. demand: float64[classes, pairs]; each class is projected
    separately."""
    if demand.size > MOST_PAIRS:
        return Kept()
    noise = np.random.default_rng(18).laplace(
        scale=deviation / math.sqrt(2), size=(DRAWS, *demand.shape)
    )
    moved = [
        [
            unit_flow_projection.project(own + one, max(0.0, float(own.sum() + one.sum()))) - own
            for own, one in zip(demand, each, strict=True)
        ]
        for each in noise
    ]
    free, left = (
        np.linalg.norm(np.reshape(each, (DRAWS, -1)) @ rows.T, axis=0) for each in (noise, moved)
    )

    def part(some: slice) -> float:
        """The expectation for the count that is moved most."""
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
    told: tuple[tuple[float, ...], tuple[float, ...]] | None,
) -> tuple[Roads | None, Floats | None]:
    demand: Floats = np.frombuffer(numbers).reshape(-1, zones, zones)
    classes = None if told is None else UserClasses(*map(np.array, told))
    roads, form = network.arrays(zones), network.latencies(latency)
    if (
        zones * (roads.nodes + roads.first_through_node) > MOST_WORK
        or roads.tail.size > MAX_LINKS
        or not demand.any()
    ):
        found = roads_of(network, latency, objective, zones, round(float(demand.sum())))
        if found is None or classes is None:
            return found, None
        own = Each.of(classes)
        norms = own.total * np.array([found.norm, found.most])
        return found._replace(
            norm=float(norms[0]), most=float(norms[1]), pairs=own.flows**2 * found.pairs
        ), None
    if classes is None:
        solution = assign(roads, form, demand[0], objective, gap=GAP, max_iterations=ITERATIONS)
        slopes = derivative(roads, form, objective, solution)
    else:
        solution = assign_classes(
            roads, form, classes, demand, objective, gap=GAP, max_iterations=ITERATIONS
        )
        slopes = derivative_of_classes(roads, form, classes, objective, solution, demand)
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

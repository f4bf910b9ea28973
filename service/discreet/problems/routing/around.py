"""What noise is expected to do to the answer of a demand that an earlier job has released: the derivative there.

The same as intervals tell after a release, told before the next one. For trips of last month the total travel time's
width is within some per cent; at an even demand, which public figures alone leave, within some ten.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from discreet.problems.contents import Profile
from discreet.problems.routing.advice import Floats, Roads, roads_of
from discreet.problems.routing.intervals import MAX_LINKS
from discreet.problems.routing.network import AffineLatency, BprLatency, RoadNetwork
from discreet.solvers.traffic.sensitivity import derivative
from discreet.solvers.traffic.traffic_assignment import Objective, assign

GAP, ITERATIONS = 1e-8, 200
MOST_WORK = 150_000
"""Zones times nodes: a second of processor time. Larger networks are looked at as with public figures alone, by rounds
of shortest paths."""


def roads_around(
    network: RoadNetwork, latency: AffineLatency | BprLatency, objective: Objective, profile: Profile
) -> Roads | None:
    """What a profile's demand does; None where the network is too large to look."""
    demand = np.ascontiguousarray(profile["demand"], dtype=np.float64)
    return _roads(network, latency, objective, len(demand), demand.tobytes())


@lru_cache(maxsize=8)
def _roads(
    network: RoadNetwork, latency: AffineLatency | BprLatency, objective: Objective, zones: int, numbers: bytes
) -> Roads | None:
    demand: Floats = np.frombuffer(numbers).reshape(zones, zones)
    roads, form = network.arrays(zones), latency.solver_form()
    if zones * (roads.nodes + roads.first_through_node) > MOST_WORK or roads.tail.size > MAX_LINKS or not demand.any():
        return roads_of(network, latency, objective, zones, round(float(demand.sum())))
    solution = assign(roads, form, demand, objective, gap=GAP, max_iterations=ITERATIONS)
    slopes = derivative(roads, form, objective, solution)
    assert slopes.total is not None
    norms = slopes.flow_norms()
    busy = int(np.argmax(norms))
    return Roads(
        norm=float(np.linalg.norm(slopes.total)),
        most=float(slopes.total.max(initial=0.0)),
        total=solution.total_travel_time,
        pairs=float(norms[busy]) ** 2,
        flow=float(solution.link_flows[busy]),
    )

"""The release of the method `gradient`: unit flows after one step for each period."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Content
from discreet.problems.routing.gradient import PROJECTION_TOLERANCE
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.request import RoutingRequest
from discreet.solvers.traffic import unit_flow_descent as descent
from discreet.solvers.traffic.traffic_assignment import Network
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

STARTING_GAP = 1e-4


def terms_of(problem: RoutingRequest, public: RoutingPublic, network: Network) -> descent.Terms:
    assert problem.regularization is not None
    assert public.max_total is not None
    assert public.max_pair is not None
    return descent.Terms.of(
        network,
        problem.roads.latencies(problem.latency),
        problem.regularization,
        public.max_total,
        public.max_pair,
    )


def descended(
    problem: RoutingRequest, public: RoutingPublic, content: Content
) -> NDArray[np.float64]:
    """Algorithm 1 from a public start: the system optimum of `max_total` trips spread evenly."""
    network = problem.roads.arrays(public.zones)
    flows, terms = UnitFlows.of_pairs(network), terms_of(problem, public, network)
    trips = content["trips"][content["trips"][:, 1] != content["trips"][:, 2]]
    first = np.searchsorted(trips[:, 0], np.arange(public.periods + 1))
    pair = (trips[:, 1] - 1) * (public.zones - 1) + trips[:, 2] - 1 - (trips[:, 2] > trips[:, 1])

    def demand(period: int) -> NDArray[np.float64]:
        part = slice(first[period], first[period + 1])
        return np.bincount(pair[part], weights=trips[part, 3], minlength=flows.pairs).astype(
            np.float64
        )

    evenly = np.full((public.zones, public.zones), terms.max_total / max(1, flows.pairs))
    start = flows.of_policy(problem.routed(network, evenly, STARTING_GAP).paths)
    steps = terms.step_sizes(public.periods)
    try:
        return descent.descend(flows, terms, steps, demand, start, tolerance=PROJECTION_TOLERANCE)
    except ValueError:
        # This has not been observed within MAX_REACH; in any case a release must be total.
        return start

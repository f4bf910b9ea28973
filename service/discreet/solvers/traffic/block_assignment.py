"""Static traffic assignment in blocks of origins that are worked on in different places.

The same problem and the same optimum as `traffic_assignment.assign`. A block holds the paths of its
origins, prices them and levels their costs as that does, taking the flow of the other blocks as
given. In each round all blocks hear the same link flows and answer the change that each would make
alone (parallel Jacobi steps: Bertsekas and Tsitsiklis 1989). Together the changes may be too much,
so each goes a share of its own, which is found on the link flows alone; since the objective is
convex, going a block's fair share of each never raises it. What travels in a round is one vector of
link flows to each block and one back: an all-reduce. Where congestion is extreme this creeps, as
Jacobi steps do.

Where the blocks live is the business of `Places`; here is nothing but arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from discreet.solvers.traffic.equilibration import equilibrate
from discreet.solvers.traffic.path_flows import (
    Costs,
    Paths,
    extended,
    link_costs,
    load_paths,
    load_trees,
    price,
)
from discreet.solvers.traffic.shortest_paths import Floats
from discreet.solvers.traffic.traffic_assignment import (
    INNER_GAP,
    Assignment,
    Latency,
    Network,
    Objective,
    costs_of,
    graph_of,
    no_path,
    policy_of,
    total_travel_time,
)

SMALLEST_GAP = 1e-8
"""A smaller gap is not asked for: rounds creep there, and a released demand is known to far
less."""

SEARCH_STEPS = 40
"""Bisections of one line search."""

NEWTON_STEPS = 6
COORDINATE_SWEEPS = 30


@dataclass(frozen=True)
class Part:
    """What one block is made of: everybody's network, and the demand of origins `first`, `first` +
    1, …

    `trips`: float64[origins (zones - 1)], by origin, then destination, the origin itself left out.
    """

    number: int
    network: Network
    costs: Costs
    first: int
    trips: Floats


class Block:
    """The origins of one part with their paths."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._roads = graph_of(part.network)
        count = part.trips.size // (part.network.zones - 1)
        self._incoming = np.empty((count, part.network.nodes), dtype=np.int32)
        pairs = part.trips.size
        self._paths = Paths(
            np.zeros(pairs + 1, np.int64), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)
        )
        self._before = np.empty(0)

    def load(self) -> int:
        """Take shortest paths, with no regard for other blocks. A pair of zones with demand and no
        path, or -1."""
        part = self._part
        lost = load_trees(self._roads, part.costs, part.trips, self._incoming, part.first)
        if lost >= 0:
            return lost + part.first * (part.network.zones - 1)
        tail = part.network.tail
        self._paths = extended(
            self._paths, part.trips > 0, part.trips, self._incoming, tail, part.first
        )
        self._before = self._paths.flow.copy()
        return -1

    def carried(self) -> Floats:
        """The link flows of this block's paths: float64[m]."""
        flow = np.empty(self._part.network.tail.size)
        load_paths(self._paths, self._part.trips, flow)
        return flow

    def step(self, flow: Floats, shares: Floats) -> tuple[float, Floats]:
        """Go this block's share of its last change, after which all link flows are `flow`; then
        what the flow of this block costs too much there, and the change of link flows, float64[m],
        that this block would make alone."""
        part = self._part
        self.keep(shares)
        cost, slope = link_costs(part.costs, flow)
        excess, add = price(self._roads, self._paths, cost, self._incoming, part.first)
        tail = part.network.tail
        self._paths = extended(
            self._paths, add & (part.trips > 0), part.trips, self._incoming, tail, part.first
        )
        self._before = self._paths.flow.copy()
        moved = flow.copy()
        equilibrate(part.costs, self._paths, moved, cost, slope, INNER_GAP * excess)
        return excess, moved - flow

    def keep(self, shares: Floats) -> None:
        """Go this block's share of its last change."""
        share = shares[self._part.number]
        self._paths.flow[:] = (1 - share) * self._before + share * self._paths.flow
        self._before = self._paths.flow.copy()

    def excess(self, flow: Floats) -> float:
        """What the flow of this block costs too much at the link flows `flow`."""
        cost, _ = link_costs(self._part.costs, flow)
        return float(price(self._roads, self._paths, cost, self._incoming, self._part.first)[0])

    def paths(self, flow: Floats) -> Paths:
        """All paths at the end; pairs without demand get their shortest one at the link flows
        `flow`, with flow 1."""
        part = self._part
        cost, _ = link_costs(part.costs, flow)
        _, add = price(self._roads, self._paths, cost, self._incoming, part.first)
        weights = np.where(part.trips > 0, part.trips, 1.0)
        none = add & (part.trips == 0)
        return extended(self._paths, none, weights, self._incoming, part.network.tail, part.first)


class Places(Protocol):
    """Where blocks live: here, or on many machines."""

    def open(self, parts: Sequence[Part]) -> None:
        """Make a block of each part."""

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every block with the same arguments; the answers in the order of the
        parts."""


def assign_in_blocks(
    places: Places,
    blocks: int,
    network: Network,
    latency: Latency,
    demand: Floats,
    objective: Objective,
    *,
    gap: float = SMALLEST_GAP,
    max_iterations: int = 1000,
    progress: Callable[[int, int], None] | None = None,
) -> Assignment:
    """What `traffic_assignment.assign` does, with its meaning and its refusals, in at most `blocks`
    blocks of origins.

    The link flows agree with that one's as far as the two gaps allow; the paths may differ, as they
    are not unique. A `gap` below `SMALLEST_GAP` stands for that.
    """
    gap = max(gap, SMALLEST_GAP)
    zones = network.zones
    trips = np.asarray(demand, dtype=np.float64)[~np.eye(zones, dtype=np.bool_)]
    costs = costs_of(network, latency, objective)
    edges = np.unique(np.linspace(0, zones, min(blocks, zones) + 1).round().astype(int)) * (
        zones - 1
    )
    nothing = np.zeros(len(edges) - 1)
    places.open(
        [
            Part(number, network, costs, int(low) // (zones - 1), trips[low:high])
            for number, (low, high) in enumerate(pairwise(edges))
        ]
        if zones > 1
        else []
    )
    if lost := [pair for pair in places.each("load") if pair >= 0]:
        raise no_path(lost[0], zones)
    flow = _sum(places.each("carried"), network)
    shares, iteration = nothing, 0
    while True:
        answers = places.each("step", flow, shares)
        relative_gap = _gap(sum(excess for excess, _ in answers), costs, flow)
        if relative_gap <= gap or iteration == max_iterations:
            break
        changes = np.stack([change for _, change in answers])
        shares = _best_shares(costs, flow, changes)
        flow = np.maximum(flow + shares @ changes, 0.0)
        iteration += 1
        if progress is not None:
            progress(iteration, max_iterations)
    places.each("keep", nothing)
    flow = _sum(
        places.each("carried"), network
    )  # exactly what the paths carry, without the rounding of the rounds
    relative_gap = _gap(sum(places.each("excess", flow)), costs, flow)
    paths = _joined(places.each("paths", flow))
    return Assignment(
        link_flows=flow,
        paths=policy_of(paths, np.where(trips > 0, trips, 1.0), zones, network.tail.size),
        relative_gap=relative_gap,
        iterations=iteration,
        status="converged" if relative_gap <= gap else "iteration_limit",
        total_travel_time=total_travel_time(network, latency, flow),
    )


def _sum(flows: Sequence[Floats], network: Network) -> Floats:
    total = np.zeros(network.tail.size)
    for one in flows:
        total += one
    return total


def _gap(excess: float, costs: Costs, flow: Floats) -> float:
    cost, _ = link_costs(costs, flow)
    return float(excess) / float(np.sum(cost * flow)) if excess > 0 else 0.0


def _best_shares(costs: Costs, flow: Floats, changes: Floats) -> Floats:
    """How much of each block's change to go, float64[blocks] in [0, 1], so that the objective is
    least: projected Newton steps with a line search each. `changes`: float64[blocks, m]."""
    shares = np.zeros(len(changes))
    for _ in range(NEWTON_STEPS):
        cost, slope = link_costs(costs, np.maximum(flow + shares @ changes, 0.0))
        gradient, curvature = changes @ cost, (changes * slope) @ changes.T
        step = _boxed(gradient, curvature, shares) - shares
        if gradient @ step >= 0:
            break
        shares = np.clip(
            shares + _length(costs, flow + shares @ changes, step @ changes) * step, 0.0, 1.0
        )
    return shares


def _boxed(gradient: Floats, curvature: Floats, shares: Floats) -> Floats:
    """Near the least point in [0, 1]^blocks of the quadratic model around `shares`: coordinate by
    coordinate."""
    found = shares.copy()
    slope = gradient.copy()
    for _ in range(COORDINATE_SWEEPS):
        for block in range(len(found)):
            if curvature[block, block] > 0:
                best = found[block] - slope[block] / curvature[block, block]
            else:
                best = 1.0 if slope[block] < 0 else found[block]
            best = min(max(best, 0.0), 1.0)
            slope += (best - found[block]) * curvature[block]
            found[block] = best
    return found


def _length(costs: Costs, flow: Floats, step: Floats) -> float:
    """Where in [0, 1] the objective is least on the way along `step`: the zero of `sum cost *
    step`, which grows."""

    def slope(length: float) -> float:
        return float(np.sum(link_costs(costs, np.maximum(flow + length * step, 0.0))[0] * step))

    if slope(1.0) <= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(SEARCH_STEPS):
        middle = 0.5 * (low + high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
    return low


def _joined(blocks: Sequence[Paths]) -> Paths:
    """The paths of all pairs, from those of the blocks in their order."""
    start, first, links, flow = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)], [], []
    for one in blocks:
        start.append(one.start[1:] + start[-1][-1])
        first.append(one.first[1:] + first[-1][-1])
        links.append(one.links)
        flow.append(one.flow)
    return Paths(
        np.concatenate(start),
        np.concatenate(first),
        np.concatenate([np.empty(0, np.int32), *links]),
        np.concatenate([np.empty(0), *flow]),
    )

"""Static traffic assignment: system optimum and user equilibrium on a network with separable link
latencies.

User equilibrium (Wardrop 1952) minimizes `sum_a ∫_0^{y_a} t_a` over the flows that carry the demand
(Beckmann, McGuire, Winsten 1956), system optimum `sum_a y_a t_a(y_a)`. The second is the first with
marginal costs `t + y t'`, and for `t(y) = t0 (1 + b (y/k)^p) + f` these have the same form with `b
(p + 1)` in place of `b`: one algorithm serves both.

The algorithm is gradient projection in the space of path flows (Jayakrishnan, Tsai, Prashker,
Rajadhyaksha 1994; Bertsekas 1976). One iteration prices all zone pairs by shortest-path trees,
which also gives the exact relative gap, adds each pair's shortest path if it is cheaper than all
known ones, and equilibrates the known paths. Pricing costs as much as a few sweeps over the pairs,
so the known paths are equilibrated well before new ones are sought.

Nothing here is private. Conditions that a caller can check on its public data (such as positive
capacities) are not checked again; `unreachable_pairs` finds zone pairs without a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from discreet.solvers.errors import InvalidArgument, NoSolution
from discreet.solvers.traffic.path_flows import (
    Costs,
    Each,
    Floats,
    Graph,
    Ints,
    LinkIndices,
    Paths,
    equilibrate,
    extended,
    graph,
    in_turn,
    link_costs,
    load_paths,
    load_trees,
    price,
)

Objective = Literal["system_optimum", "user_equilibrium"]

INNER_GAP = 0.03
"""The sweeps of an iteration stop when the known paths are equilibrated to this fraction of its
initial gap."""


@dataclass(frozen=True)
class Network:
    """A directed road network with m links; parallel links are allowed.

    `nodes`, `zones`: counts; zones are the nodes 0..zones-1. Nodes with an index below
    `first_through_node` are centroids, where paths start and end but which they do not pass.
    `tail`, `head`: int64[m], 0-based nodes. `free_flow_time`: float64[m], >= 0, in any unit of
    time. `capacity`: float64[m], > 0, in the unit of the demand. Raises InvalidArgument if lengths
    or node numbers do not fit; the caller checks the meaning of the figures.
    """

    nodes: int
    zones: int
    first_through_node: int
    tail: Ints
    head: Ints
    free_flow_time: Floats
    capacity: Floats

    def __post_init__(self) -> None:
        for name, dtype in (
            ("tail", np.int64),
            ("head", np.int64),
            ("free_flow_time", np.float64),
            ("capacity", np.float64),
        ):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        if any(
            array.shape != (self.tail.size,)
            for array in (self.tail, self.head, self.free_flow_time, self.capacity)
        ):
            raise InvalidArgument(
                "tail, head, free_flow_time and capacity need one entry for each link"
            )
        if not 0 <= self.zones <= self.nodes:
            raise InvalidArgument(f"{self.zones} zones do not fit into {self.nodes} nodes")
        if self.tail.size and not (
            min(self.tail.min(), self.head.min()) >= 0
            and max(self.tail.max(), self.head.max()) < self.nodes
        ):
            raise InvalidArgument(f"links join nodes 0..{self.nodes - 1}")


@dataclass(frozen=True)
class Latency:
    """`t(y) = free_flow_time (1 + coefficient (y/capacity)^power) + fixed_cost`, each one number
    for all links or float64[m].

    The coefficient and the fixed cost (such as a toll, in units of time) are nonnegative, and the
    power is 0 or at least 1. `Latency(factor, 1)` is affine, `Latency(.15, 4)` the formula of the
    Bureau of Public Roads (1964). Raises InvalidArgument for other figures: with a power between 0
    and 1 the first vehicle would meet an infinite slope.
    """

    coefficient: float | Floats
    power: float | Floats
    fixed_cost: float | Floats = 0.0

    def __post_init__(self) -> None:
        for name, figure in (("coefficient", self.coefficient), ("fixed cost", self.fixed_cost)):
            if not (np.isfinite(figure) & (np.asarray(figure) >= 0)).all():
                raise InvalidArgument(
                    f"the {name} of a latency is finite and not negative, not {figure}"
                )
        power = np.asarray(self.power)
        if not ((power == 0) | ((power >= 1) & (power < np.inf))).all():
            raise InvalidArgument(
                f"the power of a latency must be 0 or at least 1, not {self.power}"
            )

    def times(self, network: Network, flow: Floats) -> Floats:
        """`t(y)` of all links at the link flows y: float64[m]."""
        raised = (flow / network.capacity) ** self.power
        return np.asarray(
            network.free_flow_time * (1 + self.coefficient * raised) + self.fixed_cost
        )


@dataclass(frozen=True)
class Policy:
    """The paths of every ordered pair of distinct zones and how the pair's demand is shared among
    them.

    `origin`, `destination`: int64[p] with p = zones (zones - 1), by origin, then destination. Pair
    i has the paths `pair_start[i]..pair_start[i + 1]` (int64[p + 1]) with `share` (float64[paths],
    >= 0, sum 1 within a pair); path j passes `links[path_start[j]:path_start[j + 1]]` (int32,
    positions in the network, from origin to destination). A pair without demand has its shortest
    path; a pair that no path joins has none. `link_count` is the network's m.
    """

    origin: Ints
    destination: Ints
    pair_start: Ints
    share: Floats
    path_start: Ints
    links: LinkIndices
    link_count: int


@dataclass(frozen=True)
class Assignment:
    """A traffic assignment and the certificate of its quality.

    `link_flows`: float64[m], the flows of `paths`. `relative_gap`: `(sum_a c_a y_a - sum_w d_w u_w)
    / sum_a c_a y_a` at these flows, c the marginal cost (system optimum) or travel time (user
    equilibrium), u the cost of a shortest path; the numerator bounds how far the objective is above
    its minimum. `status`: "converged" if the requested gap is reached, "iteration_limit" if not;
    the flows carry the demand either way. `total_travel_time`: `sum_a y_a t_a(y_a)`, including
    fixed costs, in units of demand times time.
    """

    link_flows: Floats
    paths: Policy
    relative_gap: float
    iterations: int
    status: Literal["converged", "iteration_limit"]
    total_travel_time: float


def assign(
    network: Network,
    latency: Latency,
    demand: Floats,
    objective: Objective,
    *,
    gap: float = 1e-10,
    max_iterations: int = 500,
    progress: Callable[[int, int], None] | None = None,
    threads: int = 1,
) -> Assignment:
    """Assign `demand` (float64[zones, zones], origin by destination; the diagonal is ignored) to
    the network.

    Stops at relative gap <= `gap` or after `max_iterations`, each followed by `progress(iteration,
    max_iterations)`. `threads` threads find shortest paths from blocks of origins in parallel,
    since these are independent; levelling costs pair by pair uses one thread. The result is a
    deterministic function of the other arguments, bit for bit the same for any number of threads.
    Raises InvalidArgument for a demand of another shape, negative or not finite, and for positive
    demand between zones that no path joins (which it names, 0-based).
    """
    demand = np.asarray(demand, dtype=np.float64)
    zones = network.zones
    if demand.shape != (zones, zones):
        raise InvalidArgument(f"demand has shape {demand.shape}, the network has {zones} zones")
    if not (np.isfinite(demand).all() and (demand >= 0).all()):
        raise InvalidArgument("demand must be finite and nonnegative")
    trips = demand[~np.eye(zones, dtype=np.bool_)]  # pairs of distinct zones, by origin
    roads = graph_of(network)
    costs = costs_of(network, latency, objective)

    with origins_at_once(threads) as each:
        return _assigned(
            network, latency, trips, objective, roads, costs, each, gap, max_iterations, progress
        )


def _assigned(
    network: Network,
    latency: Latency,
    trips: Floats,
    objective: Objective,
    roads: Graph,
    costs: Costs,
    each: Each,
    gap: float,
    max_iterations: int,
    progress: Callable[[int, int], None] | None,
) -> Assignment:
    zones = network.zones
    incoming = np.empty((zones, network.nodes), dtype=np.int32)
    lost = load_trees(roads, costs, trips, incoming)
    if lost >= 0:
        raise no_path(lost, zones)
    none = Paths(
        np.zeros(trips.size + 1, np.int64),
        np.zeros(1, np.int64),
        np.empty(0, np.int32),
        np.empty(0),
    )
    paths = extended(none, trips > 0, trips, incoming, network.tail, each=each)
    flow = np.empty(network.tail.size)
    iteration = 0
    while True:
        load_paths(paths, trips, flow)
        cost, slope = link_costs(costs, flow)
        excess, add = price(roads, paths, cost, incoming, each=each)
        relative_gap = excess / float(np.sum(cost * flow)) if excess > 0 else 0.0
        if relative_gap <= gap or iteration == max_iterations:
            break
        paths = extended(paths, add & (trips > 0), trips, incoming, network.tail, each=each)
        equilibrate(costs, paths, flow, cost, slope, INNER_GAP * excess)
        iteration += 1
        if progress is not None:
            progress(iteration, max_iterations)

    # Pairs without demand get their shortest path at the final costs; their flow of 1 only
    # represents the share.
    weights = np.where(trips > 0, trips, 1.0)
    paths = extended(paths, add & (trips == 0), weights, incoming, network.tail, each=each)
    return Assignment(
        link_flows=flow,
        paths=policy_of(paths, weights, zones, network.tail.size),
        relative_gap=relative_gap,
        iterations=iteration,
        status="converged" if relative_gap <= gap else "iteration_limit",
        total_travel_time=total_travel_time(network, latency, flow),
    )


@contextmanager
def origins_at_once(threads: int) -> Iterator[Each]:
    """Runs blocks of origins in this many threads, or in the current one if it is one."""
    if threads == 1:
        yield in_turn
        return
    with ThreadPoolExecutor(threads) as pool:

        def each(work: Callable[[slice], None], blocks: Sequence[slice]) -> None:
            for _ in pool.map(work, blocks):
                pass

        yield each


def total_travel_time(network: Network, latency: Latency, link_flows: Floats) -> float:
    """`sum_a y_a t_a(y_a)` of link flows y: float64[m]."""
    return float(np.sum(link_flows * latency.times(network, link_flows)))


def link_flows_of(policy: Policy, demand: Floats) -> Floats:
    """The link flows float64[m] when `demand` (float64[zones, zones]) follows `policy`.

    This measures a policy that was made from released demand on the true demand.
    """
    trips = np.asarray(demand, dtype=np.float64)[policy.origin, policy.destination]
    flow = policy.share * np.repeat(trips, np.diff(policy.pair_start))
    carried: Floats = np.zeros(policy.link_count)
    np.add.at(carried, policy.links, np.repeat(flow, np.diff(policy.path_start)))
    return carried


def unreachable_pairs(network: Network) -> Iterator[tuple[int, int]]:
    """Yields all ordered pairs (origin, destination) of distinct zones, 0-based, that no path
    joins; there may be millions.

    It uses SciPy, so that planning alone loads no compiled kernel. A centroid is represented by two
    nodes, one for arrivals and one for departures, which are not joined.
    """
    centroids, nodes = network.first_through_node, network.nodes
    leaves = np.where(network.tail < centroids, network.tail + nodes, network.tail)
    size = nodes + centroids
    roads = csr_array((np.ones(leaves.size), (leaves, network.head)), shape=(size, size))
    for origin in range(network.zones):
        reached = np.zeros(size, dtype=np.bool_)
        start = origin + nodes if origin < centroids else origin
        reached[breadth_first_order(roads, start, return_predecessors=False)] = True
        reached[origin] = True
        yield from ((origin, int(zone)) for zone in np.flatnonzero(~reached[: network.zones]))


def graph_of(network: Network) -> Graph:
    return graph(network.nodes, network.first_through_node, network.tail, network.head)


def costs_of(network: Network, latency: Latency, objective: Objective) -> Costs:
    """The link costs of the equilibrium: travel times, or marginal costs for the system optimum.

    A power of 0 gives a constant, which becomes part of the free cost."""
    times = latency.coefficient * (latency.power + 1 if objective == "system_optimum" else 1)
    free, scale = network.free_flow_time + latency.fixed_cost, network.free_flow_time * times
    power = np.array(np.broadcast_to(latency.power, free.shape), dtype=np.float64)
    constant = power == 0
    power[constant] = 1.0
    return Costs(
        np.where(constant, free + scale, free),
        np.where(constant, 0.0, scale),
        network.capacity,
        power,
    )


def no_path(pair: int, zones: int) -> NoSolution:
    """The error that names the zones of a pair that no path joins."""
    origin, rank = divmod(pair, zones - 1)
    return NoSolution(f"no path leads from zone {origin} to zone {rank + (rank >= origin)}")


def policy_of(paths: Paths, trips: Floats, zones: int, link_count: int) -> Policy:
    origin, destination = np.nonzero(~np.eye(zones, dtype=np.bool_))
    share = paths.flow / np.repeat(trips, np.diff(paths.start))
    return Policy(origin, destination, paths.start, share, paths.first, paths.links, link_count)

"""Assignment of several classes of users, which share the congestion and have their own weights of
fixed costs.

A link costs class c the time `t_a(v) + weight_c fixed_a` at the flow v of all classes in passenger
car equivalents (PCE). With z = pce y the flows of the classes in PCE, their equilibrium solves one
convex program (Beckmann, McGuire, Winsten 1956; Dafermos 1972 for classes whose congestion is the
same):

    min  sum_a ∫_0^{v_a} t_a + sum_c weight_c sum_a fixed_a z_ac  with  v_a = sum_c z_ac.

The system optimum has `v_a t_a(v_a)` in place of the integral, which is the time of all trips if
all classes have the same PCE. If these differ, it is not, and the problem is not convex, so it is
refused.

Link flows v are unique if times increase strictly with flows, and so are the fixed costs of all
classes together. Flows of single classes are not: if two paths have the same fixed costs, any class
may take either.

Each class has its own trees of shortest paths. To level costs, a path of a class with a larger
weight passes, after each link with a fixed cost, an artificial link of its class that only costs
the difference: so costs are separable again, and the code for one class levels them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.traffic.path_flows import (
    Costs,
    Floats,
    Paths,
    equilibrate,
    extended,
    link_costs,
    load_paths,
    load_trees,
    price,
)
from discreet.solvers.traffic.sensitivity import Derivative, derivative, shares_of
from discreet.solvers.traffic.traffic_assignment import (
    INNER_GAP,
    Assignment,
    Latency,
    Network,
    Objective,
    Policy,
    costs_of,
    graph_of,
    link_flows_of,
    no_path,
    policy_of,
)


@dataclass(frozen=True)
class UserClasses:
    """`weight` float64[k], >= 0: weights of fixed costs. `pce` float64[k], > 0: the number of
    passenger cars that a trip counts as."""

    weight: Floats
    pce: Floats

    @property
    def number(self) -> int:
        return int(self.weight.size)

    def surcharge(self, latency: Latency, links: int) -> Floats:
        """The additional cost of a link for each class, compared with the class of least weight:
        float64[k, links]."""
        fixed = np.broadcast_to(np.asarray(latency.fixed_cost, dtype=np.float64), (links,))
        return np.asarray((self.weight - self.weight.min())[:, None] * fixed)

    def common(self, latency: Latency) -> Latency:
        """The latency of the class with the least weight."""
        return replace(latency, fixed_cost=latency.fixed_cost * float(self.weight.min()))


def assign_classes(
    network: Network,
    latency: Latency,
    classes: UserClasses,
    demand: Floats,
    objective: Objective,
    *,
    gap: float = 1e-10,
    max_iterations: int = 500,
    progress: Callable[[int, int], None] | None = None,
) -> Assignment:
    """Assign the trips `demand` (float64[k, zones, zones]) of k classes, as `assign` does for one.

    `link_flows` are those of all classes together, in PCE. `paths` has the pairs of the first
    class, then those of the next. `relative_gap` is that of the program above, in PCE.
    `total_travel_time` is that of trips, with each class's own weight of fixed costs. Raises
    InvalidArgument for a demand of another shape, negative or not finite, and for a system optimum
    of classes with different PCE; NoSolution for positive demand between zones that no path joins.
    """
    demand, zones, links = np.asarray(demand, dtype=np.float64), network.zones, network.tail.size
    if demand.shape != (classes.number, zones, zones):
        raise InvalidArgument(f"demand has shape {demand.shape}, of {zones} zones")
    if not (np.isfinite(demand).all() and (demand >= 0).all()):
        raise InvalidArgument("demand must be finite and nonnegative")
    if objective == "system_optimum" and np.ptp(classes.pce) > 0:
        raise InvalidArgument("a system optimum of classes with different PCE is not convex")
    apart = ~np.eye(zones, dtype=np.bool_)
    trips = [pce * each[apart] for pce, each in zip(classes.pce, demand, strict=True)]
    roads, common = graph_of(network), costs_of(network, classes.common(latency), objective)
    surcharge = classes.surcharge(latency, links)
    incoming = np.empty((classes.number, zones, network.nodes), dtype=np.int32)
    paths = []
    for each, more, trees in zip(trips, surcharge, incoming, strict=True):
        lost = load_trees(roads, common._replace(free=common.free + more), each, trees)
        if lost >= 0:
            raise no_path(lost, zones)
        paths.append(extended(_none(each.size), each > 0, each, trees, network.tail))
    flows, iteration = np.empty((classes.number, links)), 0
    while True:
        for some, each, carried in zip(paths, trips, flows, strict=True):
            load_paths(some, each, carried)
        flow = flows.sum(axis=0)
        cost, _ = link_costs(common, flow)
        priced = [
            price(roads, some, cost + more, trees)
            for some, more, trees in zip(paths, surcharge, incoming, strict=True)
        ]
        excess = sum(each for each, _ in priced)
        spent = float(np.sum(cost * flow) + np.sum(surcharge * flows))
        relative_gap = excess / spent if excess > 0 else 0.0
        if relative_gap <= gap or iteration == max_iterations:
            break
        paths = [
            extended(some, add & (each > 0), each, trees, network.tail)
            for some, (_, add), each, trees in zip(paths, priced, trips, incoming, strict=True)
        ]
        _level(common, surcharge, paths, flow, INNER_GAP * excess)
        iteration += 1
        if progress is not None:
            progress(iteration, max_iterations)

    policies = []
    for some, (_, add), each, trees in zip(paths, priced, trips, incoming, strict=True):
        weights = np.where(each > 0, each, 1.0)
        known = extended(some, add & (each == 0), weights, trees, network.tail)
        policies.append(policy_of(known, weights, zones, links))
    policy = _together(policies)
    return Assignment(
        link_flows=flow,
        paths=policy,
        relative_gap=relative_gap,
        iterations=iteration,
        status="converged" if relative_gap <= gap else "iteration_limit",
        total_travel_time=total_time(network, latency, classes, flows / classes.pce[:, None]),
    )


def _none(pairs: int) -> Paths:
    """Path flows without any path."""
    start, first = np.zeros(pairs + 1, np.int64), np.zeros(1, np.int64)
    return Paths(start, first, np.empty(0, np.int32), np.empty(0))


def _level(
    common: Costs, surcharge: Floats, paths: Sequence[Paths], flow: Floats, target: float
) -> None:
    """Equilibrate the known paths of all classes at once; changes their flows in place."""
    links = flow.size
    dearer = surcharge > 0
    own = np.cumsum(dearer.ravel()).reshape(dearer.shape) - 1 + links
    more = surcharge[dearer]
    costs = Costs(
        np.concatenate([common.free, more]),
        np.concatenate([common.scale, np.zeros(more.size)]),
        np.concatenate([common.capacity, np.ones(more.size)]),
        np.concatenate([common.power, np.ones(more.size)]),
    )
    parts = []
    for some, dear, place in zip(paths, dearer, own, strict=True):
        count = 1 + dear[some.links]
        end = np.concatenate([[0], np.cumsum(count)])
        passed = np.empty(end[-1], dtype=np.int32)
        passed[end[:-1]] = some.links
        passed[end[1:][count == 2] - 1] = place[some.links[count == 2]]
        parts.append(Paths(some.start, end[some.first], passed, some.flow))
    whole = Paths(
        _joined([part.start for part in parts]),
        _joined([part.first for part in parts]),
        np.concatenate([part.links for part in parts]),
        np.concatenate([part.flow for part in parts]),
    )
    carried = np.zeros(costs.free.size)
    np.add.at(carried, whole.links, np.repeat(whole.flow, np.diff(whole.first)))
    cost, slope = link_costs(costs, carried)
    equilibrate(costs, whole, carried, cost, slope, target)
    for some, levelled in zip(
        paths, np.split(whole.flow, np.cumsum([part.flow.size for part in parts])[:-1]), strict=True
    ):
        some.flow[:] = levelled


def _joined(starts: Sequence[np.ndarray]) -> np.ndarray:
    """Bounds of consecutive parts as bounds of the whole."""
    before = np.concatenate([[0], np.cumsum([start[-1] for start in starts])])
    moved = [start[:-1] + first for start, first in zip(starts, before[:-1], strict=True)]
    return np.concatenate([*moved, before[-1:]]).astype(np.int64)


def _together(policies: Sequence[Policy]) -> Policy:
    return Policy(
        np.concatenate([policy.origin for policy in policies]),
        np.concatenate([policy.destination for policy in policies]),
        _joined([policy.pair_start for policy in policies]),
        np.concatenate([policy.share for policy in policies]),
        _joined([policy.path_start for policy in policies]),
        np.concatenate([policy.links for policy in policies]),
        policies[0].link_count,
    )


def policies_by_class(policy: Policy, number: int) -> list[Policy]:
    """The policy of each of `number` classes."""
    size, found = policy.origin.size // number, []
    for first in range(0, number * size, size):
        starts = policy.pair_start[first : first + size + 1]
        ends = policy.path_start[starts[0] : starts[-1] + 1]
        found.append(
            Policy(
                policy.origin[first : first + size],
                policy.destination[first : first + size],
                starts - starts[0],
                policy.share[starts[0] : starts[-1]],
                ends - ends[0],
                policy.links[ends[0] : ends[-1]],
                policy.link_count,
            )
        )
    return found


def together(policies: Sequence[Policy], demand: Floats) -> Policy:
    """The policy of the trips of all classes together, for `demand` float64[k, zones, zones]: each
    path with its share of all trips of its pair."""
    first = policies[0]
    trips = demand[:, first.origin, first.destination]
    trips[:, trips.sum(axis=0) == 0] = 1.0
    weight = trips / trips.sum(axis=0)
    columns = [
        (part.pair_start.tolist(), part.path_start.tolist(), part.share.tolist())
        for part in policies
    ]
    counts, shares, lengths = list[int](), list[float](), list[int]()
    links = list[np.ndarray]()
    for pair in range(first.origin.size):
        found = dict[bytes, float]()
        for number, (starts, ends, share) in enumerate(columns):
            for path in range(starts[pair], starts[pair + 1]):
                way = policies[number].links[ends[path] : ends[path + 1]].tobytes()
                found[way] = found.get(way, 0.0) + share[path] * float(weight[number, pair])
        counts.append(len(found))
        for way, part in found.items():
            passed = np.frombuffer(way, dtype=np.int32)
            shares.append(part)
            lengths.append(passed.size)
            links.append(passed)
    starts_of = (
        np.concatenate([[0], np.cumsum(each)]).astype(np.int64) for each in (counts, lengths)
    )
    pair_start, path_start = starts_of
    whole = np.concatenate(links) if links else np.empty(0, dtype=np.int32)
    ends_of = first.origin, first.destination
    return Policy(*ends_of, pair_start, np.array(shares), path_start, whole, first.link_count)


def flows_by_class(policy: Policy, demand: Floats) -> Floats:
    """The trips of each class over each link, float64[k, links], when `demand` (float64[k, zones,
    zones]) follows `policy`."""
    policies = policies_by_class(policy, len(demand))
    return np.array([link_flows_of(*each) for each in zip(policies, demand, strict=True)])


def total_time(network: Network, latency: Latency, classes: UserClasses, flows: Floats) -> float:
    """`sum_c sum_a y_ac (t_a(v) + weight_c fixed_a)` of the classes' trips y float64[k, links]."""
    times = classes.common(latency).times(network, classes.pce @ flows)
    return float(np.sum(flows * (times + classes.surcharge(latency, times.size))))


def pair_times(
    network: Network, latency: Latency, classes: UserClasses, solution: Assignment
) -> Floats:
    """The mean cost of a trip of each class and pair over its paths: float64[k, pairs]."""
    times = classes.common(latency).times(network, solution.link_flows)
    more = classes.surcharge(latency, times.size)
    policies = policies_by_class(solution.paths, classes.number)
    return np.array(
        [shares_of(policy) @ (times + own) for policy, own in zip(policies, more, strict=True)]
    )


def derivative_of_classes(
    network: Network,
    latency: Latency,
    classes: UserClasses,
    objective: Objective,
    solution: Assignment,
    demand: Floats,
    *,
    links: bool = True,
) -> Derivative:
    """The derivative of link flows in PCE and of the total travel time in the trips of each class
    and pair, at `solution` of `demand`; see `sensitivity.derivative`.

    One more trip of pair w of class c takes its own cost u_w; at the equilibrium it also changes
    the times of all others by `dv = pce_c M B_w`, and y_a trips pass link a: `u_w + pce_c (y t')' M
    B_w`. At the system optimum the derivative is the marginal cost of its paths.
    """
    common = classes.common(latency)
    found = derivative(network, common, objective, solution, links=links)
    scale = np.repeat(classes.pce, solution.paths.origin.size // classes.number)
    total = found.total
    if total is not None and objective == "system_optimum":
        more = classes.surcharge(latency, solution.link_flows.size)
        policies = policies_by_class(solution.paths, classes.number)
        own = [shares_of(policy) @ each for policy, each in zip(policies, more, strict=True)]
        total = total + np.concatenate(own)
    elif total is not None and found.moves is not None:
        _, slope = link_costs(costs_of(network, common, objective), solution.link_flows)
        felt = slope * flows_by_class(solution.paths, demand).sum(axis=0)
        left, right = found.moves
        felt = felt - right.T @ (left.T @ felt)
        own_time = pair_times(network, latency, classes, solution).ravel()
        total = own_time + scale * (found.shares @ felt)
    return Derivative(found.shares.multiply(scale[:, None]).tocsr(), found.moves, total)

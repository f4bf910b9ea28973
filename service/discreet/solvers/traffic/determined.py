"""Which link flows an assignment leaves open: those that differ among assignments that are all
optimal.

The program has a strictly convex term for each link whose cost rises with its flow, so the flow of
such a link is the same in every optimum, and with it every link's cost. A link of constant cost may
carry more in one optimum and less in another. An optimum sends all trips of an origin over links
that are on shortest paths from it to their destinations, at these costs; so two optima differ by a
sum, over the origins, of circulations on these links that are 0 on all links of rising cost
together. Circulations of an origin are combinations of its detours: of a link that is not in a tree
of shortest paths, the way over it less the way in the tree. With V the detours of all origins (V_S
on links of rising cost, V_C on the others) a link of constant cost is open if V_C c is not 0 there
for some c with V_S c = 0.

That takes every detour as one that some optimum uses. Where one is not, because the links of rising
cost have no flow to spare for it, more links are called open than are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from discreet.solvers.traffic.path_flows import Floats, Ints, link_costs
from discreet.solvers.traffic.sensitivity import ACTIVE, distinct
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    Objective,
    costs_of,
)
from discreet.solvers.traffic.user_classes import UserClasses

Bools = NDArray[np.bool_]

SHORTEST = 1e-7
"""In parts of the shortest way to its head: a link that makes it longer by no more is on one."""
CONSTANT = 1e-10
"""In parts of the mean cost of a link: one whose cost would rise by no more, if all trips took it,
is constant."""
MOST_DETOURS = 3000
"""Beyond so many different ones every link of constant cost in one of them is called open."""
ZERO = 1e-9
"""Of numbers that are sums of -1, 0 and 1."""


def open_links(
    network: Network,
    latency: Latency,
    objective: Objective,
    solution: Assignment,
    demand: Floats,
    classes: UserClasses | None = None,
) -> Bools:
    """The links whose flow the program does not determine: bool[links]. `solution`: an assignment
    of `demand` (float64[zones, zones], or float64[k, zones, zones] of classes) with a small gap."""
    links = network.tail.size
    common = latency if classes is None else classes.common(latency)
    costs = costs_of(network, common, objective)
    cost, _ = link_costs(costs, solution.link_flows)
    pce = np.ones(1) if classes is None else classes.pce
    trips = demand if demand.ndim == 3 else demand[None]
    total = float(np.tensordot(pce, trips.sum(axis=(1, 2)), axes=1))
    with np.errstate(over="ignore"):
        rise = costs.scale * (total / costs.capacity) ** costs.power
    constant = rise <= CONSTANT * float(cost.mean()) if links else np.zeros(0, dtype=np.bool_)
    if not constant.any():
        return np.zeros(links, dtype=np.bool_)
    more = np.zeros((1, links)) if classes is None else classes.surcharge(latency, links)
    usable = constant | (solution.link_flows > ACTIVE**2 * total)
    taken = _taken(solution, trips)
    # A centroid is two nodes, of which that of departures is reached from nowhere.
    split = network.tail < network.first_through_node
    tail = np.where(split, network.tail + network.nodes, network.tail)
    short = [
        _shortest(network, tail, cost + own, usable, some, each)
        for own, some, each in zip(more, trips, taken, strict=True)
    ]
    anywhere = np.any([one.any(axis=0) for one in short], axis=0)
    if not _in_circles(tail, network.head, np.flatnonzero(constant & anywhere)):
        return np.zeros(links, dtype=np.bool_)
    rows = [
        row
        for some, each in zip(short, trips, strict=True)
        for row in _detours(network, tail, some, each)
    ]
    if not rows:
        return np.zeros(links, dtype=np.bool_)
    starts = np.cumsum([0, *(places.size for places, _ in rows)])
    places, signs = (np.concatenate([row[part] for row in rows]) for part in (0, 1))
    detours = csr_array((signs.astype(np.float64), places, starts), shape=(len(rows), links))
    return _moved(distinct(detours), constant)


def _taken(solution: Assignment, trips: Floats) -> Bools:
    """The links on paths that trips take, by class and origin: bool[k, zones, links]."""
    policy, (number, zones, _) = solution.paths, trips.shape
    found = np.zeros((number, zones, policy.link_count), dtype=np.bool_)
    pair = np.repeat(np.arange(policy.origin.size), np.diff(policy.pair_start))
    class_of = np.arange(policy.origin.size) // max(1, policy.origin.size // number)
    going = trips[class_of, policy.origin, policy.destination] > 0
    path = np.repeat(np.arange(pair.size), np.diff(policy.path_start))
    used = (going[pair] & (policy.share > ACTIVE))[path]
    at = pair[path[used]]
    found[class_of[at], policy.origin[at], policy.links[used]] = True
    return found


def _shortest(
    network: Network, tail: Ints, cost: Floats, usable: Bools, trips: Floats, taken: Bools
) -> Bools:
    """The links on shortest paths from each origin with trips, and those that trips take:
    bool[zones, links]. `tail`: with centroids divided."""
    size, zones = network.nodes + network.first_through_node, network.zones
    least_cost = np.finfo(np.float64).tiny  # csgraph takes a stored 0 for no link
    positive, free = np.maximum(cost, least_cost), size * least_cost  # the most of a free way
    order = np.lexsort((positive, network.head, tail))
    first = (np.diff(tail[order]) != 0) | (np.diff(network.head[order]) != 0)
    least = order[np.r_[True, first]]  # of parallel links
    ends = (tail[least], network.head[least])
    roads = csr_array((positive[least], ends), shape=(size, size))
    found = np.zeros((zones, tail.size), dtype=np.bool_)
    for origin in np.flatnonzero(trips.sum(axis=1) > 0).tolist():
        distance = dijkstra(roads, indices=[_departure(network, origin)])[0]
        with np.errstate(invalid="ignore"):
            longer = distance[tail] + cost - distance[network.head]
            tight = usable & (longer <= SHORTEST * distance[network.head] + free)
        some = (tight | taken[origin]) & (network.head != origin)
        found[origin] = some & np.isfinite(distance[tail])
    return found


def _departure(network: Network, origin: int) -> int:
    return origin + (network.nodes if origin < network.first_through_node else 0)


def _in_circles(tail: Ints, head: Ints, some: Ints) -> bool:
    """Whether these links, in whatever direction, lead round in a circle: only then can flow move
    on them alone."""
    while some.size:
        degree = np.bincount(np.r_[tail[some], head[some]])
        kept = some[(degree[tail[some]] > 1) & (degree[head[some]] > 1)]
        if kept.size == some.size:
            return True
        some = kept
    return False


def _detours(network: Network, tail: Ints, short: Bools, trips: Floats) -> list[tuple[Ints, Ints]]:
    """The detours of all origins: links of each, and +1 where it leads over them, -1 where the
    tree does."""
    head, size = network.head, network.nodes + network.first_through_node
    found: list[tuple[Ints, Ints]] = []
    for origin in np.flatnonzero(short.any(axis=1)).tolist():
        some, source = np.flatnonzero(short[origin]), _departure(network, origin)
        ends = np.flatnonzero((trips[origin] > 0) & (np.arange(network.zones) != origin))
        onward = _reached(head[some], tail[some], size, ends)
        some = some[onward[head[some]]]
        back = _reached(tail[some], head[some], size, np.array([source]))
        found += _cycles(tail, head, some[back[tail[some]]], source, size)
    return found


def _reached(tail: Ints, head: Ints, size: int, starts: Ints) -> Bools:
    """The nodes that links lead to from any of `starts`, and these: bool[size]."""
    origins, ends = np.r_[tail, np.full(starts.size, size)], np.r_[head, starts]
    roads = csr_array((np.ones(origins.size), (origins, ends)), shape=(size + 1, size + 1))
    found = np.zeros(size + 1, dtype=np.bool_)
    found[breadth_first_order(roads, size, return_predecessors=False)] = True
    return found[:size]


def _cycles(tail: Ints, head: Ints, some: Ints, source: int, size: int) -> list[tuple[Ints, Ints]]:
    """What each of these links, all of them reached from the source, adds to a tree of them."""
    if some.size < 2 or np.unique(head[some]).size == some.size:
        return []  # a tree
    roads = csr_array((np.ones(some.size), (tail[some], head[some])), shape=(size, size))
    _, before = breadth_first_order(roads, source, return_predecessors=True)
    last: dict[int, int] = {}
    others = []
    for link, begin, end in zip(
        some.tolist(), tail[some].tolist(), head[some].tolist(), strict=True
    ):
        if before[end] == begin and end not in last:
            last[end] = link
        else:
            others.append(link)

    def way(node: int) -> list[int]:
        passed = []
        while node in last:
            passed.append(last[node])
            node = int(tail[last[node]])
        return passed

    found = []
    for link in others:
        over, tree = {link, *way(int(tail[link]))}, set(way(int(head[link])))
        plus, minus = sorted(over - tree), sorted(tree - over)
        signs = np.repeat([1, -1], [len(plus), len(minus)])
        found.append((np.array(plus + minus, dtype=np.int64), signs))
    return found


def _moved(detours: csr_array, constant: Bools) -> Bools:
    """The links of constant cost that a combination of detours moves which moves no other link."""
    still = csr_array(detours[:, constant])
    if detours.shape[0] > MOST_DETOURS:
        moved = np.asarray(abs(still).sum(axis=0)) > 0
    else:
        rising = csr_array(detours[:, ~constant])
        square = (rising @ rising.T).toarray()
        largest = float(np.diagonal(square).max(initial=0.0))
        chosen = np.zeros(0, dtype=np.int64)
        if largest > 0:
            _, pivot, rank, _ = linalg.lapack.dpstrf(square, tol=ZERO * largest, lower=1)
            chosen = np.sort(pivot[:rank]) - 1
        rest = np.setdiff1d(np.arange(detours.shape[0]), chosen)
        left = still[rest].toarray()
        if chosen.size and rest.size:
            inner = square[np.ix_(chosen, chosen)]
            inner[np.diag_indices(chosen.size)] *= 1 + 1e-14
            parts = linalg.solve(inner, square[np.ix_(chosen, rest)], assume_a="pos")
            left = left - parts.T @ still[chosen].toarray()
        moved = (np.abs(left) > np.sqrt(ZERO)).any(axis=0)
    found = np.zeros(constant.size, dtype=np.bool_)
    found[np.flatnonzero(constant)[moved]] = True
    return found

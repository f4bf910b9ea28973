"""Path flows of all zone pairs on a road network: loading, pricing by shortest paths, and adding
these.

Pair w = origin (zones - 1) + rank is an ordered pair of distinct zones, ordered by origin, then
destination. Functions that take `first` (or `first_origin`) work on a block of origins, which
begins at that zone: `incoming` has a row for each of its origins, and its pairs are numbered from
0. Flows and demands have one unit, costs another; a link's cost is `free + scale
(flow/capacity)^power`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

# Shortest paths -----------------------------------------------------------------------------------
# Shortest-path trees on a road network: Dijkstra (1959) with a binary heap.
#
# Costs are nonnegative and may be zero. A node below `first_through_node` is a centroid: a path may
# start or end there, but never pass through. Ties are broken by the order of the links, so the same
# network always gives the same trees.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LinkIndices = NDArray[np.int32]


class Graph(NamedTuple):
    """Links in forward-star form: those that leave node v are `star[star_start[v]:star_start[v +
    1]]`."""

    first_through_node: int
    tail: Ints
    head: Ints
    star_start: Ints
    star: LinkIndices


def graph(nodes: int, first_through_node: int, tail: Ints, head: Ints) -> Graph:
    """The forward star of the links `tail[i] -> head[i]`, both int64[m] and 0-based."""
    star_start = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(tail, minlength=nodes), out=star_start[1:])
    return Graph(
        first_through_node, tail, head, star_start, np.argsort(tail, kind="stable").astype(np.int32)
    )


@numba.njit(cache=True, nogil=True)
def tree(
    graph: Graph,
    origin: int,
    cost: Floats,
    heap_key: Floats,
    heap_node: Ints,
    distance: Floats,
    incoming: LinkIndices,
) -> None:
    """Fill `distance[nodes]` (inf if no path exists) and `incoming[nodes]`, the last link of each
    path (-1: none).

    `heap_key` and `heap_node` are scratch of m + 1 entries: a link improves its head at most once.
    """
    distance[:] = np.inf
    incoming[:] = -1
    distance[origin] = 0.0
    heap_key[0], heap_node[0] = 0.0, origin
    size = 1
    while size > 0:
        key, node = heap_key[0], heap_node[0]
        size -= 1
        last_key, last_node = heap_key[size], heap_node[size]
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= size:
                break
            if child + 1 < size and heap_key[child + 1] < heap_key[child]:
                child += 1
            if heap_key[child] >= last_key:
                break
            heap_key[hole], heap_node[hole] = heap_key[child], heap_node[child]
            hole = child
        heap_key[hole], heap_node[hole] = last_key, last_node
        if key > distance[node]:
            continue  # an older, longer label of a node that is already settled
        if node < graph.first_through_node and node != origin:
            continue
        for position in range(graph.star_start[node], graph.star_start[node + 1]):
            link = graph.star[position]
            label = key + cost[link]
            neighbour = graph.head[link]
            if label < distance[neighbour]:
                distance[neighbour], incoming[neighbour] = label, link
                hole = size
                size += 1
                while hole > 0:
                    parent = (hole - 1) >> 1
                    if heap_key[parent] <= label:
                        break
                    heap_key[hole], heap_node[hole] = heap_key[parent], heap_node[parent]
                    hole = parent
                heap_key[hole], heap_node[hole] = label, neighbour


# Path flows ---------------------------------------------------------------------------------------

SMALLEST_SHARE = 1e-12
"""A path with less than this fraction of its pair's demand is dropped."""

NOT_CHEAPER = 1e-13
"""A shortest path is added to its pair's known paths only if it is cheaper by more than this
fraction, which is more than rounding."""


BLOCKS = 32
"""Number of blocks of origins that may be processed at once: the same for any number of threads, so
that all sums are the same."""

Each = Callable[[Callable[[slice], None], Sequence[slice]], None]
"""Runs a function for each block of origins, in any order or in parallel."""


def in_turn(work: Callable[[slice], None], blocks: Sequence[slice]) -> None:
    """Runs one block after the other, in this thread."""
    for block in blocks:
        work(block)


def origin_blocks(origins: int) -> list[slice]:
    """The rows 0..origins - 1, divided into at most `BLOCKS` blocks of about the same size."""
    edges = [origins * part // BLOCKS for part in range(BLOCKS + 1)]
    return [slice(low, high) for low, high in pairwise(edges) if low < high]


class Costs(NamedTuple):
    """The parameters of the link costs, each float64[m]."""

    free: Floats
    scale: Floats
    capacity: Floats
    power: Floats


class Paths(NamedTuple):
    """Pair w has the paths `start[w]..start[w + 1]`; path k passes `links[first[k]:first[k + 1]]`
    with `flow[k]`."""

    start: Ints
    first: Ints
    links: LinkIndices
    flow: Floats


@numba.njit(cache=True, nogil=True)
def link_cost(costs: Costs, link: int, flow: float) -> tuple[float, float]:
    """Cost and its derivative at a flow, which may be just below zero by rounding."""
    free, scale = costs.free[link], costs.scale[link]
    if scale == 0.0:
        return free, 0.0
    ratio, power = max(flow, 0.0) / costs.capacity[link], costs.power[link]
    if power == 1.0:
        raised, below = ratio, 1.0
    elif power == 4.0:
        below = ratio * ratio * ratio
        raised = below * ratio
    else:
        raised = ratio**power
        below = raised / ratio if ratio > 0.0 else 0.0
    return free + scale * raised, scale * power * below / costs.capacity[link]


@numba.njit(cache=True, nogil=True)
def link_costs(costs: Costs, flow: Floats) -> tuple[Floats, Floats]:
    """Costs and derivatives of all links at the link flows `flow`."""
    cost, slope = np.empty(flow.size), np.empty(flow.size)
    for link in range(flow.size):
        cost[link], slope[link] = link_cost(costs, link, flow[link])
    return cost, slope


@numba.njit(cache=True, nogil=True)
def trees(graph: Graph, cost: Floats, incoming: NDArray[np.int32]) -> None:
    """Fill `incoming[zones, nodes]` with the shortest-path trees of all zones."""
    heap_key, heap_node = np.empty(cost.size + 1), np.empty(cost.size + 1, np.int64)
    distance = np.empty(incoming.shape[1])
    for origin in range(incoming.shape[0]):
        tree(graph, origin, cost, heap_key, heap_node, distance, incoming[origin])


@numba.njit(cache=True, nogil=True)
def load_trees(graph: Graph, costs: Costs, trips: Floats, incoming: NDArray[np.int32]) -> int:
    """A first loading: each origin in turn takes its shortest paths at the costs that the earlier
    ones caused.

    Fills `incoming`. Returns a pair with demand that no path joins, or -1.
    """
    others = trips.size // max(1, incoming.shape[0])
    flow = np.zeros(graph.tail.size)
    cost, slope = link_costs(costs, flow)
    heap_key, heap_node = np.empty(cost.size + 1), np.empty(cost.size + 1, np.int64)
    distance = np.empty(incoming.shape[1])
    for origin in range(incoming.shape[0]):
        tree(graph, origin, cost, heap_key, heap_node, distance, incoming[origin])
        for rank in range(others):
            pair = origin * others + rank
            if trips[pair] == 0.0:
                continue
            node = rank + (rank >= origin)
            if incoming[origin, node] < 0:
                return int(pair)
            while node != origin:
                link = incoming[origin, node]
                flow[link] += trips[pair]
                node = graph.tail[link]
        for link in range(flow.size):
            cost[link], slope[link] = link_cost(costs, link, flow[link])
    return -1


def extended(
    paths: Paths,
    add: NDArray[np.bool_],
    trips: Floats,
    incoming: NDArray[np.int32],
    tail: Ints,
    each: Each = in_turn,
) -> Paths:
    """The paths that carry flow and, if `add`, the one in the tree; if it is the only one it takes
    the pair's `trips`."""
    pairs = add.size
    others = pairs // max(1, incoming.shape[0])
    blocks = origin_blocks(incoming.shape[0])
    start, end = np.zeros(pairs + 1, np.int64), np.zeros(pairs + 1, np.int64)

    def measure(block: slice) -> None:
        some = slice(block.start * others, block.stop * others)
        _measure(
            _part(paths, some),
            add[some],
            incoming[block],
            tail,
            block.start,
            start[some.start + 1 : some.stop + 1],
            end[some.start + 1 : some.stop + 1],
        )

    each(measure, blocks)
    start, end = np.cumsum(start), np.cumsum(end)
    first, links = np.zeros(start[pairs] + 1, np.int64), np.empty(end[pairs], np.int32)
    flow = np.empty(start[pairs])

    def fill(block: slice) -> None:
        some = slice(block.start * others, block.stop * others)
        _fill(
            _part(paths, some),
            add[some],
            trips[some],
            incoming[block],
            tail,
            block.start,
            start[some],
            end[some],
            Paths(start, first, links, flow),
        )

    each(fill, blocks)
    return Paths(start, first, links, flow)


def _part(paths: Paths, pairs: slice) -> Paths:
    """The paths of some pairs as a copy."""
    return paths._replace(start=paths.start[pairs.start : pairs.stop + 1])


@numba.njit(cache=True, nogil=True)
def _measure(
    paths: Paths,
    add: NDArray[np.bool_],
    incoming: NDArray[np.int32],
    tail: Ints,
    first_origin: int,
    count: Ints,
    size: Ints,
) -> None:
    """The number of paths that each pair will have, and the number of links of all of them
    together."""
    others = add.size // max(1, incoming.shape[0])
    for pair in range(add.size):
        for path in range(paths.start[pair], paths.start[pair + 1]):
            if paths.flow[path] > 0.0:
                count[pair] += 1
                size[pair] += paths.first[path + 1] - paths.first[path]
        if add[pair]:
            count[pair] += 1
            row = pair // others
            origin = first_origin + row
            node = pair % others
            node += node >= origin
            while node != origin:
                size[pair] += 1
                node = tail[incoming[row, node]]


@numba.njit(cache=True, nogil=True)
def _fill(
    paths: Paths,
    add: NDArray[np.bool_],
    trips: Floats,
    incoming: NDArray[np.int32],
    tail: Ints,
    first_origin: int,
    starts: Ints,
    ends: Ints,
    longer: Paths,
) -> None:
    """Write the paths of these pairs, which begin at `starts` and whose links begin at `ends`."""
    others = add.size // max(1, incoming.shape[0])
    first, links, flow = longer.first, longer.links, longer.flow
    for pair in range(add.size):
        at, end = starts[pair], ends[pair]
        alone = True
        for path in range(paths.start[pair], paths.start[pair + 1]):
            if paths.flow[path] > 0.0:
                for position in range(paths.first[path], paths.first[path + 1]):
                    links[end] = paths.links[position]
                    end += 1
                flow[at] = paths.flow[path]
                at += 1
                first[at] = end
                alone = False
        if add[pair]:
            begin = end
            row = pair // others
            origin = first_origin + row
            node = pair % others
            node += node >= origin
            while node != origin:
                links[end] = incoming[row, node]
                node = tail[links[end]]
                end += 1
            left, right = begin, end - 1  # from destination to origin up to here
            while left < right:
                links[left], links[right] = links[right], links[left]
                left, right = left + 1, right - 1
            flow[at] = trips[pair] if alone else 0.0
            at += 1
            first[at] = end


@numba.njit(cache=True, nogil=True)
def load_paths(paths: Paths, trips: Floats, flow: Floats) -> None:
    """Remove tiny shares, add their flow to the pair's largest path, and fill `flow[m]` with the
    link flows of the paths."""
    flow[:] = 0.0
    for pair in range(trips.size):
        largest = paths.start[pair]
        others = 0.0
        for path in range(paths.start[pair], paths.start[pair + 1]):
            if paths.flow[path] < SMALLEST_SHARE * trips[pair]:
                paths.flow[path] = 0.0
            if paths.flow[path] > paths.flow[largest]:
                largest = path
            others += paths.flow[path]
        if paths.start[pair] < paths.start[pair + 1]:
            others -= paths.flow[largest]
            paths.flow[largest] = trips[pair] - others
        for path in range(paths.start[pair], paths.start[pair + 1]):
            for position in range(paths.first[path], paths.first[path + 1]):
                flow[paths.links[position]] += paths.flow[path]


def price(
    graph: Graph,
    paths: Paths,
    cost: Floats,
    incoming: NDArray[np.int32],
    each: Each = in_turn,
) -> tuple[float, NDArray[np.bool_]]:
    """Shortest paths of all pairs at link costs `cost`: fills `incoming` and returns `(excess,
    add)`.

    `excess` is `sum_k flow_k (cost of path k - cost of its pair's shortest path)`, the numerator of
    the relative gap, computed without cancellation. `add[pair]`: the shortest path exists and is
    cheaper than all known ones.
    """
    others = (paths.start.size - 1) // max(1, incoming.shape[0])
    blocks = origin_blocks(incoming.shape[0])
    excess, add = np.zeros(len(blocks)), np.zeros(paths.start.size - 1, np.bool_)

    def work(block: slice) -> None:
        some = slice(block.start * others, block.stop * others)
        part = _price(graph, _part(paths, some), cost, incoming[block], block.start)
        excess[blocks.index(block)], add[some] = part

    each(work, blocks)
    return float(excess.sum()), add


@numba.njit(cache=True, nogil=True)
def _price(
    graph: Graph, paths: Paths, cost: Floats, incoming: NDArray[np.int32], first: int
) -> tuple[float, NDArray[np.bool_]]:
    """`price` of the origins of one block."""
    others = (paths.start.size - 1) // max(1, incoming.shape[0])
    heap_key, heap_node = np.empty(cost.size + 1), np.empty(cost.size + 1, np.int64)
    distance = np.empty(incoming.shape[1])
    add = np.zeros(paths.start.size - 1, np.bool_)
    excess = 0.0
    for row in range(incoming.shape[0]):
        origin = first + row
        tree(graph, origin, cost, heap_key, heap_node, distance, incoming[row])
        for rank in range(others):
            pair = row * others + rank
            shortest = distance[rank + (rank >= origin)]
            cheapest = np.inf
            for path in range(paths.start[pair], paths.start[pair + 1]):
                path_cost = 0.0
                for position in range(paths.first[path], paths.first[path + 1]):
                    path_cost += cost[paths.links[position]]
                excess += paths.flow[path] * max(path_cost - shortest, 0.0)
                cheapest = min(cheapest, path_cost)
            add[pair] = shortest < np.inf and cheapest - shortest > NOT_CHEAPER * shortest
    return excess, add


# Equilibration ------------------------------------------------------------------------------------
# Equilibration of the known paths of all zone pairs: sweeps of single moves, and Newton steps if
# these stall.
#
# With the paths given, traffic assignment is a convex problem in the path flows of each pair, which
# are nonnegative and have a fixed sum. A sweep takes one pair after the other and moves flow to its
# cheapest path by Newton's method along that one direction; link costs follow at once
# (Gauss–Seidel). That is cheap and, on road networks, usually enough. If a few steep links couple
# many moves it converges slowly; then truncated Newton steps on all path flows at once, solved by
# conjugate gradients (Dembo, Steihaug 1983), take over. Neither ever raises the objective by more
# than rounding.

SWEEPS = 10
"""The most full sweeps of one call: after that new paths help more."""

PARTIAL_SWEEPS = 8
"""Number of sweeps over the pairs with most excess after each full sweep."""

STALLED = 0.7
"""If sweeps leave more than this fraction of the excess, Newton steps follow."""

NEWTON_STEPS = 12
"""The most Newton steps of one call. The first ones may only find out which paths are empty."""

NEWTON_WORK = 1_000_000
"""The most Newton steps times links of all paths, but at least one step: on large networks sweeps
are more efficient."""

LEVEL = 1e-15
"""Two paths are level if their costs differ by less than this fraction: the rest is rounding."""

STILL_UNEVEN = 0.25
"""A line search ends when at most this fraction of the initial slope is left, of either sign."""

SEARCH_STEPS = 60
"""The most Newton or bisection steps of one line search."""

CONJUGATE_GRADIENTS = 30
"""The most conjugate gradient iterations of one Newton step."""

RESIDUAL = 1e-4
"""Fraction of the squared, scaled gradient at which the conjugate gradients stop."""

SINGULAR = 1e-13
"""A direction with less than this fraction of the curvature of its components counts as without
curvature."""

SHORT = 0.3
"""If less than this fraction of a step is taken, it has met a bound."""


@numba.njit(cache=True, nogil=True)
def equilibrate(
    costs: Costs, paths: Paths, flow: Floats, cost: Floats, slope: Floats, target: float
) -> None:
    """Level the costs of the known paths until their excess is at most `target`, or further steps
    here are not worthwhile.

    Updates the path flows and, with them, `flow`, `cost` and `slope` of the links. Most of the
    excess sits in a few pairs: after each full sweep only those above the average are swept again,
    several times.
    """
    pairs = np.flatnonzero(np.diff(paths.start) > 1)
    excesses = np.zeros(paths.start.size - 1)
    first = excess(paths, pairs, cost)
    for _ in range(SWEEPS):
        met = sweep(costs, paths, pairs, flow, cost, slope, excesses, 0.0)
        if met <= target and excess(paths, pairs, cost) <= target:
            return
        for _ in range(PARTIAL_SWEEPS):
            sweep(costs, paths, pairs, flow, cost, slope, excesses, met / pairs.size)
    if excess(paths, pairs, cost) <= STALLED * first:
        return
    for _ in range(1 + min(NEWTON_STEPS, NEWTON_WORK // paths.links.size)):
        newton(costs, paths, pairs, flow, cost, slope)
        sweep(costs, paths, pairs, flow, cost, slope, excesses, 0.0)
        if excess(paths, pairs, cost) <= target:
            return


@numba.njit(cache=True, nogil=True)
def excess(paths: Paths, pairs: Ints, cost: Floats) -> float:
    """The excess cost of the flow of `pairs` at link costs `cost` over that on the cheapest known
    paths."""
    total = 0.0
    for pair in pairs:
        lowest, carried, spent = np.inf, 0.0, 0.0
        for path in range(paths.start[pair], paths.start[pair + 1]):
            path_cost = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                path_cost += cost[paths.links[position]]
            if path_cost < lowest:
                spent += carried * (lowest - path_cost) if carried > 0.0 else 0.0
                lowest = path_cost
            spent += paths.flow[path] * (path_cost - lowest)
            carried += paths.flow[path]
        total += spent
    return total


@numba.njit(cache=True, nogil=True)
def sweep(
    costs: Costs,
    paths: Paths,
    pairs: Ints,
    flow: Floats,
    cost: Floats,
    slope: Floats,
    excesses: Floats,
    threshold: float,
) -> float:
    """One Gauss–Seidel sweep over the `pairs` whose entry of `excesses` is `threshold` or more;
    updates `excesses`.

    Returns the sum of the excess that the sweep found, pair by pair; for skipped pairs, that of an
    earlier sweep. It can be small if pairs only undo each other's moves: the true one is `excess`.
    """
    mark = np.zeros(flow.size, np.bool_)
    links, change = np.empty(flow.size, np.int32), np.empty(flow.size)
    path_cost = np.empty(16)
    total = 0.0
    for pair in pairs:
        if excesses[pair] < threshold:
            total += excesses[pair]
            continue
        begin, end = paths.start[pair], paths.start[pair + 1]
        if end - begin > path_cost.size:
            path_cost = np.empty(2 * (end - begin))
        cheapest = begin
        for path in range(begin, end):
            path_cost[path - begin] = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                path_cost[path - begin] += cost[paths.links[position]]
            if path_cost[path - begin] < path_cost[cheapest - begin]:
                cheapest = path
        lowest = path_cost[cheapest - begin]
        over = 0.0
        for path in range(begin, end):
            over += paths.flow[path] * (path_cost[path - begin] - lowest)
        excesses[pair] = over
        total += over
        if over == 0.0:
            continue
        for path in range(begin, end):
            if path == cheapest or paths.flow[path] == 0.0:
                continue
            # The links that only one of the two paths passes: only these change in a move from
            # `path` to `cheapest`.
            for position in range(paths.first[cheapest], paths.first[cheapest + 1]):
                mark[paths.links[position]] = True
            size = 0
            for position in range(paths.first[path], paths.first[path + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                else:
                    links[size], change[size] = link, -1.0
                    size += 1
            for position in range(paths.first[cheapest], paths.first[cheapest + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                    links[size], change[size] = link, 1.0
                    size += 1
            difference = 0.0
            for i in range(size):
                difference -= cost[links[i]] * change[i]
            if difference > LEVEL * lowest:
                moved = move(costs, flow, cost, slope, links, change, size, paths.flow[path])
            elif difference < -LEVEL * lowest:
                # An earlier move has made the cheapest path the dearer one: move back.
                change[:size] *= -1.0
                moved = -move(costs, flow, cost, slope, links, change, size, paths.flow[cheapest])
            else:
                continue
            paths.flow[path] -= moved
            paths.flow[cheapest] += moved
    return total


@numba.njit(cache=True, nogil=True)
def move(
    costs: Costs,
    flow: Floats,
    cost: Floats,
    slope: Floats,
    links: LinkIndices,
    change: Floats,
    size: int,
    most: float,
) -> float:
    """Move the flow of `links[:size]` along the descent direction `change` by the returned length
    in [0, most].

    The objective's slope on that line is `sum cost * change`, nondecreasing; its zero is found by
    Newton's method inside a bracket, so a cost that grows steeply cannot overshoot to the other
    side.
    """
    before, curvature = 0.0, 0.0
    for i in range(size):
        before -= cost[links[i]] * change[i]
        curvature += slope[links[i]] * change[i] * change[i]
    if before <= 0.0:
        return 0.0
    low, high, bracketed, moved = 0.0, most, False, 0.0
    length = before / curvature if curvature * most > before else most
    for _ in range(SEARCH_STEPS):
        left, curvature = 0.0, 0.0
        for i in range(size):
            link = links[i]
            flow[link] += (length - moved) * change[i]
            cost[link], slope[link] = link_cost(costs, link, flow[link])
            left -= cost[link] * change[i]
            curvature += slope[link] * change[i] * change[i]
        moved = length
        if abs(left) <= STILL_UNEVEN * before or (left > 0.0 and length == most):
            break
        if left > 0.0:
            low = length
        else:
            high, bracketed = length, True
        length += left / curvature if curvature > 0.0 else 0.0
        if not low < length < high:
            length = 0.5 * (low + high) if bracketed else most
    return moved


@numba.njit(cache=True, nogil=True)
def newton(
    costs: Costs, paths: Paths, pairs: Ints, flow: Floats, cost: Floats, slope: Floats
) -> None:
    """One truncated Newton step on all paths with flow at once.

    A step past zero flow is first clipped. If clipping disturbs the balance on steep links, the
    line search stops almost at once; then the whole step is shortened until the first path is
    empty, and the next step leaves this path out.
    """
    base, gradient, scale = _gradient(paths, pairs, cost, slope)
    step = _newton_step(paths, pairs, base, gradient, scale, slope)
    trial = np.zeros(step.size)
    links, change = np.arange(flow.size).astype(np.int32), np.empty(flow.size)
    kept = flow.copy()
    part, taken = 1.0, 0.0
    for attempt in range(2):
        to_bound = 1.0
        for pair in pairs:
            begin, end = paths.start[pair], paths.start[pair + 1]
            largest = base[begin]
            gain, gain_clipped = 0.0, 0.0
            for path in range(begin, end):
                if path != largest:
                    gain += step[path]
                    trial[path] = max(part * step[path], -paths.flow[path])
                    gain_clipped += trial[path]
                    if step[path] < 0.0:
                        to_bound = min(to_bound, -paths.flow[path] / step[path])
            if gain > 0.0:
                to_bound = min(to_bound, paths.flow[largest] / gain)
            if gain_clipped > paths.flow[largest]:
                trial[begin:end] *= paths.flow[largest] / gain_clipped
        if np.sum(trial * gradient) < 0.0:
            _link_change(paths, pairs, base, trial, change)
            taken = move(costs, flow, cost, slope, links, change, change.size, 1.0)
            if attempt == 1 or taken > SHORT:
                break
            flow[:] = kept
            for link in range(flow.size):
                cost[link], slope[link] = link_cost(costs, link, flow[link])
        part, taken = to_bound, 0.0
    if taken > 0.0:
        for path in range(step.size):
            paths.flow[path] = max(paths.flow[path] + taken * trial[path], 0.0)


@numba.njit(cache=True, nogil=True)
def _gradient(
    paths: Paths, pairs: Ints, cost: Floats, slope: Floats
) -> tuple[Ints, Floats, Floats]:
    """For each path: its pair's path with most flow (the base), its cost above that path's, and 1 /
    its own curvature.

    Zero curvature, and an empty path, have 1 / curvature = 0: the Newton step leaves them to the
    sweeps.
    """
    base = np.zeros(paths.flow.size, np.int64)
    gradient, scale = np.zeros(paths.flow.size), np.zeros(paths.flow.size)
    mark = np.zeros(cost.size, np.bool_)
    for pair in pairs:
        begin, end = paths.start[pair], paths.start[pair + 1]
        largest = begin + np.argmax(paths.flow[begin:end])
        base[begin:end] = largest
        for path in range(begin, end):
            if path == largest or paths.flow[path] == 0.0:
                continue
            for position in range(paths.first[largest], paths.first[largest + 1]):
                mark[paths.links[position]] = True
            curvature = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                else:
                    gradient[path] += cost[link]
                    curvature += slope[link]
            for position in range(paths.first[largest], paths.first[largest + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                    gradient[path] -= cost[link]
                    curvature += slope[link]
            scale[path] = 1.0 / curvature if curvature > 0.0 else 0.0
    return base, gradient, scale


@numba.njit(cache=True, nogil=True)
def _newton_step(
    paths: Paths, pairs: Ints, base: Ints, gradient: Floats, scale: Floats, slope: Floats
) -> Floats:
    """Conjugate gradients on `E' diag(slope) E step = -gradient`; E has a row of links for each
    path, minus that of its base."""
    step = np.zeros(gradient.size)
    residual = -gradient
    direction = residual * scale
    norm = np.sum(residual * direction)
    enough = RESIDUAL * norm
    change = np.empty(slope.size)
    for _ in range(CONJUGATE_GRADIENTS):
        if norm <= enough:
            break
        _link_change(paths, pairs, base, direction, change)
        diagonal = 0.0
        for path in range(step.size):
            if scale[path] > 0.0:
                diagonal += direction[path] * direction[path] / scale[path]
        curvature = np.sum(slope * change * change)
        if curvature <= SINGULAR * diagonal:
            break  # path flows change but, up to rounding, no link flow does
        change *= slope
        length = norm / curvature
        for pair in pairs:
            begin, end = paths.start[pair], paths.start[pair + 1]
            image_of_base = 0.0
            for position in range(paths.first[base[begin]], paths.first[base[begin] + 1]):
                image_of_base += change[paths.links[position]]
            for path in range(begin, end):
                if scale[path] > 0.0:
                    image = -image_of_base
                    for position in range(paths.first[path], paths.first[path + 1]):
                        image += change[paths.links[position]]
                    residual[path] -= length * image
                    step[path] += length * direction[path]
        previous = norm
        norm = np.sum(residual * residual * scale)
        direction = residual * scale + norm / previous * direction
    return step


@numba.njit(cache=True, nogil=True)
def _link_change(paths: Paths, pairs: Ints, base: Ints, step: Floats, change: Floats) -> None:
    """Fill `change[m]`: the change of link flows by `step`, where each pair's base takes the flow
    that its other paths lose."""
    change[:] = 0.0
    for pair in pairs:
        begin, end = paths.start[pair], paths.start[pair + 1]
        largest = base[begin]
        step[largest] = 0.0
        for path in range(begin, end):
            if path != largest:
                step[largest] -= step[path]
        for path in range(begin, end):
            if step[path] != 0.0:
                for position in range(paths.first[path], paths.first[path + 1]):
                    change[paths.links[position]] += step[path]

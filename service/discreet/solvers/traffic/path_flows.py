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

from discreet.solvers.traffic.shortest_paths import Floats, Graph, Ints, LinkIndices, tree

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

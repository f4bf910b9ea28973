"""Shortest-path trees on a road network: Dijkstra (1959) with a binary heap.

Costs are nonnegative and may be zero. A node below `first_through_node` is a centroid: a path may
start or end there, but never pass through. Ties are broken by the order of the links, so the same
network always gives the same trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

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

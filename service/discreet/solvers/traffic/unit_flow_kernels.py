"""Compiled kernels of the projection on unit flows: the sparse factorization, Newton steps, and the
conversion of a flow to a policy."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numba
import numpy as np

from discreet.solvers.traffic.shortest_paths import Floats, Ints, LinkIndices

LANES = 32


class Factor(NamedTuple):
    """The graph in elimination order and the symbolic LDL' factorization of its Laplacian.

    Values: n pivots, then L by columns. `tail`, `head`: int32[m], nodes by their position in this
    order. `slot`: int32[m], the value of each link's off-diagonal. Column k has the rows
    `row[start[k]:start[k + 1]]`; eliminating it changes the values `update`, in the order of the
    numeric factorization.
    """

    tail: LinkIndices
    head: LinkIndices
    slot: LinkIndices
    start: LinkIndices
    row: LinkIndices
    update: LinkIndices


def symbolic(nodes: int, tail: Ints, head: Ints) -> tuple[Ints, Factor]:
    """The position of each node in a minimum-degree order, and the factorization in that order."""
    neighbours: list[set[int]] = [set() for _ in range(nodes)]
    for one, other in zip(tail.tolist(), head.tolist(), strict=True):
        if one != other:
            neighbours[one].add(other)
            neighbours[other].add(one)
    queue = [(len(joined), node) for node, joined in enumerate(neighbours)]
    heapq.heapify(queue)
    place = np.full(nodes, -1, dtype=np.int64)
    columns: list[list[int]] = []
    while queue:
        degree, node = heapq.heappop(queue)
        if place[node] >= 0 or degree != len(neighbours[node]):
            continue
        place[node] = len(columns)
        joined = list(neighbours[node])
        columns.append(joined)
        for other in joined:
            neighbours[other].update(joined)
            neighbours[other] -= {other, node}
            heapq.heappush(queue, (len(neighbours[other]), other))
    rows = [sorted(int(place[node]) for node in joined) for joined in columns]
    start = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    value = {
        (column, row): nodes + int(start[column]) + position
        for column, below in enumerate(rows)
        for position, row in enumerate(below)
    }
    update = [
        row if row == other else value[row, other]
        for below in rows
        for position, row in enumerate(below)
        for other in below[position:]
    ]
    ends = np.sort(np.stack([place[tail], place[head]]), axis=0)
    slot = [value.get((int(low), int(high)), 0) for low, high in ends.T]
    return place, Factor(
        place[tail].astype(np.int32),
        place[head].astype(np.int32),
        np.array(slot, dtype=np.int32),
        start,
        np.array([row for below in rows for row in below], dtype=np.int32),
        np.array(update, dtype=np.int32),
    )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def project_pairs(
    points: Floats,
    potentials: Floats,
    pairs: Ints,
    origin: Ints,
    destination: Ints,
    upper: Floats,
    centroids: Ints,
    factor: Factor,
    tolerance: float,
    most_steps: int,
    flow: Floats,
    residual: Floats,
) -> None:
    """Project `points[pairs]` from `potentials`, which are changed, until the tolerance or
    `most_steps`.

    A step of all lanes: try the flow at nu + s d; a lane that has converged, or has used up its
    steps, stores its pair and takes the next; one whose step overshot shortens s; the others accept
    the step and get a new direction d. All loops over lanes have constant length, so that they
    compile to vector instructions.
    """
    links, nodes = points.shape[1], potentials.shape[1]
    tail, head, slot, start, row, update = factor
    values = nodes + row.size
    point = np.zeros((links, LANES))
    bound = np.zeros((links, LANES))
    x = np.zeros((max(links, nodes), LANES))  # the flow; then, in the factorization, a column of L
    nu = np.zeros((nodes, LANES))
    trial = np.zeros((nodes, LANES))
    direction = np.zeros((nodes, LANES))
    gradient = np.zeros((nodes, LANES))
    right = np.zeros((nodes, LANES))
    needed = np.zeros((nodes, LANES))
    matrix = np.zeros((values, LANES))
    inverse, worst, slope, first_slope = (
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES),
        np.zeros(LANES),
    )
    step, low, high, low_slope = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    shift, damping = np.ones(LANES), np.full(LANES, 0.1)
    accepted = np.zeros(LANES, dtype=np.bool_)
    steps, tries = np.zeros(LANES, dtype=np.int64), np.zeros(LANES, dtype=np.int64)
    lane_pair = np.full(LANES, -1)
    following, busy = 0, 0
    for lane in range(min(LANES, pairs.size)):
        load_flows(lane, pairs[following], points, potentials, origin, destination, upper,
              centroids, factor, point, bound, nu, needed, lane_pair)  # fmt: skip
        following += 1
        busy += 1
    while busy > 0:
        for i in range(nodes):
            for w in range(LANES):
                trial[i, w] = nu[i, w] + step[w] * direction[i, w]
                gradient[i, w] = -needed[i, w]
        for a in range(links):
            t, h = tail[a], head[a]
            for w in range(LANES):
                y = max(0.0, min(bound[a, w], point[a, w] + trial[t, w] - trial[h, w]))
                x[a, w] = y
                gradient[t, w] += y
                gradient[h, w] -= y
        for w in range(LANES):
            worst[w] = 0.0
            slope[w] = 0.0
        for i in range(nodes):
            for w in range(LANES):
                worst[w] = max(worst[w], abs(gradient[i, w]))
                slope[w] += gradient[i, w] * direction[i, w]

        going = False
        for w in range(LANES):
            accepted[w] = False
            pair = lane_pair[w]
            if pair < 0:
                continue
            steps[w] += 1
            tries[w] += 1
            if worst[w] <= tolerance or steps[w] >= most_steps:
                for a in range(links):
                    flow[pair, a] = x[a, w]
                for i in range(nodes):
                    potentials[pair, i] = trial[i, w]
                    direction[i, w] = 0.0
                residual[pair] = worst[w]
                needed[origin[pair], w] = 0.0
                needed[destination[pair], w] = 0.0
                step[w], first_slope[w], damping[w], steps[w], tries[w] = 0.0, 0.0, 0.1, 0, 0
                if following < pairs.size:
                    load_flows(w, pairs[following], points, potentials, origin, destination, upper,
                          centroids, factor, point, bound, nu, needed, lane_pair)  # fmt: skip
                    following += 1
                else:
                    lane_pair[w] = -1
                    busy -= 1
            elif slope[w] <= 0.1 * abs(first_slope[w]):
                accepted[w] = True
                going = True
                if tries[w] == 1 and slope[w] < 0.3 * first_slope[w]:
                    damping[w] = max(0.3 * damping[w], 1e-8)  # still descending: longer steps
                elif tries[w] > 1:
                    damping[w] = min(3 * damping[w], 1.0)
                tries[w] = 0
                shift[w] = damping[w] * min(1.0, worst[w]) + 1e-12
            else:
                high[w] = step[w]
                width = high[w] - low[w]
                secant = low[w] + width * low_slope[w] / (low_slope[w] - slope[w])
                step[w] = min(max(secant, low[w] + 0.05 * width), high[w] - 0.05 * width)
        if not going:
            continue

        # The Laplacian of the links strictly between their bounds, grounded at the destination.
        for k in range(nodes):
            for w in range(LANES):
                matrix[k, w] = shift[w]
                right[k, w] = -gradient[k, w]
        for k in range(nodes, values):
            for w in range(LANES):
                matrix[k, w] = 0.0
        for a in range(links):
            t, h, q = tail[a], head[a], slot[a]
            if t == h:
                continue
            for w in range(LANES):
                y = x[a, w]
                free = 1.0 if (y > 0.0) & (y < bound[a, w]) else 0.0
                matrix[t, w] += free
                matrix[h, w] += free
                matrix[q, w] -= free
        for w in range(LANES):
            if lane_pair[w] >= 0:
                matrix[destination[lane_pair[w]], w] += 1.0
        # Factorization and forward substitution, then backward.
        change = 0
        for k in range(nodes):
            begin, end = start[k], start[k + 1]
            for w in range(LANES):
                inverse[w] = 1.0 / matrix[k, w]
            for p in range(begin, end):
                r = row[p]
                for w in range(LANES):
                    entry = matrix[nodes + p, w] * inverse[w]
                    x[p - begin, w] = entry
                    right[r, w] -= entry * right[k, w]
                for q in range(p, end):
                    t = update[change]
                    change += 1
                    for w in range(LANES):
                        matrix[t, w] -= x[p - begin, w] * matrix[nodes + q, w]
            for p in range(begin, end):
                for w in range(LANES):
                    matrix[nodes + p, w] = x[p - begin, w]
            for w in range(LANES):
                right[k, w] *= inverse[w]
        for k in range(nodes - 1, -1, -1):
            for p in range(start[k], start[k + 1]):
                r = row[p]
                for w in range(LANES):
                    right[k, w] -= matrix[nodes + p, w] * right[r, w]
        for w in range(LANES):
            slope[w] = 0.0
        for i in range(nodes):
            for w in range(LANES):
                slope[w] += gradient[i, w] * right[i, w]
                if accepted[w]:
                    nu[i, w] = trial[i, w]
                    direction[i, w] = right[i, w]
        for w in range(LANES):
            if accepted[w]:
                step[w] = 1.0
                low[w] = 0.0
                first_slope[w] = slope[w]
                low_slope[w] = slope[w]


@numba.njit(cache=True, nogil=True)
def load_flows(
    lane: int,
    pair: int,
    points: Floats,
    potentials: Floats,
    origin: Ints,
    destination: Ints,
    upper: Floats,
    centroids: Ints,
    factor: Factor,
    point: Floats,
    bound: Floats,
    nu: Floats,
    needed: Floats,
    lane_pair: Ints,
) -> None:
    """Put a pair into a lane. Links at other pairs' centroids are closed, and so are links from a
    node to itself."""
    lane_pair[lane] = pair
    for a in range(point.shape[0]):
        point[a, lane] = points[pair, a]
        bound[a, lane] = upper[a] if factor.tail[a] != factor.head[a] else 0.0
    for i in range(nu.shape[0]):
        nu[i, lane] = potentials[pair, i]
    needed[origin[pair], lane] = 1.0
    needed[destination[pair], lane] = -1.0
    for centroid in centroids:
        for a in range(point.shape[0]):
            if (factor.tail[a] == centroid and centroid != origin[pair]) or (
                factor.head[a] == centroid and centroid != destination[pair]
            ):
                bound[a, lane] = 0.0


@numba.njit(cache=True, nogil=True)
def decompose(
    flow: Floats,
    nodes: int,
    tail: Ints,
    head: Ints,
    origin: Ints,
    destination: Ints,
    smallest: float,
) -> tuple[Ints, Floats, Ints, LinkIndices]:
    """How many paths each pair has; and for the paths of all pairs the shares, the lengths, and the
    links one after another.

    A path follows from the origin always the link with most flow left. If it meets itself, the flow
    of the cycle is removed; so is a link into a node without outgoing flow (by rounding).
    """
    pairs, links = flow.shape
    leaving = np.zeros(nodes + 1, dtype=np.int64)
    for a in range(links):
        leaving[tail[a] + 1] += 1
    leaving = np.cumsum(leaving)
    star = np.argsort(tail, kind="mergesort")
    counts = np.zeros(pairs, dtype=np.int64)
    shares = [0.0 for _ in range(0)]
    lengths = [0 for _ in range(0)]
    found = [np.int32(0) for _ in range(0)]
    left = np.empty(links)
    at = np.empty(nodes, dtype=np.int64)  # number of links up to a node on the path; -1: not on it
    way = np.empty(nodes + 1, dtype=np.int64)
    for pair in range(pairs):
        left[:] = flow[pair]
        while True:
            at[:] = -1
            node, length = origin[pair], 0
            at[node] = 0
            while node != destination[pair]:
                best = -1
                most = smallest if counts[pair] > 0 else 0.0  # one path at least, however small
                for position in range(leaving[node], leaving[node + 1]):
                    if left[star[position]] > most:
                        best, most = star[position], left[star[position]]
                if best < 0:
                    if length == 0:
                        break
                    left[way[length - 1]] = 0.0
                    length -= 1
                    at[node] = -1
                    node = tail[way[length]]
                    continue
                way[length] = best
                length += 1
                node = head[best]
                if at[node] < 0:
                    at[node] = length
                    continue
                begin = at[node]
                least = left[best]
                for step in range(begin, length):
                    least = min(least, left[way[step]])
                for step in range(begin, length):
                    left[way[step]] -= least
                    if step > begin:
                        at[tail[way[step]]] = -1
                length = begin
            if node != destination[pair]:
                break
            share = left[way[0]]
            for step in range(length):
                share = min(share, left[way[step]])
            for step in range(length):
                left[way[step]] -= share
                found.append(np.int32(way[step]))
            shares.append(share)
            lengths.append(length)
            counts[pair] += 1
    return (
        counts,
        np.array(shares),
        np.array(lengths, dtype=np.int64),
        np.array(found, dtype=np.int32),
    )

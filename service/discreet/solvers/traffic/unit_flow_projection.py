"""Projection on unit flows: for each pair (o, d), the flow of one unit from o to d that is nearest
to a given vector.

    flows = UnitFlows.of_pairs(network)    all ordered pairs of distinct zones
    near  = flows.project(points)          near.flow[p, m], near.potentials[p, n], near.residual[p]

The set of a pair is `{x: N x = b, 0 <= x <= upper}`, N the node-link incidence and b = e_o - e_d.
With potentials nu of the nodes as multipliers of `N x = b` the projection of v is `x(nu) =
min(max(v + N'nu, 0), upper)`, where nu minimizes a convex, once differentiable, piecewise quadratic
function with gradient `N x(nu) - b`. Semismooth Newton (Qi & Sun 1993) solves with the Laplacian of
the links strictly between their bounds, grounded at d, plus mu I; after a few steps the right piece
is found and a step is exact. A step that overshoots is shortened by secants of the derivative along
it; mu is adapted to the success of steps (Levenberg 1944).

It is fast because all pairs share one graph, so one elimination order (minimum degree) and one
symbolic LDL' factorization; pairs are solved in parallel lanes whose numbers are adjacent in
memory, so every operation of the factorization is a vector instruction; a lane whose pair is
finished takes the next pair at once.

It is robust because points so far from the set that Newton stalls are solved by continuation (the
same points scaled towards zero, then up by factors of four, each started from the last potentials),
at the end with the potentials moved into the points, so that rounding is that of numbers near 1.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument, NoSolution
from discreet.solvers.traffic.path_flows import Floats, Ints, LinkIndices, graph, trees
from discreet.solvers.traffic.traffic_assignment import Latency, Network, Policy, costs_of

# Unit flow kernels --------------------------------------------------------------------------------
# Compiled kernels of the projection on unit flows: the sparse factorization, Newton steps, and the
# conversion of a flow to a policy.

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


# Unit flow projection -----------------------------------------------------------------------------

TOLERANCE = 1e-10
DIRECT_STEPS, LAST_STEPS, ROUGH_STEPS = 40, 3000, 60
GROWTH, ROUGH = 4.0, 1e-3


@dataclass(frozen=True)
class Projection:
    """`flow` float64[p, m], and `potentials` float64[p, n], from which a later projection can
    start. `residual` float64[p]: the largest violation of flow conservation at a node; the flow is
    within its bounds exactly."""

    flow: Floats
    potentials: Floats
    residual: Floats


@dataclass(frozen=True)
class UnitFlows:
    """The unit flows of p pairs of nodes over m links.

    `origin`, `destination`: int64[p], 0-based. `upper`: float64[m]. Paths do not pass a node below
    `first_through_node`: its links are closed to pairs that neither begin nor end at it.
    """

    nodes: int
    tail: Ints
    head: Ints
    origin: Ints
    destination: Ints
    upper: Floats
    first_through_node: int
    _place: Ints
    _factor: Factor

    @classmethod
    def of_pairs(
        cls,
        network: Network,
        *,
        origin: Ints | None = None,
        destination: Ints | None = None,
        upper: float = 1.0,
    ) -> UnitFlows:
        """The unit flows of the given pairs, or of all ordered pairs of distinct zones, by origin.

        `upper`: the bound of every link; without one (inf) the set is unbounded, since flow may
        circulate.
        """
        if origin is None or destination is None:
            origin, destination = np.nonzero(~np.eye(network.zones, dtype=np.bool_))
        place, factor = symbolic(network.nodes, network.tail, network.head)
        return cls(
            nodes=network.nodes,
            tail=network.tail,
            head=network.head,
            origin=np.asarray(origin, dtype=np.int64),
            destination=np.asarray(destination, dtype=np.int64),
            upper=np.full(network.tail.size, upper),
            first_through_node=network.first_through_node,
            _place=place,
            _factor=factor,
        )

    @property
    def pairs(self) -> int:
        return len(self.origin)

    @property
    def work(self) -> int:
        """Operations of one Newton step of one pair, roughly."""
        return 6 * self.tail.size + 10 * self.nodes + int(self._factor.update.size)

    def project(
        self, points: Floats, start: Floats | None = None, tolerance: float = TOLERANCE
    ) -> Projection:
        """The nearest unit flows to `points` float64[p, m], finite.

        `start`: potentials of an earlier projection of similar points. Raises NoSolution if a pair
        has no unit flow, or if figures are so large (1e12) that floating-point numbers cannot reach
        the tolerance.
        """
        points = np.ascontiguousarray(points, dtype=np.float64)
        found = Projection(
            np.empty(points.shape),
            np.zeros((self.pairs, self.nodes))
            if start is None
            else np.array(start, dtype=np.float64),
            np.empty(self.pairs),
        )
        everyone = np.arange(self.pairs)
        self._solve(points, everyone, found, tolerance, DIRECT_STEPS)
        stalled = np.flatnonzero(~(found.residual <= tolerance))
        if stalled.size:
            self._continue(points, stalled, found, tolerance)
            if not np.all(found.residual <= tolerance):
                pair = int(np.argmax(found.residual))
                raise NoSolution(
                    f"no unit flow from node {self.origin[pair]} to node {self.destination[pair]} "
                    f"was found: {found.residual[pair]:.1e} is left"
                )
        return found

    def _continue(self, points: Floats, pairs: Ints, found: Projection, tolerance: float) -> None:
        """Continuation from the same points on a smaller scale, where Newton's method does not
        stall, to the full scale."""
        scale = 1.0 / max(1.0, float(np.abs(points[pairs]).max()))
        found.potentials[pairs] = 0.0
        while scale < 1.0:
            self._solve(points * scale, pairs, found, ROUGH, ROUGH_STEPS)
            larger = min(1.0, GROWTH * scale)
            found.potentials[pairs] *= larger / scale
            scale = larger
        # Moving potentials into the points changes no projection, and rounds the large numbers only
        # once.
        taken = found.potentials.copy()
        moved = points.copy()
        order = self._place
        difference = taken[pairs][:, order[self.tail]] - taken[pairs][:, order[self.head]]
        moved[pairs] += difference
        found.potentials[pairs] = 0.0
        self._solve(moved, pairs, found, tolerance, LAST_STEPS)
        found.potentials[pairs] += taken[pairs]

    def _solve(
        self, points: Floats, pairs: Ints, found: Projection, tolerance: float, steps: int
    ) -> None:
        project_pairs(
            points,
            found.potentials,
            pairs,
            self._place[self.origin],
            self._place[self.destination],
            self.upper,
            self._place[: self.first_through_node],
            self._factor,
            tolerance,
            steps,
            found.flow,
            found.residual,
        )

    def cheapest(self, cost: Floats) -> Floats:
        """A shortest path of each pair by `cost` float64[m], >= 0, as a unit flow float64[p, m]."""
        flow = np.zeros((self.pairs, self.tail.size))
        origins = int(self.origin.max(initial=-1)) + 1
        incoming = np.empty((origins, self.nodes), dtype=np.int32)
        trees(graph(self.nodes, self.first_through_node, self.tail, self.head), cost, incoming)
        for pair, (origin, destination) in enumerate(
            zip(self.origin.tolist(), self.destination.tolist(), strict=True)
        ):
            node = destination
            while node != origin:
                link = int(incoming[origin, node])
                flow[pair, link] = 1.0
                node = int(self.tail[link])
        return flow

    def of_policy(self, policy: Policy) -> Floats:
        """The unit flows float64[p, m] of a policy of the same pairs."""
        flow: Floats = np.zeros((self.pairs, self.tail.size))
        lengths = np.diff(policy.path_start)
        pair = np.repeat(np.arange(self.pairs), np.diff(policy.pair_start))
        np.add.at(flow, (np.repeat(pair, lengths), policy.links), np.repeat(policy.share, lengths))
        return flow

    def error_bound(self, tolerance: float = TOLERANCE) -> float:
        """How far in l2 all flows of a projection together may be from the exact ones.

        The result is the exact projection on `N x = b + g` with |g|_inf <= tolerance. As long as
        the free links are the same, the projection is linear in b with the pseudo-inverse of their
        incidence, of norm 1/sqrt(lambda_2), and a connected graph has lambda_2 >= 4/(n diameter) >=
        4/n² (Mohar 1991). So one pair is off by at most n/2 |g|_2 <= n^1.5/2 tolerance, and the
        pairs, which are independent, together by sqrt(p) times that.
        """
        return float(0.5 * self.nodes**1.5 * self.pairs**0.5 * tolerance)

    def policy(self, flow: Floats, smallest: float = 1e-9) -> Policy:
        """Unit flows float64[p, m] as paths and their shares; cycles, which lead nowhere, are left
        out.

        So are paths with a share below `smallest`. Shares of a pair sum to 1.
        """
        flow = np.array(flow, dtype=np.float64)
        ends = (self.nodes, self.tail, self.head, self.origin, self.destination)
        counts, shares, lengths, links = decompose(flow, *ends, smallest)
        if not counts.all():  # possible if rounding has interrupted a very small flow
            flow[counts == 0] = self.cheapest(np.ones(self.tail.size))[counts == 0]
            counts, shares, lengths, links = decompose(flow, *ends, smallest)
        pair_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        total = np.add.reduceat(shares, pair_start[:-1]) if self.pairs else np.empty(0)
        path_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Policy(
            self.origin,
            self.destination,
            pair_start,
            shares / np.repeat(total, counts),
            path_start,
            links,
            self.tail.size,
        )


# Simplex ------------------------------------------------------------------------------------------
# Euclidean projection on a scaled simplex (Held, Wolfe, Crowder 1974; Duchi et al. 2008).


def project(vector: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The point of {x >= 0, sum x = total} closest to `vector`, which may have any shape; O(n log
    n).

    It is `max(vector - threshold, 0)` with the unique threshold that gives the sum. Raises
    InvalidArgument if `total` is negative or not finite, or if an empty vector is to have a
    positive sum.
    """
    if not (np.isfinite(total) and total >= 0):
        raise InvalidArgument(f"no nonnegative vector has the sum {total}")
    if total == 0 or vector.size == 0:
        if total > 0:
            raise InvalidArgument("the sum of an empty vector is 0")
        return np.zeros(vector.shape)
    # A common shift changes nothing; with the largest entry at 0 the partial sums stay small.
    values = np.asarray(vector, dtype=np.float64) - np.max(vector)
    descending = -np.sort(-values, axis=None)
    thresholds = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    threshold = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    projected: NDArray[np.float64] = np.maximum(values - threshold, 0.0)
    projected *= total / projected.sum()  # the last rounding
    return projected


# Unit flow descent --------------------------------------------------------------------------------
# Algorithm 1 of Tsao et al. 2022: one projected gradient step on the routing of all pairs for each
# period observed.
#
#     terms = Terms.of(network, latency, regularization, max_total, max_pair)
#     steps = terms.step_sizes(periods)
#     x     = descend(flows, terms, steps, demand)  # demand(k): float64[p], trips of period k
#     s     = sensitivity(terms, steps, flows.error_bound())
#
# x[p, m] are unit flows: the share of a trip of each pair on each link. With trips Lambda of a
# period, link flows `y = Lambda'x` and affine latency `t(y) = c + q y` the objective is the
# regularized travel time
#
# F(x, Lambda) = y'(q y + c) + alpha/2 |x|², grad F = Lambda (2 q y + c) + alpha x
#
# (eq. 11 and Section 3.4). `docs/papers.md` lists the paper's errors; this is the corrected
# algorithm:
#
# - line 6 descends (`x - eta grad F`), and steps run over k = 1..N; - every ordered pair of
# distinct zones has a unit flow, whether it has trips or not, and 0 <= x <= 1 (without the upper
# bound flow may go round in circles, and no bound on the gradient's change exists); - the Hessian
# is `2 Lambda Lambda' (x) q + alpha I`, so for all allowed data F is L-smooth with `L = 2 max(q)
# max_pair max_total + alpha`; the paper's beta is half of it, and made from the data; - one trip
# more changes `grad F` by at most C in l2, `gradient_change`; the paper puts C = beta.

ROUNDING = 1e-9
"""Allowance for floating-point errors of a step, relative to its length: far more than they are."""


@dataclass(frozen=True)
class Terms:
    """The objective, and public bounds of all allowed data.

    `constant` c, `slope` q: float64[m], of the affine latencies. `regularization`: alpha > 0.
    `max_total`, `max_pair`: public bounds on the trips of one period, of all pairs and of one.
    """

    constant: Floats
    slope: Floats
    regularization: float
    max_total: float
    max_pair: float

    @classmethod
    def of(
        cls,
        network: Network,
        latency: Latency,
        regularization: float,
        max_total: float,
        max_pair: float,
    ) -> Terms:
        """Raises InvalidArgument for a latency that is not affine."""
        costs = costs_of(network, latency, "user_equilibrium")
        if ((costs.power != 1) & (costs.scale > 0)).any():
            raise InvalidArgument("the gradient method needs an affine latency")
        return cls(
            costs.free,
            costs.scale / costs.capacity,
            regularization,
            max_total,
            min(max_pair, max_total),
        )

    @property
    def smoothness(self) -> float:
        """L: `|Lambda|_2² <= max_pair max_total`, and the Hessian's other part is alpha I."""
        return 2 * float(self.slope.max()) * self.max_pair * self.max_total + self.regularization

    @property
    def gradient_change(self) -> float:
        """C: the most that `grad F` changes in l2 when one trip of one pair is added to a period,
        at any x in [0, 1].

        It changes in the pair's own block by `(2 q y + c) + 2 (lambda + 1) q x`, in the others by
        `2 lambda q x`, where x is the unit flow of the pair; y <= max_total and lambda + 1 <=
        max_pair link by link.
        """
        slope, constant = float(np.linalg.norm(self.slope)), float(np.linalg.norm(self.constant))
        own = 2 * slope * self.max_total + constant + 2 * self.max_pair * slope
        others = 4 * self.max_pair * self.max_total * slope**2
        return math.sqrt(own**2 + others)

    def step_sizes(self, periods: int) -> Floats:
        """Line 5: eta_k = min(1/(alpha k), min(1, 2 alpha)/L), k = 1..N; never above 1/L."""
        alpha = self.regularization
        return np.minimum(
            1 / (alpha * np.arange(1, periods + 1)), min(1.0, 2 * alpha) / self.smoothness
        )

    def reach(self, steps: Floats) -> float:
        """Upper bound of the absolute value of every entry of a projected point `x - eta grad F`,
        for any allowed data."""
        slope, constant = float(self.slope.max()), float(self.constant.max())
        steepest = self.max_pair * (2 * slope * self.max_total + constant) + self.regularization
        return 1 + float(np.max(steps)) * steepest

    def gradient(self, x: Floats, trips: Floats) -> Floats:
        """`grad F(x, Lambda)`: float64[p, m] at x for `trips` float64[p]."""
        marginal = 2 * self.slope * (trips @ x) + self.constant
        change: Floats = self.regularization * x
        change += trips[:, None] * marginal
        return change


def descend(
    flows: UnitFlows,
    terms: Terms,
    steps: Floats,
    demand: Callable[[int], Floats],
    start: Floats,
    *,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] | None = None,
) -> Floats:
    """x_N: float64[p, m] from `start`, which is public. Raises the errors of a projection."""
    x, potentials = start, None
    for period, step in enumerate(steps.tolist()):
        near = flows.project(x - step * terms.gradient(x, demand(period)), potentials, tolerance)
        x, potentials = near.flow, near.potentials
        if progress is not None:
            progress(period + 1, len(steps))
    return x


def rounding_bound(terms: Terms, steps: Floats, pairs: int, links: int) -> float:
    """How far in l2 a computed point may be from the exact one: some units in the last place of
    `reach` in each entry, and those of a sum over all pairs."""
    return float(2.0**-52 * (8 * terms.reach(steps) + pairs) * math.sqrt(pairs * links))


def sensitivity(terms: Terms, steps: Floats, projection_error: float) -> float:
    """How far x_N may move in l2 if one trip is added to one period.

    A step with eta <= 1/L shrinks the distance of two runs by 1 - eta alpha (F is alpha-strongly
    convex and L-smooth, Nesterov 2004, Theorem 2.1.12), and projections do not increase it. The
    trip adds eta_t C in its period t, so the exact sensitivity is

        s = C max_t eta_t prod_{k > t} (1 - eta_k alpha)

    to which each projection, of which only the residual is known to be small, adds at most twice
    `projection_error` (to which a caller adds `rounding_bound`).
    """
    left = 1 - steps * terms.regularization
    later = np.concatenate([np.cumprod(left[::-1])[::-1][1:], [1.0]])
    exact = terms.gradient_change * float(np.max(steps * later))
    return (exact + 2 * projection_error * float(np.sum(later))) * (1 + ROUNDING)

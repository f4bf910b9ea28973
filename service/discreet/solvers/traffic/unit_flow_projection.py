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

from dataclasses import dataclass

import numpy as np

from discreet.solvers.errors import NoSolution
from discreet.solvers.traffic.path_flows import trees
from discreet.solvers.traffic.shortest_paths import Floats, Ints, graph
from discreet.solvers.traffic.traffic_assignment import Network, Policy
from discreet.solvers.traffic.unit_flow_kernels import Factor, decompose, project_pairs, symbolic

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

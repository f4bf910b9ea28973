"""The derivative of link flows and total travel time of an assignment in the demand, at the
optimum.

As long as a change of demand dd is small, flow moves only between the paths that carry flow. So the
link flows move by `dy = B dd + V c`, where column w of B is the link shares of pair w and V has the
differences of each pair's active paths; the optimality conditions are those of minimizing `dy' D
dy`, D the slopes of the link costs (Tobin and Friesz 1988, in link flows). Hence `dy = M B dd` with
`M = I - V (V'DV)^+ V'D`.

Many pairs have the same detours, so V has few independent columns, in road networks far fewer than
links: then one small matrix is factored, and M is never formed.

At the system optimum the total travel time is minimal, so its derivative is the marginal cost of
the pair's paths (Danskin); at the user equilibrium it is `m'M B`, m the marginal link costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.sparse import csr_array

from discreet.solvers.traffic.path_flows import Floats, link_costs
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    Objective,
    Policy,
    costs_of,
)

ACTIVE = 1e-7
"""A path with less than this fraction of its pair's demand does not count as active: its flow is
left over by the gap."""
RIDGE = 1e-9
"""Threshold for the rank of `V'S S V` (S the roots of the slopes), or the ridge added to `S V V' S`
instead, as a fraction of the mean diagonal."""
ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Derivative:
    """The derivative of link flows and total travel time in the demand of each ordered pair of
    distinct zones.

    `shares`: B', csr[pairs, links]; `moves`: L float64[links, j] and R csr[j, links] with `M = I -
    L R`, or None if only the total was requested. `total`: float64[pairs], time per trip.
    """

    shares: csr_array
    moves: tuple[Floats, csr_array] | None
    total: Floats | None

    def flows(self, change: Floats) -> Floats:
        """The change of link flows by a change of demand: float64[pairs] to float64[links]."""
        assert self.moves is not None
        (left, right), moved = self.moves, self.shares.T @ change
        return np.asarray(moved - left @ (right @ moved))

    def flow_rows(self, links: NDArray[np.intp]) -> Floats:
        """The rows of the derivative for these links: float64[k, pairs]."""
        assert self.moves is not None
        left, right = self.moves
        chosen = np.zeros((links.size, self.shares.shape[1]))
        chosen[np.arange(links.size), links] = 1.0
        return np.asarray((self.shares @ (chosen - (right.T @ left[links].T).T).T).T)

    def flow_norms(self) -> Floats:
        """The l2 norm of each link's row of the derivative: float64[links]."""
        assert self.moves is not None
        left, right = self.moves
        squares = gram(self.shares)  # for M B it is G - L R G - (L R G)' + L (R G R') L'
        once = right @ squares
        twice = (right @ once.T).T
        norms = np.diagonal(squares).copy()
        for first in range(0, norms.size, ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            part = left[some]
            rest = part @ twice - 2.0 * once[:, some].T
            norms[some] += (part * rest).sum(axis=1)
        return np.sqrt(np.maximum(norms, 0.0))


def derivative(
    network: Network,
    latency: Latency,
    objective: Objective,
    solution: Assignment,
    *,
    links: bool = True,
) -> Derivative:
    """The derivative at `solution`, an assignment with a small gap; it holds for similar demands
    with the same active paths. Without `links` only what needs no matrix of links by links is
    computed: the total travel time of the system optimum."""
    policy = solution.paths
    paths, starts, pairs = _paths(policy), policy.pair_start, policy.origin.size
    shares = shares_of(policy)
    marginal, _ = link_costs(costs_of(network, latency, "system_optimum"), solution.link_flows)
    optimal = objective == "system_optimum"
    moves = None
    if links:
        pair = np.repeat(np.arange(pairs), np.diff(starts))
        largest = np.lexsort((-policy.share, pair))[starts[:-1]]
        others = np.flatnonzero(policy.share > ACTIVE)
        others = others[others != largest[pair[others]]]
        _, slope = link_costs(costs_of(network, latency, objective), solution.link_flows)
        moves = _moves(paths[others] - paths[largest[pair[others]]], slope)
    total: Floats | None = None
    if optimal or moves is not None:
        if moves is not None and not optimal:
            left, right = moves
            marginal = marginal - right.T @ (left.T @ marginal)
        total = np.asarray(shares @ marginal)
    return Derivative(shares, moves, total)


def shares_of(policy: Policy) -> csr_array:
    """The share of each ordered pair's trips at each link: csr[pairs, links]."""
    pairs, paths = policy.origin.size, policy.share.size
    chosen = csr_array((policy.share, np.arange(paths), policy.pair_start), shape=(pairs, paths))
    return csr_array(chosen @ _paths(policy))


def _paths(policy: Policy) -> csr_array:
    """The links that each path passes: csr[paths, links] of ones."""
    ones = np.ones(policy.links.size)
    return csr_array(
        (ones, policy.links, policy.path_start), shape=(policy.share.size, policy.link_count)
    )


def gram(rows: csr_array) -> Floats:
    """`rows' rows`, dense, computed a few rows at a time: as a sparse matrix it would be larger."""
    columns = rows.T.tocsr()
    product = np.empty((rows.shape[1], rows.shape[1]))
    for first in range(0, len(product), ROWS_AT_ONCE):
        product[first : first + ROWS_AT_ONCE] = (
            columns[first : first + ROWS_AT_ONCE] @ rows
        ).toarray()
    return product


def _moves(differences: csr_array, slope: Floats) -> tuple[Floats, csr_array]:
    """L and R: `V (V'S S V)^-1` and `V'S S` of independent columns; if there are more columns than
    links, `K S (S K S + r I)^-1` and S with `K = V V'`, which has the same limit as r goes to 0."""
    columns, links = distinct(differences), slope.size
    root = np.sqrt(slope / max(float(slope.max(initial=0.0)), np.finfo(float).tiny))
    slopes = csr_array((root, np.arange(links), np.arange(links + 1)))
    weighted = columns @ slopes
    few = columns.shape[0] < links
    square = (weighted @ weighted.T).toarray() if few else gram(weighted)
    ridge = RIDGE * float(np.trace(square)) / max(1, len(square))
    if not ridge > 0:
        return np.zeros((links, 0)), csr_array((0, links))
    # LAPACK works on the transposed views, whose columns are contiguous.
    if few:
        _, pivot, rank, _ = linalg.lapack.dpstrf(square.T, tol=ridge, lower=1)
        chosen = np.sort(pivot[:rank]) - 1
        columns, weighted, square = (
            columns[chosen],
            weighted[chosen],
            square[np.ix_(chosen, chosen)],
        )
        right, other = weighted @ slopes, columns.toarray()
    else:
        square[np.diag_indices(links)] += ridge
        right, other = slopes, (gram(columns) * root).T
    factor = linalg.cho_factor(square.T, lower=True, overwrite_a=True, check_finite=False)
    return linalg.cho_solve(factor, other, overwrite_b=True, check_finite=False).T, right


def distinct(rows: csr_array) -> csr_array:
    """The rows of -1, 0 and 1 without multiples of others, which are detected by two products with
    integers, exact in floating point."""
    factors = np.random.default_rng(0).integers(1, 1 << 40, (rows.shape[1], 2)).astype(np.float64)
    keys = rows @ factors
    _, first = np.unique(keys * np.sign(keys[:, :1]), axis=0, return_index=True)
    return rows[np.sort(first)]

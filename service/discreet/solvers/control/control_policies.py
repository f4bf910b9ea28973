"""Control policies of a finite-horizon Markov decision process, kept on the support of its
transitions.

A policy of T - 1 steps is T - 1 transition matrices; with 1,000 states and 96 steps these take 768
MB. So a policy stores what they are computed from, and makes the matrix of a step on request.

    Support: the transitions that are possible, row by row
    DesirabilityPolicy: p_t[b, a] proportional to W[b, a] z_{t+1}[a]
    AveragePolicy: the mean of such policies over Dirichlet draws of W, by the delta method
    TabulatedPolicy: any policy, as a table

Cells are the entries of the support, row by row; `b` is where a transition starts, `a` where it
leads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.solvers.errors import NoSolution

# Policy kernels -----------------------------------------------------------------------------------
# Kernels of policies: rows of transition probabilities and of their logarithms.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST_SUM = 1e-290
"""Sums of terms up to 1 that are at least this large lose nothing to underflow; others are
recomputed in logarithms."""
LARGEST_LOG_RATIO = 600.0
"""Ratios p/P are limited to exp of this: their squares would overflow."""


@njit(cache=True, nogil=True)
def log_sum_exp(
    row_start: Ints, to: Ints, log_weight: Floats, log_z: Floats, rows: Ints, sums: Floats
) -> None:
    """`sums[b] = ln sum_a W[b, a] z[a]` for the b in `rows`; no term overflows, and the largest
    does not underflow."""
    for row in rows:
        largest = -np.inf
        for cell in range(row_start[row], row_start[row + 1]):
            largest = max(largest, log_weight[cell] + log_z[to[cell]])
        total = 0.0
        for cell in range(row_start[row], row_start[row + 1]):
            total += np.exp(log_weight[cell] + log_z[to[cell]] - largest)
        sums[row] = largest + np.log(total)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def weighted_sums(row_start: Ints, to: Ints, weight: Floats, z: Floats, sums: Floats) -> None:
    """`sums[b] = sum_a W[b, a] z[a]`; terms are added in the order that is fastest."""
    full = to.size == z.size * z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        w, ahead = weight[begin:end], to[begin:end]
        total = 0.0
        if full:
            for a in range(z.size):
                total += w[a] * z[a]
        else:
            for cell in range(w.size):
                total += w[cell] * z[ahead[cell]]
        sums[row] = total


@njit(cache=True, nogil=True)
def policy_cells(
    row_start: Ints,
    to: Ints,
    weight: Floats,
    z: Floats,
    sums: Floats,
    log_weight: Floats,
    log_z: Floats,
    cells: Floats,
) -> None:
    """`cells = W z / sums`, row by row; in logarithms where the sum of the products would have
    underflowed."""
    full = to.size == z.size * z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        w, ahead, here = weight[begin:end], to[begin:end], cells[begin:end]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_weight[begin:end], log_z, here)
            for cell in range(here.size):
                here[cell] = np.exp(here[cell])
            continue
        factor = 1.0 / sums[row]
        if full:
            for a in range(z.size):
                here[a] = w[a] * z[a] * factor
        else:
            for cell in range(here.size):
                here[cell] = w[cell] * z[ahead[cell]] * factor


@njit(cache=True, nogil=True)
def log_policy_cells(
    row_start: Ints,
    to: Ints,
    log_weight: Floats,
    log_z: Floats,
    largest: Floats,
    sums: Floats,
    log_cells: Floats,
) -> None:
    """`log_cells = ln(W z / sum_a W z)`, row by row; `sums` are of rows of W that were divided by
    exp(largest)."""
    full = to.size == log_z.size * log_z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        log_w, ahead, here = log_weight[begin:end], to[begin:end], log_cells[begin:end]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_w, log_z, here)
            continue
        log_sum = largest[row] + np.log(sums[row])
        if full:
            for a in range(log_z.size):
                here[a] = log_w[a] + log_z[a] - log_sum
        else:
            for cell in range(here.size):
                here[cell] = log_w[cell] + log_z[ahead[cell]] - log_sum


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def average_cells(
    row_start: Ints,
    to: Ints,
    z: Floats,
    sums: Floats,
    log_weight: Floats,
    log_z: Floats,
    largest: Floats,
    concentration: float,
    cells: Floats,
) -> None:
    """From p = W z / sums in `cells` to `p (1 + (mean r - r)/(k + 1))`, r = p/W, nothing below 0,
    rows of sum 1."""
    full = to.size == z.size * z.size
    ratio, more = np.empty(z.size), 1.0 / (concentration + 1.0)
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        log_w, ahead, here = log_weight[begin:end], to[begin:end], cells[begin:end]
        r = ratio[: here.size]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_w, log_z, r)
            for cell in range(r.size):
                r[cell] = np.exp(min(r[cell] - log_w[cell], LARGEST_LOG_RATIO))
        else:
            factor = np.exp(-largest[row]) / sums[row]
            if full:
                for a in range(r.size):
                    r[a] = z[a] * factor
            else:
                for cell in range(r.size):
                    r[cell] = z[ahead[cell]] * factor
            limit = np.exp(LARGEST_LOG_RATIO)
            for cell in range(r.size):
                r[cell] = min(r[cell], limit)
        mean, total = 0.0, 0.0
        for cell in range(r.size):
            mean += here[cell] * r[cell]
        for cell in range(r.size):
            expanded = here[cell] * (1.0 + (mean - r[cell]) * more)
            here[cell] = expanded if expanded > 0.0 else 0.0
            total += here[cell]
        for cell in range(r.size):
            here[cell] /= total


@njit(cache=True, nogil=True)
def _log_row(to: Ints, log_weight: Floats, log_z: Floats, log_cells: Floats) -> None:
    """`log_cells = ln(W z / sum_a W z)` of the cells of one row; nothing underflows."""
    largest = -np.inf
    for cell in range(to.size):
        log_cells[cell] = log_weight[cell] + log_z[to[cell]]
        largest = max(largest, log_cells[cell])
    total = 0.0
    for cell in range(to.size):
        log_cells[cell] -= largest
        total += np.exp(log_cells[cell])
    log_total = np.log(total)
    for cell in range(to.size):
        log_cells[cell] -= log_total


@njit(cache=True, nogil=True)
def add_policies(
    row_start: Ints, to: Ints, log_weight: Floats, log_z: Floats, share: float, sums: Floats
) -> None:
    """Adds `share` times the policies of weights W and desirabilities z_1…z_{T-1} to `sums`:
    float64[T-1, cells]."""
    term = np.empty(to.size)
    for step in range(sums.shape[0]):
        for row in range(row_start.size - 1):
            largest = -np.inf
            for cell in range(row_start[row], row_start[row + 1]):
                term[cell] = log_weight[cell] + log_z[step + 1, to[cell]]
                largest = max(largest, term[cell])
            total = 0.0
            for cell in range(row_start[row], row_start[row + 1]):
                term[cell] = np.exp(term[cell] - largest)
                total += term[cell]
            for cell in range(row_start[row], row_start[row + 1]):
                sums[step, cell] += share * term[cell] / total


# Control policies ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Support:
    """The possible transitions of n states: from b to `to[row_start[b]:row_start[b + 1]]`, in
    increasing order, at least one."""

    row_start: Ints
    to: Ints

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> Self:
        """The support of a mask bool[n, n]. NoSolution if a state has no transition."""
        width = mask.sum(axis=1)
        if not width.all():
            raise NoSolution(f"state {int(np.argmin(width))} has no transition")
        n = width.size
        to = (
            np.tile(np.arange(n), n)
            if width.sum() == n * n
            else np.ascontiguousarray(np.nonzero(mask)[1])
        )
        return cls(np.concatenate([[0], np.cumsum(width)]), to)

    @property
    def states(self) -> int:
        return self.row_start.size - 1

    @cached_property
    def origin(self) -> Ints:
        """int64[cells]: where each transition starts."""
        return np.repeat(np.arange(self.states), np.diff(self.row_start))

    def gather(self, matrices: Floats) -> Floats:
        """float64[..., cells] of matrices float64[..., n, n]."""
        n = self.states
        if self.to.size == n * n:
            return matrices.reshape(*matrices.shape[:-2], n * n)
        return matrices[..., self.origin, self.to]

    def scatter(self, cells: Floats, elsewhere: float = 0.0) -> Floats:
        """The matrices float64[..., n, n] with entries `cells` on the support and `elsewhere` off
        it."""
        n = self.states
        if self.to.size == n * n:
            return cells.reshape(*cells.shape[:-1], n, n)
        matrices = np.full((*cells.shape[:-1], n, n), elsewhere)
        matrices[..., self.origin, self.to] = cells
        return matrices

    def row_sums(self, cells: Floats) -> Floats:
        """float64[..., n] of cells float64[..., cells]."""
        return np.add.reduceat(cells, self.row_start[:-1], axis=-1)


class Policy(ABC):
    """T - 1 transition matrices on a support; their rows sum to 1 up to rounding."""

    support: Support

    @property
    @abstractmethod
    def steps(self) -> int:
        """T - 1, the number of matrices."""

    @abstractmethod
    def cells(self, step: int) -> Floats:
        """float64[cells]: the probabilities of the support's transitions at `step`, 0 <= step <
        steps."""

    def log_cells(self, step: int) -> Floats:
        """Logarithms of `cells`; -inf for a probability of 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.cells(step))

    def at(self, step: int) -> Floats:
        """float64[n, n]: the matrix of `step`, from (row) to (column), zero off the support."""
        return self.support.scatter(self.cells(step))

    @property
    def transitions(self) -> Floats:
        """float64[T - 1, n, n]: all matrices, computed at every call. This is large: see the
        module's docstring."""
        n = self.support.states
        matrices = np.zeros((self.steps, n, n))
        for step in range(self.steps):
            matrices[step] = self.at(step)
        return matrices


@dataclass(frozen=True, eq=False)
class DesirabilityPolicy(Policy):
    """The policy `W[b, a] z_{t+1}[a] / sum_a W[b, a] z_{t+1}[a]`.

    `log_weight`: float64[cells], ln W; -inf stands for a transition that is never made. `relative`:
    float64[T, n], ln z_t less its maximum over the states, `level`: float64[T], that maximum. They
    are separate because after many steps the level is so large that adding it would round away what
    the policy depends on.
    """

    support: Support
    log_weight: Floats
    relative: Floats
    level: Floats

    @property
    def steps(self) -> int:
        return len(self.relative) - 1

    @property
    def log_desirability(self) -> Floats:
        """float64[T, n]: ln z_t."""
        return self.relative + self.level[:, None]

    @cached_property
    def _largest(self) -> Floats:
        """float64[n]: the largest ln W of each row."""
        largest: Floats = np.maximum.reduceat(self.log_weight, self.support.row_start[:-1])
        return largest

    @cached_property
    def _weight(self) -> Floats:
        """float64[cells]: W with each row scaled to maximum 1."""
        weight: Floats = np.exp(
            self.log_weight - np.repeat(self._largest, np.diff(self.support.row_start))
        )
        return weight

    def cells(self, step: int) -> Floats:
        cells, log_z, support = np.empty(self.log_weight.size), self._after(step), self.support
        z, sums = self._sums(log_z)
        policy_cells(
            support.row_start, support.to, self._weight, z, sums, self.log_weight, log_z, cells
        )
        return cells

    def log_cells(self, step: int) -> Floats:
        log_cells, log_z, support = np.empty(self.log_weight.size), self._after(step), self.support
        _, sums = self._sums(log_z)
        log_policy_cells(
            support.row_start, support.to, self.log_weight, log_z, self._largest, sums, log_cells
        )
        return log_cells

    def _sums(self, log_z: Floats) -> tuple[Floats, Floats]:
        """z, and sum_a W[b, a] z[a] of the scaled weights."""
        z, sums = np.exp(log_z), np.empty(self.support.states)
        weighted_sums(self.support.row_start, self.support.to, self._weight, z, sums)
        return z, sums

    def _after(self, step: int) -> Floats:
        """ln z of the states that `step` leads to, shifted to a maximum of 0."""
        if not 0 <= step < self.steps:
            raise IndexError(f"the policy has the steps 0 to {self.steps - 1}; there is no {step}")
        after: Floats = self.relative[step + 1]
        return after


@dataclass(frozen=True, eq=False)
class AveragePolicy(DesirabilityPolicy):
    """The mean of `P~ z / (P~ z)` over rows P~ ~ Dir(k P), by the delta method; `log_weight` is ln
    P.

    With p = P z/(P z) and r = z/(P z) it is `p (1 + (mean r - r)/(k + 1))`, mean r = sum_a p_a r_a:
    this is Hassan et al., eq. 30, with the squares and cubes outside the sums, where they belong
    (as printed, rows do not sum to 1). The error is O(1/k^2) for a given row. Where k P is small
    compared with r, the expansion leaves the simplex: negative entries are then set to 0 and the
    row is scaled to sum 1, which gives a policy but not this order of the error; the mean by
    sampling is valid there too.
    """

    concentration: float

    def cells(self, step: int) -> Floats:
        cells, log_z, support = super().cells(step), self._after(step), self.support
        z, sums = self._sums(log_z)
        average_cells(
            support.row_start,
            support.to,
            z,
            sums,
            self.log_weight,
            log_z,
            self._largest,
            self.concentration,
            cells,
        )
        return cells

    def log_cells(self, step: int) -> Floats:
        return Policy.log_cells(self, step)


@dataclass(frozen=True, eq=False)
class TabulatedPolicy(Policy):
    """`probability`: float64[T - 1, cells], >= 0; the caller checks that rows sum to 1."""

    support: Support
    probability: Floats

    @classmethod
    def of(cls, matrices: Floats) -> Self:
        """The policy of matrices float64[T - 1, n, n]."""
        support = Support.of(
            np.any(matrices > 0, axis=0) if len(matrices) else np.ones(matrices.shape[1:], np.bool_)
        )
        return cls(support, support.gather(matrices))

    @property
    def steps(self) -> int:
        return len(self.probability)

    def cells(self, step: int) -> Floats:
        row: Floats = self.probability[step]
        return row


# Kernels ------------------------------------------------------------------------------------------


# Cell a of a row of a full support leads to a, so no look-up is needed there. Slices are taken
# first because the compiler does not vectorize over indices that might be negative.

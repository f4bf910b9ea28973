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
from numpy.typing import NDArray

from discreet.solvers.control.policy_kernels import (
    Floats,
    Ints,
    average_cells,
    log_policy_cells,
    policy_cells,
    weighted_sums,
)
from discreet.solvers.errors import NoSolution


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

"""Logarithms of desirabilities by the backward recursion, and the input formats of a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import digamma

from discreet.solvers.control.control_policies import Policy, Support, TabulatedPolicy
from discreet.solvers.control.policy_kernels import LEAST_SUM, Floats, Ints, log_sum_exp
from discreet.solvers.errors import InvalidArgument

Weights = Literal["exact", "taylor", "digamma"]
SPARSE = 0.15
"""Supports with less than this fraction of all transitions are summed cell by cell: an exponential
costs as much as 6 or more multiplications."""
SUM_TOLERANCE = 1e-9
"""Tolerance of the sum of a row of probabilities, which is 1."""


def log_weights(
    transitions: Floats, weights: Weights = "exact", concentration: float | None = None
) -> Floats:
    """ln W, float64[..., n, n], of transition matrices P of that shape; -inf where P is 0.

    exact: ln P. taylor: `ln P - (1 - P)/(2 P (k + 1))`, the expansion of E ln P~ to second order
    (eq. 20). digamma: `psi(k P) - psi(k)`, which is E ln P~ for P~ ~ Dir(k P) (eq. 25). k =
    `concentration` > 0 is needed by the last two; InvalidArgument if it is missing.
    """
    P = np.asarray(transitions, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        if weights == "exact":
            return np.log(P)
        k = concentration
        if k is None or not 0 < k < np.inf:
            raise InvalidArgument(f"{weights} weights need a positive concentration, not {k}")
        possible = P > 0
        safe = np.where(possible, P, 1.0)
        if weights == "taylor":
            logs = np.log(safe) - (1 - safe) / (2 * safe * (k + 1))
        else:
            logs = digamma(k * safe) - digamma(k)
    return np.where(possible, logs, -np.inf)


def log_desirabilities(
    support: Support,
    log_weight: Floats,
    at: Ints,
    scaled: Floats,
    progress: Callable[[int, int], None] | None,
) -> tuple[Floats, Floats]:
    """ln z as `relative` float64[B, T, n] and `level` float64[B, T], from ln W float64[B or 1, K,
    cells], the index of each step's matrix, and U/gamma.

    A step is a matrix-vector product: z and the rows of W are scaled to maximum 1, so it can only
    underflow, and only in rows that do not reach the best states; these are summed in logarithms.
    """
    n = support.states
    batch, horizon = max(len(log_weight), len(scaled)), scaled.shape[1]
    relative, level = np.empty((batch, horizon, n)), np.zeros((batch, horizon))
    sums = np.zeros((batch, n))
    dense = support.to.size >= SPARSE * n * n
    if dense:
        largest = np.maximum.reduceat(log_weight, support.row_start[:-1], axis=-1)
        W = support.scatter(log_weight, -np.inf) - largest[..., None]
        np.exp(W, out=W)
    every = np.arange(n)
    for t in range(horizon - 1, -1, -1):
        if t < horizon - 1:
            after = relative[:, t + 1]
            if dense:
                z, turn = np.exp(after), W[:, at[t]]
                product = (
                    (turn[0] @ z.T).T if len(W) == 1 else np.matmul(turn, z[:, :, None])[:, :, 0]
                )
                sums[:] = np.log(np.maximum(product, LEAST_SUM)) + largest[:, at[t]]
                low = product < LEAST_SUM
            for i in np.flatnonzero(low.any(axis=1)) if dense else range(batch):
                rows = np.flatnonzero(low[i]) if dense else every
                weight = log_weight[min(i, len(log_weight) - 1), at[t]]
                log_sum_exp(support.row_start, support.to, weight, after[i], rows, sums[i])
        log_z = scaled[:, t] + sums
        top = log_z.max(axis=1)
        relative[:, t] = log_z - top[:, None]
        level[:, t] = top + (level[:, t + 1] if t < horizon - 1 else 0.0)
        if progress is not None and t < horizon - 1:
            progress(horizon - 1 - t, horizon - 1)
    return relative, level


def transitions_of(transitions: Floats, dimensions: int = 2) -> Floats:
    P = np.asarray(transitions, dtype=np.float64)
    if not 2 <= P.ndim <= dimensions or P.shape[-1] != P.shape[-2] or P.size == 0:
        raise InvalidArgument(f"transitions are square matrices, not of shape {P.shape}")
    if not (P >= 0).all() or not (np.abs(P.sum(axis=-1) - 1) <= SUM_TOLERANCE).all():
        raise InvalidArgument("each row of the transitions must be nonnegative and sum to 1")
    return P


def utility_of(utility: Floats, dimensions: int = 2) -> Floats:
    U = np.asarray(utility, dtype=np.float64)
    if not 2 <= U.ndim <= dimensions or U.size == 0:
        raise InvalidArgument(
            f"utility is an array of steps by states, at least one of each, not of shape {U.shape}"
        )
    if not np.isfinite(U).all():
        raise InvalidArgument("utility must be finite")
    return U


def policy_of(policy: Policy | Floats, horizon: int, states: int) -> Policy:
    """`policy` as a Policy that covers the horizon."""
    if not isinstance(policy, Policy):
        matrices = np.asarray(policy, dtype=np.float64)
        if matrices.ndim == 2:
            one = TabulatedPolicy.of(matrices[None])
            policy = TabulatedPolicy(
                one.support, np.broadcast_to(one.probability, (horizon - 1, one.support.to.size))
            )
        else:
            policy = TabulatedPolicy.of(matrices)
    if policy.support.states != states:
        raise InvalidArgument(f"the policy is of {policy.support.states} states, not {states}")
    if policy.steps < horizon - 1:
        raise InvalidArgument(
            f"a policy of {policy.steps} steps does not reach a horizon of {horizon}"
        )
    return policy


def cells_of(support: Support, other: Support) -> Ints:
    """int64[cells]: the cell of `other` of each transition of `support`, or the number of cells of
    `other` if it lacks the transition."""
    n = support.states
    wanted, known = support.origin * n + support.to, other.origin * n + other.to
    place = np.searchsorted(known, wanted)
    found = np.append(known, -1)[place] == wanted
    return np.where(found, place, known.size)

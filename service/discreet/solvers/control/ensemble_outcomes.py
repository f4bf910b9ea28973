"""The effect of control on an ensemble, for many transition matrices at once: loads and costs under
the best policy of each.

The results are those of `linearly_solvable_mdp` for each matrix, without constructing a policy: the
distribution m_t over states moves to m_{t+1} = z_{t+1} * ((m_t / (P z_{t+1})) P), which needs no
separate matrix for any step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.control.control_policies import Policy
from discreet.solvers.control.linearly_solvable_mdp import solve_many
from discreet.solvers.control.policy_kernels import LEAST_SUM

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of B matrices over T steps and n states; power in the unit of the states' power,
    costs in the currency of the utility."""

    default_power: Floats
    """float64[B, T]: expected power of a load without control."""
    expected_power: Floats
    """float64[B, T]: the same under the best policy."""
    cost_to_go: Floats
    """float64[B, n]: expected cost under the best policy from each state, discomfort included."""
    saving: Floats
    """float64[B]: expected cost without control minus that with it, from the initial
    distribution."""


def outcomes(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    initial: Floats,
    power: Floats,
    *,
    at: Ints | None = None,
    prices: Floats | None = None,
) -> Outcomes:
    """The outcomes of transitions float64[B, n, n], utility float64[T, n], initial float64[n] or
    [B, n] and power float64[n].

    With `at`, int64[T - 1], the matrices float64[B, K, n, n] alternate. With `prices`, float64[B,
    T], policies are optimal for power that costs this much more in each step; the extra price is
    not part of the costs: see `limited_load`. Errors as in `solve`.
    """
    P, U = np.asarray(transitions, dtype=np.float64), np.asarray(utility, dtype=np.float64)
    paid = U if prices is None else U - prices[:, :, None] * np.asarray(power, dtype=np.float64)
    policies = solve_many(P, paid, discomfort_weight, at=at)
    relative = np.array([policy.relative for policy in policies])
    cost_to_go = -discomfort_weight * np.array(
        [policy.relative[0] + policy.level[0] for policy in policies]
    )
    start = np.broadcast_to(np.asarray(initial, dtype=np.float64), (len(P), P.shape[-1]))
    default, controlled = np.empty((len(U), *start.shape)), np.empty((len(U), *start.shape))
    default[0] = controlled[0] = start
    for t in range(len(U) - 1):
        z, moves = np.exp(relative[:, t + 1]), P if at is None else P[:, at[t]]
        sums = np.matmul(moves, z[:, :, None])[:, :, 0]
        default[t + 1] = np.matmul(default[t][:, None], moves)[:, 0]
        controlled[t + 1] = (
            np.matmul((controlled[t] / np.maximum(sums, LEAST_SUM))[:, None], moves)[:, 0] * z
        )
        for draw in np.flatnonzero((sums < LEAST_SUM).any(axis=1)).tolist():
            controlled[t + 1, draw] = controlled[t, draw] @ policies[draw].at(t)
    if prices is not None:
        cost_to_go = cost_to_go - _later(policies, P, relative, at, prices[:, :, None] * power)
    cost = -np.einsum("tbn,tn->b", default, U)
    saving = cost - np.einsum("bn,bn->b", start, cost_to_go)
    return Outcomes((default @ power).T, (controlled @ power).T, cost_to_go, saving)


def _later(
    policies: Sequence[Policy], P: Floats, relative: Floats, at: Ints | None, paid: Floats
) -> Floats:
    """Expected total of `paid` float64[B, T, n] from each initial state: float64[B, n]."""
    later = paid[:, -1]
    for t in range(paid.shape[1] - 2, -1, -1):
        z, moves = np.exp(relative[:, t + 1]), P if at is None else P[:, at[t]]
        sums, ahead = (np.matmul(moves, weight[:, :, None])[:, :, 0] for weight in (z, z * later))
        ahead = ahead / np.maximum(sums, LEAST_SUM)
        for draw in np.flatnonzero((sums < LEAST_SUM).any(axis=1)).tolist():
            ahead[draw] = policies[draw].at(t) @ later[draw]
        later = paid[:, t] + ahead
    return later

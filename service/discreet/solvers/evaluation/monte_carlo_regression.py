"""First-visit Monte Carlo regression with smooth sensitivity: DP-LSW and DP-LSL of Balle, Gomrokchi
& Precup (2016).

    dp_lsw(transitions, state_features, discount, smoothing=, reward_bound=, …) -> Regression(theta,
    sensitivity) dp_lsl(transitions, state_features, discount, penalty=, smoothing=, reward_bound=,
    …) -> Regression

States are tabular, features a public matrix Phi (states, d). F_s is the mean over the trajectories
X_s that visit s of their discounted return from the first visit on; 0 if none does. On-policy only:
with ratios a return is not bounded by R/(1 - discount), and NoSolution is raised. `sensitivity` S
is `smoothing`-smooth: neighbours X, X' (one trajectory replaced, added or removed) have |theta -
theta'|_2 <= S(X) <= e^smoothing S(X'). So theta + scale S N(0, I) is the smooth-sensitivity
Gaussian mechanism. theta and S themselves depend on the data and are never released.

Returns lie in [min(low, 0) B, max(high, 0) B], B = sum_t discount^t up to the public horizon;
`spread` is the width of that interval, `largest` the largest absolute value in it. (Balle et al.
have rewards in [0, R]: both are R B then.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument, NoSolution
from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions, indices

LEAST_SMOOTHING = 1e-9
"""Least smoothing: below it the search over distances k would be long and the sensitivity close to
the global one."""


class Regression(NamedTuple):
    """Estimate (d,) and smooth sensitivity in l2, both private."""

    theta: Floats
    sensitivity: float


def dp_lsw(
    transitions: Transitions,
    state_features: Floats,
    discount: float,
    *,
    smoothing: float,
    reward_bound: float,
    lowest_reward: float | None = None,
    weights: Floats | None = None,
    horizon: int | None = None,
) -> Regression:
    """DP-LSW: theta = (G^½ Phi)^+ G^½ F with public weights G = diag(w), by default ones.

    `lowest_reward`: -reward_bound by default. Changing one trajectory changes each |X_s| by at most
    1 and each F_s by at most spread/max(|X_s|, 1) (a mean of n values in an interval, of which one
    is replaced, added or removed; from nothing F_s = 0 lies in the interval too). At distance k
    from X no |X_s| is below |X_s| - k, hence

        S = spread |(G^½ Phi)^+|_2 max_k e^{-k smoothing} sqrt(sum_s w_s / max(|X_s| - k, 1)²).

    The paper puts e^{-k smoothing} inside the root: this S is larger, and smoother than needed.
    """
    counts, means, spread, _ = _first_visits(
        transitions, state_features, discount, reward_bound, lowest_reward, horizon, smoothing
    )
    weight = np.ones(counts.size) if weights is None else np.asarray(weights, dtype=np.float64)
    root = np.sqrt(weight)
    inverse: Floats = np.asarray(np.linalg.pinv(root[:, None] * state_features), dtype=np.float64)
    theta = np.asarray(inverse @ (root * means), dtype=np.float64)
    farthest = _farthest_weighted(counts, weight, smoothing)
    return Regression(theta, spread * float(np.linalg.norm(inverse, 2)) * farthest)


def dp_lsl(
    transitions: Transitions,
    state_features: Floats,
    discount: float,
    *,
    penalty: float,
    smoothing: float,
    reward_bound: float,
    lowest_reward: float | None = None,
    weights: Floats | None = None,
    horizon: int | None = None,
    public_trajectories: int | None = None,
) -> Regression:
    """DP-LSL: theta minimizes sum_i sum_{s visited by i} rho_s (F_i,s - phi_s·theta)² + penalty/2
    |theta|².

    rho are the public `weights`, by default ones; `public_trajectories` is m if neighbours replace
    a trajectory. With D = diag(rho_s |X_s|) and H = Phi'D Phi + penalty/2 I, theta = H^-1 Phi'D F.
    For a neighbour H'(theta' - theta) = Phi'v, v_s the new trajectory's rho_s (F'_s - phi_s·theta)
    where it visits s, minus the old one's. In a state that both visit, theta cancels: |v|_2 <=
    |rho|_2 spread + |rho|_inf |Phi|_2 |theta|. H' >= penalty/2 and |theta| <= |D^½ F|/sqrt(2
    penalty) <= largest sqrt(sum rho_s |X_s|)/sqrt(2 penalty). At distance k, |X_s| is at most
    min(|X_s| + k, m):

        S = 2 |Phi|/penalty max_k e^{-k smoothing} (|rho|_2 spread + |rho|_inf |Phi| largest
        sqrt(M_k / (2 penalty))), M_k = sum_s rho_s min(|X_s| + k, m).

    That holds for any penalty > 0. The paper divides by penalty - |rho|_inf |Phi|² and needs it to
    be positive.
    """
    if not penalty > 0:
        raise InvalidArgument("the penalty is positive")
    counts, means, spread, largest = _first_visits(
        transitions, state_features, discount, reward_bound, lowest_reward, horizon, smoothing
    )
    rho = np.ones(counts.size) if weights is None else np.asarray(weights, dtype=np.float64)
    density = rho * counts
    dimension = state_features.shape[1]
    H = state_features.T @ (density[:, None] * state_features) + penalty / 2 * np.eye(dimension)
    try:
        theta = np.asarray(
            np.linalg.solve(H, state_features.T @ (density * means)), dtype=np.float64
        )
    except np.linalg.LinAlgError:  # a penalty that is smaller than rounding errors
        theta = np.zeros(dimension)
    norm = float(np.linalg.norm(state_features, 2))
    # ln of the bound is concave in k, with slope below 1/(2k): the maximum is at k <= 1/(2
    # smoothing).
    distance = np.arange(distances(smoothing))
    most = np.inf if public_trajectories is None else float(public_trajectories)
    mass = np.zeros(distance.size)
    for state in range(counts.size):
        mass += rho[state] * np.minimum(counts[state] + distance, most)
    steady = float(np.linalg.norm(rho)) * spread
    reach = steady + float(np.max(rho, initial=0.0)) * norm * largest * np.sqrt(
        mass / (2 * penalty)
    )
    farthest = float(np.max(np.exp(-smoothing * distance) * reach))
    return Regression(theta, 2 * norm / penalty * farthest)


def distances(smoothing: float) -> int:
    """The number of distances that dp_lsl examines."""
    return min(int(0.5 / smoothing) + 2, int(5e7))


def _first_visits(
    transitions: Transitions,
    state_features: Floats,
    discount: float,
    reward_bound: float,
    lowest_reward: float | None,
    horizon: int | None,
    smoothing: float,
) -> tuple[Floats, Floats, float, float]:
    """Visits |X_s|, mean returns F_s, spread and largest absolute value of a return."""
    if not transitions.on_policy:
        raise InvalidArgument("DP-LSW and DP-LSL evaluate only the policy that was followed")
    if not smoothing >= LEAST_SMOOTHING:
        raise InvalidArgument(f"the smoothing is at least {LEAST_SMOOTHING}")
    if horizon is None and not discount < 1:
        raise NoSolution("returns are unbounded without a horizon or a discount below 1")
    lowest = -reward_bound if lowest_reward is None else lowest_reward
    if horizon is None:
        length = 1 / (1 - discount)
    else:
        length = float(horizon) if discount == 1 else (1 - discount**horizon) / (1 - discount)
        if 0 < discount < 1:
            length = -math.expm1(horizon * math.log(discount)) / (1 - discount)
    low, high = min(lowest, 0.0) * length, max(reward_bound, 0.0) * length
    states = len(state_features)
    counts, sums = np.zeros(states), np.zeros(states)
    _visit(
        transitions.trajectory_start,
        indices(transitions.state),
        transitions.reward,
        float(discount),
        float(lowest),
        float(reward_bound),
        np.iinfo(np.int64).max if horizon is None else int(horizon),
        counts,
        sums,
    )
    means = sums / np.maximum(counts, 1.0)
    return counts, means, high - low, max(high, -low)


@numba.njit(cache=True, nogil=True)
def _visit(
    start: Ints,
    state: NDArray[np.int32],
    reward: Floats,
    discount: float,
    low: float,
    high: float,
    horizon: int,
    counts: Floats,
    sums: Floats,
) -> None:
    """Add each trajectory's first-visit returns to `sums` and its visits to `counts`."""
    first = np.zeros(counts.size)
    visited_by = np.full(counts.size, -1, np.int64)
    for trajectory in range(start.size - 1):
        begin, end = start[trajectory], start[trajectory + 1]
        end = min(end, begin + horizon) if horizon < end - begin else end
        value = 0.0
        # Backwards: the last value written for a state belongs to its first visit.
        for t in range(end - 1, begin - 1, -1):
            value = min(max(reward[t], low), high) + discount * value
            if 0 <= state[t] < counts.size:
                first[state[t]] = value
        for t in range(begin, end):
            s = state[t]
            if 0 <= s < counts.size and visited_by[s] != trajectory:
                visited_by[s] = trajectory
                counts[s] += 1.0
                sums[s] += first[s]


@numba.njit(cache=True, nogil=True)
def _farthest_weighted(counts: Floats, weights: Floats, smoothing: float) -> float:
    """max over integers k >= 0 of e^{-k smoothing} sqrt(sum_s w_s / max(n_s - k, 1)²)."""
    best = 0.0
    limit = math.sqrt(np.sum(weights))
    k = 0
    while True:
        decay = math.exp(-k * smoothing)
        if decay * limit <= best:
            return best  # no term is above 1, so no larger distance can give more
        total = 0.0
        for s in range(counts.size):
            total += weights[s] / max(counts[s] - k, 1.0) ** 2
        best = max(best, decay * math.sqrt(total))
        k += 1

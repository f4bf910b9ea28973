"""Least-squares temporal differences from statistics that are sums over trajectories, so that noise
can be added once.

    cells_of(states) -> cells                       every cell, where the topology is not public
    histograms(transitions, cells, states, reward_bound=, max_ratio=, horizon=, unit=)
        -> Histograms(visits, rewards)
    tabular_moments(visits, cells, states, discount, rewards= | cell_rewards=, …) -> Moments
    stacked_steps(transitions, features, discount, clip=, reward_bound=, max_ratio=) -> int64 vector
    unstacked(vector, dimension, reward_bound) -> Moments(A, b, C)
    solve_moments(A, b, C, regularization) -> theta
    lstd(transitions, features, discount), wis_lstd(...) -> theta    NOT private

`histograms` and `stacked_steps` are exact: adding or removing a trajectory moves the result by at
most the norm stated there, without an additional rounding error. The other functions depend on them
alone and never divide by a datum without a floor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.evaluation.temporal_difference import (
    Floats,
    Ints,
    Table,
    Transitions,
    indices,
    table_of,
)
from discreet.solvers.evaluation.value_features import Features, add, at

GRID_BITS = 26
"""Stacked statistics are multiples of about 2^-26 of the clip: as floats, sums of 2^26
trajectories are exact."""

SINGULAR = 1e-13
"""Eigenvalues below this fraction of the largest one are rounding errors."""


# Histograms ---------------------------------------------------------------------------------------


# Stacked statistics -------------------------------------------------------------------------------


def stacked_size(dimension: int) -> int:
    """Length of a stacked vector: A row by row, b, the upper triangle of C row by row."""
    return dimension * dimension + dimension + dimension * (dimension + 1) // 2


def stacked_bound(norm_bound: float, discount: float, max_ratio: float) -> float:
    """Upper bound of every trajectory's stacked vector if features are within `norm_bound`: a clip
    that never clips.

    |rho phi (phi - discount phi')'|_F <= rho B²(1 + discount); |rho phi R / reward_bound| <= rho B;
    |phi phi'|_F <= B².
    """
    square = norm_bound * norm_bound
    return math.hypot(max_ratio * square * (1 + discount), max_ratio * norm_bound, square)


def stacked_grid(clip: float) -> float:
    """The power of two, below 2^-26 clip, of which stacked statistics are multiples."""
    return math.ldexp(1.0, math.frexp(clip)[1] - 1 - GRID_BITS)


def stacked_steps(
    transitions: Transitions,
    features: Features,
    discount: float,
    *,
    clip: float,
    reward_bound: float = 1.0,
    max_ratio: float = 1.0,
) -> Ints:
    """Sum over trajectories of (A_i, b_i / reward_bound, C_i), each scaled down to `clip` in l2, in
    multiples of `stacked_grid(clip)`: int64 (stacked_size,).

    Ratios are cut to [0, max_ratio], rewards to ±reward_bound. Sensitivity (l2): clip under
    add/remove, 2 clip under replacement. A trajectory that is not finite counts as 0. Each
    trajectory's vector is rounded toward zero to the grid, so the sums are exact for up to 2^35
    trajectories, and those of parts add up to those of all.
    """
    total = np.zeros(stacked_size(features.dimension), dtype=np.int64)
    # Slightly below the clip, so that rounding in the norm does not cross it.
    longest = float(clip) * (1 - 1e-9)
    data = table_of(transitions, features, discount)
    grid = stacked_grid(clip)
    _stacked(data, features.dimension, longest, float(reward_bound), float(max_ratio), grid, total)
    return total


@numba.njit(cache=True, nogil=True)
def _add_statistics(
    data: Table, i: int, reward_bound: float, max_ratio: float, room: Floats, out: Floats
) -> None:
    """Add tau (A_i, b_i / reward_bound, C_i) of one trajectory to `out`; `room` float64[3, d] is
    overwritten."""
    here, ahead, other = room[0], room[1], room[2]
    dimension = here.size
    square = dimension * dimension
    for t in range(data.start[i], data.start[i + 1]):
        here[:] = 0.0
        add(at(data.here, t, other), 1.0, here)
        ahead[:] = here
        if not data.terminal[t]:
            add(at(data.ahead, t, other), -data.discount, ahead)
        weight = min(max(data.ratio[t], 0.0), max_ratio) if data.ratio.size else 1.0
        gain = weight * min(max(data.reward[t] / reward_bound, -1.0), 1.0)
        triangle = square + dimension
        for j in range(dimension):
            if here[j] != 0.0:
                first = weight * here[j]
                for k in range(dimension):
                    out[j * dimension + k] += first * ahead[k]
                out[square + j] += gain * here[j]
                for k in range(j, dimension):
                    out[triangle + k - j] += here[j] * here[k]
            triangle += dimension - j


@numba.njit(cache=True, nogil=True)
def _stacked(
    data: Table,
    dimension: int,
    clip: float,
    reward_bound: float,
    max_ratio: float,
    grid: float,
    total: Ints,
) -> None:
    one, room = np.zeros(total.size), np.empty((3, dimension))
    for i in range(data.start.size - 1):
        one[:] = 0.0
        _add_statistics(data, i, reward_bound, max_ratio, room, one)
        norm = 0.0
        for value in one:
            norm += value * value
        length = data.start[i + 1] - data.start[i]
        norm = math.sqrt(norm) / max(length, 1)
        if not norm < np.inf:
            continue
        factor = min(1.0, clip / norm if norm > 0.0 else 1.0) / max(length, 1) / grid
        for position in range(one.size):
            total[position] += np.int64(one[position] * factor)  # toward zero


def unstacked(vector: Floats, dimension: int, reward_bound: float = 1.0) -> Moments:
    """A, b and symmetric C of a stacked vector."""
    square = dimension * dimension
    A = vector[:square].reshape(dimension, dimension)
    b = reward_bound * vector[square : square + dimension]
    C = np.zeros((dimension, dimension))
    C[np.triu_indices(dimension)] = vector[square + dimension :]
    return Moments(A.copy(), b, C + np.triu(C, 1).T)


# Solutions ----------------------------------------------------------------------------------------


def solve_moments(A: Floats, b: Floats, C: Floats, regularization: float = 0.0) -> Floats:
    """theta = (A' C^-1 A + regularization I)^-1 A' C^-1 b (Xie et al., eq. 6.2), C's eigenvalues >=
    regularization.

    It is total: any finite A, b, C, even pure noise, give a finite theta; if the system is still
    singular, the shortest solution is taken. `regularization` is public and in the units of A and
    C. A matrix of noise of deviation sigma has a norm of about sigma sqrt(d): 0.03 of that is a
    reasonable choice.
    """
    weight, basis = np.linalg.eigh((C + C.T) / 2)
    # If C has no positive eigenvalue, only its unit remains.
    largest = float(weight[-1]) if weight[-1] > 0 else 1.0
    root = np.sqrt(np.maximum(weight, max(regularization, SINGULAR * largest)))
    whitened = (basis.T @ A) / root[:, None]
    target = (basis.T @ b) / root
    ridge = math.sqrt(regularization) * np.eye(len(b))
    solution = np.linalg.lstsq(
        np.concatenate([whitened, ridge]),
        np.concatenate([target, np.zeros(len(b))]),
        rcond=SINGULAR,
    )
    theta: Floats = solution[0]
    return theta


def moments_of(transitions: Transitions, features: Features, discount: float) -> Moments:
    """The empirical A, b and C, means over trajectories, neither clipped nor noised: NOT
    private."""
    total = np.zeros(stacked_size(features.dimension))
    largest = float(np.max(np.abs(transitions.reward), initial=0.0)) or 1.0
    _pooled(table_of(transitions, features, discount), features.dimension, largest, total)
    return unstacked(total / max(transitions.trajectories, 1), features.dimension, largest)


@numba.njit(cache=True, nogil=True)
def _pooled(data: Table, dimension: int, reward_bound: float, total: Floats) -> None:
    one, room = np.zeros(total.size), np.empty((3, dimension))
    for i in range(data.start.size - 1):
        one[:] = 0.0
        _add_statistics(data, i, reward_bound, np.inf, room, one)
        total += one / max(data.start[i + 1] - data.start[i], 1)


def lstd(transitions: Transitions, features: Features, discount: float) -> Floats:
    """On-policy LSTD(0) (Bradtke & Barto 1996): theta with A theta = b, ignoring ratios. NOT
    private."""
    on_policy = Transitions(
        transitions.trajectory_start,
        transitions.state,
        transitions.next_state,
        transitions.reward,
        np.empty(0),
        transitions.terminal,
    )
    return wis_lstd(on_policy, features, discount)


def wis_lstd(transitions: Transitions, features: Features, discount: float) -> Floats:
    """WIS-LSTD(0) (Mahmood, van Hasselt & Sutton 2014): the ratio weights the whole transition. NOT
    private.

    In the tabular case the row of a state is then divided by the sum of its ratios, not by its
    number of visits. Trajectories have equal weight, as in the rest of this package.
    """
    A, b, _ = moments_of(transitions, features, discount)
    return np.asarray(np.linalg.lstsq(A, b, rcond=SINGULAR)[0], dtype=np.float64)


# Noised solution ----------------------------------------------------------------------------------
# How far noise on stacked statistics moves the weights that are computed from them, to first order.
#
# error_of_solution(A, b, C, theta, ridge, deviation, reward_bound) -> (root, ratio)


def error_of_solution(
    A: Floats,
    b: Floats,
    C: Floats,
    theta: Floats,
    ridge: float,
    deviation: float,
    reward_bound: float,
) -> tuple[Floats, float]:
    """`root` float64[d, k], where root root' is the covariance of theta, and a figure that says
    whether it can be trusted.

    Each entry of A, of b/reward_bound and of C's upper triangle has noise of this deviation. With M
    = A'C^-1 A + ridge, G = M^-1 A'C^-1 and q = C^-1 (b - A theta),

        d theta = G (db - dA theta - dC q) + M^-1 dA' q.

    `ratio`: deviation sqrt(d) over the least singular value of A. If it is not small, A may be
    mostly noise, and the first order is meaningless.
    """
    weight, basis = np.linalg.eigh((C + C.T) / 2)
    largest = float(weight[-1]) if weight[-1] > 0 else 1.0
    inverse = (basis / np.maximum(weight, max(ridge, SINGULAR * largest))) @ basis.T
    square = np.linalg.pinv(A.T @ inverse @ A + ridge * np.eye(len(b)), hermitian=True)
    gain, left = square @ A.T @ inverse, inverse @ (b - A @ theta)
    moved, turned = gain @ left, square @ theta
    both = float(theta @ theta) + reward_bound**2 + float(left @ left)
    # Noise of C: an entry off the diagonal counts twice, one on it once.
    spread = both * gain @ gain.T + np.outer(moved, moved) - (gain * left**2) @ gain.T
    spread += (
        float(left @ left) * square @ square - np.outer(moved, turned) - np.outer(turned, moved)
    )
    size, axes = np.linalg.eigh((spread + spread.T) / 2)
    root = deviation * axes * np.sqrt(np.maximum(size, 0.0))
    least = float(np.linalg.svd(A, compute_uv=False)[-1])
    return root, deviation * math.sqrt(len(b)) / max(least, 1e-300)


# Visit counts -------------------------------------------------------------------------------------
# Histograms of transitions: integer counts and reward sums by state, and the moments that follow
# from them.

UNIT = 1 << 24
"""Counts of one whole trajectory in a histogram; rounding loses less than 6e-8 of a trajectory in a
cell."""


class Histograms(NamedTuple):
    """`visits[K]` of each public cell and `rewards[states]`, int64 sums over trajectories, in
    counts."""

    visits: Ints
    rewards: Ints


class Moments(NamedTuple):
    """`A[d, d]`, `b[d]` and `C[d, d]`, up to one common factor."""

    A: Floats
    b: Floats
    C: Floats


def cells_of(states: int) -> Ints:
    """All `states` (states + 1) cells, (K, 2): from a state to a state, or to `states`, which is
    the end of the episode."""
    origin, target = np.divmod(np.arange(states * (states + 1)), states + 1)
    return np.stack([origin, target], axis=1)


def histograms(
    transitions: Transitions,
    cells: Ints,
    states: int,
    *,
    reward_bound: float = 1.0,
    max_ratio: float = 1.0,
    horizon: int | None = None,
    unit: int = UNIT,
) -> Histograms:
    """Transitions per cell and rewards per state, each trajectory normalized to `unit` counts,
    summed.

    `cells[K, 2]` are public and distinct: state and next state, `states` standing for the end of
    the episode. Transitions of other cells are ignored. A transition counts min(ratio,
    max_ratio)/max_ratio, and its reward, clipped, in parts of `reward_bound`, times that. Both are
    divided by the trajectory's own length; with a public `horizon` by that instead, and later
    transitions are dropped: then noise is larger by horizon/length, but trajectories of random
    length are no longer biased towards the short ones.

    Sensitivity: each trajectory adds nonnegative integers to `visits` that sum to at most `unit`,
    and integers to `rewards` whose absolute values do. So for each block l1 = l2 = unit under
    add/remove; under replacement l1 = 2 unit, l2 = sqrt(2) unit for visits and 2 unit for rewards,
    which may point in opposite directions. Proof: with integer weights q_t <= unit a cell gets
    floor(sum q_t / tau), and the sum over cells of that is at most sum_t q_t / tau.
    """
    index = np.full((states, states + 1), -1, dtype=np.int64)
    index[cells[:, 0], cells[:, 1]] = np.arange(len(cells))
    visits, rewards = np.zeros(len(cells), np.int64), np.zeros(states, np.int64)
    _histograms(
        transitions.trajectory_start,
        indices(transitions.state),
        indices(transitions.next_state),
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        index,
        float(reward_bound),
        float(max_ratio),
        0 if horizon is None else int(horizon),
        int(unit),
        visits,
        rewards,
    )
    return Histograms(visits, rewards)


@numba.njit(cache=True, nogil=True)
def _histograms(
    start: Ints,
    state: NDArray[np.int32],
    next_state: NDArray[np.int32],
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    index: Ints,
    reward_bound: float,
    max_ratio: float,
    horizon: int,
    unit: int,
    visits: Ints,
    rewards: Ints,
) -> None:
    states = index.shape[0]
    weight, gain = np.zeros(visits.size, np.int64), np.zeros(states, np.int64)
    touched, met = np.empty(visits.size, np.int64), np.empty(states, np.int64)
    for trajectory in range(start.size - 1):
        begin, end = start[trajectory], start[trajectory + 1]
        length = end - begin
        if horizon > 0:
            length = horizon
            end = min(end, begin + horizon)
        cells_touched, states_met = 0, 0
        for t in range(begin, end):
            origin = state[t]
            if origin < 0 or origin >= states:
                continue
            target = states if terminal[t] else next_state[t]
            if target < 0 or target > states or (target == states and not terminal[t]):
                continue
            cell = index[origin, target]
            if cell < 0:
                continue
            part = 1.0
            if ratio.size:
                part = min(max(ratio[t] / max_ratio, 0.0), 1.0) if ratio[t] == ratio[t] else 0.0
            counts = np.int64(part * unit)
            if counts > 0:
                if weight[cell] == 0:
                    touched[cells_touched] = cell
                    cells_touched += 1
                weight[cell] += counts
            share = reward[t] / reward_bound if reward[t] == reward[t] else 0.0
            worth = np.int64(part * min(max(share, -1.0), 1.0) * unit)
            if worth != 0:
                # A sum may return to 0 and be listed twice: it is added and cleared the first time.
                if gain[origin] == 0 and states_met < states:
                    met[states_met] = origin
                    states_met += 1
                gain[origin] += worth
        for position in range(cells_touched):
            cell = touched[position]
            visits[cell] += weight[cell] // length
            weight[cell] = 0
        if states_met == states:
            for origin in range(states):
                rewards[origin] += _toward_zero(gain[origin], length)
                gain[origin] = 0
        else:
            for position in range(states_met):
                origin = met[position]
                rewards[origin] += _toward_zero(gain[origin], length)
                gain[origin] = 0


@numba.njit(cache=True, nogil=True)
def _toward_zero(value: int, divisor: int) -> int:
    return value // divisor if value >= 0 else -(-value // divisor)


def tabular_moments(
    visits: NDArray[np.int64] | Floats,
    cells: Ints,
    states: int,
    discount: float,
    *,
    rewards: NDArray[np.int64] | Floats | None = None,
    cell_rewards: Floats | None = None,
    reward_bound: float = 1.0,
    threshold: float = 0.0,
    reward_threshold: float | None = None,
    pseudo_count: float = 0.0,
) -> Moments:
    """A, b and C of noised histograms: those of a Markov reward process fitted to them, so theta is
    bounded.

    Cells below `threshold` and below 0 count as 0. The threshold is ln(20 K) Laplace scales if most
    of K public cells are empty, and 0 if each is in use; then a `pseudo_count` for every cell, a
    tenth of a scale, keeps rare states from looking like traps. With N the counts left, A_s =
    sum_s' N[s,s'] (e_s - discount e_s'), C = diag(sum_s' N[s,s']) and b = sum_s' N[s,s'] r[s,s']
    for public `cell_rewards[K]`, else `rewards[states]` times the reward bound, cut to
    ±reward_bound C_ss and 0 where their absolute value is not above `reward_threshold` (by default
    `threshold`). States without counts get the value 0. A is diagonally dominant, so it is regular,
    and |theta| <= reward_bound/(1 - discount).
    """
    if (rewards is None) == (cell_rewards is None):
        raise InvalidArgument("either rewards or cell_rewards")
    counts = np.nan_to_num(np.asarray(visits, dtype=np.float64))
    counts = np.where(counts > max(threshold, 0.0), counts, 0.0) + pseudo_count
    origin, target = cells[:, 0], cells[:, 1]
    state_counts = np.asarray(np.bincount(origin, counts, minlength=states), dtype=np.float64)
    onward = np.zeros((states, states + 1))
    np.add.at(onward, (origin, target), counts)
    if cell_rewards is not None:
        worth = counts * np.clip(cell_rewards, -reward_bound, reward_bound)
        b = np.asarray(np.bincount(origin, worth, minlength=states), dtype=np.float64)
    else:
        noised = np.nan_to_num(np.asarray(rewards, dtype=np.float64))
        noised = np.where(
            np.abs(noised) > (threshold if reward_threshold is None else reward_threshold),
            noised,
            0.0,
        )
        b = reward_bound * np.clip(noised, -state_counts, state_counts)
    C = np.diag(np.where(state_counts > 0, state_counts, 1.0))
    return Moments(C - discount * onward[:, :states], b, C)

"""Least-squares temporal differences from statistics that are sums over trajectories, so that noise can be added once.

    cells_of(states) -> cells                                        every cell, where the topology is not public
    histograms(transitions, cells, states, reward_bound=, max_ratio=, horizon=, unit=) -> Histograms(visits, rewards)
    tabular_moments(visits, cells, states, discount, rewards= | cell_rewards=, …) -> Moments
    stacked(transitions, features, discount, clip=, reward_bound=, max_ratio=) -> float64 vector
    unstacked(vector, dimension, reward_bound) -> Moments(A, b, C)
    solve_moments(A, b, C, regularization) -> theta
    lstd(transitions, features, discount), wis_lstd(...) -> theta    NOT private

`histograms` and `stacked` are exact: whoever adds or removes a trajectory moves the result by the norm stated there,
without a rounding error on top. What follows is a function of them alone and never divides by a datum without a floor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.evaluation.feature_access import Rows, add, at
from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions, feature_rows, indices
from discreet.solvers.evaluation.value_features import Features

UNIT = 1 << 24
"""Counts of one whole trajectory in a histogram: rounding loses less than 6e-8 of a trajectory in a cell."""

GRID_BITS = 26
"""Stacked statistics are multiples of 2^-26 of the clip or so: sums of 2^26 trajectories are exact in float64."""

SINGULAR = 1e-13
"""Eigenvalues below this part of the largest one are rounding."""


class Histograms(NamedTuple):
    """`visits[K]` of each public cell and `rewards[states]`, int64 sums over trajectories, in counts."""

    visits: Ints
    rewards: Ints


class Moments(NamedTuple):
    """`A[d, d]`, `b[d]` and `C[d, d]`, up to one common factor."""

    A: Floats
    b: Floats
    C: Floats


# Histograms ---------------------------------------------------------------------------------------------------------


def cells_of(states: int) -> Ints:
    """All `states` (states + 1) cells, (K, 2): from a state to a state, or to `states`, the end of the episode."""
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
    """Transitions per cell and rewards per state, each trajectory normalized to `unit` counts, summed.

    `cells[K, 2]` are public and distinct: state and next state, `states` standing for the end of the episode. A
    transition of another cell counts nowhere. A transition counts min(ratio, max_ratio)/max_ratio, and its reward,
    clipped, in parts of `reward_bound`, times that. Both are divided by the trajectory's own length; with a public
    `horizon` by that instead, and later transitions are dropped: noise is larger by horizon/length then, but
    trajectories of random length are no longer tilted towards the short ones.

    Sensitivity: each trajectory adds nonnegative integers to `visits` that sum to at most `unit`, and integers to
    `rewards` whose moduli do. So for each block l1 = l2 = unit under add/remove; under replacement l1 = 2 unit, l2 =
    sqrt(2) unit for visits and 2 unit for rewards, which may point in opposite directions. Proof: with integer weights
    q_t <= unit a cell gets floor(sum q_t / tau), and the sum over cells of that is at most sum_t q_t / tau.
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
                # A sum may come back to 0 and be listed twice: it is added and cleared the first time.
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
    """A, b and C of noised histograms: those of a Markov reward process that fits them, so theta is bounded.

    Cells below `threshold` and below 0 count 0: ln(20 K) Laplace scales where most of K public cells are empty, 0
    where each is in use; there a `pseudo_count` for every cell, a tenth of a scale, keeps rare states from looking like
    traps. With N the counts left, A_s = sum_s' N[s,s'] (e_s - discount e_s'), C = diag(sum_s' N[s,s']) and b = sum_s'
    N[s,s'] r[s,s'] for public `cell_rewards[K]`, else `rewards[states]` times the reward bound, cut to ±reward_bound
    C_ss and 0 where their modulus is not above `reward_threshold` (`threshold` when not given). States without counts
    get the value 0. A is diagonally dominant, so it is regular, and |theta| <= reward_bound/(1 - discount).
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
        noised = np.where(np.abs(noised) > (threshold if reward_threshold is None else reward_threshold), noised, 0.0)
        b = reward_bound * np.clip(noised, -state_counts, state_counts)
    C = np.diag(np.where(state_counts > 0, state_counts, 1.0))
    return Moments(C - discount * onward[:, :states], b, C)


# Stacked statistics -------------------------------------------------------------------------------------------------


def stacked_size(dimension: int) -> int:
    """Length of a stacked vector: A row by row, b, the upper triangle of C row by row."""
    return dimension * dimension + dimension + dimension * (dimension + 1) // 2


def stacked_bound(norm_bound: float, discount: float, max_ratio: float) -> float:
    """No trajectory's stacked vector is longer, features being within `norm_bound`: a clip that never clips.

    |rho phi (phi - discount phi')'|_F <= rho B²(1 + discount); |rho phi R / reward_bound| <= rho B; |phi phi'|_F <= B².
    """
    square = norm_bound * norm_bound
    return math.hypot(max_ratio * square * (1 + discount), max_ratio * norm_bound, square)


def stacked(
    transitions: Transitions,
    features: Features,
    discount: float,
    *,
    clip: float,
    reward_bound: float = 1.0,
    max_ratio: float = 1.0,
) -> Floats:
    """Sum over trajectories of (A_i, b_i / reward_bound, C_i), each shortened to `clip` in l2, (stacked_size,).

    Ratios are cut to [0, max_ratio], rewards to ±reward_bound. Sensitivity (l2): clip under add/remove, 2 clip under
    replacement. Each trajectory's vector is rounded toward zero to a power-of-two grid below 2^-26 clip, so that the
    float sums are exact for up to 2^26 trajectories. A trajectory that is not finite counts 0.
    """
    rows, next_rows = feature_rows(transitions, features)
    total = np.zeros(stacked_size(features.dimension))
    grid = math.ldexp(1.0, math.frexp(clip)[1] - 1 - GRID_BITS)
    _stacked(
        transitions.trajectory_start,
        rows,
        next_rows,
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        features.dimension,
        float(discount),
        # A hair below the clip: rounding in the norm does not cross it.
        float(clip) * (1 - 1e-9),
        float(reward_bound),
        float(max_ratio),
        grid,
        total,
    )
    return total


@numba.njit(cache=True, nogil=True)
def _stacked(
    start: Ints,
    rows: Rows,
    next_rows: Rows,
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    dimension: int,
    discount: float,
    clip: float,
    reward_bound: float,
    max_ratio: float,
    grid: float,
    total: Floats,
) -> None:
    one = np.zeros(total.size)
    here, ahead, room = np.empty(dimension), np.empty(dimension), np.empty(dimension)
    square = dimension * dimension
    for trajectory in range(start.size - 1):
        begin, end = start[trajectory], start[trajectory + 1]
        one[:] = 0.0
        for t in range(begin, end):
            here[:] = 0.0
            add(at(rows, t, room), 1.0, here)
            ahead[:] = here
            if not terminal[t]:
                add(at(next_rows, t, room), -discount, ahead)
            weight = min(max(ratio[t], 0.0), max_ratio) if ratio.size else 1.0
            gain = weight * min(max(reward[t] / reward_bound, -1.0), 1.0)
            triangle = square + dimension
            for i in range(dimension):
                if here[i] != 0.0:
                    first = weight * here[i]
                    for j in range(dimension):
                        one[i * dimension + j] += first * ahead[j]
                    one[square + i] += gain * here[i]
                    for j in range(i, dimension):
                        one[triangle + j - i] += here[i] * here[j]
                triangle += dimension - i
        norm = 0.0
        for value in one:
            norm += value * value
        length = end - begin
        norm = math.sqrt(norm) / max(length, 1)
        if not norm < np.inf:
            continue
        factor = min(1.0, clip / norm if norm > 0.0 else 1.0) / max(length, 1) / grid
        for position in range(one.size):
            total[position] += np.trunc(one[position] * factor) * grid


def unstacked(vector: Floats, dimension: int, reward_bound: float = 1.0) -> Moments:
    """A, b and symmetric C of a stacked vector."""
    square = dimension * dimension
    A = vector[:square].reshape(dimension, dimension)
    b = reward_bound * vector[square : square + dimension]
    C = np.zeros((dimension, dimension))
    C[np.triu_indices(dimension)] = vector[square + dimension :]
    return Moments(A.copy(), b, C + np.triu(C, 1).T)


# Solutions ----------------------------------------------------------------------------------------------------------


def solve_moments(A: Floats, b: Floats, C: Floats, regularization: float = 0.0) -> Floats:
    """theta = (A' C^-1 A + regularization I)^-1 A' C^-1 b (Xie et al., eq. 6.2), C's eigenvalues >= regularization.

    Total: any finite A, b, C, noise alone included, give a finite theta; what is still singular is solved by the
    shortest. `regularization` is public and in the units of A and C. A matrix of noise of deviation sigma has a norm
    of some sigma sqrt(d): 0.03 of that is a fair choice.
    """
    weight, basis = np.linalg.eigh((C + C.T) / 2)
    # Of a C without any positive eigenvalue nothing is left but its unit.
    largest = float(weight[-1]) if weight[-1] > 0 else 1.0
    root = np.sqrt(np.maximum(weight, max(regularization, SINGULAR * largest)))
    whitened = (basis.T @ A) / root[:, None]
    target = (basis.T @ b) / root
    ridge = math.sqrt(regularization) * np.eye(len(b))
    solution = np.linalg.lstsq(
        np.concatenate([whitened, ridge]), np.concatenate([target, np.zeros(len(b))]), rcond=SINGULAR
    )
    theta: Floats = solution[0]
    return theta


def moments_of(transitions: Transitions, features: Features, discount: float) -> Moments:
    """The empirical A, b and C, means over trajectories, neither clipped nor noised: NOT private."""
    rows, next_rows = feature_rows(transitions, features)
    total = np.zeros(stacked_size(features.dimension))
    _pooled(
        transitions.trajectory_start,
        rows,
        next_rows,
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        features.dimension,
        float(discount),
        total,
    )
    return unstacked(total / max(transitions.trajectories, 1), features.dimension)


@numba.njit(cache=True, nogil=True)
def _pooled(
    start: Ints,
    rows: Rows,
    next_rows: Rows,
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    dimension: int,
    discount: float,
    total: Floats,
) -> None:
    here, ahead, room = np.empty(dimension), np.empty(dimension), np.empty(dimension)
    square = dimension * dimension
    for trajectory in range(start.size - 1):
        begin, end = start[trajectory], start[trajectory + 1]
        for t in range(begin, end):
            here[:] = 0.0
            add(at(rows, t, room), 1.0, here)
            ahead[:] = here
            if not terminal[t]:
                add(at(next_rows, t, room), -discount, ahead)
            weight = (ratio[t] if ratio.size else 1.0) / (end - begin)
            triangle = square + dimension
            for i in range(dimension):
                if here[i] != 0.0:
                    for j in range(dimension):
                        total[i * dimension + j] += weight * here[i] * ahead[j]
                    total[square + i] += weight * reward[t] * here[i]
                    for j in range(i, dimension):
                        total[triangle + j - i] += here[i] * here[j] / (end - begin)
                triangle += dimension - i


def lstd(transitions: Transitions, features: Features, discount: float) -> Floats:
    """On-policy LSTD(0) (Bradtke & Barto 1996): theta with A theta = b, ratios not looked at. NOT private."""
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
    """WIS-LSTD(0) (Mahmood, van Hasselt & Sutton 2014): the ratio weights the whole transition. NOT private.

    In the tabular case the row of a state is then divided by the sum of its ratios, not by its number of visits.
    Trajectories have equal weight, as in the rest of this package.
    """
    A, b, _ = moments_of(transitions, features, discount)
    return np.asarray(np.linalg.lstsq(A, b, rcond=SINGULAR)[0], dtype=np.float64)

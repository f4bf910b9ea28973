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

import numba
import numpy as np

from discreet.solvers.evaluation.feature_access import add, at
from discreet.solvers.evaluation.temporal_difference import (
    Floats,
    Ints,
    Table,
    Transitions,
    table_of,
)
from discreet.solvers.evaluation.value_features import Features
from discreet.solvers.evaluation.visit_counts import Moments

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

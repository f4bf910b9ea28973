"""Off-policy evaluation with linear value functions: trajectories in a compact layout, and the
error of a solution.

    Transitions(trajectory_start, state, next_state, reward, ratio, terminal)
    importance_ratio(target, behaviour, cap) -> ratio
    grouped(trajectory, step, state, next_state, reward, ratio, terminal) -> Transitions
    bounded(transitions, reward_bound, max_ratio) -> Transitions
    feature_rows(transitions, features) -> (rows, next_rows)
    table_of(transitions, features, discount) -> Table                what kernels take
    mspbe(theta, A, b, C) -> float
    policy_value(theta, initial_features) -> float

The algorithms are in separate modules, each a pure function of its arguments:

    least_squares_temporal_difference: histograms, tabular_moments, stacked, unstacked,
    solve_moments, lstd, wis_lstd gradient_temporal_difference: minibatch, gradient
    monte_carlo_regression: dp_lsw, dp_lsl

For a trajectory of tau transitions with features phi_t and ratios rho_t (Xie, Thomas & Miklau 2019,
eq. 2.2)

    A_i = 1/tau sum rho_t phi_t (phi_t - discount phi_{t+1})'
    b_i = 1/tau sum rho_t phi_t R_t
    C_i = 1/tau sum phi_t phi_t'

with phi_{t+1} = 0 after a terminal transition. The sums run over the tau transitions (the paper
prints tau + 1 terms). The MSPBE of weights theta is |b - A theta|² in the norm of C^-1, A, b and C
the means over trajectories. Dividing by tau gives every person the same weight. If lengths are
random it also biases transitions towards short trajectories: the minimizer of this MSPBE is then
close to the value function, not equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.evaluation.value_features import DenseRows, Features, Fourier, Rows, Tabular

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
States = NDArray[np.int32] | Floats


@dataclass(frozen=True)
class Transitions:
    """N transitions of m trajectories, one after the other in order of time.

    `trajectory_start[m+1]`: transitions trajectory_start[i] to trajectory_start[i+1] - 1 are those
    of trajectory i. `state`, `next_state`: (N,) int32 of tabular states, or (N, k) float64.
    `reward[N]`. `ratio[N]`: target over behaviour probability of the action, of this step alone; of
    size 0 when on-policy (all ones). `terminal[N]`: the episode ends with this transition, and the
    value of its next state is 0, whatever the state.
    """

    trajectory_start: Ints
    state: States
    next_state: States
    reward: Floats
    ratio: Floats
    terminal: NDArray[np.bool_]

    @property
    def trajectories(self) -> int:
        """m. Private if neighbours add or remove a trajectory."""
        return self.trajectory_start.size - 1

    @property
    def on_policy(self) -> bool:
        return self.ratio.size == 0

    @property
    def lengths(self) -> Ints:
        """tau of every trajectory."""
        return np.diff(self.trajectory_start)


def importance_ratio(target: ArrayLike, behaviour: ArrayLike, cap: float) -> Floats:
    """min(target / behaviour, cap) of each row; the public cap if behaviour is 0, and 0 if target
    is 0."""
    numerator, denominator = (
        np.asarray(target, dtype=np.float64),
        np.asarray(behaviour, dtype=np.float64),
    )
    # Comparing products keeps a tiny denominator from overflowing.
    below = numerator < cap * denominator
    return np.where(
        below, numerator / np.where(below, denominator, 1.0), np.where(numerator > 0, cap, 0.0)
    )


def grouped(
    trajectory: NDArray[np.integer],
    step: NDArray[np.integer],
    state: ArrayLike,
    next_state: ArrayLike,
    reward: ArrayLike,
    ratio: ArrayLike | None,
    terminal: ArrayLike,
) -> Transitions:
    """Rows in any order, sorted by trajectory and step; integer states become int32.

    Trajectory numbers need not be consecutive: every one that occurs is a trajectory. Rows that are
    already in order are not sorted. `ratio` None: on-policy.
    """
    number, position = np.asarray(trajectory), np.asarray(step)
    order: NDArray[np.int64] | slice = slice(None)
    later = (number[1:] > number[:-1]) | (
        (number[1:] == number[:-1]) & (position[1:] > position[:-1])
    )
    if not np.all(later):
        order = np.lexsort((position, number))
        number = number[order]
    starts = np.flatnonzero(number[1:] != number[:-1]) + 1
    bounds = np.concatenate([[0], starts, [number.size]]) if number.size else np.zeros(1)
    return Transitions(
        bounds.astype(np.int64),
        _compact(np.asarray(state)[order]),
        _compact(np.asarray(next_state)[order]),
        np.ascontiguousarray(np.asarray(reward, dtype=np.float64)[order]),
        np.empty(0)
        if ratio is None
        else np.ascontiguousarray(np.asarray(ratio, dtype=np.float64)[order]),
        np.ascontiguousarray(np.asarray(terminal, dtype=np.bool_)[order]),
    )


def _compact(values: NDArray[Any]) -> States:
    if values.ndim == 1:
        return np.ascontiguousarray(values, dtype=np.int32)
    return np.ascontiguousarray(values, dtype=np.float64)


def indices(states: States) -> NDArray[np.int32]:
    """The tabular states as a vector; TypeError if they are coordinates."""
    if states.ndim != 1 or states.dtype != np.int32:
        raise TypeError("tabular states are a vector of int32")
    return cast(NDArray[np.int32], states)


def bounded(transitions: Transitions, reward_bound: float, max_ratio: float) -> Transitions:
    """Rewards clipped to ±reward_bound and ratios to [0, max_ratio], both public; NaN becomes 0."""
    reward = np.clip(np.nan_to_num(transitions.reward, nan=0.0), -reward_bound, reward_bound)
    ratio = np.clip(np.nan_to_num(transitions.ratio, nan=0.0), 0.0, max_ratio)
    return replace(transitions, reward=reward, ratio=ratio)


def feature_rows(transitions: Transitions, features: Features) -> tuple[Rows, Rows]:
    """What the kernels read of both ends of transitions: (N,) int32 state indices if tabular, else
    the features, which are never all in memory if they are more than the coordinates.

    The next state of a terminal transition is never read. IndexError for any other state out of
    range, since kernels do not check.
    """
    if isinstance(features, Tabular):
        state, following = indices(transitions.state), indices(transitions.next_state)
        for index in (state, np.where(transitions.terminal, 0, following)):
            if index.size and not (index.min() >= 0 and index.max() < features.states):
                raise IndexError(f"states are 0 to {features.states - 1}")
        return state, following
    if isinstance(features, Fourier):
        return features.rows(transitions.state), features.rows(transitions.next_state)
    unused = np.empty(0)
    here, there = features(transitions.state), features(transitions.next_state)
    return DenseRows(here, unused, unused, -1), DenseRows(there, unused, unused, -1)


class Table(NamedTuple):
    """Transitions as the compiled kernels take them: the fields of `Transitions`, with both ends as
    features, and the discount. One type of tuple for every kernel."""

    start: Ints
    here: Rows
    ahead: Rows
    reward: Floats
    ratio: Floats
    terminal: NDArray[np.bool_]
    discount: float


def table_of(transitions: Transitions, features: Features, discount: float) -> Table:
    """The arguments of the kernels; IndexError as in `feature_rows`."""
    here, ahead = feature_rows(transitions, features)
    return Table(
        transitions.trajectory_start,
        here,
        ahead,
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        float(discount),
    )


def mspbe(theta: Floats, A: Floats, b: Floats, C: Floats) -> float:
    """Mean squared projected Bellman error |b - A theta|²_{C^-1}, of A, b and C of a population or
    of the data themselves.

    C is symmetric; directions in which it is singular count as 0, as in its pseudo-inverse. A
    function of the data: it is NOT part of a private release.
    """
    residual = b - A @ theta
    weight, basis = np.linalg.eigh((C + C.T) / 2)
    kept = weight > max(float(weight[-1]), 0.0) * 1e-13
    return float(np.sum((basis[:, kept].T @ residual) ** 2 / weight[kept]))


def policy_value(theta: Floats, initial_features: Floats) -> float:
    """Expected discounted return theta·E[phi(S_0)]; `initial_features` come from a PUBLIC initial
    distribution."""
    return float(np.dot(theta, initial_features))

"""Histograms of transitions: integer counts and reward sums by state, and the moments that follow
from them."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions, indices

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

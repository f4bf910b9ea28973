"""Simulators of patients and cars: trajectories that are EXAMPLES of data for off-policy
evaluation, not of real people.

    chain(m, rng), chain_moments(), mountain_car(m, rng), hiv_treatment(m, rng)

Each returns `Rows`, the columns of an `off_policy_evaluation` dataset. All randomness comes from
the generator given. `car_actions(rng)` and `hiv_values(rng)` are of Q-learning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.value_features import Fourier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """One row per transition, in order of trajectory and step.

    `state` and `next_state` are (N,) integers or (N, k) coordinates. `behaviour` and `target` are
    the probabilities of the action under the policy that was followed and the one to evaluate; both
    None if the policies are the same.
    """

    trajectory: NDArray[np.int32]
    step: NDArray[np.int32]
    state: NDArray[np.int32] | Floats
    action: NDArray[np.int32]
    reward: Floats
    next_state: NDArray[np.int32] | Floats
    terminal: NDArray[np.bool_]
    behaviour: Floats | None = None
    target: Floats | None = None


# The chain ----------------------------------------------------------------------------------------

CHAIN_STATES = 40
CHAIN_DISCOUNT = 0.99


def chain(m: int, rng: np.random.Generator, states: int = CHAIN_STATES) -> Rows:
    """The chain of Xie, Thomas & Miklau (2019), section 7: stages of recovery, on-policy.

    It starts in a uniformly random state, and stays or advances with probability 1/2 each; leaving
    the last state has reward 1 and ends the episode. All other rewards are 0.
    """
    first = rng.integers(0, states, m).astype(np.int32)
    left = states - first  # number of states to pass, each for a geometric number of steps
    ends = np.cumsum(left)
    stays = rng.geometric(0.5, int(ends[-1]))
    passed = np.arange(stays.size, dtype=np.int32) - np.repeat((ends - left).astype(np.int32), left)
    state = np.repeat(np.repeat(first, left) + passed, stays)
    advances = np.zeros(state.size, dtype=np.bool_)
    advances[np.cumsum(stays) - 1] = True
    lengths = np.add.reduceat(stays, ends - left)
    begins = np.cumsum(lengths) - lengths
    terminal = advances & (state == states - 1)
    return Rows(
        trajectory=np.repeat(np.arange(m, dtype=np.int32), lengths),
        step=(np.arange(state.size) - np.repeat(begins, lengths)).astype(np.int32),
        state=state,
        action=np.zeros(state.size, np.int32),
        reward=terminal.astype(np.float64),
        next_state=np.where(terminal, state, state + advances).astype(np.int32),
        terminal=terminal,
    )


def chain_topology(states: int = CHAIN_STATES) -> Ints:
    """The possible cells of the chain, (2 states, 2): staying, or advancing; `states` is the end of
    the episode."""
    each = np.arange(states)
    return np.stack([np.repeat(each, 2), np.stack([each, each + 1], axis=1).ravel()], axis=1)


def chain_cell_rewards(states: int = CHAIN_STATES) -> Floats:
    """Rewards of the cells of `chain_topology`: 1 for the last."""
    rewards = np.zeros(2 * states)
    rewards[-1] = 1.0
    return rewards


def chain_moments(
    discount: float = CHAIN_DISCOUNT, states: int = CHAIN_STATES
) -> tuple[Floats, Floats, Floats]:
    """The population's A, b and C of tabular features, each trajectory divided by its length tau.

    From k states before absorption tau = G_1 + … + G_k, independent geometric variables (p = 1/2)
    that are exchangeable: a state that is passed takes the mean share 1/k of the time. It is left
    once: E[1/tau] = int_0^1 E[z^(tau-1)] dz = int_0^1 z^(k-1) / (2 - z)^k dz = u_k. With v =
    z/(2-z), dz = 2/(1+v)² dv, z = 2v/(1+v): u_k = int_0^1 v^(k-1)/(1+v) dv, so u_1 = ln 2 and
    u_{k+1} = 1/k - u_k.
    """
    # An error of u only alternates in sign along the recurrence, so it stays a rounding error.
    u = np.empty(states + 1)
    u[1] = np.log(2)
    for k in range(1, states):
        u[k + 1] = 1 / k - u[k]
    ahead = states - np.arange(states)  # number of states to pass from a start in each state
    time = np.cumsum(1 / ahead) / states
    left = np.cumsum(u[ahead]) / states
    A = np.diag(time - discount * (time - left)) - discount * np.diag(left[:-1], 1)
    b = np.zeros(states)
    b[-1] = left[-1]
    return A, b, np.diag(time)


# Mountain Car -------------------------------------------------------------------------------------

CAR_DISCOUNT = 0.99
CAR_HORIZON = 200
CAR_FORCE, CAR_GRAVITY, CAR_GOAL = 0.001, 0.0025, 0.5
CAR_LOW, CAR_HIGH = (-1.2, -0.07), (0.6, 0.07)
"""The public box of the states: positions and velocities, whose bounds the dynamics keep."""
CAR_LEARNING_ORDER = 5


def _along(state: Floats) -> Ints:
    """Push in the direction of motion, right if the car stands: one action for each row."""
    return np.where(state[:, 1] < 0, 0, 2)


def _car_moved(
    position: Floats, velocity: Floats, action: Ints | np.intp
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Position, velocity and whether the goal is reached, one step later."""
    velocity = velocity + (action - 1) * CAR_FORCE - np.cos(3 * position) * CAR_GRAVITY
    velocity = np.clip(velocity, CAR_LOW[1], CAR_HIGH[1])
    position = np.clip(position + velocity, CAR_LOW[0], CAR_HIGH[0])
    velocity = np.where((position == CAR_LOW[0]) & (velocity < 0), 0.0, velocity)
    return position, velocity, (position >= CAR_GOAL) & (velocity >= 0)


def car_actions(rng: np.random.Generator, episodes: int = 200) -> Callable[[Floats], Ints]:
    """The greedy policy of Q-learning with a Fourier basis of order 5: states (N, 2) to actions.

    All values begin at 0, which is optimistic, so that greedy actions explore; the step size of a
    wave is divided by the length of its frequency (Konidaris et al. 2011).
    """
    basis = Fourier(CAR_LEARNING_ORDER, CAR_LOW, CAR_HIGH)
    waves = np.indices((CAR_LEARNING_ORDER + 1,) * 2).reshape(2, -1).T
    step_size = 0.01 / np.maximum(np.linalg.norm(waves, axis=1), 1.0)
    weights = np.zeros((3, basis.dimension))
    for _ in range(episodes):
        position, velocity = rng.uniform(-0.6, -0.4, 1), np.zeros(1)
        (phi,) = basis(np.stack([position, velocity], axis=1))
        for _ in range(5 * CAR_HORIZON):
            values = weights @ phi
            action = values.argmax()
            position, velocity, arrived = _car_moved(position, velocity, action)
            (ahead,) = basis(np.stack([position, velocity], axis=1))
            best = 0.0 if arrived[0] else (weights @ ahead).max()
            weights[action] += step_size * (-1 + CAR_DISCOUNT * best - values[action]) * phi
            if arrived[0]:
                break
            phi = ahead
    return lambda state: np.asarray((basis(state) @ weights.T).argmax(axis=1))


def mountain_car(
    m: int,
    rng: np.random.Generator,
    *,
    horizon: int = CAR_HORIZON,
    followed: float = 0.5,
    evaluated: float = 0.9,
    actions: Callable[[Floats], Ints] = _along,
) -> Rows:
    """Mountain Car (Sutton & Barto 1998) with gymnasium's figures: position and velocity, reward -1
    per step.

    The policies take the action that `actions` has for a state, by default to push in the direction
    of motion, with probability `followed` or `evaluated`, and otherwise one of the three actions
    uniformly: below 1, every action has a positive probability. Episodes end at the goal, and are
    cut, not terminal, at `horizon`.
    """
    position, velocity = rng.uniform(-0.6, -0.4, m), np.zeros(m)
    number = np.arange(m, dtype=np.int32)
    columns: list[tuple[NDArray[Any], ...]] = []
    for step in range(horizon):
        if not number.size:
            break
        state = np.stack([position, velocity], axis=1)
        push = actions(state)
        action = np.where(rng.random(number.size) < followed, push, rng.integers(0, 3, number.size))
        position, velocity, arrived = _car_moved(position, velocity, action)
        greedy = action == push
        columns.append(
            (
                number,
                np.full(number.size, step, np.int32),
                state,
                action.astype(np.int32),
                np.full(number.size, -1.0),
                np.stack([position, velocity], axis=1),
                arrived,
                (1 - followed) / 3 + followed * greedy,
                (1 - evaluated) / 3 + evaluated * greedy,
            )
        )
        position, velocity, number = position[~arrived], velocity[~arrived], number[~arrived]
    return _in_order(columns)


def _in_order(columns: list[tuple[NDArray[Any], ...]]) -> Rows:
    """Steps of all trajectories, sorted by trajectory."""
    whole = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    order = np.lexsort((whole[1], whole[0]))
    return Rows(*(column[order] for column in whole))


# HIV treatment ------------------------------------------------------------------------------------

HIV_DISCOUNT = 0.98
HIV_DAYS = 5.0
"""Days between decisions."""

HIV_STEADY_STATE = (163572.752, 4.99542353, 11944.9431, 45.5990142, 63918.5958, 23.5439779)
"""Untreated: T1, T2 (healthy cells, per ml), T1*, T2* (infected), V (free virus), E (immune
effectors)."""

HIV_LOW, HIV_HIGH = (4.0, -1.5, -2.0, -2.0, -1.5, 0.5), (6.5, 4.0, 6.0, 3.5, 7.0, 4.0)
"""The public box of the states, decimal logarithms."""

DRUGS = np.array([[0.0, 0.0], [0.7, 0.0], [0.0, 0.3], [0.7, 0.3]])
"""Efficacies of reverse transcriptase and protease inhibitors for each of the four actions."""


HIV_LEARNING_ORDER = 1


@numba.njit(cache=True, nogil=True)
def hiv_rates(x: Floats, transcriptase: float, protease: float, rates: Floats) -> None:
    """dx/dt in 1/day at x = (T1, T2, T1*, T2*, V, E) (Adams, Banks, Kwon & Tran 2004, eq. 2.1 and
    Table 1)."""
    t1, t2, i1, i2, virus, effectors = x
    infected = i1 + i2
    new1 = (1 - transcriptase) * 8e-7 * virus * t1
    new2 = (1 - 0.34 * transcriptase) * 1e-4 * virus * t2
    rates[0] = 1e4 - 0.01 * t1 - new1
    rates[1] = 31.98 - 0.01 * t2 - new2
    rates[2] = new1 - 0.7 * i1 - 1e-5 * effectors * i1
    rates[3] = new2 - 0.7 * i2 - 1e-5 * effectors * i2
    rates[4] = (1 - protease) * 100 * 0.7 * infected - 13 * virus - new1 - new2
    born, died = 0.3 * infected / (infected + 100), 0.25 * infected / (infected + 500)
    rates[5] = 1 + (born - died - 0.1) * effectors


@numba.njit(cache=True, nogil=True)
def hiv_advance(x: Floats, transcriptase: float, protease: float, days: float) -> None:
    """Move x by `days` in place, by the classical Runge–Kutta method with steps bounded by the
    fastest decay rate."""
    k1, k2, k3, k4 = np.empty(6), np.empty(6), np.empty(6), np.empty(6)
    left = days
    while left > 0.0:
        # Virus decays at rate 13 and is taken up by cells; cells decay by infection and killing.
        rate = 13 + 8e-7 * x[0] + 1e-4 * x[1] + 1e-4 * x[4] + 1e-5 * x[5]
        h = min(left, 1.0 / rate)
        left -= h
        hiv_rates(x, transcriptase, protease, k1)
        hiv_rates(x + h / 2 * k1, transcriptase, protease, k2)
        hiv_rates(x + h / 2 * k2, transcriptase, protease, k3)
        hiv_rates(x + h * k3, transcriptase, protease, k4)
        x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def hiv_treatment(
    m: int,
    rng: np.random.Generator,
    *,
    horizon: int = 40,
    followed: float = 0.4,
    evaluated: float = 0.8,
    values: Callable[[Floats], Floats] | None = None,
    temperature: float = 1.0,
) -> Rows:
    """HIV treatment (Ernst, Stan, Goncalves & Wehenkel 2006): every five days the patient gets
    none, one or both of two drugs.

    States are the decimal logarithms of the six concentrations. Patients start near the untreated
    steady state, each concentration times a log-normal factor (deviation 10 %). With probability
    `followed` or `evaluated`, the policies give both drugs above 1000 copies of the virus per ml
    and none below; otherwise they choose one of the four actions uniformly. With `values` (states
    to (N, 4)) the policy to evaluate takes the action of the largest value, and softmax of
    values / `temperature` is followed. The reward of an interval is -0.1 V + 1000 E - 20000
    (efficacies squared), V and E at its beginning, in units of 1e5. No patient leaves: no
    transition is terminal.
    """
    x = np.array(HIV_STEADY_STATE) * np.exp(0.1 * rng.standard_normal((m, 6)))
    taken, policy = rng.random((horizon, m)), rng.integers(0, 4, (horizon, m))
    states, actions, rewards = (
        np.empty((horizon + 1, m, 6)),
        np.empty((horizon, m), np.int32),
        np.empty((horizon, m)),
    )
    behaviour, target = np.empty((horizon, m)), np.empty((horizon, m))
    states[0] = np.log10(x)
    for step in range(horizon):
        if values is None:
            preferred = np.where(x[:, 4] > 1000, 3, 0)
            actions[step] = np.where(taken[step] < followed, preferred, policy[step])
            behaviour[step] = (1 - followed) / 4 + followed * (actions[step] == preferred)
            target[step] = (1 - evaluated) / 4 + evaluated * (actions[step] == preferred)
        else:
            worth = values(states[step])
            chance = np.exp((worth - worth.max(axis=1, keepdims=True)) / temperature)
            chance /= chance.sum(axis=1, keepdims=True)
            passed = np.cumsum(chance, axis=1)[:, :3] <= taken[step][:, None]
            actions[step] = passed.sum(axis=1)
            behaviour[step] = chance[np.arange(m), actions[step]]
            target[step] = actions[step] == worth.argmax(axis=1)
        squares = np.sum(DRUGS[actions[step]] ** 2, axis=1)
        rewards[step] = (-0.1 * x[:, 4] + 1000 * x[:, 5] - 20000 * squares) / 1e5
        _advance_all(x, DRUGS[actions[step]])
        states[step + 1] = np.log10(x)
    by_patient = np.arange(m * horizon)

    def column(values: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(np.swapaxes(values, 0, 1)).reshape(
            m * horizon, *values.shape[2:]
        )

    return Rows(
        trajectory=(by_patient // horizon).astype(np.int32),
        step=(by_patient % horizon).astype(np.int32),
        state=column(states[:-1]),
        action=column(actions),
        reward=column(rewards),
        next_state=column(states[1:]),
        terminal=np.zeros(m * horizon, np.bool_),
        behaviour=column(behaviour),
        target=column(target),
    )


def hiv_values(
    rng: np.random.Generator, patients: int = 300, sweeps: int = 40, bound: float = 3.0
) -> Callable[[Floats], Floats]:
    """Q-learning by sweeps over all transitions of uniformly random treatments (fitted Q iteration,
    as Ernst et al. do), with a Fourier basis of order 1: states (N, 6) to values (N, 4).

    Rewards are clipped to ±`bound`. Single steps of Q-learning, tried too, learned a policy that is
    worse than random treatment.
    """
    rows = hiv_treatment(patients, rng, followed=0.0)
    basis = Fourier(HIV_LEARNING_ORDER, HIV_LOW, HIV_HIGH)
    phi, ahead = basis(rows.state), basis(rows.next_state)
    reward = np.clip(rows.reward, -bound, bound)
    weights, ridge = np.zeros((4, basis.dimension)), np.eye(basis.dimension)
    taken = [rows.action == action for action in range(4)]
    solves = [np.linalg.solve(phi[t].T @ phi[t] + ridge, phi[t].T) for t in taken]
    for _ in range(sweeps):
        worth = reward + HIV_DISCOUNT * (ahead @ weights.T).max(axis=1)
        weights = np.stack([solve @ worth[t] for solve, t in zip(solves, taken, strict=True)])
    return lambda state: np.asarray(basis(state) @ weights.T)


@numba.njit(cache=True, nogil=True)
def _advance_all(x: Floats, drugs: Floats) -> None:
    for patient in range(len(x)):
        hiv_advance(x[patient], drugs[patient, 0], drugs[patient, 1], HIV_DAYS)

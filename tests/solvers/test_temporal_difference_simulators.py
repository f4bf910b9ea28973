"""The simulators of the studies: dynamics against gymnasium, SciPy and a steady state;
probabilities by counting."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from discreet.reproduce import simulators

VECTORS = json.loads((Path(__file__).parents[1] / "privacy" / "vectors.json").read_text())


def test_the_chain_keeps_its_rules() -> None:
    rows = simulators.chain(20_000, np.random.default_rng(1))
    moved = rows.next_state - rows.state
    assert set(np.unique(moved)) == {0, 1}
    np.testing.assert_array_equal(rows.reward, rows.terminal)
    assert np.all(rows.state[rows.terminal] == 39)
    assert rows.terminal.sum() == 20_000
    last = np.append(rows.trajectory[1:] != rows.trajectory[:-1], True)
    np.testing.assert_array_equal(last, rows.terminal)
    same = ~last[:-1]
    np.testing.assert_array_equal(rows.state[1:][same], rows.next_state[:-1][same])
    np.testing.assert_array_equal(rows.step[1:][same], rows.step[:-1][same] + 1)
    assert np.all(rows.step[np.append(True, last[:-1])] == 0)
    # 8e5 transitions: six deviations of a share of 1/2 are .0034; of the mean length 41 (deviation
    # 25), 1.1.
    assert np.mean((moved == 1) | rows.terminal) == pytest.approx(0.5, abs=0.0034)
    assert rows.state.size / 20_000 == pytest.approx(41, abs=1.1)


def check_ratios(
    rows: object, greedy: NDArray[np.bool_], actions: int, followed: float, evaluated: float
) -> None:
    """Probabilities follow the mixture, and the actions the probabilities."""
    behaviour, target = rows.behaviour, rows.target  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        behaviour, np.where(greedy, followed, 0) + (1 - followed) / actions, rtol=1e-12
    )
    np.testing.assert_allclose(
        target, np.where(greedy, evaluated, 0) + (1 - evaluated) / actions, rtol=1e-12
    )
    expected = followed + (1 - followed) / actions
    deviation = (expected * (1 - expected) / greedy.size) ** 0.5
    assert np.mean(greedy) == pytest.approx(expected, abs=6 * deviation)


def test_mountain_car_moves_as_gymnasium_moves_it() -> None:
    rows = simulators.mountain_car(60, np.random.default_rng(2))
    car = MountainCarEnv()
    for trajectory in range(5):
        mine = np.flatnonzero(rows.trajectory == trajectory)
        car.state = tuple(rows.state[mine[0]])
        for t in mine:
            np.testing.assert_allclose(rows.state[t], car.state, rtol=1e-12, atol=1e-15)
            _, reward, arrived, _, _ = car.step(int(rows.action[t]))
            assert (reward, arrived) == (rows.reward[t], rows.terminal[t])
            np.testing.assert_allclose(rows.next_state[t], car.state, rtol=1e-12, atol=1e-15)
        assert rows.terminal[mine[-1]] or mine.size == simulators.CAR_HORIZON
    assert np.all((rows.state >= simulators.CAR_LOW) & (rows.state <= simulators.CAR_HIGH))
    assert rows.terminal.any()
    push = np.where(rows.state[:, 1] < 0, 0, 2)
    check_ratios(rows, rows.action == push, 3, 0.5, 0.9)


def test_untreated_patients_rest_at_the_steady_state() -> None:
    steady = np.array(VECTORS["hiv_steady_state"])
    np.testing.assert_array_equal(simulators.HIV_STEADY_STATE, steady)
    rates = np.empty(6)
    simulators.hiv_rates(steady, 0.0, 0.0, rates)
    np.testing.assert_allclose(rates / steady, 0, atol=1e-8)
    later = steady.copy()
    simulators.hiv_advance(later, 0.0, 0.0, 100.0)
    np.testing.assert_allclose(later, steady, rtol=1e-6)


def test_treatment_is_integrated_as_scipy_does() -> None:
    x = np.array(simulators.HIV_STEADY_STATE)

    def rates(_: float, state: NDArray[np.float64], one: float, two: float) -> NDArray[np.float64]:
        out = np.empty(6)
        simulators.hiv_rates(state, one, two, out)
        return out

    reference = x.copy()
    for action in (3, 3, 3, 3, 0, 0, 1, 2, 0, 0):
        drugs = simulators.DRUGS[action]
        simulators.hiv_advance(x, *drugs, 5.0)
        reference = solve_ivp(
            rates, (0, 5), reference, method="LSODA", args=tuple(drugs), rtol=1e-11, atol=1e-9
        ).y[:, -1]
        np.testing.assert_allclose(x, reference, rtol=1e-4)


def test_patients_keep_their_box_and_their_policies() -> None:
    rows = simulators.hiv_treatment(200, np.random.default_rng(3))
    assert rows.state.shape == (200 * 40, 6)
    for states in (rows.state, rows.next_state):
        assert np.all((states > simulators.HIV_LOW) & (states < simulators.HIV_HIGH))
    same = rows.step[1:] > 0
    np.testing.assert_array_equal(rows.state[1:][same], rows.next_state[:-1][same])
    virus, effectors = 10 ** rows.state[:, 4], 10 ** rows.state[:, 5]
    drugs = simulators.DRUGS[rows.action]
    np.testing.assert_allclose(
        1e5 * rows.reward,
        -0.1 * virus + 1000 * effectors - 20000 * np.sum(drugs**2, axis=1),
        rtol=1e-9,
        atol=1e-6,
    )
    preferred = np.where(virus > 1000, 3, 0)
    check_ratios(rows, rows.action == preferred, 4, 0.4, 0.8)

"""Draws of values: each is the process of its histograms; rewards are drawn from the posterior that
is said."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation.least_squares_temporal_difference import (
    cells_of,
    error_of_solution,
    tabular_moments,
)
from discreet.solvers.evaluation.value_draws import (
    SHARES,
    WIDTHS,
    batches,
    draw_rewards,
    draw_values,
    mean_rewards,
)


@pytest.mark.parametrize("public", [False, True])
def test_each_draw_is_the_process_of_its_histograms(public: bool) -> None:
    rng = np.random.default_rng(1)
    states, draws = 40, 5
    cells = cells_of(states)[rng.random(states * (states + 1)) < 0.3]
    counts = rng.gamma(0.5, size=(draws, len(cells)))
    counts[:, cells[:, 0] == 3] = 0  # a state that nobody visits
    rewards = rng.uniform(-1, 1, len(cells) if public else (draws, states))
    if not public:
        rewards *= np.stack([np.bincount(cells[:, 0], each, minlength=states) for each in counts])
    told: list[int] = []
    found = draw_values(
        counts, cells, states, 0.9, rewards=rewards, reward_bound=2.0, progress=told.append
    )
    for draw in range(draws):
        known = {"cell_rewards": rewards} if public else {"rewards": rewards[draw]}
        moments = tabular_moments(counts[draw], cells, states, 0.9, reward_bound=1.0, **known)
        expected = np.linalg.solve(moments.A, moments.b) * (1 if public else 2)
        assert found[draw] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert found[draw, 3] == 0
    assert told == list(range(1, 1 + batches(draws, states)))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("noisy", "bound"), [(0.3, 2.0), (-1.9, 2.0), (9.0, 2.0), (-30.0, 40.0), (0.2, 60.0)]
)
def test_rewards_are_drawn_from_their_posterior(
    kind: Literal["laplace", "gaussian"], noisy: float, bound: float
) -> None:
    """Of one state, by quadrature: 0 or one of three uniform widths, the share of 0 unknown, noise
    of scale 1.5. 20,000 seeded draws; six standard errors are passed with a probability below
    1e-8."""
    draws, scale = 20_000, 1.5
    drawn = draw_rewards(
        np.array([noisy]), np.full((draws, 1), bound), scale, kind, np.random.default_rng(7)
    )[:, 0]
    x = (np.arange(400_000) + 0.5) / 400_000 * 2 * bound - bound
    density = sum(
        (np.abs(x) <= width * bound) / (2 * width * bound * len(WIDTHS)) for width in WIDTHS
    )

    def likelihood(value: object) -> np.ndarray:
        away = np.abs(np.asarray(value) - noisy) / scale
        return np.exp(-away if kind == "laplace" else -(away**2) / 2)

    mass = density * likelihood(x) * (x[1] - x[0])
    zero = float(SHARES.mean() * likelihood(0.0))
    other = (1 - SHARES.mean()) * mass
    whole = zero + other.sum()
    mean, square = float((other * x).sum() / whole), float((other * x**2).sum() / whole)
    assert (
        abs((drawn == 0).mean() - zero / whole)
        <= 6 * np.sqrt(zero / whole * (1 - zero / whole) / draws) + 1e-9
    )
    assert abs(drawn.mean() - mean) <= 6 * np.sqrt((square - mean**2) / draws)
    fourth = float((other * x**4).sum() / whole)
    assert abs((drawn**2).mean() - square) <= 6 * np.sqrt((fourth - square**2) / draws)
    assert np.abs(drawn).max() <= bound
    found = mean_rewards(np.array([noisy]), np.array([bound]), scale, kind)
    assert found == pytest.approx([mean], rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_rewards_of_many_states_without_any_are_mostly_drawn_as_none(
    kind: Literal["laplace", "gaussian"],
) -> None:
    rng = np.random.default_rng(2)
    noisy = rng.laplace(0, 1, 60)
    some = noisy + np.where(np.arange(60) < 55, 20.0, 0.0)
    bounds = np.full((200, 60), 50.0)
    none = (draw_rewards(noisy, bounds, 1.0, kind, rng)[:, 55:] == 0).mean()
    few = (draw_rewards(some, bounds, 1.0, kind, rng)[:, 55:] == 0).mean()
    assert none > 0.9
    assert few < 0.7


def test_extreme_rewards_stay_finite() -> None:
    noisy = np.array([0.0, 90.0, -90.0, 3.0])
    for kind in ("laplace", "gaussian"):
        drawn = draw_rewards(
            noisy, np.array([[0.0, 5.0, 5.0, 1e-300]] * 10), 1e-3, kind, np.random.default_rng(1)
        )  # type: ignore[arg-type]
        assert np.isfinite(drawn).all()
        assert (drawn[:, 0] == 0).all()
        assert np.allclose(drawn[:, 1], 5, atol=0.1)
        mean = mean_rewards(noisy, np.array([0.0, 5.0, 5.0, 1e-300]), 1e-3, kind)  # type: ignore[arg-type]
        assert np.allclose(mean, [0, 5, -5, 0], atol=0.1)


def test_the_error_of_a_solution_is_its_derivative() -> None:
    """Against finite differences of the whole solution in every entry of the stacked vector."""
    rng = np.random.default_rng(4)
    d, bound, ridge, deviation = 4, 3.0, 0.05, 0.01
    half = rng.normal(size=(d, d))
    C = half @ half.T + np.eye(d)
    A = C - 0.7 * rng.normal(size=(d, d)) * 0.3
    vector = np.concatenate([A.ravel(), rng.normal(size=d), C[np.triu_indices(d)]])

    def solved(entries: np.ndarray) -> np.ndarray:
        return lstd.solve_moments(*lstd.unstacked(entries, d, bound), ridge)

    jacobian = np.stack(
        [
            (solved(vector + step) - solved(vector - step)) / 2e-5
            for step in 1e-5 * np.eye(vector.size)
        ],
        axis=1,
    )
    moments = lstd.unstacked(vector, d, bound)
    root, ratio = error_of_solution(*moments, solved(vector), ridge, deviation, bound)
    assert root @ root.T == pytest.approx(deviation**2 * jacobian @ jacobian.T, rel=1e-5, abs=1e-12)
    assert ratio == pytest.approx(deviation * 2 / np.linalg.svd(A)[1][-1])
    nothing = error_of_solution(
        np.zeros((d, d)), np.zeros(d), np.zeros((d, d)), np.zeros(d), ridge, deviation, bound
    )
    assert np.isfinite(nothing[0]).all()
    assert nothing[1] > 1

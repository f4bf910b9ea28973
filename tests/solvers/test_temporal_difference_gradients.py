"""Noised gradients against Algorithm 1 written out, and their sampling and noise against the
distributions claimed."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation.gradient_temporal_difference import gradient, minibatch
from discreet.solvers.evaluation.least_squares_temporal_difference import moments_of, solve_moments
from discreet.solvers.evaluation.temporal_difference import Transitions, grouped, table_of
from discreet.solvers.evaluation.value_features import Features, Fourier, Tabular

Floats = NDArray[np.float64]
FOURIER = Fourier(1, (-1.0, -1.0), (1.0, 1.0))


def data_of(seed: int, m: int, tabular: bool, ratios: bool = True) -> Transitions:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, m)
    n = int(lengths.sum())
    state, following = (
        (rng.integers(0, 4, n).astype(np.int32), rng.integers(0, 4, n).astype(np.int32))
        if tabular
        else (rng.uniform(-1, 1, (n, 2)), rng.uniform(-1, 1, (n, 2)))
    )
    return Transitions(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        state,
        following,
        rng.normal(size=n),
        rng.uniform(0.5, 1.5, n) if ratios else np.empty(0),
        rng.random(n) < 0.3,
    )


def printed_gradient(
    data: Transitions, features: Features, i: int, discount: float, x: Floats, clip: float
) -> Floats:
    """Lines 3 to 5 of Algorithm 1: B_i by its matrices, clipped."""
    d = features.dimension
    A, b, C = np.zeros((d, d)), np.zeros(d), np.zeros((d, d))
    begin, end = data.trajectory_start[i : i + 2]
    for t in range(begin, end):
        here = features(data.state[t : t + 1])[0]
        ahead = features(data.next_state[t : t + 1])[0] * (not data.terminal[t])
        ratio = data.ratio[t] if data.ratio.size else 1.0
        A += ratio * np.outer(here, here - discount * ahead) / (end - begin)
        b += ratio * here * data.reward[t] / (end - begin)
        C += np.outer(here, here) / (end - begin)
    B = np.block([[np.zeros((d, d)), -A.T], [A, C]]) @ x - np.concatenate([np.zeros(d), b])
    return np.asarray(B / max(1.0, float(np.linalg.norm(B)) / clip), dtype=np.float64)


@pytest.mark.parametrize("features", [Tabular(4), FOURIER])
@pytest.mark.parametrize("ratios", [True, False])
@pytest.mark.parametrize("clip", [0.3, 100.0])
def test_gpope_is_algorithm_1(features: Features, ratios: bool, clip: float) -> None:
    data = data_of(1, 6, isinstance(features, Tabular), ratios)
    d, steps = features.dimension, 12
    sizes = np.linspace(0.9, 0.2, steps)
    # Independent: the same generator, read draw by draw.
    rng = np.random.default_rng(2)
    x = np.linspace(-1, 1, 2 * d)
    path = []
    for size in sizes:
        i = int(rng.integers(0, data.trajectories))
        step = printed_gradient(data, features, i, 0.9, x, clip)
        x = x - size * (step + 0.5 * np.array([rng.standard_normal() for _ in range(2 * d)]))
        path.append(x[:d])

    def ours(average_from: int | None) -> Floats:
        return gradient(
            data,
            features,
            0.9,
            steps=steps,
            step_sizes=sizes,
            clip=clip,
            noise_scale=0.5,
            generator=np.random.default_rng(2),
            initial=np.linspace(-1, 1, 2 * d),
            average_from=average_from,
        )

    np.testing.assert_allclose(ours(None), path[-1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours(5), np.mean(path[5:], axis=0), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("features", [Tabular(4), FOURIER])
def test_a_full_batch_is_the_sum_over_all(features: Features) -> None:
    data = data_of(3, 7, isinstance(features, Tabular))
    d, x = features.dimension, np.linspace(-1, 1, 2 * features.dimension)
    path = []
    for _ in range(6):
        x = x - 0.1 * sum(printed_gradient(data, features, i, 0.9, x, 0.4) for i in range(7))
        path.append(x[:d])
    found = minibatch(
        data,
        features,
        0.9,
        probability=1.0,
        steps=6,
        step_size=0.1,
        clip=0.4,
        noise_scale=0.0,
        generator=np.random.default_rng(4),
        initial=np.linspace(-1, 1, 2 * d),
    )
    np.testing.assert_allclose(found, np.mean(path[3:], axis=0), rtol=1e-10)


def one_reward_each(m: int) -> Transitions:
    """m trajectories of one step, each in its own state, with reward 1."""
    each = np.arange(m, dtype=np.int32)
    return Transitions(np.arange(m + 1), each, each, np.ones(m), np.empty(0), np.ones(m, bool))


def test_poisson_samples_are_independent_and_have_their_probability() -> None:
    """From (0, 0) one step without noise puts step·1 on w of exactly the states drawn, and a second
    shows them."""
    m, q, runs = 8, 0.3, 6000
    rng = np.random.default_rng(5)
    taken = np.zeros((runs, m), bool)
    for run in range(runs):
        theta = minibatch(
            one_reward_each(m),
            Tabular(m),
            0.0,
            probability=q,
            steps=1,
            step_size=1.0,
            clip=10.0,
            noise_scale=0.0,
            generator=rng,
            # w = -1 everywhere moves theta of whoever is drawn.
            initial=np.concatenate([np.zeros(m), -np.ones(m)]),
        )
        taken[run] = theta != 0
    # Each of 10 tests fails by chance with probability 1e-6.
    for unit in range(m):
        assert stats.binomtest(int(taken[:, unit].sum()), runs, q).pvalue > 1e-6
    sizes = np.bincount(taken.sum(axis=1), minlength=m + 1)
    expected = stats.binom.pmf(np.arange(m + 1), m, q) * runs
    merged = np.append(sizes[:6], sizes[6:].sum()), np.append(expected[:6], expected[6:].sum())
    assert stats.chisquare(*merged).pvalue > 1e-6
    pairs = taken[:, :-1] & taken[:, 1:]
    assert stats.binomtest(int(pairs[:, ::2].sum()), runs * 4, q * q).pvalue > 1e-6


def test_one_draw_is_uniform() -> None:
    m, runs = 5, 4000
    rng = np.random.default_rng(6)
    drawn = np.zeros(m)
    for _ in range(runs):
        theta = gradient(
            one_reward_each(m),
            Tabular(m),
            0.0,
            steps=1,
            step_sizes=1.0,
            clip=10.0,
            noise_scale=0.0,
            generator=rng,
            initial=np.concatenate([np.zeros(m), -np.ones(m)]),
        )
        drawn += theta != 0
    assert drawn.sum() == runs
    assert stats.chisquare(drawn).pvalue > 1e-6


def test_every_coordinate_gets_its_own_normal_noise_every_step() -> None:
    none = Transitions(
        np.zeros(2, np.int64), *(np.empty(0, np.int32),) * 2, *(np.empty(0),) * 2, np.empty(0, bool)
    )  # one trajectory without transitions
    steps, d = 4, 3000
    theta = gradient(
        none,
        Tabular(d),
        0.9,
        steps=steps,
        step_sizes=0.5,
        clip=1.0,
        noise_scale=3.0,
        generator=np.random.default_rng(7),
    )
    assert stats.kstest(theta / (0.5 * 3.0 * np.sqrt(steps)), "norm").pvalue > 1e-6
    theta = minibatch(
        none,
        Tabular(d),
        0.9,
        probability=0.5,
        steps=steps,
        step_size=0.5,
        clip=1.0,
        noise_scale=3.0,
        generator=np.random.default_rng(8),
        average_from=0.75,
    )
    assert stats.kstest(theta / (0.5 * 3.0 * np.sqrt(steps)), "norm").pvalue > 1e-6


@pytest.mark.parametrize("method", ["gradient", "minibatch"])
def test_no_step_is_longer_than_the_clip(method: str) -> None:
    """Huge and broken rewards included: the iterate moves by step·clip at most, or not at all."""
    data = data_of(9, 5, tabular=True)
    for reward in (1e200, np.inf, np.nan):
        data.reward[:] = reward
        start = np.ones(8)
        moved = deque(
            gradient(
                data,
                Tabular(4),
                0.9,
                steps=1,
                step_sizes=1.0,
                clip=0.1,
                noise_scale=0.0,
                generator=np.random.default_rng(seed),
                initial=start,
            )
            if method == "gradient"
            else minibatch(
                data,
                Tabular(4),
                0.9,
                probability=1.0,
                steps=1,
                step_size=0.2,
                clip=0.1,
                noise_scale=0.0,
                generator=np.random.default_rng(seed),
                initial=start,
            )
            for seed in range(5)
        )
        assert max(float(np.linalg.norm(theta - 1)) for theta in moved) <= 0.1 + 1e-12


def test_no_gradient_of_any_size_is_longer_than_the_clip() -> None:
    """Both halves of it together, for iterates that make it anything from tiny to huge; most are
    longer unclipped."""
    data, generator = data_of(9, 5, tabular=True), np.random.default_rng(3)
    table = table_of(data, Tabular(4), 0.9)
    clipped = 0
    for size in (1e-3, 1.0, 1e3, 1e6):
        for i in range(data.trajectories):
            iterate, scale = generator.normal(0, size, 8), np.exp(generator.normal(0, 3, 8))
            total, room = np.zeros(8), np.empty((4, 4))
            gtd._add_clipped(table, i, 0.1, scale, iterate, room, total)
            length = float(np.linalg.norm(total))
            assert length <= 0.1 * (1 + 1e-12)
            clipped += length > 0.1 * (1 - 1e-9)
    assert clipped > data.trajectories


@pytest.mark.parametrize("method", ["gradient", "minibatch"])
def test_dual_weights_get_noise_of_their_own(method: str) -> None:
    """One trajectory of one state: theta after two steps is the noise of two steps, and that of w
    in the first."""
    one = grouped(*(np.zeros(1, dtype=np.int64),) * 4, np.zeros(1), None, np.ones(1, dtype=bool))
    shared: dict[str, Any] = {
        "steps": 2,
        "clip": 1e9,
        "noise_scale": 1.0,
        "generator": np.random.default_rng(4),
    }
    found = [
        gradient(one, Tabular(1), 0.9, step_sizes=1.0, **shared)
        if method == "gradient"
        else minibatch(one, Tabular(1), 0.9, probability=1.0, step_size=1.0, **shared)
        for _ in range(4000)
    ]
    # 3, and 2 without; one deviation is .07.
    assert float(np.var(found)) == pytest.approx(3, abs=0.4)


def test_both_find_the_saddle_point() -> None:
    data = data_of(10, 50, tabular=True)
    features = Tabular(4)
    wanted = solve_moments(*moments_of(data, features, 0.9))
    batch = minibatch(
        data,
        features,
        0.9,
        probability=1.0,
        steps=20_000,
        step_size=1.0 / 50,
        generator=np.random.default_rng(11),
        clip=100.0,
        noise_scale=0.0,
    )
    np.testing.assert_allclose(batch, wanted, atol=1e-6)
    single = gradient(
        data,
        features,
        0.9,
        steps=200_000,
        step_sizes=0.1,
        generator=np.random.default_rng(12),
        average_from=20_000,
        clip=100.0,
        noise_scale=0.0,
    )
    np.testing.assert_allclose(single, wanted, atol=0.1)


def test_nobody_is_no_gradient() -> None:
    none = Transitions(
        np.zeros(1, np.int64), *(np.empty(0, np.int32),) * 2, *(np.empty(0),) * 2, np.empty(0, bool)
    )
    rng = np.random.default_rng(13)
    found = gradient(
        none, Tabular(2), 0.9, steps=3, step_sizes=1.0, clip=1.0, noise_scale=0.0, generator=rng
    )
    np.testing.assert_array_equal(found, [0, 0])
    found = minibatch(
        none,
        Tabular(2),
        0.9,
        probability=0.5,
        steps=3,
        step_size=1.0,
        clip=1.0,
        noise_scale=0.0,
        generator=rng,
    )
    np.testing.assert_array_equal(found, [0, 0])


@pytest.mark.parametrize("probability", [1e-25, 1e-300, 5e-324])
def test_gaps_beyond_64_bits_end_a_sample(probability: float) -> None:
    """Rounded to an integer, such a gap is negative, and the next trajectory was read from before
    the data."""
    data = one_reward_each(50)
    rng = np.random.Generator(np.random.PCG64(1))
    theta = minibatch(
        data,
        Tabular(50),
        0.9,
        probability=probability,
        steps=200,
        step_size=1.0,
        clip=1.0,
        noise_scale=0.0,
        generator=rng,
    )
    assert np.array_equal(theta, np.zeros(50))

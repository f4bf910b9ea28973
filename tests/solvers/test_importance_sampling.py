"""Weighted importance sampling: no trajectory moves its sums by more than is said; they say both
values of policies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.solvers.evaluation.importance_sampling import (
    ENTRIES,
    SQUARE_UNIT,
    UNIT,
    WeightedSums,
    per_decision_sums,
    sensitivity,
)
from discreet.solvers.evaluation.temporal_difference import Transitions

ODD = st.sampled_from([0.0, 5e-324, 1e300, math.inf, math.nan, -1.0])
RATIO = st.one_of(st.floats(0, 4), ODD)
REWARD = st.one_of(st.floats(-1, 1), st.sampled_from([1e300, -1e300, math.nan, math.inf]))
TRAJECTORY = st.lists(st.tuples(RATIO, REWARD), min_size=1, max_size=5)


def transitions(trajectories: list[list[tuple[float, float]]]) -> Transitions:
    rows = [row for one in trajectories for row in one]
    size = len(rows)
    start = np.cumsum([0, *map(len, trajectories)])
    ratio, reward = (np.array([row[place] for row in rows], dtype=np.float64) for place in (0, 1))
    nowhere = np.zeros(size, dtype=np.int32)
    return Transitions(start, nowhere, nowhere, reward, np.abs(ratio), np.zeros(size, dtype=bool))


def by_steps(
    trajectories: list[list[tuple[float, float]]], cap: float = 3.0, **values: Any
) -> np.ndarray:
    fixed: dict[str, Any] = {"discount": 0.9, "bounds": (-0.5, 1), "horizon": 5}
    clips = np.array([cap, 2 * cap])
    found = per_decision_sums(transitions(trajectories), clips=clips, **{**fixed, **values})
    assert (found[:, -1] >= 0).all()
    assert (found[:, -1] <= UNIT * len(trajectories)).all()
    assert found[1, -1] <= found[0, -1]
    return found[0, :-1]


def as_one_step(rows: list[list[tuple[float, float]]], cap: float) -> np.ndarray:
    """Of whole trajectories: a step with the product of all ratios and the return."""
    single = [
        [(math.prod(ratio for ratio, _ in one), sum(0.9**t * r for t, (_, r) in enumerate(one)))]
        for one in rows
    ]
    return by_steps(single, cap, horizon=1, bounds=(-1.5, 3.5))


@given(one=TRAJECTORY, another=TRAJECTORY, cap=st.sampled_from([0.3, 1.0, 3.0, 1e4]))
@settings(max_examples=300)
def test_one_trajectory_moves_the_sums_by_at_most_what_is_said(
    one: Any, another: Any, cap: float
) -> None:
    """Exactly, in integers, for any ratios and rewards whatever, such as registration would
    refuse."""
    mine, its = (by_steps([each], cap) for each in (one, another))
    for found in (mine, its):
        assert (found >= 0).all()
        assert found[:6].sum() <= UNIT
        assert found[:6].sum() >= UNIT - 7  # of floors
        assert found[6] <= SQUARE_UNIT
    assert (by_steps([one, another], cap) == mine + its).all()
    apart = mine - its
    assert sensitivity(replaced=True)[0] == 2 * UNIT + SQUARE_UNIT >= np.abs(apart).sum()
    assert (apart.astype(object) ** 2).sum() <= 2 * UNIT**2 + SQUARE_UNIT**2
    assert (mine.astype(object) ** 2).sum() <= UNIT**2 + SQUARE_UNIT**2
    assert sensitivity(replaced=False)[1] == pytest.approx(math.hypot(UNIT, SQUARE_UNIT))


def test_weights_of_steps_without_noise_say_what_numpy_says() -> None:
    """Of trajectories that end before the horizon, beyond which rewards are 0 and weights stay."""
    rows, cap, horizon = [one[: 1 + place % 4] for place, one in enumerate(people(300))], 1.8, 5
    weight, gain = np.empty((300, horizon)), np.full((300, horizon), 0.5 / 1.5)
    for place, one in enumerate(rows):
        weight[place] = np.cumprod([ratio for ratio, _ in one] + [1.0] * (horizon - len(one)))
        gain[place, : len(one)] = [(reward + 0.5) / 1.5 for _, reward in one]
    share = 0.9 ** np.arange(horizon)
    share /= share.sum()
    u = np.minimum(weight, cap) / cap
    found = WeightedSums(by_steps(rows, cap) / UNIT, 1e-18, cap, 1.645)
    assert found.weight == pytest.approx((u @ share).sum(), abs=1e-4)
    assert found.policy().value == pytest.approx((u * gain @ share).sum() / (u @ share).sum())
    assert found.behaviour().value == pytest.approx((gain @ share).mean(), abs=1e-5)
    assert found.squares == pytest.approx(((u @ share) ** 2).sum(), rel=1e-5)
    assert found.clipped_mass().value == pytest.approx(
        max(0.0, 1 - (np.minimum(weight, cap) @ share).mean()), abs=1e-5
    )


def people(number: int, seed: int = 3) -> list[list[tuple[float, float]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        chosen = rng.random(4) < 0.5
        rewards = (rng.random(4) < 0.3 + 0.4 * chosen).astype(float)
        found.append(
            [(1.5 if up else 0.5, reward) for up, reward in zip(chosen, rewards, strict=True)]
        )
    return found


def moments(cap: float, **values: Any) -> tuple[WeightedSums, np.ndarray, np.ndarray]:
    """The sums of 400 people without noise, their clipped weights and returns in parts of the
    range."""
    rows = people(400)
    weight = np.array([min(math.prod(ratio for ratio, _ in one), cap) for one in rows])
    gain = np.array([sum(0.9**t * reward for t, (_, reward) in enumerate(one)) for one in rows])
    found = WeightedSums(
        as_one_step(rows, cap) / UNIT, variance=1e-18, largest_weight=cap, quantile=1.645, **values
    )
    return found, weight, (gain + 1.5) / 5


@pytest.mark.parametrize("cap", [2.0, 6.0])
@pytest.mark.parametrize("known", [None, 400])
def test_sums_without_noise_say_what_numpy_says(cap: float, known: int | None) -> None:
    found, weight, gain = moments(cap, trajectories=known)
    value, mean = weight @ gain / weight.sum(), gain.mean()
    assert found.policy().value == pytest.approx(value, abs=1e-5)
    assert found.behaviour().value == pytest.approx(mean, abs=1e-5)
    assert found.difference().value == pytest.approx(value - mean, abs=1e-5)
    assert found.effective_size().value == pytest.approx(
        weight.sum() ** 2 / (weight**2).sum(), rel=1e-5
    )
    assert found.clipped_mass().value == pytest.approx(max(0.0, 1 - weight.mean()), abs=1e-5)
    # The textbook's deviations: of a ratio of means to first order, of a mean, and of the
    # difference of the two. That of the ratio rests on squares that are not released: the least
    # that they cannot exceed stands for them, with one more person who fares worst.
    of_value, of_mean = weight * (gain - value) / weight.sum(), (gain - mean) / gain.size
    far = max(value, 1 - value) ** 2
    spread = min(cap * (weight @ (gain - value) ** 2), far * (weight**2).sum())
    most = math.sqrt(spread + far * cap**2) / weight.sum()
    least, both = (math.sqrt((one**2).sum()) for one in (of_value, of_value - of_mean))
    for told, low, high in (
        (found.policy(), most, most),
        (found.behaviour(), *[math.sqrt((of_mean**2).sum())] * 2),
        (found.difference(), both, math.hypot(most, math.sqrt((of_mean**2).sum()))),
    ):
        assert 0.97 * low < (told.ends.upper - told.ends.lower) / 2 / 1.645 < 1.03 * high
    assert most > least
    assert found.effective_size().ends.upper == pytest.approx(
        found.effective_size().value, rel=1e-5
    )


def test_robust_ends_hold_whatever_was_cut_off() -> None:
    """Without noise the ends are W P / n and 1 - W M / n, and sampling: 1.645 deviations beyond
    them. Those of the difference are less the mean return, person by person."""
    found, weight, gain = moments(1.5, trajectories=400)
    low, high = (weight * gain).mean(), 1 - (weight * (1 - gain)).mean()
    for ends, less in ((found.true_value(), 0.0), (found.true_difference(), 1.0)):
        first, last = low - less * gain.mean(), high - less * gain.mean()
        assert ends.lower < first < last < ends.upper
        assert first - ends.lower < 3 * (weight * gain - less * gain).std() / 20
        assert ends.upper - last < 3 * (weight * (1 - gain) - less * (1 - gain)).std() / 20
    assert high - low == pytest.approx(1 - weight.mean(), abs=1e-6)
    # Two bounds on either end, each of which is the nearer one somewhere.
    nearer = moments(1.5, trajectories=400, most=1.6)[0]
    assert nearer.true_value().lower > found.true_value().lower
    assert nearer.true_value().upper < found.true_value().upper
    far = moments(1.5, trajectories=400, most=1e6)[0]
    assert far.true_value() == found.true_value()


def world(mass: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, their shares and the chance to be well: all who weigh 27 are well, none who weighs
    1; `mass` of the mean weight is of the former."""
    often = np.array([mass - mass / 27, 1 - mass, mass / 27])
    return np.array([0.0, 1.0, 27.0]), often, np.array([0.5, 0.0, 1.0])


@pytest.mark.parametrize(("mass", "cap"), [(0.1, 27.0), (0.5, 27.0), (0.5, 2.0), (0.5, 20.0)])
def test_intervals_hold_where_people_of_large_weight_fare_otherwise(
    mass: float, cap: float
) -> None:
    """2,000 people at epsilon 10, so that next to all is chance. With the squares of all weights
    alone the first held 53 of 100, and the third 82; fewer than 340 of 400 have probability 1e-3
    where 90 % hold, and seeds are fixed."""
    weight, often, well = world(mass)
    assert often.sum() == pytest.approx(1)
    assert often @ weight == pytest.approx(1)
    rng, truth, mean, held = np.random.default_rng(5), mass, float(often @ well), np.zeros(2)
    for _ in range(400):
        kind = rng.choice(3, 2000, p=often)
        u, g = np.minimum(weight[kind], cap) / cap, rng.random(2000) < well[kind]
        exact = [u @ g, 0, u @ ~g, (1 - u) @ g, 0, (1 - u) @ ~g, u @ u / 10]
        noised = np.array(exact) + rng.laplace(0, 0.21, ENTRIES)
        found = WeightedSums(
            noised, 2 * 0.21**2, cap, 1.645, trajectories=2000, unclipped=cap == 27, most=27
        )
        for at, (ends, exactly) in enumerate(
            ((found.true_value(), truth), (found.true_difference(), truth - mean))
        ):
            held[at] += ends.lower <= exactly <= ends.upper
    assert (held >= 340).all(), held


@pytest.mark.parametrize("well", [0.1, 0.9, 0.97])
def test_intervals_of_few_people_of_large_weight_hold(well: float) -> None:
    """Of 500 people some 31 weigh 16 and the others nothing. Without one more person intervals held
    .85, .85 and .70; fewer than 340 of 400 have probability 1e-3 where 90 % hold."""
    rng, held = np.random.default_rng(6), 0
    for _ in range(400):
        u = (rng.random(500) < 1 / 16).astype(float)
        g = rng.random(500) < np.where(u > 0, well, 0.5)
        exact = np.array([u @ g, 0, u @ ~g, (1 - u) @ g, 0, (1 - u) @ ~g, u @ u / 10])
        noised = exact + rng.laplace(0, 0.21, ENTRIES)
        found = WeightedSums(noised, 2 * 0.21**2, 16, 1.645, trajectories=500, unclipped=True)
        ends = found.true_value()
        held += ends.lower <= well <= ends.upper
    assert held >= 340


def test_intervals_of_rare_returns_and_of_rare_large_weights_hold() -> None:
    """Three people of 600 are expected to be well, and three to weigh 200, which is clipped at 100.
    Without one more they held .84 and .72; fewer than 340 of 400 have probability 1e-3 where 90 %
    hold, and seeds are fixed."""
    rng, held = np.random.default_rng(7), np.zeros(2)
    for _ in range(400):
        u = (rng.random(600) < 1 / 200).astype(float)
        g = rng.random(600) < 1 / 200
        exact = np.array([u @ g, 0, u @ ~g, (1 - u) @ g, 0, (1 - u) @ ~g, u @ u / 10])
        noised = exact + rng.laplace(0, 0.21, ENTRIES)
        found = WeightedSums(noised, 2 * 0.21**2, 100, 1.645, trajectories=600)
        for at, (told, truth) in enumerate(
            ((found.behaviour(), 1 / 200), (found.clipped_mass(), 0.5))
        ):
            held[at] += told.ends.lower <= truth <= told.ends.upper
    assert (held >= 340).all(), held


def test_sums_that_are_noise_say_nothing() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        noise = WeightedSums(
            rng.laplace(0, 1e3, ENTRIES), variance=2e6, largest_weight=5.0, quantile=1.645
        )
        for told in (noise.policy(), noise.behaviour(), noise.difference(), noise.clipped_mass()):
            assert -1 <= told.ends.lower <= told.ends.upper <= 1
            assert math.isfinite(told.value)
        size = noise.effective_size()
        assert 0 <= size.ends.lower <= size.ends.upper <= noise.count
        assert noise.true_value().lower <= noise.true_value().upper
    # Noise of 3,000 on a public number of 300: whatever the sums, no interval is a point.
    for _ in range(200):
        drowned = WeightedSums(
            rng.laplace(0, 2e3, ENTRIES), 9e6, largest_weight=2.0, quantile=1.645, trajectories=300
        )
        for told, least in (
            (drowned.policy(), 0.2),
            (drowned.behaviour(), 0.9),
            (drowned.clipped_mass(), 0.9),
        ):
            assert told.ends.upper - told.ends.lower > least
            assert told.ends.lower <= told.value <= told.ends.upper
        assert drowned.true_value().upper - drowned.true_value().lower > 0.2
    nothing = WeightedSums(np.zeros(ENTRIES), variance=1.0, largest_weight=5.0, quantile=1.645)
    assert (nothing.policy().ends, nothing.noise_half_width()) == ((0, 1), math.inf)


def test_a_public_number_takes_noise_away() -> None:
    """Entries of which the first six are moved alike to sum to it: the values' noise falls as the
    projection says."""
    rng, exact = np.random.default_rng(2), moments(3.0)[0].noised
    drawn = exact + rng.laplace(0, 5, (4000, ENTRIES))
    told: dict[int | None, Any] = {}
    for known in (None, 400):
        each = [WeightedSums(one, 50.0, 3.0, 1.645, known) for one in drawn]
        told[known] = np.array([(one.policy().value, one.behaviour().value) for one in each])
        foretold = each[0].noise_half_width() / 1.645, each[0].behaviour_noise_half_width() / 1.645
        assert told[known].std(axis=0) == pytest.approx(foretold, rel=0.2)
    assert (told[400].std(axis=0) < told[None].std(axis=0)).all()

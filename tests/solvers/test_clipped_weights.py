"""Sums for every clip that a release may choose: no trajectory moves them by more than is said, and
intervals hold what the target policy is worth whatever was cut off."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.solvers.evaluation.clipped_weights import (
    EXCESS,
    EXCESS_UNIT,
    MASSES,
    SQUARE_UNIT,
    SQUARES,
    UNIT,
    ClippedSums,
    candidate_sums,
    centred_quantile,
    entries,
    sensitivity,
)
from discreet.solvers.evaluation.importance_sampling import about

CLIPS = np.array([0.5, 1.0, 2.0, 11.3, 1e4])
QUANTILE = 1.6448536269514722
ODD = st.sampled_from([0.0, 5e-324, 1.0, math.nan, -1.0, math.inf])
CHANCE = st.one_of(st.floats(0, 1), ODD)
REWARD = st.one_of(st.floats(-1, 1), st.sampled_from([1e300, -1e300, math.nan, math.inf]))
TRAJECTORY = st.lists(st.tuples(CHANCE, CHANCE, REWARD), min_size=1, max_size=4)
Rows = list[tuple[float, float, float]]


def summed(trajectories: list[Rows], *, clips: Any = CLIPS, **values: Any) -> np.ndarray:
    rows = [row for one in trajectories for row in one]
    behaviour, target, reward = np.array(rows, dtype=np.float64).reshape(-1, 3).T.copy()
    fixed = {"excess": False, "mean": False, "discount": 1.0, "bounds": (-1.5, 3.5), "weighed": 9}
    start = np.cumsum([0, *map(len, trajectories)])
    content = {"start": start, "reward": reward, "behaviour": behaviour, "target": target}
    return candidate_sums(content, clips, **{**fixed, **values})  # type: ignore[arg-type]


@given(one=TRAJECTORY, another=TRAJECTORY, excess=st.booleans(), mean=st.booleans())
@settings(max_examples=300)
def test_one_trajectory_moves_the_sums_by_at_most_what_is_said(
    one: Rows, another: Rows, excess: bool, mean: bool
) -> None:
    """Exactly, in integers, for any probabilities and rewards whatever, for every clip."""
    asked = {"excess": excess, "mean": mean, "weighed": 1 if excess else 3}
    mine, its = (summed([each], **asked) for each in (one, another))
    for found in (mine, its):
        assert found.shape == (CLIPS.size, entries(excess) + 1)
        assert (found >= 0).all()
        assert (found[:, :MASSES].sum(axis=1) <= UNIT).all()
        assert (found[:, :MASSES].sum(axis=1) >= UNIT - 7).all()  # of floors
        assert (found[:, MASSES : MASSES + 3].sum(axis=1) <= SQUARE_UNIT).all()
        assert (found[:, -1] <= UNIT).all(), "no score falls by more than one trajectory's"
        if excess:
            assert (found[:, MASSES + 3] <= EXCESS_UNIT).all()
    assert (summed([one, another], **asked) == mine + its).all()
    added, replaced = (sensitivity(excess=excess, replaced=each) for each in (False, True))
    apart = (mine - its)[:, :-1]
    for found, (l1, l2) in ((mine[:, :-1], added), (apart, replaced)):
        assert (np.abs(found).sum(axis=1) <= l1).all()
        squares = (found.astype(object) ** 2).sum(axis=1)
        assert all(square <= Fraction(l2) ** 2 for square in squares.tolist())


def test_sensitivities_are_reached() -> None:
    """By one whose weight is beyond every clip, with the best return; instead of it one whose
    treatment the rule never takes, or one of no excess and the worst return."""
    full, none = (1e-9, 1.0, 3.5), (1e-9, 1e-9, -1.5)
    for excess, whole in ((False, 1.1), (True, 1.1 + EXCESS)):
        found = summed([[full]], excess=excess, weighed=1, clips=np.array([2.0]))[0]
        assert found[:-1].sum() == pytest.approx(whole * UNIT, rel=1e-6)
        l1, l2 = sensitivity(excess=excess, replaced=False)
        assert found[:-1].sum() == pytest.approx(l1, rel=1e-6)
        assert math.sqrt((found[:-1].astype(float) ** 2).sum()) == pytest.approx(l2, rel=1e-6)
        assert found[-1] == pytest.approx(UNIT, rel=1e-6)
    light = summed([[(0.5, 1.0, -1.5)]], excess=True, weighed=1, clips=np.array([2.0]))[0]
    apart = np.abs(summed([[full]], excess=True, weighed=1, clips=np.array([2.0]))[0] - light)
    assert apart[:-1].sum() == pytest.approx(sensitivity(excess=True, replaced=True)[0], rel=1e-6)
    assert summed([[none]], excess=True, weighed=1)[:, :3].sum() > 0


@given(b=st.floats(0.001, 1), t=st.floats(0, 1), clip=st.sampled_from([1.0, 1.4, 3.0, 20.0]))
def test_the_expected_excess_is_what_is_cut_off(b: float, t: float, clip: float) -> None:
    """Whichever of two actions is taken the row tells the same, and it is 1 - W E[u], the mean over
    both."""
    kept = sum(
        chance * min(wanted / chance, clip) if chance > 0 else 0.0
        for chance, wanted in ((b, t), (1 - b, 1 - t))
    )
    for row in ((b, t, 0.0), (1 - b, 1 - t, 0.0)) if b < 1 else ((b, t, 0.0),):
        found = summed([[row]], excess=True, weighed=1, clips=np.array([clip]))[0]
        assert found[-1] / UNIT == pytest.approx(1 - kept, abs=1e-6)
        assert found[MASSES + 3] / UNIT == pytest.approx(EXCESS * (1 - kept), abs=1e-6)


def people(number: int, seed: int = 3) -> list[Rows]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        x = rng.uniform(0.2, 0.8, 3)
        taken = rng.random(3) < x
        reward = (rng.random(3) < 0.3 + 0.4 * taken).astype(float)
        chances = np.where(taken, x, 1 - x), np.where(taken, 0.9, 0.1), reward
        found.append(list(zip(*(one.tolist() for one in chances), strict=True)))
    return found


def test_sums_without_noise_say_what_numpy_says() -> None:
    """Values, what was cut off, and the textbook's deviations with one more person of the largest
    weight; discounted, as means, and with ratios of the first visits alone."""
    rows = people(400)
    b, t, r = np.array(rows).transpose(2, 0, 1)
    for clip, weighed, mean in ((2.0, 3, False), (6.0, 2, False), (2.0, 1, True)):
        weight = np.minimum((t / b)[:, :weighed].prod(axis=1), clip)
        discount = 1.0 if mean else 0.9
        gain = r.mean(axis=1) if mean else r @ 0.9 ** np.arange(3)
        g = (gain + 1.5) / 5
        exact = summed(rows, clips=np.array([clip]), weighed=weighed, mean=mean, discount=discount)[
            0
        ]
        above = (t / b)[:, :weighed].prod(axis=1) > clip
        assert exact[-1] == UNIT * above.sum()
        found = ClippedSums(exact[:-1] / UNIT, False, 1e-18, clip, QUANTILE, 0.9)
        value, average = weight @ g / weight.sum(), g.mean()
        assert found.policy().value == pytest.approx(value, abs=1e-5)
        assert found.behaviour().value == pytest.approx(average, abs=1e-5)
        assert found.clipped_mass().value == pytest.approx(max(0, 1 - weight.mean()), abs=1e-5)
        assert found.effective_size().value == pytest.approx(
            weight.sum() ** 2 / (weight**2).sum(), rel=1e-4
        )
        of_value, of_mean = weight * (g - value) / weight.sum(), (g - average) / 400
        one_more = clip * max(value, 1 - value) / weight.sum()
        one_behind = max(average, 1 - average) / 400
        for told, errors, more in (
            (found.policy(), of_value, 0.0),
            (found.difference(), of_value - of_mean, one_behind),
        ):
            deviation = math.hypot(math.sqrt((errors**2).sum()), one_more, more)
            half = (told.ends.upper - told.ends.lower) / 2 / QUANTILE
            assert half == pytest.approx(deviation, rel=0.04)


def test_returns_counted_from_the_other_end_mirror_the_intervals() -> None:
    rows = people(300)
    turned = [[(b, t, 1 - r) for b, t, r in one] for one in rows]
    asked = {"clips": np.array([1.5]), "weighed": 1, "excess": True, "bounds": (0.0, 3.0)}
    noise = np.random.default_rng(1).laplace(0, 2, 10)
    mirrored = np.concatenate([noise[:9].reshape(3, 3)[:, ::-1].ravel(), noise[9:]])
    one, other = (
        ClippedSums(summed(each, **asked)[0, :-1] / UNIT + moved, True, 8.0, 1.5, QUANTILE, 0.9)
        for each, moved in ((rows, noise), (turned, mirrored))
    )
    for mine, its, whole in (
        (one.true_value(), other.true_value(), 1),
        (one.true_difference(), other.true_difference(), 0),
        (one.difference().ends, other.difference().ends, 0),
    ):
        assert mine.lower == pytest.approx(whole - its.upper, abs=1e-4)
        assert mine.upper == pytest.approx(whole - its.lower, abs=1e-4)


WORLDS = {
    "cut off fare best": (np.array([0.05, 0.5]), np.array([0.95, 0.4])),
    "cut off fare worst": (np.array([0.05, 0.5]), np.array([0.05, 0.6])),
    "cut off fare alike": (np.array([0.1, 0.5]), np.array([0.5, 0.5])),
}
"""Of two sorts of people the probability of the treatment that the rule takes, and the chance to be
well with it; without it .5."""


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("excess", "clip"), [(True, 4.0), (False, 4.0), (True, 12.0)])
def test_intervals_hold_whatever_was_cut_off(name: str, excess: bool, clip: float) -> None:
    """1,500 people and noise of an epsilon near 1; 4 cuts off most of the first sort's weights.
    Fewer than 164 of 200 have probability 1e-3 where 90 % hold, and seeds are fixed."""
    chance, well = WORLDS[name]
    rng, held = np.random.default_rng(8), np.zeros(2)
    truth, followed = float(well.mean()), float((chance * well + (1 - chance) * 0.5).mean())
    for _ in range(200):
        sort = rng.integers(2, size=1500)
        b = chance[sort]
        treated = rng.random(1500) < b
        u = np.minimum(treated / b, clip) / clip
        g = (rng.random(1500) < np.where(treated, well[sort], 0.5)).astype(float)
        e = np.maximum(0, 1 - clip * b)
        exact = [u @ g, 0, u @ (1 - g), (1 - u) @ g, 0, (1 - u) @ (1 - g)]
        exact += [SQUARES * u**2 @ g, 0, SQUARES * u**2 @ (1 - g)]
        noised = np.array([*exact, *([EXCESS * e.sum()] if excess else [])])
        noised += rng.laplace(0, 1.4, noised.size)
        found = ClippedSums(noised, excess, 2 * 1.4**2, clip, QUANTILE, 0.9)
        for at, (ends, exactly) in enumerate(
            ((found.true_value(), truth), (found.true_difference(), truth - followed))
        ):
            held[at] += ends.lower <= exactly <= ends.upper
    assert (held >= 164).all(), held


@pytest.mark.parametrize("trajectories", [None, 500])
def test_intervals_of_returns_that_are_alike_have_a_width(trajectories: int | None) -> None:
    """Noise in the sums of squares may be larger than these, and the middle one larger than the
    others allow: then some intervals were a single point, and .82 held. 500 people, nothing cut
    off, noise of an epsilon near 1: fewer than 255 of 300 have probability 4e-3 where .90 hold."""
    rng, held, least = np.random.default_rng(10), np.zeros(2), math.inf
    for _ in range(300):
        b = rng.uniform(0.41, 0.59, 500)
        u = (rng.random(500) < b) / b / 2.44
        g = np.clip(rng.normal(0.5, 0.1, 500), 0, 1)
        parts = np.stack([g**2, 2 * g * (1 - g), (1 - g) ** 2])
        sums = np.concatenate([parts @ u, parts @ (1 - u), SQUARES * parts @ u**2])
        sums += rng.laplace(0, 1.1, sums.size)
        found = ClippedSums(
            sums, False, 2 * 1.1**2, 2.44, QUANTILE, 0.9, trajectories=trajectories, unclipped=True
        )
        for at, (ends, exactly) in enumerate(
            ((found.true_value(), 0.5), (found.true_difference(), 0.0))
        ):
            held[at] += ends.lower <= exactly <= ends.upper
            least = min(least, ends.upper - ends.lower)
    assert (held >= 255).all(), held
    assert least > 0.01


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), st.floats(0, 1))
def test_no_sum_of_squares_is_negative(sums: list[float], t: float) -> None:
    assert about(*sums).at(t) >= -1e-9 * (1 + sum(sums))


def test_the_expected_excess_makes_intervals_shorter() -> None:
    """Where little is cut off the mean of weights leaves open that much is."""
    rng, wide = np.random.default_rng(9), []
    b = rng.uniform(0.41, 0.59, 2000)
    u, g = (rng.random(2000) < b) / b / 4, rng.uniform(0.4, 0.6, 2000)
    parts = np.stack([g**2, 2 * g * (1 - g), (1 - g) ** 2])
    exact = np.concatenate([parts @ u, parts @ (1 - u), SQUARES * parts @ u**2])
    for excess in (False, True):
        sums = np.concatenate([exact, [0.0] * excess])
        ends = ClippedSums(sums, excess, 4.0, 4.0, QUANTILE, 0.9).true_difference()
        wide.append(ends.upper - ends.lower)
    assert wide[1] < wide[0] / 1.5


@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0, 5.0])
def test_a_quantile_of_a_shifted_normal_holds_what_it_says(shift: float) -> None:
    half = centred_quantile(3 * shift, 3.0, 0.9)
    assert norm.cdf(half, 3 * shift, 3) - norm.cdf(-half, 3 * shift, 3) == pytest.approx(0.9)
    assert centred_quantile(shift, 0.0, 0.9) == shift


@pytest.mark.parametrize("excess", [False, True])
def test_sums_that_are_noise_say_nothing(excess: bool) -> None:
    rng, size = np.random.default_rng(1), entries(excess)
    for known in (None, 300):
        for _ in range(200):
            noise = ClippedSums(
                rng.laplace(0, 2e3, size), excess, 8e6, 5.0, QUANTILE, 0.9, trajectories=known
            )
            for told in (noise.policy(), noise.behaviour(), noise.difference()):
                assert -1 <= told.ends.lower <= told.ends.upper <= 1
                assert math.isfinite(told.value)
            value, change = noise.true_value(), noise.true_difference()
            assert 0 <= value.lower <= noise.policy().value <= value.upper <= 1
            assert change.upper - change.lower > 0.2
            mass = noise.clipped_mass()
            assert 0 <= mass.ends.lower <= mass.value <= mass.ends.upper <= 1
            size_ = noise.effective_size()
            assert 0 <= size_.ends.lower <= size_.ends.upper <= noise.count
    nothing = ClippedSums(np.zeros(size), excess, 1.0, 5.0, QUANTILE, 0.9)
    assert (nothing.policy().ends, nothing.noise_half_width()) == ((0, 1), math.inf)
    assert nothing.true_difference() == (-1, 1)

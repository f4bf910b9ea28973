"""The exponential mechanism: candidates as often as their scores say, and no two neighbours further
apart than the price, with and without scores that move one way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.privacy.units import EPSILON_UNIT

UNIT = 1 << 24


def chances(scores: np.ndarray, scale: float) -> np.ndarray:
    weights = np.exp((scores - scores.max()) / scale)
    return np.asarray(weights / weights.sum())


def test_candidates_are_drawn_as_often_as_is_said() -> None:
    """40,000 draws, five deviations; those far behind never."""
    event = calibration.exponential(float(UNIT), 10**9, neighbours="one", monotone=True)
    scores = np.array([0, -UNIT // 2, -UNIT, -3 * UNIT, 0, -(1 << 60), -(1 << 62)])
    drawn = Noise.seeded(1).add_each(event, np.tile(scores, (40_000, 1)))
    often, expected = np.bincount(drawn, minlength=7) / 40_000, chances(scores, event.scale)
    assert (np.abs(often - expected) <= 5 * np.sqrt(expected / 40_000)).all()
    assert often[5] == often[6] == 0
    with pytest.raises(TypeError, match="integer scores"):
        Noise.seeded(1).add_each(event, scores.astype(float))


@pytest.mark.parametrize("monotone", [True, False])
def test_no_neighbours_are_told_apart_beyond_the_price(monotone: bool) -> None:
    """Exact probabilities of 3,000 random pairs, and of the worst one, whose loss comes near the
    price; of scores that all move one way, both are half as far apart."""
    event = calibration.exponential(float(UNIT), 10**9, neighbours="one", monotone=monotone)
    price = event.price().epsilon / EPSILON_UNIT
    assert price == 1
    assert event.scale == UNIT * (1 if monotone else 2)
    rng, most = np.random.default_rng(2), 0.0
    for pair in range(3000):
        size = int(rng.integers(2, 17))
        scores = rng.integers(-40 * UNIT, 0, size)
        moved = rng.integers(0 if monotone else -UNIT, UNIT + 1, size)
        if pair % 3 == 0:
            moved = np.where(rng.random(size) < 0.5, UNIT, 0 if monotone else -UNIT)
        one, other = chances(scores, event.scale), chances(scores - moved, event.scale)
        with np.errstate(divide="ignore"):
            loss = np.abs(np.log(one) - np.log(other))
        most = max(most, float(loss[np.isfinite(loss)].max()))
    assert 0.9 * price < most <= price * (1 + 1e-9)
    assert event.delta(1.0) == 0 < event.delta(0.9)


def test_uniform_integers_are_uniform() -> None:
    noise = Noise.seeded(3)
    for bound in (1, 2, 17, 1 << 31):
        drawn = noise.below(bound, 20_000)
        assert drawn.size == 20_000
        assert 0 <= drawn.min() <= drawn.max() < bound
        mean = (bound - 1) / 2
        assert abs(drawn.mean() - mean) <= 5 * bound / math.sqrt(12 * 20_000)

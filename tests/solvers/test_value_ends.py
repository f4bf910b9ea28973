"""Draws of counts by their noise alone: their quantiles are exact for a ratio, sums that are known
are kept, and ends of values move as is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from discreet.solvers.evaluation.least_squares_temporal_difference import cells_of
from discreet.solvers.evaluation.value_draws import (
    HIDDEN,
    Kind,
    NoisyCounts,
    OwnRows,
    draw_values,
    gains,
    noise_of,
    range_of,
)

CELLS = cells_of(3)


def test_quantiles_of_a_ratio_are_the_ends_of_fieller() -> None:
    """One state that pays 1 at its end: its value is the part of visits that end, both noised.
    60,000 seeded draws of a quantile: six standard errors."""
    noisy, deviation, draws = np.array([70.0, 30.0]), 8.0, 60_000
    counted = NoisyCounts.of(noisy, cells_of(1), 1, deviation, "gaussian", None)
    drawn = counted.draw(draws, np.random.default_rng(3))
    (values,) = draw_values(
        drawn, cells_of(1), 1, 0.0, rewards=np.array([0.0, 1.0]), reward_bound=1.0
    ).T
    z = float(ndtri(0.95))
    # |ends (1 - t) - goes t| <= z deviation sqrt(t² + (1 - t)²) of all t between both roots
    square = deviation**2 * z**2
    ends = np.roots([100.0**2 - 2 * square, -2 * 30 * 100.0 + 2 * square, 30.0**2 - square])
    found = np.quantile(values, [0.05, 0.95])
    assert found == pytest.approx(np.sort(ends), abs=6 * 0.1 * math.sqrt(0.05 * 0.95 / draws) / 0.1)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("total", [None, 400.0])
def test_draws_are_as_far_from_the_counts_as_is_said(kind: Kind, total: float | None) -> None:
    rng = np.random.default_rng(5)
    true = rng.uniform(0, 60, len(CELLS))
    true *= 400 / true.sum()
    made = [
        NoisyCounts.of(true + noise_of(kind, 4.0, true.shape, rng), CELLS, 3, 4.0, kind, total)
        for _ in range(4000)
    ]
    errors = np.array([one.counts - true for one in made])
    moved = made[0].draw(4000, rng) - made[0].counts
    for each in (errors, moved):
        rows = made[0].rows(each)
        assert rows.std(axis=0) == pytest.approx(made[0].row_deviations(), rel=0.06)
        assert np.abs(each.mean(axis=0)).max() < 0.5
        if total is not None:
            assert np.abs(each.sum(axis=1)).max() < 1e-9
    assert (made[0].hidden() == (made[0].counts < HIDDEN * made[0].deviation)).all()


def test_one_row_alone_is_another_for_its_own_value() -> None:
    rng = np.random.default_rng(6)
    states, draws = 7, 5
    cells = cells_of(states)
    counts, own = rng.gamma(0.7, size=(2, draws, len(cells)))
    own -= 0.1  # may be negative
    chosen = np.array([1, 4])
    for rewards in (rng.uniform(-1, 1, (draws, states)), rng.uniform(-1, 1, len(cells))):
        paid = rewards if rewards.ndim == 1 else rng.uniform(-1, 1, (draws, states))
        given = {"cells": cells, "states": states, "discount": 0.9, "reward_bound": 2.0}
        plain = draw_values(counts, rewards=rewards, **given)
        found = draw_values(counts, rewards=rewards, own=OwnRows(chosen, own, paid), **given)
        others = np.setdiff1d(np.arange(states), chosen)
        none = OwnRows(chosen, 0 * own, paid)
        assert np.isfinite(draw_values(counts, rewards=rewards, own=none, **given)).all()
        assert found[:, others] == pytest.approx(plain[:, others])
        for state in chosen:
            row = cells[:, 0] == state
            both = rewards
            if rewards.ndim == 2:
                both = np.where(np.arange(states) == state, paid, rewards)
            alone = draw_values(np.where(row, own, counts), rewards=both, **given)
            assert found[:, state] == pytest.approx(alone[:, state])


def test_a_value_rises_with_what_leads_to_more_than_it() -> None:
    """Of every transition and of every state: without those that would raise values none is above,
    and without those that would lower them none is below."""
    rng = np.random.default_rng(7)
    states, discount = 6, 0.95
    cells, counts = cells_of(states), rng.gamma(0.5, size=states * (states + 1))
    paid = rng.uniform(-1, 1, len(cells))
    given = {"cells": cells, "states": states, "discount": discount, "reward_bound": 1.0}
    (values,) = draw_values(counts[None], rewards=paid, **given)
    more = gains(values, cells, discount, paid)
    without = np.where(np.eye(len(cells), dtype=bool), 0.0, counts)
    moved = draw_values(without, rewards=paid, **given) - values
    assert (np.sign(moved) * np.sign(more)[:, None] <= 0).all() or (
        np.abs(moved[np.sign(moved) * np.sign(more)[:, None] > 0]) < 1e-12
    ).all()
    low, high = range_of(float(paid.min()), float(paid.max()), discount)
    assert low <= values.min()
    assert values.max() <= high


def test_no_reward_leaves_no_range() -> None:
    assert range_of(0.0, 0.0, 1.0) == (0.0, 0.0)
    assert range_of(0.0, 1.0, 1.0) == (0.0, math.inf)
    assert range_of(0.5, 1.0, 0.9) == pytest.approx((0.0, 10.0))

"""Normal noise for simulations: its distribution, its tail, and that noises depend on key and
number alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, kstest, norm

from discreet.solvers.saddle.normal_noise import key_of, standard_normal

COUNT = 1 << 21
KEY = key_of(np.random.default_rng(2009))


def test_noise_is_normal_and_so_is_its_tail() -> None:
    """By Kolmogorov and Smirnov, and counts beyond the base layer's edge, 3.654: three tests at
    1e-6 each."""
    noise = standard_normal(KEY, 0, COUNT)
    assert kstest(noise, "norm").pvalue > 1e-6
    beyond = np.abs(noise)[np.abs(noise) > 3.6541528853610088]
    expected = 2 * norm.sf(3.6541528853610088)
    assert 1e-6 < binom.cdf(beyond.size, COUNT, expected) < 1 - 1e-6
    # What lies beyond is as far out as a normal there.
    assert kstest(norm.sf(beyond) / norm.sf(3.6541528853610088), "uniform").pvalue > 1e-6


def test_layers_join_without_a_step() -> None:
    """Counts in narrow cells of equal probability, many to a layer of the ziggurat: chi-square at
    1e-6."""
    cells = 2000
    counts, _ = np.histogram(norm.cdf(standard_normal(KEY, COUNT, COUNT)), cells, (0, 1))
    assert chisquare(counts).pvalue > 1e-6


def test_noises_do_not_hang_together() -> None:
    """Correlations of neighbours, of numbers 20 apart (an output's in two steps), of squares, and
    between keys."""
    noise = standard_normal(KEY, 0, COUNT)
    other = standard_normal(key_of(np.random.default_rng(2010)), 0, COUNT)
    pairs = [(noise[:-lag], noise[lag:]) for lag in (1, 2, 4, 8, 20)] + [(noise, other)]
    for left, right in pairs:
        for a, b in ((left, right), (left**2 - 1, right**2 - 1)):
            # 6 standard deviations of a mean of products that are independent.
            assert abs(np.mean(a * b)) < 6 * np.std(a) * np.std(b) / COUNT**0.5


@pytest.mark.parametrize("place", [0, 1, 63, 10**15])
def test_a_noise_depends_on_key_and_number_alone(place: int) -> None:
    whole = standard_normal(KEY, place, (40, 25))
    np.testing.assert_array_equal(standard_normal(KEY, place + 25, (3, 25)), whole[1:4])
    np.testing.assert_array_equal(standard_normal(KEY, place + 500, 500), whole[20:].ravel())
    assert np.isfinite(whole).all()
    assert not np.isin(standard_normal(KEY + np.uint64(1), place, 1000), whole).any()


def test_keys_come_from_the_generator() -> None:
    first, again = (key_of(np.random.default_rng(7)) for _ in range(2))
    assert first == again != KEY

"""Posteriors of noised counts: against enumeration, on data of the model, and with what is known
besides."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from discreet.solvers.estimation import count_posterior
from discreet.solvers.estimation.count_posterior import (
    GUIDES,
    CountPosterior,
    GroupedPosterior,
    Kind,
    Known,
    _searched,
)


def draw_counts(
    noisy: np.ndarray,
    scale: float,
    kind: Kind,
    *,
    draws: int,
    rng: np.random.Generator,
    lattice: float = 0.0,
    known: Known | None = None,
) -> np.ndarray:
    """float64[draws, cells]: draws from the posterior of the counts."""
    return CountPosterior.of(noisy, scale, kind, lattice=lattice).draw(draws, rng, known)


def enumerated(noisy: list[int], scale: float, kind: Kind) -> np.ndarray:
    """float64[cells, counts]: the posterior of each count, by sums over counts and a dense grid of
    hyperparameters."""
    counts = np.arange(60)
    noise = np.subtract.outer(np.array(noisy), counts)
    likelihood = np.exp(
        -np.abs(noise) / scale if kind == "laplace" else -0.5 * (noise / scale) ** 2
    )
    posterior, evidence = np.zeros(likelihood.shape), 0.0
    low, high = np.log([scale / 16, 2 * max(noisy)])
    edges = np.maximum(np.arange(61) - 0.5, 0)
    spikes = [likelihood * (counts == 0)]
    for mean, shape in count_posterior.FAINT[1:]:
        spikes.append(
            likelihood * np.diff(stats.gamma(shape, scale=mean * scale / shape).cdf(edges))
        )
    none = count_posterior.NONE
    before = [none, *[(1 - none) / (len(spikes) - 1)] * (len(spikes) - 1)]
    for mean in np.exp(np.linspace(low, high, 15)):
        for shape in np.exp(np.linspace(*np.log(count_posterior.SHAPES), 12)):
            slab = likelihood * np.diff(stats.gamma(shape, scale=mean / shape).cdf(edges))
            for empty in np.linspace(*count_posterior.EMPTY, 12):
                for first, faint in zip(before, spikes, strict=True):
                    mass = (1 - empty) * slab + empty * faint
                    own = mass.sum(axis=1)
                    evidence += (weight := first * own.prod())
                    posterior += weight * mass / own[:, None]
    return posterior / evidence


@pytest.mark.parametrize(("kind", "scale"), [("laplace", 1.5), ("gaussian", 2.0), ("laplace", 6.0)])
def test_draws_are_those_of_the_enumerated_posterior(kind: Kind, scale: float) -> None:
    """Of 4,000 draws of one seed; another noise, or no spike at 0, is off by three times the
    tolerance."""
    noisy = [11, -2, 3, 24]
    exact = enumerated(noisy, scale, kind)
    rng = np.random.default_rng(1)
    drawn = draw_counts(np.array(noisy, dtype=float), scale, kind, draws=4000, rng=rng, lattice=1.0)
    mean = exact @ np.arange(60)
    deviation = np.sqrt(exact @ np.arange(60) ** 2 - mean**2)
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.1 * scale)
    assert drawn.std(axis=0) == pytest.approx(deviation, abs=0.12 * scale)
    assert (drawn < 0.5).mean(axis=0) == pytest.approx(exact[:, 0], abs=0.06)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("lattice", [0.0, 1.0])
def test_intervals_cover_counts_of_the_model(kind: Kind, lattice: float) -> None:
    """20 x 100 cells, 90 % nominal; one standard deviation is .7 %, and the cells share what was
    estimated."""
    rng = np.random.default_rng(2)
    covered = []
    for _ in range(20):
        true = np.where(rng.random(100) < 0.5, 0.0, rng.gamma(0.7, 15.0, 100))
        noise = rng.laplace(size=100) if kind == "laplace" else rng.normal(size=100)
        noisy = true + 3 * noise
        if lattice:
            true, noisy = np.rint(true), np.rint(true) + np.rint(3 * noise)
        drawn = draw_counts(noisy, 3.0, kind, draws=200, rng=rng, lattice=lattice)
        low, high = np.quantile(drawn, (0.05, 0.95), axis=0)
        inside = (low <= true) & (true <= high)
        covered.append(inside[true > 0].mean())
        assert np.mean((drawn.mean(axis=0) - true) ** 2) < 0.85 * np.mean((noisy - true) ** 2)
    assert 0.85 < np.mean(covered) < 0.96


def test_faint_counts_beside_large_ones_are_not_lost() -> None:
    """Loads that nearly always stay: each of their 30 moves is lost in noise, all together are not
    (5 deviations). One spike at 0 answered 0 for each of them, with intervals of no width."""
    rng = np.random.default_rng(5)
    true = np.where(np.arange(36) % 7 == 0, 80.0, 0.3)
    held, sums = [], []
    for _ in range(20):
        posterior = CountPosterior.of(true + rng.laplace(scale=0.2, size=36), 0.2, "laplace")
        low, high = np.quantile(posterior.draw(200, rng)[:, true < 1], (0.05, 0.95), axis=0)
        held.append(np.mean((low <= 0.3) & (high >= 0.3)))
        sums.append(posterior.mean()[true < 1].sum())
    assert np.mean(held) > 0.8
    assert np.mean(sums) == pytest.approx(9.0, rel=0.2)


def test_nothing_but_noise_below_a_known_total_is_a_number() -> None:
    known = Known(np.ones((1, 2)), np.array([100.0]), np.zeros(1))
    posterior = CountPosterior.of(np.array([-40.0, -60.0]), 5.0, "laplace")
    drawn = posterior.draw(200, np.random.default_rng(1), known)
    assert np.isfinite(drawn).all()
    assert np.isfinite(posterior.mean(known)).all()


def test_little_noise_leaves_the_counts_as_they_were_released() -> None:
    noisy = np.array([0.0, 3.0, 1000.0, 7.0])
    drawn = draw_counts(noisy, 0.05, "laplace", draws=50, rng=np.random.default_rng(0), lattice=1.0)
    assert (drawn == noisy).all()
    assert draw_counts(
        noisy, 1e-6, "gaussian", draws=50, rng=np.random.default_rng(0)
    ) == pytest.approx(np.broadcast_to(noisy, (50, 4)), abs=1e-4)


def test_what_is_known_is_met_and_makes_draws_narrower() -> None:
    true = np.array([40.0, 9.0, 0.0, 51.0])
    noisy = true + np.array([6.0, -7.0, 3.0, 8.0])
    known = Known(np.ones((1, 4)), np.array([100.0]), np.zeros(1))
    free = draw_counts(noisy, 5.0, "laplace", draws=400, rng=np.random.default_rng(3))
    tied = draw_counts(noisy, 5.0, "laplace", draws=400, rng=np.random.default_rng(3), known=known)
    assert tied.sum(axis=1) == pytest.approx(100, abs=0.1)
    assert tied.min() >= 0
    assert tied.var(axis=0).sum() < 0.9 * free.var(axis=0).sum()
    vague = Known(known.weights, known.target, np.array([1e6]))
    loose = draw_counts(noisy, 5.0, "laplace", draws=400, rng=np.random.default_rng(3), known=vague)
    assert loose.sum(axis=1).std() == pytest.approx(free.sum(axis=1).std(), rel=0.1)


def test_the_work_beside_the_draws_is_bounded() -> None:
    """What is tabulated grows with the different values, which are grouped: 50,000 cells over six
    decades."""
    rng = np.random.default_rng(4)
    noisy = 10 ** rng.uniform(-2, 6, count_posterior.MAX_CELLS) + rng.laplace(
        size=count_posterior.MAX_CELLS
    )
    values, group = count_posterior._groups(noisy, 0.0)
    assert values.size < 1300
    near = np.abs(noisy) <= count_posterior.NEAR
    assert np.abs(noisy - values[group])[near].max() <= 1 / 64
    with pytest.raises(ValueError, match="50000"):
        draw_counts(np.append(noisy, 1.0), 1.0, "laplace", draws=1, rng=rng)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_mean_is_that_of_many_draws(kind: Kind) -> None:
    noisy = np.array([40.0, 3.0, -2.0, 1500.0, 8.0, 60.0])
    posterior = CountPosterior.of(noisy, 4.0, kind)
    known = Known(np.array([[1.0, 1, 1, -1, 0, 0]]), np.array([-1440.0]), np.array([2.0]))
    for each in (None, known):
        drawn = posterior.draw(4000, np.random.default_rng(5), each)
        # Draws keep cells at 0 that are, means move all: apart by less than a third of the noise's
        # scale.
        assert posterior.mean(each) == pytest.approx(
            drawn.mean(axis=0), abs=0.4 if each is None else 1.2
        )
    variance = posterior.draw(4000, np.random.default_rng(6)).var(axis=0)
    assert posterior.moments[1] == pytest.approx(variance, rel=0.15, abs=0.6)


def test_cells_that_may_all_be_0_have_a_prior_of_their_own() -> None:
    """300 empty cells beside 100 full ones: with one prior for all they are thought to hold far
    more."""
    rng = np.random.default_rng(7)
    true = np.concatenate([rng.gamma(1.0, 20.0, 100), np.zeros(300)])
    noisy = true + rng.laplace(size=400)
    group = np.repeat([0, 1], [100, 300])
    apart = GroupedPosterior.of(noisy, 1.0, "laplace", group)
    assert (
        apart.mean()[100:].sum() < 0.3 * CountPosterior.of(noisy, 1.0, "laplace").mean()[100:].sum()
    )
    drawn = apart.draw(100, rng)
    assert drawn.mean(axis=0) == pytest.approx(apart.mean(), abs=0.5)
    assert np.abs(drawn.mean(axis=0) - true)[:100].mean() < 1.2


def test_draws_of_nothing_but_zeros_cannot_be_moved() -> None:
    """Three cells that are mostly noise, of a known sum: some draws have no count that could be
    moved to meet it."""
    noisy, rng = np.array([-3.0, -2.0, 0.5]), np.random.default_rng(1)
    known = Known(np.ones((1, 3)), np.array([3.0]), np.zeros(1))
    drawn = draw_counts(noisy, 4.0, "laplace", draws=200, rng=rng, known=known)
    assert np.isfinite(drawn).all()
    assert (drawn.sum(axis=1) == 0).any()
    assert np.median(drawn.sum(axis=1)) == pytest.approx(3)


def test_many_draws_are_those_of_a_search_for_each() -> None:
    """The table of where to begin changes nothing, at the ends of its parts and of the
    distributions neither."""
    rng = np.random.default_rng(5)
    cumulated = np.cumsum(rng.dirichlet(np.full(40, 0.05), 7), axis=1)
    cumulated[0, -1] = 1 - 1e-12  # as rounding leaves it
    group = rng.integers(0, 7, 500)
    u = rng.random((64, 500))
    u[0], u[1], u[2] = 0.0, np.arange(500) % 256 / 256, 1 - 2.0**-53
    assert u.size > 4 * GUIDES * len(cumulated) > u[:4].size
    expected = [
        [np.searchsorted(cumulated[g], one) for g, one in zip(group, row, strict=True)] for row in u
    ]
    for part in (u, u[:4]):
        found = _searched(cumulated, part, group)
        ends = (part == 0) | (
            part > 1 - 1e-9
        )  # where one value's distribution touches the next one's
        assert (np.abs(found - expected[: len(part)]) <= ends).all()


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("lattice", [0.0, 1.0])
def test_sums_over_places_are_those_of_each_place(kind: Kind, lattice: float) -> None:
    """Products of matrices, of values near 0, far from it and in between, against one place after
    the other."""
    values = np.array([-3.0, 0.0, 2.0, 15.0, 40.0, 900.0])
    cells = count_posterior.Cells.of(values, kind, lattice)
    means = np.array([0.1, 3.0, 200.0])
    for shape in (0.15, 1.0, 12.0):
        each = cells.filled(means, shape)
        powers = np.stack(
            [(each * cells.places[:, :, None] ** order).sum(axis=1) for order in range(3)]
        )
        np.testing.assert_allclose(cells.sums(means, shape, 3), powers, rtol=1e-10, atol=1e-290)

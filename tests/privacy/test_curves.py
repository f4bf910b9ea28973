"""Privacy curves against mpmath, quadrature and enumeration, never against a copy of the code."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from discreet.privacy import calibration
from discreet.privacy.mechanisms.dirichlet import Dirichlet, MirroredBeta, beta_delta
from discreet.privacy.mechanisms.discrete_gaussian import (
    DiscreteGaussian,
    exact_delta,
    squares,
    step_mu,
    stretched,
)
from discreet.privacy.mechanisms.discrete_laplace import pure_delta
from discreet.privacy.mechanisms.gaussian import gaussian_delta, gaussian_mu, square_root_up
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawPair
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import RemovePair, ReplacePair
from discreet.privacy.mechanisms.smooth_sensitivity_gaussian import (
    SmoothSensitivityGaussian,
    dilation_delta,
)
from discreet.privacy.pld import (
    FULL,
    QUICK,
    ROUGH,
    DominatingPair,
    Reversed,
    composed_delta,
    hockey_stick,
)
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT
from tests.privacy.exact import dirichlet_renyi, one_draw_delta


def exact_gaussian(epsilon: float, mu: float) -> mp.mpf:
    with mp.workdps(60):
        e, m = mp.mpf(epsilon), mp.mpf(mu)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.0325, 0.27, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1e-3, 0.1, 1.0, 8.0, 200.0])
def test_the_gaussian_curve_errs_upward_and_hardly(epsilon: float, mu: float) -> None:
    exact, ours = exact_gaussian(epsilon, mu), gaussian_delta(epsilon, mu)
    if exact > mp.mpf("1e-300"):
        assert ours >= exact
        assert ours <= exact * (1 + mp.mpf("5e-12"))
    assert 0 <= ours <= 1


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (3.0, 1e-15), (1e-6, 1e-6), (20.0, 0.3)]
)
def test_the_largest_mu(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert exact_gaussian(epsilon, mu) <= delta
    assert exact_gaussian(epsilon, mu * (1 + 1e-6)) > delta


def brute_force(epsilon: float, vector: tuple[int, ...], scale: float) -> float:
    """Delta of the discrete Gaussian for one integer difference, by summing over the whole
    lattice."""
    reach = math.ceil(11 * scale)
    single = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    single /= single.sum()
    p, q = np.ones(1), np.ones(1)
    for shift in vector:
        wide = np.pad(single, (0, shift))
        moved = np.pad(single, (shift, 0))
        p, q = np.multiply.outer(p, moved).ravel(), np.multiply.outer(q, wide).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("vector", [(1,), (2,), (3,), (1, 1), (2, 1)])
@pytest.mark.parametrize(("epsilon", "scale"), [(1.0, 3.7), (0.3, 2.2), (3.0, 1.56)])
def test_the_discrete_gaussian_curve_covers_every_difference(
    vector: tuple[int, ...], epsilon: float, scale: float
) -> None:
    square = sum(entry**2 for entry in vector)
    assert exact_delta(epsilon, square, scale) >= brute_force(epsilon, vector, scale) * (1 - 1e-12)
    reached = max(brute_force(epsilon, v, scale) for v in squares(square) if len(v) <= 2)
    assert exact_delta(epsilon, square, scale) <= max(reached, 1.3 * reached)


def test_one_coordinate_is_reached_exactly() -> None:
    assert exact_delta(1.0, 1, 3.7) == pytest.approx(brute_force(1.0, (1,), 3.7), rel=1e-9)


def test_differences_are_listed_once() -> None:
    listed = list(squares(9))
    assert len(listed) == len(set(listed))
    expected = {
        tuple(sorted(v, reverse=True))
        for n in range(1, 10)
        for v in itertools.combinations_with_replacement((1, 2, 3), n)
        if sum(x * x for x in v) <= 9
    }
    assert set(listed) == expected


@pytest.mark.parametrize(("epsilon", "delta", "excess"), [(1.0, 1e-5, 0.03), (3.0, 1e-6, 0.38)])
def test_the_continuous_sigma_is_too_small_for_the_unit_grid(
    epsilon: float, delta: float, excess: float
) -> None:
    sigma = 1 / gaussian_mu(epsilon, delta)
    assert exact_delta(epsilon, 1, sigma) / delta - 1 == pytest.approx(excess, abs=0.01)


@pytest.mark.parametrize("vector", [(1,), (2,), (3,), (1, 1)])
@pytest.mark.parametrize("scale", [2.5, 4.0, 9.0])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0])
def test_the_lemma_of_the_rounded_gaussian(
    vector: tuple[int, ...], scale: float, epsilon: float
) -> None:
    """delta of the discrete Gaussian <= that of a continuous one with variance scale² - 3."""
    mu = math.sqrt(sum(x * x for x in vector) / (scale**2 - 3))
    # What lies beyond 11 scales.
    assert brute_force(epsilon, vector, scale) <= gaussian_delta(epsilon, mu) + 1e-24


def test_the_rounded_gaussian_is_the_discrete_gaussian() -> None:
    """The lemma's kernel by quadrature: a Gaussian of variance sigma² - 3, a discrete Gaussian of 3
    around it."""
    sigma, tau2, q = 2.6, 3.0, 0.0
    x = np.arange(-12, 13)

    def mass(at: int) -> float:
        def integrand(y: float) -> float:
            weights = np.exp(-((np.arange(-60, 61) - y) ** 2) / (2 * tau2))
            return float(
                stats.norm.pdf(y, q, math.sqrt(sigma**2 - tau2))
                * math.exp(-((at - y) ** 2) / (2 * tau2))
                / weights.sum()
            )

        return integrate.quad(integrand, -40, 40, epsabs=1e-15, epsrel=1e-12, limit=400)[0]

    target = np.exp(-(x**2) / (2 * sigma**2))
    target /= np.exp(-(np.arange(-60, 61) ** 2) / (2 * sigma**2)).sum()
    np.testing.assert_allclose([mass(int(at)) for at in x], target, rtol=1e-9)


def test_the_square_root_is_above() -> None:
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**40 + 1), Fraction(4)):
        root = square_root_up(value)
        assert Fraction(root) ** 2 >= value
        assert Fraction(root) ** 2 <= value * (1 + Fraction(1, 10**15))


def test_the_pure_curve_is_that_of_discrete_laplace_with_sensitivity_one() -> None:
    scale, reach = 1.7, 90
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    weights /= weights.sum()
    for epsilon in (0.0, 0.2, 0.5):
        delta = np.maximum(
            np.append(0, weights) - math.exp(epsilon) * np.append(weights, 0), 0
        ).sum()
        assert pure_delta(epsilon, Fraction(1) / Fraction(scale)) == pytest.approx(delta, rel=1e-11)
    assert pure_delta(1.0, Fraction(1)) == 0.0
    assert pure_delta(0.0, Fraction(10**6)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("b", "t", "epsilon"),
    [(5.0, 0.75, 0.5), (5.0, 0.75, 2.16), (15.0, 0.75, 1.07), (2.0, 0.7, 1.0)],
)
def test_the_dirichlet_curve_by_quadrature(b: float, t: float, epsilon: float) -> None:
    with mp.workdps(40):
        log_beta = mp.log(mp.beta(b + t, b))
        start = 1 / (1 + mp.exp(-mp.mpf(epsilon) / mp.mpf(t)))

        def excess(x: mp.mpf) -> mp.mpf:
            base = (b - 1) * (mp.log(x) + mp.log1p(-x)) - log_beta
            return mp.exp(base) * (x**t - mp.exp(epsilon) * (1 - x) ** t)

        exact = mp.quad(excess, mp.linspace(start, 1, 12))
    ours = beta_delta(epsilon, (b + t, b), (b, b + t))
    assert ours >= exact
    assert ours == pytest.approx(float(exact), rel=1e-7)


def test_the_floor_pair_is_the_worst_row() -> None:
    k, floor, h = 30.0, 0.1, 0.06
    event = Dirichlet(
        sensitivity=h,
        scale=k,
        floor=floor,
        neighbours="x",
        charged_epsilon=10**9,
        charged_delta=10**13,
    )
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        worst = event.delta(epsilon)
        for p_i in np.linspace(floor + h / 2, 0.8, 9):
            for p_j in np.linspace(floor, 0.2, 4):
                for change in (h / 2, h / 3, h / 10):
                    start = max(p_i, floor + change)
                    pair = ((k * start, k * p_j), (k * (start - change), k * (p_j + change)))
                    assert beta_delta(epsilon, *pair) <= worst * (1 + 1e-9) + 1e-10


def test_dirichlet_renyi_by_quadrature() -> None:
    a, b, order = 5.75, 5.0, 3.0
    integrand = lambda x: stats.beta.pdf(x, a, b) ** order * stats.beta.pdf(x, b, a) ** (1 - order)  # noqa: E731
    exact = math.log(integrate.quad(integrand, 0, 1)[0]) / (order - 1)
    assert dirichlet_renyi(order, (a, b), (b, a)) == pytest.approx(exact, rel=1e-8)
    assert dirichlet_renyi(1 + 5.0 / 0.75, (a, b), (b, a)) == math.inf


@pytest.mark.parametrize("log_factor", [0.001, 0.05, 0.4])
@pytest.mark.parametrize("dimension", [1, 2, 40])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_dilation_by_integration_over_the_radius(
    epsilon: float, log_factor: float, dimension: int
) -> None:
    wide = stats.chi(dimension, scale=math.exp(log_factor))
    narrow = stats.chi(dimension)
    worst = 0.0
    for p, q in ((narrow, wide), (wide, narrow)):
        value = integrate.quad(
            lambda r, p=p, q=q: max(0.0, p.pdf(r) - math.exp(epsilon) * q.pdf(r)),
            0,
            40,
            limit=800,
        )[0]
        worst = max(worst, value)
    assert dilation_delta(epsilon, log_factor, dimension) == pytest.approx(
        worst, rel=2e-4, abs=1e-9
    )


def test_the_smooth_curve_covers_its_worst_case_in_one_dimension() -> None:
    event = SmoothSensitivityGaussian(
        scale=2.2,
        smoothing=0.06,
        dimension=1,
        neighbours="x",
        charged_epsilon=3 * 10**9,
        charged_delta=10**13,
    )
    grid = np.linspace(-60, 60, 400_001)
    step = grid[1] - grid[0]
    here = stats.norm.pdf(grid, 0, 2.2)
    for factor in (-0.06, 0.0, 0.06):
        there = stats.norm.pdf(grid, 1, 2.2 * math.exp(factor))
        for epsilon in (0.0, 0.5, 1.0, 3.0):
            for p, q in ((here, there),):
                assert (
                    np.maximum(p - math.exp(epsilon) * q, 0).sum() * step
                    <= event.delta(epsilon) + 1e-12
                )


# Subsampled pairs: the tails are those of the losses, and the pairs are the worst.


def mixture(x: np.ndarray, q: float, centre: float, other: float = 0.0) -> np.ndarray:
    return (1 - q) * stats.norm.pdf(x, other) + q * stats.norm.pdf(x, centre)


@pytest.mark.parametrize("epsilon", [-0.4, -0.02, 0.0, 0.03, 0.3, 1.5])
@pytest.mark.parametrize(("q", "mu"), [(0.1, 0.7), (0.6, 2.0), (1.0, 0.5)])
def test_hockey_sticks_of_the_subsampled_pairs_by_integration(
    q: float, mu: float, epsilon: float
) -> None:
    grid = np.linspace(-14, 14, 280_001)
    step = grid[1] - grid[0]
    remove, replace = RemovePair(q, mu), ReplacePair(q, mu)
    cases: list[tuple[DominatingPair, np.ndarray, np.ndarray]] = [
        (remove, mixture(grid, q, mu), stats.norm.pdf(grid)),
        (Reversed(remove), stats.norm.pdf(grid), mixture(grid, q, mu)),
        (replace, mixture(grid, q, mu), mixture(grid, q, -mu)),
    ]
    for pair, p, r in cases:
        exact = np.maximum(p - math.exp(epsilon) * r, 0).sum() * step
        assert hockey_stick(pair, epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-9)
        tails, heads = pair.tails(np.array([epsilon])), pair.heads(np.array([epsilon]))
        for tail, head in zip(tails, heads, strict=True):
            assert tail[0] + head[0] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.02, 0.2, 0.8])
def test_the_replaced_unit_is_worst_when_it_turns_around(epsilon: float) -> None:
    """In the plane, against every direction and length of the replacing vector."""
    q, mu = 0.25, 1.2
    axis = np.linspace(-8, 8, 801)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2

    def density(vx: float, vy: float) -> np.ndarray:
        centre = np.exp(-0.5 * (x**2 + y**2)) / (2 * math.pi)
        moved = np.exp(-0.5 * ((x - vx) ** 2 + (y - vy) ** 2)) / (2 * math.pi)
        return (1 - q) * centre + q * moved

    bound = hockey_stick(ReplacePair(q, mu), epsilon)
    p = density(mu, 0)
    for angle in np.linspace(0, math.pi, 7):
        for length in (0.0, mu / 2, mu):
            r = density(length * math.cos(angle), length * math.sin(angle))
            for one, other in ((p, r), (r, p)):
                assert np.maximum(one - math.exp(epsilon) * other, 0).sum() * cell <= bound + 1e-5


@pytest.mark.parametrize("epsilon", [-0.5, -0.05, 0.0, 0.04, 0.4])
@pytest.mark.parametrize("others", [-1.0, 0.0, 0.4, 1.0])
def test_the_stitched_curve_covers_one_draw_whatever_the_other_units(
    epsilon: float, others: float
) -> None:
    q, sigma = 0.15, 0.9
    grid = np.linspace(-14, 14, 560_001)
    step = grid[1] - grid[0]
    here = mixture(grid, q, 1 / sigma, others / sigma)
    there = mixture(grid, q, -1 / sigma, others / sigma)
    bound = hockey_stick(OneDrawPair(q, 2 / sigma), epsilon)
    assert np.maximum(here - math.exp(epsilon) * there, 0).sum() * step <= bound + 1e-8
    if others == -1.0 and epsilon >= 0:
        assert np.maximum(here - math.exp(epsilon) * there, 0).sum() * step == pytest.approx(
            bound, rel=1e-5
        )


def test_the_stitched_curve_is_a_curve() -> None:
    """Convex in e^epsilon, falling, above [1 - e^epsilon]_+; and one draw out of one is the
    Gaussian mechanism."""
    pair = OneDrawPair(0.3, 2.0)
    a = np.linspace(0.05, 8, 4001)
    p, r = pair.tails(np.log(a))
    curve = p - a * r
    slopes = np.diff(curve) / np.diff(a)
    assert np.all(np.diff(slopes) >= -1e-9)
    assert np.all(slopes <= 1e-12)
    assert np.all(curve >= np.maximum(1 - a, 0) - 1e-12)
    assert one_draw_delta(0.7, 1.0, 1.3) == pytest.approx(
        float(exact_gaussian(0.7, 2 / 1.3)), rel=1e-10
    )


@pytest.mark.parametrize(
    ("mu", "count", "epsilon"),
    [(0.5, 1, 1.0), (0.1, 25, 1.0), (0.02, 400, 2.5), (0.003, 10_000, 1.5)],
)
def test_composition_of_gaussians_against_the_closed_form(
    mu: float, count: int, epsilon: float
) -> None:
    exact = float(exact_gaussian(epsilon, mu * math.sqrt(count)))
    composed = composed_delta(ReplacePair(1.0, mu / 2), count, epsilon, 1e-6 * exact)
    assert exact <= composed <= exact * (1 + 2e-3)


@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-15])
def test_composition_far_in_the_tail(delta: float) -> None:
    """The tilt keeps relative accuracy where an untilted transform has none left."""
    mu, count = 0.02, 400
    epsilon = float(mp.findroot(lambda e: mp.log(exact_gaussian(e, 0.4)) - mp.log(delta), 2.5))
    composed = composed_delta(ReplacePair(1.0, mu / 2), count, epsilon, 1e-4 * delta)
    assert delta * (1 - 1e-9) <= composed <= delta * (1 + 5e-3)


def test_composition_of_dirichlets_lies_between_exact_convolution_and_renyi() -> None:
    b, t, count, epsilon = 15.0, 0.75, 2, 1.2
    u = np.linspace(0.1, 0.9, 2401)
    p, r = stats.beta.pdf(u, b + t, b), stats.beta.pdf(u, b, b + t)
    cell = (u[1] - u[0]) ** 2
    joint = (
        np.maximum(np.multiply.outer(p, p) - math.exp(epsilon) * np.multiply.outer(r, r), 0).sum()
        * cell
    )
    composed = composed_delta(MirroredBeta(b, t), count, epsilon, 1e-9)
    assert composed == pytest.approx(joint, rel=4e-4)
    orders = np.linspace(1.01, 1 + 0.99 * b / t, 400)
    renyi = min(
        math.exp(
            (a - 1)
            * (count * dirichlet_renyi(a, (b + t, b), (b, b + t)) - epsilon + math.log1p(-1 / a))
            - math.log(a)
        )
        for a in orders
    )
    assert composed < renyi


def test_less_effort_only_errs_upward() -> None:
    pair = OneDrawPair(1e-3, 1.8)
    values = [composed_delta(pair, 1000, 0.2, 1e-9, effort) for effort in (FULL, QUICK, ROUGH)]
    values.append(composed_delta(pair, 1000, 0.2, 1e-9, replace(ROUGH, coarseness=64.0)))
    assert values == sorted(values)


def test_discrete_gaussians_released_many_times_compose_like_gaussians() -> None:
    event = DiscreteGaussian(
        sensitivity=5.0,
        scale=100.0,
        count=16,
        neighbours="x",
        charged_epsilon=10**9,
        charged_delta=10**13,
    )
    assert event.delta(1.0) == pytest.approx(
        gaussian_delta(1.0, 20 / math.sqrt(100**2 - 3)), rel=1e-12
    )


def exact_shift(vector: tuple[int, ...], scale: float, epsilon: float) -> float:
    """Delta of discrete Gaussian noise where integers move by `vector`, from the convolution of its
    losses."""
    reach = math.ceil(14 * scale)
    single = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    single /= single.sum()
    law = np.ones(1)
    for entry in vector:
        law = np.convolve(law, stretched(single, entry))
    half, square = (len(law) - 1) // 2, sum(entry * entry for entry in vector)
    loss = (square + 2.0 * np.arange(-half, half + 1)) / (2 * scale * scale)
    return float(np.sum(law * -np.expm1(np.minimum(epsilon - loss, 0.0))))


@pytest.mark.parametrize(
    "vector", [(4,), (17,), (100,), (1,) * 16, (3, 2, 1, 2), (12, 11), (9, 9, 1)]
)
@pytest.mark.parametrize(("scale", "epsilon"), [(0.6, 20.0), (1.3, 8.0), (4.0, 3.0), (20.0, 1.0)])
def test_discrete_gaussian_of_any_sensitivity_is_never_below_the_truth(
    vector: tuple[int, ...], scale: float, epsilon: float
) -> None:
    length = math.sqrt(sum(entry * entry for entry in vector))
    event = DiscreteGaussian(
        sensitivity=length, scale=scale, neighbours="x", charged_epsilon=10**9, charged_delta=10**13
    )
    for one in (0.3 * epsilon, epsilon, (length / scale) ** 2 / 2, 1.7 * (length / scale) ** 2):
        assert exact_shift(vector, scale, one) <= event.delta(one) * (1 + 1e-11)


def test_discrete_gaussian_is_nearly_exact_beyond_small_sensitivities() -> None:
    """Beside the truth of the one coordinate that moves; the lemma of `gaussian` alone asks for 2
    to 24 % more."""
    for sensitivity, epsilon, delta, most in (
        (4, 3.0, 1e-6, 1.005),
        (10, 8.0, 1e-9, 1.002),
        (30, 100.0, 1e-5, 1.005),
    ):
        event = calibration.discrete_gaussian(
            float(sensitivity), int(epsilon * EPSILON_UNIT), int(delta * DELTA_UNIT), neighbours="x"
        )
        assert (
            exact_shift((sensitivity,), event.scale, epsilon)
            <= delta
            < exact_shift((sensitivity,), event.scale / most, epsilon)
        )


def test_what_a_discrete_gaussian_moves_by_is_more_than_a_gaussian_does() -> None:
    """`step_mu` is just above 1/scale: with that itself the curve would lie below the truth."""
    epsilon, scale = 3.0, 1 / gaussian_mu(3.0, 1e-6)
    assert exact_shift((1,), scale, epsilon) > 1.3 * gaussian_delta(epsilon, 1 / scale)
    assert exact_shift((1,), scale, epsilon) <= gaussian_delta(epsilon, step_mu(scale))
    assert [step_mu(one) * one for one in (0.5, 1.0, 4.0)] == pytest.approx(
        [1.24419, 1.04576, 1.00262], abs=1e-5
    )

"""From a request (epsilon, delta in units) to the mechanism event of least noise whose price fits it.

Each function returns an event with `price() <= request` in every unit, never above: curves err upward, and scales are
stepped up until the curve, compared as a rational, meets the request. A margin of 1e-9 of delta keeps that verdict the
same where another machine's `exp` differs in the last bit, and `pld.CHARGING` where its transforms do. ValueError: the
request cannot be met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol, TypeVar

from scipy.optimize import brentq

from discreet.privacy.mechanism import CalibratedEvent, ChargedRho, NotCertified, OneDrawSampling, PoissonSampling
from discreet.privacy.mechanisms.dirichlet import Dirichlet
from discreet.privacy.mechanisms.discrete_gaussian import (
    LARGEST_ENUMERATED_SCALE,
    LARGEST_ENUMERATED_SQUARE,
    DiscreteGaussian,
)
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import SMOOTHING, Gaussian, gaussian_mu
from discreet.privacy.mechanisms.laplace import Laplace
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import PoissonSubsampledGaussian
from discreet.privacy.mechanisms.smooth_sensitivity_gaussian import SmoothSensitivityGaussian, dilation_delta
from discreet.privacy.pld import CHARGING, FULL, QUICK, QUICK_STEPS, ROUGH, Effort
from discreet.privacy.samplers import LARGEST_SCALE
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT, float_below, half_square

MARGIN = 1e-9
RHO_MARGIN = 1e-6
"""Of a rho: far above what sums of exponentials differ by from machine to machine. Transforms have `CHARGING`."""
GRID_BITS = 24

C = TypeVar("C", bound=CalibratedEvent)


class Composed(Protocol):
    """An event whose curve is a composition, computed with more or less effort."""

    @property
    def count(self) -> int: ...

    def composed_delta(self, epsilon: float, effort: Effort) -> float: ...


def float_above(value: Fraction) -> float:
    """The smallest double >= `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _request(epsilon: int, delta: int) -> tuple[float, float]:
    """The request as floats on the safe side, delta with its margin."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    if not 0 < delta < DELTA_UNIT:
        raise ValueError("this mechanism needs 0 < delta < 1")
    return float_below(Fraction(epsilon, EPSILON_UNIT)), delta / DELTA_UNIT * (1 - MARGIN)


def smallest_scale(delta_at: Callable[[float], float], target: float, low: float, high: float) -> float:
    """The smallest scale, to 1e-11 relative, with delta_at(scale) <= target, for a curve that falls with the scale.

    `low` and `high` are guesses of a bracket. What is returned meets the target, whatever the curve's shape.
    """
    log_scale, _ = _root(delta_at, target, low, high, 1e-11, low * 1e-6)
    return _stepped_up(delta_at, target, log_scale, 1e-11)


def smallest_composed_scale(
    event: Callable[[float], Composed], epsilon: float, target: float, guess: float, least: float
) -> float:
    """As `smallest_scale`, to 1e-5 relative, for curves that take a transform each.

    Found with a rough curve, whose slope then leads from the quick curve's value there to its root; only for very many
    steps with the finest. Not below `least`: sampling alone may meet large deltas, but less noise than that is not
    worth the search.
    """
    many = event(guess).count > QUICK_STEPS

    def fine(scale: float) -> float:
        return event(scale).composed_delta(epsilon, replace(FULL if many else QUICK, slack=CHARGING))

    def rough(scale: float) -> float:
        return event(scale).composed_delta(epsilon, replace(FULL, coarseness=8.0) if many else ROUGH)

    log_scale, slope = _root(rough, target, guess / 1.2, guess, 1e-5, least)
    for _ in range(4):
        excess = _log_ratio(fine(math.exp(log_scale)), target)
        if -1e-5 * abs(slope) < excess <= 0 or not slope:
            break
        log_scale -= excess / slope - 3e-6
    return _stepped_up(fine, target, log_scale, 1e-5)


def _root(
    delta_at: Callable[[float], float], target: float, low: float, high: float, tolerance: float, least: float
) -> tuple[float, float]:
    """The ln scale at which delta_at meets the target, and the slope of ln delta there (0: met below `least`)."""

    def excess(log_scale: float) -> float:
        return _log_ratio(delta_at(math.exp(log_scale)), target)

    bottom, top = math.log(low), math.log(high)
    while excess(top) > 0:
        bottom, top = top, top + (top - bottom) * 1.5
        if top > 300:
            raise ValueError("no amount of noise meets this delta")
    while excess(bottom) <= 0:
        if bottom < math.log(least):
            return bottom, 0.0
        bottom, top = bottom - (top - bottom) * 1.5, bottom
    root = float(brentq(excess, bottom, top, xtol=tolerance, rtol=1e-13))
    return root, (excess(root + 1e-3) - excess(root)) / 1e-3


def _log_ratio(delta: float, target: float) -> float:
    return math.log(max(delta, 1e-320) / target)


def _stepped_up(delta_at: Callable[[float], float], target: float, log_scale: float, step: float) -> float:
    scale = math.exp(log_scale)
    while delta_at(scale) > target:
        scale, step = scale * (1 + step), step * 2
    return scale


@lru_cache(maxsize=4096)
def discrete_laplace(sensitivity: float, epsilon: int, *, neighbours: str, count: int = 1) -> DiscreteLaplace:
    """Integers of l1 sensitivity `sensitivity`, `count` releases, epsilon in units of 1e-9: pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    scale = _drawable(float_above(Fraction(sensitivity) * count * EPSILON_UNIT / epsilon))
    return DiscreteLaplace(sensitivity=sensitivity, scale=scale, count=count, neighbours=neighbours)


@lru_cache(maxsize=4096)
def discrete_gaussian(
    sensitivity_l2: float, epsilon: int, delta: int, *, neighbours: str, count: int = 1
) -> DiscreteGaussian:
    """Integers of l2 sensitivity `sensitivity_l2`, of any dimension, `count` releases together (epsilon, delta)-DP."""
    eps, target = _request(epsilon, delta)

    def event(scale: float) -> DiscreteGaussian:
        return DiscreteGaussian(
            sensitivity=sensitivity_l2,
            scale=scale,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    continuous = sensitivity_l2 * math.sqrt(count) / gaussian_mu(eps, target)
    scale = math.sqrt(continuous**2 + SMOOTHING) * (1 + 1e-12)
    enumerable = sensitivity_l2**2 < LARGEST_ENUMERATED_SQUARE + 1 and continuous < LARGEST_ENUMERATED_SCALE
    if count == 1 and enumerable:
        scale = min(scale, smallest_scale(lambda s: event(s).delta(eps), target, continuous, scale))
    return certified(event, _drawable(scale))


@lru_cache(maxsize=4096)
def gaussian(
    sensitivity: float, epsilon: int, delta: int, *, neighbours: str, dimension: int, count: int = 1
) -> Gaussian:
    """A real vector of length `dimension` and this l2 sensitivity, `count` releases together (epsilon, delta)-DP.

    The grid is the power of two below sensitivity/(2^24 sqrt(dimension)): rounding costs 6e-8 of the noise at most.
    """
    eps, target = _request(epsilon, delta)
    least = gaussian_mu(eps, target)
    grid = _grid(sensitivity, math.sqrt(dimension), sensitivity * math.sqrt(count) / least)

    def event(scale: float) -> Gaussian:
        return Gaussian(
            sensitivity=sensitivity,
            scale=scale,
            count=count,
            dimension=dimension,
            grid=grid,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    moved = sensitivity + grid * math.sqrt(dimension)
    continuous = moved * math.sqrt(count) / least
    return certified(event, math.sqrt(continuous**2 + SMOOTHING * grid**2) * (1 + 1e-12))


@lru_cache(maxsize=4096)
def laplace(sensitivity: float, epsilon: int, *, neighbours: str, dimension: int, count: int = 1) -> Laplace:
    """A real vector of length `dimension` and this l1 sensitivity, `count` releases, epsilon in units of 1e-9: pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    grid = _grid(sensitivity, dimension, sensitivity * count * EPSILON_UNIT / epsilon)
    moved = Fraction(sensitivity) + Fraction(grid) * dimension
    return Laplace(
        sensitivity=sensitivity,
        scale=float_above(moved * count * EPSILON_UNIT / epsilon),
        count=count,
        dimension=dimension,
        grid=grid,
        neighbours=neighbours,
    )


@lru_cache(maxsize=4096)
def dirichlet(
    row_change: float,
    floor: float,
    epsilon: int,
    delta: int,
    *,
    neighbours: str,
    offset: float = 0.0,
    count: int = 1,
) -> Dirichlet:
    """The most concentrated Dirichlet draws, `count` of them together (epsilon, delta)-DP; see `Dirichlet`.

    However flat, a draw's loss has a tail e^{-y 2 floor/row_change}: small epsilons cannot be met without an `offset`.
    """
    eps, target = _request(epsilon, delta)

    def event(inverse: float) -> Dirichlet:
        return Dirichlet(
            sensitivity=row_change,
            scale=1 / inverse,
            floor=floor,
            offset=offset,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    if count == 1:
        return with_rho(certified(event, smallest_scale(lambda s: event(s).delta(eps), target, 1e-3, 1e-2)))
    return with_rho(certified(event, smallest_composed_scale(event, eps, target, 0.02 * count, 1e-7)))


@lru_cache(maxsize=1024)
def poisson_subsampled_gaussian(
    clip: float,
    epsilon: int,
    delta: int,
    *,
    probability: float,
    steps: int,
    relation: Literal["add_remove", "replace"],
    neighbours: str,
) -> PoissonSubsampledGaussian:
    """`steps` Poisson mini-batches, every unit's vector clipped in l2 at `clip`; the scale is the noise's deviation."""
    eps, target = _request(epsilon, delta)

    def event(scale: float) -> PoissonSubsampledGaussian:
        return PoissonSubsampledGaussian(
            sensitivity=clip if relation == "add_remove" else 2 * clip,
            scale=scale,
            count=steps,
            sampling=PoissonSampling(probability=probability),
            relation=relation,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    # Sampling counts for about its probability, but never replaces the noise.
    guess = max(0.5 * clip, probability * event(1.0).sensitivity * math.sqrt(steps) / gaussian_mu(eps, target))
    return with_rho(certified(event, smallest_composed_scale(event, eps, target, guess, 0.05 * clip)))


@lru_cache(maxsize=1024)
def one_draw_gaussian(
    clip: float, epsilon: int, delta: int, *, population: int, steps: int, neighbours: str
) -> OneDrawGaussian:
    """`steps` steps on one uniformly drawn unit each, its vector clipped in l2 at `clip`."""
    eps, target = _request(epsilon, delta)

    def event(scale: float) -> OneDrawGaussian:
        return OneDrawGaussian(
            sensitivity=2 * clip,
            scale=scale,
            count=steps,
            sampling=OneDrawSampling(population=population),
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    return with_rho(certified(event, smallest_composed_scale(event, eps, target, 1.1 * clip, 0.1 * clip)))


@lru_cache(maxsize=4096)
def smooth_sensitivity_gaussian(
    epsilon: int, delta: int, *, dimension: int, neighbours: str, count: int = 1
) -> SmoothSensitivityGaussian:
    """The smoothing of Balle, Gomrokchi & Precup 2016 and the least scale that the event's own curve allows with it.

    For each of `count` releases at (epsilon/count, delta/count) the smoothing is (epsilon/4)/(dimension + ln(2/delta)).
    The scale is a fraction of their 5 sqrt(2 ln(2/delta))/epsilon, see `printed.smooth_sensitivity_scale`.
    """
    eps, target = _request(epsilon, delta)
    share, log = eps / count, math.log(2 * count / target)
    smoothing = share / 4 / (dimension + log)
    while dilation_delta(share / 2, smoothing, dimension) > target / count / 4:
        smoothing *= 0.8  # their rule is for epsilon below 1 or so

    def event(scale: float) -> SmoothSensitivityGaussian:
        return SmoothSensitivityGaussian(
            scale=scale,
            smoothing=smoothing,
            dimension=dimension,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    high = 5 * math.sqrt(2 * log) / share
    return with_rho(certified(event, smallest_scale(lambda s: event(s).delta(eps), target, high / 10, high)))


@lru_cache(maxsize=4096)
def least_variance(
    sensitivity_l1: float, sensitivity_l2: float, epsilon: int, delta: int, *, neighbours: str
) -> DiscreteLaplace | DiscreteGaussian:
    """Discrete Laplace (by l1) or discrete Gaussian (by l2), whichever has less variance; delta 0: Laplace."""
    laplace = discrete_laplace(sensitivity_l1, epsilon, neighbours=neighbours)
    if delta == 0:
        return laplace
    try:
        gaussian = discrete_gaussian(sensitivity_l2, epsilon, delta, neighbours=neighbours)
    except ValueError:  # of more noise than can be drawn
        return laplace
    # Laplace: 2 e^{-1/t}/(1 - e^{-1/t})² = 1/(2 sinh²(1/2t)). Gaussian: at most scale² (Canonne et al. 2020, Cor. 9).
    half = 0.5 / laplace.scale
    variance = 0.0 if half > 300 else 0.5 / math.sinh(half) ** 2
    return laplace if variance <= gaussian.scale**2 else gaussian


def _drawable(scale: float) -> float:
    """`scale`, when the samplers draw noise of it: a job that has been charged must not find out that they do not."""
    if scale > LARGEST_SCALE / 2:
        raise ValueError("so little epsilon needs more noise than can be drawn")
    return scale


def _grid(sensitivity: float, rounded: float, scale: float) -> float:
    """The step of a grid: 2^-24 of the sensitivity in all, coarser where the noise would span more than 2^51 steps.

    Rounding adds `rounded` steps to the sensitivity.
    """
    grid = max(
        math.ldexp(_power_of_two_below(sensitivity / rounded), -GRID_BITS), math.ldexp(_power_of_two_below(scale), -50)
    )
    if grid * rounded > sensitivity / 1000:
        raise ValueError("so little epsilon for so many coordinates leaves no grid fine enough")
    return grid


def _power_of_two_below(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)


R = TypeVar("R", bound=ChargedRho)


def with_rho(event: R) -> R:
    """The event charged for the rho of its own curve, where that is less than epsilon²/2."""
    rho = event.rho(CHARGING) * (1 + RHO_MARGIN)
    if not rho * RHO_UNIT < half_square(event.charged_epsilon):
        return event
    priced = event.model_copy(update={"charged_rho": math.ceil(rho * RHO_UNIT)})
    priced.price()
    return priced


def certified(event: Callable[[float], C], scale: float) -> C:
    """The event at this scale or, should its price not stand, the next scales above it."""
    for _ in range(60):
        try:
            candidate = event(scale)
            candidate.price()
        except NotCertified:
            scale *= 1 + 1e-12
        else:
            return candidate
    raise ValueError("no scale near the calibrated one meets the request")

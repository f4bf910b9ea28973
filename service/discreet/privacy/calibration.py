"""From a request (epsilon, delta in units) to the mechanism event of least noise whose price fits it.

Each function returns an event with `price() <= request` in every unit, never above: curves err upward, and scales are
stepped up until the curve, compared as a rational, meets the request. A margin of 1e-9 of delta keeps that verdict the
same where another machine's `exp` differs in the last bit. ValueError: the request cannot be met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from scipy.optimize import brentq

from discreet.privacy.mechanism import CalibratedEvent, NotCertified
from discreet.privacy.mechanisms.discrete_gaussian import (
    LARGEST_ENUMERATED_SCALE,
    LARGEST_ENUMERATED_SQUARE,
    DiscreteGaussian,
)
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import SMOOTHING, Gaussian, gaussian_mu
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, float_below

MARGIN = 1e-9
GRID_BITS = 24

C = TypeVar("C", bound=CalibratedEvent)


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
    """The smallest scale, to 1e-9 relative, with delta_at(scale) <= target, for a curve that falls with the scale.

    `low` and `high` are guesses of a bracket. What is returned meets the target, whatever the curve's shape.
    """

    def excess(log_scale: float) -> float:
        return math.log(max(delta_at(math.exp(log_scale)), 1e-320) / target)

    bottom, top = math.log(low), math.log(high)
    while excess(top) > 0:
        bottom, top = top, top + (top - bottom) + 0.1
        if top > 300:
            raise ValueError("no amount of noise meets this delta")
    while excess(bottom) <= 0:
        bottom, top = bottom - (top - bottom) - 0.1, bottom
        if bottom < -300:
            raise ValueError("the mechanism is private without noise")
    log_scale = float(brentq(excess, bottom, top, xtol=1e-11, rtol=1e-13))
    scale, step = math.exp(log_scale), 1e-11
    while delta_at(scale) > target:
        scale, step = scale * (1 + step), step * 2
    return scale


@lru_cache(maxsize=4096)
def discrete_laplace(sensitivity: float, epsilon: int, *, neighbours: str, count: int = 1) -> DiscreteLaplace:
    """Integers of l1 sensitivity `sensitivity`, `count` releases, epsilon in units of 1e-9: pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    scale = float_above(Fraction(sensitivity) * count * EPSILON_UNIT / epsilon)
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
    return certified(event, scale)


@lru_cache(maxsize=4096)
def gaussian(
    sensitivity: float, epsilon: int, delta: int, *, neighbours: str, dimension: int, count: int = 1
) -> Gaussian:
    """A real vector of length `dimension` and this l2 sensitivity, `count` releases together (epsilon, delta)-DP.

    The grid is the power of two below sensitivity/(2^24 sqrt(dimension)): rounding costs 6e-8 of the noise at most.
    """
    eps, target = _request(epsilon, delta)
    grid = math.ldexp(1.0, math.frexp(sensitivity / math.sqrt(dimension))[1] - 1 - GRID_BITS)

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
    continuous = moved * math.sqrt(count) / gaussian_mu(eps, target)
    return certified(event, math.sqrt(continuous**2 + SMOOTHING * grid**2) * (1 + 1e-12))


@lru_cache(maxsize=4096)
def least_variance(
    sensitivity_l1: float, sensitivity_l2: float, epsilon: int, delta: int, *, neighbours: str
) -> DiscreteLaplace | DiscreteGaussian:
    """Discrete Laplace (by l1) or discrete Gaussian (by l2), whichever has less variance; delta 0: Laplace."""
    laplace = discrete_laplace(sensitivity_l1, epsilon, neighbours=neighbours)
    if delta == 0:
        return laplace
    gaussian = discrete_gaussian(sensitivity_l2, epsilon, delta, neighbours=neighbours)
    # Laplace: 2 e^{-1/t}/(1 - e^{-1/t})² = 1/(2 sinh²(1/2t)). Gaussian: at most scale² (Canonne et al. 2020, Cor. 9).
    half = 0.5 / laplace.scale
    variance = 0.0 if half > 300 else 0.5 / math.sinh(half) ** 2
    return laplace if variance <= gaussian.scale**2 else gaussian


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

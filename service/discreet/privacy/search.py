"""The search for the least noise whose curve meets a request; what every mechanism's `calibrate`
shares.

An event that comes of it has `price() <= request` in every unit, never above: curves err upward,
and scales are stepped up until the curve, compared as a rational, meets the request. A margin of
1e-9 of delta keeps that verdict the same where another machine's `exp` differs in the last bit, and
`pld.CHARGING` where its transforms do. ValueError: the request cannot be met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from discreet.privacy.mechanism import CalibratedEvent, ChargedRho, NotCertified
from discreet.privacy.pld import CHARGING, FULL, QUICK, QUICK_STEPS, ROUGH, DominatingPair, Effort
from discreet.privacy.units import (
    DELTA_UNIT,
    EPSILON_UNIT,
    LARGEST_SCALE,
    RHO_UNIT,
    float_below,
    half_square,
)

MARGIN = 1e-9
RHO_MARGIN = 1e-6
"""Relative margin of a rho: far above what sums of exponentials differ by from machine to machine.
Transforms have `CHARGING`."""
GRID_BITS = 24
LONG, LONG_TOLERANCE = 10**5, 5e-4
"""From so many steps on the scale is found to this relative tolerance only, which is within what
the steps of their grids change it by."""

C = TypeVar("C", bound=CalibratedEvent)
R = TypeVar("R", bound=ChargedRho)


class Composed(Protocol):
    """An event whose curve is a composition, computed with more or less effort."""

    @property
    def count(self) -> int: ...

    def pairs(self) -> tuple[DominatingPair, ...]: ...

    def composed_deltas(
        self, epsilon: float, effort: Effort, pairs: Sequence[DominatingPair]
    ) -> list[float]: ...


def float_above(value: Fraction) -> float:
    """The smallest double >= `value`."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def request(epsilon: int, delta: int) -> tuple[float, float]:
    """The request as floats on the safe side, delta with its margin."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    if not 0 < delta < DELTA_UNIT:
        raise ValueError("this mechanism needs a delta above 0 and below 1, such as 1e-6")
    return float_below(Fraction(epsilon, EPSILON_UNIT)), delta / DELTA_UNIT * (1 - MARGIN)


def smallest_scale(
    delta_at: Callable[[float], float], target: float, low: float, high: float
) -> float:
    """The smallest scale, to 1e-11 relative, with delta_at(scale) <= target, for a curve that falls
    with the scale.

    `low` and `high` are guesses of a bracket. What is returned meets the target, whatever the
    curve's shape.
    """
    log_scale, _ = _root(delta_at, target, low, high, 1e-11, low * 1e-6)
    return _stepped_up(delta_at, target, log_scale, 1e-11)


def smallest_composed_scale(
    event: Callable[[float], Composed], epsilon: float, target: float, guess: float, least: float
) -> float:
    """As `smallest_scale`, to 1e-5 relative (`LONG_TOLERANCE`), for curves that take a transform
    each.

    Found with a rough curve, whose slope then leads from the quick curve's value there to its root;
    only for very many steps with the finest. Not below `least`: sampling alone may meet large
    deltas, but less noise than that is not worth the search.
    """
    many = event(guess).count > QUICK_STEPS
    least_effort = replace(FULL, coarseness=8.0) if many else ROUGH
    most_effort = replace(FULL if many else QUICK, slack=CHARGING)
    tolerance = 1e-5 if event(guess).count < LONG else LONG_TOLERANCE

    def deltas(scale: float, effort: Effort, which: slice) -> list[float]:
        one = event(scale)
        return one.composed_deltas(epsilon, effort, one.pairs()[which])

    def found(which: slice) -> float:
        """ln of the scale at which the worst of these pairs meets the target, to the tolerance."""
        log_scale, slope = _root(
            lambda s: max(deltas(s, least_effort, which)),
            target,
            guess / 1.2,
            guess,
            tolerance,
            least,
        )
        before: tuple[float, float] | None = None
        for _ in range(5):
            excess = _log_ratio(max(deltas(math.exp(log_scale), most_effort, which)), target)
            if -tolerance * abs(slope) < excess <= 0 or not slope:
                break
            if before is not None:
                # A rough curve jumps where its grid changes, and its slope there may be far from
                # that of the quick curve.
                slope = min((excess - before[1]) / (log_scale - before[0]), slope / 8)
            before = log_scale, excess
            log_scale -= excess / slope - 0.3 * tolerance
        return log_scale

    # One pair asks for more noise than the other: it is searched for alone, and the result is
    # checked with all.
    first = deltas(guess, least_effort, slice(None))
    worst = int(np.argmax(first))
    log_scale = found(slice(worst, worst + 1))
    if max(deltas(math.exp(log_scale), most_effort, slice(None))) > target * (1 + tolerance):
        log_scale = found(slice(None))
    return _stepped_up(
        lambda s: max(deltas(s, most_effort, slice(None))), target, log_scale, tolerance
    )


def _root(
    delta_at: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    tolerance: float,
    least: float,
) -> tuple[float, float]:
    """The ln scale at which delta_at meets the target, and the slope of ln delta there (0: met
    below `least`)."""

    from scipy.optimize import brentq  # noqa: PLC0415 - pricing an event searches nothing

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


def _stepped_up(
    delta_at: Callable[[float], float], target: float, log_scale: float, step: float
) -> float:
    scale = math.exp(log_scale)
    while delta_at(scale) > target:
        scale, step = scale * (1 + step), step * 2
    return scale


def drawable(scale: float) -> float:
    """`scale`, if the samplers can draw noise of it. ValueError otherwise, before a job is
    charged."""
    if scale > LARGEST_SCALE / 2:
        raise ValueError("so little epsilon needs more noise than can be drawn")
    return scale


def grid_of(sensitivity: float, rounded: float, scale: float) -> float:
    """The step of a grid, a power of two, at which rounding adds at most 2^-24 of the sensitivity;
    coarser where the noise would span more than 2^51 steps.

    Rounding adds `rounded` steps. ValueError where these are more than a thousandth of the
    sensitivity.
    """
    grid = max(
        math.ldexp(_power_of_two_below(sensitivity / rounded), -GRID_BITS),
        math.ldexp(_power_of_two_below(scale), -50),
    )
    if grid * rounded > sensitivity / 1000:
        raise ValueError("so little epsilon for so many coordinates leaves no grid fine enough")
    return grid


def _power_of_two_below(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)


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

"""From zero-concentrated to approximate differential privacy: one conversion, for admission and for
display.

A delta_z-approximately rho-zCDP mechanism is (eps(rho, d'), d' + delta_z)-DP for every d' in (0,
1), where

    eps(rho, d') = min over a > 1 of   rho a + ln(1 - 1/a) - ln(d' a)/(a - 1)

(Canonne, Kamath & Steinke 2020, Proposition 12, at Rényi order a; dp_accounting's conversion, there
on a grid of orders). Setting the derivative to zero gives rho (a-1)² = -ln(d' a), which has one
root in (1, 1/d').

EVERY order a gives a valid bound. So the root is found in floats, and the bound at that order is
evaluated in 50-digit decimals: being flat at its optimum, it is then the optimum to about 1e-24,
the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT

_CONTEXT = Context(prec=50)
_SLACK = Decimal("1e-30")  # far above the error of 50-digit arithmetic here, far below one unit


def _root(decreasing: Callable[[float], float], log_inverse_delta: float) -> Decimal:
    """The zero over orders a = 1 + e^s in (1, 1/d') of a decreasing function of the order."""
    low, high = -60.0, log_inverse_delta
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if decreasing(math.exp(middle)) > 0 else (low, middle)
    return Decimal(1) + Decimal(math.exp((low + high) / 2))


@lru_cache(maxsize=65536)
def epsilon_units_from_rho(rho: int, delta: int) -> int:
    """eps(rho, d') in units of 1e-9, rounded up; `rho` and `delta` in units of 1e-18, delta > 0."""
    if delta <= 0:
        raise ValueError("the conversion needs delta > 0")
    if rho <= 0 or delta >= DELTA_UNIT:
        return 0
    r, log_inverse = rho / RHO_UNIT, -math.log(delta / DELTA_UNIT)
    order = _root(lambda b: log_inverse - math.log1p(b) - r * b * b, log_inverse)
    c = _CONTEXT
    exact_rho, exact_delta = (
        c.divide(Decimal(rho), Decimal(RHO_UNIT)),
        c.divide(Decimal(delta), Decimal(DELTA_UNIT)),
    )
    bound = c.add(c.multiply(exact_rho, order), _rest(order, exact_delta))
    scaled = c.multiply(c.add(bound, _SLACK), Decimal(EPSILON_UNIT))
    return max(0, int(scaled.to_integral_value(ROUND_CEILING)))


@lru_cache(maxsize=4096)
def largest_rho(epsilon: int, delta: int) -> int:
    """The largest rho (1e-18) with eps(rho, d') <= epsilon (1e-9), d' = delta (1e-18) > 0.

    At order a the condition reads rho <= (epsilon - ln(1 - 1/a) + ln(d' a)/(a - 1))/a; the order is
    the best one, where the optimality condition above and eps(rho, d') = epsilon hold together.
    """
    if delta <= 0:
        raise ValueError("the conversion needs delta > 0")
    eps, log_inverse = epsilon / EPSILON_UNIT, -math.log(delta / DELTA_UNIT)

    def excess(b: float) -> float:
        return (
            (log_inverse - math.log1p(b)) * (1 + 2 * b) / (b * b)
            + math.log(b)
            - math.log1p(b)
            - eps
        )

    order = _root(excess, log_inverse)
    c = _CONTEXT
    exact_epsilon, exact_delta = (
        c.divide(Decimal(epsilon), Decimal(EPSILON_UNIT)),
        c.divide(Decimal(delta), Decimal(DELTA_UNIT)),
    )
    rho = c.divide(c.subtract(exact_epsilon, _rest(order, exact_delta)), order)
    scaled = c.multiply(c.subtract(rho, _SLACK), Decimal(RHO_UNIT))
    return max(0, int(scaled.to_integral_value(ROUND_FLOOR)))


def _rest(order: Decimal, delta: Decimal) -> Decimal:
    """ln(1 - 1/a) - ln(d' a)/(a - 1)."""
    c = _CONTEXT
    below = c.subtract(order, Decimal(1))
    return c.subtract(
        c.subtract(c.ln(below), c.ln(order)),
        c.divide(c.ln(c.multiply(delta, order)), below),
    )

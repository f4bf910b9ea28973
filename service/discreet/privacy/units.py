"""Privacy quantities as integers, so that sums are exact and every rounding goes against the
spender.

| quantity | unit | column |
|---|---|---|
| epsilon | 1e-9 | `epsilon` |
| delta | 1e-18 | `delta`, `delta_z` |
| rho (zero-concentrated DP) | 1e-18 | `rho` |

Prices are rounded up, caps and requests down. All arithmetic is rational: a float is taken for the
dyadic number that it is, a `Decimal` for the decimal number that it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal

EPSILON_UNIT = 10**9
DELTA_UNIT = 10**18
RHO_UNIT = 10**18
LARGEST_SCALE = 2.0**52
"""The largest scale of noise, in integers or grid steps, that `samplers` draw."""
_TINY = -1000
"""Below this power of ten a decimal is less than any unit."""

Number = Decimal | Fraction | float | int
Rounding = Literal["up", "down"]


def exact(value: Number) -> Fraction:
    """`value` as the rational number that it is. ValueError when it is not finite."""
    try:
        return Fraction(value)
    except OverflowError as infinite:
        raise ValueError(f"not a finite number: {value}") from infinite


def to_units(value: Number, unit: int, rounding: Rounding) -> int:
    """`value` in integer multiples of `1/unit`. ValueError when it is negative or not finite."""
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _TINY:
        # Smaller than any unit: rounded without making a fraction of as many digits as 1e-999999999
        # has zeros.
        value = Fraction(0) if not value else Fraction(1 if value > 0 else -1, 2 * unit)
    scaled = exact(value) * unit
    if scaled < 0:
        raise ValueError(f"negative: {value}")
    return math.ceil(scaled) if rounding == "up" else math.floor(scaled)


def epsilon_units(value: Number, rounding: Rounding) -> int:
    """Epsilon in units of 1e-9."""
    return to_units(value, EPSILON_UNIT, rounding)


def delta_units(value: Number, rounding: Rounding) -> int:
    """Delta in units of 1e-18."""
    return to_units(value, DELTA_UNIT, rounding)


def rho_units(value: Number, rounding: Rounding) -> int:
    """Rho in units of 1e-18."""
    return to_units(value, RHO_UNIT, rounding)


def to_decimal(units: int, unit: int) -> Decimal:
    """`units/unit` exactly, without trailing zeros, whatever the ambient decimal context; `unit` is
    a power of ten."""
    return Decimal(display(units, unit))


def display(units: int, unit: int) -> str:
    """`units/unit` as people write it: all digits, no exponent (which `str` of a small Decimal
    would have)."""
    places = len(str(unit)) - 1
    if unit != 10**places:
        raise ValueError(f"not a power of ten: {unit}")
    sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(places + 1, "0")
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return f"{sign}{whole}.{part}" if part else f"{sign}{whole}"


def float_below(value: Fraction) -> float:
    """The largest double <= `value` (curves evaluated there err on the safe side)."""
    near = float(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


@dataclass(frozen=True, slots=True)
class Price:
    """What one mechanism costs, in two ways: for basic composition and for approximate zCDP.

    The mechanism is (epsilon, delta)-DP, and also delta_z-approximately rho-zCDP (Bun & Steinke
    2016). Every column adds up over an account, also when later requests depend on earlier answers;
    `filters` says what the sums mean.
    """

    epsilon: int
    delta: int
    rho: int
    delta_z: int

    def __post_init__(self) -> None:
        for name, units in self.columns().items():
            if not isinstance(units, int) or units < 0:
                raise ValueError(f"{name} is a count of units, never negative: {units!r}")

    def __add__(self, other: Price) -> Price:
        return Price(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.rho + other.rho,
            self.delta_z + other.delta_z,
        )

    def columns(self) -> dict[str, int]:
        """The four integers by name: what the ledger stores and the filters compare."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def zero(cls) -> Price:
        """The price of releasing nothing."""
        return cls(0, 0, 0, 0)

    @classmethod
    def rounded_up(
        cls,
        epsilon: Fraction,
        delta: Fraction = Fraction(0),
        rho: Fraction = Fraction(0),
        delta_z: Fraction = Fraction(0),
    ) -> Price:
        """The smallest price not below the given quantities."""
        return cls(
            epsilon_units(epsilon, "up"),
            delta_units(delta, "up"),
            rho_units(rho, "up"),
            delta_units(delta_z, "up"),
        )

    @classmethod
    def pure(cls, epsilon: int) -> Price:
        """epsilon-DP (units of 1e-9) is (epsilon²/2)-zCDP (Bun & Steinke 2016, Proposition 1.4)."""
        return cls(epsilon, 0, half_square(epsilon), 0)

    @classmethod
    def approximate(cls, epsilon: int, delta: int) -> Price:
        """(epsilon, delta)-DP is delta-approximately (epsilon²/2)-zCDP.

        Proof: P = (1-delta) P' + delta P'', Q = (1-delta) Q' + delta Q'' with P', Q'
        epsilon-indistinguishable (Murtagh & Vadhan 2016, Lemma 3.2, after Kairouz, Oh & Viswanath),
        then Proposition 1.4 for P', Q'.
        """
        return cls(epsilon, delta, half_square(epsilon), delta)

    def to_json(self) -> dict[str, str]:
        """Decimal strings of the integers: JSON numbers would lose digits beyond 2^53."""
        return {name: str(units) for name, units in self.columns().items()}

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Price:
        """The inverse of `to_json`. ValueError on any other shape."""
        names = [field.name for field in fields(cls)]
        if sorted(value) != sorted(names):
            raise ValueError(f"a price has the fields {', '.join(names)}")
        for name in names:
            text = value[name]
            if not (isinstance(text, str) and text.isascii() and text.isdigit()):
                raise ValueError(f"{name} is a decimal string of an integer: {text!r}")
        return cls(**{name: int(value[name]) for name in names})


def half_square(epsilon: int) -> int:
    """epsilon²/2 in units of 1e-18, rounded up; exact, because (1e-9)² is the unit of rho."""
    return (epsilon * epsilon + 1) // 2


# Zcdp ---------------------------------------------------------------------------------------------
# From zero-concentrated to approximate differential privacy: one conversion, for admission and for
# display.
#
# A delta_z-approximately rho-zCDP mechanism is (eps(rho, d'), d' + delta_z)-DP for every d' in (0,
# 1), where
#
# eps(rho, d') = min over a > 1 of rho a + ln(1 - 1/a) - ln(d' a)/(a - 1)
#
# (Canonne, Kamath & Steinke 2020, Proposition 12, at Rényi order a; dp_accounting's conversion,
# there on a grid of orders). Setting the derivative to zero gives rho (a-1)² = -ln(d' a), which has
# one root in (1, 1/d').
#
# EVERY order a gives a valid bound. So the root is found in floats, and the bound at that order is
# evaluated in 50-digit decimals: being flat at its optimum, it is then the optimum to about 1e-24,
# the same on every machine.

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

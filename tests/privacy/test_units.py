"""Integers from numbers: exact, and against the spender."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy.units import (
    DELTA_UNIT,
    EPSILON_UNIT,
    Price,
    Rounding,
    delta_units,
    display,
    epsilon_units,
    float_below,
    half_square,
    rho_units,
    to_decimal,
)

NUMBERS = st.one_of(
    st.floats(min_value=0, max_value=1e6, allow_nan=False),
    st.fractions(min_value=0, max_value=10**6),
    st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=25),
    st.integers(min_value=0, max_value=10**6),
)
UNITS = st.integers(min_value=0, max_value=10**30)
PRICES = st.builds(Price, UNITS, UNITS, UNITS, UNITS)


@given(NUMBERS)
def test_prices_round_up_and_caps_down(value: Decimal | Fraction | float | int) -> None:
    exact = Fraction(value)
    for convert, unit in (
        (epsilon_units, EPSILON_UNIT),
        (delta_units, DELTA_UNIT),
        (rho_units, DELTA_UNIT),
    ):
        up, down = convert(value, "up"), convert(value, "down")
        assert Fraction(down, unit) <= exact <= Fraction(up, unit)
        assert up - down == (0 if (exact * unit).denominator == 1 else 1)


def test_a_decimal_is_itself_and_a_float_is_the_double_that_it_is() -> None:
    assert (
        epsilon_units(Decimal("0.1"), "down") == epsilon_units(Decimal("0.1"), "up") == 100_000_000
    )
    assert epsilon_units(0.1, "up") == 100_000_001  # the double nearest to 0.1 lies above it
    assert delta_units(Decimal("1e-300"), "up") == 1
    assert delta_units(Decimal("1e-300"), "down") == 0


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -1e-300, Decimal("-0.1"), Decimal("NaN"), -1]
)
def test_what_is_negative_or_not_finite_is_refused(value: Decimal | float) -> None:
    with pytest.raises(ValueError, match=r"negative|finite|NaN|integer ratio"):
        epsilon_units(value, "up")


@given(UNITS)
def test_display_is_exact_and_without_exponent(units: int) -> None:
    shown = display(units, DELTA_UNIT)
    assert Fraction(shown) == Fraction(to_decimal(units, DELTA_UNIT)) == Fraction(units, DELTA_UNIT)
    assert "E" not in shown
    assert "." not in shown or not shown.endswith("0")


def test_display_of_small_and_negative_figures() -> None:
    assert display(1, DELTA_UNIT) == "0.000000000000000001"
    assert display(-1_500_000_000, EPSILON_UNIT) == "-1.5"
    assert display(0, EPSILON_UNIT) == "0"
    assert str(to_decimal(20 * EPSILON_UNIT, EPSILON_UNIT)) == "20"
    with pytest.raises(ValueError, match="power of ten"):
        to_decimal(1, 12)


@given(PRICES, PRICES, PRICES)
def test_sums_are_associative_commutative_and_have_a_zero(a: Price, b: Price, c: Price) -> None:
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Price.zero() == a


@given(PRICES)
def test_json_and_back(price: Price) -> None:
    assert Price.from_json(price.to_json()) == price


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"epsilon": "1", "delta": "0", "rho": "1"},
        {"epsilon": "-1", "delta": "0", "rho": "1", "delta_z": "0"},
        {"epsilon": "1.5", "delta": "0", "rho": "1", "delta_z": "0"},
        {"epsilon": 1, "delta": "0", "rho": "1", "delta_z": "0"},
        {"epsilon": "٣", "delta": "0", "rho": "1", "delta_z": "0"},
    ],
)
def test_other_json_is_refused(value: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"a price has|decimal string"):
        Price.from_json(value)


def test_a_price_is_never_negative() -> None:
    with pytest.raises(ValueError, match="never negative"):
        Price(-1, 0, 0, 0)


@given(st.integers(min_value=0, max_value=10**20))
def test_rho_of_a_pure_price_is_half_the_square_rounded_up(epsilon: int) -> None:
    assert half_square(epsilon) == math.ceil(Fraction(epsilon, EPSILON_UNIT) ** 2 / 2 * DELTA_UNIT)
    assert Price.pure(epsilon).rho == half_square(epsilon)


@given(st.fractions(min_value=0, max_value=10**12))
def test_float_below_is_the_nearest_double_not_above(value: Fraction) -> None:
    below = float_below(value)
    assert Fraction(below) <= value < Fraction(math.nextafter(below, math.inf))


@pytest.mark.parametrize(("rounding", "units"), [("down", 0), ("up", 1)])
def test_tiny_decimals_are_rounded_at_once(rounding: Rounding, units: int) -> None:
    """A fraction of this number would have a denominator of gigabytes."""
    assert delta_units(Decimal("1e-999999999"), rounding) == units
    assert delta_units(Decimal("0e-999999999"), rounding) == 0
    with pytest.raises(ValueError, match="negative"):
        delta_units(Decimal("-1e-999999999"), rounding)

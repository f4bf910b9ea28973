"""Privacy figures as people read them: four digits, and never rounded in the spender's favour.

What is spent, reserved or asked for is rounded up; what remains, and the largest request, down.
Caps are shown exactly.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, to_decimal

DIGITS = 4
SMALL = Decimal("0.001")
"""Below this a figure is written with an exponent."""


def up(value: object) -> str:
    """Four digits, rounded up."""
    return _shown(_decimal(value), ROUND_CEILING)


def down(value: object) -> str:
    """Four digits, rounded down."""
    return _shown(_decimal(value), ROUND_FLOOR)


def factor(value: object) -> str:
    """e to the power of an epsilon, rounded up."""
    return up(_decimal(value).exp())


def exact(value: object) -> str:
    """All digits."""
    return _written(_decimal(value))


def epsilon(units: object) -> Decimal:
    """Epsilon from the ledger's units of 1e-9 (integers, or decimal strings of them)."""
    return to_decimal(int(str(units)), EPSILON_UNIT)


def delta(units: object) -> Decimal:
    """Delta from the ledger's units of 1e-18."""
    return to_decimal(int(str(units)), DELTA_UNIT)


def _decimal(value: object) -> Decimal:
    # A float's shortest text is the decimal that the API's figure was made from.
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _shown(value: Decimal, rounding: str) -> str:
    if value == 0:
        return "0"
    quantum = Decimal(1).scaleb(value.adjusted() - DIGITS + 1)
    if value.as_tuple().exponent < quantum.as_tuple().exponent:  # type: ignore[operator] # no NaN comes here
        value = value.quantize(quantum, rounding=rounding)
    return _written(value)


def _written(value: Decimal) -> str:
    value = value.normalize()
    if value == 0:
        return "0"
    if abs(value) >= SMALL:
        return f"{value:f}"
    sign, digits, _ = value.as_tuple()
    mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{value.adjusted()}"

"""Interval arithmetic with outward rounding.

    bounds(expression, box)   -> Interval    # for all boxes at once

Nothing is sampled: bounds hold for every point of the box (Moore, Kearfott & Cloud 2009,
"Introduction to Interval Analysis"). +, -, *, / and sqrt of IEEE 754 are correctly rounded, so one
step outward contains the exact result; exp, log and pow of the C library and of NumPy stay within 4
units in the last place, and are widened by 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet_agent.expressions import (
    Call,
    Expression,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Variable,
)

Floats = NDArray[np.float64]
Box = Mapping[str, tuple[float, float]]
"""Lower and upper bound of each variable, finite."""


LIBRARY_ULPS = 8


@dataclass
class Work:
    """The shared budget of evaluations of many suprema, in boxes times nodes. Once it is used up
    each evaluates only its whole box: the result is certified, but above the supremum."""

    left: int


class Interval(NamedTuple):
    """Ends of N intervals: float64[N] each, perhaps infinite. Outside a function's domain: all
    reals."""

    low: Floats
    high: Floats


def bounds(
    expression: Expression, box: Mapping[str, Interval], known: dict[int, Interval] | None = None
) -> Interval:
    """An interval that contains all values of `expression` on each of N boxes, given as one
    interval per variable.

    `known`: intervals of nodes by their id, shared between expressions with common nodes on the
    same boxes.
    """
    known = {} if known is None else known
    size = next(iter(box.values())).low.size if box else 1

    def of(node: Expression) -> Interval:
        if id(node) not in known:
            known[id(node)] = rule(node)
        return known[id(node)]

    def rule(node: Expression) -> Interval:
        match node:
            case Number():
                return Interval(np.full(size, node.value), np.full(size, node.value))
            case Variable():
                return box[node.name]
            case Sum():
                total = of(node.terms[0])
                for term in node.terms[1:]:
                    total = add(total, of(term))
                return total
            case Negation():
                inner = of(node.argument)
                return Interval(-inner.high, -inner.low)
            case Product():
                product = of(node.factors[0])
                for factor in node.factors[1:]:
                    product = multiply(product, of(factor))
                return product
            case Quotient():
                return multiply(of(node.numerator), _reciprocal(of(node.denominator)))
            case Power():
                return _power(of(node.base), node.exponent)
            case Call():
                return _CALLS[node.function](of(node.argument))
        raise TypeError(type(node).__name__)

    with np.errstate(all="ignore"):
        return of(expression)


def value_bounds(expression: Expression, box: Box) -> tuple[float, float]:
    """As `bounds`, for one box of plain numbers."""
    interval = bounds(expression, {name: single(*box[name]) for name in expression.names})
    return float(interval.low[0]), float(interval.high[0])


def single(low: float, high: float) -> Interval:
    return Interval(np.array([low], dtype=np.float64), np.array([high], dtype=np.float64))


def _outward(low: Floats, high: Floats, ulps: int = 1) -> Interval:
    """Both ends moved out by `ulps`; an end that is not a number is unbounded."""
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    for _ in range(ulps):
        low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    return Interval(low, high)


def _unbounded_where(outside: NDArray[np.bool_], interval: Interval) -> Interval:
    return Interval(
        np.where(outside, -np.inf, interval.low), np.where(outside, np.inf, interval.high)
    )


def add(a: Interval, b: Interval) -> Interval:
    # Exact sums are not widened: sqrt(x + 10) on [-10, 10] must not see a negative number.
    low, high = a.low + b.low, a.high + b.high
    out = _outward(low, high)
    below, above = _sum_error(a.low, b.low, low), _sum_error(a.high, b.high, high)
    return Interval(np.where(below >= 0, low, out.low), np.where(above <= 0, high, out.high))


def _sum_error(a: Floats, b: Floats, total: Floats) -> Floats:
    """a + b - total, exactly (Knuth's TwoSum); NaN where anything is infinite."""
    part: Floats = total - a
    return (a - (total - part)) + (b - part)


def multiply(a: Interval, b: Interval) -> Interval:
    # 0 times an unbounded end is 0: the end is approached, not reached.
    corners = np.stack([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
    zero = np.stack([(a.low == 0) | (b.low == 0), (a.low == 0) | (b.high == 0)])
    zero = np.concatenate(
        [zero, np.stack([(a.high == 0) | (b.low == 0), (a.high == 0) | (b.high == 0)])]
    )
    corners = np.where(zero, 0.0, corners)
    exact = np.all(zero | (np.abs(corners) == 0), axis=0)
    out = _outward(corners.min(axis=0), corners.max(axis=0))
    return Interval(np.where(exact, 0.0, out.low), np.where(exact, 0.0, out.high))


def _reciprocal(a: Interval) -> Interval:
    return _unbounded_where((a.low <= 0) & (a.high >= 0), _outward(1 / a.high, 1 / a.low))


def _natural_power(base: Floats, exponent: int, toward: float) -> Floats:
    """base^exponent for base >= 0, every multiplication rounded toward `toward` (0 or infinity)."""
    result: Floats | None = None
    square = base
    while True:
        if exponent % 2:
            result = square if result is None else np.nextafter(result * square, toward)
        exponent //= 2
        if not exponent:
            assert result is not None
            return result
        square = np.nextafter(square * square, toward)


def _power(a: Interval, exponent: float) -> Interval:
    if exponent == 0:
        return Interval(np.ones_like(a.low), np.ones_like(a.low))
    if exponent < 0:
        return _reciprocal(_power(a, -exponent))
    if exponent != int(exponent):
        out = _outward(np.power(a.low, exponent), np.power(a.high, exponent), LIBRARY_ULPS)
        return _unbounded_where(a.low < 0, Interval(np.maximum(out.low, 0.0), out.high))
    n = int(exponent)
    if n % 2:

        def odd(x: Floats, outward: float) -> Floats:
            # Away from zero if the end is on the far side of zero from the inside of the interval.
            grow = np.where(np.sign(x) == np.sign(outward), np.inf, 0.0)
            return np.where(
                grow > 0, _natural_power(np.abs(x), n, np.inf), _natural_power(np.abs(x), n, 0.0)
            ) * np.sign(x)

        return Interval(odd(a.low, -1.0), odd(a.high, 1.0))
    least = np.where((a.low <= 0) & (a.high >= 0), 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
    most = np.maximum(np.abs(a.low), np.abs(a.high))
    return Interval(_natural_power(least, n, 0.0), _natural_power(most, n, np.inf))


def _exp(a: Interval) -> Interval:
    out = _outward(np.exp(a.low), np.exp(a.high), LIBRARY_ULPS)
    return Interval(np.maximum(out.low, 0.0), out.high)


def _log(a: Interval) -> Interval:
    return _unbounded_where(a.low <= 0, _outward(np.log(a.low), np.log(a.high), LIBRARY_ULPS))


def _sqrt(a: Interval) -> Interval:
    out = _outward(np.sqrt(a.low), np.sqrt(a.high))
    return _unbounded_where(a.low < 0, Interval(np.maximum(out.low, 0.0), out.high))


def _abs(a: Interval) -> Interval:
    least = np.where((a.low <= 0) & (a.high >= 0), 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
    return Interval(least, np.maximum(np.abs(a.low), np.abs(a.high)))


def _sign(a: Interval) -> Interval:
    return Interval(np.sign(a.low), np.sign(a.high))


def _jump(a: Interval) -> Interval:
    zero = np.zeros_like(a.low)
    return _unbounded_where((a.low <= 0) & (a.high >= 0), Interval(zero, zero))


_CALLS = {"exp": _exp, "log": _log, "sqrt": _sqrt, "abs": _abs, "sign": _sign, "jump": _jump}

"""Interval arithmetic with outward rounding, and certified suprema of expressions over a box.

    bounds(expression, box)   -> Interval    # of all boxes at once
    supremum(expression, box) -> Supremum(lower, upper, point)
                                             # lower <= sup <= upper, by branch and bound

Nothing is sampled: `upper` holds for every point of the box (Moore, Kearfott & Cloud 2009,
"Introduction to Interval Analysis"). +, -, *, / and sqrt of IEEE 754 are correctly rounded, so one
step outward contains the exact result; exp, log and pow of the C library and of NumPy stay within 4
units in the last place, and get 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument
from discreet_client.expressions import (
    Call,
    Expression,
    ExpressionError,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Variable,
    derivative,
)

Floats = NDArray[np.float64]
Box = Mapping[str, tuple[float, float]]
"""Lower and upper bound of each variable, finite."""

TOLERANCE = 1e-7
"""Relative distance of the two sides of a supremum, when not told otherwise."""

SMALLEST = 1e-12
"""Distance of the two sides that is small enough, whatever the supremum."""

MOST_BOXES = 50_000
"""Boxes that one supremum may look at. Where they do not suffice, `upper` is certified, but above
the supremum."""

MOST_WORK = 3_000_000
"""Boxes times nodes of the expression and its derivatives that one supremum may evaluate: a second
at most."""

MOST_UNBOUNDED = 4_000
"""Boxes looked at before a supremum that is still infinite is taken for it."""

AT_ONCE = 256
LIBRARY_ULPS = 8


@dataclass
class Work:
    """What many suprema together may evaluate, in boxes times nodes. Once it is used up each looks
    at its whole box alone: what comes out is certified, but above the supremum."""

    left: int


class Interval(NamedTuple):
    """Ends of N intervals: float64[N] each, perhaps infinite. Outside a function's domain: all
    reals."""

    low: Floats
    high: Floats


@dataclass(frozen=True)
class Supremum:
    """`lower` <= sup over the box <= `upper`, both certified; `lower` is reached at `point`, up to
    its rounding."""

    lower: float
    upper: float
    point: Mapping[str, float]


def bounds(
    expression: Expression, box: Mapping[str, Interval], known: dict[int, Interval] | None = None
) -> Interval:
    """An interval that contains all values of `expression` on each of N boxes, given as an interval
    a variable.

    `known`: intervals of nodes by their id, to share between expressions that share nodes, on the
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
                    total = _add(total, of(term))
                return total
            case Negation():
                inner = of(node.argument)
                return Interval(-inner.high, -inner.low)
            case Product():
                product = of(node.factors[0])
                for factor in node.factors[1:]:
                    product = _multiply(product, of(factor))
                return product
            case Quotient():
                return _multiply(of(node.numerator), _reciprocal(of(node.denominator)))
            case Power():
                return _power(of(node.base), node.exponent)
            case Call():
                return _CALLS[node.function](of(node.argument))
        raise TypeError(type(node).__name__)

    with np.errstate(all="ignore"):
        return of(expression)


def value_bounds(expression: Expression, box: Box) -> tuple[float, float]:
    """As `bounds`, for one box of plain numbers."""
    interval = bounds(expression, {name: _single(*box[name]) for name in expression.names})
    return float(interval.low[0]), float(interval.high[0])


def _single(low: float, high: float) -> Interval:
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


def _add(a: Interval, b: Interval) -> Interval:
    # Exact sums stay as they are: sqrt(x + 10) on [-10, 10] must not see a negative number.
    low, high = a.low + b.low, a.high + b.high
    out = _outward(low, high)
    below, above = _sum_error(a.low, b.low, low), _sum_error(a.high, b.high, high)
    return Interval(np.where(below >= 0, low, out.low), np.where(above <= 0, high, out.high))


def _sum_error(a: Floats, b: Floats, total: Floats) -> Floats:
    """a + b - total, exactly (Knuth's TwoSum); NaN where anything is infinite."""
    part: Floats = total - a
    return (a - (total - part)) + (b - part)


def _multiply(a: Interval, b: Interval) -> Interval:
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
    """base^exponent for base >= 0, every multiplication rounded on toward `toward` (0 or
    infinity)."""
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
            # Away from zero where the end is on the far side of zero from the inside of the
            # interval.
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


# Suprema ------------------------------------------------------------------------------------------


def supremum(
    expression: Expression,
    box: Box,
    *,
    tolerance: float = TOLERANCE,
    most_boxes: int = MOST_BOXES,
    together: Work | None = None,
) -> Supremum:
    """The supremum of `expression` over `box`, to `tolerance` relative where `most_boxes` suffice.

    Best-first branch and bound. A box's bound is the better of the natural and the mean-value form;
    where a partial derivative keeps its sign on a box, the box shrinks to its better face (Kearfott
    1996, "Rigorous Global Search"). `together`: shared with other suprema. Raises InvalidArgument
    for a box that is empty or not bounded.
    """
    names = sorted(expression.names)
    for name in names:
        low, high = box[name]
        if not -np.inf < low <= high < np.inf:
            raise InvalidArgument(f"the bounds of {name} are not finite numbers in order")
    if not names:
        low, high = value_bounds(expression, {})
        return Supremum(low, high, {})
    slopes = _slopes(expression, names)
    work = expression.size + sum(slope.size for slope in slopes if slope is not None)
    most_boxes = min(most_boxes, 1 + MOST_WORK // work)
    if together is not None:
        most_boxes = min(most_boxes, 1 + max(together.left, 0) // work)
    ends = np.array([box[name] for name in names], dtype=np.float64)
    lows, highs = ends[:, :1], ends[:, 1:]
    uppers = np.array([np.inf])
    waiting = lows[:, :0], highs[:, :0], uppers[:0]
    best, best_point, looked = -np.inf, 0.5 * (lows[:, 0] + highs[:, 0]), 0
    while True:
        lows, highs, uppers, value, point = _examined(
            expression, names, slopes, lows, highs, uppers
        )
        looked += uppers.size
        if value > best:
            best, best_point = value, point
        lows = np.concatenate([waiting[0], lows], axis=1)
        highs = np.concatenate([waiting[1], highs], axis=1)
        uppers = np.concatenate([waiting[2], uppers])
        keep = uppers > best
        lows, highs, uppers = lows[:, keep], highs[:, keep], uppers[keep]
        upper = max(float(uppers.max(initial=-np.inf)), best)
        hopeless = upper == np.inf and looked >= MOST_UNBOUNDED
        splittable = bool(uppers.size) and bool(np.any(highs - lows > 0))
        if (
            upper - best <= max(tolerance * abs(best), SMALLEST)
            or looked >= most_boxes
            or hopeless
            or not splittable
        ):
            break
        order = np.argsort(-uppers, kind="stable")
        chosen, rest = order[:AT_ONCE], order[AT_ONCE:]
        waiting = (lows[:, rest], highs[:, rest], uppers[rest])
        lows, highs, uppers = _split(lows[:, chosen], highs[:, chosen], uppers[chosen])
    if together is not None:
        together.left -= looked * work
    return Supremum(float(best), upper, dict(zip(names, best_point.tolist(), strict=True)))


def _slopes(expression: Expression, names: list[str]) -> list[Expression | None]:
    found: list[Expression | None] = []
    for name in names:
        try:
            found.append(derivative(expression, name))
        except ExpressionError:
            found.append(None)  # too large: this variable goes without
    return found


def _examined(
    expression: Expression,
    names: list[str],
    slopes: list[Expression | None],
    lows: Floats,
    highs: Floats,
    old: Floats,
) -> tuple[Floats, Floats, Floats, float, Floats]:
    """The boxes shrunk to better faces, their upper bounds, and the best value at a point with that
    point."""
    lows, highs = lows.copy(), highs.copy()
    boxes = {name: Interval(lows[i].copy(), highs[i].copy()) for i, name in enumerate(names)}
    known: dict[int, Interval] = {}  # a derivative shares most of its nodes with the others
    ranges = [None if slope is None else bounds(slope, boxes, known) for slope in slopes]
    for i, slope in enumerate(ranges):
        if slope is not None:
            lows[i] = np.where(slope.low >= 0, highs[i], lows[i])
            highs[i] = np.where((slope.high <= 0) & (slope.low < 0), lows[i], highs[i])
    boxes = {name: Interval(lows[i], highs[i]) for i, name in enumerate(names)}
    middle = np.clip(0.5 * (lows + highs), lows, highs)
    at_middle = bounds(
        expression, {name: Interval(middle[i], middle[i]) for i, name in enumerate(names)}
    )
    upper = bounds(expression, boxes).high
    with np.errstate(all="ignore"):
        mean_value = at_middle
        for i, slope in enumerate(ranges):
            # The old, larger box's slopes hold on the shrunken one as well.
            shift = Interval(
                np.nextafter(lows[i] - middle[i], -np.inf),
                np.nextafter(highs[i] - middle[i], np.inf),
            )
            flat = highs[i] == lows[i]
            shift = Interval(np.where(flat, 0.0, shift.low), np.where(flat, 0.0, shift.high))
            slope = slope or _single(-np.inf, np.inf)  # noqa: PLW2901
            mean_value = _add(mean_value, _multiply(slope, shift))
    upper = np.minimum(
        np.minimum(upper, np.where(np.isnan(mean_value.high), np.inf, mean_value.high)), old
    )
    # Suprema of convex functions are at vertices: one of each box is tried as well, uphill as far
    # as slopes can tell.
    with np.errstate(all="ignore"):
        downhill = np.array(
            [
                np.zeros(old.size, bool) if slope is None else slope.low + slope.high < 0
                for slope in ranges
            ]
        )
    vertex = np.where(downhill, lows, highs)
    at_vertex = bounds(
        expression, {name: Interval(vertex[i], vertex[i]) for i, name in enumerate(names)}
    )
    lower, candidates = (
        np.concatenate([at_middle.low, at_vertex.low]),
        np.concatenate([middle, vertex], axis=1),
    )
    position = int(np.argmax(lower))
    return lows, highs, upper, float(lower[position]), candidates[:, position]


def _split(lows: Floats, highs: Floats, uppers: Floats) -> tuple[Floats, Floats, Floats]:
    """Every box in two halves, across its longest side."""
    columns = np.arange(uppers.size)
    side = np.argmax(highs - lows, axis=0)
    middle = 0.5 * (lows[side, columns] + highs[side, columns])
    left_highs, right_lows = highs.copy(), lows.copy()
    left_highs[side, columns], right_lows[side, columns] = middle, middle
    return (
        np.concatenate([lows, right_lows], axis=1),
        np.concatenate([left_highs, highs], axis=1),
        np.concatenate([uppers, uppers]),
    )

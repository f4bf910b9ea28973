"""Certified suprema of expressions over a box, by branch and bound on intervals.

    supremum(expression, box) -> Supremum(lower, upper, point)    # lower <= sup <= upper

Nothing is sampled: `upper` holds for every point of the box.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle.intervals import (
    Box,
    Floats,
    Interval,
    Work,
    add,
    bounds,
    multiply,
    single,
    value_bounds,
)
from discreet_agent.expressions import Expression, ExpressionError, derivative

TOLERANCE = 1e-7
"""Default relative distance of the two sides of a supremum."""
SMALLEST = 1e-12
"""Absolute distance of the two sides that always suffices."""
MOST_BOXES = 50_000
"""The most boxes that one supremum may evaluate. If they do not suffice, `upper` is certified, but
above the supremum."""
MOST_WORK = 3_000_000
"""Boxes times nodes of the expression and its derivatives that one supremum may evaluate: at most a
second."""
MOST_UNBOUNDED = 4_000
"""Number of boxes after which a supremum that is still infinite is taken to be infinite."""
AT_ONCE = 256


@dataclass(frozen=True)
class Supremum:
    """`lower` <= sup over the box <= `upper`, both certified; `lower` is reached at `point`, up to
    its rounding."""

    lower: float
    upper: float
    point: Mapping[str, float]


def supremum(
    expression: Expression,
    box: Box,
    *,
    tolerance: float = TOLERANCE,
    most_boxes: int = MOST_BOXES,
    together: Work | None = None,
) -> Supremum:
    """The supremum of `expression` over `box`, to the relative `tolerance` if `most_boxes` suffice.

    Best-first branch and bound. A box's bound is the better of the natural and the mean-value form;
    if a partial derivative has one sign on a box, the box shrinks to its better face (Kearfott
    1996, "Rigorous Global Search"). `together`: the budget shared with other suprema. Raises
    InvalidArgument for a box that is empty or unbounded.
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
            found.append(None)  # too large: this variable has no derivative
    return found


def _examined(
    expression: Expression,
    names: list[str],
    slopes: list[Expression | None],
    lows: Floats,
    highs: Floats,
    old: Floats,
) -> tuple[Floats, Floats, Floats, float, Floats]:
    """The boxes shrunk to better faces, their upper bounds, and the best value at a point, with
    that point."""
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
            slope = slope or single(-np.inf, np.inf)  # noqa: PLW2901
            mean_value = add(mean_value, multiply(slope, shift))
    upper = np.minimum(
        np.minimum(upper, np.where(np.isnan(mean_value.high), np.inf, mean_value.high)), old
    )
    # Suprema of convex functions are at vertices: one vertex of each box is tried too, the one that
    # the slopes point to.
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
    """Every box split in half along its longest side."""
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

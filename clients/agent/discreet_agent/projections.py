"""Projections on the convex sets of vector states: a box, and within it a budget, a ball or a
polytope.

    onto_budget(point, lower, upper, least, most)     lower <= x <= upper, least <= sum x <= most
    onto_ball(point, lower, upper, centre, radius)    lower <= x <= upper, |x - centre| <= radius
    onto_polytope(point, lower, upper, R, least, most)   lower <= x <= upper, least <= R x <= most

By the optimality conditions the first two are functions of one number: for a budget x = clip(v -
nu), nu the multiplier of the sum; for a ball x = centre + clip(t (v - centre)), t = 1/(1 +
multiplier). The sum, or the distance, is monotone in this number, and each coordinate is piecewise
linear in it. So the piece is found among sorted breakpoints and the number in closed form, without
iteration to a tolerance. The result lies in the box exactly, and in the budget or ball up to
rounding. A polytope has a multiplier for each row, so it takes an interior-point method
(`discreet_agent.convex_programs`). `discreet.solvers.saddle.set_kernels` projects onto the same
sets, compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FARTHEST = 1e9
"""Coordinates are clipped to this magnitude first, since larger ones lose their differences."""


def onto_budget(point: Floats, lower: Floats, upper: Floats, least: float, most: float) -> Floats:
    """The nearest point of a box whose sum is between `least` and `most`; such points must
    exist."""
    nearest: Floats = np.clip(point, lower, upper)
    total = float(nearest.sum())
    if least <= total <= most:
        return nearest
    target = least if total < least else most
    breaks = np.sort(np.concatenate([point - upper, point - lower]))
    # The sum falls with nu: the piece begins at the last break where it is at least the target.
    first = _last(lambda nu: float(np.clip(point - nu, lower, upper).sum()) >= target, breaks)
    begin, end = breaks[max(first, 0)], breaks[min(first + 1, len(breaks) - 1)]
    middle = point - 0.5 * (begin + end)
    free = (middle > lower) & (middle < upper)
    nu = begin
    if free.any():
        fixed = float(np.clip(middle, lower, upper)[~free].sum())
        nu = min(max((float(point[free].sum()) + fixed - target) / int(free.sum()), begin), end)
    found: Floats = np.clip(point - nu, lower, upper)
    return found


def onto_ball(point: Floats, lower: Floats, upper: Floats, centre: Floats, radius: float) -> Floats:
    """The nearest point of a box within `radius` of `centre`; such points must exist."""
    away, low, high = point - centre, lower - centre, upper - centre
    if float(np.linalg.norm(np.clip(away, low, high))) <= radius:
        return np.clip(point, lower, upper)
    moving = away != 0
    ends = np.concatenate([low[moving] / away[moving], high[moving] / away[moving]])
    breaks = np.concatenate([[0.0], np.sort(ends[(ends > 0) & (ends < 1)]), [1.0]])
    # The distance grows with t.
    first = _last(lambda t: float(np.linalg.norm(np.clip(t * away, low, high))) <= radius, breaks)
    begin, end = breaks[max(first, 0)], breaks[min(first + 1, len(breaks) - 1)]
    middle = 0.5 * (begin + end) * away
    free = (middle > low) & (middle < high) & moving
    t = begin
    if free.any():
        fixed = float((np.clip(middle, low, high)[~free] ** 2).sum())
        t = min(
            max(float(np.sqrt(max(radius**2 - fixed, 0.0) / (away[free] ** 2).sum())), begin), end
        )
    found: Floats = np.clip(centre + np.clip(t * away, low, high), lower, upper)
    return found


class _Polytope(NamedTuple):
    """The `Rows` that `convex_minimum` takes."""

    sides: tuple[Floats, Floats]
    rows: tuple[Floats, Floats, Floats]


def onto_polytope(
    point: Floats, lower: Floats, upper: Floats, R: Floats, least: Floats, most: Floats
) -> Floats:
    """The nearest point of a box with `least <= R x <= most`, R float64[r, k]; such points must
    exist."""
    nearest: Floats = np.clip(point, lower, upper)
    reached = R @ nearest
    if bool(np.all((least <= reached) & (reached <= most))):
        return nearest
    from discreet_agent.convex_programs import convex_minimum  # noqa: PLC0415 - polytopes are rare

    far = np.clip(point, -FARTHEST, FARTHEST)
    rows = _Polytope((lower, upper), (R, least, most))
    return convex_minimum(rows, np.eye(far.size), -far, (), nearest)


def polytope_rows(polytope: dict[str, Any], size: int) -> tuple[Floats, Floats, Floats]:
    """R float64[r, size], least and most float64[r] of the rows `A x <= b` and `C x = d`, either of
    which may be left out."""
    A, C = (np.array(polytope.get(name) or [], dtype=np.float64).reshape(-1, size) for name in "AC")
    b, d = (np.array(polytope.get(name) or [], dtype=np.float64) for name in "bd")
    least = np.concatenate([np.full(b.shape, -np.inf), d])
    return np.vstack([A, C]), least, np.concatenate([b, d])


def onto(point: Floats, lower: Floats, upper: Floats, within: dict[str, Any] | None) -> Floats:
    """The nearest point of a box and of a set in the form in which agents announce it: `{"budget":
    {"lower", "upper"}}`, `{"ball": {"centre", "radius"}}`, `{"polytope": {"A", "b", "C", "d"}}`, or
    None for the box alone."""
    if within is None:
        return np.clip(point, lower, upper)
    if "polytope" in within:
        return onto_polytope(point, lower, upper, *polytope_rows(within["polytope"], point.size))
    if "budget" in within:
        return onto_budget(
            point, lower, upper, within["budget"]["lower"], within["budget"]["upper"]
        )
    ball = within["ball"]
    return onto_ball(
        point, lower, upper, np.array(ball["centre"], dtype=np.float64), ball["radius"]
    )


def _last(holds: Callable[[float], bool], breaks: Floats) -> int:
    """Position of the last break at which `holds` is true, for a condition that is true up to some
    break and false beyond; -1 if it is true at none."""
    below, above = -1, len(breaks)
    while above - below > 1:
        middle = (below + above) // 2
        if holds(float(breaks[middle])):
            below = middle
        else:
            above = middle
    return below

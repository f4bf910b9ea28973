"""One agent's best response to a price, from its own data; and its optimum, from the quantities
that were opened to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]

ROWS = ("high", "low", "lower", "upper", "base", "fall")
"""Rows of an agent's input, in this order; see `prices.Responses`."""

ROUNDING = 1e-9
"""Relative tolerance of the bounds, which were written down with limited precision."""


@dataclass(frozen=True)
class Response:
    """One agent's input: `rows` float64[6, hours], in units of reach and price; `x_of` turns the
    quantities that were opened to the agent into its optimum."""

    rows: Floats
    _effect: Floats
    _coupled: NDArray[np.bool_]
    _alone: Floats
    _lower: Floats
    _upper: Floats
    _reach: float

    def x_of(self, quantities: Floats) -> Floats:
        """This agent's variables, inside its box: float64[hours]."""
        inside = np.clip(np.asarray(quantities) * self._reach, self._lower, self._upper)
        effect = np.where(self._coupled, self._effect, 1.0)
        return np.where(self._coupled, inside / effect, self._alone)


def response(terms: Terms, A_u: Floats, A_g: Floats, cost: QuadraticCost, box: Box) -> Response:
    """An agent's input to the computation. ValueError, which says what does not fit, unless there
    is one variable per hour, it enters only its own hour's sum, and cost and limit alike, the cost
    is a sum over hours, and the bounds of the terms are kept."""
    hours = terms.hours
    a_l = np.asarray(cost.a_l, dtype=np.float64)
    if a_l.size != hours:
        raise ValueError(f"one variable per hour is needed, {hours} of them; a_l has {a_l.size}")
    effect = effect_of(terms, A_u, A_g)
    A_q = np.asarray(cost.A_q, dtype=np.float64).reshape(-1, hours)
    bends = 2 * A_q.T @ A_q
    curvature = np.diag(bends).copy()
    if np.any(
        np.abs(bends - np.diag(curvature))
        > ROUNDING * max(float(np.max(curvature)), np.finfo(float).tiny)
    ):
        raise ValueError(
            "A_q couples hours, and these terms have no iterations: every hour is solved by itself"
        )
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), hours)
        for side in (box.lower, box.upper)
    )
    if not np.all(np.isfinite([low, high])) or np.any(low > high):
        raise ValueError("every variable needs a lower and an upper bound, in this order")
    coupled = effect != 0
    alone = _alone(curvature, a_l, low, high)
    safe = np.where(coupled, effect, 1.0)
    ends = np.sort(np.stack([low * effect, high * effect]), axis=0)
    lower, upper = np.where(coupled, ends, 0.0)
    moves = coupled & (lower < upper)
    bend, slope = curvature / safe**2, a_l / safe
    _check_bounds(
        terms,
        bend[moves],
        np.concatenate([lower, upper]),
        _turns(bend, slope, lower, upper)[:, moves],
    )
    turns = np.where(moves, _turns(bend, slope, lower, upper) / terms.price, 0.0)
    fall = np.where(moves, terms.price / (terms.reach * np.where(moves, bend, 1.0)), 0.0)
    upper_part = upper / terms.reach
    rows = np.stack(
        [turns[0], turns[1], lower / terms.reach, upper_part, upper_part + fall * turns[0], fall]
    )
    return Response(rows, effect, coupled, alone, lower, upper, terms.reach)


def effect_of(terms: Terms, A_u: Floats, A_g: Floats) -> Floats:
    """The coefficient of each variable in its hour's sum: float64[hours]."""
    matrices = []
    for name, matrix, asked in (("A_u", A_u, terms.coupled), ("A_g", A_g, terms.limited)):
        found = np.asarray(matrix, dtype=np.float64)
        if not asked:
            if found.size:
                raise ValueError(f"{name} has rows, but the sums of this session have no such part")
            continue
        if found.shape != (terms.hours, terms.hours) or np.any(found != np.diag(np.diag(found))):
            raise ValueError(
                f"{name} must be a diagonal matrix of {terms.hours} rows: each variable enters "
                "only its own hour's sum"
            )
        if not np.all(np.isfinite(found)):
            raise ValueError(f"{name} holds numbers that are not finite")
        matrices.append(np.diag(found))
    if len(matrices) == 2 and np.any(matrices[0] != matrices[1]):
        raise ValueError("A_u and A_g differ: cost and limit must apply to the same sums")
    return matrices[0]


def _alone(curvature: Floats, a_l: Floats, low: Floats, high: Floats) -> Floats:
    """The optimum of variables that enter no sum."""
    flat = curvature <= 0
    bent = np.clip(-a_l / np.where(flat, 1.0, curvature), low, high)
    return np.where(flat, np.where(a_l > 0, low, high), bent)


def _turns(bend: Floats, slope: Floats, lower: Floats, upper: Floats) -> Floats:
    """[2, hours]: the price up to which the agent stays at its upper bound, and the price from
    which on it stays at its lower one."""
    return np.stack([-(slope + bend * upper), -(slope + bend * lower)])


def _check_bounds(terms: Terms, bend: Floats, ends: Floats, turns: Floats) -> None:
    for name, found, bound in (
        ("reach", np.max(np.abs(ends), initial=0.0), terms.reach),
        ("price", np.max(np.abs(turns), initial=0.0), terms.price),
        ("most_curvature", np.max(bend, initial=0.0), terms.most_curvature),
    ):
        if found > bound * (1 + ROUNDING):
            raise ValueError(
                f"this agent's data reach {found:g}, beyond the signed {name} {bound:g}"
            )
    least = np.min(bend, initial=np.inf)
    if least < terms.least_curvature * (1 - ROUNDING):
        raise ValueError(
            f"the curvature of this agent's cost is {least:g}, below the signed "
            f"least_curvature {terms.least_curvature:g}"
        )

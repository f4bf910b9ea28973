"""The minimum of a smooth convex function over a polyhedron, for the few variables that an agent
has.

A primal-dual interior-point method (Wright 1997; Boyd & Vandenberghe 2004, section 11.7) follows
the central path, and Newton steps on the active rows then bring the answer to rounding: the path
alone would leave an error of the square root of its tolerance where an active row has multiplier
zero. The problem must be scaled, with variables and gradient of about one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_STEPS = 80
MOST_HALVINGS = 30
MOST_CORRECTIONS = 8
"""Steps on the active rows at the end; multipliers and slacks decide which are active next."""
ROUNDING = 1e-15
END = 1e-13
"""The path ends when residuals and the mean product of slacks and multipliers are at most this."""
NARROW = 1e-2
"""A row with less slack than this at the start begins with slack 1 instead."""
TO_THE_BOUNDARY = 0.99
"""A step goes at most this fraction of the way to the boundary."""
SUFFICIENT = 1e-3
"""The sufficient-decrease constant of the line search."""
RIDGE = 1e-14
"""Regularization of the Newton matrix, relative to its largest diagonal entry."""


class Polyhedron(NamedTuple):
    """`G z <= h` and `E z = e`: float64[m, n], float64[m], float64[l, n], float64[l]."""

    G: Floats
    h: Floats
    E: Floats
    e: Floats


class _Point(NamedTuple):
    """z, slacks s > 0 and multipliers `rows` of G's rows, and multipliers `equal` of E's rows."""

    z: Floats
    s: Floats
    rows: Floats
    equal: Floats

    def moved(self, by: _Point, length: float) -> _Point:
        return _Point(*(one + length * step for one, step in zip(self, by, strict=True)))


def minimum(
    gradient: Callable[[Floats], Floats],
    hessian: Callable[[Floats], Floats],
    within: Polyhedron,
    start: Floats,
) -> Floats:
    """The minimum, float64[n]. Rows that have more slack than `NARROW` at `start` hold at every
    point where the function is evaluated, except for rounding and the last corrections. The
    polyhedron must not be empty: otherwise the result violates its rows."""
    search = _Search(gradient, hessian, within)
    with np.errstate(all="ignore"):  # trial points may lie outside; they are rejected
        return search.corrected(search.followed(start)).z


class _Search:
    def __init__(
        self,
        gradient: Callable[[Floats], Floats],
        hessian: Callable[[Floats], Floats],
        within: Polyhedron,
    ) -> None:
        self._gradient, self._hessian, self._within = gradient, hessian, within

    def followed(self, start: Floats) -> _Point:
        """The end of the central path from `start`."""
        G, h, E, _ = self._within
        room = h - G @ start
        s = np.where(room > NARROW, room, 1.0)
        at = _Point(start, s, 0.1 / s, np.zeros(E.shape[0]))
        if h.size == 0:
            return at
        for _ in range(MOST_STEPS):
            apart = self._residuals(at)
            product = float(at.s @ at.rows) / h.size
            largest = max(float(np.max(np.abs(one), initial=0.0)) for one in apart)
            if max(largest, product) <= END:
                break
            solve = self._newton(at)
            straight = solve(*apart, at.s * at.rows)
            reach = _reach(at, straight)
            onward = at.moved(straight, reach)
            target = product * max(float(onward.s @ onward.rows) / h.size / product, 0.0) ** 3
            step = solve(*apart, at.s * at.rows - target)
            length = min(1.0, TO_THE_BOUNDARY * _reach(at, step))
            before = self._merit(at, target)
            for _ in range(MOST_HALVINGS):
                better = at.moved(step, length)
                if self._merit(better, target) <= (1 - SUFFICIENT * length) * before:
                    break
                length /= 2
            else:
                break  # rounding prevents any further decrease
            at = better
        return at

    def corrected(self, at: _Point) -> _Point:
        """The point at which the active rows hold exactly, if it is closer to the optimality
        conditions."""
        G, h, E, e = self._within
        n = at.z.size
        best, closest = at, self._distance(at)
        for _ in range(MOST_CORRECTIONS):
            active = at.rows > h - G @ at.z
            rows = np.vstack([G[active], E])
            held = np.concatenate([h[active], e])
            system = np.zeros((n + held.size, n + held.size))
            system[:n, :n] = self._hessian(at.z)
            system[n:, :n], system[:n, n:] = rows, rows.T
            right = np.concatenate([-self._gradient(at.z), held - rows @ at.z])
            if not (np.all(np.isfinite(system)) and np.all(np.isfinite(right))):
                break
            try:
                found = np.linalg.lstsq(system, right, rcond=None)[0]
            except np.linalg.LinAlgError:
                break
            multipliers = np.zeros(h.size)
            multipliers[active] = found[n : n + int(active.sum())]
            z = at.z + found[:n]
            at = _Point(z, h - G @ z, multipliers, found[n + int(active.sum()) :])
            distance = self._distance(at)
            if distance < closest:
                best, closest = at, distance
            if closest <= ROUNDING:
                break
        return best

    def _residuals(self, at: _Point) -> tuple[Floats, Floats, Floats]:
        G, h, E, e = self._within
        slope = self._gradient(at.z) + G.T @ at.rows + E.T @ at.equal
        return slope, G @ at.z + at.s - h, E @ at.z - e

    def _merit(self, at: _Point, target: float) -> float:
        parts = (*self._residuals(at), at.s * at.rows - target)
        total = float(np.sqrt(sum(float(one @ one) for one in parts)))
        return total if np.isfinite(total) else np.inf

    def _distance(self, at: _Point) -> float:
        """The distance from the optimality conditions, with slacks computed from z."""
        G, h, E, e = self._within
        slope = self._gradient(at.z) + G.T @ at.rows + E.T @ at.equal
        parts = (slope, np.minimum(h - G @ at.z, at.rows), E @ at.z - e)
        largest = max(float(np.max(np.abs(one), initial=0.0)) for one in parts)
        return largest if np.isfinite(largest) else np.inf

    def _newton(self, at: _Point) -> Callable[[Floats, Floats, Floats, Floats], _Point]:
        """A function from residuals (slope, rows, equalities, products) to the Newton step that
        brings them to zero. Predictor and corrector share its matrix."""
        G, _, E, _ = self._within
        n, equal = at.z.size, E.shape[0]
        weights = at.rows / at.s
        system = np.zeros((n + equal, n + equal))
        system[:n, :n] = self._hessian(at.z) + (G.T * weights) @ G
        system[:n, :n] += RIDGE * (1 + float(np.max(np.diag(system)[:n]))) * np.eye(n)
        system[n:, :n], system[:n, n:] = E, E.T
        if equal:
            system[n:, n:] = -RIDGE * np.eye(equal)  # equalities may be redundant

        def solve(slope: Floats, rows: Floats, equals: Floats, products: Floats) -> _Point:
            right = -np.concatenate([slope + G.T @ (weights * rows - products / at.s), equals])
            try:
                found = np.linalg.solve(system, right)
            except np.linalg.LinAlgError:
                found = np.linalg.lstsq(system, right, rcond=None)[0]
            s = -rows - G @ found[:n]
            return _Point(found[:n], s, -(products + at.rows * s) / at.s, found[n:])

        return solve


def _reach(at: _Point, step: _Point) -> float:
    """The largest step length, at most 1, at which slacks and multipliers stay positive."""
    values, moves = np.concatenate([at.s, at.rows]), np.concatenate([step.s, step.rows])
    falling = moves < 0
    return min(1.0, float(np.min(-values[falling] / moves[falling], initial=1.0)))

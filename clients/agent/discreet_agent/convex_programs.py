"""The problem that an agent solves by itself: `min ½ x'Hx + p·x + Σ terms` over its set.

It is scaled for `discreet_agent.interior_point`: the box has width 1 in each variable, and the
slope at its middle is at most 1. Terms without bounded curvature are replaced by variables t above
them (their epigraphs): `max (A x - b) <= t`, and `|A x - b| <= t` with the cost `t^power`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_agent.cost_terms import PiecewiseLinear, Power, Term
from discreet_agent.interior_point import Polyhedron, minimum

Floats = NDArray[np.float64]

INSIDE = 0.1
"""Distance from the sides of the box at which a search begins, as a fraction of its width."""
SMALLEST = 1e-300
FAR = 1e6
"""A limit beyond this multiple of its row's largest entry cannot be reached in the box."""


class Rows(Protocol):
    """A polytope: the part of `discreet_agent.convex_sets.ConvexSet` that is needed here."""

    @property
    def sides(self) -> tuple[Floats, Floats]: ...

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]: ...


class Scaled:
    """The coordinates of x that are not fixed, as variables y in [0, 1]: `x = base + width y`."""

    def __init__(self, lower: Floats, upper: Floats) -> None:
        self.free = upper > lower
        self.base = lower.astype(np.float64)
        self.width = (upper - lower)[self.free]
        self._lower, self._upper = lower, upper

    def inside(self, x: Floats) -> Floats:
        y = (x - self.base)[self.free] / self.width
        found: Floats = np.clip(np.where(np.isfinite(y), y, 0.5), INSIDE, 1 - INSIDE)
        return found

    def rows(self, A: Floats) -> Floats:
        """The matrix of `A (x - base)` as a function of y."""
        rows: Floats = A[:, self.free] * self.width
        return rows

    def point(self, y: Floats) -> Floats:
        x = self.base.copy()
        x[self.free] += self.width * np.where(np.isfinite(y), y, 0.5)
        found: Floats = np.clip(x, self._lower, self._upper)
        return found


def convex_minimum(
    domain: Rows, H: Floats, p: Floats, terms: Sequence[Term], start: Floats
) -> Floats:
    """A minimum, float64[k]. H float64[k, k] must be positive semidefinite, the set's box bounded,
    and the terms must have passed `Term.check`."""
    lower, upper = (np.broadcast_to(side, p.shape) for side in domain.sides)
    scaled = Scaled(lower, upper)
    if not np.any(scaled.free):
        return scaled.base
    R, least, most = domain.rows
    offset = R @ scaled.base
    return _Program(scaled, H, p, terms).solved(
        scaled.rows(R), least - offset, most - offset, start
    )


class _Program:
    """The problem in z = (y, t), with a t for each kinked term."""

    def __init__(self, scaled: Scaled, H: Floats, p: Floats, terms: Sequence[Term]) -> None:
        self._scaled, free = scaled, scaled.free
        self._H = H[np.ix_(free, free)] * np.outer(scaled.width, scaled.width)
        self._p = (H @ scaled.base + p)[free] * scaled.width
        moved = [_moved(term, scaled) for term in terms]
        self._smooth = [term for term in moved if not term.kinked]
        powers = [term for term in moved if isinstance(term, Power) and term.kinked]
        self._kinked: list[Power | PiecewiseLinear] = [
            one for term in powers for one in _spread(term)
        ]
        self._kinked += [term for term in moved if isinstance(term, PiecewiseLinear)]
        self._n = int(free.sum())
        self._units = np.array([_reach(term) or 1.0 for term in self._kinked])
        """The unit of each t: the largest magnitude of its term's rows."""
        self._powers = np.array([getattr(term, "power", 1.0) for term in self._kinked])
        self._weights = np.array([term.weight for term in self._kinked]) * self._units**self._powers
        middle = np.full(self._n, 0.5)
        slope, bend = self._slope(middle), np.diag(self._bend(middle))
        figures = np.abs(np.concatenate([slope, bend, self._weights]))
        self._scale = max(float(np.max(figures)), SMALLEST)

    def solved(self, R: Floats, least: Floats, most: Floats, start: Floats) -> Floats:
        """With `least <= R y <= most`."""
        y = self._scaled.inside(start)
        z = np.concatenate([y, np.full(self._units.size, 2.0)])  # above each term's maximum, 1
        return self._scaled.point(
            minimum(self._gradient, self._hessian, self._within(R, least, most), z)[: self._n]
        )

    # Rows

    def _within(self, R: Floats, least: Floats, most: Floats) -> Polyhedron:
        n, t = self._n, self._units.size
        eye = np.eye(n)
        G, h = [eye, -eye], [np.ones(n), np.zeros(n)]
        lengths = np.max(np.abs(R), axis=1, initial=0.0)
        equal = (least == most) & (lengths > 0)
        for sign, bound in ((1.0, most), (-1.0, -least)):
            # A limit far beyond the values of its row in the box is left out: it always holds.
            kept = (np.abs(bound) < FAR * lengths) & ~equal
            G.append(sign * R[kept] / lengths[kept, None])
            h.append(bound[kept] / lengths[kept])
        wide = [np.hstack([rows, np.zeros((rows.shape[0], t))]) for rows in G]
        for place, (term, unit) in enumerate(zip(self._kinked, self._units, strict=True)):
            height = np.zeros((term.A.shape[0], t))
            height[:, place] = -1.0
            signs = (1.0, -1.0) if isinstance(term, Power) else (1.0,)
            for sign in signs:
                wide.append(np.hstack([sign * term.A / unit, height]))
                h.append(sign * term.b / unit)
        E = np.hstack([R[equal] / lengths[equal, None], np.zeros((int(equal.sum()), t))])
        return Polyhedron(np.vstack(wide), np.concatenate(h), E, most[equal] / lengths[equal])

    # The function

    def _slope(self, y: Floats) -> Floats:
        slope: Floats = self._H @ y + self._p
        for term in self._smooth:
            slope = slope + term.gradient(y)
        return slope

    def _bend(self, y: Floats) -> Floats:
        bend = self._H
        for term in self._smooth:
            bend = bend + term.curvature(y)
        return bend

    def _gradient(self, z: Floats) -> Floats:
        n, p = self._n, self._powers
        heights = self._weights * p * np.maximum(z[n:], 0.0) ** (p - 1)
        found: Floats = np.concatenate([self._slope(z[:n]), heights]) / self._scale
        return found

    def _hessian(self, z: Floats) -> Floats:
        n, p = self._n, self._powers
        found = np.zeros((z.size, z.size))
        found[:n, :n] = self._bend(z[:n])
        found[n:, n:] = np.diag(
            self._weights * p * (p - 1) * np.maximum(z[n:], SMALLEST) ** (p - 2)
        )
        found /= self._scale
        return found


def _moved(term: Term, scaled: Scaled) -> Term:
    """The term as a function of y."""
    values = dict(vars(term))
    return type(term)(**values | {"A": scaled.rows(term.A), "b": term.b - term.A @ scaled.base})


def _spread(term: Power) -> list[Power]:
    """One term a row."""
    return [
        Power(term.A[row : row + 1], term.b[row : row + 1], term.weight, term.power)
        for row in range(term.b.size)
    ]


def _reach(term: Term) -> float:
    """The largest magnitude of a row for y in [0, 1]."""
    columns = term.A.shape[1]
    low, high = term.span(np.zeros(columns), np.ones(columns))
    return float(np.max(np.maximum(np.abs(low), np.abs(high))))

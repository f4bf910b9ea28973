"""Costs of agents of a coupled program: `|A_q x|² + a_l · x`, and convex terms beside it
(`discreet_agent.cost_terms`).

For `spds` a cost gives the gradient of its part with bounded curvature, and a proximal step of the
rest, which is the projection onto the set where there is no rest; for `auto` the best point at
prices. All of this is computed where the data are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import ConvexSet
from discreet_agent.cost_terms import (
    LARGEST,
    MOST_NUMBERS,
    MOST_TERMS,
    BadTerm,
    Term,
    as_numbers,
    read_all,
    small,
)

Floats = NDArray[np.float64]


class Cost(Protocol):
    """A convex function of float64[k]."""

    @property
    def size(self) -> int:
        """k."""

    @property
    def kinked(self) -> bool:
        """Whether a part of it has no bounded curvature: then steps use `proximal`, and `shrink`
        must be 1."""

    def value(self, x: Floats) -> float:
        """The cost at x."""

    def gradient(self, x: Floats) -> Floats:
        """The gradient of the part with bounded curvature."""

    def proximal(self, domain: ConvexSet, x: Floats, length: float) -> Floats:
        """The minimum over the set of the rest plus `|· - x|² / (2 length)`."""

    def curvatures(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Matrices that bound the Hessian over a box from below and above; the upper one is of the
        part with bounded curvature."""

    def steepest(self, lower: Floats, upper: Floats) -> Floats:
        """Upper bounds, float64[k], of the slopes over the box of all but the quadratic part: the
        scale of the prices that matter to its agent."""

    def minimum(
        self, domain: ConvexSet, p: Floats, pull: Floats, centre: Floats, start: Floats
    ) -> Floats:
        """The minimum over the set of the cost plus `p · x + ½ Σ pull (x - centre)²`; `pull`:
        float64[k]."""

    def check(self, domain: ConvexSet) -> None:
        """Raises ValueError for a cost without a bounded slope over the set's box, or with numbers
        that are too large to compute with."""

    @property
    def figures(self) -> tuple[Floats, ...]:
        """All numbers that define it."""


@dataclass(frozen=True)
class QuadraticCost:
    """`f(x) = |A_q x|² + a_l · x`, without a factor ½ (Huo & Liu, eq. 22) and without constants.
    A_q float64[r, k], a_l float64[k]. ValueError for other shapes.
    """

    A_q: Floats
    a_l: Floats

    def __post_init__(self) -> None:
        as_numbers(self, "A_q", "a_l")
        if self.a_l.ndim != 1 or self.A_q.shape[1:] != self.a_l.shape:
            raise ValueError("A_q needs one column for each entry of a_l")

    @property
    def size(self) -> int:
        return len(self.a_l)

    @property
    def kinked(self) -> bool:
        return False

    def value(self, x: Floats) -> float:
        return float(np.sum((self.A_q @ x) ** 2) + self.a_l @ x)

    def gradient(self, x: Floats) -> Floats:
        gradient: Floats = 2 * self.A_q.T @ (self.A_q @ x) + self.a_l
        return gradient

    def proximal(self, domain: ConvexSet, x: Floats, length: float) -> Floats:
        return domain.project(x)

    @property
    def curvature(self) -> Floats:
        curvature: Floats = 2 * self.A_q.T @ self.A_q
        return curvature

    def curvatures(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        return self.curvature, self.curvature

    def steepest(self, lower: Floats, upper: Floats) -> Floats:
        return np.abs(self.a_l)

    def minimum(
        self, domain: ConvexSet, p: Floats, pull: Floats, centre: Floats, start: Floats
    ) -> Floats:
        bent = self.curvature + np.diag(pull)
        return domain.minimum(bent, self.a_l + p - pull * centre, start)

    def check(self, domain: ConvexSet) -> None:
        """Only the coefficients are checked: where they are bounded, so is the slope."""
        if not all(map(small, self.figures)):
            raise ValueError(f"A_q and a_l must hold numbers between -{LARGEST:g} and {LARGEST:g}")

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.A_q, self.a_l


@dataclass(frozen=True)
class ConvexCost:
    """`|A_q x|² + a_l · x` plus the terms; ValueError where a term has another number of
    columns."""

    quadratic: QuadraticCost
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", tuple(self.terms))
        for term in self.terms:
            if not isinstance(term, Term):
                raise ValueError(f"{term!r} is no term of a cost")
            if term.A.shape[1] != self.size:
                raise ValueError(f"{term.kind}: A needs one column for each entry of a_l")

    @property
    def size(self) -> int:
        return self.quadratic.size

    @property
    def kinked(self) -> bool:
        return any(term.kinked for term in self.terms)

    def value(self, x: Floats) -> float:
        return self.quadratic.value(x) + sum(term.value(x) for term in self.terms)

    def gradient(self, x: Floats) -> Floats:
        gradient = self.quadratic.gradient(x)
        for term in self.terms:
            if not term.kinked:
                gradient = gradient + term.gradient(x)
        return gradient

    def proximal(self, domain: ConvexSet, x: Floats, length: float) -> Floats:
        kinks = [term for term in self.terms if term.kinked]
        if not kinks:
            return domain.project(x)
        from discreet_agent.convex_programs import convex_minimum  # noqa: PLC0415 - of terms

        return convex_minimum(domain, np.eye(x.size) / length, -x / length, kinks, x)

    def curvatures(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        least = most = self.quadratic.curvature
        for term in self.terms:
            bends = term.bends(*term.span(lower, upper))
            least = least + term.with_bends(bends[0])
            if not term.kinked:
                most = most + term.with_bends(bends[1])
        return least, most

    def steepest(self, lower: Floats, upper: Floats) -> Floats:
        total: Floats = np.abs(self.quadratic.a_l)
        for term in self.terms:
            total = total + term.steepest(lower, upper)
        return total

    def minimum(
        self, domain: ConvexSet, p: Floats, pull: Floats, centre: Floats, start: Floats
    ) -> Floats:
        bent = self.quadratic.curvature + np.diag(pull)
        linear = self.quadratic.a_l + p - pull * centre
        from discreet_agent.convex_programs import convex_minimum  # noqa: PLC0415 - of terms

        return convex_minimum(domain, bent, linear, self.terms, start)

    def check(self, domain: ConvexSet) -> None:
        self.quadratic.check(domain)
        lower, upper = (np.broadcast_to(side, (self.size,)) for side in domain.sides)
        if not (small(lower) and small(upper)):
            raise ValueError(f"costs with terms need boxes with finite bounds, within ±{LARGEST:g}")
        if len(self.terms) > MOST_TERMS:
            raise ValueError(
                f"a cost has {len(self.terms)} terms; at most {MOST_TERMS} are allowed"
            )
        numbers = self.size + sum(term.b.size for term in self.terms) + domain.rows[1].size
        if numbers > MOST_NUMBERS:
            raise ValueError(
                f"an agent's variables and the rows of its terms and polytope are {numbers}; at "
                f"most {MOST_NUMBERS} are allowed"
            )
        for place, term in enumerate(self.terms):
            try:
                term.check(lower, upper)
            except ValueError as error:
                raise BadTerm(place, str(error)) from None

    @property
    def figures(self) -> tuple[Floats, ...]:
        return *self.quadratic.figures, *(one for term in self.terms for one in term.figures)


def cost_of(
    A_q: Floats, a_l: Floats, terms: Sequence[Mapping[str, Any]] = ()
) -> QuadraticCost | ConvexCost:
    """The cost with these terms in their JSON form; quadratic ones become rows of A_q. ValueError
    says what is wrong."""
    rows, others = read_all(terms, a_l.size)
    quadratic = QuadraticCost(np.vstack([A_q, rows]) if rows.size else A_q, a_l)
    return ConvexCost(quadratic, others) if others else quadratic

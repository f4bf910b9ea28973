"""Convex terms of an agent's cost: `weight Σ phi(A x - b)`, where phi acts on each row.

    power              weight Σ |A x - b|^power, 1 < power <= 10
    piecewise_linear   weight max (A x - b), the largest of the rows
    log_barrier        -weight Σ log (b - A x)
    entropy            weight Σ u log u, u = A x - b
    quadratic          ½ x'P x, P symmetric and positive semidefinite, not necessarily diagonal

What an agent sends is computed from best points and slopes, so a term must have a bounded slope
everywhere in the agent's box. A barrier or an entropy is refused, before the agent connects, if the
box reaches the boundary of its domain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_POWER = 10.0
NEAREST = 1e-6
"""The least distance of the box to the boundary of a term's domain, as a fraction of the greatest:
closer, the slope would be finite but exceed all others by too much."""
MOST_TERMS = 16
MOST_NUMBERS = 512
"""The most variables of an agent and rows of its terms and its polytope, together: it solves for
them with dense matrices."""
LARGEST = 1e12
"""The largest magnitude of a term's numbers, and of its value, slope and curvature in the box."""
CONVEX = 1e-9
"""Asymmetry and negative eigenvalues of P that count as rounding, as a fraction of its largest
entry."""


def as_numbers(owner: Any, *names: str) -> None:
    """Make these fields of a frozen object arrays of doubles: they may be given as lists, which
    would fail much later. ValueError for what are no numbers."""
    for name in names:
        try:
            found = np.asarray(getattr(owner, name), dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} must hold numbers: {error}") from None
        object.__setattr__(owner, name, found)


def small(values: Floats) -> bool:
    """Whether all are numbers of magnitude at most LARGEST."""
    return bool(np.all(np.abs(values) <= LARGEST))  # NaN is not


@dataclass(frozen=True)
class Term(ABC):
    """`weight Σ phi(u)`, `u = A x - b`, with weight > 0. A float64[r, k], b float64[r]. ValueError
    for anything else."""

    kind: ClassVar[str]

    A: Floats
    b: Floats
    weight: float = 1.0

    def __post_init__(self) -> None:
        as_numbers(self, "A", "b")
        if self.A.ndim != 2 or self.b.shape != self.A.shape[:1] or not self.A.size:
            raise ValueError(f"{self.kind}: A needs a row for each entry of b, and at least one")
        if not (small(self.A) and small(self.b)):
            raise ValueError(
                f"{self.kind}: A and b must hold numbers between -{LARGEST:g} and {LARGEST:g}"
            )
        if not 0 < self.weight < math.inf:
            raise ValueError(f"{self.kind}: the weight must be positive, not {self.weight:g}")

    @property
    def kinked(self) -> bool:
        """Whether its curvature is unbounded: then no step size of a gradient method is small
        enough."""
        return False

    @abstractmethod
    def phi(self, u: Floats) -> Floats:
        """phi of each row, float64[r]."""

    @abstractmethod
    def slope(self, u: Floats) -> Floats:
        """phi' of each row, float64[r]."""

    @abstractmethod
    def bend(self, u: Floats) -> Floats:
        """phi'' of each row, float64[r]."""

    @abstractmethod
    def bends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The least and the largest of phi'' for u from `low` to `high`, float64[r] each."""

    def refusal(self, low: Floats, high: Floats) -> str:
        """Why phi has no bounded slope for u from `low` to `high`; empty if it has one."""
        return ""

    # The same for every term

    def rows(self, x: Floats) -> Floats:
        u: Floats = self.A @ x - self.b
        return u

    def value(self, x: Floats) -> float:
        return self.weight * float(np.sum(self.phi(self.rows(x))))

    def gradient(self, x: Floats) -> Floats:
        gradient: Floats = self.weight * (self.A.T @ self.slope(self.rows(x)))
        return gradient

    def curvature(self, x: Floats) -> Floats:
        return self.with_bends(self.bend(self.rows(x)))

    def with_bends(self, bends: Floats) -> Floats:
        """The Hessian for these values of phi'', float64[r]."""
        curvature: Floats = self.weight * ((self.A.T * bends) @ self.A)
        return curvature

    def span(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """The least and the largest of each row over a box."""
        ends = self.A * lower, self.A * upper
        low: Floats = np.minimum(*ends).sum(axis=1) - self.b
        high: Floats = np.maximum(*ends).sum(axis=1) - self.b
        return low, high

    def steepest(self, lower: Floats, upper: Floats) -> Floats:
        """Upper bounds of the magnitude of the gradient's entries in the box, float64[k]: a convex
        function is steepest at an end of its range."""
        low, high = self.span(lower, upper)
        slopes = np.maximum(np.abs(self.slope(low)), np.abs(self.slope(high)))
        steepest: Floats = self.weight * (np.abs(self.A).T @ slopes)
        return steepest

    def check(self, lower: Floats, upper: Floats) -> None:
        """Raises ValueError unless value, slope and, if not kinked, curvature are bounded over the
        box."""
        low, high = self.span(lower, upper)
        if says := self.refusal(low, high):
            raise ValueError(f"{self.kind}: {says}")
        with np.errstate(all="ignore"):
            figures = [np.abs(self.phi(one)) for one in (low, high)]
            figures += [np.abs(self.slope(one)) for one in (low, high)]
            if not self.kinked:
                figures.append(self.bends(low, high)[1])
            largest = self.weight * max(float(np.max(one)) for one in figures)
        if not largest <= LARGEST:
            raise ValueError(
                f"{self.kind}: its value, slope or curvature reaches {largest:g} in the box; at "
                f"most {LARGEST:g} is allowed"
            )

    @property
    def figures(self) -> tuple[Floats, ...]:
        """All numbers that define the term."""
        name = np.frombuffer(self.kind.encode(), dtype=np.uint8).astype(np.float64)
        return name, self.A, self.b, np.array([self.weight])


@dataclass(frozen=True)
class Power(Term):
    kind: ClassVar[str] = "power"

    power: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.power <= MOST_POWER:
            raise ValueError(
                f"power: it must be above 1 and at most {MOST_POWER:g}, not {self.power:g}; for "
                "power 1 use piecewise_linear terms"
            )

    @property
    def kinked(self) -> bool:
        return self.power < 2

    def phi(self, u: Floats) -> Floats:
        found: Floats = np.abs(u) ** self.power
        return found

    def slope(self, u: Floats) -> Floats:
        found: Floats = self.power * np.sign(u) * np.abs(u) ** (self.power - 1)
        return found

    def bend(self, u: Floats) -> Floats:
        found: Floats = self.power * (self.power - 1) * np.abs(u) ** (self.power - 2)
        return found

    def bends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        nearest = np.where(low * high <= 0, 0.0, np.minimum(np.abs(low), np.abs(high)))
        farthest = np.maximum(np.abs(low), np.abs(high))
        if self.kinked:
            never = farthest == 0  # rows that are zero throughout have no curvature
            least = np.where(never, 0.0, self.bend(np.where(never, 1.0, farthest)))
            return least, np.full(low.shape, np.inf)
        return self.bend(nearest), self.bend(farthest)

    @property
    def figures(self) -> tuple[Floats, ...]:
        return *super().figures, np.array([self.power])


@dataclass(frozen=True)
class LogBarrier(Term):
    kind: ClassVar[str] = "log_barrier"

    def phi(self, u: Floats) -> Floats:
        found: Floats = -np.log(-u)
        return found

    def slope(self, u: Floats) -> Floats:
        found: Floats = -1 / u
        return found

    def bend(self, u: Floats) -> Floats:
        found: Floats = 1 / u**2
        return found

    def bends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        return self.bend(low), self.bend(high)

    def refusal(self, low: Floats, high: Floats) -> str:
        beyond = np.flatnonzero(~(high <= NEAREST * low))  # both below 0
        if not beyond.size:
            return ""
        row = int(beyond[0])
        return (
            f"in row {row} the box reaches the barrier, where its slope has no bound: A x comes to "
            f"{high[row] + self.b[row]:g}, and b, {self.b[row]:g}, must be above that"
        )


@dataclass(frozen=True)
class Entropy(Term):
    kind: ClassVar[str] = "entropy"

    def phi(self, u: Floats) -> Floats:
        found: Floats = u * np.log(u)
        return found

    def slope(self, u: Floats) -> Floats:
        found: Floats = np.log(u) + 1
        return found

    def bend(self, u: Floats) -> Floats:
        found: Floats = 1 / u
        return found

    def bends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        return self.bend(high), self.bend(low)

    def refusal(self, low: Floats, high: Floats) -> str:
        beyond = np.flatnonzero(~(low >= NEAREST * high) | (low <= 0))
        if not beyond.size:
            return ""
        row = int(beyond[0])
        return (
            f"in row {row} A x - b comes to {low[row]:g} in the box, and the slope of u log u has "
            "no bound at 0: raise lower, or lower b"
        )


@dataclass(frozen=True)
class PiecewiseLinear(Term):
    """`weight max (A x - b)`: the maximum over the rows, not their sum."""

    kind: ClassVar[str] = "piecewise_linear"

    @property
    def kinked(self) -> bool:
        return True

    def phi(self, u: Floats) -> Floats:
        return np.array([np.max(u)])

    def slope(self, u: Floats) -> Floats:
        """A subgradient: that of the first of the largest rows."""
        found = np.zeros_like(u)
        found[int(np.argmax(u))] = 1.0
        return found

    def bend(self, u: Floats) -> Floats:
        return np.zeros_like(u)

    def bends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        return np.zeros_like(low), np.full(low.shape, np.inf)

    def steepest(self, lower: Floats, upper: Floats) -> Floats:
        steepest: Floats = self.weight * np.max(np.abs(self.A), axis=0)
        return steepest


KINDS: dict[str, type[Term]] = {
    one.kind: one for one in (Power, PiecewiseLinear, LogBarrier, Entropy)
}
QUADRATIC = "quadratic"


def root(P: Floats) -> Floats:
    """A float64[k, k] with `|A x|² = ½ x'P x`. ValueError if P is not symmetric or not positive
    semidefinite."""
    if P.ndim != 2 or P.shape[0] != P.shape[1] or not small(P):
        raise ValueError(f"quadratic: P must be square, with numbers up to {LARGEST:g}")
    largest = float(np.max(np.abs(P), initial=0.0))
    if np.max(np.abs(P - P.T), initial=0.0) > CONVEX * largest:
        raise ValueError("quadratic: P must be symmetric")
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    if values[0] < -CONVEX * largest:
        raise ValueError(
            f"quadratic: P is not positive semidefinite, its least eigenvalue is {values[0]:.3g}: "
            "the cost is not convex"
        )
    rooted: Floats = np.sqrt(np.maximum(values, 0.0) / 2)[:, None] * vectors.T
    return rooted


def read(term: Mapping[str, Any], size: int) -> Term | Floats:
    """A term of `size` variables from its JSON form `{"kind": …, "A"?, "b"?, "weight"?, …}`, or the
    `root` of one of kind `quadratic`. Without A it is of x itself; b is a number or one for each
    row. ValueError says what is wrong."""
    if not isinstance(term, Mapping):
        raise ValueError('a term is an object: {"kind": …}')
    given = {name: value for name, value in term.items() if value is not None}
    kind = given.pop("kind", None)
    if kind == QUADRATIC:
        if set(given) != {"P"}:
            raise ValueError("quadratic: it needs P and no other field")
        P = np.asarray(given["P"], dtype=np.float64)
        if P.shape != (size, size):
            raise ValueError(f"quadratic: P must be {size} by {size}, a row and column a variable")
        return root(P)
    made = KINDS.get(str(kind))
    if made is None:
        raise ValueError(f"a term is one of {', '.join([QUADRATIC, *KINDS])}, not {kind}")
    if strange := sorted(set(given) - {field.name for field in fields(made)}):
        raise ValueError(f"{kind}: it has no field {strange[0]}")
    A = np.asarray(given.pop("A", np.eye(size)), dtype=np.float64)
    if A.ndim != 2 or A.shape[1] != size:
        raise ValueError(f"{kind}: A needs {size} columns, one a variable")
    b = np.broadcast_to(np.asarray(given.pop("b", 0.0), dtype=np.float64), A.shape[:1])
    return made(A, np.array(b), **{name: float(value) for name, value in given.items()})


class BadTerm(ValueError):
    """The term at position `place` is refused; `says` is the reason."""

    def __init__(self, place: int, says: str) -> None:
        super().__init__(f"term {place}, {says}")
        self.place, self.says = place, says


def read_all(terms: Sequence[Mapping[str, Any]], size: int) -> tuple[Floats, tuple[Term, ...]]:
    """The rows that quadratic terms add to A_q, float64[r, size], and the other terms. Raises
    BadTerm, and ValueError if `terms` is not a list."""
    if isinstance(terms, str) or not isinstance(terms, Sequence):
        raise ValueError('terms are a list of objects: [{"kind": …}]')
    rows, others = [np.zeros((0, size))], []
    for place, term in enumerate(terms):
        try:
            found = read(term, size)
        except (TypeError, ValueError, OverflowError) as error:  # overflow: an integer is too long
            raise BadTerm(place, str(error)) from None
        if isinstance(found, Term):
            others.append(found)
        else:
            rows.append(found)
    return np.vstack(rows), tuple(others)

"""The sets that agents of a coupled quadratic program choose their variables from: a box, within it
a budget of their sum, such as the energy that a vehicle needs by the morning, or any polytope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_agent.arithmetic import PRECISION, box_minimum
from discreet_agent.cost_terms import LARGEST, MOST_NUMBERS, small
from discreet_agent.projections import onto_budget, onto_polytope

Floats = NDArray[np.float64]
MOST_HALVINGS = 200
SMALLEST = 1e-300
EMPTY = 1e-9
"""The largest violation of a row, as a fraction of its length, that counts as rounding when a
polytope is checked for being empty."""


class ConvexSet(Protocol):
    """A closed convex set of float64[k]."""

    @property
    def flat(self) -> bool:
        """Whether the shrunken steps of `spds` would move optima on this set, so that it needs
        `shrink` 1."""

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of a box around it: numbers, or one entry for each coordinate."""

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        """R float64[r, k], least and most float64[r]: the set is the points of the box with `least
        <= R x <= most`."""

    def project(self, x: Floats) -> Floats:
        """The point of the set closest to x."""

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        """The minimum of `½ x'Hx + p'x` over it, H float64[k, k] positive definite, from any
        `start`."""

    @property
    def figures(self) -> tuple[Floats, ...]:
        """All numbers that define it."""


@dataclass(frozen=True)
class Box:
    """`lower <= x <= upper`, each a number or one entry for each coordinate; bounds may be
    infinite."""

    lower: Floats | float
    upper: Floats | float
    flat: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.lower) <= np.asarray(self.upper)):
            raise ValueError("a box needs lower <= upper")

    @property
    def sides(self) -> tuple[Floats, Floats]:
        return np.asarray(self.lower, dtype=np.float64), np.asarray(self.upper, dtype=np.float64)

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        size = max(np.size(self.lower), np.size(self.upper))
        return np.zeros((0, size)), np.zeros(0), np.zeros(0)

    def project(self, x: Floats) -> Floats:
        return np.clip(x, self.lower, self.upper)

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        low, high = (np.broadcast_to(side, p.shape) for side in self.sides)
        return box_minimum(H, p, low, high, start)

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.sides


@dataclass(frozen=True)
class BudgetedBox:
    """`lower <= x <= upper` (float64[k] each, finite) and `least_sum <= Σ x <= most_sum`. Raises
    ValueError where that is empty."""

    lower: Floats
    upper: Floats
    least_sum: float
    most_sum: float
    flat: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        low, high = self.sides
        if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high)) and np.all(low <= high)):
            raise ValueError("with a budget a box needs finite bounds, lower <= upper")
        if not self.least_sum <= self.most_sum:
            raise ValueError(
                f"a budget needs lower <= upper, not {self.least_sum:g} and {self.most_sum:g}"
            )
        sums = float(low.sum()), float(high.sum())
        if self.least_sum > sums[1] or self.most_sum < sums[0]:
            raise ValueError(
                f"the box allows sums from {sums[0]:g} to {sums[1]:g}, none of which is in the "
                "budget"
            )

    @property
    def sides(self) -> tuple[Floats, Floats]:
        return self.lower, self.upper

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        return np.ones((1, self.lower.size)), np.array([self.least_sum]), np.array([self.most_sum])

    def project(self, x: Floats) -> Floats:
        return onto_budget(x, self.lower, self.upper, self.least_sum, self.most_sum)

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        """The minimum over the box at `p + nu`, where nu is the multiplier of the sum. It is found
        by bisection, since the sum falls with nu."""
        found = box_minimum(H, p, self.lower, self.upper, start)
        total = float(found.sum())
        if self.least_sum <= total <= self.most_sum:
            return found
        target = self.least_sum if total < self.least_sum else self.most_sum
        sign = 1.0 if total > target else -1.0  # nu is raised where the sum is too large
        # When nu exceeds the steepest slope in the box, every variable is at one of its bounds.
        reach = np.maximum(np.abs(self.lower), np.abs(self.upper))
        near, far = 0.0, sign * (float(np.max(np.abs(p) + np.abs(H) @ reach)) + 1.0)
        for _ in range(MOST_HALVINGS):
            if abs(far - near) <= PRECISION * abs(far):
                break
            nu = (near + far) / 2
            found = box_minimum(H, p + nu, self.lower, self.upper, found)
            beyond = sign * (float(found.sum()) - target) > 0
            near, far = (nu, far) if beyond else (near, nu)
        return self.project(found)

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.lower, self.upper, np.array([self.least_sum, self.most_sum])


@dataclass(frozen=True)
class Polytope:
    """`lower <= x <= upper` (float64[k] each, finite) and `least <= R x <= most` (R float64[r, k]),
    whose limits may be infinite. Raises ValueError where that is empty."""

    lower: Floats
    upper: Floats
    R: Floats
    least: Floats
    most: Floats
    flat: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        low, high = self.sides
        if not (small(low) and small(high) and np.all(low <= high)):
            raise ValueError(
                f"with a polytope a box needs finite bounds, lower <= upper, within ±{LARGEST:g}"
            )
        if self.R.ndim != 2 or self.R.shape[1] != low.size:
            raise ValueError(f"a polytope needs {low.size} columns, one a variable")
        if not self.R.shape[:1] == self.least.shape == self.most.shape:
            raise ValueError("a polytope needs one limit a row")
        if low.size + self.most.size > MOST_NUMBERS:
            raise ValueError(f"a polytope has at most {MOST_NUMBERS} variables and rows together")
        limits = np.concatenate([self.least, self.most])
        if not (small(self.R) and small(limits[~np.isinf(limits)])):
            raise ValueError(
                f"rows and limits of a polytope must be numbers up to {LARGEST:g} in magnitude"
            )
        if not np.all(self.least <= self.most):
            raise ValueError("a lower limit of a polytope is above its upper limit")
        nearest = self.project((low + high) / 2)
        beyond = self._beyond(nearest)
        row = int(np.argmax(beyond)) if beyond.size else 0
        if beyond.size and not beyond[row] <= EMPTY:
            raise ValueError(
                f"the polytope has no point in the box: the nearest one violates row {row} by "
                f"{beyond[row] * self._lengths()[row]:.3g}"
            )

    @classmethod
    def within(
        cls,
        lower: Floats,
        upper: Floats,
        A: Floats,
        b: Floats,
        budget: tuple[float, float] | None = None,
    ) -> Polytope:
        """The polytope of `A x <= b` within a box, and of the budget of the sum if there is one."""
        if A.ndim != 2 or b.ndim != 1:
            raise ValueError("a polytope needs rows A and one limit a row, b")
        least: Floats = np.full(b.shape, -np.inf)
        most = b
        if budget is not None:
            A = np.vstack([A, np.ones((1, lower.size))])
            least, most = np.append(least, budget[0]), np.append(most, budget[1])
        return cls(np.array(lower), np.array(upper), A, least, most)

    @property
    def sides(self) -> tuple[Floats, Floats]:
        return self.lower, self.upper

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        return self.R, self.least, self.most

    def _lengths(self) -> Floats:
        """The scale of each row, float64[r]: the range of its values over the box or the magnitude
        of its limit, whichever is larger."""
        limits = np.where(np.isfinite(self.most), self.most, self.least)
        limits = np.where(np.isfinite(limits), np.abs(limits), 0.0)
        width = np.abs(self.R) @ (self.upper - self.lower)
        lengths: Floats = np.maximum(np.maximum(width, limits), SMALLEST)
        return lengths

    def _beyond(self, x: Floats) -> Floats:
        """By how much x violates each row, as a fraction of its length; at most 0 inside."""
        reached = self.R @ x
        beyond: Floats = np.maximum(reached - self.most, self.least - reached) / self._lengths()
        return beyond

    def project(self, x: Floats) -> Floats:
        return onto_polytope(x, self.lower, self.upper, *self.rows)

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        from discreet_agent.convex_programs import convex_minimum  # noqa: PLC0415 - of polytopes

        return convex_minimum(self, H, p, (), start)

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.lower, self.upper, self.R, self.least, self.most

"""The sets that agents of a coupled quadratic program choose their variables from: a box, within it
a budget of their sum, such as the energy that a vehicle needs by the morning, or any polytope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_client.arithmetic import PRECISION, box_minimum
from discreet_client.convex_programs import convex_minimum
from discreet_client.cost_terms import LARGEST, MOST_NUMBERS, small
from discreet_client.projections import onto_budget, onto_polytope

Floats = NDArray[np.float64]
MOST_HALVINGS = 200
SMALLEST = 1e-300
EMPTY = 1e-9
"""By how much of its length the best point may break a row of a polytope that is not empty."""


class ConvexSet(Protocol):
    """A closed convex set of float64[k]."""

    @property
    def flat(self) -> bool:
        """Whether shrinking around its origin would move its optima."""

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Lower and upper side of a box around it: numbers, or an entry a coordinate."""

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        """R float64[r, k], least and most float64[r]: the set is the box's points with `least <= R
        x <= most`."""

    def project(self, x: Floats) -> Floats:
        """The point of the set closest to x."""

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        """The minimum of `½ x'Hx + p'x` over it, H float64[k, k] positive definite, from any
        `start`."""

    def cheapest(self, slope: Floats) -> Floats:
        """A minimum of `slope'x` over it, which is bounded."""

    @property
    def figures(self) -> tuple[Floats, ...]:
        """All numbers that define it."""


@dataclass(frozen=True)
class Box:
    """`lower <= x <= upper`, each a number or an entry a coordinate; infinite sides are allowed."""

    lower: Floats | float
    upper: Floats | float
    flat: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.lower) <= np.asarray(self.upper)):
            raise ValueError("a box has lower <= upper")

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

    def cheapest(self, slope: Floats) -> Floats:
        low, high = self.sides
        return np.where(slope < 0, high, low)

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
            raise ValueError("within a budget a box has two ends, lower <= upper")
        if not self.least_sum <= self.most_sum:
            raise ValueError(f"a budget is from {self.least_sum:g} up, not to {self.most_sum:g}")
        sums = float(low.sum()), float(high.sum())
        if self.least_sum > sums[1] or self.most_sum < sums[0]:
            raise ValueError(
                f"the box allows sums from {sums[0]:g} to {sums[1]:g}, the budget none of them"
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
        """With nu, the price of the sum, it is the minimum over the box at `p + nu`. The sum falls
        with nu, so nu lies between two numbers that are halved until they meet."""
        found = box_minimum(H, p, self.lower, self.upper, start)
        total = float(found.sum())
        if self.least_sum <= total <= self.most_sum:
            return found
        target = self.least_sum if total < self.least_sum else self.most_sum
        sign = 1.0 if total > target else -1.0  # nu is raised where the sum is too large
        # Beyond the steepest slope of the box every variable is at the end that the price wants.
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

    def cheapest(self, slope: Floats) -> Floats:
        """All at their cheaper end; then, where the sum is not within the budget, the variables
        whose move costs least are moved until it is."""
        x = np.where(slope < 0, self.upper, self.lower)
        total = float(x.sum())
        if total < self.least_sum:
            missing, room, order = self.least_sum - total, self.upper - x, np.argsort(slope)
        elif total > self.most_sum:
            missing, room, order = self.most_sum - total, self.lower - x, np.argsort(-slope)
        else:
            return x
        moved = np.abs(room[order])
        before = np.concatenate([[0.0], np.cumsum(moved)[:-1]])
        taken = np.clip(abs(missing) - before, 0.0, moved) * np.sign(missing)
        x[order] += taken
        return x

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.lower, self.upper, np.array([self.least_sum, self.most_sum])


@dataclass(frozen=True)
class Polytope:
    """`lower <= x <= upper` (float64[k] each, finite) and `least <= R x <= most` (R float64[r, k]),
    of which a side may be infinite. Raises ValueError where that is empty."""

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
                f"within a polytope a box has two ends, lower <= upper, within {LARGEST:g}"
            )
        if self.R.ndim != 2 or self.R.shape[1] != low.size:
            raise ValueError(f"a polytope has {low.size} columns, one a variable")
        if not self.R.shape[:1] == self.least.shape == self.most.shape:
            raise ValueError("a polytope has one limit a row")
        if low.size + self.most.size > MOST_NUMBERS:
            raise ValueError(f"variables and rows of a polytope are at most {MOST_NUMBERS}")
        limits = np.concatenate([self.least, self.most])
        if not (small(self.R) and small(limits[~np.isinf(limits)])):
            raise ValueError(f"rows and limits of a polytope are numbers up to {LARGEST:g}")
        if not np.all(self.least <= self.most):
            raise ValueError("the limits of a polytope go from the lower up")
        nearest = self.project((low + high) / 2)
        beyond = self._beyond(nearest)
        row = int(np.argmax(beyond)) if beyond.size else 0
        if beyond.size and not beyond[row] <= EMPTY:
            raise ValueError(
                f"the polytope has no point in the box: row {row} is broken by "
                f"{beyond[row] * self._lengths()[row]:.3g} at the nearest"
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
        """`A x <= b` and, where there is one, a budget of the sum."""
        if A.ndim != 2 or b.ndim != 1:
            raise ValueError("a polytope has rows, A, and one limit a row, b")
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
        """Of a row: the most that it moves over the box, or its limits."""
        limits = np.where(np.isfinite(self.most), self.most, self.least)
        limits = np.where(np.isfinite(limits), np.abs(limits), 0.0)
        width = np.abs(self.R) @ (self.upper - self.lower)
        lengths: Floats = np.maximum(np.maximum(width, limits), SMALLEST)
        return lengths

    def _beyond(self, x: Floats) -> Floats:
        """How far x is beyond each row, in parts of its length; at most 0 inside."""
        reached = self.R @ x
        beyond: Floats = np.maximum(reached - self.most, self.least - reached) / self._lengths()
        return beyond

    def project(self, x: Floats) -> Floats:
        return onto_polytope(x, self.lower, self.upper, *self.rows)

    def minimum(self, H: Floats, p: Floats, start: Floats) -> Floats:
        return convex_minimum(self, H, p, (), start)

    def cheapest(self, slope: Floats) -> Floats:
        return self.minimum(np.zeros((slope.size, slope.size)), slope, self.lower)

    @property
    def figures(self) -> tuple[Floats, ...]:
        return self.lower, self.upper, self.R, self.least, self.most

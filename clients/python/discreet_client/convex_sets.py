"""The sets that agents of a coupled quadratic program choose their variables from: a box, and
within it a budget of their sum, such as the energy that a vehicle needs by the morning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_client.arithmetic import PRECISION, box_minimum
from discreet_client.projections import onto_budget

Floats = NDArray[np.float64]
MOST_HALVINGS = 200


class ConvexSet(Protocol):
    """A closed convex set of float64[k]."""

    @property
    def flat(self) -> bool:
        """Whether shrinking around its origin would move its optima."""

    @property
    def sides(self) -> tuple[Floats, Floats]:
        """Lower and upper side of a box around it: numbers, or an entry a coordinate."""

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

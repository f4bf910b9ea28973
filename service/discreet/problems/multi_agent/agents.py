"""What is public of an agent: its state's coordinates, the set that they are in, and the radius of
its protection."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from discreet.intake.field_issues import FieldError
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.saddle.saddle_point import Group
from discreet_client.projections import onto

Floats = NDArray[np.float64]

MAX_DIMENSION = 1000
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
Bound = Annotated[Real, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Bound], Field(min_length=1, max_length=MAX_DIMENSION, fail_fast=True)]
SumBound = Annotated[Real, Field(ge=-1e9, le=1e9)]


class SumRange(Frozen):
    """What a state's coordinates may add up to: an energy over hours."""

    lower: SumBound
    upper: SumBound = Field(description="May equal `lower`: then the sum is fixed")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.upper:
            raise FieldError("lower", "lower must not be above upper")
        return self


class Ball(Frozen):
    """Points no farther than `radius` from `centre`."""

    centre: Vector
    radius: Annotated[Real, Field(gt=0, le=1e6)]


def _absent(value: Any) -> bool:
    return value is None


class Announcement(Frozen):
    """What is public of an agent: the set of its states, and the radius of its protection."""

    dimension: Annotated[int, Field(strict=True, ge=1, le=MAX_DIMENSION)] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Of a state that is a vector: an agent `ev` has the coordinates `ev_1`, "
        "`ev_2`, …; absent: one number, by the agent's own name",
    )
    lower: Bound | Vector = Field(
        description="Of the state, or of each coordinate: one number for all, or a list"
    )
    upper: Bound | Vector
    budget: SumRange | None = Field(
        default=None,
        exclude_if=_absent,
        description="What the coordinates add up to, within the box",
    )
    ball: Ball | None = Field(
        default=None, exclude_if=_absent, description="In which the coordinates lie, in the box"
    )
    radius: Annotated[Real, Field(gt=0, le=1e9)] = Field(
        description="Neighbouring trajectories of this agent's state differ by at most this in l2, "
        "over all steps"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for field in ("lower", "upper"):
            given = getattr(self, field)
            if isinstance(given, list) and len(given) != self.dimension:
                says = f"{len(given)} numbers for a state of dimension {self.dimension or 'one'}"
                raise FieldError(field, says if self.dimension else "a list needs `dimension`")
        for field in ("budget", "ball"):
            if getattr(self, field) is not None and self.dimension is None:
                raise FieldError(field, f"a {field} is of a state with a `dimension`")
        if self.budget is not None and self.ball is not None:
            raise FieldError("ball", "an agent has a budget or a ball beside its box, not both")
        low, high = self.lowers(), self.uppers()
        if not (low < high).all():
            raise FieldError("lower", "lower must be below upper")
        if self.budget is not None and not (
            low.sum() <= self.budget.upper and high.sum() >= self.budget.lower
        ):
            says = f"the box allows sums of {low.sum():g} to {high.sum():g}: none of the budget"
            raise FieldError("budget", says)
        if self.ball is not None:
            if len(self.ball.centre) != self.dimension:
                raise FieldError(
                    "ball/centre",
                    f"{len(self.ball.centre)} numbers; the dimension is {self.dimension}",
                )
            centre = np.array(self.ball.centre, dtype=np.float64)
            if not np.linalg.norm(np.clip(centre, low, high) - centre) < self.ball.radius:
                raise FieldError("ball", "no point of the box is inside the ball")
        return self

    @property
    def count(self) -> int:
        """Coordinates."""
        return self.dimension or 1

    @property
    def within(self) -> dict[str, Any] | None:
        """The set beside the box, as `discreet_client.projections.onto` takes it."""
        found = {
            name: getattr(self, name)
            for name in ("budget", "ball")
            if getattr(self, name) is not None
        }
        return {name: one.model_dump() for name, one in found.items()} or None

    def lowers(self) -> Floats:
        """float64[count]"""
        return np.broadcast_to(np.array(self.lower, dtype=np.float64), self.count)

    def uppers(self) -> Floats:
        """float64[count]"""
        return np.broadcast_to(np.array(self.upper, dtype=np.float64), self.count)

    def projected(self, point: Floats) -> Floats:
        """The nearest state that the agent may have."""
        return onto(point, self.lowers(), self.uppers(), self.within)

    def widest(self) -> float:
        """No two states of the set are farther apart, in l2."""
        width = float(np.linalg.norm(self.uppers() - self.lowers()))
        return width if self.ball is None else min(width, 2 * self.ball.radius)


class AgentFigures(Announcement):
    """An agent with its name in expressions."""

    name: Name

    @property
    def coordinates(self) -> tuple[str, ...]:
        """What expressions call them."""
        return coordinates_of(self.name, self.dimension)

    def group(self) -> Group:
        return Group(self.name, self.coordinates, self.within)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Of each coordinate, what the set beside the box leaves of it as well."""
        low, high = self.lowers(), self.uppers()
        if self.budget is not None:
            # What the others need at least, and can take at most; their sums are rounded.
            room = 1e-12 * float(
                np.abs(low).sum() + np.abs(high).sum() + abs(self.budget.lower + self.budget.upper)
            )
            low = np.maximum(low, self.budget.lower - (high.sum() - high) - room)
            high = np.minimum(
                high, self.budget.upper - (self.lowers().sum() - self.lowers()) + room
            )
        if self.ball is not None:
            centre = np.array(self.ball.centre, dtype=np.float64)
            room = 1e-12 * (float(np.abs(centre).max()) + self.ball.radius)
            low = np.maximum(low, centre - self.ball.radius - room)
            high = np.minimum(high, centre + self.ball.radius + room)
        ends = zip(low.tolist(), high.tolist(), strict=True)
        return dict(zip(self.coordinates, ends, strict=True))


def coordinates_of(name: str, dimension: int | None) -> tuple[str, ...]:
    """The names of an agent's coordinates in expressions."""
    return (
        (name,)
        if dimension is None
        else tuple(f"{name}_{place}" for place in range(1, dimension + 1))
    )


def hides_all(agent: Announcement, steps: int) -> bool:
    """Whether the radius spans any two trajectories of so many steps."""
    return agent.radius >= agent.widest() * math.sqrt(steps)

"""The public part of an agent: its state's coordinates, their set, and the radius of its
protection."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from discreet.intake.field_issues import FieldError
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.saddle.saddle_point import Group
from discreet_client.convex_sets import Polytope
from discreet_client.projections import onto, polytope_rows

Floats = NDArray[np.float64]

MAX_DIMENSION = 1000
MAX_NUMBERS = 128
"""The most coordinates plus rows of a polytope: a dense system of this many equations is solved."""
MAX_ENTRIES = 20_000
"""The most entries of the rows of all polytopes together."""
MAX_POLYTOPES = 500
"""The most polytopes: each is checked for a point in some milliseconds."""
CUTS = 3
"""Number of passes that tighten a box by the rows of a polytope."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
Bound = Annotated[Real, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Bound], Field(min_length=1, max_length=MAX_DIMENSION, fail_fast=True)]
SumBound = Annotated[Real, Field(ge=-1e9, le=1e9)]


class SumRange(Frozen):
    """The range of the sum of a state's coordinates, such as an energy over hours."""

    lower: SumBound
    upper: SumBound = Field(description="May equal `lower`: then the sum is fixed")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.upper:
            raise FieldError("lower", "lower must not be above upper")
        return self


class Ball(Frozen):
    """Points within `radius` of `centre`."""

    centre: Vector
    radius: Annotated[Real, Field(gt=0, le=1e6)]


Row = Annotated[list[Bound], Field(min_length=1, max_length=MAX_NUMBERS, fail_fast=True)]
Rows = Annotated[list[Row], Field(max_length=MAX_NUMBERS, fail_fast=True)]
Limits = Annotated[list[SumBound], Field(max_length=MAX_NUMBERS, fail_fast=True)]


class AgentPolytope(Frozen):
    """`A x <= b` and `C x = d`, each with a column for each coordinate; either may be left out."""

    A: Rows = Field(default_factory=list, description="Rows of `A x <= b`")
    b: Limits = Field(default_factory=list)
    C: Rows = Field(default_factory=list, description="Rows of `C x = d`")
    d: Limits = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        for matrix, limits in (("A", "b"), ("C", "d")):
            rows, ends = len(getattr(self, matrix)), len(getattr(self, limits))
            if rows != ends:
                raise FieldError(limits, f"{ends} limits for the {rows} rows of {matrix}")
        if not self.b and not self.d:
            raise FieldError("A", "a polytope has a row in A or in C")
        return self

    @property
    def rows(self) -> int:
        return len(self.b) + len(self.d)


def _absent(value: Any) -> bool:
    return value is None


SETS = ("budget", "ball", "polytope")
EMPTY = "no point of the box keeps all rows"


class Announcement(Frozen):
    """The public part of an agent: the set of its states, and the radius of its protection."""

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
    polytope: AgentPolytope | None = Field(
        default=None,
        exclude_if=_absent,
        description="Rows that the coordinates keep, within the box",
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
        given = [field for field in SETS if getattr(self, field) is not None]
        for field in given:
            if self.dimension is None:
                raise FieldError(field, f"a {field} is of a state with a `dimension`")
        if len(given) > 1:
            says = (
                "an agent has a budget, a ball or a polytope beside its box, one of them (a budget "
                "is a row of ones in a polytope)"
            )
            raise FieldError(given[1], says)
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
        if self.polytope is not None:
            self._check_rows(self.polytope)
        return self

    def _check_rows(self, polytope: AgentPolytope) -> None:
        """Checks of a polytope that need no search for a point in it, for which see `check_set`."""
        for matrix in ("A", "C"):
            for place, row in enumerate(getattr(polytope, matrix)):
                if len(row) != self.dimension:
                    raise FieldError(
                        f"polytope/{matrix}/{place}",
                        f"{len(row)} numbers; the dimension is {self.dimension}",
                    )
        if self.count + polytope.rows > MAX_NUMBERS:
            raise FieldError(
                "polytope",
                f"{self.count} coordinates and {polytope.rows} rows are more than {MAX_NUMBERS} "
                "together",
            )
        low, high = self.cut()
        if not (low <= high).all():
            raise FieldError("polytope", EMPTY)

    def check_set(self) -> None:
        """FieldError if no state satisfies all rows of the polytope."""
        if self.polytope is None:
            return
        try:
            Polytope(np.array(self.lowers()), np.array(self.uppers()), *self._rows())
        except ValueError as error:
            raise FieldError("polytope", str(error)) from None

    @property
    def count(self) -> int:
        """Coordinates."""
        return self.dimension or 1

    @property
    def within(self) -> dict[str, Any] | None:
        """The set apart from the box, in the form of `discreet_client.projections.onto`."""
        found = {name: getattr(self, name) for name in SETS if getattr(self, name) is not None}
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

    def _rows(self) -> tuple[Floats, Floats, Floats]:
        """R float64[r, count], least and most float64[r] of the polytope."""
        assert self.polytope is not None
        return polytope_rows(self.polytope.model_dump(), self.count)

    def cut(self) -> tuple[Floats, Floats]:
        """The box, tightened by each row: `R_i x_i` is at most the row's limit minus the least sum
        of the other coordinates. All sums are rounded outwards."""
        low, high = self.lowers().copy(), self.uppers().copy()
        R, least, most = self._rows()
        for _ in range(CUTS):
            for row, begin, end in zip(R, least, most, strict=True):
                ends = np.sort(np.stack([row * low, row * high]), axis=0)
                others = ends.sum(axis=1, keepdims=True) - ends
                limit = abs(end) if np.isinf(begin) else max(abs(begin), abs(end))
                # Products below the least normal double have a larger relative error.
                room = 1e-12 * (float(np.abs(ends).sum()) + limit) + 1e-300
                used = row != 0
                bounds = np.stack([begin - others[1] - room, end - others[0] + room])[:, used]
                with np.errstate(over="ignore"):  # by a tiny entry: then it bounds nothing
                    bounds = np.sort(bounds / row[used], axis=0)
                low[used] = np.maximum(low[used], bounds[0])
                high[used] = np.minimum(high[used], bounds[1])
                if not (low <= high).all():
                    return low, high
        return low, high

    def widest(self) -> float:
        """Upper bound of the l2 distance of two states of the set."""
        low, high = (self.lowers(), self.uppers()) if self.polytope is None else self.cut()
        width = float(np.linalg.norm(high - low))
        return width if self.ball is None else min(width, 2 * self.ball.radius)


class SessionAnnouncement(Announcement):
    """What an agent of a session announces."""

    masks: Literal["sparse"] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Of a job with masks, and only of one: the agent takes part in masked sums "
        "alone, and never sends its state",
    )


class AgentFigures(Announcement):
    """An agent with its name in expressions."""

    name: Name

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of its coordinates in expressions."""
        return coordinates_of(self.name, self.dimension)

    def group(self) -> Group:
        return Group(self.name, self.coordinates, self.within)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """The range of each coordinate, also tightened by the set apart from the box."""
        low, high = self.lowers(), self.uppers()
        if self.polytope is not None:
            low, high = self.cut()
        if self.budget is not None:
            # The least and the most of the other coordinates; their sums are rounded.
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
    """Whether the radius covers any two trajectories of this many steps."""
    return agent.radius >= agent.widest() * math.sqrt(steps)

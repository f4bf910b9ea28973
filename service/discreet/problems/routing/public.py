"""The public part of trips."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from discreet.intake.field_issues import WHY
from discreet.intake.items import InPieces
from discreet.problems import descriptions
from discreet.problems.numbers import Frozen, Positive, Real, Seen

MAX_TRIPS = 10**6
"""The most trips of one person, in one row and as a clip."""
FINEST = 1000
"""Largest `trip_scale`: clips and sums of them stay within 64 bits."""
UNDECLARED_ROWS = {"request": 2_000_000, "person": 500_000}
"""Default bound of a private content, by unit, if its owner declares none: releases take the time
for this many."""
Zones = Annotated[int, Field(strict=True, ge=1, le=3000)]
MOST_CLASSES = 8
ClassName = Annotated[
    str,
    StringConstraints(pattern=r"^[^\s/]([^\x00-\x1f\x7f/]{0,38}[^\s/])?$"),
    Seen,
    Field(json_schema_extra={WHY: "a name of at most 40 letters, without a slash"}),
]


class RoutingPublic(Frozen):
    """The public part of a set of trips."""

    unit: Literal["request", "person"] = Field(
        description="What the guarantee hides: each single trip (request), or all trips of each "
        "person, which needs a column `person`"
    )
    zones: Zones = Field(
        description="Number of zones that trips begin and end in. Zone k is node k of the network"
    )
    periods: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(
        description="How many periods the data cover, such as 30 mornings; answers are means of "
        "a period"
    )
    period_minutes: Annotated[Real, Field(gt=0, le=1e6)] = Field(
        description="Length of a period; flows and capacities are per period"
    )
    trip_scale: Annotated[int, Field(strict=True, ge=1, le=FINEST)] = Field(
        default=1,
        description="Parts into which a trip may be divided: with 100 the content may have "
        "hundredths of trips. Noise in trips stays the same",
    )
    max_total: Positive | None = Field(
        default=None,
        description="Most trips of one period, known without the data; content with more is "
        "refused. Plans can then tell how full roads are",
    )
    max_pair: Positive | None = Field(
        default=None,
        description="Most trips of one pair of zones in one period, known without the data; "
        "content with more is refused",
    )
    max_person: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIPS)] | None = Field(
        default=None,
        description="Most trips of one person over all periods, known without the data; content "
        "with more is refused. `max_trips_per_person: auto` takes it",
    )
    max_rows: Positive | None = Field(
        default=None,
        description="Public bound on the number of cells (period, pair of zones and, where the "
        "unit is person, person) that have trips, chosen without looking at them: releases take "
        f"the time of so many. Absent: {UNDECLARED_ROWS['request']:,} for requests, "
        f"{UNDECLARED_ROWS['person']:,} for persons",
    )

    user_classes: (
        Annotated[tuple[ClassName, ...], InPieces(min_length=2, max_length=MOST_CLASSES)] | None
    ) = Field(
        default=None,
        description="Names of the classes of users, such as car and truck, if each trip has a "
        "`user_class`, which is as private as the trip itself. Absent: trips have no classes",
    )

    reader: descriptions.Rules = None
    columns: descriptions.Names = None

    @field_validator("user_classes")
    @classmethod
    def _different(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and len(set(names)) < len(names):
            raise ValueError("a name appears twice")
        return names

    @property
    def class_count(self) -> int | None:
        """The number of classes of users; None if trips have none."""
        return None if self.user_classes is None else len(self.user_classes)

    @property
    def cells(self) -> int:
        """The number of counts of a period: one for each ordered pair of distinct zones and class
        of users."""
        return self.zones * (self.zones - 1) * (self.class_count or 1)

    @property
    def row_bytes(self) -> int:
        """The columns of a row of content: period, origin, destination, count, and the class if
        there is one."""
        return 8 * (4 if self.user_classes is None else 5)

    @property
    def counts_a_mean_trip(self) -> int:
        """Counts over all periods of a mean of one trip per period."""
        return self.periods * self.trip_scale

    @property
    def most_rows(self) -> int:
        """The number of cells that may have trips, from public figures."""
        most = self.max_rows or UNDECLARED_ROWS[self.unit]
        return (
            min(most, self.periods * self.zones**2 * (self.class_count or 1))
            if self.unit == "request"
            else most
        )

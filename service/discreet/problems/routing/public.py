"""What is published of trips."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from discreet.problems.numbers import Frozen, Positive, Real

MAX_TRIPS = 10**6
"""Most trips of one person, in one row and as a clip."""
FINEST = 1000
"""Largest `trip_scale`: clips and sums of them stay within 64 bits."""
UNDECLARED_ROWS = {"request": 2_000_000, "person": 500_000}
"""Most of a private content, by unit, whose owner declares no bound: releases take the time of so
many."""
Zones = Annotated[int, Field(strict=True, ge=1, le=3000)]


class RoutingPublic(Frozen):
    """What is published of a set of trips."""

    unit: Literal["request", "person"] = Field(
        description="Whom a neighbouring dataset adds or removes"
    )
    zones: Zones
    periods: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(
        description="Periods observed, N"
    )
    period_minutes: Annotated[Real, Field(gt=0, le=1e6)]
    trip_scale: Annotated[int, Field(strict=True, ge=1, le=FINEST)] = Field(
        default=1,
        description="Counts that a trip is worth: with 100 the content may have hundredths of "
        "trips. A trip more or less moves so many counts, and noise grows with them: in trips it "
        "stays what it is",
    )
    max_total: Positive | None = Field(
        default=None,
        description="Public bound on the trips of one period, which the content must keep",
    )
    max_pair: Positive | None = Field(
        default=None,
        description="Public bound on the trips of one pair in one period, which the content must "
        "keep",
    )
    max_person: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIPS)] | None = Field(
        default=None,
        description="Public bound on the trips of one person over all periods, which the content "
        "must keep: what `max_trips_per_person: auto` takes",
    )
    max_rows: Positive | None = Field(
        default=None,
        description="Public bound on the number of cells (period, pair of zones and, where the "
        "unit is person, person) that have trips, chosen without looking at them: releases take "
        f"the time of so many. Absent: {UNDECLARED_ROWS['request']:,} for requests, "
        f"{UNDECLARED_ROWS['person']:,} for persons",
    )

    @property
    def counts_a_mean_trip(self) -> int:
        """Counts over all periods of what is one trip a period in the mean."""
        return self.periods * self.trip_scale

    @property
    def most_rows(self) -> int:
        """How many cells may have trips, from public figures."""
        most = self.max_rows or UNDECLARED_ROWS[self.unit]
        return min(most, self.periods * self.zones**2) if self.unit == "request" else most

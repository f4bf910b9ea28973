"""Trips of the users of a network: their public part, and their canonical form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from discreet.errors import InvalidInput
from discreet.intake.items import InPieces
from discreet.problems.contents import (
    PRIVATE,
    Content,
    Issues,
    Packed,
    UnitRows,
    are_spread,
    arrays,
    owner_column,
)
from discreet.problems.datasets import Column, FileQuestion, ReaderRule
from discreet.problems.numbers import Count, Frozen, Real
from discreet.problems.routing import blocks, layouts, own_file
from discreet.problems.routing.bounds import MAX_COUNT, bounds_of, kept
from discreet.problems.routing.canonical import canonical, summed
from discreet.problems.routing.cells import add_rows, plain_columns
from discreet.problems.routing.labels import numbers_of
from discreet.problems.routing.parts import PersonRows
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.tables import counted, trip_columns
from discreet.problems.sources import DatasetInBlocks

MERGE_ROWS = 1 << 20
"""The most rows of batches of an upload that wait to be summed."""
MOST_CELLS, CELLS_A_ROW = 1 << 24, 16
"""The most cells, and the fewest rows, for which sums of all cells are stored: at most 128 MiB."""
PERSON_NEEDED = (
    "public.unit is person, so every trip says whose it is: a text or an integer, the same for "
    "all trips of one person (where trips themselves are protected and not persons, public.unit "
    "is request)"
)
Ints = NDArray[np.int64]


@with_config(ConfigDict(extra="forbid"))
class Trip(TypedDict):
    """Trips of one pair in one period, in whole trips or in multiples of 1/`trip_scale`; `person`
    if the unit is a person, `user_class` if trips have classes: one of the public
    `user_classes`."""

    period: Count
    origin: Count
    destination: Count
    count: Annotated[Real, Field(ge=0, le=MAX_COUNT)]
    person: NotRequired[str | int]
    user_class: NotRequired[str]


class RoutingContent(Frozen):
    """The private content."""

    model_config = arrays(
        {
            "axes": ["period", "origin", "destination"],
            "first": [0, 1, 1],
            "value": "count",
            "sparse": True,
        }
    )

    trips: Annotated[list[Trip], InPieces()]


class RoutingDataset(DatasetInBlocks):
    """Trips of the users of a network."""

    ROWS: ClassVar[Mapping[str, Any]] = {"trips": Trip}
    OWNER: ClassVar[str] = "person"
    RECORDS: ClassVar[str] = "person_start"
    ASKED: ClassVar[tuple[FileQuestion, ...]] = own_file.QUESTIONS
    FIGURES: ClassVar[frozenset[str]] = frozenset(
        ("max_total", "max_pair", "max_person", "max_rows")
    )
    LATER: ClassVar[Mapping[str, str]] = {
        "max_total": "the most trips of a period: an accuracy can be asked for in per cent, and "
        "plans say how wrong travel times will be on full roads"
    }

    kind: Literal["routing"]
    public: RoutingPublic
    content: RoutingContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def sizes(cls, public: RoutingPublic, content: Content) -> dict[str, tuple[int, int]]:
        return {"max_rows": (len(content["trips"]), public.most_rows)}

    @classmethod
    def most_bytes(cls, public: RoutingPublic) -> int | None:
        start = 8 if public.unit == "person" else 0  # of each person, who may have one row
        rows = public.most_rows
        return None if public.max_rows is None else rows * (public.row_bytes + start) + start

    @classmethod
    def most_units(cls, public: RoutingPublic) -> int | None:
        return None if public.max_total is None else public.max_total * public.periods

    @classmethod
    def check_again(cls, public: RoutingPublic, content: Content) -> None:
        kept(public, content, "/content")

    @classmethod
    def relation(cls, public: RoutingPublic) -> dict[str, Any]:
        return {"neighbours": "added or removed"}

    @classmethod
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        places = ("period", "origin", "destination")
        columns: Packed = {
            name: np.array([row[name] for row in items], dtype=np.int32) for name in places
        }
        columns["count"] = np.array([row["count"] for row in items], dtype=np.float64)
        # As objects: an array of fixed-width text drops trailing NUL characters, which would merge
        # two persons.
        columns["person"] = np.fromiter(
            (row.get("person") for row in items), dtype=object, count=len(items)
        )
        columns["user_class"] = np.fromiter(
            (row.get("user_class") for row in items), dtype=object, count=len(items)
        )
        return columns

    @classmethod
    def read_packed(cls, public: RoutingPublic, packed: Mapping[str, Packed]) -> Content:
        columns = {name: packed["trips"][name] for name in bounds_of(public)}
        persons = packed["trips"]["person"]
        missing = np.fromiter(
            (person is None for person in persons), dtype=bool, count=persons.size
        )
        issues = Issues("/content/trips")
        if public.unit == "person":
            if missing.all() and missing.size:
                raise InvalidInput(
                    f"no trip has a `person`; {PERSON_NEEDED}", pointer="/content/trips"
                )
            issues.where(missing, "person", f"this trip has no `person`; {PERSON_NEEDED}")
        else:
            says = (
                "public.unit is request, so a trip has no `person`; leave it out, or say unit "
                "person"
            )
            issues.where(~missing, "person", says, persons)
        labels = packed["trips"]["user_class"]
        classes = numbers_of(public, labels.tolist(), issues)
        issues.check()
        columns = counted(public, columns, "/content/trips")
        if public.user_classes is not None:
            columns["user_class"] = classes
        names = None
        if public.unit == "person":
            names = np.fromiter(map(str, persons), dtype=object, count=persons.size)
        return kept(public, canonical(columns, names), "/content/trips")

    @classmethod
    def not_in_blocks(cls, public: RoutingPublic) -> str:
        return blocks.PERSONS if public.unit == "person" else ""

    @classmethod
    def nothing(cls, public: RoutingPublic) -> Content:
        return blocks.nothing(4 if public.user_classes is None else 5)

    @classmethod
    def combined(cls, public: RoutingPublic, number: int) -> RoutingPublic:
        given = public.model_dump(mode="json", exclude_none=True)
        return (
            public
            if number == 1
            else cls.read_public(blocks.combined(given, number, public.most_rows))
        )

    @classmethod
    def joined(cls, public: RoutingPublic, contents: Sequence[Content]) -> Content:
        return blocks.joined(public.periods, contents)

    @classmethod
    def columns(cls, public: RoutingPublic) -> list[Column]:
        return layouts.columns(public)

    @classmethod
    def reader_rules(cls, public: RoutingPublic) -> tuple[ReaderRule, ...]:
        return layouts.RULES

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        public = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
        trips = {
            "period": [0, 1, 0],
            "origin": [1, 1, 2],
            "destination": [2, 2, 3],
            "count": [5, 3, 4],
        }
        yield public, trips
        yield {**public, "trip_scale": 2}, {**trips, "count": [0.5, 3.0, 4.5]}
        classes = {"user_classes": ["car", "truck"]}
        yield {**public, **classes}, {**trips, "user_class": ["car", "truck", "car"]}
        for names in ([7, 7, 8], [8, 7, 8], ["anna", "anna", "ben"]):
            yield {**public, "unit": "person"}, {**trips, "person": names}

    @classmethod
    def read_table(cls, public: RoutingPublic, table: pa.Table) -> Content:
        person = public.unit == "person"
        if person and "person" not in table.column_names:
            raise InvalidInput(f"column 'person' is missing; {PERSON_NEEDED}", pointer="/content")
        if not person and "person" in table.column_names:
            says = (
                "column 'person' is not for public.unit request: leave it out, or say unit person"
            )
            raise InvalidInput(says, pointer="/content")
        columns = trip_columns(public, table, ("person",) if person else ())
        if not person:
            return kept(public, canonical(columns, None), "/content")
        return kept(
            public, canonical(columns, owner_column(table, "person", "/content")), "/content"
        )

    @classmethod
    def by_units(cls, public: RoutingPublic, schema: pa.Schema) -> UnitRows | None:
        """Trips of persons; those of requests are summed as they arrive (`read_batches`)."""
        if public.unit != "person":
            return None
        cls.read_table(public, schema.empty_table())  # what is wrong with its columns
        return PersonRows(public) if are_spread(schema.field("person").type) else None

    @classmethod
    def read_batches(
        cls, public: RoutingPublic, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> Content:
        """Unit request: trips are summed as they arrive, so memory grows with the cells that have
        trips, not with rows."""
        if public.unit == "person" or public.user_classes is not None:
            return super().read_batches(public, batches, schema)
        cls.read_table(public, schema.empty_table())  # what is wrong with its columns
        sums, row = _Sums(public), 0
        for batch in batches:
            if not sums.add_plain(batch):
                sums.add(trip_columns(public, pa.Table.from_batches([batch]), first=row))
            row += batch.num_rows
        return kept(public, {"trips": sums.trips()}, "/content")


class _Sums:
    """Trips of rows that arrive in batches, summed by period and pair.

    Batches are sorted and merged; once there are many rows, an array of all cells is faster.
    """

    def __init__(self, public: RoutingPublic) -> None:
        self._shape = public.periods, public.zones, public.zones
        self._most = bounds_of(public)["count"][1] if public.trip_scale == 1 else None
        self._cells: Ints | None = None
        self._total = np.zeros((0, 4), dtype=np.int64)
        self._parts: list[Ints] = []
        self._rows = self._waiting = 0

    def add_plain(self, batch: pa.RecordBatch) -> bool:
        """Add rows to the array of all cells; False, and nothing added, if `add` has to check them
        and perhaps report an error."""
        self._place(batch.num_rows)
        if self._cells is None or self._most is None or (columns := plain_columns(batch)) is None:
            return False
        periods, zones, _ = self._shape
        if not add_rows(self._cells, columns, (periods, zones, self._most)):
            return False
        self._rows += batch.num_rows
        return True

    def add(self, columns: dict[str, Ints]) -> None:
        self._place(len(columns["count"]))
        self._rows += len(columns["count"])
        if self._cells is not None:
            self._put(*(columns[name] for name in ("period", "origin", "destination", "count")))
            return
        self._parts.append(canonical(columns, None)["trips"])
        self._waiting += len(self._parts[-1])
        if self._waiting > max(
            len(self._total), MERGE_ROWS
        ):  # so that merging takes only a few passes over all parts
            self._total, self._parts, self._waiting = self.trips(), [], 0

    def _place(self, more: int) -> None:
        """Allocate the array of all cells if that is worthwhile for the rows so far and these."""
        if self._cells is None and math.prod(self._shape) <= min(
            MOST_CELLS, CELLS_A_ROW * (self._rows + more)
        ):
            before = self.trips()
            self._cells = np.zeros(math.prod(self._shape), dtype=np.int64)
            self._put(*before.T)

    def trips(self) -> Ints:
        """As `canonical` gives them."""
        if self._cells is None:
            return summed([self._total, *self._parts])
        kept = np.flatnonzero(self._cells)
        period, origin, destination = np.unravel_index(kept, self._shape)
        return np.stack([period, origin + 1, destination + 1, self._cells[kept]], axis=1)

    def _put(self, period: Ints, origin: Ints, destination: Ints, count: Ints) -> None:
        _, zones, _ = self._shape
        assert self._cells is not None
        np.add.at(self._cells, (period * zones + origin - 1) * zones + destination - 1, count)

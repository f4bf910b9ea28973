"""Trips of the users of a network: their public part, and their canonical form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import wraps
from typing import Annotated, Any, ClassVar, Literal, NotRequired, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit
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
from discreet.problems.datasets import (
    Column,
    ReaderRule,
)
from discreet.problems.numbers import Count, Frozen, Real
from discreet.problems.routing import layouts
from discreet.problems.routing.bounds import MAX_COUNT, bounds_of, kept
from discreet.problems.routing.canonical import canonical, summed
from discreet.problems.routing.labels import numbers_of
from discreet.problems.routing.parts import PersonRows
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.tables import counted, trip_columns
from discreet.problems.sources import DatasetInBlocks
from discreet_client import tntp
from discreet_client.tables import TableError
from discreet_client.tntp import TripsRow
from discreet_client.trips import MOST_PARTS, NEARLY_WHOLE, in_parts, no_parts, scale_of

# Dataset ------------------------------------------------------------------------------------------

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
        return PERSONS if public.unit == "person" else ""

    @classmethod
    def nothing(cls, public: RoutingPublic) -> Content:
        return nothing(4 if public.user_classes is None else 5)

    @classmethod
    def combined(cls, public: RoutingPublic, number: int) -> RoutingPublic:
        given = public.model_dump(mode="json", exclude_none=True)
        return public if number == 1 else cls.read_public(combined(given, number, public.most_rows))

    @classmethod
    def joined(cls, public: RoutingPublic, contents: Sequence[Content]) -> Content:
        return joined(public.periods, contents)

    @classmethod
    def columns(cls, public: RoutingPublic) -> list[Column]:
        return layouts.columns(public)

    @classmethod
    def reader_rules(cls, public: RoutingPublic) -> tuple[ReaderRule, ...]:
        return layouts.RULES

    @classmethod
    def sample_files(cls) -> Iterable[tuple[dict[str, Any], str, Any]]:
        trips = {"unit": "request", "zones": 2, "periods": 2, "period_minutes": 60}
        clock = {"time_zone": "Europe/Berlin", "start": "02.11.2026 07:00", "zones": ["Ä", "B"]}
        named = {"origin": "Von", "destination": "Nach", "time": "Tag+Zeit", "count": "Fahrten"}
        leaves = dict.fromkeys(("missing", "other_zones", "outside"), "leave_out")
        head = "Von;Nach;Tag;Zeit;Fahrten\n"
        good = head + "Ä;B;02.11.2026;07:10;1,0\nB;Ä;02.11.2026;08:10;2\nB;C;03.11.2026;;3\n"
        for encoding, rules in (
            ("cp1252", {**clock, **leaves, "encoding": "cp1252", "decimal": ","}),
            ("utf-16", {**clock, **leaves, "every": "day"}),
            ("utf-8", clock),
            ("latin-1", clock),
        ):
            public = {**trips, "reader": rules, "columns": named}
            yield public, "csv", good.encode(encoding)
        public = {**trips, "reader": clock, "columns": named}
        for row in (
            "Ä;B;30.02.2026;07:10;1",
            "Ä;B;29.03.2026;02:30;1",
            "Ä;C;02.11.2026;7 Uhr;1.234",
        ):
            yield public, "csv", f"{head}{row}\n".encode()
        yield public, "csv", head.encode()
        plain = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60, "reader": {}}
        yield plain, "xlsx", [["origin", "destination"], [1, 2], ["A", 2]]
        yield plain, "xlsx", [["origin", "destination"], [1, 2], [2, 1]]
        chosen: tuple[dict[str, Any], ...] = ({}, {"matrix": "no"}, {"zones": ["7", "9"]})
        for rules in chosen:
            yield {**plain, "reader": rules}, "omx", [[0, 2], [1, 0]]
        rows: list[dict[str, Any]] = [
            {"origin": 1, "destination": 2},
            {"origin": 2, "destination": "x"},
        ]
        for number in (1, 2):
            yield plain, "json", rows[:number]
            yield plain, "parquet", rows[:number]

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


# Blocks -------------------------------------------------------------------------------------------
# Blocks of trips as one set of trips with consecutive periods.

MOST_PERIODS = 100_000
PERSONS = (
    "a person's trips lie in many blocks, and nothing stored says which records of two blocks are "
    "the same person's: neither caps of blocks nor one cap of the source would bound what is told "
    "about that person. Protect trips (unit request), or register one dataset for all days"
)


def nothing(columns: int = 4) -> Content:
    """Canonical content without trips."""
    return {"trips": np.zeros((0, columns), dtype=np.int64)}


def combined(public: dict[str, Any], blocks: int, rows: int) -> dict[str, Any]:
    """The public part of this many blocks, each with at most `rows` cells: the mean of a period is
    taken over all blocks."""
    periods = public["periods"] * blocks
    if periods > MOST_PERIODS:
        says = (
            f"{blocks} blocks have {periods} periods together, at most {MOST_PERIODS} are read "
            "at once"
        )
        raise InvalidInput(says, pointer="/problem/source")
    return {**public, "periods": periods, "max_rows": rows * blocks}


def joined(periods: int, contents: Sequence[Content]) -> Content:
    """Trips by period and pair, already sorted: each block's periods follow those of the previous
    block."""
    parts = [content["trips"].copy() for content in contents]
    for number, part in enumerate(parts):
        part[:, 0] += periods * number
    return {"trips": np.concatenate(parts)}


# Cells --------------------------------------------------------------------------------------------
# Rows of trips, checked and summed into their cells without intermediate columns.

COLUMNS = ("period", "origin", "destination", "count")
_BYTES = 8


def plain_columns(batch: pa.RecordBatch) -> list[NDArray[np.int64]] | None:
    """The four columns of a batch as int64, each read-only as Arrow gives it; None if the batch has
    other columns, missing values, or numbers that are not integers in range: other readers report
    these."""
    if sorted(batch.schema.names) != sorted(COLUMNS):
        return None
    found = []
    for name in COLUMNS:
        column = batch.column(name)
        width = column.type.bit_width // 8 if pa.types.is_integer(column.type) else _BYTES + 1
        if column.null_count or width > _BYTES or column.type == pa.uint64():
            return None
        values = column.to_numpy().astype(np.int64, copy=False)
        values.setflags(write=False)
        found.append(values)
    return found


def add_rows(
    cells: NDArray[np.int64], columns: Sequence[NDArray[np.int64]], sides: tuple[int, int, int]
) -> bool:
    """Add the counts of these rows to their cells; False, and nothing added, if a row is out of
    bounds.

    `sides`: periods, zones, and the largest count of a row.
    """
    period, origin, destination, count = columns
    periods, zones, most = (np.int64(side) for side in sides)
    return bool(_add(period, origin, destination, count, periods, zones, most, cells))


@njit(cache=True, nogil=True)
def _add(
    period: NDArray[np.int64],
    origin: NDArray[np.int64],
    destination: NDArray[np.int64],
    count: NDArray[np.int64],
    periods: np.int64,
    zones: np.int64,
    most: np.int64,
    cells: NDArray[np.int64],
) -> bool:
    for row in range(period.size):
        if not (
            0 <= period[row] < periods
            and 1 <= origin[row] <= zones
            and 1 <= destination[row] <= zones
        ):
            return False
        if not 0 <= count[row] <= most:
            return False
    for row in range(period.size):
        cells[(period[row] * zones + origin[row] - 1) * zones + destination[row] - 1] += count[row]
    return True


# Tntp ---------------------------------------------------------------------------------------------
# The TNTP text format of traffic assignment as bodies of POST /v1/jobs; `discreet_client.tntp`
# reads it.
#
# Conditions of a valid problem (zones that paths join, limits of counts) are checked where every
# other body is checked.

MOST_COMMON_B = 1e6
"""The largest values of a problem's latency; a link's own may be larger."""

Given = ParamSpec("Given")
Read = TypeVar("Read")


def told(read: Callable[Given, Read]) -> Callable[Given, Read]:
    """The reader, with its errors as InvalidInput with the same sentence."""

    @wraps(read)
    def reading(*given: Given.args, **named: Given.kwargs) -> Read:
        try:
            return read(*given, **named)
        except TableError as error:
            raise InvalidInput(str(error)) from None

    return reading


read_network = told(tntp.read_network)
read_trips = told(tntp.read_trips)


@told
def read_nodes(text: str) -> list[tuple[float, float]]:
    """The coordinates (x, y) of the nodes of the node file `text`, by number."""
    found = tntp.read_places(text)
    return [found[node] for node in sorted(found)]


@told
def convert(
    net_text: str,
    trips_text: str,
    *,
    node_text: str | None = None,
    epsilon: str = "0.1",
    cap: tuple[str, str] = ("1", "0"),
    round_trips: bool = False,
    trip_scale: int = 1,
    toll_weight: float | None = None,
    distance_weight: float | None = None,
    name: str = "trips",
) -> dict[str, Any]:
    """A body of POST /v1/jobs: the trips as one period of an hour of a private dataset, the
    network, BPR latency.

    `epsilon` is the job's, `cap` the dataset's (epsilon, delta), decimals as text. Trips must be
    integers or multiples of 1/`trip_scale`; with `round_trips` they are rounded to these, half up.
    Pairs without trips are left out. `node_text` is only checked against the network: a body has no
    place for coordinates, and `read_nodes` gives them. The weights are those of
    `NetworkFile.fixed_costs`. The latency has the b and power of most links, and other links have
    their own. InvalidInput names file and line of anything that cannot be read.
    """
    network = read_network(net_text)
    trips = read_trips(trips_text, network.numbers)
    if network.zones != trips.zones:
        raise InvalidInput(
            f"the network file has {network.zones} zones, the trips file {trips.zones}"
        )
    if not network.links:
        raise InvalidInput("network file: no links")
    if node_text is not None and (placed := len(read_nodes(node_text))) != network.nodes:
        raise InvalidInput(f"the network file has {network.nodes} nodes, the node file {placed}")
    fixed_costs = network.fixed_costs(toll_weight, distance_weight)
    counts = _counts(trips.rows, scale_of({"trip_scale": trip_scale}), round_trips=round_trips)
    usual = Counter(
        (link.b, link.power)
        for link in network.links
        if link.power >= 1 and link.b <= MOST_COMMON_B
    )
    b, power = usual.most_common(1)[0][0] if usual else (0.15, 4)
    parts = {} if trip_scale == 1 else {"trip_scale": trip_scale}
    return {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": name,
                "kind": "routing",
                "public": {
                    "unit": "request",
                    "zones": trips.zones,
                    "periods": 1,
                    "period_minutes": 60,
                    **parts,
                },
                "content": {
                    "trips": [
                        {
                            "period": 0,
                            "origin": row.origin,
                            "destination": row.destination,
                            "count": count,
                        }
                        for row, count in zip(trips.rows, counts, strict=True)
                        if count
                    ]
                },
                "cap": {
                    "epsilon": _decimal(cap[0], "cap epsilon"),
                    "delta": _decimal(cap[1], "cap delta"),
                },
                "mode": "private",
            },
            "network": {
                "nodes": network.nodes,
                "first_through_node": network.first_through_node,
                "links": [
                    {
                        "tail": link.tail,
                        "head": link.head,
                        "free_flow_time": link.free_flow_time,
                        "capacity": link.capacity,
                        **(
                            {"b": link.b, "power": link.power}
                            if (link.b, link.power) != (b, power)
                            else {}
                        ),
                        **({"fixed_cost": fixed_cost} if fixed_cost else {}),
                    }
                    for link, fixed_cost in zip(network.links, fixed_costs, strict=True)
                ],
            },
            "latency": {"type": "bpr", "b": b, "power": power},
            "objective": "system_optimum",
        },
        "privacy": {"epsilon": _decimal(epsilon, "epsilon"), "delta": 0},
    }


def _counts(rows: Sequence[TripsRow], scale: int, *, round_trips: bool) -> list[int] | list[float]:
    """The trips of each row, as integer multiples of the unit."""
    trips = np.array([row.trips for row in rows], dtype=np.float64)
    if large := next((row for row in rows if row.trips > MOST_PARTS / scale), None):
        raise InvalidInput(f"trips file, line {large.line}: there are too many trips")
    parts = in_parts(trips, scale)
    kept = parts if scale == 1 else parts / scale
    apart = np.flatnonzero(np.abs(kept - trips) * scale > NEARLY_WHOLE)
    if apart.size and not round_trips:
        row = rows[int(apart[0])]
        raise InvalidInput(
            f"trips file, line {row.line}: {row.trips:g} trips from {row.origin} to "
            f"{row.destination}: a number of trips {no_parts(scale)}; round_trips rounds"
        )
    found: list[int] | list[float] = kept.tolist()
    return found


def _decimal(text: str, what: str) -> int | float:
    """The number whose JSON text has the value of `text`."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise InvalidInput(f"{what}: {text!r} is not a decimal number") from None
    # The exponent is checked first: 1e999999999 must not become an integer of a billion digits.
    if exact.is_finite() and abs(exact.adjusted()) <= 30:
        number = int(exact) if exact == exact.to_integral_value() else float(exact)
        if Decimal(repr(number)) == exact:
            return number
    raise InvalidInput(f"{what}: {text!r} is not a finite number of at most 15 digits")

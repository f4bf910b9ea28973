"""Readings of meters as a private content: (participant, time, kW) to trajectories of states, by
public rules.

What readings become is `discreet_client.meters`, the same for who converts before sending. A
participant becomes one trajectory or none, whatever others sent: contents of neighbours differ by
one trajectory here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import (
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from discreet.errors import InvalidInput
from discreet.problems.contents import Issues, Packed, check_names, owner_column, real_column
from discreet.problems.numbers import Frozen, Real
from discreet_client.meters import (
    EPOCH,
    LAST_TIME,
    NO_ZONE,
    NO_ZONE_OF_START,
    SECOND,
    MeterRule,
    States,
    microseconds,
    start_of,
)

Ints = NDArray[np.int64]

MOST_CARRIED = 100_000
YEAR = 366 * 86_400
COLUMNS = ("participant", "time", "kw")
TIME = "a time such as 2026-11-21T15:00:00+01:00 is needed"
OF_START = "start_of_meters"
"""A name that pydantic's own errors do not have: refusals say these in general words, without what
helps here."""
START = f"{TIME}; with utc_offset beside it also 2026-11-21 15:00 or 21.11.2026 15:00"
UNITS = {"s": 1, "ms": 1000, "us": SECOND, "ns": 1000 * SECOND}
"""Of Arrow's timestamps: how many a second has."""


def _text(value: Any) -> Any:
    """pydantic takes numbers for times too, and texts of digits."""
    if isinstance(value, datetime) or (isinstance(value, str) and value[4:5] == "-"):
        return value
    raise PydanticCustomError("datetime_type", "{says}", {"says": TIME})


def _zoned(value: Any) -> Any:
    """A start stands in a zone, its own or that of `utc_offset`, which `start_of` has put behind
    it."""
    try:
        text = _text(value)
        local = isinstance(text, str) and datetime.fromisoformat(text).tzinfo is None
    except ValueError:  # pydantic's own error is one too
        raise PydanticCustomError(OF_START, "{says}", {"says": START}) from None
    if local:
        raise PydanticCustomError(OF_START, "{says}", {"says": NO_ZONE_OF_START})
    return text


Moment = Annotated[datetime, BeforeValidator(_text)]
_TEXTS = TypeAdapter(Moment)


class Meters(Frozen):
    """How readings become states, chosen without looking at the data. With it a content may be
    meter series."""

    @model_validator(mode="before")
    @classmethod
    def _as_people_write_it(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "start" not in given:
            return given
        return {**given, "start": start_of(given["start"], given.get("utc_offset"))}

    start: Annotated[AwareDatetime, BeforeValidator(_zoned)] = Field(
        description="When the first period begins, with its time zone, such as "
        "2026-01-15T00:00:00+01:00. A reading belongs to the period that its time lies in"
    )
    interval_seconds: Annotated[int, Field(strict=True, ge=1, le=YEAR)] = Field(
        description="Length of a period, such as 900, a quarter of an hour. Its power is the mean "
        "of the participant's readings in it"
    )
    gaps: Literal["refuse", "leave_out", "end"] = Field(
        default="refuse",
        description="What happens to a participant without readings in a period: the content is "
        "refused, the participant is left out, or the trajectory ends before the gap (not with "
        "`steps`)",
    )
    carry: Annotated[int, Field(strict=True, ge=0, le=MOST_CARRIED)] = Field(
        default=0,
        description="The most periods in a row that take the state before them and do not count "
        "as a gap",
    )
    outside: Literal["clamp", "refuse"] = Field(
        default="clamp",
        description="Power outside the edges counts as the outermost state, or is refused",
    )
    utc_offset: Annotated[str, Field(pattern=r"^(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$")] | None = Field(
        default=None,
        description="Offset of times that name none, such as +01:00; absent: such times are "
        "refused",
    )


@with_config(ConfigDict(extra="forbid"))
class Reading(TypedDict):
    """The power that a participant's meter shows at a time."""

    participant: str | int
    time: Moment
    kw: Real


def packed_readings(items: Sequence[Any]) -> Packed:
    times = [row["time"] for row in items]
    zoned = [time.tzinfo is not None for time in times]
    return {
        # As objects: an array of fixed-width text drops zero characters, and two participants would
        # be one.
        "participant": np.fromiter(
            (str(row["participant"]) for row in items), dtype=object, count=len(items)
        ),
        "time": np.array([microseconds(_aware(time)) for time in times], dtype=np.int64),
        "zoned": np.array(zoned, dtype=bool),
        "kw": np.array([row["kw"] for row in items], dtype=np.float64),
    }


def read_packed(rule: MeterRule, rows: Packed, most: int) -> tuple[States, int]:
    """States of the readings of a JSON content, and how many participants they are of."""
    _, owner = np.unique(rows["participant"], return_inverse=True)
    time = _local(rule, rows["time"], ~rows["zoned"], "/content/power")
    return _states(rule, owner.ravel().astype(np.int64), time, rows["kw"], most, "/content/power")


def read_table(rule: MeterRule, table: pa.Table, most: int) -> tuple[States, int]:
    """States of the columns `participant, time, kw`, and how many participants they are of."""
    check_names(table, COLUMNS, (), "/content")
    kw = real_column(table, "kw", "/content").astype(np.float64, copy=False)
    owner = owner_column(table, "participant", "/content")
    time = _times(rule, table.column("time"), 0)
    return _states(rule, owner, time, kw, most, "/content")


def reading_columns(rule: MeterRule, table: pa.Table, first: int = 0) -> dict[str, NDArray[Any]]:
    """Time and power of the rows of a table, or of part of one that begins at row `first`."""
    check_names(table, COLUMNS, (), "/content")
    kw = real_column(table, "kw", "/content", first=first).astype(np.float64, copy=False)
    time = _times(rule, table.column("time"), first)
    check_times(time, "/content", first)
    return {"time": time, "kw": kw}


def check_times(time: Ints, at: str, first: int = 0) -> None:
    issues = Issues(at, first)
    wrong = (time < 0) | (time > LAST_TIME)
    issues.where(wrong, "time", "times must be in the years 1970 to 9999")
    issues.check()


def _states(
    rule: MeterRule,
    owner: NDArray[np.integer[Any]],
    time: Ints,
    kw: NDArray[np.float64],
    most: int,
    at: str,
) -> tuple[States, int]:
    check_times(time, at)
    issues = Issues(at)
    values: Mapping[str, Any] = {"kw": kw, "time": Written(time)}
    for fault in rule.faults(owner, time, kw):
        issues.where(fault.rows, fault.column, fault.detail, values[fault.column])
    issues.check()
    try:
        found = rule.states(owner, time, kw, max(most, time.size))
    except OverflowError as error:
        raise too_many(time.size, str(error), most) from None
    if rule.gaps == "refuse" and found.left_out.size:
        lacking = np.zeros(time.size, dtype=bool)
        lacking[found.left_out] = True
        issues.where(lacking, "participant", gap(rule, first_lacking(found)))
        issues.check()
    return found, int(owner.max(initial=-1)) + 1


def gap(rule: MeterRule, found: States) -> str:
    """Why the first participant who is left out is refused, and what would help."""
    return f"{rule.gap(found)}; {rule.remedies(found, 'participants')}"


def first_lacking(found: States) -> States:
    """With only the one of those who are left out whose row came first, which refusals name."""
    one = int(found.left_out.argmin())
    return found._replace(left_out=found.left_out[one : one + 1], lacks=found.lacks[one : one + 1])


def too_many(readings: int, states: str, most: int) -> InvalidInput:
    says = (
        f"with what is carried over, {readings} readings make {states}, of at most {most}: "
        "carry less"
    )
    return InvalidInput(says, pointer="/public/meters/carry")


class Written(Sequence[str]):
    """Times as texts, when one is looked at."""

    def __init__(self, time: Ints) -> None:
        self._time = time

    def __len__(self) -> int:
        return self._time.size

    def __getitem__(self, row: Any) -> Any:
        return (EPOCH + timedelta(microseconds=int(self._time[row]))).isoformat()


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _local(rule: MeterRule, time: Ints, local: NDArray[np.bool_], at: str, first: int = 0) -> Ints:
    """Times in UTC, of which some are of the public offset."""
    if rule.offset is None:
        issues = Issues(at, first)
        issues.where(local, "time", NO_ZONE)
        issues.check()
        return time
    return np.where(local, time - rule.offset, time)


def _times(rule: MeterRule, column: pa.ChunkedArray, first: int) -> Ints:
    """Microseconds since 1970 of a column of timestamps, days or texts."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    issues = Issues("/content", first)
    issues.where(column.is_null().to_numpy(), "time", "a value is missing")
    issues.check()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(rule, column, first)
    if pa.types.is_date32(kind):
        days = column.cast(pa.int32()).to_numpy().astype(np.int64)
        time, zoned = _scaled(days, 1, 86_400), False
    elif pa.types.is_timestamp(kind):
        time, zoned = (
            _scaled(column.cast(pa.int64()).to_numpy(), UNITS[kind.unit], 1),
            kind.tz is not None,
        )
    else:
        raise InvalidInput(f"column 'time' holds {kind}; {TIME}", pointer="/content")
    return _local(rule, time, np.full(time.size, not zoned), "/content", first)


def _scaled(count: Ints, parts: int, seconds: int) -> Ints:
    """Microseconds of so many `seconds` / `parts`; those that no number holds are after the last
    time."""
    most = (LAST_TIME // SECOND + 1) * parts // seconds
    inside = np.clip(count, -1, most)
    return inside // (parts // SECOND) if parts > SECOND else inside * (SECOND // parts) * seconds


def _of_texts(rule: MeterRule, column: pa.ChunkedArray, first: int) -> Ints:
    """Each text is read once, however many rows it has."""
    encoded = column.dictionary_encode().combine_chunks()
    encoded = encoded if isinstance(encoded, pa.DictionaryArray) else encoded.chunk(0)
    texts = encoded.dictionary.to_pylist()
    time, zoned = np.zeros(len(texts), dtype=np.int64), np.ones(len(texts), dtype=bool)
    wrong = np.zeros(len(texts), dtype=bool)
    for place, text in enumerate(texts):
        try:
            moment = _TEXTS.validate_python(text)
        except ValidationError:
            wrong[place] = True
        else:
            time[place], zoned[place] = microseconds(_aware(moment)), moment.tzinfo is not None
    at = encoded.indices.to_numpy(zero_copy_only=False)
    issues = Issues("/content", first)
    issues.where(wrong[at], "time", TIME, column)
    issues.check()
    return _local(rule, time[at], ~zoned[at], "/content", first)


def sample_tables() -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
    """Good series in every form of their columns, and such as are refused."""
    rule: dict[str, Any] = {"start": "2026-01-01T00:00:00Z", "interval_seconds": 3600}
    public: dict[str, Any] = {
        "unit": "participant",
        "states": 2,
        "edges": [0, 1, 2],
        "meters": rule,
    }
    clock = [datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (0, 1, 0, 1)]
    readings: dict[str, list[Any]] = {
        "participant": [1, 1, 2, 2],
        "time": clock,
        "kw": [0.5, 1.5, 1.5, 0.5],
    }
    yield public, readings
    yield public, readings | {"participant": ["b", "b", "a", "a"], "kw": [0, 1, 2, 3]}
    naive = [time.replace(tzinfo=None) for time in clock]
    for times in ([f"{time:%Y-%m-%d %H:%M:%S.5%z}" for time in clock], ["later"] * 4, naive):
        yield public, readings | {"time": times}
    here = public | {"meters": rule | {"utc_offset": "+01:00", "outside": "refuse"}}
    late = [time + timedelta(hours=1) for time in naive]
    yield here | {"meters": here["meters"] | {"gaps": "end"}}, readings | {"time": late}
    yield here, readings | {"time": [late[0], late[1] + timedelta(hours=5), *late[2:]]}
    carried = here | {"steps": 3, "meters": here["meters"] | {"carry": 1}}
    for times in (late, naive):
        yield carried, readings | {"time": times}
    yield here, readings | {"time": [time.date() for time in clock]}
    yield (
        here,
        readings | {"time": [datetime(9999, 12, 30)] * 4, "kw": [float("nan"), 1e300, -1.0, 0.0]},
    )


def sample_content() -> dict[str, Any]:
    """The public part and readings of a JSON content."""
    public, readings = next(iter(sample_tables()))
    rows = zip(*readings.values(), strict=True)
    power = [{"participant": name, "time": time.isoformat(), "kw": kw} for name, time, kw in rows]
    return {"public": public, "content": {"power": power}}

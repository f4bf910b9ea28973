"""Tables of people's own, read in the child by their description: the same program as at home.

A described file is read whole, within the memory of the child. The child has no files: time zones
and codecs are met before the walls (`warm_up`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from encodings.aliases import aliases
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo, available_timezones

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation.blocks import DATE, Block

MEMORY_A_BYTE = {"csv": 16, "json": 24, "xlsx": 120, "omx": 40, "parquet": 60}
"""Of a file, in the reader, at most: texts of cells take some fifteen times their letters, and some
formats are packed."""
HOME = (
    "read it at home (--local, or local=True), where its arrays are all that is sent; or send a "
    "file with the columns of its kind, or a source's blocks"
)
NOTHING: Mapping[str, Any] = {
    "columns": [],
    "proposal": {"reader": {}, "columns": {}},
    "rows": [],
    "left_out": [],
    "notes": [],
    "issues": [],
    "count": None,
}
"""The preview of what cannot be read at all."""
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?", re.ASCII)
_zones: list[ZoneInfo] = []
"""All time zones: `ZoneInfo` finds one as long as somebody holds it."""


@dataclass(frozen=True)
class Described:
    """What a reader made of a file."""

    public: dict[str, Any]
    """The public part, without names."""
    table: Any
    """The service's own columns, as Arrow."""
    notes: list[str] = field(default_factory=list)


def warm_up() -> None:
    """Meet all time zones and codecs: 4 MB, a quarter of a second."""
    _zones[:] = map(ZoneInfo, sorted(available_timezones()))
    for name in sorted({*aliases.values(), "utf_8_sig", "utf_16_le", "utf_16_be"} - {"mbcs"}):
        codecs.lookup(name)


def check_size(form: str, size: int, memory: int) -> None:
    """PayloadTooLarge of a file that would not be read within the memory, before it is."""
    most = memory // MEMORY_A_BYTE[form]
    if size > most:
        says = f"a file of your own columns is read whole, up to {most} bytes ({form}) here"
        raise PayloadTooLarge(f"{says}, this one has {size}: {HOME}")


def read(job: Mapping[str, Any], opened: Callable[[], BinaryIO], size: int) -> Described:
    """The table of a file by the description in `job.public`. InvalidInput, an issue for each
    mistake; PayloadTooLarge.

    job: kind, public, format, `zones` (names of a stored network's zones), `memory_bytes`, `block`.
    """
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.descriptions import issues_of, without_names  # noqa: PLC0415
    from discreet_client import readers  # noqa: PLC0415
    from discreet_client.errors import MissingExtra  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    form = job["format"]
    check_size(form, size, job["memory_bytes"])
    kind = DATASETS[job["kind"]]
    model = kind.read_public(job["public"])
    public: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    rules, columns = dict(public.get("reader", {})), dict(public.pop("columns", {}))
    public["reader"] = rules
    stored = without_names({**public, "columns": columns})
    if job.get("zones") is not None:
        public["reader"] = rules = {**rules, "zones": job["zones"]}
    try:
        if (block := Block.of(job)) is not None:
            public["reader"] = rules = _of_block(block, public, rules, columns, opened, form)
        elif "block" in rules:
            raise TableError("reader.block is of blocks of days and months of a source")
        reading = readers.read(job["kind"], opened, public, columns, form=form)
    except TableError as error:
        raise InvalidInput(issues_of(error, "/content")) from None
    except MissingExtra as error:
        raise InvalidInput(str(error), pointer="/content") from None
    return Described({**reading.public, **_described(stored)}, _arrow(reading), reading.notes)


def _described(public: Mapping[str, Any]) -> dict[str, Any]:
    return {"reader": public["reader"], "columns": public["columns"]}


def _arrow(reading: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.table(reading.columns)


# Blocks of a source -------------------------------------------------------------------------------


def _of_block(
    block: Block,
    public: Mapping[str, Any],
    rules: Mapping[str, Any],
    columns: dict[str, str],
    opened: Callable[[], BinaryIO],
    form: str,
) -> dict[str, Any]:
    """The rules by which a file of a block is read, once each row's day was seen to be of it. A day
    stands in the column of the role `reader.block`, by default `date`. InvalidInput, TableError."""
    rules = dict(rules)
    role = rules.pop("block", DATE)
    first, last = _days_of(block)
    days = _days(str(role), rules, columns, opened, form)
    leaves = role == "time" and rules.get("outside") == "leave_out"
    beyond = last + timedelta(days=_span(public, rules))
    for row, day in days:
        if not leaves or last < day <= beyond:  # else in no period, and left out by its own time
            block._look(day.isoformat(), f"/content/{row}/{DATE}")
    block.check()
    if role == DATE:
        columns.pop(DATE, None)
    start = rules.get("start")
    if isinstance(start, str) and _CLOCK.fullmatch(start):
        if rules.get("every") == "weekday":
            first += timedelta(days=max(0, 7 - first.weekday()) if first.weekday() > 4 else 0)
        rules["start"] = datetime.combine(
            first, time.fromisoformat(start.zfill(5) if len(start) < 6 else start.zfill(8))
        ).isoformat()
    return rules


def _days_of(block: Block) -> tuple[date, date]:
    """The first and the last day of a block."""
    if block.by == "day":
        day = date.fromisoformat(block.name)
        return day, day
    first = date.fromisoformat(f"{block.name}-01")
    return first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _span(public: Mapping[str, Any], rules: Mapping[str, Any]) -> int:
    """In how many days all periods lie, or more."""
    periods = int(public.get("periods") or 1)
    if rules.get("every") == "weekday":
        return 7 * (periods // 5 + 1) + 2
    if rules.get("every") == "day":
        return periods + 1
    return int(periods * float(public.get("period_minutes") or 1440) / 1440) + 2


def _days(
    role: str,
    rules: Mapping[str, Any],
    columns: Mapping[str, str],
    opened: Callable[[], BinaryIO],
    form: str,
) -> list[tuple[int, date]]:
    """Each day of a file, and the first row of it."""
    from discreet_client import readers  # noqa: PLC0415
    from discreet_client.cells import Refusal  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    grammar = {
        name: rules[name] for name in ("encoding", "dates", "decimal", "thousands") if name in rules
    }
    named = {DATE: columns.get(role, role)}
    found = readers.read("", opened, {"reader": grammar}, named, form=form).columns[DATE]
    place = ZoneInfo(rules["time_zone"]) if "time_zone" in rules else None
    means = readers.grammar_of(grammar)
    seen: dict[Any, int] = {}
    for row, value in enumerate(found.tolist()):
        seen.setdefault(value, row)
    days: dict[date, int] = {}
    for value, row in seen.items():
        moment = means.moment(value) if isinstance(value, str) else value
        if isinstance(moment, int):  # nanoseconds of numpy
            moment = datetime(1970, 1, 1) + timedelta(microseconds=moment // 1000)
        if isinstance(moment, Refusal) or not isinstance(moment, date):
            says = f"row {row}, column {named[DATE]}: a day such as 2026-10-01 is needed"
            raise TableError(f"{says}, since it says of which block a row is")
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            if place is None:
                says = f"column {named[DATE]} has moments, and a day is of a place"
                raise TableError(f"{says}: say reader.time_zone, such as Europe/Berlin")
            moment = moment.astimezone(place)
        days.setdefault(moment.date() if isinstance(moment, datetime) else moment, row)
    return [(row, day) for day, row in days.items()]


# A look at a file ---------------------------------------------------------------------------------


def preview(job: Mapping[str, Any], opened: Callable[[], BinaryIO], size: int) -> dict[str, Any]:
    """What a file would be read as, for its owner: `readers.preview`. job: as of `read`."""
    from discreet_client import readers  # noqa: PLC0415
    from discreet_client.errors import MissingExtra  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    form, public = job["format"], dict(job["public"] or {})
    columns = dict(public.pop("columns", None) or {})
    if job.get("zones") is not None:
        public["reader"] = {**(public.get("reader") or {}), "zones": job["zones"]}
    try:
        check_size(form, size, job["memory_bytes"])
        found: dict[str, Any] = readers.preview(job["kind"], opened, public, columns, form=form)
    except (TableError, MissingExtra, PayloadTooLarge) as error:
        issues = getattr(error, "issues", None)
        told = [one.as_dict() for one in issues] if issues else [{"cause": str(error), "count": 1}]
        return {**NOTHING, "issues": told}
    return found

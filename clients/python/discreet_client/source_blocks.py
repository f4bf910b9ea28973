"""Tables of a block of a source: a file of a day or a month, all of whose rows are of it.

Which day a row is of stands in the column of the role `reader.block`, by default `date`. Where that
is `time`, the day is that of the clock of `reader.time_zone`. A `reader.start` that is a time of
the day, `07:00`, is that of the block's first day (with `every: weekday` of its first weekday), so
that one description reads all blocks.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Container, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from discreet_client import readers
from discreet_client.cells import Refusal
from discreet_client.reading import Reading
from discreet_client.tables import Issue, Table, TableError, missing

DATE = "date"
SATURDAY = 5
_CLOCK = re.compile(r"\d{1,2}:\d\d(:\d\d)?", re.ASCII)
_FORMS = {"day": re.compile(r"\d{4}-\d\d-\d\d"), "month": re.compile(r"\d{4}-\d\d")}
MOST_ISSUES = 20


def read(
    kind: str,
    source: Any,
    public: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    *,
    by: str,
    name: str,
    form: str | None = None,
) -> Reading:
    """`readers.read` of a block, by day, month or label. TableError also where a row is of another
    day or month."""
    told, rules, named = readers.described(public, columns)
    role = str(rules.pop("block", DATE))
    try:
        return _read(kind, source, (told, rules, named), role, by=by, name=name, form=form)
    except OverflowError:
        raise TableError(readers.BEYOND) from None
    except TableError as error:
        if not any(one.about == "columns" for one in error.issues):
            raise
        raise TableError.of(_of_the_source(one, role, by, named) for one in error.issues) from None


def _of_the_source(issue: Issue, role: str, by: str, named: Mapping[str, str]) -> Issue:
    """The mistake; of a column that is not there with what helps in a block."""
    if issue.about != "columns":
        return issue
    dates = role == DATE and by in _FORMS and named.get(DATE, DATE) in issue.says
    way = "the source says how columns are called: rename them in this file"
    way += ", or create a source with reader.block=time, by which days are" if dates else ""
    says = f"{issue.says.partition('; say ')[0]}; {way}"
    return Issue(says, column=issue.column, about="columns")


def _read(
    kind: str,
    source: Any,
    description: tuple[dict[str, Any], dict[str, Any], dict[str, str]],
    role: str,
    *,
    by: str,
    name: str,
    form: str | None,
) -> Reading:
    told, rules, named = description
    if by in _FORMS:
        if role != DATE and DATE in named:
            says = f"columns.date is the column of days; reader.block says that {role} has them"
            raise TableError(
                f"{says}: leave one of the two out (columns.date is null in a correction)"
            )
        first, last = _days_of(by, name)
        leaves = role == "time" and rules.get("outside") == "leave_out"
        beyond = last + timedelta(days=min(_span(told, rules), (date.max - last).days))
        table, days = _days(role, rules, named, source, form)
        # What is left out by its own time, in no period, need not be of the block.
        wrong = {
            value: day
            for value, day in days.items()
            if not first <= day <= last and (not leaves or last < day <= beyond)
        }
        if wrong:
            raise TableError.of(_issues(table, role, wrong, name))
        if role == DATE:
            named.pop(DATE, None)
        start = rules.get("start")
        if isinstance(start, str) and _CLOCK.fullmatch(start):
            rules["start"] = _start(first, start, rules).isoformat()
    return readers.read(kind, source, {**told, "reader": rules}, named, form=form)


def dated(reading: Reading, by: str, name: str) -> dict[str, Any]:
    """What was read of a block, with a `date` in each row, as the service checks it."""
    if by not in _FORMS:
        return dict(reading.columns)
    rows = len(next(iter(reading.columns.values())))
    return {DATE: np.array([_days_of(by, name)[0].isoformat()] * rows), **reading.columns}


def _days_of(by: str, name: str) -> tuple[date, date]:
    """The first and the last day of a block."""
    try:
        if _FORMS[by].fullmatch(name) is None:
            raise ValueError
        first = date.fromisoformat(name if by == "day" else f"{name}-01")
    except ValueError:
        form = "2026-10-01" if by == "day" else "2026-10"
        raise TableError(f"blocks are {by}s, such as {form}, not {name[:40]!r}") from None
    if by == "day":
        return first, first
    return first, first.replace(day=monthrange(first.year, first.month)[1])


def _start(first: date, clock: str, rules: Mapping[str, Any]) -> datetime:
    if rules.get("every") == "weekday" and first.weekday() >= SATURDAY:
        first += timedelta(days=7 - first.weekday())
    try:
        return datetime.combine(first, time.fromisoformat(clock.zfill(5 if len(clock) < 6 else 8)))
    except ValueError:
        raise TableError(f"reader.start is a time of the day, not {clock}") from None


def _span(public: Mapping[str, Any], rules: Mapping[str, Any]) -> int:
    """In how many days all periods lie, or more."""
    periods, minutes = public.get("periods"), public.get("period_minutes")
    if not isinstance(periods, int) or not isinstance(minutes, int | float):
        return 0  # which the reader refuses
    if rules.get("every") == "weekday":
        return 7 * (periods // 5 + 1) + 2
    if rules.get("every") == "day":
        return periods + 1
    return int(min(periods * minutes / 1440, 10**6)) + 2


def _days(
    role: str, rules: Mapping[str, Any], columns: Mapping[str, str], source: Any, form: str | None
) -> tuple[Table, dict[Any, date]]:
    """The column that says days, of the rows where one stands, and the day that each of its values
    is."""
    grammar = {rule: rules[rule] for rule in readers.OF_FILES if rule in rules}
    table = readers.column(source, grammar, columns, role, form)
    lacks = missing(table.columns[role])
    if role != "time" or rules.get("missing") != "leave_out":
        says = "a day is missing, which says of which block a row is"
        table.refuse(lacks, role, says, about="missing" if role == "time" else "")
    table = table.ordered(np.flatnonzero(~lacks))
    place = ZoneInfo(rules["time_zone"]) if "time_zone" in rules else None
    means = readers.grammar_of(grammar)
    days: dict[Any, date] = {}
    none = set()
    for value in dict.fromkeys(_plain(table.columns[role])):
        moment = means.moment(value) if isinstance(value, str) else value
        if isinstance(moment, Refusal) or not isinstance(moment, date):
            none.add(value)
            continue
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            if place is None:
                says = f"column {columns.get(role, role)} has moments of a time zone, and days are "
                raise TableError(f"{says}of a place: say reader.time_zone, such as Europe/Berlin")
            moment = moment.astimezone(place)
        days[value] = moment.date() if isinstance(moment, datetime) else moment
    if none:
        says = "a day such as 2026-10-01 is needed, which says of which block a row is"
        _refuse(table, role, none, says, "missing_words")
    return table, days


def _refuse(table: Table, role: str, wrong: Container[Any], says: str, about: str = "") -> None:
    """TableError of the rows with one of these values."""
    values = _plain(table.columns[role])
    table.refuse(np.array([one in wrong for one in values]), role, says, values, about)


def _plain(values: Any) -> list[Any]:
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    found: list[Any] = values.tolist()
    return found


def _issues(table: Table, role: str, wrong: Mapping[Any, date], name: str) -> list[Issue]:
    """A mistake for each day."""
    found = list[Issue]()
    for day in list(dict.fromkeys(wrong.values()))[:MOST_ISSUES]:
        says = f"not of block {name}: a record is registered in the block of its own date"
        try:
            _refuse(table, role, {value for value, of in wrong.items() if of == day}, says)
        except TableError as error:
            found += error.issues
    return found

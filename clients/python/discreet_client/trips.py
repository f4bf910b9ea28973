"""Tables of trips to the contract's columns: zones by any id, times to periods, one trip a row or
counts.

Everything that decides what becomes of a trip is public and stands in the rules, and it is decided
of each row by itself: neighbouring datasets stay neighbours. This runs where the data are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from discreet_client.cells import Grammar, Refusal, are_days, distinct, offsets_in, offsets_of
from discreet_client.meters import microseconds
from discreet_client.names import name_of
from discreet_client.reading import Notes, Reading, check_rules, count, counted, is_figure, word
from discreet_client.tables import (
    EVERY_TEXT,
    Ints,
    Table,
    TableError,
    WrongCell,
    header_of,
    missing,
    read_csv,
)

MOST_LISTED = 3
"""Of the zones that a file names, when it is said which they are."""
RULES = (
    "every",
    "lookup",
    "matrix",
    "missing",
    "other_zones",
    "outside",
    "round_trips",
    "start",
    "time_zone",
    "zones",
)
MINUTE = 60_000_000
SHOWN_TWICE = int(np.iinfo(np.int64).min)
"""No instant: of a time that clocks skip or show twice."""
FINEST = 1000
"""Parts of a trip that are counted, at most."""
MOST_PARTS = 2.0**50
NEARLY_WHOLE = 1e-6
"""Of a part: as near as a decimal comes in doubles."""
MISSING = ("refuse", "leave_out")
OF_NUMBERS = ("decimal", "thousands", "units_row")
"""Rules that help where a zone looks like a number, or like a unit; any other text is a name."""
EVERY = {"day": 1440 * MINUTE, "weekday": 1440 * MINUTE, "week": 7 * 1440 * MINUTE}
SATURDAY = 5
MOST_DAYS = 3_660
"""Of periods whose days are looked at."""


def trips_of(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Reading:
    """Trips: columns origin, destination, perhaps count (1 where there is none), person where
    that is the unit, and user_class where `public.user_classes` names some; `period`, counted from
    0, or `time`, which rules make one.

    rules, all of them public:
        zones: the number of each zone, {id: number}, a list of ids that count from 1, or a CSV file
        `id,number`, of
            which the first column is the id where none is called so
        start: when period 0 begins, a time; period p begins p times `public.period_minutes` later
        every: `day`, `weekday` (Monday to Friday) or `week`: period p begins p of them later
        instead, by the clock of
            the place, and takes `period_minutes`; the rest of the day is outside
        time_zone: of times that say none, and of clocks, such as Europe/Berlin missing: `refuse`
        trips that lack a value, or `leave_out` outside: `refuse` trips of other times, or
        `leave_out` other_zones: `refuse` trips from or to a zone that `zones` does not name, or
        `leave_out` round_trips: true rounds counts to integers, or to parts of
        1/`public.trip_scale` of a trip, half up; trips that
            are 0 then are none

    Raises TableError for what is wrong, naming place and column.
    """
    check_rules(rules, [rule for rule in RULES if rule not in ("lookup", "matrix")], "trips")
    when = (
        "time" if "time" in columns or ("time" in table.columns and "start" in rules) else "period"
    )
    periods, most = count(public, "periods"), count(public, "zones")
    single = periods == 1 and when == "period"
    person = public.get("unit") == "person"
    if person and columns.get("person", "person") not in table.columns:
        raise TableError(
            f"public.unit is person, so a column person is needed; columns are: {table.listed()}; "
            "say --columns person=…, or unit request where trips themselves are protected and not "
            "persons"
        )
    if "person" in columns and not person:
        raise TableError(
            "public.unit is request, so a trip has no person: leave that column out, or say unit "
            "person"
        )
    own = ["user_class"] if classes_of(public) else []
    if "user_class" in columns and not own:
        raise TableError(
            "a column of classes goes with their names: public.user_classes, such as car and "
            'truck, at the command line --set \'user_classes=["car", "truck"]\''
        )
    beside = [*([] if single else [when]), *(["person"] if person else []), *own]
    table = table.named(
        columns,
        ["origin", "destination", *beside],
        ["count", *(["period"] if single else [])],
    )
    notes = Notes()
    table = _complete(table, rules, notes)
    zones = zone_numbers(rules.get("zones"), notes, table.encoding)
    if word(rules, "other_zones", MISSING) == "leave_out":
        table = _inside(table, zones, notes)
    found: dict[str, NDArray[Any]] = {}
    if when == "time":
        period = _periods(table, public, rules)
        inside = (period >= 0) & (period < (periods or np.inf))
        if periods is None:
            pass  # how many are outside is known once it is said how many periods there are
        elif word(rules, "outside", MISSING) == "refuse":
            _refuse_outside(table, inside, periods)
        elif not inside.all():
            few = int(np.count_nonzero(~inside))
            says = f"{_counted_rows(few, table)} outside of the public periods"
            why = "outside of the public periods"
            notes.leave_out(f"{says} {'is' if few == 1 else 'are'} left out", why, few)
        notes += _days(public, rules, table.grammar)
        if not inside.any():
            raise TableError("no trip lies in the public periods")
        table, found["period"] = table.ordered(np.flatnonzero(inside)), period[inside]
    elif "period" in table.columns:
        found["period"] = _counted(table, "period", 0, periods)
    else:
        found["period"] = np.zeros(table.rows, dtype=np.int64)
    for end in ("origin", "destination"):
        found[end] = _zones(table, end, zones, most)
    found["count"] = np.ones(table.rows, dtype=np.int64)
    if "count" in table.columns:
        found["count"] = _counts(table, scale_of(public), bool(rules.get("round_trips")), notes)
    if person:
        found["person"] = _persons(table)
    if own:
        found["user_class"] = _classes(table, public)
    return Reading(dict(public), found, notes, table.places, tuple(notes.left_out))


def checks(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Callable[[], Any]]:
    """Each column by itself, for who has to mend a file: where a value is missing, and what is
    wrong in other rows."""
    table = table.named(
        columns, ["origin", "destination"], ["time", "period", "count", "person", "user_class"]
    )
    zones = zone_numbers(rules.get("zones"), [], table.encoding)
    if word(rules, "missing", MISSING) == "refuse":
        for column in table.columns:
            yield partial(_refuse_missing, table, column)
    lacks = np.array([missing(values) for values in table.columns.values()]).any(axis=0)
    if lacks.all():
        return
    table = table.ordered(np.flatnonzero(~lacks))
    if word(rules, "other_zones", MISSING) == "refuse":
        for end in ("origin", "destination"):
            yield partial(_zones, table, end, zones, count(public, "zones"))
    else:
        table = _inside(table, zones, Notes())
    if "time" in table.columns and ("start" in rules or "time" in columns):
        yield lambda: _check_times(table, public, rules)
    if "count" in table.columns:
        yield lambda: _counts(table, scale_of(public), bool(rules.get("round_trips")), [])
    if "person" in table.columns:
        yield lambda: _persons(table)
    if "user_class" in table.columns and public.get("user_classes"):
        yield lambda: _classes(table, public)


def _check_times(table: Table, public: Mapping[str, Any], rules: Mapping[str, Any]) -> None:
    """TableError of the times that are none, and of those of the others that lie outside of the
    periods."""
    issues = []
    try:
        table.moments("time")
    except WrongCell as error:
        issues += error.issues
        once, of = distinct(table.columns["time"])
        meant = [table.grammar.moment(value) for value in once.tolist()]
        table = table.ordered(
            np.flatnonzero(np.array([not isinstance(one, Refusal) for one in meant])[of])
        )
    try:
        period, periods = _periods(table, public, rules), count(public, "periods")
        if periods is not None and word(rules, "outside", MISSING) == "refuse":
            _refuse_outside(table, (period >= 0) & (period < periods), periods)
    except TableError as error:
        issues += error.issues
    if issues:
        raise TableError.of(issues)


def _refuse_outside(table: Table, inside: NDArray[np.bool_], periods: int) -> None:
    says = f"outside the {periods} public periods. To skip: reader.outside=leave_out"
    table.refuse(~inside, "time", says, table.columns["time"], "outside")


def names_in(
    public: Mapping[str, Any], rules: Mapping[str, Any], encoding: str | None
) -> dict[str, Container[str]]:
    """Zones and classes that the description names, by column: one may be called `NA`."""
    zones = zone_numbers(rules.get("zones"), [], encoding) or {}
    return {"origin": zones, "destination": zones, "user_class": classes_of(public)}


def _persons(table: Table) -> Ints:
    return table.owners("person", "this is named like a total, and is nobody: leave its line out")


def classes_of(public: Mapping[str, Any]) -> Sequence[str]:
    """The public names of the classes of users; none where trips have no classes."""
    told = public.get("user_classes") or ()
    if not isinstance(told, list | tuple) or not all(isinstance(one, str) for one in told):
        raise TableError("public.user_classes: a list of names is needed, such as car and truck")
    return told


def _classes(table: Table, public: Mapping[str, Any]) -> NDArray[Any]:
    """The class of users of each trip, by its public name."""
    told = classes_of(public)
    names = table.names("user_class")
    unknown = np.array([name not in told for name in names.tolist()], dtype=bool)
    says = f"none of public.user_classes, {' and '.join(told)[:80]}"
    table.refuse(unknown, "user_class", says, names, "public.user_classes")
    return names


def _complete(table: Table, rules: Mapping[str, Any], notes: Notes) -> Table:
    """The trips that lack no value: each is kept or left out by what it says itself."""
    lacks = np.zeros(table.rows, dtype=bool)
    leave_out = word(rules, "missing", MISSING) == "leave_out"
    for column, values in table.columns.items():
        if not leave_out:
            _refuse_missing(table, column)
        lacks |= missing(values)
    if lacks.all():
        raise TableError("every trip lacks a value")
    if few := int(np.count_nonzero(lacks)):
        notes.leave_out(
            f"{_counted_rows(few, table)} with a value that is missing "
            f"{'is' if few == 1 else 'are'} left out",
            "a value is missing",
            few,
        )
    return table.ordered(np.flatnonzero(~lacks))


def _counted_rows(count: int, table: Table) -> str:
    """How many trips, where each row is one; where rows have counts they are rows, of more trips
    than that."""
    return counted(count, "row" if "count" in table.columns else "trip")


def _refuse_missing(table: Table, column: str) -> None:
    says = "a value is missing (reader.missing: leave_out takes the other trips)"
    table.refuse(missing(table.columns[column]), column, says, about="missing")


def zone_numbers(told: Any, notes: list[str], encoding: str | None = None) -> dict[str, int] | None:
    """`encoding`: that of the trips, which a file of zones may have or not."""
    if told is None:
        return None
    if isinstance(told, str | Path):
        try:
            content, file = Path(told).read_bytes(), Path(told).name
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise TableError(f"reader.zones: the file {str(told)[:200]}: {why}") from None
        try:
            header = header_of(content, file, None, encoding)
            ids = {column: EVERY_TEXT for column in header if column != "number"}
            table = read_csv(content, file, None, encoding, names=ids)
        except TableError as error:
            raise TableError(f"reader.zones: {error}", error.issues[0].about) from None
        own = "id" if "id" in table.columns else next(iter(table.columns))
        names = table.named({"id": own}, ["id"], ["number"])
        ids = names.names("id").tolist()
        numbers = (
            names.integers("number").tolist()
            if "number" in names.columns
            else range(1, len(ids) + 1)
        )
        found = dict(zip(ids, numbers, strict=True))
        if len(found) < len(ids):
            says = f"{len(ids)} rows name {len(found)} zones in column {own}; an id stands twice"
            raise TableError(f"reader.zones, {Path(told).name}: {says}")
        if own != "id":
            by_number = sorted(found, key=lambda name: found[name])
            told_zones = [f"{found[name]} {name}" for name in by_number]
            if len(told_zones) > MOST_LISTED:
                told_zones[2:-1] = ["…"]
            listed = ", ".join(told_zones)
            notes.append(
                f"zones are those of column {own} of {Path(told).name}: {listed}; a job's "
                "network must begin with these nodes in this order, as it does where reader.zones "
                "(--zones) is that network"
            )
        return found
    if not isinstance(told, Mapping | list | tuple):
        raise TableError("reader.zones: {id: number}, a list of ids or a CSV file is needed")
    given = (
        list(told.items())
        if isinstance(told, Mapping)
        else [(one, place) for place, one in enumerate(told, 1)]
    )
    found = {}
    for one, number in given:
        if isinstance(number, bool) or not isinstance(number, int) or not abs(number) < 2**53:
            raise TableError(
                f"reader.zones: the number of zone {str(one)[:40]} is an integer, not "
                f"{str(number)[:40]}"
            )
        found[name_of(str(one))] = number
    if len(found) < len(given):
        raise TableError(
            f"reader.zones: {len(given)} ids name {len(found)} zones; an id stands twice"
        )
    return found


def _inside(table: Table, numbers: Mapping[str, int] | None, notes: Notes) -> Table:
    """The trips between zones that are named: each is kept or left out by what it says itself."""
    if numbers is None:
        raise TableError(
            "reader.other_zones goes with the names of the zones: reader.zones, or --zones"
        )
    known = np.ones(table.rows, dtype=bool)
    for end in ("origin", "destination"):
        names, of = table.once(end)
        known &= np.array([name in numbers for name in names.tolist()], dtype=bool)[of]
    if not known.any():
        raise TableError("no trip lies between zones of reader.zones")
    if few := int(np.count_nonzero(~known)):
        notes.leave_out(
            f"{_counted_rows(few, table)} from or to other zones {'is' if few == 1 else 'are'} "
            "left out",
            "from or to other zones",
            few,
        )
    return table.ordered(np.flatnonzero(known))


def _zones(table: Table, column: str, numbers: Mapping[str, int] | None, most: int | None) -> Ints:
    if numbers is None:
        return _counted(table, column, 1, most)
    once, of = table.once(column)
    names = once[of]
    found = np.array([numbers.get(name, 0) for name in once.tolist()], dtype=np.int64)[of]
    such = next(iter(numbers), "none")
    says = f"a zone of reader.zones is needed, such as {such[:40]}"
    says += " (reader.other_zones: leave_out leaves out trips of others)"
    table.refuse(found == 0, column, says, names, "other_zones", such[:40])
    table.refuse(
        found > (most or found.max()),
        column,
        f"its number in reader.zones is above public.zones, {most}",
        names,
        "public.zones",
    )
    return found


def _counted(table: Table, column: str, first: int, count: int | None) -> Ints:
    """Integers first..first + count - 1."""
    try:
        found = table.integers(column)
    except WrongCell as error:
        if not first:
            raise
        issues = []
        for one in error.issues:
            says = f"{one.says}. For named zones: reader.zones (--zones FILE)"
            told = replace(one, detail=says)
            if one.about not in OF_NUMBERS:
                told = replace(told, about="zones", expected=None)
            issues.append(told)
        raise WrongCell.of(issues) from None
    last = first + count - 1 if count else int(found.max())
    what = "zones" if first else "periods"
    says = f"public.{what} is {count}, so {what} are {first} to {last}"
    if int(found.min()) == 1 - first and found.max() <= last + 1 - 2 * first:
        says = f"count from {first}; yours look {1 - first}-based: {says}"
    table.refuse((found < first) | (found > last), column, says, found, f"public.{what}")
    return found


def _counts(table: Table, scale: int, rounding: bool, notes: list[str]) -> NDArray[Any]:
    """Trips, of which each row has a whole number, or a whole number of parts."""
    trips = table.numbers("count")
    table.refuse(trips < 0, "count", "a number of trips is not negative", trips)
    table.refuse(trips > MOST_PARTS / scale, "count", "there are too many trips", trips)
    parts = in_parts(trips, scale)
    kept = parts if scale == 1 else parts / scale
    apart = np.abs(kept - trips) * scale > NEARLY_WHOLE
    if not rounding:
        table.refuse(
            apart,
            "count",
            f"a number of trips {no_parts(scale)} (reader.round_trips: true rounds)",
            trips,
            "round_trips",
        )
    elif apart.any():
        notes.append(rounded(float(kept.sum()), float(trips.sum()), scale))
    return kept


def in_parts(trips: NDArray[np.float64], scale: int) -> Ints:
    """Trips in parts of 1/scale, the nearest number of them, half up: of one trip more it is always
    `scale` more, so tables that differ by a trip still do."""
    whole = np.floor(trips)
    part = np.round(trips - whole, 9)  # of 0.145 and 1.145 the same
    return np.asarray(whole * scale + np.floor(part * scale + 0.5), dtype=np.int64)


def no_parts(scale: int) -> str:
    """What numbers of trips are, for whoever has others."""
    if scale == 1:
        return (
            "is an integer, or public.trip_scale says in which parts of a trip they are (100: "
            "hundredths)"
        )
    return f"has no smaller parts than 1/{scale} of a trip, as public.trip_scale says"


def rounded(kept: float, trips: float, scale: int = 1) -> str:
    """What rounding did."""
    return f"rounding made {kept:,.{0 if scale == 1 else 2}f} trips of {trips:,.2f}"


def scale_of(public: Mapping[str, Any]) -> int:
    """In how many parts of a trip trips are counted."""
    scale = public.get("trip_scale", 1)
    if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale <= FINEST:
        raise TableError(f"public.trip_scale is an integer of 1 to {FINEST}, not {str(scale)[:40]}")
    return scale


def _periods(table: Table, public: Mapping[str, Any], rules: Mapping[str, Any]) -> Ints:
    """The period of each row, -1 where the time is in none."""
    place, every = place_of(rules.get("time_zone")), rules.get("every")
    if every is not None:
        word(rules, "every", tuple(EVERY))
    start = _start(rules, table.grammar)
    length = _length(public)
    clock, offset, of = found = table.moments("time")
    if length < EVERY["day"]:
        says = (
            "a time of day is needed, as periods are shorter than a day (two columns are joined by "
            "columns.time, such as Date+Time)"
        )
        values = table.columns["time"]
        table.refuse(are_days(values), "time", says, values, "", "2026-11-21T15:00")
    local = found.local
    if place is None:
        says = "a time without a time zone. Set reader.time_zone, such as Europe/Berlin"
        values = table.columns["time"]
        table.refuse(local[of], "time", says, values, "time_zone", "Europe/Berlin")
        if start.tzinfo is None:
            raise TableError(
                "reader.start has no time zone: say reader.time_zone, such as Europe/Berlin"
            )
    if every is None:
        if local.all() and place is not None:
            early, late = offsets_in(clock, place)
            stamps = clock - early
            stamps[early != late] = SHOWN_TWICE
            del early, late
        else:
            stamps = clock - offset
            if place is not None:
                early, late = offsets_in(clock[local], place)
                stamps[local] = np.where(early == late, clock[local] - early, SHOWN_TWICE)
        del clock, offset
        says = f"clocks in {place} skip this time or show it twice: write the offset"
        table.refuse((stamps == SHOWN_TWICE)[of], "time", says, table.columns["time"])
        begins = _instant(start, place)
        if begins == SHOWN_TWICE:
            raise TableError(
                f"reader.start: clocks in {place} skip this time or show it twice: write the offset"
            )
        stamps -= begins
        stamps //= length
        return np.asarray(stamps[of], dtype=np.int64)
    # By the clock of the place: seven in the morning stays seven in the morning when clocks change.
    zone = place or start.tzinfo
    assert zone is not None
    clock = clock.copy()
    clock[~local] -= offset[~local]
    clock[~local] += offsets_of(clock[~local], zone)
    begin = _clock(start, zone)
    since = (clock - (begin - datetime(1970, 1, 1)) // timedelta(microseconds=1))[of]
    inside, number = since % EVERY[every] < length, since // EVERY[every]
    if every == "weekday":
        if begin.weekday() >= SATURDAY:
            raise TableError(
                f"reader.start is a {begin:%A}, and every is weekday: Monday to Friday"
            )
        weeks, day = np.divmod(begin.weekday() + number, 7)
        inside, number = inside & (day < SATURDAY), 5 * weeks + day - begin.weekday()
    return np.where(inside, number, -1)


def _start(rules: Mapping[str, Any], grammar: Grammar) -> datetime:
    """When period 0 begins, written as the times of the table may be."""
    says = "the time at which period 0 begins, as 2026-11-02T07:00 or 02.11.2026 07:00"
    told = rules.get("start")
    if told is None:
        raise TableError(f"reader.start is needed, {says}")
    start = grammar.moment(str(told))
    if isinstance(start, Refusal):
        raise TableError(f"reader.start is {says}, not {str(told)[:40]!r}")
    return start


def _days(public: Mapping[str, Any], rules: Mapping[str, Any], grammar: Grammar) -> list[str]:
    """Which days periods of a day each are, in a sentence, where Saturdays and Sundays are among
    them: means are over these too."""
    periods = count(public, "periods") or 0
    if rules.get("every") != "day" or not 0 < periods <= MOST_DAYS:
        return []
    first = _start(rules, grammar)
    free = sum((first.weekday() + day) % 7 >= SATURDAY for day in range(periods))
    if not free:
        return []
    last = first + timedelta(days=periods - 1)
    return [
        f"the {periods} periods are the days from {first:%d %B %Y} to {last:%d %B %Y}, {free} of "
        "them Saturdays and Sundays, over which means are too (reader.every: weekday counts "
        "Monday to Friday alone)"
    ]


def _length(public: Mapping[str, Any]) -> int:
    """Of a period, in microseconds."""
    minutes = public.get("period_minutes")
    if minutes is None or not is_figure(minutes) or not 1 <= minutes * MINUTE < 2**62:
        raise TableError(
            f"public.period_minutes is the minutes of a period, not {str(minutes)[:40]}"
        )
    return round(float(minutes) * MINUTE)


def place_of(name: Any) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise TableError(
            f"reader.time_zone: there is no time zone {name!r}; one is Europe/Berlin"
        ) from None


def _clock(moment: datetime, zone: tzinfo | None) -> datetime:
    """What clocks of the zone show then."""
    try:
        return moment if moment.tzinfo is None else moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:  # of the first or last day that there is, which is in no period
        return moment.replace(tzinfo=None)


def _instant(moment: datetime, place: ZoneInfo | None) -> int:
    """Microseconds since 1970; the least integer for a time that clocks of the place skip or show
    twice."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=place)
        if moment.utcoffset() != moment.replace(fold=1).utcoffset():
            return SHOWN_TWICE
    return microseconds(moment)

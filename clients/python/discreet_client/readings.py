"""Tables of meters' readings, as meters and spreadsheets write them: a reading a row, or a column
for each meter.

What becomes of readings is the public rule's (`meters`). It is tried here too, so that what the
service would refuse is refused with the line and the meter's name, which the service does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from discreet_client import trips
from discreet_client.cells import (
    AS_WRITTEN,
    NO_OFFSET,
    Moments,
    Refusal,
    Texts,
    distinct,
    moment,
    offsets_in,
)
from discreet_client.meters import (
    EPOCH,
    SECOND,
    Floats,
    Ints,
    MeterRule,
    bins_of,
    in_zone,
    is_energy,
    is_no_meter,
    microseconds,
    passes,
)
from discreet_client.names import names_of, totals
from discreet_client.reading import Notes, Reading, check_rules, counted, is_figure
from discreet_client.tables import MOST_NAMED, Issue, Table, TableError, missing

RULES = ("except", "participants", "time_zone", "units")
MOST_STATES = 10**8
"""That a table's readings become here, with what is carried over."""
POWER, ENERGY = "kW", "kWh"
MOST_OFF = 0.05
"""Part of the power of a file by which middles of bins may be off without a word."""


def readings_of(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Reading:
    """Readings of meters, columns participant, time and kw, times with their offset. What becomes
    of them is said by `public.edges` and `public.meters`. A reading without a value is none: a gap,
    as one that is not there.

    rules:
        units: "kWh" where values are energy in the time between two readings of a meter, and no
        power (a column named
            as `kwh` says the same): each is divided by the hours of a period, which is what a
            reading must be of
        time_zone: of local times, such as Europe/Berlin. A place's clocks show an hour twice a
        year; rows in order, as
            a meter writes them, are understood (`meters.in_zone`), also where some of them have no
            value
        participants: "columns", every column beside the time is a meter's and has its kW; or a list
        of those that are except: with "columns", a list of those that are no meters. Where it is
        not given, columns named like a total,
            the weather or a price are refused

    What the service would refuse by the public rule is refused here, by line and meter.
    """
    check_rules(rules, RULES, "meters")
    public = begun(public, trips.place_of(rules.get("time_zone")))
    columns, rules = _as_power(table, rules, columns)
    hours = _hours(public, rules)
    if "participants" in rules:
        table = _a_row_each(table, rules, columns)
    else:
        if "except" in rules:
            raise TableError('reader.except goes with "participants": "columns"')
        if len(table.columns) > 3 and not {"participant", "kw"} & {*columns, *table.columns}:
            raise TableError(
                f"no column participant, nor kw; columns are: {table.listed()}. Where each meter "
                "has a column, say"
                ' "reader": {"participants": "columns"} in public'
            )
        table = table.named(columns, ["participant", "time", "kw"])
        _refuse_totals(table)
    kw, notes = table.numbers("kw", may_lack=True), Notes()
    notes += _advice(table, rules)
    place, lacks = trips.place_of(rules.get("time_zone")), np.isnan(kw)
    if lacks.any():
        few = int(np.count_nonzero(lacks))
        notes.leave_out(
            f"{counted(few, 'reading', kw.size)} without a value left out, as gaps (public.meters: "
            "carry, gaps)",
            "a reading without a value",
            few,
        )
        kept = np.flatnonzero(
            ~lacks if place is None else ~lacks | _shown_twice(table, lacks, place)
        )
        table, kw, lacks = table.ordered(kept), kw[kept], lacks[kept]
    owner = table.owners("participant")
    clock, offset, of = moments = table.moments("time")
    later = np.zeros(table.rows, dtype=bool)
    if place is not None:
        later = _second_pass(table, moments, owner, place)
        early, late = offsets_in(clock[moments.local], place)
        offset = np.tile(offset, 2)  # of the first and of the second time that clocks show it
        offset[np.flatnonzero(moments.local)] = early
        offset[offset.size // 2 + np.flatnonzero(moments.local)] = late
        clock, of = np.tile(clock, 2), of + np.where(later, clock.size, 0)
    if lacks.any():
        kept = np.flatnonzero(~lacks)
        table, kw, of, owner = table.ordered(kept), kw[kept], of[kept], owner[kept]
        _, owner = np.unique(owner, return_inverse=True)
    kw = kw / hours
    rule, unsaid = rule_of(public), offset == NO_OFFSET
    if rule is not None and rule.offset is None:
        says = "a time without a time zone. Set reader.time_zone, such as Europe/Berlin"
        table.refuse(unsaid[of], "time", says, table.columns["time"], "time_zone", "Europe/Berlin")
    if rule is not None and (rule.offset is not None or not unsaid[of].any()):
        time = (clock - np.where(unsaid, rule.offset or 0, offset))[of]
        if units_of(rules) == ENERGY:
            _refuse_other_lengths(rule, owner.ravel(), time)
        notes += _as_by_the_rule(table, rule, owner.ravel(), time, kw, place)
        notes += _shifted_blocks(public, rule, place)
    _refuse_fed_in(table, public, rule, kw, notes)
    times = _written(clock[of], offset[of])
    found = {"participant": owner.ravel(), "time": times, "kw": kw}
    return Reading(dict(public), found, notes, table.places, tuple(notes.left_out))


def _written(clock: Ints, offset: Ints) -> NDArray[Any]:
    """Times as text, of which each different one is written once."""
    shown, of_shown = np.unique(clock, return_inverse=True)
    east, of_east = np.unique(offset, return_inverse=True)
    pairs, of = np.unique(of_shown.ravel() * east.size + of_east.ravel(), return_inverse=True)
    once = [
        moment(*pair).isoformat()
        for pair in zip(
            shown[pairs // east.size].tolist(), east[pairs % east.size].tolist(), strict=True
        )
    ]
    texts: NDArray[Any] = np.array(once, dtype=object)[of.ravel()]
    return texts


def units_of(rules: Mapping[str, Any]) -> str:
    """What values are: POWER, or ENERGY of a period."""
    said = rules.get("units", POWER)
    found = {unit.lower(): unit for unit in (POWER, ENERGY)}.get(str(said).lower())
    if found is None:
        raise TableError(f"reader.units is {POWER} or {ENERGY}, not {str(said)[:40]!r}")
    return found


def _as_power(
    table: Table, rules: Mapping[str, Any], columns: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Columns and rules in which a column `kwh` is one of values in kWh. Refused are values that
    are named like energy where nobody says which they are: taken for power they would be wrong by
    the length of a period, without a sign."""
    is_called = "participants" not in rules and not {"kw"} & {*columns, *table.columns}
    if is_called and "kwh" in (*columns, *table.columns):
        if units_of({"units": ENERGY, **rules}) != ENERGY:
            raise TableError(f"reader.units is {POWER}, and there is a column kwh: say one of both")
        others = {role: name for role, name in columns.items() if role != "kwh"}
        return {**others, "kw": columns.get("kwh", "kwh")}, {**rules, "units": ENERGY}
    if "units" in rules:
        return columns, rules
    named = _meters(table, rules, columns) if "participants" in rules else [columns.get("kw", "kw")]
    if energy := [name for name in named if is_energy(name)]:
        one = energy[0][:40]
        way = (
            '"units": "kWh" in public.reader'
            if "participants" in rules
            else f"--columns kwh={one!r} in the place of kw"
        )
        raise TableError(
            f"column {one} is named like energy, and power is needed: say {way}, and each value "
            "is divided by the"
            f' hours of a period; or "units": "kW" in public.reader, where it is power all the same'
        )
    return columns, rules


def _hours(public: Mapping[str, Any], rules: Mapping[str, Any]) -> float:
    """What values are divided by to be kW."""
    if units_of(rules) == POWER:
        return 1.0
    meters = public.get("meters")
    seconds: Any = meters.get("interval_seconds") if isinstance(meters, Mapping) else None
    if not is_figure(seconds) or not seconds > 0:
        found = "which is not said" if seconds is None else f"not {str(seconds)[:40]!r}"
        raise TableError(
            "kWh become kW by public.meters.interval_seconds, the seconds from one reading to the "
            f"next, as 900 of a quarter of an hour, {found}"
        )
    return float(seconds) / 3600


def _refuse_other_lengths(rule: MeterRule, owner: Ints, time: Ints) -> None:
    """TableError where meters read energy more or less often than once a period: of which time a
    value is would be a guess. It is told by the time that most often lies between two readings of a
    meter."""
    order = np.lexsort((time, owner))
    between = np.diff(time[order])[np.diff(owner[order]) == 0]
    if not between.size:
        return
    lengths, count = np.unique(between, return_counts=True)
    usual = int(lengths[np.argmax(count)])
    if usual != rule.interval:
        raise TableError(
            f"most readings are {usual / SECOND:g} seconds apart, and "
            f"public.meters.interval_seconds is {rule.interval / SECOND:g}: values in kWh are of "
            f"one period each, so let it be {usual / SECOND:g}"
        )


def _refuse_fed_in(
    table: Table, public: Mapping[str, Any], rule: MeterRule | None, kw: Floats, notes: Notes
) -> None:
    """WrongCell of power below 0 that edges from 0 on would count as none, where nobody said that
    it is to be; a note of it where somebody did."""
    below = kw < 0
    if rule is None or not rule.clamp or rule.edges[0] < 0 or not below.any():
        return
    if "outside" in public["meters"]:
        few = counted(int(np.count_nonzero(below)), "reading", kw.size)
        notes.append(
            f"{few} below 0 kW: meters.outside counts what is fed in as the lowest state, from "
            f"{rule.edges[0]:g} kW on"
        )
        return
    says = (
        "power below 0 is fed into the grid, and the public edges begin at "
        f"{rule.edges[0]:g}: let them begin below 0, or say outside: clamp in public.meters, which "
        "counts it as the lowest state"
    )
    table.refuse(below, "kw", says, kw, "public.edges")


def _refuse_totals(table: Table) -> None:
    """TableError of a line below the meters, named like a total, which is nobody's meter."""
    values = table.columns["participant"]
    once, of = distinct(values)
    names = names_of(np.where(missing(once), "", once))
    says = "this is named like a total, and is no meter: leave its line out"
    table.refuse(totals(names)[of], "participant", says, values)


def _shifted_blocks(
    public: Mapping[str, Any], rule: MeterRule, place: ZoneInfo | None
) -> list[str]:
    """A word to who has blocks of a day and readings from before and after a change of the clocks:
    public figures."""
    if place is None or rule.steps is None or not public.get("day"):
        return []
    first, last = _offsets_of(rule, place)
    if first == last:
        return []
    return [
        f"clocks in {place.key} change between the first and the last period, and blocks of `day` "
        "go by steps of one length: from then on they are off the clock by that much. Days before "
        "and after the change are better registered apart (--same-people-as)"
    ]


def _offsets_of(rule: MeterRule, place: ZoneInfo) -> tuple[timedelta | None, timedelta | None]:
    """Against UTC, of the place's clocks when the first period begins and when the last one
    ends."""
    try:
        moments = [
            EPOCH + timedelta(microseconds=rule.start + n * rule.interval)
            for n in (0, rule.steps or 0)
        ]
        return moments[0].astimezone(place).utcoffset(), moments[1].astimezone(place).utcoffset()
    except OverflowError:
        return None, None


def _shown_twice(table: Table, lacks: NDArray[np.bool_], place: ZoneInfo) -> NDArray[np.bool_]:
    """bool[rows]: of those that lack a value, times of an hour that clocks show twice: they tell
    which of the two the readings around them are of. None of them where one cannot be read, as
    below a table."""
    found = np.zeros(lacks.size, dtype=bool)
    try:
        clock, _, of = moments = table.ordered(np.flatnonzero(lacks)).moments("time")
    except TableError:
        return found
    early, late = offsets_in(clock, place)
    found[lacks] = (moments.local & (early > late))[of]
    return found


def _second_pass(table: Table, moments: Moments, owner: Ints, place: ZoneInfo) -> NDArray[np.bool_]:
    """bool[rows]: local times that clocks show for the second time then, by the order of their
    owner's rows (`meters.passes`). TableError of times that clocks skip, and where the order does
    not tell."""
    clock, _, of = moments
    local = np.flatnonzero(moments.local)
    early, late = offsets_in(clock[local], place)
    skipped, twice = (np.zeros(clock.size, dtype=bool) for _ in range(2))
    skipped[local], twice[local] = early < late, early > late
    values, found = table.columns["time"], np.zeros(table.rows, dtype=bool)
    table.refuse(skipped[of], "time", f"a time that clocks in {place.key} do not skip", values)
    if not twice.any():
        return found
    order = np.argsort(owner, kind="stable")
    order = order[moments.local[of[order]]]
    is_twice, whose = twice[of[order]], owner[order]
    begins = np.ones(order.size, dtype=bool)
    begins[1:] = (whose[1:] != whose[:-1]) | (is_twice[1:] != is_twice[:-1])
    ends = np.append(np.flatnonzero(begins)[1:], order.size)
    unclear = np.zeros(table.rows, dtype=bool)
    for first, end in zip(np.flatnonzero(begins).tolist(), ends.tolist(), strict=True):
        if is_twice[first]:
            rows = order[first:end]
            half = passes(clock[of[rows]].tolist())
            unclear[rows] |= half is None
            found[rows[half or 0 :]] = half is not None and half < rows.size
    says = (
        "a time that clocks show once is needed: this one twice on that day, and the order of rows "
        "does not tell which it is; write the offset"
    )
    table.refuse(unclear, "time", says, values, expected="2026-10-25T02:30+02:00")
    return found


def begun(public: Mapping[str, Any], place: ZoneInfo | None) -> Mapping[str, Any]:
    """The public part, with the offset of the place behind a `meters.start` that has none and
    nobody gave one. TableError where there is no place either."""
    meters = public.get("meters")
    if not isinstance(meters, Mapping) or meters.get("utc_offset") is not None:
        return public
    if not isinstance(said := meters.get("start"), str):
        return public
    start = AS_WRITTEN.moment(said)
    if isinstance(start, Refusal) or start.tzinfo is not None:
        return public
    if place is None:
        raise TableError(
            "public.meters.start has no time zone: say reader.time_zone, such as Europe/Berlin, or "
            "write the offset behind it, as in 2026-01-13T00:00:00+01:00"
        )
    try:
        (zoned,) = in_zone([start], place.key)
    except ValueError as error:
        raise TableError(f"public.meters.start: {str(error).partition(': ')[2]}") from None
    return {**public, "meters": {**meters, "start": zoned.isoformat()}}


def rule_of(public: Mapping[str, Any]) -> MeterRule | None:
    """The public rule; None where the service has something to say of it."""
    try:
        rule = MeterRule.of(public)
        steps = rule.steps is None or (isinstance(rule.steps, int) and rule.steps >= 2)
        known = (
            steps
            and rule.interval > 0
            and rule.edges.ndim == 1
            and bool((np.diff(rule.edges) > 0).all())
        )
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError):
        return None
    return rule if known and rule.edges.size >= 3 else None


def place_in(rule: MeterRule, reading: Mapping[str, Any]) -> dict[str, int]:
    """The period that a reading is in, and the state of its power; none of a time without a zone,
    where nobody gave it one."""
    moment = datetime.fromisoformat(reading["time"])
    if moment.tzinfo is None:
        if rule.offset is None:
            return {}
        moment = moment.replace(tzinfo=timezone(timedelta(microseconds=rule.offset)))
    time = microseconds(moment)
    (state,) = bins_of(np.array([reading["kw"]]), rule.edges)
    return {"step": int((time - rule.start) // rule.interval), "state": int(state)}


def _as_by_the_rule(
    table: Table, rule: MeterRule, owner: Ints, time: Ints, kw: Floats, place: ZoneInfo | None
) -> list[str]:
    """What the service would refuse, refused by the lines and the meters of the file; what is to be
    said of its bins.

    The bins are looked at here and nowhere else: what is said of them is of private readings, for
    their owner alone.
    """
    names = table.columns["participant"]
    for fault in rule.faults(owner, time, kw):
        if fault.rows.any():
            values = kw if fault.column == "kw" else table.columns["time"]
            says = f"{fault.detail}{_change_of_clocks(rule, time, place)}, not {{}}"
            about = "public.steps" if fault.column == "time" else "public.edges"
            rows = np.flatnonzero(fault.rows)
            raise _of_meters(table, rows, says, values, fault.column, fault.detail, about)
    try:
        found = rule.states(owner, time, kw, max(10 * kw.size, MOST_STATES))
    except OverflowError:  # which the service words
        return []
    if rule.gaps == "refuse" and found.left_out.size:
        says = f"{rule.gap(found)}; {rule.remedies(found, 'meters')}"
        raise _of_meters(table, found.left_out, says, names, "participant", says, "public.meters")
    return _bins(rule, kw)


def _change_of_clocks(rule: MeterRule, time: Ints, place: ZoneInfo | None) -> str:
    """Where readings are beyond the periods by no more than clocks were put back by: why, and how
    many it takes."""
    if place is None or rule.steps is None:
        return ""
    first, last = _offsets_of(rule, place)
    if (
        first is None
        or last is None
        or not (behind := (first - last) // timedelta(microseconds=1)) > 0
    ):
        return ""
    end = rule.start + rule.steps * rule.interval
    if not end <= time.max() < end + behind or behind % rule.interval:
        return ""
    more = behind // rule.interval
    steps = f"with those {more} periods public.steps is {rule.steps + more:,}"
    return f" (clocks in {place.key} are put back by then: {steps})"


def _of_meters(
    table: Table, rows: Ints, says: str, values: Any, column: str, cause: str, about: str
) -> TableError:
    """The mistake of these rows in a sentence on the first of them, whose it is, and how many there
    are."""
    first, last = rows[np.argmin(table.places[rows])], rows[np.argmax(table.places[rows])]
    more = "" if rows.size == 1 else f" (and {rows.size - 1:,} more like this)"
    name = str(table.columns["participant"][first])[:40]
    found = str(values[first])[:40]
    detail = f"{table.unit} {table.places[first]}, meter {name}: {says.format(found)}{more}"
    issue = Issue(
        cause=cause,
        row=int(table.places[first]),
        column=table.called.get(column, column),
        found=found,
        about=about,
        count=rows.size,
        last=int(table.places[last]) if rows.size > 1 else None,
        detail=detail,
    )
    return TableError(detail, "", issue)


def _bins(rule: MeterRule, kw: Floats) -> list[str]:
    """How far the middles of bins are from what the readings in them are, where that matters."""
    inside = np.clip(kw, rule.edges[0], rule.edges[-1])
    state, middles = bins_of(inside, rule.edges), (rule.edges[1:] + rule.edges[:-1]) / 2
    count, sums = (np.bincount(state, weights, middles.size) for weights in (None, kw))
    counted_as, drawn = float(count @ middles), float(sums.sum())
    if not drawn or abs(counted_as / drawn - 1) < MOST_OFF:
        return []
    worst = int(np.argmax(np.abs(count * middles - sums)))
    low, high, mean = (
        f"{one:.3g}" for one in (*rule.edges[worst : worst + 2], sums[worst] / count[worst])
    )
    off = f"{100 * abs(counted_as / drawn - 1):.0f} % {'more' if counted_as > drawn else 'less'}"
    where = f"from {low} to {high} kW, where its mean is {mean} and the middle {middles[worst]:.3g}"
    return [
        f"a state counts as the middle of its bin, which makes the power of this file {off} than "
        f"it is (most of it {where}). Narrower `edges` mend that, or `power` in the problem: a "
        "figure for each state that everybody may know, as of a data sheet or of other years. "
        "These means are private, and said to you alone: do not send them"
    ]


def checks(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Callable[[], Any]]:
    """Each column by itself, for who has to mend a file."""
    columns, rules = _as_power(table, rules, columns)
    if "participants" in rules:
        names = _meters(table, rules, columns)
        yield lambda: table.moments(columns.get("time", "time"))
        for name in names:
            yield partial(table.numbers, name, may_lack=True)
        return
    named = table.named(columns, ["participant", "time", "kw"])
    yield lambda: _refuse_totals(named)
    yield lambda: named.names("participant")
    yield lambda: named.moments("time")
    yield lambda: named.numbers("kw", may_lack=True)


def _advice(table: Table, rules: Mapping[str, Any]) -> list[str]:
    """What to look at where each meter has a column: the unit, and names like no meter's."""
    if "participants" not in rules:
        return []
    notes = []
    if "units" not in rules:
        notes.append(
            "cells are taken as power in kW, since reader.units does not say; where they are "
            "energy of a period say reader.units=kWh"
        )
    doubtful = _doubtful(distinct(table.columns["participant"])[0].tolist())
    if doubtful and rules["participants"] == "columns":
        one = len(doubtful) == 1
        are = "is taken as a meter, and is" if one else "are taken as meters, and are"
        notes.append(
            f"{_named(doubtful)} {are} named like a total, the weather or a price: reader.except "
            "does not name them"
        )
    return notes


def _doubtful(names: Iterable[str]) -> list[str]:
    return [name for name in names if is_no_meter(name)]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(name[:40] for name in names[:MOST_NAMED]) + more


def _a_row_each(table: Table, rules: Mapping[str, Any], columns: Mapping[str, str]) -> Table:
    """Of a table with a column for each meter one with a row for each reading, meter by meter."""
    names, moment = _meters(table, rules, columns), columns.get("time", "time")
    kw = [table.numbers(name, may_lack=True) for name in names]
    return replace(
        table,
        columns={
            "participant": Texts(
                None, (_named_once(names), np.repeat(np.arange(len(names)), table.rows))
            ),
            "time": _tiled(table.columns[moment], len(names)),
            "kw": np.concatenate(kw),
        },
        places=np.tile(table.places, len(names)),
    )


def _named_once(names: Sequence[str]) -> NDArray[Any]:
    return np.fromiter(names, dtype=object, count=len(names))


def _tiled(values: Any, times: int) -> Any:
    once, of = distinct(values)
    if once.dtype.kind == "O":
        return Texts(None, (once, np.tile(of, times)))
    return np.tile(values, times)


def _meters(table: Table, rules: Mapping[str, Any], columns: Mapping[str, str]) -> list[str]:
    """The columns that are meters, where each has one."""
    participants, others = rules["participants"], rules.get("except", [])
    if not set(columns) <= {"time"}:
        raise TableError(
            "columns: where each meter has a column, only that of the time can be called otherwise"
        )
    moment = columns.get("time", "time")
    if moment not in table.columns:
        raise TableError(f"no column {moment}; columns are: {table.listed()}; say --columns time=…")
    if not isinstance(others, list) or not all(isinstance(name, str) for name in others):
        raise TableError("reader.except is a list of the columns that are no meters")
    if "except" in rules and participants != "columns":
        raise TableError('reader.except goes with "participants": "columns"')
    for name in others:
        if name not in table.columns or name == moment:
            raise TableError(
                f"reader.except: no column {name[:40]} beside the time; there are {table.listed()}"
            )
    left = [name for name in table.columns if name != moment and name not in others]
    names = left if participants == "columns" else participants
    if (
        not isinstance(names, list)
        or not all(isinstance(name, str) for name in names)
        or not (names or others)
    ):
        raise TableError(
            'reader.participants is "columns", or a list of the columns that are meters'
        )
    if not names:
        raise TableError("reader.except leaves no column that is a meter's")
    if participants == "columns" and "except" not in rules and (doubtful := _doubtful(names)):
        are = "is named" if len(doubtful) == 1 else "are named"
        raise TableError(
            f"{_named(doubtful)} {are} like a total, the weather or a price, which is nobody's "
            "meter: say"
            f' "except": {json.dumps(doubtful, ensure_ascii=False)} beside "participants": '
            '"columns" in'
            ' public.reader to leave such columns out ("except": [] takes all), or list those that '
            "are meters as participants"
        )
    for place, name in enumerate(names):
        if name not in table.columns or name == moment or name in names[:place]:
            raise TableError(
                f"reader.participants: no column {name[:40]} of another meter; there are "
                f"{table.listed()}"
            )
    return names

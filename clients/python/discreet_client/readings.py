"""Tables of meters' readings, as meters and spreadsheets write them: a reading a row, or a column for each meter.

What becomes of readings is the public rule's (`meters`). It is tried here too, so that what the service would refuse is
refused with the line and the meter's name, which the service does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from discreet_client import trips
from discreet_client.meters import Floats, Ints, MeterRule, bins_of, in_zone, is_no_meter, is_shown_twice, times_of
from discreet_client.reading import Reading, check_rules, counted
from discreet_client.tables import MOST_NAMED, Table, TableError

MOST_STATES = 10**8
"""That a table's readings become here, with what is carried over."""
MOST_OFF = 0.05
"""Part of the power of a file by which middles of bins may be off without a word."""


def readings_of(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Reading:
    """Readings of meters, columns participant, time and kw, times with their offset. What becomes of them
    is said by `public.edges` and `public.meters`. A reading without a value is none: a gap, as one that is not there.

    rules:
        time_zone: of local times, such as Europe/Berlin. A place's clocks show an hour twice a year; rows in order, as
            a meter writes them, are understood (`meters.in_zone`), also where some of them have no value
        participants: "columns", every column beside the time is a meter's and has its kW; or a list of those that are
        except: with "columns", a list of those that are no meters. Where it is not given, columns called like a total,
            the weather or a price are refused

    What the service would refuse by the public rule is refused here, by line and meter.
    """
    check_rules(rules, ["time_zone", "participants", "except"], "meters")
    if "participants" in rules:
        table = _a_row_each(table, rules, columns)
    else:
        if "except" in rules:
            raise TableError('reader.except goes with "participants": "columns"')
        if len(table.columns) > 3 and not {"participant", "kw"} & {*columns, *table.columns}:
            raise TableError(
                f"no column participant, nor kw; columns are: {table.listed()}. Where each meter has a column, say"
                ' "reader": {"participants": "columns"} in public'
            )
        table = table.named(columns, ["participant", "time", "kw"])
    kw, notes = table.numbers("kw", may_lack=True), _advice(table, rules)
    place, lacks = trips.place_of(rules.get("time_zone")), np.isnan(kw)
    if lacks.any():
        few = int(np.count_nonzero(lacks))
        notes.append(
            f"{counted(few, 'reading', kw.size)} without a value left out, as gaps (public.meters: carry, gaps)"
        )
        kept = np.flatnonzero(~lacks if place is None else ~lacks | _shown_twice(table, lacks, place))
        table, kw, lacks = table.ordered(kept), kw[kept], lacks[kept]
    _, owner = np.unique(table.names("participant"), return_inverse=True)
    moments = np.array(table.moments("time"), dtype=object)
    if place is not None:
        for rows in np.split(np.argsort(owner.ravel(), kind="stable"), np.cumsum(np.bincount(owner.ravel()))[:-1]):
            local = rows[[moment.tzinfo is None for moment in moments[rows]]]
            try:
                moments[local] = in_zone(moments[local].tolist(), place.key)
            except (ValueError, OverflowError) as error:
                name = str(table.columns["participant"][rows[0]])[:40]
                raise TableError(f"column time, of participant {name}, of whose readings {error}") from None
    if lacks.any():
        table, kw, moments, owner = table.ordered(np.flatnonzero(~lacks)), kw[~lacks], moments[~lacks], owner[~lacks]
        _, owner = np.unique(owner, return_inverse=True)
    if (rule := _rule_of(public)) is not None and all(moment.tzinfo or rule.offset is not None for moment in moments):
        notes += _as_by_the_rule(table, rule, owner.ravel(), times_of(moments.tolist(), rule.offset), kw)
    times = np.array([moment.isoformat() for moment in moments])
    return Reading(dict(public), {"participant": owner.ravel(), "time": times, "kw": kw}, notes)


def _shown_twice(table: Table, lacks: NDArray[np.bool_], place: ZoneInfo) -> NDArray[np.bool_]:
    """bool[rows]: of those that lack a value, times of an hour that clocks show twice: they tell which of the two the
    readings around them are of. None of them where one cannot be read, as below a table."""
    found = np.zeros(lacks.size, dtype=bool)
    try:
        moments = table.ordered(np.flatnonzero(lacks)).moments("time")
    except TableError:
        return found
    found[lacks] = [moment.tzinfo is None and is_shown_twice(moment, place) for moment in moments]
    return found


def _rule_of(public: Mapping[str, Any]) -> MeterRule | None:
    """The public rule; None where the service has something to say of it."""
    try:
        rule = MeterRule.of(public)
        steps = rule.steps is None or (isinstance(rule.steps, int) and rule.steps >= 2)
        known = steps and rule.interval > 0 and rule.edges.ndim == 1 and bool((np.diff(rule.edges) > 0).all())
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, OverflowError):
        return None
    return rule if known and rule.edges.size >= 3 else None


def _as_by_the_rule(table: Table, rule: MeterRule, owner: Ints, time: Ints, kw: Floats) -> list[str]:
    """What the service would refuse, refused by the lines and the meters of the file; what is to be said of its bins.

    The bins are looked at here and nowhere else: what is said of them is of private readings, for their owner alone.
    """
    names = table.columns["participant"]
    for fault in rule.faults(owner, time, kw):
        if fault.rows.any():
            values = kw if fault.column == "kw" else table.columns["time"]
            raise TableError(_of_meters(table, np.flatnonzero(fault.rows), f"{fault.detail}, not {{}}", values))
    try:
        found = rule.states(owner, time, kw, max(10 * kw.size, MOST_STATES))
    except OverflowError:  # which the service words
        return []
    if rule.gaps == "refuse" and found.left_out.size:
        says = f"{rule.gap(found)}; public.meters says what becomes of gaps"
        says += " (`carry`: 2 fills two with the state before, `gaps`: leave_out leaves such meters out)"
        raise TableError(_of_meters(table, found.left_out, says, names))
    return _bins(rule, kw)


def _of_meters(table: Table, rows: Ints, says: str, values: NDArray[Any]) -> str:
    """A sentence on the first of these rows, whose it is, and how many there are."""
    first = rows[np.argmin(table.places[rows])]
    more = "" if rows.size == 1 else f" (and {rows.size - 1:,} more like it)"
    name = str(table.columns["participant"][first])[:40]
    return f"{table.unit} {table.places[first]}, meter {name}: {says.format(str(values[first])[:40])}{more}"


def _bins(rule: MeterRule, kw: Floats) -> list[str]:
    """How far the middles of bins are from what the readings in them are, where that matters."""
    inside = np.clip(kw, rule.edges[0], rule.edges[-1])
    state, middles = bins_of(inside, rule.edges), (rule.edges[1:] + rule.edges[:-1]) / 2
    count, sums = (np.bincount(state, weights, middles.size) for weights in (None, kw))
    counted_as, drawn = float(count @ middles), float(sums.sum())
    if not drawn or abs(counted_as / drawn - 1) < MOST_OFF:
        return []
    worst = int(np.argmax(np.abs(count * middles - sums)))
    low, high, mean = (f"{one:.3g}" for one in (*rule.edges[worst : worst + 2], sums[worst] / count[worst]))
    off = f"{100 * abs(counted_as / drawn - 1):.0f} % {'more' if counted_as > drawn else 'less'}"
    where = f"from {low} to {high} kW, where its mean is {mean} and the middle {middles[worst]:.3g}"
    return [
        f"a state counts as the middle of its bin, which makes the power of this file {off} than it is (most of it"
        f" {where}). Narrower `edges` mend that, or `power` in the problem: a figure for each state that everybody may"
        " know, as of a data sheet or of other years. These means are private, and said to you alone: do not send them"
    ]


def checks(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Callable[[], Any]]:
    """Each column by itself, for who has to mend a file."""
    if "participants" in rules:
        names = _meters(table, rules, columns)
        yield lambda: table.moments(columns.get("time", "time"))
        for name in names:
            yield partial(table.numbers, name, may_lack=True)
        return
    named = table.named(columns, ["participant", "time", "kw"])
    yield lambda: named.names("participant")
    yield lambda: named.moments("time")
    yield lambda: named.numbers("kw", may_lack=True)


def _advice(table: Table, rules: Mapping[str, Any]) -> list[str]:
    """What to look at where columns that are called like none are taken for meters."""
    if rules.get("participants") != "columns":
        return []
    doubtful = _doubtful(dict.fromkeys(table.columns["participant"].tolist()))
    if not doubtful:
        return []
    are = "is taken as a meter, and is" if len(doubtful) == 1 else "are taken as meters, and are"
    return [f"{_named(doubtful)} {are} called like a total, the weather or a price: reader.except does not name them"]


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
            "participant": np.repeat(np.array(names, dtype=object), table.rows),
            "time": np.tile(table.columns[moment], len(names)),
            "kw": np.concatenate(kw),
        },
        places=np.tile(table.places, len(names)),
    )


def _meters(table: Table, rules: Mapping[str, Any], columns: Mapping[str, str]) -> list[str]:
    """The columns that are meters, where each has one."""
    participants, others = rules["participants"], rules.get("except", [])
    if not set(columns) <= {"time"}:
        raise TableError("columns: where each meter has a column, only that of the time can be called otherwise")
    moment = columns.get("time", "time")
    if moment not in table.columns:
        raise TableError(f"no column {moment}; columns are: {table.listed()}; say --columns time=…")
    if not isinstance(others, list) or not all(isinstance(name, str) for name in others):
        raise TableError("reader.except is a list of the columns that are no meters")
    if "except" in rules and participants != "columns":
        raise TableError('reader.except goes with "participants": "columns"')
    for name in others:
        if name not in table.columns or name == moment:
            raise TableError(f"reader.except: no column {name[:40]} beside the time; there are {table.listed()}")
    left = [name for name in table.columns if name != moment and name not in others]
    names = left if participants == "columns" else participants
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not (names or others):
        raise TableError('reader.participants is "columns", or a list of the columns that are meters')
    if not names:
        raise TableError("reader.except leaves no column that is a meter's")
    if participants == "columns" and "except" not in rules and (doubtful := _doubtful(names)):
        are = "is called" if len(doubtful) == 1 else "are called"
        raise TableError(
            f"{_named(doubtful)} {are} like a total, the weather or a price, which is nobody's meter: say"
            f' "except": {json.dumps(doubtful, ensure_ascii=False)} beside "participants": "columns" in'
            ' public.reader to leave such columns out ("except": [] takes all), or list those that are meters as'
            " participants"
        )
    for place, name in enumerate(names):
        if name not in table.columns or name == moment or name in names[:place]:
            raise TableError(f"reader.participants: no column {name[:40]} of another meter; there are {table.listed()}")
    return names

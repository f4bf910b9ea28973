"""Tables as people have them, by the kind of problem that they are for.

A dataset's `public` may hold `reader`: the rules by which a table is read, and `columns`, what its columns are called.
They stay here; the service gets what the reader made, and the rest of `public`.

    visits of patients                    off_policy_evaluation   `discreet_client.patients`
    episodes of Minari, d3rlpy, Gymnasium off_policy_evaluation   `discreet_client.episodes`
    trips, as CSV, Parquet, OMX           routing                 `discreet_client.trips`
    readings of meters                    dr_ensemble             `readings_of`
    whatever else                         only columns are renamed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet_client import episodes, patients, trips
from discreet_client.meters import in_zone, is_no_meter
from discreet_client.reading import Reading, check_rules, counted
from discreet_client.tables import DATES, Table, TableError, WrongCell, first_line, table_of, together

Checks = Callable[[Table, Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Iterable[Callable[[], Any]]]


class Reader(NamedTuple):
    """Of one kind."""

    read: Callable[[Table, Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Reading]
    own: frozenset[str]
    """Names of columns that this reader knows and the service does not."""
    checks: Checks
    """What may be wrong with each column, whatever is wrong with others: each raises TableError, or does nothing."""


def readings_of(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Reading:
    """Readings of meters, columns participant, time and kw, times with their offset. What becomes of them
    is said by `public.edges` and `public.meters`. A reading without a value is none: a gap, as one that is not there.

    rules:
        time_zone: of local times, such as Europe/Berlin. A place's clocks show an hour twice a year; rows in order, as
            a meter writes them, are understood (`meters.in_zone`)
        participants: "columns", every column beside the time is a meter's and has its kW; or a list of those that are
    """
    check_rules(rules, ["time_zone", "participants"], "meters")
    if "participants" in rules:
        table = _a_row_each(table, rules["participants"], columns)
    else:
        if len(table.columns) > 3 and not {"participant", "kw"} & {*columns, *table.columns}:
            raise TableError(
                f"no column participant, nor kw; columns are: {table.listed()}. Where each meter has a column, say"
                ' "reader": {"participants": "columns"} in public'
            )
        table = table.named(columns, ["participant", "time", "kw"])
    kw, notes = table.numbers("kw", may_lack=True), _advice(table, rules)
    if (lacks := np.isnan(kw)).any():
        few = int(np.count_nonzero(lacks))
        notes.append(
            f"{counted(few, 'reading', kw.size)} without a value left out, as gaps (public.meters: carry, gaps)"
        )
        table, kw = table.ordered(np.flatnonzero(~lacks)), kw[~lacks]
    _, owner = np.unique(table.names("participant"), return_inverse=True)
    moments = np.array(table.moments("time"), dtype=object)
    if place := trips.place_of(rules.get("time_zone")):
        for rows in np.split(np.argsort(owner.ravel(), kind="stable"), np.cumsum(np.bincount(owner.ravel()))[:-1]):
            local = rows[[moment.tzinfo is None for moment in moments[rows]]]
            try:
                moments[local] = in_zone(moments[local].tolist(), place.key)
            except (ValueError, OverflowError) as error:
                name = str(table.columns["participant"][rows[0]])[:40]
                raise TableError(f"column time, of participant {name}, of whose readings {error}") from None
    times = np.array([moment.isoformat() for moment in moments])
    return Reading(dict(public), {"participant": owner.ravel(), "time": times, "kw": kw}, notes)


def checks_of_readings(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Callable[[], Any]]:
    """Each column by itself, for who has to mend a file."""
    if "participants" in rules:
        names = _meters(table, rules["participants"], columns)
        yield lambda: table.moments(columns.get("time", "time"))
        for name in names:
            yield partial(table.numbers, name, may_lack=True)
        return
    named = table.named(columns, ["participant", "time", "kw"])
    yield lambda: named.names("participant")
    yield lambda: named.moments("time")
    yield lambda: named.numbers("kw", may_lack=True)


def _advice(table: Table, rules: Mapping[str, Any]) -> list[str]:
    """What to look at where every column was taken for a meter."""
    if rules.get("participants") != "columns":
        return []
    doubtful = [name[:40] for name in dict.fromkeys(table.columns["participant"].tolist()) if is_no_meter(name)]
    if not doubtful:
        return []
    are = "is taken as a meter, and is" if len(doubtful) == 1 else "are taken as meters, and are"
    return [
        f"{', '.join(doubtful)} {are} called like a total, the weather or a price: reader.participants may be a list"
        " of the columns that are meters"
    ]


def _a_row_each(table: Table, participants: Any, columns: Mapping[str, str]) -> Table:
    """Of a table with a column for each meter one with a row for each reading, meter by meter."""
    names, moment = _meters(table, participants, columns), columns.get("time", "time")
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


def _meters(table: Table, participants: Any, columns: Mapping[str, str]) -> list[str]:
    """The columns that are meters, where each has one."""
    if not set(columns) <= {"time"}:
        raise TableError("columns: where each meter has a column, only that of the time can be called otherwise")
    moment = columns.get("time", "time")
    if moment not in table.columns:
        raise TableError(f"no column {moment}; columns are: {table.listed()}; say --columns time=…")
    names = [name for name in table.columns if name != moment] if participants == "columns" else participants
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TableError('reader.participants is "columns", or a list of the columns that are meters')
    for place, name in enumerate(names):
        if name not in table.columns or name == moment or name in names[:place]:
            raise TableError(f"reader.participants: no column {name[:40]} of another meter; there are {table.listed()}")
    return names


READERS = {
    "dr_ensemble": Reader(readings_of, frozenset(), checks_of_readings),
    "off_policy_evaluation": Reader(patients.transitions_of, frozenset({"patient"}), patients.checks),
    "routing": Reader(trips.trips_of, frozenset({"time"}), trips.checks),
}


def needed(kind: str, file: Path, public: Mapping[str, Any], columns: Mapping[str, str] | None) -> bool:
    """Whether a file is for a reader, and not for the service as it is."""
    if columns or "reader" in public or file.suffix.lower() == ".omx":
        return True
    if file.suffix.lower() != ".csv":
        return False
    separator, names = first_line(file)
    return separator != "," or knows(kind, names)


def knows(kind: str, names: Iterable[str]) -> bool:
    """Whether columns of these names are for the kind's reader alone."""
    return kind in READERS and not READERS[kind].own.isdisjoint(names)


def read(kind: str, source: Any, public: Mapping[str, Any], columns: Mapping[str, str] | None = None) -> Reading:
    """The content of a dataset from a table: a path of a .csv, .parquet or .omx file, a frame, or columns; or from
    episodes, of which the rules `behaviour` and `target` may be functions (`episodes.Policy`).

    columns: the table's name for each of the reader's columns; those that are called alike need no mention.
    Raises TableError, a ValueError, for what is wrong with the table.
    """
    told = dict(public)
    rules = told.pop("reader", None) or {}
    if not isinstance(rules, Mapping):
        raise TableError("public.reader: an object is needed")
    said = rules.get("columns") or {}
    if not isinstance(said, Mapping) or not all(isinstance(one, str) for one in said.values()):
        raise TableError("reader.columns: an object is needed, the name of a column for each")
    names = {**said, **(columns or {})}
    dates = rules.get("dates")
    if dates not in (None, *DATES):
        raise TableError(f"reader.dates is {' or '.join(DATES)}, not {dates!r}")
    encoding = rules.get("encoding")
    if not isinstance(encoding, str | None):
        raise TableError('reader.encoding is what a CSV file is written in, such as "cp1252"')
    rules = {rule: one for rule, one in rules.items() if rule not in ("columns", "dates", "encoding")}
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".omx":
        table, rules = trips.of_matrix(Path(source), rules)
    elif episodes.are_episodes(source):
        policies = {name: rules.pop(name) for name in patients.POLICIES if callable(rules.get(name))}
        by_column = {patients.POLICIES[name][0]: policy for name, policy in policies.items()}
        table = episodes.table_of_episodes(episodes.episodes_of(source), told, by_column)
    else:
        table = table_of(source, encoding)
    table = replace(table, dates=dates, encoding=encoding)
    if kind in READERS:
        try:
            return READERS[kind].read(table, told, rules, names)
        except WrongCell as error:
            raise together(error, READERS[kind].checks(table, told, rules, names)) from None
    check_rules(rules, ["columns"], kind)
    own = [name for name in table.columns if name not in names.values()]
    found = table.named(names, [*own, *names])
    return Reading(told, {name: found.plain(name) for name in found.columns}, [])

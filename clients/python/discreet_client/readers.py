"""Readers of the tables that people have, by kind of problem.

A dataset's `public` may hold `reader`: rules for reading a table, and `columns`, the names of its
columns. The service runs this very program on a file that is sent; or the file is read at home,
and the service receives what the reader made of it.

    visits of patients                    off_policy_evaluation   `discreet_client.patients`
    episodes of Minari, d3rlpy, Gymnasium off_policy_evaluation   `discreet_client.episodes`
    trips, as CSV, Parquet, OMX           routing                 `discreet_client.trips`
    readings of meters                    dr_ensemble             `discreet_client.readings`
    OpenADR reports of meters             dr_ensemble             `discreet_client.openadr`
    tables of other kinds                 columns are renamed only
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet_client import containers, episodes, openadr, patients, proposals, readings, trips
from discreet_client.cells import DATES, DECIMALS, THOUSANDS, Grammar
from discreet_client.errors import MissingExtra
from discreet_client.reading import Reading, check_rules, counted, joined
from discreet_client.tables import (
    OWNERS,
    Issue,
    Table,
    TableError,
    first_line,
    is_utf_16,
    missing,
    together,
    without_missing,
)

VERSION = 1
"""Of the description."""
MOST_MISSING_WORDS = 100
SHOWN = 6
"""Rows of a preview."""
MOST_SHOWN = 200
"""Columns of a preview's rows."""
LONGEST_SHOWN = 80
BEYOND = "a time or a number is too large: years are 1 to 9999, in every time zone"
OF_FILES = ("dates", "decimal", "encoding", "missing_words", "sheet", "thousands", "units_row")
"""Rules of how a table is written, whatever its kind."""

RULES = frozenset((*OF_FILES, *trips.RULES, *patients.RULES, *readings.RULES))
"""Names of all rules."""

Checks = Callable[
    [Table, Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Iterable[Callable[[], Any]]
]


class Reader(NamedTuple):
    """The reader of one kind."""

    read: Callable[[Table, Mapping[str, Any], Mapping[str, Any], Mapping[str, str]], Reading]
    own: frozenset[str]
    """Names of columns that this reader knows and the service does not."""
    checks: Checks
    """Independent checks of the columns: each raises TableError or does nothing."""
    names: Callable[
        [Mapping[str, Any], Mapping[str, Any], str | None], Mapping[str, Container[str]]
    ]
    """Texts that the description names, by column: they are values there, `NA` too."""


READERS = {
    "dr_ensemble": Reader(readings.readings_of, frozenset(), readings.checks, lambda *_: {}),
    "off_policy_evaluation": Reader(
        patients.transitions_of, frozenset({"patient"}), patients.checks, patients.names_in
    ),
    "routing": Reader(trips.trips_of, frozenset({"time"}), trips.checks, trips.names_in),
}


def needed(
    kind: str, file: Path, public: Mapping[str, Any], columns: Mapping[str, str] | None
) -> bool:
    """Whether a file needs a reader instead of going to the service unchanged."""
    described = columns or "reader" in public or "columns" in public
    form = containers.SUFFIXES.get(file.suffix.lower())
    if described or form in ("omx", "xlsx"):
        return True
    if form != "csv":
        return openadr.is_openadr(file)
    if is_utf_16(file):
        return True
    separator, names, before = first_line(file)
    return separator != "," or before > 0 or knows(kind, names)


def knows(kind: str, names: Iterable[str]) -> bool:
    """Whether any of these names is a column that only the kind's reader knows."""
    return kind in READERS and not READERS[kind].own.isdisjoint(names)


def grammar_of(rules: Mapping[str, Any]) -> Grammar:
    """How the texts of a table are meant by its description. TableError for what no rule says."""
    said: dict[str, Any] = {}
    for rule, known in (("dates", DATES), ("decimal", DECIMALS), ("thousands", THOUSANDS)):
        said[rule] = rules.get(rule)
        if said[rule] not in (None, *known):
            listed = " or ".join(one if rule == "dates" else f'"{one}"' for one in known)
            raise TableError(f"reader.{rule} is {listed}, not {said[rule]!r}")
    if said["thousands"] is not None and said["thousands"] == said["decimal"]:
        raise TableError("reader.thousands and reader.decimal are two different marks")
    return Grammar(dates=said["dates"], decimal=said["decimal"], thousands=said["thousands"])


def completed(
    kind: str, public: Mapping[str, Any], columns: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The public part with what follows from its own rules, before any table is there: what `read`
    returns of it. TableError for rules that contradict each other."""
    told = {name: one for name, one in public.items() if name != "reader"}
    rules = public.get("reader") or {}
    try:
        if kind == "dr_ensemble":
            told = dict(readings.begun(told, trips.place_of(rules.get("time_zone"))))
        elif kind == "off_policy_evaluation":
            told = patients.completed(told, rules, columns or {})
    except TableError:
        raise
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        pass  # rules that are none: `read` says what they lack
    return {**told, "reader": rules} if "reader" in public else told


def sendable(
    public: Mapping[str, Any], columns: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """The public part with its description as the service reads it, the names of a file of zones in
    the file's place; and notes for the data holder. TableError."""
    told, rules, names = described(public, columns)
    notes = list[str]()
    if isinstance(rules.get("zones"), str | Path):
        rules["zones"] = trips.zone_numbers(rules["zones"], notes, rules.get("encoding"))
    return {**told, "reader": {"version": VERSION, **rules}, "columns": names}, notes


def without_names(public: Mapping[str, Any]) -> dict[str, Any]:
    """A public part without what may hold names of people, meters or places: `zones` but those of
    a stored network, a list of `participants`, and `except`. This is what is stored and shown."""
    rules = public.get("reader")
    if not isinstance(rules, Mapping):
        return dict(public)
    kept = {rule: one for rule, one in rules.items() if rule != "except"}
    zones = kept.get("zones")
    if zones is not None and not (isinstance(zones, Mapping) and set(zones) == {"network"}):
        del kept["zones"]
    if "participants" in kept and not isinstance(kept["participants"], str):
        del kept["participants"]
    return {**public, "reader": kept}


def read(
    kind: str,
    source: Any,
    public: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    *,
    form: str | None = None,
) -> Reading:
    """The content of a dataset from a table: a path of a .csv, .parquet, .xlsx or .omx file, a
    frame, or columns; from OpenADR reports, as objects or in a .json file; or from episodes, for
    which the rules `behaviour` and `target` may be functions (`episodes.Policy`).

    source: or a function that opens a file of this `form` (`containers.FORMS`), which reads from
        memory alone: the description then names no other files.
    columns: beside `public.columns`, the table's name for each of the reader's columns that is
        called differently there; `Date+Time` joins the texts of two columns, unless a column has
        this name.

    Raises TableError, a ValueError, if something is wrong with the table: all mistakes at once, as
    `issues`.
    """
    told, rules, names = described(public, columns)
    try:
        table, rules = _table(kind, source, form, told, rules, names)
        return _read(kind, table, told, rules, names)
    except OverflowError:
        raise TableError(BEYOND) from None


def read_here(
    kind: str, source: Any, public: Mapping[str, Any], columns: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, Any], Sequence[str]]:
    """What is sent of a table that is read at home: its public part without names, its columns,
    and notes for the data holder. As `read`."""
    said, _ = sendable(public, columns)
    reading = read(kind, source, public, columns)
    return without_names({**said, **reading.public}), reading.columns, reading.notes


def column(
    source: Any, rules: Mapping[str, Any], names: Mapping[str, str], role: str, form: str | None
) -> Table:
    """One column of a table, by these rules of files alone. TableError."""
    table, _ = _table("", source, form, {}, dict(rules), names)
    return table.named({role: names.get(role, role)}, [role])


def described(
    public: Mapping[str, Any], columns: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """The public part without its rules for a reader, these rules, and the names of columns.
    TableError where they are none."""
    told = dict(public)
    rules = told.pop("reader", None) or {}
    if not isinstance(rules, Mapping):
        raise TableError("public.reader: an object is needed")
    rules, names = dict(rules), dict[str, str]()
    version = rules.pop("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise TableError(f"reader.version is {VERSION}, not {str(version)[:40]}")
    for place, said in (
        ("reader.columns", rules.pop("columns", None)),
        ("public.columns", told.pop("columns", None)),
        ("columns", columns),
    ):
        if not isinstance(said or {}, Mapping) or not all(
            isinstance(one, str) for pair in (said or {}).items() for one in pair
        ):
            raise TableError(f"{place}: an object is needed, the name of a column for each")
        names |= said or {}
    return told, rules, names


def preview(
    kind: str,
    source: Any,
    public: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    *,
    form: str | None = None,
) -> dict[str, Any]:
    """How a table would be read, for its owner to look at, as JSON:

    columns: the names in the file. proposal: {reader, columns}, what its form suggests
    (`proposals`); where the description has neither, what follows is by it. rows: of the first
    SHOWN rows {row, cells: as they are written, by column; meaning: the records that they become,
    as objects}: periods and zones of a trip; period and state of a reading; step and coordinates of
    a transition; none of a row that is left out. left_out: [{why, count}]. notes: sentences.
    issues: what is wrong (`Issue.as_dict`, and its sentence as `detail`); nothing has a meaning
    then. count: rows of the table.

    Raises nothing for what is wrong with a file or its description: that is in `issues`. Public
    fields that the table is read without, such as `unit`, are not looked at: a look of the service
    or of `discreet dataset preview` says which are missing.
    """
    found = not_read()
    try:
        told, rules, names = described(public, columns)
        table, opened = _as_it_is(kind, source, form, told, rules)
        found["columns"], found["count"] = list(table.columns), table.rows
        found["proposal"] = proposals.proposed(kind, table, told, opened)
        if not rules and not names:
            rules, names = found["proposal"]["reader"], found["proposal"]["columns"]
        lines = table.places[:SHOWN].tolist()
        found["rows"] = [
            {"row": line, "cells": cells, "meaning": []}
            for line, cells in zip(lines, _cells(table), strict=True)
        ]
        whole, left = _table(kind, source, form, told, dict(rules), names)
        reading = _read(kind, whole, told, left, names)
    except (TableError, MissingExtra, OverflowError) as error:
        says = BEYOND if isinstance(error, OverflowError) else str(error)
        issues = error.issues if isinstance(error, TableError) else [Issue(says)]
        return found | {"issues": [{"detail": one.says, **one.as_dict()} for one in issues]}
    found["left_out"] = [{"why": why, "count": count} for why, count in reading.left_out]
    found["notes"] = [*reading.notes, *_alike(reading)]
    for row, meaning in zip(found["rows"], _meanings(reading, lines), strict=True):
        row["meaning"] = meaning
    return found


def not_read(why: str = "") -> dict[str, Any]:
    """The preview of a file of which nothing is known, and why."""
    return {
        "columns": [],
        "proposal": {"reader": {}, "columns": {}},
        **{name: [] for name in ("rows", "left_out", "notes")},
        "issues": [{"detail": why, **Issue(why).as_dict()}] if why else [],
        "count": None,
    }


def _as_it_is(
    kind: str, source: Any, form: str | None, told: Mapping[str, Any], rules: Mapping[str, Any]
) -> tuple[Table, dict[str, Any]]:
    """The table as it is written, and by which rules of files it was opened: where nobody says the
    encoding, that of Excel is tried too."""
    opened = {rule: rules[rule] for rule in OF_FILES if rule in rules}
    try:
        return _table(kind, source, form, told, dict(rules), {})[0], opened
    except TableError as error:
        if "encoding" in rules or error.issues[0].about != "encoding":
            raise
        opened["encoding"] = "cp1252"
        try:
            return _table(kind, source, form, told, {**rules, **opened}, {})[0], opened
        except TableError:
            raise error from None


def _cells(table: Table) -> list[dict[str, Any]]:
    """The first rows, a text for each column; None where nothing stands."""
    columns = dict(list(table.columns.items())[:MOST_SHOWN])
    lacks = {name: missing(values[:SHOWN]) for name, values in columns.items()}
    return [
        {
            name: None if lacks[name][row] else str(values[row])[:LONGEST_SHOWN]
            for name, values in columns.items()
        }
        for row in range(min(SHOWN, table.rows))
    ]


def _meanings(reading: Reading, lines: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Of each of these rows the records that it became, at most SHOWN."""
    assert reading.places is not None
    rule = readings.rule_of(reading.public) if "kw" in reading.columns else None
    meanings = []
    for line in lines:
        records = []
        for record in np.flatnonzero(reading.places == line)[:SHOWN].tolist():
            one = {name: values[record] for name, values in reading.columns.items()}
            one = {name: getattr(value, "item", lambda v=value: v)() for name, value in one.items()}
            if rule is not None:
                one |= readings.place_in(rule, one)
            records.append(one)
        meanings.append(records)
    return meanings


def _alike(reading: Reading) -> list[str]:
    """A word on trips within a zone and on rows that say the same as another."""
    columns = reading.columns
    if not {"origin", "destination"} <= columns.keys():
        return []
    notes, trips_ = [], columns["origin"].size
    if within := int(np.count_nonzero(columns["origin"] == columns["destination"])):
        notes.append(f"{counted(within, 'row', trips_)} within one zone: such trips use no road")
    codes = [np.unique(values, return_inverse=True)[1].ravel() for values in columns.values()]
    order = np.lexsort(codes)
    same = np.ones(max(trips_ - 1, 0), dtype=bool)
    for code in codes:
        same &= code[order][1:] == code[order][:-1]
    if doubled := int(np.count_nonzero(same)):
        notes.append(f"{counted(doubled, 'row', trips_)} the same as another: each counts")
    return notes


def _table(
    kind: str,
    source: Any,
    form: str | None,
    told: Mapping[str, Any],
    rules: dict[str, Any],
    names: Mapping[str, str],
) -> tuple[Table, dict[str, Any]]:
    """The table of a source, with what its texts mean, and the rules that are left."""
    grammar, encoding = grammar_of(rules), rules.get("encoding")
    if not isinstance(encoding, str | None):
        raise TableError('reader.encoding is the encoding of a CSV file, such as "cp1252"')
    ways = {rule: rules.pop(rule) for rule in OF_FILES if rule in rules}
    words = _missing_words(ways.pop("missing_words", ()))
    file = containers.file_of(source, form)
    if file is not None:
        source = file
        if not file.is_local and isinstance(rules.get("zones"), str):
            raise TableError(
                "reader.zones: {id: number} or a list of ids is needed here, no file's name"
            )
    if file is not None and file.form == "omx" and kind == "routing":
        table, rules = containers.of_matrix(file, rules, trips.classes_of(told))
    elif openadr.is_openadr(source):
        table, rules = openadr.table_of_reports(source, told, rules)
    elif episodes.are_episodes(source):
        policies = {
            name: rules.pop(name) for name in patients.POLICIES if callable(rules.get(name))
        }
        by_column = {patients.POLICIES[name][0]: policy for name, policy in policies.items()}
        table = episodes.table_of_episodes(episodes.episodes_of(source), told, by_column)
    else:
        named = READERS[kind].names(told, rules, encoding) if kind in READERS else {}
        named = {names.get(role, role): texts for role, texts in named.items()}
        table = containers.table_of(
            source, encoding, rules=ways, grammar=grammar, names=named, broken_too=True
        )
    grammar = replace(grammar, separator=table.grammar.separator)
    for join in (False, True):  # words of a column, and of two that are joined
        table = without_missing(table, words=words) if words else table
        if not join:
            table = joined(replace(table, grammar=grammar, encoding=encoding), names)
    return table, rules


def _missing_words(given: Any) -> frozenset[str]:
    """What stands for a missing value beside what always does."""
    if (
        not isinstance(given, list | tuple)
        or len(given) > MOST_MISSING_WORDS
        or not all(isinstance(one, str) and one.strip() for one in given)
    ):
        raise TableError(
            'reader.missing_words: a list of texts is needed, such as ["unknown", "-99"], at most '
            f"{MOST_MISSING_WORDS}"
        )
    return frozenset(one.strip() for one in given)


def _in_steps(kind: str, table: Table, names: Mapping[str, str]) -> bool:
    """Whether the rows are trajectories' steps as the service has them, and not patients'
    visits."""
    there = {*names, *table.columns}
    return kind == "off_policy_evaluation" and "trajectory" in there and "patient" not in there


def _read(
    kind: str,
    table: Table,
    told: Mapping[str, Any],
    rules: Mapping[str, Any],
    names: Mapping[str, str],
) -> Reading:
    if kind in READERS and not _in_steps(kind, table, names):
        reader = READERS[kind]
        try:
            reading = reader.read(table, told, rules, names)
        except TableError as error:
            issues = [*table.broken, *error.issues]
            raise together(issues, reader.checks(table, told, rules, names)) from None
        if table.broken:
            raise TableError.of(table.broken)
        return reading
    if table.broken:
        raise TableError.of(table.broken)
    check_rules(rules, [], kind)
    own = [name for name in table.columns if name not in names.values()]
    found = table.named(names, [*own, *names])
    content = {
        name: found.names(name) if name in OWNERS else found.plain(name) for name in found.columns
    }
    if kind in READERS and "terminal" in content:
        content["terminal"] = found.truths("terminal")
    return Reading(dict(told), content, [], table.places)

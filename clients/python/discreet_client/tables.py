"""A person's own table on its way in: CSV as spreadsheets write it, Parquet, frames, or columns.

What is wrong is told in one sentence, a `TableError`, that names the first place, the column, and
how many more there are like it. Places are lines of a CSV file, counted from 1 with the line of
names, and else rows counted from 0.

Of CSV the separator is the one that a first line `sep=;` says, else the one that the line of names
has: a comma, else `;`, a tab or `|`. What a cell means is said by `cells`.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from discreet_client.cells import (
    AS_WRITTEN,
    MISSING,
    NO_NUMBER,
    SEPARATORS,
    TRUTHS,
    Grammar,
    Moments,
    Refusal,
    Texts,
    distinct,
    moments_of,
)
from discreet_client.meters import EPOCH
from discreet_client.names import blurred, names_of, totals
from discreet_client.option_words import EITHER, Words

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Numbers = NDArray[np.integer[Any]]

OWNERS = ("person", "participant", "patient", "trajectory", "agent")
"""Columns of readers that say whose a row is."""
UTF_8 = "utf-8-sig"
FIRST_BYTES = 1 << 20
"""In which the first line of a file ends."""
_OF_SHEETS = (
    "a spreadsheet or an archive, and no CSV: save the sheet as CSV in UTF-8, in the program that "
    "it is from"
)
OTHER_FILES = {
    b"PK\x03\x04": _OF_SHEETS,
    b"\xd0\xcf\x11\xe0": _OF_SHEETS,
    b"\x1f\x8b": "compressed: unpack it first",
}
"""What files are that people take for CSV, by the bytes that they begin with."""


class _EveryText:
    def __contains__(self, _: object) -> bool:
        return True


EVERY_TEXT: Container[str] = _EveryText()
"""Of a column in which no text stands for what is missing."""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_RARE = b"\t\x0b\x0c\x1c\x1d\x1e\x1f"
"""Spaces of ASCII, beside the usual one."""
_SEP = re.compile(r'"?sep=([,;\t|])"?\r?\n?', re.IGNORECASE)
"""The first line of a file that Excel is told the separator by."""
MOST_NAMED = 20
LONGEST_NAMED = 200
"""Letters of a column's name in a refusal."""
BLOCK_BYTES = 1 << 23
LEAST_QUICK = 1 << 12
"""Bytes of a column below which it takes longer to begin."""
LONGEST_UNIT = 12
"""Letters of a unit below the name of a column."""
_RULE = re.compile(r"\breader\.[a-z_]+")
_PUBLIC = re.compile(r"\bpublic\.[a-z_]+(?:\.[a-z_]+)?")
MICROSECONDS_A_DAY = 86_400_000_000
READER = {
    "dates": "reader.dates has to say day_first or month_first of dates with slashes",
    "missing_words": "if it stands for a missing value: reader.missing_words",
    "decimal": 'reader.decimal says "." or ","',
    "thousands": "reader.thousands says which mark parts thousands",
    "units_row": "reader.units_row: true where this row says the units",
}
"""What says in a description of a table how its texts are meant."""


@dataclass(frozen=True)
class Issue:
    """A mistake in a table: where it is, and what would mend it."""

    cause: str
    """What is wrong, without the place and the value."""
    row: int | None = None
    """The line of a CSV file, counted from 1, else the number of the row, counted from 0."""
    column: str | None = None
    """The column as its file calls it."""
    found: str | None = None
    """The first such value, at most 40 characters of it."""
    expected: str | None = None
    """How a value is written that would be read."""
    about: str = ""
    """The option that would help, if there is one."""
    count: int = 1
    """Of how many rows the same is true."""
    last: int | None = None
    """The last of these rows."""
    detail: str = ""
    """All of this as one sentence."""

    @property
    def says(self) -> str:
        return self.detail or self.cause

    @property
    def way_out(self) -> str | None:
        """The rule of the description that would help: `reader.decimal`, `columns`."""
        if self.about in ("", "finite"):
            named = _RULE.search(self.cause) or _PUBLIC.search(self.cause)
            return named and named[0]
        whole = self.about == "columns" or self.about.startswith("public.")
        return self.about if whole else f"reader.{self.about}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: row, column, cause, found, expected, way_out, count, last."""
        names = ("row", "column", "cause", "found", "expected", "way_out", "count", "last")
        return {name: getattr(self, name) for name in names}


class TableError(ValueError):
    """A table that cannot be read as it was meant: where, and why."""

    def __init__(self, says: str, about: str = "", *issues: Issue) -> None:
        """`about`: the option of the reader that would help, if it is one. `issues`: the mistakes
        that `says` puts into words, where there are more than the one or its place is known."""
        super().__init__(says)
        self.issues = [*issues] or [Issue(cause=says, about=about)]

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Of each mistake the option that would help and its sentence."""
        return [(one.about, one.says) for one in self.issues]

    @classmethod
    def of(cls, issues: Iterable[Issue], below: str = "") -> Self:
        """Several mistakes, each a line, and a line below them that is none."""
        told = list(dict.fromkeys(issues))
        more = len(told) - MOST_NAMED
        lines = [one.says for one in told[:MOST_NAMED]]
        lines += [f"and {more:,} more"] if more > 0 else []
        return cls("\n".join([*lines, below] if below else lines), "", *told[:MOST_NAMED])


class NoRows(TableError):
    """A table of names only: a block of a source that has no records."""


class WrongCell(TableError):
    """What stands in a column, and not what is asked of all of them."""


def together(issues: Iterable[Issue], checks: Iterable[Callable[[], Any]]) -> TableError:
    """What stopped a reader, and below it, a line each, what is wrong in other columns: a person
    mends a file once."""
    found = [*issues]
    with contextlib.suppress(TableError):  # where there are no columns to check, as was said
        for check in checks:
            try:
                check()
            except TableError as error:
                found += error.issues
    return TableError.of(found)


@dataclass(frozen=True)
class Table:
    """Columns of one length, by the names that they have in their source."""

    columns: Mapping[str, Any]
    """Arrays or `cells.Texts`."""
    places: Ints
    """Where each row stands: the line of a CSV file in which it ends, else its number."""
    unit: str = "row"
    """Of what the places are numbers: line or row."""
    grammar: Grammar = AS_WRITTEN
    """What its texts mean."""
    ways: Mapping[str, str] = field(default_factory=lambda: READER)
    """How its reader is told each of the rules of `grammar`."""
    encoding: str | None = None
    """What its file was said to be written in."""
    lacking: str = ""
    """What a refusal of a value that is missing adds: a rule that would help."""
    lacks: str = ""
    """The name of that rule."""
    broken: tuple[Issue, ...] = ()
    """Mistakes of the file itself: rows that are none, and are not here."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What its source calls a column that has the name of a reader here: refusals speak of the
    user's file."""

    @property
    def rows(self) -> int:
        return self.places.size

    def ordered(self, order: Ints) -> Table:
        """The rows in this order; where they stand is not forgotten."""
        if order.size == self.rows and (order == np.arange(order.size)).all():
            return self
        return replace(
            self,
            columns={name: each[order] for name, each in self.columns.items()},
            places=self.places[order],
        )

    def refuse(
        self,
        bad: NDArray[np.bool_],
        column: str,
        says: str,
        values: Any = None,
        about: str = "",
        expected: str | None = None,
    ) -> None:
        """TableError of the first row where `bad` holds, with its value, and of how many there are
        like it. `about`: the option that would help."""
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        first, last = rows[np.argmin(self.places[rows])], rows[np.argmax(self.places[rows])]
        found = None if values is None else _shown(values[first])
        more = (
            f" (and {rows.size - 1:,} more like this, up to {self.unit} {self.places[last]})"
            if rows.size > 1
            else ""
        )
        own = self.called.get(column, column)[:LONGEST_NAMED]
        name = column if own == column else f"{own} ({column})"
        where = f"{self.unit} {self.places[first]}, column {name}"
        detail = f"{where}: {says}{'' if found is None else f'; found {found}'}{more}"
        issue = Issue(
            cause=says,
            row=int(self.places[first]),
            column=own,
            found=None if values is None else str(values[first])[:40],
            expected=expected,
            about=about,
            count=rows.size,
            last=int(self.places[last]) if rows.size > 1 else None,
            detail=detail,
        )
        raise WrongCell(detail, "", issue)

    def refuse_each(
        self, refusals: NDArray[Any], column: str, values: NDArray[Any], of_texts: str = ""
    ) -> None:
        """WrongCell of all rows that have a Refusal here, each cause once; None where there is
        none. `of_texts` is said where a number is needed."""
        wrong, issues = [one for one in set(refusals.tolist()) if one is not None], list[Issue]()
        for refusal in sorted(wrong):
            says, about = refusal.cause, refusal.about
            here = np.fromiter((one == refusal for one in refusals.tolist()), bool, values.size)
            is_first = here.sum() == 1 and here.argmax() == self.places.argmin()
            if refusal == NO_NUMBER and is_first and is_unit(str(values[here][0])):
                about = "units_row"
            says += of_texts if refusal == NO_NUMBER else ""
            way = self.ways.get(about)
            if way and not (of_texts and about == refusal.about):
                says += f" {way}" if says.endswith("?") else f" ({way})"
            try:
                self.refuse(here, column, says, values, about, refusal.expected or None)
            except WrongCell as error:
                issues += error.issues
        if issues:
            raise WrongCell.of(sorted(issues, key=lambda one: one.row or 0))

    def values(self, column: str) -> NDArray[Any]:
        """A column in which nothing is missing."""
        found: NDArray[Any] = self.columns[column]
        self.refuse(missing(found), column, f"a value is missing{self.lacking}", about=self.lacks)
        return found

    def numbers(
        self, column: str, *, may_lack: bool = False, truths: bool = False, of_texts: str = ""
    ) -> Floats:
        """Finite numbers; NaN where one is missing and may be. With `truths` the words of `TRUTHS`
        are 1 and 0. `of_texts` is said where there are texts."""
        values = self.columns[column]
        lacks = missing(values)
        if not may_lack:
            self.refuse(lacks, column, f"a value is missing{self.lacking}", about=self.lacks)
        if values.dtype.kind in ("biuf" if truths else "iuf"):
            figures: Floats = values.astype(np.float64)
            self.refuse(~lacks & ~np.isfinite(figures), column, NO_NUMBER.cause, values)
            return figures
        if isinstance(values, Texts) and (all_plain := values.figures(self.grammar)) is not None:
            return all_plain
        found = np.full(values.size, math.nan)
        here = np.flatnonzero(~lacks)
        once, places = distinct(values[here])
        meant = [self._number(value, truths=truths) for value in once.tolist()]
        found[here] = np.array(
            [math.nan if isinstance(one, Refusal) else one for one in meant], dtype=np.float64
        )[places]
        if any(isinstance(one, Refusal) for one in meant):
            refusals = np.full(values.size, None, dtype=object)
            refusals[here] = _objects(one if isinstance(one, Refusal) else None for one in meant)[
                places
            ]
            self.refuse_each(refusals, column, values, of_texts)
        return found

    def _number(self, value: Any, *, truths: bool) -> float | Refusal:
        if not isinstance(value, str):
            try:
                figure = math.nan if isinstance(value, bool) and not truths else float(value)
            except (TypeError, ValueError, OverflowError):
                return NO_NUMBER
            return figure if math.isfinite(figure) else NO_NUMBER
        word = value.strip().lower()
        return float(TRUTHS[word]) if truths and word in TRUTHS else self.grammar.number(value)

    def integers(self, column: str) -> Ints:
        found = self.numbers(column)
        self.refuse(
            (found != np.floor(found)) | (np.abs(found) > 2**53),
            column,
            "an integer is needed",
            found,
        )
        return found.astype(np.int64)

    def truths(self, column: str) -> NDArray[np.bool_]:
        """True or false, in one of `TRUTHS`."""
        words = [str(value).strip().lower() for value in self.values(column).tolist()]
        found = np.array([TRUTHS.get(word, -1) for word in words], dtype=np.int64)
        says = "true or false is needed (or yes and no, ja and nein, 1 and 0)"
        self.refuse(found < 0, column, says, self.columns[column])
        return np.asarray(found == 1, dtype=bool)

    def names(self, column: str) -> NDArray[Any]:
        """Texts, of which spaces around and the `.0` of whole numbers are no part
        (`names.name_of`): two other writings are two names."""
        found, places = self.once(column)
        return found[places]

    def owners(self, column: str, total: str = "") -> Ints:
        """Whose each row is, as numbers in the order of their names. `total`: what is said of a
        name like a total, which is nobody's; without it such a name is one like others."""
        found, places = self.once(column)
        if total:
            self.refuse(totals(found)[places], column, total, found[places])
        _, numbers = np.unique(found, return_inverse=True)
        return np.asarray(numbers.ravel()[places], dtype=np.int64)

    def once(self, column: str) -> tuple[NDArray[Any], Numbers]:
        """Names, and which of them each row has."""
        values = self.values(column)
        once, places = distinct(values)
        says = (
            "as a number with a point this stands for several: have the column as text or as "
            "integers"
        )
        self.refuse(blurred(once)[places], column, says, values)
        found = names_of(once)
        empty = np.array([not one for one in found], dtype=bool)
        self.refuse(empty[places], column, "a value is missing")
        return found, places

    def times(self, column: str) -> tuple[Floats, bool]:
        """When each row was, for its order and for intervals, and whether these are dates:
        float64[rows], plain numbers as they are, dates in days. Dates have a time zone all of them,
        or none."""
        values = self.values(column)
        if values.dtype.kind in "iuf":
            return self.numbers(column), False
        first = values[0] if values.size else 0
        if (
            values.dtype.kind != "M"
            and not isinstance(first, date)
            and isinstance(self._number(first, truths=False), float)
        ):
            return self.numbers(column), False
        clock, offset, of = found = self.moments(column)
        local = found.local
        if not local.all():
            says = "a time without a time zone, where others have one"
            self.refuse(local[of], column, says, values, "time_zone")
        return (clock - np.where(local, 0, offset))[of] / MICROSECONDS_A_DAY, True

    def moments(self, column: str) -> Moments:
        """Different dates and times, with a time zone or without as they are written, and which of
        them each row has."""
        values = self.values(column)
        if isinstance(values, Texts) and (apart := values.moments(self.grammar)):
            return apart
        once, places = distinct(values)
        found = moments_of(once, places, self.grammar)
        if isinstance(found, Moments):
            return found
        self.refuse_each(_objects(found)[places], column, values)
        raise AssertionError("a refusal refuses")

    def plain(self, column: str) -> NDArray[Any]:
        """Numbers where all are numbers, else the values as they are."""
        try:
            return self.numbers(column)
        except TableError:
            return self.values(column)

    def named(
        self,
        columns: Mapping[str, str],
        needed: Iterable[str],
        optional: Iterable[str] = (),
        words: Words = EITHER,
    ) -> Table:
        """The same table by the names that a reader knows, of those columns alone.

        columns: the name in this table of each of a reader's columns; one that is not mentioned has
        its own name. words: how options are named to who reads.
        """
        needed = list(needed)
        known = [*needed, *optional]
        for role, name in columns.items():
            if role not in known:
                raise TableError(
                    f"columns: nothing is called {role!r} here; there are {', '.join(known)}",
                    "columns",
                )
            if name not in self.columns:
                says = f"no column {name}; columns are: {self.listed()}; say {words.columns(role)}"
                raise TableError(says, "", Issue(says, column=name, about="columns"))
        lacking = [role for role in needed if columns.get(role, role) not in self.columns]
        if lacking:
            role, more = lacking[0], "" if len(lacking) == 1 else f" (nor {', '.join(lacking[1:])})"
            says = (
                f"no column {role}{more}; columns are: {self.listed()}; say "
                f"{words.columns(*lacking)}"
            )
            raise TableError(says, "", Issue(says, column=role, about="columns"))
        for role in OWNERS:
            for other in columns if role in columns else ():
                if other != role and columns[other] == columns[role]:
                    raise TableError(
                        f"the column {columns[role]} is named for {role} and for {other}: whose a "
                        "row is stands in a column of its own"
                    )
        names = {role: columns.get(role, role) for role in known}
        names = {role: name for role, name in names.items() if name in self.columns}
        called = {role: self.called.get(name, name) for role, name in names.items()}
        return replace(
            self, columns={role: self.columns[name] for role, name in names.items()}, called=called
        )

    def listed(self) -> str:
        """The names of the first columns, and how many more there are."""
        names = list(self.columns)
        more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
        return ", ".join(name[:40] for name in names[:MOST_NAMED]) + more


def missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a column has no value. What a CSV file writes as NaN is a wrong number, which a frame
    cannot tell."""
    if isinstance(values, Texts):
        return values.lacks()
    match values.dtype.kind:
        case "f" | "M":
            lacks = np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
        case "O":
            told = [value is not None and value == value for value in values.tolist()]  # noqa: PLR0124 - NaN, NaT
            lacks = ~np.array(told, dtype=bool)
        case _:
            lacks = np.zeros(values.size, dtype=bool)
    return np.asarray(lacks, dtype=bool)


def without_missing(
    table: Table,
    names: Mapping[str, Container[str]] | None = None,
    words: frozenset[str] = MISSING,
) -> Table:
    """The table in which texts that say that a value is missing are none, unless they are names of
    their column. words: such texts; a number among them is one in a column of numbers too."""
    figures = [float(one) for one in words if one not in MISSING and _is_figure(one)]
    columns = dict[str, Any]()
    for name, values in table.columns.items():
        named = (names or {}).get(name, ())
        if isinstance(values, Texts):
            columns[name] = _without_missing(values, named, words)
            continue
        if figures and values.dtype.kind in "iuf":
            says_none = np.isin(values, figures)
            values = values.astype(object)  # noqa: PLW2901
            values[says_none] = None
        if values.dtype.kind == "O":
            lacks = [
                isinstance(one, str)
                and (text := one.strip()) in words
                and not (text and text in named)
                for one in values.tolist()
            ]
            if any(lacks):
                values = values.copy()  # noqa: PLW2901
                values[np.array(lacks)] = None
        columns[name] = values
    return replace(table, columns=columns)


def _is_figure(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and not set(text) & set("_ ")
    except ValueError:
        return False


def _without_missing(texts: Texts, named: Container[str], words: frozenset[str]) -> Texts:
    import pyarrow as pa  # noqa: PLC0415 - it made the column
    import pyarrow.compute as pc  # noqa: PLC0415

    absent = [one for one in sorted(words) if not (one and one in named)]
    if texts.raw is None:
        once, of = texts.coded
        lacking = set(absent)
        plain = np.array([None if one in lacking else one for one in once.tolist()], dtype=object)
        return Texts(None, (plain, of))
    lacks = pc.is_in(texts.raw, pa.array(absent, texts.raw.type))
    if pc.any(lacks).as_py():
        return Texts(pc.if_else(lacks, pa.scalar(None, texts.raw.type), texts.raw))
    return texts


def _texts(column: Any, *, rare: bool = True) -> Texts:
    """Texts of Arrow as one array, without spaces around them; `rare`: others than mere ones."""
    import pyarrow as pa  # noqa: PLC0415 - it made the column
    import pyarrow.compute as pc  # noqa: PLC0415

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # of more than 2 GiB
        whole = pa.concat_arrays(whole.cast(pa.large_string()).chunks)
    # Most files have no such spaces, and these kernels copy nothing.
    rare = rare or any(pc.any(at(whole, " ")).as_py() for at in (pc.starts_with, pc.ends_with))
    return Texts(pc.utf8_trim_whitespace(whole) if rare else whole)


def is_utf_16(path: Path) -> bool:
    """Whether a file begins with the mark of UTF-16."""
    with path.open("rb") as file:
        return file.read(2) in _UTF_16


def first_line(path: Path) -> tuple[str, list[str], int]:
    """The separator of a CSV file, the names of its columns, and how many lines stand before
    them."""
    encoding = "utf-16" if is_utf_16(path) else UTF_8
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        found = _records_of(file.read(FIRST_BYTES))
    return found.separator, found.header, found.before


def header_of(
    content: bytes, name: str = "the file", *encodings: str | None, words: Words = EITHER
) -> list[str]:
    """The names of the columns of CSV, as `read_csv` reads them: a name in quotes may have lines.
    TableError where nothing can be read of it."""
    return _records(content, name, encodings, words).header


def _without_ends(header: list[str]) -> list[str]:
    """Names without the empty ones that separators make at the end of a line."""
    named = next((place for place in range(len(header), 1, -1) if header[place - 1]), 1)
    return header[:named]


class _Records(NamedTuple):
    """The records of CSV below its names."""

    rows: Any
    """A csv.reader."""
    header: list[str]
    separator: str
    before: int
    """Lines before the names."""
    anything: bool
    """Whether there is anything at all."""


def _records(content: bytes, name: str, encodings: Sequence[str | None], words: Words) -> _Records:
    text = _decoded(content, name, [one or UTF_8 for one in encodings] or [UTF_8], words)
    return _records_of(text.removeprefix("\ufeff"))  # left by codecs that are said without `-sig`


def _records_of(text: str) -> _Records:
    line, end, rest = text.partition("\n")
    said = _SEP.fullmatch(line + end)
    if said:
        text = rest
    separator = said[1] if said else _separator(_first_record(text))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        header = [column.strip() for column in next(reader, [])]
    except csv.Error as error:
        raise TableError(f"the first line is no CSV: {error}") from None
    return _Records(reader, _without_ends(header), separator, 1 if said else 0, bool(text.strip()))


def _first_record(text: str) -> str:
    """The first line, and those after it while a name in quotes goes on."""
    end, quotes = -1, 1
    while quotes % 2:
        begin = end + 1
        end = text.find("\n", begin)
        if end < 0:
            return text
        quotes = text.count('"', begin, end) + (begin > 0)
    return text[:end]


def _separator(line: str) -> str:
    return next((one for one in SEPARATORS if one in line), ",")


def read_csv(
    content: bytes,
    name: str = "the file",
    *encodings: str | None,
    words: Words = EITHER,
    grammar: Grammar = AS_WRITTEN,
    names: Mapping[str, Container[str]] | None = None,
    units_row: bool = False,
    broken_too: bool = False,
) -> Table:
    """CSV whose first line names the columns, in the first of these encodings that it can be; None,
    and where there is none: UTF-8, or UTF-16 where it begins so. words: how options are named to
    who reads. names: texts of a column that are names, though files write them for what is
    missing. units_row: whether the row below the names says units, and is none of the table.
    broken_too: whether rows of another width are `Table.broken`, for who words all mistakes, and
    not refused."""
    if made := next((made for mark, made in OTHER_FILES.items() if content.startswith(mark)), None):
        raise TableError(f"{name} is {made}")
    quick = _regular(content, encodings, names, units_row=units_row)
    if quick is not None:
        return replace(quick, grammar=replace(grammar, separator=quick.grammar.separator))
    reader, header, separator, before, anything = _records(content, name, encodings, words)
    if not any(header):
        raise TableError(
            f"the first line of {name} names no columns" if anything else f"{name} is empty"
        )
    if twice := sorted(column for column, count in Counter(header).items() if count > 1):
        raise TableError(f"column {_shown(twice[0])} stands twice in the first line of {name}")
    width = len(header)
    rows, lines, others = [], [], []
    try:
        for row in reader:
            if units_row:
                units_row = False
                continue
            if len(row) == width and row[0] and not row[0].isspace():
                pass
            elif len(row) != width:
                if not any(cell.strip() for cell in row):  # as Excel leaves them below a table
                    continue
                if len(row) < width or any(cell.strip() for cell in row[width:]):
                    others.append((reader.line_num + before, len(row)))
                    continue
                row = row[:width]  # noqa: PLW2901 - separators at the end of its line
            elif not any(cell.strip() for cell in row):
                continue
            rows.append(row)
            lines.append(reader.line_num + before)
    except csv.Error as error:
        raise TableError(f"line {reader.line_num + before} is no CSV: {error}") from None
    broken = [_other_width(others, width, separator)] if others else []
    if broken and not (broken_too and rows):
        raise TableError.of(broken)
    if not rows:
        raise NoRows(f"{name} has no row below its line of names")
    columns = dict[str, Any]()
    for column, values in zip(header, zip(*rows, strict=True), strict=True):
        named = (names or {}).get(column, ())
        lacks = {
            one
            for one in set(values)
            if (text := one.strip()) in MISSING and not (text and text in named)
        }
        texts = [None if one in lacks else one for one in values] if lacks else values
        columns[column] = np.array(texts, dtype=object)
    grammar = replace(grammar, separator=separator)
    return Table(columns, np.array(lines, dtype=np.int64), "line", grammar, broken=tuple(broken))


def _regular(
    content: bytes,
    encodings: Sequence[str | None],
    names: Mapping[str, Container[str]] | None,
    *,
    units_row: bool,
) -> Table | None:
    """The same table by pyarrow, of a file that is as regular as programs write them: a row is a
    line of one width, and a quotation mark stands around a cell or twice in one. None of any other,
    and where there is no pyarrow: these are read a cell at a time, to say what is wrong."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional
        import pyarrow.compute as pc  # noqa: PLC0415
        from pyarrow import csv as quick  # noqa: PLC0415
    except ImportError:
        return None
    if len(content) < LEAST_QUICK or content.startswith(_UTF_16) or b"\0" in content:
        return None
    encoding = next((one for one in encodings if one), UTF_8)
    if encoding not in (UTF_8, "utf-8", "utf8"):
        try:
            content = content.decode(encoding).encode()
        except (LookupError, UnicodeError):
            return None
    begin = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    end = content.find(b"\n", begin)
    try:
        line = content[begin : end + 1].decode()
        before = 1 if (said := _SEP.fullmatch(line)) else 0
        if said:
            begin, end = end + 1, content.find(b"\n", end + 1)
            line = content[begin : end + 1].decode()
        separator = said[1] if said else _separator(line)
        (row,) = csv.reader([line], delimiter=separator)
    except (UnicodeError, csv.Error, ValueError):
        return None
    whole = [column.strip() for column in row]
    if len(content) < LEAST_QUICK * len(whole):
        return None
    header, mark = _without_ends(whole), separator.encode()
    if line.count('"') % 2 or not any(header) or len(set(header)) < len(header):
        return None
    last = len(content.rstrip(mark + b" \t\r\n"))
    last = content.find(b"\n", last) + 1 or len(content)  # nothing but ends of rows below it
    odd = rb'[^\r\n"%s]"[^\r\n"%s]' % (re.escape(mark), re.escape(mark))
    if b'"' in content[end:last] and re.search(odd, content[end:last]):
        return None
    body = pa.py_buffer(content).slice(end + 1, max(0, last - end - 1))
    lines = content.count(b"\n", end + 1, last) + (content[last - 1 : last] != b"\n")
    titles = [str(place) for place in range(len(whole))]
    try:
        found = quick.read_csv(
            pa.BufferReader(body),
            quick.ReadOptions(column_names=titles, use_threads=False, block_size=BLOCK_BYTES),
            quick.ParseOptions(delimiter=separator, newlines_in_values=False),
            quick.ConvertOptions(column_types=dict.fromkeys(titles, pa.string())),
        )
    except (pa.ArrowException, OSError):
        return None
    if not found.num_rows or found.num_rows != lines:
        return None
    texts = list[Texts]()
    rare = not content.isascii() or any(bytes([one]) in content for one in _RARE)
    left = found.columns[::-1]
    del found
    while left:  # the next column takes the room of the last one
        texts.append(_texts(left.pop(), rare=rare))
    empty = [pc.equal(one.raw, "") for one in texts]
    beside = empty[len(header) :]
    if not all(pc.all(one).as_py() for one in beside) or (
        pc.any(empty[0]).as_py() and pc.any(functools.reduce(pc.and_, empty)).as_py()
    ):
        return None
    places = np.arange(lines, dtype=np.int64) + 2 + before
    table = Table(dict(zip(header, texts, strict=False)), places, "line", Grammar(separator))
    if units_row:
        table = table.ordered(np.arange(1, lines))
    return without_missing(table, names) if table.rows else None


def _other_width(lines: Sequence[tuple[int, int]], width: int, separator: str) -> Issue:
    """Of lines that have more or fewer values than there are columns: (line, values)."""
    hint = "; numbers with decimal commas need ';' between columns" if separator == "," else ""
    line, found = lines[0]
    cause = f"the first line names {width} columns{hint}"
    more = f" (and {len(lines) - 1:,} more like this, up to line {lines[-1][0]})"
    return Issue(
        cause=cause,
        row=line,
        found=f"{found} values",
        expected=f"{width} values",
        count=len(lines),
        last=lines[-1][0] if len(lines) > 1 else None,
        detail=f"line {line} has {found} values, {cause}{more if len(lines) > 1 else ''}",
    )


def _decoded(content: bytes, name: str, encodings: Sequence[str], words: Words) -> str:
    if list(encodings) == [UTF_8] and content.startswith(_UTF_16):
        encodings = ["utf-16"]  # which says so itself
    for place, encoding in enumerate(encodings, start=1):
        try:
            return content.decode(encoding)
        except LookupError:
            raise TableError(
                f"there is no encoding {encoding[:40]!r} of texts; Excel's is cp1252", "encoding"
            ) from None
        except UnicodeError as error:
            if place < len(encodings):
                continue
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            what = "UTF-8" if encoding == UTF_8 else encoding
            such, why = "cp1252", " for one saved by Excel"
            if encoding != UTF_8:
                such, why = "utf-16" if encoding.lower() == "cp1252" else "cp1252", ""
            if content.startswith(_UTF_16):
                such, why = "utf-16", ", in which it begins"
            says = (
                f"line {content[:start].count(10) + 1} is not {what}: save {name} as CSV in "
                f"UTF-8, or name its encoding, such as {words.option('encoding', such)}{why}"
            )
            raise TableError(says, "encoding") from None
    raise AssertionError("an encoding is given")


def from_columns(source: Any) -> Table:
    """From a pandas, polars or Arrow frame, or a mapping of columns."""
    if hasattr(source, "to_arrow"):  # polars
        source = source.to_arrow()
    if hasattr(source, "column_names"):  # pyarrow
        names = list(source.column_names)
        columns = {name: _of_arrow(name, source.column(name)) for name in names}
    else:
        names = list(source.columns if hasattr(source, "columns") else source)
        columns = {str(name): _array(source[name]) for name in names}
    if len(set(map(str, names))) != len(names):
        raise TableError("a column stands twice")
    sizes = {name: values.shape for name, values in columns.items()}
    if len(set(sizes.values())) > 1 or any(len(shape) != 1 for shape in sizes.values()):
        raise TableError(
            "columns of one length are needed: "
            + ", ".join(f"{str(n)[:40]} has {s}" for n, s in [*sizes.items()][:MOST_NAMED])
            + (f" and {len(sizes) - MOST_NAMED:,} more" if len(sizes) > MOST_NAMED else "")
        )
    if not columns:
        raise TableError("the table is empty")
    if not next(iter(columns.values())).size:
        raise NoRows("the table is empty")
    return Table(columns, np.arange(next(iter(columns.values())).size))


def _of_arrow(name: str, column: Any) -> NDArray[Any] | Texts:
    """A column of Arrow. TableError of a type whose values are no cells."""
    import pyarrow as pa  # noqa: PLC0415 - optional

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind) or any(is_bytes(kind) for is_bytes in _are_bytes(pa.types)):
        raise TableError(
            f"column {name[:40]} holds {str(kind)[:40]}: one number, text or time a row is needed, "
            "so let each part have a column of its own"
        )
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _texts(column.cast(kind) if kind is not column.type else column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
        stamps = column.cast(pa.int64()).to_numpy()
        lacks = np.isnan(stamps) if stamps.dtype.kind == "f" else np.zeros(stamps.size, dtype=bool)
        once, places = np.unique(np.where(lacks, 0, stamps).astype(np.int64), return_inverse=True)
        try:
            moments = _objects(EPOCH + timedelta(microseconds=one) for one in once.tolist())
        except OverflowError:
            raise TableError(f"column {name[:40]} holds times after the year 9999") from None
        found = moments[places.ravel()]
        found[lacks] = None
        return found
    return np.asarray(column.to_numpy())


def _are_bytes(types: Any) -> tuple[Callable[[Any], bool], ...]:
    return types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary


def _array(column: Any) -> NDArray[Any]:
    kind = getattr(column, "dtype", None)
    if getattr(kind, "tz", None) is not None:  # pandas: datetimes that keep their zone
        return np.array([moment.to_pydatetime() for moment in column], dtype=object)
    if hasattr(column, "array") and not isinstance(
        kind, np.dtype
    ):  # pandas' own types: Int64, string, category
        return np.asarray(column.to_numpy(dtype=object, na_value=None))
    values = np.asarray(column)
    if values.dtype.kind not in "US":
        return values
    # Of a list made anew: an array of fixed-width text has dropped zero characters, and two names
    # might be one.
    return (
        np.array(column, dtype=object)
        if isinstance(column, list | tuple)
        else values.astype(object)
    )


def _objects(values: Iterable[Any]) -> NDArray[Any]:
    """An array of these objects, of which NumPy looks into none."""
    return np.fromiter(values, dtype=object)


def is_unit(text: str) -> bool:
    """Whether this may be the unit of a column, below its name: kWh, [h], °C."""
    return 0 < len(text.strip()) <= LONGEST_UNIT and not any(one.isdigit() for one in text)


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(text[:40]) if isinstance(value, str) else text[:40]

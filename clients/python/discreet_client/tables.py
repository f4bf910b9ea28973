"""A person's own table on its way in: CSV as spreadsheets write it, Parquet, frames, or columns.

What is wrong is told in one sentence, a `TableError`, that names the first place, the column, and
how many more there are like it. Places are lines of a CSV file, counted from 1 with the line of
names, and else rows counted from 0.

Of CSV the separator is the one that the line of names has: a comma, else `;`, a tab or `|`. Where
it is no comma, numbers may have decimal commas.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.dates import written_date
from discreet_client.meters import microseconds
from discreet_client.names import blurred, names_of
from discreet_client.option_words import EITHER, Words

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MISSING = {"", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"}
"""What a CSV file says for a value that is not there; NaN is a wrong number."""
OWNERS = ("person", "participant", "patient")
"""Columns of readers that say whose a row is."""
SEPARATORS = ",;\t|"
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
MOST_NAMED = 20
MICROSECONDS_A_DAY = 86_400_000_000
DATES = ("day_first", "month_first")
"""How 01/02/2026 is meant. With points the day comes first, everywhere."""

TRUTHS = {
    **dict.fromkeys(("true", "yes", "ja", "wahr", "oui", "1", "1.0"), 1),
    **dict.fromkeys(("false", "no", "nein", "falsch", "non", "0", "0.0"), 0),
}
"""Words for true and false, in small letters."""


_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?")


class TableError(ValueError):
    """A table that cannot be read as it was meant: where, and why."""

    def __init__(self, says: str, about: str = "") -> None:
        """`about`: the option of the reader that would help, if it is one."""
        super().__init__(says)
        self.faults = [(about, says)]

    @classmethod
    def of(cls, faults: Iterable[tuple[str, str]], below: str = "") -> TableError:
        """Several faults, (about, says), each a line, and a line below them that is none."""
        told = list(dict.fromkeys(faults))
        lines = [says for _, says in told]
        error = TableError("\n".join([*lines, below] if below else lines))
        error.faults = told
        return error


class WrongCell(TableError):
    """What stands in a column, and not what is asked of all of them."""


def together(first: WrongCell, checks: Iterable[Callable[[], Any]]) -> TableError:
    """What stopped a reader, and below it, a line each, what is wrong in other columns: a person
    mends a file once."""
    faults = [*first.faults]
    for check in checks:
        try:
            check()
        except WrongCell as error:
            faults += error.faults
        except TableError:  # of a rule, which is looked at once the cells are right
            continue
    return TableError.of(faults)


@dataclass(frozen=True)
class Table:
    """Columns of one length, by the names that they have in their source."""

    columns: Mapping[str, NDArray[Any]]
    places: Ints
    """Where each row stands: the line of a CSV file in which it ends, else its number."""
    unit: str = "row"
    """Of what the places are numbers: line or row."""
    separator: str = ","
    dates: str | None = None
    """What dates with slashes mean: one of DATES, or None where nobody has said it."""
    encoding: str | None = None
    """What its file was said to be written in."""
    lacking: str = ""
    """What a refusal of a value that is missing adds: a rule that would help."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What its source calls a column that has the name of a reader here: refusals speak of the
    user's file."""

    @property
    def rows(self) -> int:
        return self.places.size

    def ordered(self, order: Ints) -> Table:
        """The rows in this order; where they stand is not forgotten."""
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
    ) -> None:
        """TableError of the first row where `bad` holds, with its value, and of how many there are
        like it. `about`: the option that would help."""
        rows = np.flatnonzero(bad)
        if not rows.size:
            return
        first, last = rows[np.argmin(self.places[rows])], rows[np.argmax(self.places[rows])]
        found = "" if values is None else f", not {_shown(values[first])}"
        more = (
            f" (and {rows.size - 1:,} more like this, up to {self.unit} {self.places[last]})"
            if rows.size > 1
            else ""
        )
        own = self.called.get(column, column)
        name = column if own == column else f"{own} ({column})"
        raise WrongCell(
            f"{self.unit} {self.places[first]}, column {name}: {says}{found}{more}", about
        )

    def values(self, column: str) -> NDArray[Any]:
        """A column in which nothing is missing."""
        found = self.columns[column]
        self.refuse(missing(found), column, f"a value is missing{self.lacking}")
        return found

    def numbers(
        self, column: str, *, may_lack: bool = False, truths: bool = False, of_texts: str = ""
    ) -> Floats:
        """Finite numbers; NaN where one is missing and may be. With `truths` the words of `TRUTHS`
        are 1 and 0. `of_texts` is said where there are texts."""
        values = self.columns[column]
        lacks = missing(values)
        if not may_lack:
            self.refuse(lacks, column, f"a value is missing{self.lacking}")
        if values.dtype.kind in "biuf":
            found: Floats = values.astype(np.float64)
        else:
            found = np.full(values.size, math.nan)
            here = np.flatnonzero(~lacks)
            try:
                found[here] = values[here].astype(np.float64)
            except (TypeError, ValueError, OverflowError):
                found[here] = [
                    TRUTHS[word]
                    if truths and (word := str(value).strip().lower()) in TRUTHS
                    else figure
                    for value in values[here].tolist()
                    for figure in (_number(value, self.separator),)
                ]
        wrong = ~lacks & ~np.isfinite(found)
        first = str(values[np.flatnonzero(wrong)[0]]).strip() if wrong.any() else ""
        points = _THOUSANDS.fullmatch(first)
        says = "a number is needed" + (of_texts if first.lower() != "nan" else "")
        self.refuse(
            wrong,
            column,
            "a number without points for thousands is needed" if points else says,
            values,
        )
        return found

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
        values = self.values(column)
        says = (
            "as a number with a point this stands for several: have the column as text or as "
            "integers"
        )
        self.refuse(blurred(values), column, says, values)
        found = names_of(values)
        self.refuse(np.array([not one for one in found], dtype=bool), column, "a value is missing")
        return found

    def times(self, column: str) -> tuple[Floats, bool]:
        """When each row was, for its order and for intervals, and whether these are dates:
        float64[rows], plain numbers as they are, dates in days. Dates have a time zone all of them,
        or none."""
        values = self.values(column)
        if values.dtype.kind == "M":
            return values.astype("datetime64[us]").astype(np.int64) / MICROSECONDS_A_DAY, True
        if values.dtype.kind in "iuf":
            return self.numbers(column), False
        first = values[0] if values.size else 0
        if not isinstance(first, date) and math.isfinite(_number(first, self.separator)):
            return self.numbers(column), False
        moments = self.moments(column)
        zoned = np.array([moment.tzinfo is not None for moment in moments])
        if zoned.any():
            self.refuse(~zoned, column, "a time without a time zone, where others have one", values)
        stamps = [
            microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
            for moment in moments
        ]
        return np.array(stamps, dtype=np.int64) / MICROSECONDS_A_DAY, True

    def moments(self, column: str) -> list[datetime]:
        """Dates and times, as they are written: with a time zone or without."""
        values = self.values(column)
        if values.dtype.kind == "M":
            values = values.astype("datetime64[us]").astype(object)
        found = [moment_of(value, self.dates) for value in values.tolist()]
        wrong = np.array([moment is None for moment in found], dtype=bool)
        if wrong.any() and self.dates is None:
            first = values[wrong][0]
            says = (
                "is the day first here, or the month? reader.dates has to say day_first or "
                "month_first of dates with slashes"
            )
            self.refuse(wrong & np.array(["/" in str(first)]), column, says, values)
        says = "a time such as 2026-11-21, 2026-11-21T15:00 or 21.11.2026 15:00 is needed"
        self.refuse(wrong, column, says, values)
        return [moment for moment in found if moment is not None]

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
                raise TableError(f"no column {name}; columns are: {self.listed()}", "columns")
        lacking = [role for role in needed if columns.get(role, role) not in self.columns]
        if lacking:
            role, more = lacking[0], "" if len(lacking) == 1 else f" (nor {', '.join(lacking[1:])})"
            raise TableError(
                f"no column {role}{more}; columns are: {self.listed()}; say "
                f"{words.columns(*lacking)}",
                "columns",
            )
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
    match values.dtype.kind:
        case "f" | "M":
            lacks = np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
        case "O":
            told = [value is not None and value == value for value in values.tolist()]  # noqa: PLR0124 - NaN, NaT
            lacks = ~np.array(told, dtype=bool)
        case _:
            lacks = np.zeros(values.size, dtype=bool)
    return np.asarray(lacks, dtype=bool)


def table_of(source: Any, *encodings: str | None) -> Table:
    """From a path (.csv, .parquet), a pandas frame, a pyarrow Table, or a mapping of columns.
    `encodings` as of `read_csv`."""
    if isinstance(source, Table):
        return source
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet  # noqa: PLC0415 - optional

            return _of_columns(pyarrow.parquet.read_table(path))
        return read_csv(path.read_bytes(), path.name, *encodings)
    return _of_columns(source)


def first_line(path: Path) -> tuple[str, list[str]]:
    """The separator of a CSV file, and the names of its columns."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        line = file.readline(FIRST_BYTES)
    return _separator(line), _named_in(line)


def header_of(
    content: bytes, name: str = "the file", *encodings: str | None, words: Words = EITHER
) -> list[str]:
    """The names of the columns of CSV, as `read_csv` reads them: a name in quotes may have lines.
    TableError where nothing can be read of it."""
    return _records(content, name, encodings, words)[1]


def _named_in(line: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([line], delimiter=_separator(line)), [])]
    except csv.Error as error:
        raise TableError(f"the first line is no CSV: {error}") from None


def _records(
    content: bytes, name: str, encodings: Sequence[str | None], words: Words
) -> tuple[Any, list[str], str, bool]:
    """The records of CSV below its names (a csv.reader), these, the separator, and whether there is
    anything at all."""
    text = _decoded(content, name, [one or UTF_8 for one in encodings] or [UTF_8], words)
    separator = _separator(_first_record(text))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        header = [column.strip() for column in next(reader, [])]
    except csv.Error as error:
        raise TableError(f"the first line is no CSV: {error}") from None
    return reader, header, separator, bool(text.strip())


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
    content: bytes, name: str = "the file", *encodings: str | None, words: Words = EITHER
) -> Table:
    """CSV whose first line names the columns, in the first of these encodings that it can be; None,
    and where there is none: UTF-8. words: how options are named to who reads."""
    if made := next((made for mark, made in OTHER_FILES.items() if content.startswith(mark)), None):
        raise TableError(f"{name} is {made}")
    reader, header, separator, anything = _records(content, name, encodings, words)
    if not any(header):
        raise TableError(
            f"the first line of {name} names no columns" if anything else f"{name} is empty"
        )
    if twice := sorted(column for column, count in Counter(header).items() if count > 1):
        raise TableError(f"column {_shown(twice[0])} stands twice in the first line of {name}")
    rows, lines = [], []
    try:
        for row in reader:
            if not any(cell.strip() for cell in row):  # as Excel leaves them below a table
                continue
            if len(row) != len(header):
                hint = (
                    "; numbers with decimal commas need ';' between columns"
                    if separator == ","
                    else ""
                )
                raise TableError(
                    f"line {reader.line_num} has {len(row)} values, the first line names "
                    f"{len(header)} columns{hint}"
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise TableError(f"line {reader.line_num} is no CSV: {error}") from None
    if not rows:
        raise TableError(f"{name} has no row below its line of names")
    columns = {}
    for column, values in zip(header, zip(*rows, strict=True), strict=True):
        columns[column] = np.array(
            [None if one.strip() in MISSING else one for one in values], dtype=object
        )
    return Table(columns, np.array(lines, dtype=np.int64), "line", separator)


def _decoded(content: bytes, name: str, encodings: Sequence[str], words: Words) -> str:
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
            if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                such, why = "utf-16", ", in which it begins"
            says = (
                f"line {content[:start].count(10) + 1} is not {what}: save {name} as CSV in "
                f"UTF-8, or name its encoding, such as {words.option('encoding', such)}{why}"
            )
            raise TableError(says, "encoding") from None
    raise AssertionError("an encoding is given")


def _of_columns(source: Any) -> Table:
    if hasattr(source, "column_names"):  # pyarrow
        names = list(source.column_names)
        columns = {name: source.column(name).to_numpy() for name in names}
    else:
        names = list(source.columns if hasattr(source, "columns") else source)
        columns = {str(name): _array(source[name]) for name in names}
    if len(set(map(str, names))) != len(names):
        raise TableError("a column stands twice")
    sizes = {name: values.shape for name, values in columns.items()}
    if len(set(sizes.values())) > 1 or any(len(shape) != 1 for shape in sizes.values()):
        raise TableError(
            "columns of one length are needed: "
            + ", ".join(f"{n} has {s}" for n, s in sizes.items())
        )
    if not columns or not next(iter(columns.values())).size:
        raise TableError("the table is empty")
    return Table(columns, np.arange(next(iter(columns.values())).size))


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


def _number(value: Any, separator: str) -> float:
    """NaN for what is none. `1_000` is none, though Python reads it."""
    if isinstance(value, str):
        value = value.strip()
        if "_" in value:
            return math.nan
        if separator != "," and value.count(",") == 1 and "." not in value:
            value = value.replace(",", ".")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def moment_of(value: Any, dates: str | None) -> datetime | None:
    """A date or a time, as it is written; None for what is none."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    try:
        return datetime.fromisoformat(str(value).strip())
    except ValueError:
        return written_date(str(value).strip(), dates)


def _shown(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(text[:40]) if isinstance(value, str) else text[:40]

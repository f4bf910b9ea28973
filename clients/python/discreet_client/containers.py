"""What a table comes in: files of CSV, Parquet, Excel, OMX and JSON, on a disk or in memory,
frames, and mappings of columns.

    CSV                by `tables.read_csv`
    Parquet            by pyarrow; one number, text or time a cell
    Excel (.xlsx)      by python-calamine, one sheet, behind a look at the archive (`_scanned`)
    OMX                by h5py: matrices of trips, whose zones are those of a lookup
    JSON               rows as objects, or columns as lists; OpenADR reports are `openadr`'s

A file in memory is a function that opens it: readers of the service have no paths. What none of
these is refused by its name, with the tool that converts it.
"""

from __future__ import annotations

import datetime
import importlib
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from discreet_client.cells import AS_WRITTEN, Grammar
from discreet_client.errors import MissingExtra
from discreet_client.tables import (
    NoRows,
    Table,
    TableError,
    from_columns,
    read_csv,
    without_missing,
)

FORMS = ("csv", "parquet", "xlsx", "omx", "json")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".omx": "omx",
    ".json": "json",
}
CONVERTED = {
    ".xls": "an old workbook: save it as .xlsx in Excel or LibreOffice",
    ".xlsb": "a binary workbook: save it as .xlsx in Excel",
    ".ods": "a sheet of LibreOffice: save it as .xlsx or CSV there",
    ".numbers": "a sheet of Numbers: export it as CSV there",
    ".gz": "compressed: unpack it first (gunzip)",
    ".bz2": "compressed: unpack it first (bunzip2)",
    ".xz": "compressed: unpack it first (unxz)",
    ".zst": "compressed: unpack it first (unzstd)",
    ".zip": "an archive: unpack it first (unzip)",
    ".7z": "an archive: unpack it first (7z x)",
    ".feather": "of Arrow: pandas.read_feather(…).to_parquet(…) makes Parquet of it",
    ".arrow": "of Arrow: polars.read_ipc(…).write_parquet(…) makes Parquet of it",
    ".pkl": "a pickle, which is a program: let pandas write Parquet (to_parquet)",
    ".sav": "of SPSS: pandas.read_spss(…).to_parquet(…) makes Parquet of it",
    ".dta": "of Stata: pandas.read_stata(…).to_parquet(…) makes Parquet of it",
    ".sas7bdat": "of SAS: pandas.read_sas(…).to_parquet(…) makes Parquet of it",
    ".rds": "of R: arrow::write_parquet(readRDS(…), …) makes Parquet of it",
    ".mtx": "a matrix of VISUM: save it as OMX there",
    ".mat": "a matrix of Emme or MATLAB: save it as OMX there",
    ".mdb": "a database of Access: export its table as CSV there",
    ".sqlite": "a database: sqlite3 -header -csv FILE 'SELECT …' makes CSV of it",
    ".tntp": "of the TNTP collection: discreet_client.tntp.read_trips makes columns of it",
}
"""What files are that are not read, by the ends of their names, and what makes a readable one."""
MOST_CELLS = 20_000_000
"""Of the rectangle of a sheet, which its reader lays out whole: one cell at its last corner has
made a workbook of 1 KiB claim 17 thousand million."""
MOST_UNPACKED = 1 << 30
"""Bytes of a workbook's sheets and texts."""
PIECE_BYTES = 1 << 20
UNREADABLE = "{} cannot be read as an Excel workbook: is it whole?"
MOST_ZONES = 16_384
"""Of a matrix of trips, 2 GiB."""
_BEGINS = re.compile(rb"<(?:\w+:)?(?:c|row)(?=[\s/>])")
_CELL = re.compile(
    rb"""<(?:\w+:)?(?:(c|row)(?=[\s/>])((?:[^<>"']|"[^<"]*"|'[^<']*')*)>|v\s*>(#[^<]{1,20}))"""
)
"""A cell or a row with its attributes, or a value that is an error. What it tries ends at the next
`<`, so it takes linear time."""
_MANY = re.compile(rb"<(?:\w+:)?sst(?=\s)[^<]*?\d{8}")
"""A table of ten million texts or more: its reader takes room for as many as it says."""
_PLACED = re.compile(rb"\sr\s*=")
_AT = re.compile(rb"""\sr\s*=\s*["']([A-Za-z]*)(\d+)["']""")
_NO_SHEETS = (".bin", ".bmp", ".emf", ".gif", ".jpeg", ".jpg", ".png", ".tiff", ".wmf")
"""Ends of names of pictures and programs in a workbook, whose bytes are no XML."""
_SHEET_DATA = b"sheetData"


@dataclass(frozen=True)
class File:
    """A file that can be opened, and opened again."""

    name: str
    form: str
    """One of FORMS."""
    open: Callable[[], BinaryIO]
    is_local: bool = True
    """Whether it is read at home, where the description may name other files."""

    def read(self) -> bytes:
        with self.open() as opened:
            return opened.read()


def file_of(source: Any, form: str | None) -> File | None:
    """The file that a path or a function is; None of a frame or columns. TableError of a file that
    is none of FORMS."""
    if form not in (None, *FORMS):
        raise TableError(f"form is {', '.join(FORMS)}, not {str(form)[:40]}")
    if isinstance(source, str | Path):
        path = Path(source)
        suffix = path.suffix.lower()
        if form is None and suffix in CONVERTED:
            raise TableError(f"{path.name} is {CONVERTED[suffix]}")
        return File(path.name, form or SUFFIXES.get(suffix, "csv"), lambda: path.open("rb"))
    if not callable(source):
        return None
    if form is None:
        raise TableError(f"of a file in memory its form is needed: {', '.join(FORMS)}")
    return File("the file", form, source, is_local=False)


def table_of(
    source: Any,
    *encodings: str | None,
    form: str | None = None,
    rules: Mapping[str, Any] | None = None,
    grammar: Grammar = AS_WRITTEN,
    names: Mapping[str, Container[str]] | None = None,
    broken_too: bool = False,
) -> Table:
    """From a path, a `File` or a function that opens one, a pandas, polars or Arrow frame, or a
    mapping of columns. rules: `units_row` of CSV and Excel, `sheet` of Excel. names: texts of a
    column that are names, though files write them for what is missing. broken_too: as of
    `read_csv`."""
    if isinstance(source, Table):
        return source
    rules, file = rules or {}, source if isinstance(source, File) else file_of(source, form)
    units_row = rules.get("units_row", False)
    if not isinstance(units_row, bool):
        raise TableError("reader.units_row is true or false: whether units stand below the names")
    if file is None or file.form == "parquet":
        table = from_columns(source if file is None else parquet_table(file.open, file.name))
    elif file.form == "csv":
        return read_csv(
            file.read(),
            file.name,
            *encodings,
            grammar=grammar,
            names=names,
            units_row=units_row,
            broken_too=broken_too,
        )
    elif file.form == "xlsx":
        table = _workbook(file, rules.get("sheet"), units_row=units_row)
    elif file.form == "json":
        table = _json(file)
    else:
        raise TableError(f"{file.name} holds matrices of trips, and another kind has no use of it")
    return replace(without_missing(table, names), grammar=grammar)


# Parquet ------------------------------------------------------------------------------------------


def parquet_table(opens: Callable[[], BinaryIO], name: str) -> Any:
    """The rows of a file, as Arrow. TableError."""
    try:
        import pyarrow  # noqa: PLC0415 - optional
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("pyarrow", "arrow", "a Parquet file") from None
    try:
        with opens() as opened:
            table = pq.read_table(opened, use_threads=False, pre_buffer=False)
            table.validate(full=True)  # texts that are none, numbers of texts that are not there
            return table
    except (pyarrow.ArrowException, ValueError, OSError):
        raise TableError(f"{name} cannot be read as Parquet: is it whole?") from None


# JSON ---------------------------------------------------------------------------------------------


def _json(file: File) -> Table:
    """Rows as objects, or columns as lists; under one name, as in a content of the service, or
    not."""
    try:
        found = json.loads(
            file.read().decode("utf-8-sig"),
            parse_constant=_no_constant,
            object_pairs_hook=_once_each,
        )
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file.name} is not JSON in UTF-8: {str(error)[:80]}") from None
    if isinstance(found, list | dict) and not found:
        raise NoRows(f"{file.name} has no row")
    if isinstance(found, dict) and len(found) == 1:
        (inner,) = found.values()
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            found = inner
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        names = dict.fromkeys(name for row in found for name in row)
        room = len(names) * len(found)
        if room > max(MOST_CELLS, 16 * sum(map(len, found))):  # each row with names of its own
            raise TableError(
                f"{file.name} has {len(found):,} rows and {len(names):,} columns, and few of the "
                "cells: send columns as lists, or CSV"
            )
        columns = {name: [row.get(name) for row in found] for name in names}
    elif isinstance(found, dict) and all(isinstance(one, list) for one in found.values()):
        columns = found
    else:
        raise TableError(
            f'{file.name}: rows as objects are needed, [{{"origin": "A", …}}, …], or columns as '
            "lists"
        )
    for name, values in columns.items():
        for place, value in enumerate(values):
            if isinstance(value, list | dict):
                raise TableError(
                    f"row {place}, column {name[:40]}: one number or text is needed, and a "
                    f"{'list' if isinstance(value, list) else 'mapping'} stands there"
                )
    made = {name: np.fromiter(values, object, len(values)) for name, values in columns.items()}
    return from_columns(made)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members, none of which stands twice: which of them is meant?"""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"{twice[:40]!r} stands twice in one object")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


# Excel --------------------------------------------------------------------------------------------


def _workbook(file: File, sheet: Any, *, units_row: bool) -> Table:
    """One sheet, whose first row names the columns. Its rows are counted as Excel counts them."""
    try:
        import python_calamine as calamine  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra("python-calamine", "excel", "an Excel file") from None
    content = file.read()
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise TableError(f"{file.name} has a password, or is {CONVERTED['.xls']}")
    sizes = _scanned(content, file.name)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        titles = [one.name for one in book.sheets_metadata if "WorkSheet" in str(one.typ)]
        if sheet is None:
            sheet = _only_sheet(book, titles, file.name)
        elif sheet not in titles:
            raise TableError(
                f"reader.sheet: {file.name} has no sheet {str(sheet)[:40]!r}; there are "
                f"{', '.join(titles)[:200]}",
                "sheet",
            )
        rows = book.get_sheet_by_name(sheet).to_python(skip_empty_area=False)
    except (calamine.CalamineError, ValueError, OSError) as error:
        raise TableError(
            f"{file.name} cannot be read as an Excel workbook: {str(error)[:80]}"
        ) from None
    if not sizes or not rows:
        raise TableError(f"{file.name} is empty")
    header = [_title(cell) for cell in rows[0]]
    while len(header) > 1 and not header[-1]:
        header.pop()
    if not any(header):
        raise TableError(
            f"the first row of {file.name} names no columns: delete what stands above the names"
        )
    if twice := sorted(name for name, count in Counter(header).items() if count > 1):
        raise TableError(f"column {twice[0][:40]!r} stands twice in the first row of {file.name}")
    width, first = len(header), 2 if units_row else 1
    kept = [
        place
        for place in range(first, len(rows))
        if any(cell != "" for cell in rows[place][:width])
    ]
    beside = [
        place for place in range(first, len(rows)) if any(c != "" for c in rows[place][width:])
    ]
    if beside:
        raise TableError(
            f"row {beside[0] + 1} of {file.name} has a value beside the {width} columns that the "
            f"first row names{f' (and {len(beside) - 1:,} more rows)' if len(beside) > 1 else ''}"
        )
    if not kept:
        raise NoRows(f"{file.name} has no row below its row of names")
    columns = {}
    for place, name in enumerate(header):
        values = [rows[row][place] for row in kept]
        columns[name] = np.fromiter(map(_cell, values), object, len(values))
    return Table(columns, np.array(kept, dtype=np.int64) + 1)


def _only_sheet(book: Any, titles: Sequence[str], name: str) -> str:
    filled = [title for title in titles if book.get_sheet_by_name(title).height]
    if len(filled) > 1:
        raise TableError(
            f"{name} has the sheets {', '.join(filled)[:200]}: say reader.sheet, one of them",
            "sheet",
        )
    if not filled:
        raise TableError(f"{name} is empty")
    return filled[0]


def _title(cell: Any) -> str:
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell).strip()


def _cell(cell: Any) -> Any:
    """What a cell of Excel means: nothing where it is empty, and times to the millisecond, which
    its fractions of a day hold."""
    if cell == "":
        return None
    if isinstance(cell, datetime.datetime) and cell.microsecond:
        whole = datetime.timedelta(milliseconds=round(cell.microsecond / 1000))
        return cell.replace(microsecond=0) + whole
    return cell


def _scanned(content: bytes, name: str) -> dict[str, int]:
    """Rows times columns of each sheet. TableError of a workbook that would take the memory of its
    reader, and of formulas that failed: calamine drops their errors."""
    found: dict[str, int] = {}
    room = MOST_UNPACKED
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                with archive.open(member) as opened:
                    cells = _Cells(member.filename.lower().endswith(_NO_SHEETS))
                    while piece := opened.read(PIECE_BYTES):
                        room -= len(piece)
                        if room < 0:
                            raise TableError(
                                f"{name} unpacks to more than {MOST_UNPACKED >> 20:,} MiB: save "
                                "its sheet as CSV"
                            )
                        cells.take(piece, name)
                    cells.take(b"<", name)  # its end, behind which nothing is kept back
                    found[member.filename] = max(cells.area, found.get(member.filename, 0))
    except Exception as error:
        if isinstance(error, TableError | MemoryError):
            raise
        # What is no whole archive raises what its unpackers raise: zlib.error, a password's
        # RuntimeError, ValueError of a place before the file.
        raise TableError(UNREADABLE.format(name)) from None
    if not any(one.lower().startswith("xl/") for one in found):
        raise TableError(f"{name} is an archive, and no Excel workbook (.xlsx)")
    if max(found.values()) > MOST_CELLS:
        raise TableError(
            f"a sheet of {name} spans {max(found.values()):,} cells, at most {MOST_CELLS:,} are "
            "read: delete what stands far off (Ctrl+End goes there), or save the sheet as CSV"
        )
    return {title: area for title, area in found.items() if area}


class _Cells:
    """The rectangle of a sheet's cells, from the pieces of its XML: by where they say that they
    are, else by their number."""

    def __init__(self, no_sheet: bool) -> None:
        """no_sheet: whether its name says that it is none."""
        self.rows = self.columns = self._row = self._column = 0
        self._rest, self._no_sheet, self._is_wrong = b"", no_sheet, False

    @property
    def area(self) -> int:
        return self.rows * self.columns

    def take(self, piece: bytes, name: str) -> None:
        text = self._rest + piece
        if self._no_sheet:
            if _SHEET_DATA in text:
                raise TableError(UNREADABLE.format(name))
            self._rest = text[-len(_SHEET_DATA) :]
            return
        cut = text.rfind(b"<")
        cut = len(text) if cut < 0 else cut
        if len(text) - cut >= PIECE_BYTES:
            if _BEGINS.match(text, cut):
                raise TableError(UNREADABLE.format(name))
            cut = len(text)
        self._rest, whole, begun = text[cut:], text[:cut], 0
        if _MANY.search(whole):
            raise TableError(UNREADABLE.format(name))
        for tag, said, value in _CELL.findall(whole):
            if value:
                if self._is_wrong and value != b"#N/A":
                    says = value.decode("ascii", "replace")
                    raise TableError(
                        f"a formula in {name} has the error {says}: mend or empty that cell"
                    )
                continue
            begun += 1
            at = _AT.search(said)
            if at is None and _PLACED.search(said):
                raise TableError(UNREADABLE.format(name))
            if tag == b"row":
                self._row = int(at[2][:9]) if at else self._row + 1
                self._column = 0
            else:
                self._column = _number(at[1]) if at else self._column + 1
                self._row = int(at[2][:9]) if at else self._row
                self.rows = max(self.rows, self._row)
                self.columns = max(self.columns, self._column)
                self._is_wrong = b'"e"' in said or b"'e'" in said
        if begun < len(_BEGINS.findall(whole)):  # a tag that only a reader of XML understands
            raise TableError(UNREADABLE.format(name))


def _number(letters: bytes) -> int:
    """Of a column: A is 1, Z 26, AA 27."""
    found = 0
    for letter in letters.upper()[:4]:
        found = 26 * found + letter - 64
    return found


# OMX ----------------------------------------------------------------------------------------------


def of_matrix(
    file: File, rules: Mapping[str, Any], classes: Sequence[str] = ()
) -> tuple[Table, dict[str, Any]]:
    """The trips of an OMX file (open matrix, HDF5), of its one matrix or of `reader.matrix`, with
    the rules that are left; of classes of users the matrices that are called as these. Zones are
    named as the file's lookup has them, its one or `reader.lookup`; without one they are 1..n."""
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise MissingExtra("h5py", "omx", "an OMX file") from None
    rules, name = dict(rules), file.name
    opened = file.open()
    try:
        matrices = h5py.File(opened, "r")
    except (OSError, ValueError):
        opened.close()
        raise TableError(f"{name} cannot be read as OMX, which is HDF5") from None
    with opened, matrices:
        try:
            return _trips(matrices, name, rules, classes)
        except TableError:
            raise
        except (OSError, RuntimeError, LookupError, AttributeError, TypeError, ValueError):
            raise TableError(f"{name} cannot be read as OMX: is it whole?") from None


def _trips(
    file: Any, called: str, rules: dict[str, Any], classes: Sequence[str]
) -> tuple[Table, dict[str, Any]]:
    names = list(file.get("data", ()))
    chosen = list(classes)
    if not classes:
        chosen = [rules.pop("matrix", names[0] if len(names) == 1 else None)]
    if any(name not in names for name in chosen):
        says = f"{called} has the matrices {', '.join(names) or 'none'}"
        if classes:
            listed = ", ".join(classes)
            raise TableError(f"{says}: one is needed for each of public.user_classes, {listed}")
        raise TableError(f"{says}: say reader.matrix", "matrix")
    parts = [_square(file["data"][name], f"matrix {name} of {called}") for name in chosen]
    if any(len(part) != len(parts[0]) for part in parts):
        raise TableError(f"the matrices of {called} are of different sizes")
    ids = _looked_up(file, called, rules.pop("lookup", None), len(parts[0]))
    filled = [np.nonzero(part) for part in parts]
    columns = {
        "origin": ids[np.concatenate([origin for origin, _ in filled])],
        "destination": ids[np.concatenate([destination for _, destination in filled])],
        "count": np.concatenate([part[at] for part, at in zip(parts, filled, strict=True)]),
    }
    if classes:
        sizes = [origin.size for origin, _ in filled]
        columns["user_class"] = np.repeat(np.array(chosen, dtype=object), sizes)
    return from_columns(columns), rules


def _looked_up(file: Any, called: str, told: Any, zones: int) -> NDArray[Any]:
    """The name of each row of the matrices, which is that of the column too."""
    lookups = list(file.get("lookup", ()))
    if told is None and len(lookups) > 1:
        raise TableError(
            f"{called} has the lookups {', '.join(lookups)}, which name its zones in several ways: "
            "say reader.lookup, one of them or none",
            "lookup",
        )
    chosen = told if told is not None or not lookups else lookups[0]
    if chosen is None or (chosen == "none" and chosen not in lookups):
        return np.arange(1, zones + 1)
    if chosen not in lookups:
        raise TableError(
            f"reader.lookup: {called} has no lookup {str(chosen)[:40]}; there are "
            f"{', '.join([*lookups, 'none'])}",
            "lookup",
        )
    names = file["lookup"][chosen]
    ids = np.asarray(names) if names.shape == (zones,) else np.zeros(0)
    if ids.dtype.kind in "SO":
        texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in ids]
        ids = np.array(texts, dtype=object)
    if ids.shape != (zones,) or len(set(ids.tolist())) < zones:
        raise TableError(
            f"lookup {chosen} of {called} does not name each of {zones} zones once: say "
            "reader.lookup, another or none",
            "lookup",
        )
    return ids


def _square(matrix: Any, called: str) -> NDArray[np.float64]:
    """By its shape first: a file of 2 KiB may claim 300 GiB."""
    shape = matrix.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise TableError(f"{called} is {' by '.join(map(str, shape))}, not square")
    if shape[0] > MOST_ZONES:
        raise TableError(f"{called} has {shape[0]:,} zones, at most {MOST_ZONES:,} are read")
    if matrix.dtype.kind not in "iuf":
        raise TableError(f"{called} holds {matrix.dtype}, no numbers")
    return np.asarray(matrix, dtype=np.float64)

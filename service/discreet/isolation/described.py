"""Tables of people's own, read in the child by their description: the same program as at home.

A described file is read whole, within the memory of the child. The child has no files: time zones
and codecs are met before the walls (`warm_up`).
"""

from __future__ import annotations

import codecs
import contextlib
import encodings
import importlib
import io
import json
import pkgutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo, available_timezones

from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge

MEMORY_A_BYTE = {"csv": 16, "json": 24, "xlsx": 120, "omx": 40, "parquet": 60}
"""Of a file, in the reader, at most: texts of cells take some fifteen times their letters, and some
formats are packed."""
HOME = (
    "read it at home (--local, or local=True), where its arrays are all that is sent; or send a "
    "file with the columns of its kind, or a source's blocks"
)
LONGEST = 1000
"""Letters of a text that is told of a file: some list names that stand in it."""
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
    _forget_plugins()
    _zones[:] = map(ZoneInfo, sorted(available_timezones()))
    for module in pkgutil.iter_modules(encodings.__path__):
        with contextlib.suppress(LookupError, ImportError):  # those of Windows, and no codecs
            codecs.lookup(module.name)


def _forget_plugins() -> None:
    """Of a file that is broken, or packed in a way that it does not know, HDF5 looks for a library
    on the disk that could read it. Here it knows no folder of such."""
    try:
        plugins: Any = importlib.import_module("h5py.h5pl")
    except ImportError:
        return
    for _ in range(plugins.size()):
        plugins.remove(0)


def check_size(form: str, size: int, memory: int) -> None:
    """PayloadTooLarge of a file that would not be read within the memory, before it is."""
    most = memory // MEMORY_A_BYTE[form]
    if size > most:
        says = f"a file of your own columns is read whole, up to {most} bytes ({form}) here"
        raise PayloadTooLarge(f"{says}, this one has {size}: {HOME}")


def read(
    job: Mapping[str, Any],
    opened: Callable[[], BinaryIO],
    size: int,
    parts: Sequence[Callable[[], BinaryIO]] = (),
) -> Described | None:
    """The table of a file by the description in `job.public`; of several Parquet files, its parts,
    the rows of all; None of a block in which there is none. InvalidInput, an issue for each
    mistake; PayloadTooLarge.

    job: kind, public, format, `zones` (names of a stored network's zones), `memory_bytes`, `block`.
    """
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.descriptions import (  # noqa: PLC0415
        issues_of,
        printable,
        without_names,
    )
    from discreet_client import readers, source_blocks  # noqa: PLC0415
    from discreet_client.errors import MissingExtra  # noqa: PLC0415
    from discreet_client.tables import NoRows, TableError  # noqa: PLC0415

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
    block = job.get("block")
    try:
        source = _together(parts) if len(parts) > 1 else opened
        form = None if len(parts) > 1 else form
        if block is None:
            reading = readers.read(job["kind"], source, public, columns, form=form)
        else:
            reading = source_blocks.read(
                job["kind"], source, public, columns, form=form, by=block["by"], name=block["name"]
            )
    except TableError as error:
        if isinstance(error, NoRows) and block is not None:
            return None
        told = (
            FieldIssue(one.pointer, _short(one.detail), one.more and _short(one.more))
            for one in issues_of(error, "/content")
        )
        raise InvalidInput(told) from None
    except MissingExtra as error:
        raise InvalidInput(str(error), pointer="/content") from None
    return Described(
        {**reading.public, **_described(stored)}, _arrow(reading), _short(printable(reading.notes))
    )


def _together(parts: Sequence[Callable[[], BinaryIO]]) -> Any:
    """The rows of Parquet files, as Arrow. TableError where they are none, or no one table."""
    import pyarrow as pa  # noqa: PLC0415

    from discreet_client.containers import parquet_table  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    tables = [parquet_table(opened, "a file") for opened in parts]
    if any(not one.schema.equals(tables[0].schema) for one in tables):
        raise TableError("the files differ in their columns or types")
    return pa.concat_tables(tables)


def _described(public: Mapping[str, Any]) -> dict[str, Any]:
    return {"reader": public["reader"], "columns": public["columns"]}


def _arrow(reading: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.table(reading.columns)


# A look at a file ---------------------------------------------------------------------------------


def preview(job: Mapping[str, Any], opened: Callable[[], BinaryIO], size: int) -> dict[str, Any]:
    """What a file would be read as, for its owner: `readers.preview`. job: as of `read`."""
    from discreet.problems.descriptions import MOST_COLUMNS, printable  # noqa: PLC0415
    from discreet_client import readers  # noqa: PLC0415

    form, public = job["format"], dict(job["public"] or {})
    if job.get("zones") is not None:
        public["reader"] = {**(public.get("reader") or {}), "zones": job["zones"]}
    try:
        check_size(form, size, job["memory_bytes"])
    except PayloadTooLarge as error:
        found = readers.not_read(str(error))
    else:
        found = readers.preview(job["kind"], opened, public, form=form)
    names = found["columns"]
    if len(names) > MOST_COLUMNS:  # a description has no more
        found["columns"] = names[:MOST_COLUMNS]
        says = f"of {len(names):,} columns the first {MOST_COLUMNS:,} are shown"
        found["notes"] = [*found["notes"], says]
    told_of: dict[str, Any] = _short(printable(found))
    return told_of


def _short(value: Any) -> Any:
    """A value of JSON whose texts end after LONGEST letters: what is told of a file is held by the
    API, and does not grow with the file."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
    if isinstance(value, Mapping):
        return {_short(name): _short(one) for name, one in value.items()}
    return [_short(one) for one in value] if isinstance(value, list) else value


# Before the walls ---------------------------------------------------------------------------------


def samples() -> Iterator[tuple[str, dict[str, Any], str, bytes]]:
    """Kind, public part, form and bytes of small files of every kind and form, of what is wrong in
    them, and of what is none: what children need is met when they are read."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.descriptions import completed  # noqa: PLC0415

    for kind, model in DATASETS.items():
        for number, (public, form, content) in enumerate(model.sample_files()):
            described = completed(kind, public)
            if number == 0:
                for broken in (b"", b"\x00\xff", b"PK\x03\x04", b"[", b'"a;b\n1;2'):
                    for each in MEMORY_A_BYTE:
                        yield kind, described, each, broken
            written = content if isinstance(content, bytes) else _WRITERS[form](content)
            if written is not None:
                yield kind, described, form, written


def _json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        table = pa.Table.from_pylist(rows)
    except pa.ArrowInvalid:  # of columns with two types
        table = pa.Table.from_pylist(
            [{name: str(one) for name, one in row.items()} for row in rows]
        )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def _workbook(rows: list[list[Any]]) -> bytes:
    """A sheet of these cells, as Excel stores it."""
    cells = "".join(
        "<row>"
        + "".join(
            f'<c t="inlineStr"><is><t>{one}</t></is></c>'
            if isinstance(one, str)
            else f"<c><v>{one}</v></c>"
            for one in row
        )
        + "</row>"
        for row in rows
    )
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
        f'PartName="/xl/workbook.xml" ContentType="{sheet}.sheet.main+xml"/><Override '
        f'PartName="/xl/worksheets/sheet1.xml" ContentType="{sheet}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="a" '
        'sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{office}/worksheet" Target="worksheets/sheet1.xml"/>'
        "</Relationships>",
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData>'
        "</worksheet>",
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return sink.getvalue()


def _matrix(cells: list[list[float]]) -> bytes | None:
    """An OMX file of two zones, 7 and 9; None without h5py."""
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        return None
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        file.create_dataset("data/trips", data=cells, compression="gzip")
        file.create_dataset("lookup/zones", data=[7, 9])
    return sink.getvalue()


_WRITERS: Mapping[str, Callable[[Any], bytes | None]] = {
    "json": _json,
    "parquet": _parquet,
    "xlsx": _workbook,
    "omx": _matrix,
}

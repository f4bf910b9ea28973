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
from datetime import UTC, datetime
from typing import Any, BinaryIO
from zoneinfo import ZoneInfo, available_timezones

from discreet.errors import InvalidInput, PayloadTooLarge

MEMORY_A_BYTE = {"csv": 16, "json": 24, "xlsx": 120, "omx": 40, "parquet": 60}
"""Of a file, in the reader, at most: texts of cells take some fifteen times their letters, and some
formats are packed."""
HOME = (
    "read it at home (--local, or local=True), where its arrays are all that is sent; or send a "
    "file with the columns of its kind, or a source's blocks"
)
NOTHING: Mapping[str, Any] = {
    "columns": [],
    "proposal": {"reader": {}, "columns": {}},
    "rows": [],
    "left_out": [],
    "notes": [],
    "issues": [],
    "count": None,
}
"""The preview of what cannot be read at all."""
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
        raise InvalidInput(issues_of(error, "/content")) from None
    except MissingExtra as error:
        raise InvalidInput(str(error), pointer="/content") from None
    return Described(
        {**reading.public, **_described(stored)}, _arrow(reading), printable(reading.notes)
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
    from discreet.problems.descriptions import printable  # noqa: PLC0415
    from discreet_client import readers  # noqa: PLC0415
    from discreet_client.errors import MissingExtra  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    form, public = job["format"], dict(job["public"] or {})
    if job.get("zones") is not None:
        public["reader"] = {**(public.get("reader") or {}), "zones": job["zones"]}
    try:
        check_size(form, size, job["memory_bytes"])
        found: dict[str, Any] = readers.preview(job["kind"], opened, public, form=form)
    except (TableError, MissingExtra, PayloadTooLarge) as error:
        issues = getattr(error, "issues", None)
        told = [one.as_dict() for one in issues] if issues else [{"cause": str(error), "count": 1}]
        found = {**NOTHING, "issues": told}
    told_of: dict[str, Any] = printable(found)
    return told_of


# Before the walls ---------------------------------------------------------------------------------


def samples() -> Iterator[tuple[str, dict[str, Any], str, bytes]]:
    """Kind, public part, form and bytes of small files of every kind and form, of what is wrong in
    them, and of what is none: what children need is met when they are read."""
    from discreet.problems.descriptions import completed  # noqa: PLC0415

    for kind, public, form, content in _samples():
        yield kind, completed(kind, public), form, content


def _samples() -> Iterator[tuple[str, dict[str, Any], str, bytes]]:
    trips = {"unit": "request", "zones": 2, "periods": 2, "period_minutes": 60}
    clock = {"time_zone": "Europe/Berlin", "start": "02.11.2026 07:00", "zones": ["Ä", "B"]}
    named = {"origin": "Von", "destination": "Nach", "time": "Tag+Zeit", "count": "Fahrten"}
    leaves = dict.fromkeys(("missing", "other_zones", "outside"), "leave_out")
    head = "Von;Nach;Tag;Zeit;Fahrten\n"
    good = head + "Ä;B;02.11.2026;07:10;1,0\nB;Ä;02.11.2026;08:10;2\nB;C;03.11.2026;;3\n"
    for encoding, rules in (
        ("cp1252", {**clock, **leaves, "encoding": "cp1252", "decimal": ","}),
        ("utf-16", {**clock, **leaves, "every": "day"}),
        ("utf-8", clock),
        ("latin-1", clock),
    ):
        public = {**trips, "reader": rules, "columns": named}
        yield "routing", public, "csv", good.encode(encoding)
    public = {**trips, "reader": clock, "columns": named}
    for row in ("Ä;B;30.02.2026;07:10;1", "Ä;B;29.03.2026;02:30;1", "Ä;C;02.11.2026;7 Uhr;1.234"):
        yield "routing", public, "csv", f"{head}{row}\n".encode()
    for broken in (b"", b"\x00\xff", head.encode(), b"PK\x03\x04", b"[", b'"a;b\n1;2'):
        for form in MEMORY_A_BYTE:
            yield "routing", public, form, broken
    plain = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60, "reader": {}}
    yield "routing", plain, "xlsx", _workbook([["origin", "destination"], [1, 2], ["A", 2]])
    yield "routing", plain, "xlsx", _workbook([["origin", "destination"], [1, 2], [2, 1]])
    if (matrix := _matrix()) is not None:
        yield "routing", plain, "omx", matrix
        yield "routing", {**plain, "reader": {"matrix": "no"}}, "omx", matrix
        yield "routing", {**plain, "reader": {"zones": ["7", "9"]}}, "omx", matrix
    rows: list[dict[str, Any]] = [
        {"origin": 1, "destination": 2},
        {"origin": 2, "destination": "x"},
    ]
    for number in (1, 2):
        yield "routing", plain, "json", json.dumps(rows[:number]).encode()
        yield from _parquet("routing", plain, rows[:number])

    meters: dict[str, Any] = {
        "unit": "participant",
        "states": 2,
        "edges": [0, 1, 20],
        "steps": 3,
        "meters": {"start": "2026-10-25T00:00", "interval_seconds": 1800},
        "reader": {"time_zone": "Europe/Berlin", "units": "kWh", "decimal": ","},
    }
    lines = [f"25.10.2026 {at};a;0,2" for at in ("00:00", "00:30", "01:00")]
    read = "time;participant;kw\n" + "\n".join(lines)
    yield "dr_ensemble", meters, "csv", read.encode()
    yield "dr_ensemble", meters, "csv", (read + "\n25.10.2026 01:30;a;x").encode()
    wide = {"participants": "columns", "except": ["Summe"], "units_row": True}
    rest = "Zeit;a;Summe\n;kWh;kWh\n" + "\n".join(f"{one[:16]};0,2;1" for one in lines)
    apart = {**meters, "reader": {**meters["reader"], **wide}, "columns": {"time": "Zeit"}}
    yield "dr_ensemble", apart, "csv", rest.encode()
    stamps = [
        datetime(2026, 10, 24, 23 + hour // 2, 30 * (hour % 2), tzinfo=UTC) for hour in (0, 1)
    ]
    zoned = [{"time": one, "participant": "a", "kw": 0.5} for one in stamps]
    yield from _parquet("dr_ensemble", {**meters, "steps": 2}, zoned)

    visits = {
        "unit": "trajectory",
        "horizon": 3,
        "reward_bound": 1,
        "max_ratio": 5,
        "ranges": [{"name": "age", "low": 20, "high": 100}],
        "reader": {
            "dates": "day_first",
            "behaviour": {"treat": 0.5, "wait": 0.5},
            "target": "age >= 65 -> treat, else wait",
            "rewards": {"well": 1, "ill": 0},
            "missing": "leave_out",
            "interval": 1,
        },
        "columns": {"patient": "pid", "time": "date", "action": "arm", "reward": "score"},
    }
    lines = ["1;01/02/2026;70;treat;well", "1;02/02/2026;70;wait;ill", "2;01/02/2026;50;wait;well"]
    for row in ("2;02/02/2026;50;wait;ill", "2;02/02/2026;;wait;ill", "2;31/02/2026;50;no;bad"):
        text = "\n".join(["pid;date;age;arm;score", *lines, row])
        yield "off_policy_evaluation", visits, "csv", text.encode()


def _parquet(
    kind: str, public: dict[str, Any], rows: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any], str, bytes]]:
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
    yield kind, public, "parquet", sink.getvalue()


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


def _matrix() -> bytes | None:
    """An OMX file of two zones; None without h5py."""
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        return None
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        file.create_dataset("data/trips", data=[[0.0, 2.0], [1.0, 0.0]], compression="gzip")
        file.create_dataset("lookup/zones", data=[7, 9])
    return sink.getvalue()

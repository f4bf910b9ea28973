"""What tables come in: files in memory of each form, and what a preview says of them."""

from __future__ import annotations

import io
import json
import math
import re
import struct
import time as clock
import zipfile
from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any, BinaryIO

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet_client import containers, readers
from discreet_client.tables import TableError

TRIPS = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
DAY = {**TRIPS, "zones": 9, "periods": 24, "trip_scale": 100}
DAY["reader"] = {"version": 1, "start": "2026-07-01T00:00", "time_zone": "Europe/Berlin"}
DAY["columns"] = {"origin": "Von", "destination": "Nach", "time": "Zeit", "count": "Fahrten"}
ROWS = [(1, 2, datetime(2026, 7, 1, 8, 30), 1.5), (2, 1, datetime(2026, 7, 1, 9, 0, 7), 2.25)]
NAMES = ("Von", "Nach", "Zeit", "Fahrten")


def opened(content: bytes) -> Callable[[], BinaryIO]:
    return lambda: io.BytesIO(content)


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
FORMATS = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 22, 20))
STYLES = f'<styleSheet xmlns="{MAIN}"><cellXfs>{FORMATS}</cellXfs></styleSheet>'
RELS = f'<Relationships xmlns="{PACKAGE}/relationships">{{}}</Relationships>'
SHEET = f'<worksheet xmlns="{MAIN}"><sheetData>{{}}</sheetData></worksheet>'


def cell(value: Any) -> str:
    """As Excel writes it: a time is a fraction of days since 1899."""
    if value is None:
        return "<c/>"
    if isinstance(value, datetime):
        days = (value - datetime(1899, 12, 30)) / timedelta(days=1)
        return f'<c s="1"><v>{days!r}</v></c>'
    if isinstance(value, time):
        return f'<c s="2"><v>{(value.hour * 60 + value.minute) / 1440!r}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def workbook(rows: Any, **others: Any) -> bytes:
    """A workbook with these sheets."""
    return archive(
        {
            title: SHEET.format("".join(f"<row>{''.join(map(cell, row))}</row>" for row in lines))
            for title, lines in {"Sheet": rows, **others}.items()
        }
    )


def archive(sheets: dict[str, str]) -> bytes:
    """A workbook of the XML of its sheets."""
    number = dict(enumerate(sheets, 1))
    listed = [f'<sheet name="{t}" sheetId="{n}" r:id="r{n}"/>' for n, t in number.items()]
    link = '<Relationship Id="r{0}" Type="{1}" Target="{2}"/>'
    linked = [link.format(n, f"{OFFICE}/worksheet", f"worksheets/sheet{n}.xml") for n in number]
    whole = link.format(0, f"{OFFICE}/officeDocument", "xl/workbook.xml")
    sheets_of = f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{"".join(listed)}</sheets>'
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("[Content_Types].xml", f'<Types xmlns="{PACKAGE}/content-types"/>')
        written.writestr("_rels/.rels", RELS.format(whole))
        written.writestr("xl/workbook.xml", f"{sheets_of}</workbook>")
        written.writestr("xl/_rels/workbook.xml.rels", RELS.format("".join(linked)))
        written.writestr("xl/styles.xml", STYLES)
        for n, title in number.items():
            written.writestr(f"xl/worksheets/sheet{n}.xml", sheets[title])
    return made.getvalue()


def forms() -> dict[str, bytes]:
    lines = [f"{o};{d};{t:%d.%m.%Y %H:%M:%S};{str(n).replace('.', ',')}" for o, d, t, n in ROWS]
    parquet = io.BytesIO()
    pd.DataFrame(ROWS, columns=list(NAMES)).to_parquet(parquet)
    objects = [{**dict(zip(NAMES, row, strict=True)), "Zeit": row[2].isoformat()} for row in ROWS]
    return {
        "csv": "\n".join([";".join(NAMES), *lines]).encode(),
        "parquet": parquet.getvalue(),
        "xlsx": workbook([NAMES, *ROWS]),
        "json": json.dumps(objects).encode(),
    }


@pytest.mark.parametrize("form", ["csv", "parquet", "xlsx", "json"])
def test_a_file_in_memory_is_the_same_in_every_form(form: str) -> None:
    found = readers.read("routing", opened(forms()[form]), DAY, form=form)
    assert {name: values.tolist() for name, values in found.columns.items()} == {
        "period": [8, 9],
        "origin": [1, 2],
        "destination": [2, 1],
        "count": [1.5, 2.25],
    }
    assert not {"reader", "columns"} & found.public.keys()


def test_an_open_matrix_in_memory() -> None:
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["data/trips"] = np.array([[0, 5, 0], [0, 0, 7], [0, 0, 0.0]])
        file["lookup/taz"] = [3, 1, 2]
    found = readers.read("routing", opened(made.getvalue()), TRIPS, form="omx").columns
    assert found["origin"].tolist() == [3, 1]
    assert found["count"].tolist() == [5, 7]
    for wrong in (b"", b"no", made.getvalue()[:900]):
        with pytest.raises(TableError, match="cannot be read as OMX"):
            readers.read("routing", opened(wrong), TRIPS, form="omx")


def test_a_description_opens_no_files_where_the_table_is_in_memory() -> None:
    public = {**TRIPS, "reader": {"zones": "/etc/passwd"}}
    with pytest.raises(TableError, match=r"reader\.zones: .* no file's name"):
        readers.read("routing", opened(b"origin,destination\n1,2\n"), public, form="csv")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"[]", b'{"a": [NaN]}', b'[{"a": [1]}]'])
def test_what_is_no_table_of_json(content: bytes) -> None:
    with pytest.raises(TableError):
        readers.read("routing", opened(content), TRIPS, form="json")


def sheet(cells: str) -> bytes:
    return archive({"Sheet": SHEET.format(cells)})


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"/></row>',
            "spans",
        ),
        ("<row r='1048576'>" + "<c/>" * 40 + "</row>", "spans"),
        ('<row r="1"><c r="A1"/><c t="e" r="B1"><v>#DIV/0!</v></c></row>', "has the error #DIV/0!"),
    ],
)
def test_a_workbook_that_would_end_its_reader_is_refused(cells: str, says: str) -> None:
    with pytest.raises(TableError, match=says):
        readers.read("routing", opened(sheet(cells)), TRIPS, form="xlsx")


def test_a_workbook_that_unpacks_to_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MOST_UNPACKED", 1 << 20)
    long = sheet(f'<row r="1"><c t="inlineStr"><is><t>{"x" * (2 << 20)}</t></is></c></row>')
    assert len(long) < 20_000
    with pytest.raises(TableError, match="unpacks to more than 1 MiB"):
        readers.read("routing", opened(long), TRIPS, form="xlsx")


def test_sheets_units_and_days_with_their_clock() -> None:
    rows = [
        ("Von", "Nach", "Datum", "Uhr", None),
        ("Zone", "Zone", "Tag", "h", None),
        (1, 2, datetime(2026, 7, 1), time(8, 30), None),
        (None, None, None, None, None),
    ]
    rules = {**DAY["reader"], "units_row": True, "sheet": "Sheet"}
    columns = {"origin": "Von", "destination": "Nach", "time": "Datum+Uhr"}
    public = {**DAY, "reader": rules, "columns": columns}
    book = opened(workbook(rows, Other=[("x",)]))
    assert readers.read("routing", book, public, form="xlsx").columns["period"].tolist() == [8]
    with pytest.raises(TableError, match=r"has the sheets Sheet, Other: say reader\.sheet"):
        readers.read("routing", book, {**public, "reader": {}}, form="xlsx")
    rules["units_row"] = False
    with pytest.raises(TableError) as refused:
        readers.read("routing", book, public, form="xlsx")
    found = [(one.row, one.column, one.found, one.way_out) for one in refused.value.issues]
    assert (2, "Von", "Zone", "reader.units_row") in found


@pytest.mark.parametrize("name", ["trips.xls", "trips.sav", "trips.csv.gz", "trips.zip"])
def test_what_is_not_read_is_refused_with_what_converts_it(name: str, tmp_path: Any) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(TableError, match=r"save it as|unpack it first|to_parquet"):
        readers.read("routing", tmp_path / name, TRIPS)


def test_all_mistakes_come_at_once_each_with_its_way_out() -> None:
    text = "origin;destination;count\n1;2;1.234\n9;2;many\n1;;1\n1;2;2.345\n1;2\n2;1;1;1;1\n"
    public = {**TRIPS, "reader": {"version": 1}}
    with pytest.raises(TableError) as refused:
        readers.read("routing", opened(text.encode()), public, form="csv")
    found = [one.as_dict() for one in refused.value.issues]
    assert [
        (one["row"], one["column"], one["found"], one["count"], one["way_out"]) for one in found
    ] == [
        (6, None, "2 values", 2, None),
        (4, "destination", None, 1, "reader.missing"),
        (3, "origin", "9", 1, "public.zones"),
        (2, "count", "1.234", 2, "reader.decimal"),
        (3, "count", "many", 1, "reader.missing_words"),
    ]
    assert found[3]["last"] == 5
    assert json.loads(json.dumps(found)) == found
    assert str(refused.value).count("\n") == 4


def test_a_preview_shows_what_was_understood() -> None:
    text = (
        "Von;Nach;Uhr;Tag;Fahrten\n1;2;08:30;01.07.2026;1,5\n2;2;09:10;01.07.2026;1.234,5\n;1;;;2\n"
    )
    found = readers.preview("routing", opened(text.encode()), {"unit": "request"}, form="csv")
    assert found["columns"] == ["Von", "Nach", "Uhr", "Tag", "Fahrten"]
    assert found["proposal"] == {
        "reader": {"decimal": ",", "thousands": "."},
        "columns": {"origin": "Von", "destination": "Nach", "time": "Tag+Uhr", "count": "Fahrten"},
    }
    assert found["rows"][0]["cells"]["Fahrten"] == "1,5"
    assert not found["rows"][0]["meaning"]
    assert {one["way_out"] for one in found["issues"]} >= {"reader.start", "reader.missing"}
    reader = {**DAY["reader"], **found["proposal"]["reader"], "missing": "leave_out"}
    public = {**DAY, "reader": reader, "columns": found["proposal"]["columns"]}
    found = readers.preview("routing", opened(text.encode()), public, form="csv")
    assert found["issues"] == []
    assert found["count"] == 3
    assert [one["row"] for one in found["rows"]] == [2, 3, 4]
    assert [one["meaning"] for one in found["rows"]] == [
        [{"period": 8, "origin": 1, "destination": 2, "count": 1.5}],
        [{"period": 9, "origin": 2, "destination": 2, "count": 1234.5}],
        [],
    ]
    assert found["left_out"] == [{"why": "a value is missing", "count": 1}]
    assert any("1 of 2 rows within one zone" in note for note in found["notes"])
    assert json.loads(json.dumps(found)) == found


def test_a_preview_of_meters_and_of_visits() -> None:
    text = (
        "Zeit;Z1;Z2;Summe\n;kWh;kWh;kWh\n01.10.2026;0,25;0,5;0,75\n01.10.2026 00:15;0,1;0,5;0,6\n"
    )
    public = {"unit": "participant", "states": 2, "edges": [0, 1.5, 20], "steps": 2}
    public["meters"] = {"start": "2026-10-01T00:00", "interval_seconds": 900}
    found = readers.preview("dr_ensemble", opened(text.encode()), public, form="csv")
    assert found["proposal"] == {
        "reader": {"units_row": True, "participants": "columns", "except": ["Summe"]},
        "columns": {"time": "Zeit"},
    }
    public["reader"] = {**found["proposal"]["reader"], "units": "kWh", "time_zone": "Europe/Berlin"}
    public["columns"] = found["proposal"]["columns"]
    found = readers.preview("dr_ensemble", opened(text.encode()), public, form="csv")
    states = [[one["state"] for one in row["meaning"]] for row in found["rows"]]
    assert states == [[0, 1], [0, 1]]
    assert [row["meaning"][0]["step"] for row in found["rows"]] == [0, 1]
    visits = "pid,date,score,age\n1,21.11.2026,1,50\n1,22.11.2026,0,51\n"
    public = {"unit": "trajectory", "horizon": 3, "reward_bound": 1}
    public["ranges"] = [{"name": "age", "low": 0, "high": 100}]
    found = readers.preview("off_policy_evaluation", opened(visits.encode()), public, form="csv")
    assert found["issues"] == []
    assert [row["meaning"][0]["step"] for row in found["rows"]] == [0, 1]
    assert found["rows"][1]["meaning"][0]["x_0"] == 0.51


def test_a_preview_raises_nothing() -> None:
    for kind in ("routing", "dr_ensemble", "off_policy_evaluation", "coupled_qp"):
        for form in containers.FORMS:
            for content in (b"", b"\x00" * 9, b"\xff\xfea\x00", b"PK\x03\x04", b"a;b\n1;2\n"):
                for public in ({}, {"reader": 7}, {"reader": {"version": 2}}, {"ranges": 3}):
                    found = readers.preview(kind, opened(content), public, form=form)
                    assert json.loads(json.dumps(found)) == found
                    assert all(one["detail"] for one in found["issues"])


VISITS = "pid,day,arm,score,age\na,1,treat,1,60\na,2,wait,0,61\nb,1,wait,1,30\n"
LOGISTIC = {"treat": "1/(1+exp(2-0.03*age))", "wait": "rest"}


def visits(**changes: Any) -> Any:
    public = {"unit": "trajectory", "horizon": 3, "reward_bound": 1, "max_ratio": 5}
    public["ranges"] = [{"name": "age", "low": 20, "high": 100}]
    public["reader"] = {"behaviour": LOGISTIC, "target": {"treat": 1, "wait": 0}, **changes}
    public["columns"] = {"patient": "pid", "time": "day", "action": "arm", "reward": "score"}
    public["max_ratio"] = public["reader"].pop("max_ratio", 5)
    return readers.read("off_policy_evaluation", opened(VISITS.encode()), public, form="csv")


def test_a_propensity_may_be_a_formula_of_columns() -> None:
    found = visits()
    treat = [1 / (1 + math.exp(2 - 0.03 * age)) for age in (60, 61, 30)]
    expected = [treat[0], 1 - treat[1], 1 - treat[2]]
    assert found.columns["behaviour"].tolist() == pytest.approx(expected, rel=1e-12)
    assert found.columns["target"].tolist() == [1, 0, 0]
    assert found.public["max_ratio"] == 5  # as it was said: nothing public follows from data


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"max_ratio": 2}, "more than public.max_ratio, 2"),
        ({"behaviour": {"treat": "age/40", "wait": "rest"}}, "line 2, column age: here reader"),
        ({"behaviour": {"treat": "age/100", "wait": "age/100"}}, "sum to 1; found '60'"),
        ({"behaviour": {"treat": "rest", "wait": "rest"}}, "one action has the rest"),
        ({"behaviour": {"treat": "age(", "wait": "rest"}}, "a formula is written as"),
        ({"behaviour": {"treat": "score/2", "wait": "rest"}}, "and score is none"),
        ({"behaviour": {"treat": "reward/2", "wait": "rest"}}, "and reward is none"),
        ({"behaviour": {"other": "age/100", "wait": "rest"}}, "knows the actions other, wait"),
        ({"behaviour": {"treat": "log(age-70)", "wait": "rest"}}, "here reader.behaviour gives no"),
    ],
)
def test_what_is_no_propensity(changes: Any, says: str) -> None:
    with pytest.raises(TableError, match=re.escape(says)):
        visits(**changes)


def test_power_that_is_fed_in_is_not_taken_for_none_in_silence() -> None:
    text = "participant,time,kw\n" + "".join(f"m,2026-10-01T0{h}:00Z,{h - 1}\n" for h in range(4))
    public: dict[str, Any] = {"unit": "participant", "states": 2, "edges": [0, 1, 9], "steps": 4}
    public["meters"] = {"start": "2026-10-01T00:00Z", "interval_seconds": 3600}
    source = opened(text.encode())
    with pytest.raises(TableError, match="line 2, column kw: power below 0 is fed") as refused:
        readers.read("dr_ensemble", source, public, form="csv")
    assert refused.value.issues[0].way_out == "public.edges"
    said = {**public, "meters": {**public["meters"], "outside": "clamp"}}
    notes = readers.read("dr_ensemble", source, said, form="csv").notes
    assert any("1 of 4 readings below 0 kW" in note for note in notes)
    below = {**public, "edges": [-2, 1, 9]}
    assert readers.read("dr_ensemble", source, below, form="csv").columns["kw"][0] == -1


def refused(content: bytes, form: str, **rules: Any) -> str:
    with pytest.raises(TableError) as error:
        readers.read("routing", opened(content), {**TRIPS, "reader": rules}, form=form)
    return str(error.value)


@pytest.mark.parametrize(
    "cells",
    [
        '<row><c s=">" r="XFD1048576"><v>1</v></c></row>',
        '<row><c x:r="A1" r="XFD1048576"><v>1</v></c></row>',
        '<row><c s="<" r="XFD1048576"><v>1</v></c></row>',
        f'<row><c s="{"a" * (3 << 20)}" r="XFD1048576"><v>1</v></c></row>',
    ],
    ids=["quoted", "prefixed", "less", "long"],
)
def test_no_attribute_hides_a_cell_that_would_end_the_reader(cells: str) -> None:
    said = refused(sheet(cells), "xlsx")
    assert "spans" in said or "cannot be read" in said


def test_a_sheet_is_looked_at_wherever_it_lies() -> None:
    far = sheet('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')
    for name in ("other/s.xml", "media/s.png", "worksheets/sheet1.bin"):
        sink = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(far)) as old, zipfile.ZipFile(sink, "w") as new:
            for one in old.namelist():
                text = old.read(one).replace(b"worksheets/sheet1.xml", name.encode())
                new.writestr(one.replace("worksheets/sheet1.xml", name), text)
        said = refused(sink.getvalue(), "xlsx")
        assert "spans" in said or "cannot be read" in said


def test_a_workbook_that_claims_more_texts_than_it_has_is_refused() -> None:
    sink = io.BytesIO(sheet("<row><c><v>1</v></c></row>"))
    with zipfile.ZipFile(sink, "a") as file:
        file.writestr("xl/sharedStrings.xml", f'<sst xmlns="{MAIN}" uniqueCount="4000000000"/>')
    assert "cannot be read" in refused(sink.getvalue(), "xlsx")


@pytest.mark.parametrize("cells", ['<row><c t="e"><v>' * 60_000, "<c " * 300_000])
def test_a_sheet_without_ends_is_refused_in_linear_time(cells: str) -> None:
    begun = clock.process_time()
    refused(sheet(cells), "xlsx")
    assert clock.process_time() - begun < 10  # minutes, where each start looks at all that follows


def test_no_key_of_json_stands_twice() -> None:
    rows = b'[{"origin": 1, "destination": 2, "origin": 3}]'
    assert "'origin' stands twice" in refused(rows, "json")


@pytest.mark.parametrize("name", ["UTF-8", "utf8", "utf-8-sig"])
def test_the_mark_of_utf_8_is_no_part_of_a_name(name: str) -> None:
    content = "\ufefforigin;destination\n1;2\n".encode()
    public = {**TRIPS, "reader": {"encoding": name}}
    found = readers.read("routing", opened(content), public, form="csv")
    assert found.columns["origin"].tolist() == [1]


def test_many_columns_take_linear_time() -> None:
    wide = ",".join(f"c{number}" for number in range(40_000)) + ",,,\n"
    content = (wide + "1," * 40_000 + ",,\n").encode()
    begun = clock.process_time()
    assert "no column origin" in refused(content, "csv")
    assert clock.process_time() - begun < 15  # ten minutes, where each column copies the table
    lists = json.dumps({**{f"c{number}": [1] for number in range(40_000)}, "z": []}).encode()
    assert len(refused(lists, "json")) < 1000
    long = json.dumps([{"origin": 1, "destination": 2, "x" * 100_000: "q"}]).encode()
    with pytest.raises(TableError) as error:
        readers.read("routing", opened(long), TRIPS, {"count": "x" * 100_000}, form="json")
    assert len(error.value.issues[0].column or "") < 1000


def hdf(**made: Any) -> bytes:
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        for name, value in made.items():
            file[name.replace("_", "/")] = value
    return sink.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        hdf(data_a=h5py.Empty("f8")),
        hdf(data=np.ones((2, 2))),
        hdf(data_a=np.ones((2, 2)), lookup=np.ones(2)),
        hdf(data_a=h5py.ExternalLink("/etc/passwd", "/x")),
        hdf(data_a=np.zeros(2, [("a", "f8")])),
    ],
    ids=["empty", "flat", "flat lookup", "elsewhere", "compound"],
)
def test_what_is_no_open_matrix_is_refused(content: bytes) -> None:
    assert refused(content, "omx")


def test_what_parquet_says_wrongly_is_refused() -> None:
    texts = pa.StringArray.from_buffers(
        1, pa.py_buffer(struct.pack("2i", 0, 2)), pa.py_buffer(b"\xff\xfe")
    )
    days = pa.array([2**31 - 1], pa.date32())
    for column in (
        {"origin": texts},
        {"time": days},
        {"time": pa.array([2**50], pa.timestamp("s"))},
    ):
        sink = io.BytesIO()
        pq.write_table(pa.table({"origin": [1], "destination": [2], **column}), sink)
        assert refused(sink.getvalue(), "parquet", start="2026-07-01T00:00", time_zone="UTC")

"""Described tables in the child's program: a content is a union over units, in every kind."""

from __future__ import annotations

import encodings
import io
import json
import pkgutil
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import h5py
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation import described, reading
from discreet.isolation.blocks import any_record
from discreet.problems import DATASETS
from discreet.problems.contents import Content
from discreet.problems.descriptions import (
    MOST_COLUMNS,
    completed,
    is_text_encoding,
    looked,
    without_names,
)
from discreet.web import bodies
from discreet_client import readers
from tests.clients.test_containers import workbook

TRIPS: dict[str, Any] = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
CLOCK = {"time_zone": "Europe/Berlin", "start": "2026-11-02T07:00", "zones": ["A", "B", "C"]}
HEAD = "origin;destination;time;count\n"
ROWS = (
    "A;B;2026-11-02 07:10;1",
    "B;A;2026-11-02 08:10;2",
    "B;C;2026-11-02 09:10;1",
    "B;D;2026-11-02 07:10;1",
    "C;;2026-11-02 07:10;3",
    "C;A;02.11.2026 07:30;5",
)
LEAVES = {"missing": "leave_out", "other_zones": "leave_out", "outside": "leave_out"}
VISITS = {
    "unit": "trajectory",
    "horizon": 3,
    "reward_bound": 1,
    "ranges": [{"name": "age", "low": 20, "high": 100}],
}
POLICIES = {"behaviour": {"treat": 0.5, "wait": 0.5}, "target": "age >= 65 -> treat, else wait"}
METERS = {
    "unit": "participant",
    "states": 2,
    "edges": [0, 1, 20],
    "steps": 2,
    "meters": {"start": "2026-10-25T00:00", "interval_seconds": 1800, "gaps": "leave_out"},
}
TABLES: list[tuple[str, dict[str, Any], dict[str, Any], str, dict[str, list[str]]]] = [
    *(
        ("routing", TRIPS, {**CLOCK, **LEAVES, **more}, HEAD, {row: [row] for row in ROWS})
        for more in ({}, {"every": "day"}, {"every": "weekday"}, {"thousands": "."})
    ),
    (
        "routing",
        {**TRIPS, "unit": "person"},
        {**CLOCK, **LEAVES},
        "person;" + HEAD,
        {name: [f"{name};{ROWS[k]}", f"{name};{ROWS[k + 1]}"] for k, name in enumerate("abc")},
    ),
    *(
        (
            "off_policy_evaluation",
            VISITS,
            {**POLICIES, **more},
            "patient;time;age;action;reward\n",
            {
                "p": ["p;1;30;treat;1", "p;2;70;wait;0"],
                "q": ["q;1;80;treat;0", "q;2;81;treat;0,5", "q;4;82;treat;1"],
                "r": ["r;1;;wait;0", "r;2;60;wait;1"],
                "s": ["s;1;50;wait;1"],
            },
        )
        for more in (
            {"missing": "leave_out"},
            {"missing": "leave_out", "interval": 1, "gaps": "end"},
            {"missing": "leave_out", "last_row": "next_state"},
        )
    ),
    *(
        (
            "dr_ensemble",
            METERS,
            {"time_zone": "Europe/Berlin", **more},
            "time;participant;kw\n",
            {
                name: [f"25.10.2026 00:{minute};{name};{kw}" for minute, kw in each]
                for name, each in {
                    "a": (("00", "0,2"), ("30", "3")),
                    "b": (("00", "0,4"), ("30", "0,3")),
                    "c": (("00", ""), ("30", "2")),
                    "d": (("00", "5"), ("30", "0,5")),
                }.items()
            },
        )
        for more in ({}, {"units": "kWh"})
    ),
]


def read(kind: str, public: dict[str, Any], text: str | bytes, form: str = "csv") -> Content:
    content = text.encode() if isinstance(text, str) else text
    job = {"kind": kind, "public": public, "format": form, "memory_bytes": 1 << 30}
    made = described.read(job, lambda: io.BytesIO(content), len(content))
    assert made is not None
    model: Any = DATASETS[kind]
    found: Content = model.read_table(model.read_public(made.public), made.table)
    return found


def units(content: Content) -> list[str]:
    """What of a content is each unit's, as text, in order."""
    if "start" not in content:
        rows = next(iter(content.values()))
        return sorted(str(row.tolist()) for row in rows)
    start = content["start"]
    return sorted(
        str({name: one[begin:end].tolist() for name, one in content.items() if name != "start"})
        for begin, end in pairwise(start.tolist())
    )


@pytest.mark.parametrize(
    ("kind", "public", "rules", "head", "each"),
    TABLES,
    ids=[f"{table[0]}-{number}" for number, table in enumerate(TABLES)],
)
def test_one_unit_less_is_its_records_less(
    kind: str, public: dict[str, Any], rules: Any, head: str, each: dict[str, list[str]]
) -> None:
    whole = completed(kind, {**public, "reader": rules})
    everything = units(read(kind, whole, head + "\n".join(chain(*each.values()))))
    assert everything
    for left, gone in each.items():
        rest = [row for name, rows in each.items() if name != left for row in rows]
        found = units(read(kind, whole, head + "\n".join(rest)))
        missing = [*everything]
        for one in found:
            missing.remove(one)  # all others are what they were
        assert len(missing) <= len(gone)


def in_wide(each: dict[str, list[str]]) -> str:
    """A row for each time and a column for each meter, beside a sum, and units below the names."""
    cells = zip(*each.values(), strict=True)
    lines = [";".join(("Zeit", *each, "Summe")), ";".join(["", *["kWh"] * len(each), "kWh"])]
    lines += [f"25.10.2026 0{at};{';'.join(row)};9" for at, row in zip(HOURS, cells, strict=True)]
    return "\n".join(lines)


HOURS = ("1:30", "2:00", "2:30", "2:00", "2:30", "3:00")
"""The night in which clocks show an hour twice."""
METERS_OF_A_NIGHT = {
    **METERS,
    "steps": 6,
    "meters": {
        "start": "2026-10-25T01:30+02:00",
        "interval_seconds": 1800,
        "gaps": "leave_out",
        "carry": 1,
    },
}
OF_A_NIGHT = {"time_zone": "Europe/Berlin", "decimal": ",", "units": "kWh"}
LOADS = {
    "Ä": ["0,1", "0,2", "0,3", "1,5", "2", "0"],
    "B": ["0,1", "", "0,3", "1,5", "2", "0"],
    "C": ["0,1", "", "", "1,5", "2", "0"],
    "D": ["1", "1", "1", "1", "1", "1"],
}
OUTCOMES: dict[str, dict[str, Any]] = {
    "rewards": {
        "rewards": {"well": 1, "ill": 0, "NA": 0.5},
        "behaviour": {"treat": 0.5, "wait": 0.5},
        "target": {"treat": 1, "wait": 0},
    },
    "formula": {
        "rewards": {"well": 1, "ill": 0, "NA": 0.5},
        "behaviour": {"treat": "1/(1+exp(2-0.03*age))", "wait": "rest"},
        "target": "age >= 65 -> treat, else wait",
        "missing": "carry",
        "decimal": ",",
    },
}
STAYS = {
    "p": ["p;01/02/2026;30;treat;well", "p;02/02/2026;70,5;wait;ill"],
    "q": ["q;01/02/2026;80;treat;NA", "q;02/02/2026;81;treat;well", "q;03/02/2026;;treat;ill"],
    "r": ["r;02/02/2026;60;wait;ill"],
}
DAYS = {"dates": "day_first"}
TRIP_ROWS = [
    ["Ä", "B", "02.11.2026 07:10", "1.234,5"],
    ["B", "C", "02.11.2026 08:10", "2"],
    ["Ä", "C", "02.11.2026 08:20", "1.000"],
    ["Ä", "X", "02.11.2026 07:10", "3"],
    ["B", "Ä", "02.11.2026 11:10", "3"],
    ["C", "Ä", "09.11.2026 07:20", "4"],
]
TRIP_NAMES = ["Von", "Nach", "Zeit", "Fahrten"]
NAMED = {"origin": "Von", "destination": "Nach", "time": "Zeit", "count": "Fahrten"}
GERMAN = {**CLOCK, **LEAVES, "zones": ["Ä", "B", "C"]}
WEIGHED = {**TRIPS, "trip_scale": 2, "columns": NAMED}


def lines_of(rows: dict[str, list[str]], head: str) -> str:
    return head + "\n".join(chain(*rows.values()))


def trips_of(rows: dict[str, list[str]]) -> str:
    return "\n".join([";".join(TRIP_NAMES), *chain(*rows.values())])


def sheets_of(rows: dict[str, list[str]]) -> bytes:
    """A workbook, with units below the names."""
    cells: list[list[Any]] = [line.split(";") for line in chain(*rows.values())]
    for row in cells:
        row[3] = float(row[3].replace(".", "").replace(",", "."))
    return workbook([TRIP_NAMES, ["", "", "", "Fzg"], *cells])


def parquet_of(rows: dict[str, list[str]]) -> bytes:
    sink = io.BytesIO()
    cells = [line.split(";") for line in chain(*rows.values())]
    pq.write_table(pa.table(dict(zip(TRIP_NAMES, zip(*cells, strict=True), strict=True))), sink)
    return sink.getvalue()


def json_of(rows: dict[str, list[str]]) -> bytes:
    cells = [line.split(";") for line in chain(*rows.values())]
    return json.dumps([dict(zip(TRIP_NAMES, row, strict=True)) for row in cells]).encode()


BY_ROW = {str(number): [";".join(row)] for number, row in enumerate(TRIP_ROWS)}
WAYS: list[tuple[str, str, dict[str, Any], dict[str, Any], str, dict[str, list[str]], Any]] = [
    *(
        (
            name,
            "routing",
            WEIGHED,
            {**GERMAN, "decimal": ",", "thousands": ".", **rules},
            form,
            BY_ROW,
            build,
        )
        for name, form, rules, build in (
            ("cp1252", "csv", {"encoding": "cp1252"}, lambda rows: trips_of(rows).encode("cp1252")),
            ("utf-16", "csv", {}, lambda rows: trips_of(rows).encode("utf-16")),
            ("rounded", "csv", {"round_trips": True}, trips_of),
            ("weeks", "csv", {"every": "week"}, trips_of),
            ("parquet", "parquet", {}, parquet_of),
            ("json", "json", {}, json_of),
            ("sheet", "xlsx", {"units_row": True, "sheet": "Sheet"}, sheets_of),
        )
    ),
    (
        "wide meters",
        "dr_ensemble",
        {**METERS_OF_A_NIGHT, "columns": {"time": "Zeit"}},
        {**OF_A_NIGHT, "participants": "columns", "except": ["Summe"], "units_row": True},
        "csv",
        LOADS,
        in_wide,
    ),
    (
        "long meters of a night",
        "dr_ensemble",
        METERS_OF_A_NIGHT,
        OF_A_NIGHT,
        "csv",
        {
            name: [f"25.10.2026 0{at};{name};{kw}" for at, kw in zip(HOURS, kws, strict=True)]
            for name, kws in LOADS.items()
        },
        lambda rows: lines_of(rows, "time;participant;kw\n"),
    ),
    *(
        (
            name,
            "off_policy_evaluation",
            {**VISITS, "max_ratio": 5},
            {**DAYS, **rules},
            "csv",
            STAYS if name == "formula" else {one: STAYS[one] for one in "pr"},
            lambda rows: lines_of(rows, "patient;time;age;action;reward\n"),
        )
        for name, rules in OUTCOMES.items()
    ),
]


@pytest.mark.parametrize(
    ("kind", "public", "rules", "form", "each", "build"),
    [one[1:] for one in WAYS],
    ids=[one[0] for one in WAYS],
)
def test_one_unit_less_is_its_records_less_in_every_form(
    kind: str,
    public: dict[str, Any],
    rules: Any,
    form: str,
    each: dict[str, list[str]],
    build: Any,
) -> None:
    whole = completed(kind, {**public, "reader": rules})
    everything = units(read(kind, whole, build(each), form))
    assert len(everything) > 1
    for left, gone in each.items():
        rest = {name: rows for name, rows in each.items() if name != left}
        missing = [*everything]
        for one in units(read(kind, whole, build(rest), form)):
            missing.remove(one)  # all others are what they were
        assert len(missing) <= len(gone)


def test_names_are_in_no_answer() -> None:
    public = completed("routing", {**TRIPS, "reader": {**CLOCK, **LEAVES, "except": ["Summe"]}})
    assert "zones" not in without_names(public)["reader"]
    assert "except" not in without_names(public)["reader"]
    wide = {"reader": {"participants": ["Anna's meter"], "units": "kWh"}}
    assert without_names(wide) == {"reader": {"units": "kWh"}}
    kept = {"reader": {"zones": {"network": "net_1"}, "participants": "columns"}}
    assert without_names(kept) == kept
    assert any_record(
        read("routing", completed("routing", {**TRIPS, "reader": CLOCK}), HEAD + ROWS[0])
    )


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    job = {"kind": "routing", "public": TRIPS, "format": "csv", "memory_bytes": 1 << 10}
    with pytest.raises(PayloadTooLarge, match="--local"):
        described.read(job, lambda: pytest.fail("it is read"), 1 << 10)


def look(public: dict[str, Any], form: str, content: bytes) -> dict[str, Any]:
    job = {"kind": "routing", "public": public, "format": form, "memory_bytes": 1 << 30}
    return described.preview(job, lambda: io.BytesIO(content), len(content))


def test_rows_with_names_of_their_own_take_no_room_for_all() -> None:
    """A file of 3 MB was laid out as ten thousand million cells, for an hour."""
    rows = ",".join(f'{{"column {number}": 1}}' for number in range(100_000))
    (issue,) = look({}, "json", f"[{rows}]".encode())["issues"]
    assert "few of the cells" in issue["detail"]
    few = ",".join(f'{{"origin": 1, "destination": 2, "c{number}": 1}}' for number in range(50))
    assert look({}, "json", f"[{few}]".encode())["count"] == 50


def test_what_is_told_of_a_file_does_not_grow_with_it() -> None:
    """Names that stand in it are cut, and so are their numbers."""
    names = [f"{'n' * 2000} {number}" for number in range(2000)]
    told = look({}, "csv", "\n".join((",".join(names), ",".join("1" * 2000))).encode())
    assert len(told["columns"]) == MOST_COLUMNS
    assert max(map(len, told["columns"])) <= described.LONGEST + 1
    assert any("2,000 columns" in note for note in told["notes"])
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        for number in range(500):
            file[f"data/matrix {number}"] = [[0.0]]
    content = sink.getvalue()
    (issue,) = look({"reader": {}}, "omx", content)["issues"]
    assert len(issue["detail"]) <= described.LONGEST + 1
    job = {"kind": "routing", "public": TRIPS | {"reader": {}}, "format": "omx"}
    with pytest.raises(InvalidInput) as refused:
        described.read({**job, "memory_bytes": 1 << 30}, lambda: io.BytesIO(content), len(content))
    assert len(refused.value.issues[0].detail) <= described.LONGEST + 1


@pytest.mark.parametrize(
    ("when", "zone", "block"),
    [
        ("9999-12-31T23:59Z", "Pacific/Kiritimati", None),
        ("0001-01-01T00:00+14:00", "Etc/GMT+12", None),
        ("9999-12-31 23:59", "Europe/Berlin", {"by": "day", "name": "9999-12-31"}),
        ("9999-12-31T23:59Z", "Europe/Berlin", {"by": "month", "name": "9999-12"}),
        ("2026-11-02 07:10", "Europe/Berlin", {"by": "month", "name": "9999-12"}),
    ],
)
def test_times_at_the_ends_of_the_calendar_end_no_child(
    when: str, zone: str, block: dict[str, str] | None
) -> None:
    content = f"{HEAD}A;B;{when};1\n".encode()
    for every in ({}, {"every": "day"}, {"every": "weekday"}):
        rules = {**CLOCK, **every, "time_zone": zone}
        if block is not None:
            rules |= {"block": "time", "start": "07:00"}
        public = completed("routing", {**TRIPS, "reader": rules})
        job = {"kind": "routing", "public": public, "format": "csv", "memory_bytes": 1 << 30}
        with pytest.raises(InvalidInput):
            described.read({**job, "block": block}, lambda: io.BytesIO(content), len(content))
        assert look(public, "csv", content)["issues"]


def test_mistakes_have_their_place_and_their_way_out() -> None:
    public = completed("routing", {**TRIPS, "reader": CLOCK})
    with pytest.raises(InvalidInput) as refused:
        read("routing", public, f"{HEAD}A;X;2026-11-02 07:10;1.234\nA;B;30.02.2026 07:00;1\n")
    told = [json.loads(json.dumps(one.more)) for one in refused.value.issues]
    assert {one["column"] for one in told} == {"destination", "time", "count"}
    assert {one["row"] for one in told} == {2, 3}
    assert "reader.decimal" in {one["way_out"] for one in told}


def test_lists_of_participants_are_names() -> None:
    rules = {"participants": ["Anna", "Otto"], "units": "kW"}
    assert without_names({"reader": rules}) == {"reader": {"units": "kW"}}
    wide = {"reader": {"participants": "columns"}}
    assert without_names(wide) == wide


@pytest.mark.parametrize("encoding", ["punycode", "idna", "unicode_escape", "raw_unicode_escape"])
def test_codecs_of_no_files_are_no_encodings(encoding: str) -> None:
    assert not is_text_encoding(encoding)


def test_all_codecs_are_met_before_the_walls() -> None:
    described.warm_up()
    there = {one.name for one in pkgutil.iter_modules(encodings.__path__)} - {
        "mbcs",
        "oem",
        "iso8859_1",
    }
    cold = [name for name in there if f"encodings.{name}" not in sys.modules]
    assert cold == []


@pytest.mark.parametrize(
    ("kind", "public", "missing"),
    [
        ("routing", {"zones": 2, "period_minutes": 60, "reader": CLOCK}, ["unit", "periods"]),
        ("off_policy_evaluation", {"reader": {}}, ["unit", "reward_bound", "horizon"]),
        ("dr_ensemble", {"unit": "participant", "reader": {}}, ["states"]),
    ],
)
def test_a_look_says_what_registration_would_refuse(
    kind: str, public: dict[str, Any], missing: list[str]
) -> None:
    """In the same words: who looked at a file until nothing was wrong was refused for fields of
    which the look had said nothing."""
    found = looked(kind, public, readers.not_read())
    adapter: TypeAdapter[Any] = TypeAdapter(DATASETS[kind])
    with pytest.raises(InvalidInput) as refused:
        bodies.validate(adapter, {"kind": kind, "content": {}, "public": completed(kind, public)})
    told = {
        one.pointer: one.detail
        for one in refused.value.issues
        if one.pointer.startswith("/public/")
    }
    assert [f"/public/{name}" for name in missing] == list(told)
    assert [one["way_out"] for one in found["issues"]] == [f"public.{name}" for name in missing]
    assert [one["cause"] for one in found["issues"]] == list(told.values())
    assert all(one["way_out"] in one["detail"] for one in found["issues"])


def test_a_field_that_is_missing_is_said_once_and_counts_no_rows_outside(tmp_path: Path) -> None:
    """The reader's own word on it gives way; without `periods` nobody knows what lies outside."""
    file = tmp_path / "trips.csv"
    file.write_text("origin,destination,time\n1,2,2026-11-02T07:10\n2,1,2026-11-01T07:10\n")
    asked = ["dataset", "preview", str(file), "--kind", "routing", "--local", "--json"]
    asked += ["--set", "unit=request", "--set", "zones=2", "--set", "reader.start=2026-11-02"]
    asked += ["--set", "reader.time_zone=Europe/Berlin"]
    seen = json.loads(CliRunner().invoke(app, asked).stdout)
    ways = [one["way_out"] for one in seen["issues"]]
    assert ways == ["public.periods", "public.period_minutes"]
    asked += ["--set", "period_minutes=60.5"]
    seen = json.loads(CliRunner().invoke(app, asked).stdout)
    assert [one["way_out"] for one in seen["issues"]] == ["public.periods"]
    assert (seen["left_out"], seen["notes"]) == ([], [])
    asked += ["--set", "periods=9", "--set", "reader.outside=leave_out"]
    seen = json.loads(CliRunner().invoke(app, asked).stdout)
    assert seen["issues"] == []
    assert seen["left_out"][0]["count"] == 1


def test_a_half_of_a_pair_is_answered_as_something_else() -> None:
    text = r'[{"origin": "\ud800", "destination": 2}]'
    with pytest.raises(InvalidInput) as refused:
        read("routing", completed("routing", {**TRIPS, "periods": 1, "reader": {}}), text, "json")
    str(refused.value).encode()
    job = {"kind": "routing", "public": TRIPS, "format": "json", "memory_bytes": 1 << 30}
    seen = described.preview(job, lambda: io.BytesIO(text.encode()), len(text))
    json.dumps(seen, ensure_ascii=False).encode()


@pytest.mark.parametrize("said", [{"reader": [1]}, {"columns": [1]}, {"columns": "x"}])
def test_a_look_refuses_what_is_no_description(said: dict[str, Any]) -> None:
    job = {"kind": "routing", "public": {**TRIPS, **said}, "format": "csv", "memory_bytes": 1 << 30}
    content = b"origin,destination\n1,2\n"
    assert described.preview(job, lambda: io.BytesIO(content), len(content))["issues"]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"origin;destination\r1;2\r2;1\r", 2),
        (b"origin;destination\r", None),
        (b"sep=;\norigin;destination\n\n", None),
    ],
)
def test_a_block_is_empty_where_no_line_stands_below_the_names(
    content: bytes, rows: int | None
) -> None:
    """Lines may end in CR alone: taken for one line, all of its records were lost in silence."""
    public = completed("routing", {**TRIPS, "periods": 1, "reader": {}})
    job = {"kind": "routing", "public": public, "format": "csv", "memory_bytes": 1 << 30}
    job["block"] = {"by": "label", "name": "one"}
    made = described.read(job, lambda: io.BytesIO(content), len(content))
    assert (made and made.table.num_rows) == rows
    if not content.startswith(b"sep"):
        kind: Any = DATASETS["routing"]
        assert reading._is_empty(kind, lambda: io.BytesIO(content), "csv", ()) == (rows is None)


def test_a_missing_column_of_a_dataset_is_said_as_at_home() -> None:
    """It is of no source, which could say how columns are called."""
    public = completed("off_policy_evaluation", {**VISITS, "reader": POLICIES})
    with pytest.raises(InvalidInput) as refused:
        read("off_policy_evaluation", public, "patient;time;age;reward\np;1;30;1\n")
    assert "source" not in str(refused.value)
    assert "--columns action=" in str(refused.value)


def test_a_time_in_two_columns_of_long_texts() -> None:
    """As pandas and polars write Parquet."""
    sink = io.BytesIO()
    columns = {"Tag": ["02.11.2026"], "Uhr": ["07:10"], "origin": ["A"], "destination": ["B"]}
    types = [("Tag", pa.large_string()), ("Uhr", pa.large_string())]
    types += [("origin", pa.string()), ("destination", pa.string())]
    pq.write_table(pa.table(columns, pa.schema(types)), sink)
    public = {**TRIPS, "reader": CLOCK, "columns": {"time": "Tag+Uhr"}}
    found = read("routing", completed("routing", public), sink.getvalue(), "parquet")
    assert found["trips"].tolist() == [[0, 1, 2, 1]]


def test_a_look_at_a_file_that_is_too_large_says_so_on_pages_too() -> None:
    job = {"kind": "routing", "public": TRIPS, "format": "csv", "memory_bytes": 100}
    seen = described.preview(job, io.BytesIO, 1000)
    assert seen["count"] is None
    (issue,) = seen["issues"]
    assert issue["detail"] == issue["cause"]
    assert "read it at home" in issue["detail"]
    assert seen.keys() == readers.preview("routing", {"origin": []}, TRIPS).keys()

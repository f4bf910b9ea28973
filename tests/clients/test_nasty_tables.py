"""Tables as people's programs write them, drawn by seed: all ways to read one agree, and no record
changes what another means.

A file of CSV is read as columns by pyarrow and a cell at a time, and the same texts come as
Parquet, as JSON, as Excel and as a frame: the content is the same, byte for byte, or all refuse the
same cells. Files of all forms, some torn, under descriptions that are partly junk are read at home
and by the program of the service's child: the same content, or the same mistakes.
"""

from __future__ import annotations

import csv
import io
import json
import random
import time
import zipfile
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation import described, network_files, reading
from discreet.problems import DATASETS
from discreet.problems.descriptions import completed
from discreet_client import cells, networks, readers, tables
from discreet_client.tables import TableError
from tests.clients.test_containers import opened, workbook
from tests.clients.test_networks import CONFIG_CSV, CSV, GMNS, LINES
from tests.problems.test_tntp import NETWORK, NODES

NUMBERS = ["1", "2,5", "3.25", "1.234", "1.234,5", "1'000", "1e2", "+4", "5.", ".5", "7.0", "0"]
NO_NUMBERS = ["NaN", "inf", "1_000", "٣", "½", "5 kW", "-", "x", "1,2,3", "1e400", "0x10"]
LACKS = ["", " ", "NA", "NULL", "n/a", "null", "#N/A"]
ZONES = ["A", "B", "7", "7.0", "007", "NA", "Zone 3", " A", "B ", "Ä", "A\u0308", "1.234"]
TIMES = [
    *("2026-07-01", "2026-07-01T08:30", "2026-07-01 08:30:15", "01.07.2026 08:30", "1.7.2026 8:30"),
    *("2026-07-01T08:30+02:00", "2026-07-01T06:30Z", "2026-06-30T24:00", "01/07/2026 08:30"),
    *("07/01/2026 8:30 am", "2026-10-25T02:30", "2026-03-29T02:30", "30.02.2026", "2026-07-01T15"),
    *("20260701", "2026-07-01T08:30+02", "01.07.2026 08:30:59", "2026-07-01T08:30:15.25"),
]
TOO = {"missing": "leave_out", "other_zones": "leave_out", "outside": "leave_out"}
TRIPS: dict[str, Any] = {"unit": "person", "zones": 12, "periods": 48, "period_minutes": 60}
VISITS: dict[str, Any] = {"unit": "trajectory", "horizon": 60, "reward_bound": 5000}
METERS: dict[str, Any] = {"unit": "participant", "states": 2, "edges": [0, 1.5, 9000], "steps": 5}
METERS["meters"] = {"start": "2026-10-25T00:00", "interval_seconds": 3600, "carry": 9}


class Nasty:
    """A table of texts with its description."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.kind = draw.choice(["routing", "routing", "off_policy_evaluation", "dr_ensemble"])
        self.mark = draw.choice([",", ";", ";", "\t", "|"])
        share = draw.choice([0, 0, 0, 0, 0.02, 0.2])
        rules: dict[str, Any] = {"version": 1}
        for rule, values in (
            ("decimal", (",", ".")),
            ("thousands", (".", ",", "'")),
            ("dates", ("day_first", "month_first")),
        ):
            if draw.random() < 0.4:
                rules[rule] = draw.choice(values)
        if rules.get("decimal") == rules.get("thousands"):
            rules.pop("thousands", None)
        if draw.random() < 0.6:
            rules.pop("decimal", None)
            good = ["1", "2.5"] if self.mark == "," else draw.choice([["1", "2.5"], ["1", "2,5"]])
            if len(rules) > 1 and draw.random() < 0.5:
                rules.pop("thousands", None)
        else:
            good = NUMBERS

        def some(usual: list[str], wrong: list[str]) -> str:
            chance = draw.random()
            return draw.choice(wrong if chance < share else LACKS if chance < 2 * share else usual)

        rows = draw.choice([1, 3, 12, 60])
        times = draw.choice([TIMES, TIMES[:1], TIMES[1:2], TIMES[2:3], TIMES[3:4], TIMES[16:17]])
        if self.kind == "routing":
            rules |= {
                "zones": [*ZONES[:3], *ZONES[4:7], "Ä"],
                "start": "2026-07-01",
                "round_trips": True,
            }
            rules |= {"time_zone": "Europe/Berlin"}
            rules |= {rule: how for rule, how in TOO.items() if draw.random() < 0.5}
            self.columns = ["origin", "destination", "time", "count", "person"]
            lines = [
                [
                    *(some(ZONES[:2] if share == 0 else ZONES, ["nowhere"]) for _ in range(2)),
                    some(times, TIMES),
                    some(good, NO_NUMBERS),
                    some([f"p{n}" for n in range(5)], ["Summe"]),
                ]
                for _ in range(rows)
            ]
            public = TRIPS
        elif self.kind == "dr_ensemble":
            rules |= {"time_zone": "Europe/Berlin"}
            self.columns = ["participant", "time", "kw"]
            hours = ["00:00", "01:00", "02:00", "02:00", "03:00"]
            lines = [
                [f"m{n}", some([f"25.10.2026 {hour}"], TIMES), some(good, NO_NUMBERS)]
                for n in range(rows // 3 + 1)
                for hour in hours[: draw.choice([4, 5])]
            ]
            public = METERS
        else:
            rules |= {"behaviour": {"a": 0.5, "b": 0.5}, "target": "age >= 2 -> a, else b"}
            rules |= {"missing": draw.choice(["refuse", "carry", "leave_out"])}
            self.columns = ["patient", "time", "reward", "age", "action"]
            lines = [
                [
                    some([f"p{n // 4}"], ["Total"]),
                    some([f"2026-07-{n % 4 + 1:02}"], TIMES),
                    *(some(good, NO_NUMBERS) for _ in range(2)),
                    some(["a", "b"], ["c"]),
                ]
                for n in range(rows)
            ]
            public = {**VISITS, "ranges": [{"name": "age", "low": 0, "high": 5}]}
        self.rows = [row for row in lines if any(cell.strip() for cell in row)]
        self.public = {**public, "reader": rules}

    def written(self, rows: list[list[str]] | None = None) -> bytes:
        """CSV of one of the ways in which programs write it."""
        made, draw = io.StringIO(), self.draw
        end = draw.choice(["\n", "\r\n"])
        quoting = draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(made, delimiter=self.mark, lineterminator=end, quoting=quoting)
        tail = [""] * draw.choice([0, 0, 2])
        writer.writerow([*self.columns, *tail])
        for row in self.rows if rows is None else rows:
            writer.writerow([*row, *(tail if draw.random() < 0.9 else [])])
            if draw.random() < 0.01:
                made.write(self.mark * (len(row) + len(tail) - 1) + end)
        made.write(draw.choice(["", end * 2, self.mark * 3 + end]))
        begin = draw.choice(["", "\ufeff", f"sep={self.mark}{end}"])
        return (begin + made.getvalue()).encode()


def outcome(kind: str, source: Any, public: Any, **how: Any) -> Any:
    """The content in bytes, or what is wrong and where."""
    try:
        found = readers.read(kind, source, public, **how)
    except TableError as error:
        return sorted(
            (one.cause, one.column or "", one.found or "", one.count, one.way_out or "", one.row)
            for one in error.issues
        )
    return {
        name: (values.dtype.kind, values.tolist() if values.dtype.kind == "O" else values.tobytes())
        for name, values in found.columns.items()
    }


def without_places(found: Any) -> Any:
    return [one[:-1] for one in found] if isinstance(found, list) else found


def agree(seed: int, patch: pytest.MonkeyPatch) -> bool:
    """Whether the table is taken, once all ways to read it agreed on it."""
    nasty = Nasty(seed)
    content = nasty.written()
    found = []
    for least, apart in ((0, 0), (1 << 30, 1 << 30)):
        patch.setattr(tables, "LEAST_QUICK", least)
        patch.setattr(cells, "MOST_APART", apart)
        found.append(outcome(nasty.kind, opened(content), nasty.public, form="csv"))
    assert found[0] == found[1], seed
    if nasty.mark != ",":
        return isinstance(found[0], dict)
    columns = dict(zip(nasty.columns, map(list, zip(*nasty.rows, strict=True)), strict=True))
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    others = {
        "parquet": sink.getvalue(),
        "xlsx": workbook([nasty.columns, *nasty.rows]),
        "json": json.dumps([dict(zip(nasty.columns, row, strict=True)) for row in nasty.rows]),
    }
    whole = without_places(found[0])
    for form, made in others.items():
        made_of = opened(made if isinstance(made, bytes) else made.encode())
        assert without_places(outcome(nasty.kind, made_of, nasty.public, form=form)) == whole, (
            seed,
            form,
        )
    frame = outcome(nasty.kind, pd.DataFrame(columns), nasty.public)
    assert without_places(frame) == whole, seed
    return isinstance(found[0], dict)


def test_all_ways_to_read_a_table_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    as_columns = []
    regular = tables._regular

    def counted(*given: Any, **how: Any) -> Any:
        as_columns.append(regular(*given, **how))
        return as_columns[-1]

    monkeypatch.setattr(tables, "_regular", counted)
    taken = sum(agree(seed, monkeypatch) for seed in range(150))
    assert 50 < taken < 120
    assert sum(one is not None for one in as_columns) > 80


LAW = [
    *(
        ("routing", rules)
        for rules in (
            {},
            {"missing": "leave_out"},
            {"every": "day"},
            {"every": "weekday", "outside": "leave_out"},
            {"every": "week", **TOO},
            {"round_trips": True, "decimal": ",", "thousands": "."},
            {"dates": "month_first", "outside": "leave_out"},
        )
    ),
    *(
        ("dr_ensemble", rules)
        for rules in ({}, {"units": "kWh"}, {"decimal": ","}, {"thousands": "'"})
    ),
    *(
        ("off_policy_evaluation", rules)
        for rules in (
            {},
            {"missing": "carry"},
            {"missing": "leave_out"},
            {"interval": 1, "gaps": "end"},
            {"last_row": "next_state"},
            {"target": "age >= 2 -> a, else b"},
            {"target": {"a": 1, "b": 0}},
            {"rewards": {"1": 1, "2.5": 0}},
        )
    ),
]
"""Rules of each reader."""
OWNER = {"routing": 4, "dr_ensemble": 0, "off_policy_evaluation": 0}


def trips_of(number: int, draw: random.Random) -> list[list[str]]:
    times = ["2026-07-01T08:30", "02.07.2026 00:10", "2026-07-04T23:59", "2026-08-01 00:00"]
    counts = ["1", "2.5", "", "3"]
    ends = ["A", "B", "7", "elsewhere", "NA"]
    if number % 2:  # nothing to refuse
        times, counts, ends = ["2026-07-01T00:30", "02.07.2026 00:10"], ["1", "3"], ends[:3]
    return [
        [*draw.choices(ends, k=2), draw.choice(times), draw.choice(counts), f"p{number}"]
        for _ in range(5)
    ]


def readings_of(number: int, draw: random.Random) -> list[list[str]]:
    hours = draw.choice([["00", "01", "02", "02", "03"], ["00", "01", "02", "03"]])
    return [
        [f"m{number}", f"25.10.2026 {hour}:00", draw.choice(["1", "" if number % 2 else "2.5"])]
        for hour in hours
    ]


def visits_of(number: int, draw: random.Random) -> list[list[str]]:
    days = draw.choice([["1", "2", "3"], ["1", "3", "4"], ["2"]])
    return [
        [f"p{number}", f"0{day}.07.2026", draw.choice(["1", "2.5"]), age, draw.choice(["a", "b"])]
        for day in days
        for age in [draw.choice(["1", "2.5", "4"]) if day == days[0] else draw.choice(["1", ""])]
    ]


ROWS_OF = {"routing": trips_of, "dr_ensemble": readings_of, "off_policy_evaluation": visits_of}


def rows_of(kind: str, number: int) -> list[list[str]]:
    """The records of one unit, by its number, good ones and some that rules leave out."""
    return ROWS_OF[kind](number, random.Random(number))


@pytest.mark.parametrize(("kind", "rules"), LAW, ids=lambda one: str(one)[:60])
def test_a_content_is_a_union_over_units(kind: str, rules: dict[str, Any]) -> None:
    """What a unit's records become follows from them and the description: each unit alone, and all
    but one, become what they become among all; and no data make anything public."""
    usual = {
        "routing": {"zones": ["A", "B", "7", "elsewhere"], "start": "2026-07-01"},
        "dr_ensemble": {},
        "off_policy_evaluation": {"behaviour": {"a": 0.5, "b": 0.5}, "target": {"a": 0, "b": 1}},
    }[kind]
    nasty = {
        "routing": {**TRIPS, "periods": 60},
        "dr_ensemble": METERS,
        "off_policy_evaluation": {**VISITS, "ranges": [{"name": "age", "low": 0, "high": 5}]},
    }[kind]
    berlin = {"time_zone": "Europe/Berlin"}
    zone = {"routing": berlin, "dr_ensemble": berlin}.get(kind, {})
    public = {**nasty, "reader": {**usual, **zone, **rules}}
    names = {
        "routing": ["origin", "destination", "time", "count", "person"],
        "dr_ensemble": ["participant", "time", "kw"],
        "off_policy_evaluation": ["patient", "time", "reward", "age", "action"],
    }[kind]

    def made(rows: list[list[str]]) -> tuple[Any, list[Any]] | None:
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        try:
            found = readers.read(kind, columns, public)
        except TableError:
            return None
        own = {"routing": "person", "dr_ensemble": "participant"}.get(kind, "trajectory")
        rest = [name for name in sorted(found.columns) if name != own]
        records = zip(*(found.columns[name].tolist() for name in rest), strict=True)
        return found.public, sorted(map(repr, records))

    units = [rows for number in range(40) if made(rows := rows_of(kind, number)) is not None]
    assert len(units) >= 5, "too few are taken to show anything"
    draw = random.Random(1)
    mixed = [row for rows in units for row in rows]
    if "origin" in names:  # of the others the order of a unit's rows may say which hour it is
        draw.shuffle(mixed)
    told, whole = made(mixed) or (None, [])
    alone = [made(rows) for rows in units]
    assert whole == sorted(record for one in alone if one for record in one[1])
    assert all(one is not None and one[0] == told for one in alone)
    for gone in range(len(units)):
        owner = units[gone][0][OWNER[kind]]
        left = made([row for row in mixed if row[OWNER[kind]] != owner])
        others = (one for place, one in enumerate(alone) if one and place != gone)
        assert left == (told, sorted(record for one in others for record in one[1]))


# Home and the service -----------------------------------------------------------------------------

JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**400, "", ",", "x", "Europe/Berlin", "2026-07-01", "age -> a"),
    *([], ["A"], {}, {"a": 1}, {"a": "1/3"}, "\ud800"),
]
INSERTED = [
    *(b"\x00", b"\xff", b'"', b"\r", b"\n\n", b"\xef\xbb\xbf", b"\xc2\xa0", b"\xe2\x80\xa8"),
    *(b"\x1a", b";;", b",", b"'", b"1e999"),
]
FIELDS = ["columns", "meters", "periods", "zones", "edges", "horizon", "steps", "ranges"]
TYPES = [
    *(pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.float64(), pa.int32(), pa.timestamp("us"), pa.decimal128(12, 4), pa.binary(), pa.bool_()),
]
MOST_SECONDS = 20
"""Of the processor for a file of 60 rows, whatever it holds."""
SEEDS = [
    pytest.param(range(100), id="some"),
    pytest.param(range(100, 1100), id="many", marks=pytest.mark.long),
]


def torn(draw: random.Random, good: bytes) -> bytes:
    """With bytes changed, cut off, doubled, left out, put in, or made zero."""
    if not good:
        return good
    bad, place = bytearray(good), draw.randrange(len(good))
    match draw.randrange(6):
        case 0:
            for _ in range(draw.choice([1, 1, 2, 8])):
                bad[draw.randrange(len(bad))] = draw.randrange(256)
        case 1:
            del bad[place:]
        case 2:
            first = draw.randrange(len(bad))
            bad[place:place] = good[first : first + draw.randrange(1, 40)]
        case 3:
            del bad[place : place + draw.randrange(1, 20)]
        case 4:
            bad[place:place] = draw.choice(INSERTED)
        case 5:
            length = min(len(bad) - place, draw.randrange(1, 16))
            bad[place : place + length] = bytes(length)
    return bytes(bad)


def torn_inside(draw: random.Random, book: bytes) -> bytes:
    """A workbook that is whole, one of whose parts is not."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(book)) as old, zipfile.ZipFile(sink, "w") as new:
        wrong = draw.choice(old.namelist())
        for name in old.namelist():
            new.writestr(name, torn(draw, old.read(name)) if name == wrong else old.read(name))
    return sink.getvalue()


def typed(draw: random.Random, columns: dict[str, list[str]]) -> bytes:
    """Parquet whose columns are of types that its texts can be read as."""
    table = pa.table(columns)
    for place, name in enumerate(table.column_names):
        try:
            column = table.column(place).cast(draw.choice(TYPES))
        except (pa.ArrowException, ValueError):
            continue
        table = table.set_column(place, name, column)
    if draw.random() < 0.1:
        odd = draw.choice([pa.nulls(table.num_rows), pa.array([["x"]] * table.num_rows)])
        table = table.set_column(0, table.column_names[0], odd)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def matrix(draw: random.Random) -> bytes:
    lookups = np.array([7, 1, 2, 3]), np.array([b"A", b"B", b"7", b"007"]), np.arange(1.0, 5)
    counts = [[draw.choice([0, 1, 2.5, float("nan")]) for _ in range(4)] for _ in range(4)]
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        file["data/m"] = np.array(counts)
        if draw.random() < 0.5:
            file["lookup/z"] = draw.choice(lookups)
    return sink.getvalue()


def nasty_file(seed: int) -> tuple[str, str, bytes, dict[str, Any]]:
    """Kind, form, bytes and a public part."""
    draw, nasty = random.Random(f"file {seed}"), Nasty(seed)
    forms = ["csv", "csv", "parquet", "xlsx", "json"]
    form = draw.choice([*forms, "omx"] if nasty.kind == "routing" else forms)
    columns = dict(zip(nasty.columns, map(list, zip(*nasty.rows, strict=True)), strict=True))
    rows = [dict(zip(nasty.columns, row, strict=True)) for row in nasty.rows]
    match form:
        case "csv":
            content = nasty.written()
            if draw.random() < 0.2:
                encoding = draw.choice(["utf-16", "cp1252", "latin-1"])
                content = content.decode().encode(encoding, "replace")
        case "parquet":
            content = typed(draw, columns)
        case "xlsx":
            content = workbook([nasty.columns, *nasty.rows])
            content = torn_inside(draw, content) if draw.random() < 0.5 else content
        case "json":
            content = json.dumps(draw.choice([rows, columns])).encode()
        case "omx":
            content = matrix(draw)
    public = json.loads(json.dumps(nasty.public))
    if draw.random() < 0.3:
        rule = draw.choice([*sorted(readers.RULES), "version", "nothing"])
        public["reader"][rule] = draw.choice(JUNK)
    if draw.random() < 0.1:
        public[draw.choice(FIELDS)] = draw.choice(JUNK)
    if draw.random() < 0.1:
        called = draw.choice([*nasty.columns, "no", "a+b", "+".join(nasty.columns[:2])])
        public["columns"] = {draw.choice([*nasty.columns, "kwh", "state"]): called}
    return nasty.kind, form, torn(draw, content) if draw.random() < 0.5 else content, public


def contents(found: dict[str, Any]) -> dict[str, Any]:
    return {name: (str(values.dtype), values.tolist()) for name, values in found.items()}


def mistakes(issues: Any) -> list[str]:
    names = ("row", "column", "cause", "found", "way_out", "count", "last")
    return sorted(str([one.get(name) for name in names]) for one in issues)


def at_home(kind: str, source: Any, public: Any, form: str) -> Any:
    """What is read there is sent, and checked by the kind."""
    try:
        found = readers.read(kind, source, public, form=form)
    except TableError as error:
        return mistakes(one.as_dict() for one in error.issues)
    model: Any = DATASETS[kind]
    try:
        said = model.read_public(found.public)
        return contents(model.read_table(said, pa.table(found.columns)))
    except (InvalidInput, PayloadTooLarge, ValidationError) as error:
        return str(error)


def in_the_child(kind: str, source: Any, public: Any, form: str, size: int) -> Any:
    """The same of a file that is sent; None of a public part that is refused before any is read."""
    model: Any = DATASETS[kind]
    try:
        said = model.read_public(completed(kind, public))
    except (InvalidInput, ValidationError):
        return None
    job = {"kind": kind, "public": said.model_dump(mode="json"), "format": form, "block": None}
    job |= {"upload_bytes": size, "memory_bytes": 1 << 30}
    try:
        return contents(reading._described(model, said, source, job, ())[1])
    except (InvalidInput, PayloadTooLarge, ValidationError) as error:
        issues = [one.more for one in getattr(error, "issues", [])]
        if issues and all(one is not None and "cause" in one for one in issues):
            return mistakes(issues)
        return str(error)


@pytest.mark.parametrize("seeds", SEEDS)
def test_home_and_the_service_read_nasty_files_alike(seeds: range) -> None:
    """Nothing else is raised, by a look either, which tells the same mistakes."""
    taken = refused = 0
    for seed in seeds:
        kind, form, content, public = nasty_file(seed)
        begun, source = time.process_time(), opened(content)
        home = at_home(kind, source, public, form)
        sent = in_the_child(kind, source, public, form, len(content))
        job = {"kind": kind, "public": public, "format": form, "memory_bytes": 1 << 30}
        seen = described.preview(job, source, len(content))
        json.dumps(seen, ensure_ascii=False).encode()
        assert time.process_time() - begun < MOST_SECONDS, seed
        if sent is None:
            continue
        assert home == sent, seed
        if not isinstance(sent, str):
            assert mistakes(seen["issues"]) == (sent if isinstance(sent, list) else []), seed
        taken += isinstance(sent, dict)
        refused += isinstance(sent, list)
    assert taken > len(seeds) / 20
    assert refused > len(seeds) / 4


ROADS: list[dict[str, str]] = [
    {"a_net.tntp": NETWORK, "a_node.tntp": NODES},
    {**GMNS, "config.csv": CONFIG_CSV},
    {"a.csv": CSV},
    {"a.csv": CSV.replace(",", ";").replace(".", ",")},
    {"a.geojson": json.dumps({"features": LINES})},
]
OF_ROADS: list[dict[str, Any]] = [
    {},
    {"units": "km,kph", "both_ways": True, "distance_weight": 2.0, "doubled": "sum"},
    {"columns": {"free_flow_time": "fft"}, "through_zones": False, "period_minutes": 30.0},
    {"lane_capacity": 9.0, "speed": 30.0, "time_unit": "hours", "toll_weight": 1.0},
]


def road_at_home(files: list[Any], options: dict[str, Any]) -> tuple[Any, list[str]]:
    """The network as JSON; or which options would mend what."""
    try:
        found = networks.read(*files, **options).network
    except TableError as error:
        return None, [about for about, _ in error.faults[: network_files.MOST_NOTES]]
    return json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace")), []


@pytest.mark.parametrize("seeds", SEEDS)
def test_home_and_the_service_read_nasty_networks_alike(seeds: range) -> None:
    taken = 0
    for seed in seeds:
        draw = random.Random(f"roads {seed}")
        texts = draw.choice(ROADS)
        files = {name: text.encode() for name, text in texts.items()}
        right = OF_ROADS[2 if "a.geojson" in texts else 0]
        options = draw.choice([right, right, right, *OF_ROADS])
        if draw.random() < 0.9:
            wrong = draw.choice(list(files))
            files[wrong] = torn(draw, files[wrong])
        memory = [networks.FileInMemory(name, content) for name, content in files.items()]
        arguments = {
            "files": [[name, len(content)] for name, content in files.items()],
            **{"options": options, "labels": {}, "choices": {}, "chosen": True},
            "limit": {"setting": "job_body_bytes", "unit": "bytes", "allowed": 1 << 20},
        }
        begun = time.process_time()
        answer, sent = network_files.read_network(arguments, b"".join(files.values()), ())
        home, mended = road_at_home(memory, options)
        if home is None:
            assert [about for about, _ in answer["refused"]] == mended, seed
        else:
            assert json.loads(sent) == home, seed
            taken += 1
        assert time.process_time() - begun < MOST_SECONDS, seed
    assert len(seeds) / 10 < taken < len(seeds)

"""What cells and files mean, by the readers of client and service: the rows of `vectors`."""

from __future__ import annotations

import io
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import InvalidInput
from discreet.isolation import reading
from discreet.problems.contents import check_names, owner_column, real_column
from discreet_client import cells, networks, readers, tables, tntp
from discreet_client.cells import AS_WRITTEN, Grammar, distinct
from discreet_client.tables import TableError, read_csv
from tests.clients.vectors import ROWS, TRIPS, ZONE, content_of, described, meaning_of, name_of


def by_the_client(row: dict[str, Any], path: Path) -> Any:
    path.write_bytes(content_of(row))
    kind, public = described(row)
    return meaning_of(row, readers.read(kind, path, public).columns)


@pytest.mark.parametrize("least", [0, 1 << 30], ids=["columns", "cells"])
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_client(
    row: dict[str, Any], least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pyarrow, which files take from so many bytes on, and a cell at a time."""
    monkeypatch.setattr(tables, "LEAST_QUICK", least)
    monkeypatch.setattr(cells, "MOST_APART", 0 if least == 0 else 1 << 30)
    if "refused" in row:
        with pytest.raises(TableError) as refused:
            by_the_client(row, tmp_path / "table.csv")
        assert row["refused"] in str(refused.value)
    else:
        assert by_the_client(row, tmp_path / "table.csv") == row["is"]


class Kind:
    """Of the service: it takes a table as it comes."""

    OWNER, ROW_BYTES = "person", 1

    @staticmethod
    def by_units(*_: Any) -> None:
        return None

    @staticmethod
    def read_batches(_: Any, batches: Any, schema: Any) -> pa.Table:
        table = pa.Table.from_batches(list(batches), schema)
        assert table.column_names
        return table


def by_the_service(row: dict[str, Any]) -> Any:
    """What its reader of uploads makes of the columns, by the checks of all kinds."""
    content = content_of(row)
    job = {"format": "csv", "content_bytes": 1 << 30}
    table = reading._content(Kind, {}, lambda: io.BytesIO(content), job)
    if row["of"] == "people":
        return len(set(owner_column(table, "person", "/content").tolist()))
    names = ["kw"] if row["of"] == "number" else ["origin", "destination"]
    if row["of"] == "file":
        check_names(table, names, (), "/content")
    columns = [real_column(table, name, "/content") for name in names]
    if row["of"] == "number":
        return float(columns[0][0])
    return [list(one) for one in zip(*(column.tolist() for column in columns), strict=True)]


OF_SERVICE = [
    row
    for row in ROWS
    if "rules" not in row
    and row["of"] in ("number", "people", "file")
    and row.get("service") != "not looked at here"  # but by each kind: what is not finite
]


@pytest.mark.parametrize("row", OF_SERVICE, ids=name_of)
def test_the_service(row: dict[str, Any]) -> None:
    """Where it says something else, the row has it."""
    expected = row.get("service", row.get("is", InvalidInput))
    if expected is InvalidInput or isinstance(expected, str):
        with pytest.raises(InvalidInput) as refused:
            by_the_service(row)
        assert not isinstance(expected, str) or expected in str(refused.value)
    else:
        assert by_the_service(row) == expected


def test_there_are_enough() -> None:
    assert len(ROWS) >= 200
    assert len({json.dumps(row, sort_keys=True) for row in ROWS}) == len(ROWS)


MINUTES = [f"2026-07-01T{hour:02}:30:00+02:00" for hour in range(8, 12)]
HOURS = {**TRIPS, "zones": 9, "periods": 24, "trip_scale": 100}
HOURS["reader"] = {"start": "2026-07-01T00:00", **ZONE, "missing": "leave_out"}


def test_one_table_in_every_container_is_the_same(tmp_path: Path) -> None:
    """Times with their zone, decimals and nulls; pandas, pyarrow and CSV."""
    times = pd.to_datetime(MINUTES).tz_convert("Europe/Berlin")
    counts = [Decimal("1.50"), None, Decimal("2.25"), Decimal("4.00")]
    arrow = pa.table(
        {
            "origin": pa.array([1, 2, 3, 4]),
            "destination": pa.array(["2", "3", "4", "5"]).dictionary_encode(),
            "time": pa.array(times),
            "count": pa.array(counts, pa.decimal128(5, 2)),
        }
    )
    pq.write_table(arrow, tmp_path / "arrow.parquet")
    frame = pd.DataFrame({"origin": [1, 2, 3, 4], "destination": [2, 3, 4, 5], "time": times})
    frame["count"] = [1.5, None, 2.25, 4.0]
    frame.to_parquet(tmp_path / "pandas.parquet")
    written = zip(MINUTES, ("1,5", "", "2.25", "4"), strict=True)
    lines = [f"{row};{row + 1};{time};{count}\n" for row, (time, count) in enumerate(written, 1)]
    file = tmp_path / "trips.csv"
    file.write_text("origin;destination;time;count\n" + "".join(lines))
    sources = [arrow, frame, tmp_path / "arrow.parquet", tmp_path / "pandas.parquet", file]
    for source in sources:
        found = readers.read("routing", source, HOURS).columns
        assert found["period"].tolist() == [8, 10, 11]
        assert found["count"].tolist() == [1.5, 2.25, 4.0]
        assert found["origin"].tolist() == [1, 3, 4]
        assert found["destination"].tolist() == [2, 4, 5]


@pytest.mark.parametrize("values", [[[1]], [b"1"], [{"a": 1}]])
def test_what_is_no_cell_is_refused_by_its_type(values: Any) -> None:
    with pytest.raises(TableError, match=r"column origin holds .*: one number, text or time a row"):
        readers.read("routing", pa.table({"origin": values, "destination": [2]}), TRIPS)


def test_a_row_less_changes_no_other() -> None:
    """What a cell means is said by the description, never by what stands in other rows."""
    cells = ["0,5", "1.25", "12,5", "7", "0.125", "21,125"]
    whole = [AS_WRITTEN, Grammar(";"), Grammar(";", decimal=","), Grammar(";", thousands=".")]
    for grammar in whole:
        meant = np.array([repr(grammar.number(cell)) for cell in cells])
        for gone in range(len(cells)):
            rest = [cell for place, cell in enumerate(cells) if place != gone]
            assert [repr(grammar.number(cell)) for cell in rest] == np.delete(meant, gone).tolist()
    figures = [0.5, 1.25, 12.5, 7, 0.125, 21.125]
    for gone in range(len(cells)):
        lines = ["kw;", *(f"{cell};" for cell in np.delete(cells, gone).tolist())]
        read = read_csv("\n".join(lines).encode()).numbers("kw")
        assert read.tolist() == np.delete(figures, gone).tolist()


def test_a_column_says_all_its_mistakes_at_once(tmp_path: Path) -> None:
    file = tmp_path / "meters.csv"
    cells = ["1,5", "1.234", "many", "2.345", "1e400", "few"]
    file.write_text(
        "participant;time;kw\n" + "".join(f"m;0{n + 1}.01.2026;{c}\n" for n, c in enumerate(cells))
    )
    with pytest.raises(TableError) as refused:
        readers.read("dr_ensemble", file, {"reader": ZONE})
    lines = sorted(str(refused.value).splitlines())
    assert len(lines) == 3
    assert lines[0].startswith("line 3, column kw: is this a fraction, or are thousands parted")
    assert "found '1.234' (and 1 more like this, up to line 5)" in lines[0]
    assert lines[1].startswith("line 4, column kw: a number is needed (if it stands for a missing")
    assert lines[2] == "line 6, column kw: this number is too large; found '1e400'"


def test_equal_values_that_mean_different_things_stay_apart() -> None:
    late = datetime(2026, 10, 25, 2, 30, fold=1)
    values = np.array([1, 1.0, True, "1", late, late.replace(fold=0), "1", 1], dtype=object)
    once, places = distinct(values)
    assert len(once) == 6
    assert places.tolist() == [0, 1, 2, 3, 4, 5, 3, 0]
    assert [one.fold for one in once[4:]] == [1, 0]


def omx(path: Path, **lookups: Any) -> Path:
    with h5py.File(path, "w") as file:
        file["data/trips"] = np.array([[0, 5, 0], [0, 0, 7], [0, 0, 0.0]])
        for name, ids in lookups.items():
            file[f"lookup/{name}"] = ids
    return path


def test_zones_of_omx_are_those_of_its_lookup(tmp_path: Path) -> None:
    public = {**TRIPS, "zones": 3}

    def ends(path: Path, **reader: Any) -> list[tuple[int, int]]:
        found = readers.read("routing", path, {**public, "reader": reader}).columns
        return list(zip(found["origin"].tolist(), found["destination"].tolist(), strict=True))

    turned = omx(tmp_path / "turned.omx", taz=[3, 1, 2])
    assert ends(turned) == [(3, 1), (1, 2)]
    assert ends(turned, lookup="none") == ends(omx(tmp_path / "bare.omx")) == [(1, 2), (2, 3)]
    texts = omx(tmp_path / "texts.omx", taz=np.array([b"C", b"A", b"B"]))
    assert ends(texts, zones=["A", "B", "C"]) == [(3, 1), (1, 2)]
    two = omx(tmp_path / "two.omx", a=[3, 2, 1], taz=[1, 2, 3])
    with pytest.raises(TableError, match=r"the lookups a, taz, .*: say reader.lookup"):
        ends(two)
    assert ends(two, lookup="a") == [(3, 2), (2, 1)]
    with pytest.raises(TableError, match="has no lookup b; there are a, taz, none"):
        ends(two, lookup="b")
    with pytest.raises(TableError, match="does not name each of 3 zones once"):
        ends(omx(tmp_path / "twice.omx", taz=[1, 1, 2]))
    (tmp_path / "text.omx").write_text("hello")
    with pytest.raises(TableError, match="cannot be read as OMX"):
        ends(tmp_path / "text.omx")
    with h5py.File(tmp_path / "vast.omx", "w") as file:
        file.create_dataset("data/trips", (200_000, 200_000), "f8", chunks=(64, 64))
    with pytest.raises(TableError, match="has 200,000 zones, at most 16,384 are read"):
        ends(tmp_path / "vast.omx")


def test_a_file_of_zones_may_name_one_na(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text("id,number\nNA,2\nA,1\n")
    (tmp_path / "trips.csv").write_text("origin,destination,count\nNA,A,3\nA,NA,NA\n")
    reader = {"zones": str(tmp_path / "zones.csv"), "missing": "leave_out"}
    found = readers.read("routing", tmp_path / "trips.csv", {**TRIPS, "reader": reader})
    assert [found.columns[name].tolist() for name in ("origin", "destination")] == [[2], [1]]
    assert "1 row with a value that is missing is left out" in found.notes


def test_an_action_may_be_called_na(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("patient,time,action,reward\na,1,NA,1\nb,1,drug,0\n")
    reader = {"behaviour": {"NA": 0.5, "drug": 0.5}, "target": {"NA": 1, "drug": 0}}
    public = {"unit": "trajectory", "horizon": 1, "reward_bound": 1, "reader": reader}
    assert len(readers.read("off_policy_evaluation", file, public).columns["reward"]) == 2


def test_what_follows_an_end_is_no_part_of_an_episode() -> None:
    episode = {
        "observations": np.array([0, 1, 0, 1, 0]),
        "actions": np.ones(4, int),
        "rewards": np.array([0, 1, 0, 1.0]),
        "terminations": [0, 1, 0, 1],
    }
    public = {"unit": "trajectory", "states": 2, "horizon": 4, "reward_bound": 1}
    public["reader"] = {"behaviour": {"1": 1}, "target": {"1": 1}}
    with pytest.raises(TableError, match="episode 0 terminates at step 1, and goes on to step 3"):
        readers.read("off_policy_evaluation", [episode], public)
    episode["terminations"] = [0, 0, 0, 1]
    assert readers.read("off_policy_evaluation", [episode], public).columns["reward"].size == 4


NODES = "node_id,x_coord,y_coord,zone_id,name\n1.0,0,0,2.0,West\n2.0,1,0,10.0,\n3.0,2,0,1.0,East\n"
LINKS = (
    "link_id,from_node_id,to_node_id,directed,length,free_speed,capacity,lanes,allowed_uses,alpha\n"
    "1,1.0,2.0,1,1,60,800,2,auto,0.15\n2,2.0,3.0,1,1,60,800,3,auto,\n"
)


def test_gmns_stays_gmns_when_columns_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "node.csv").write_text(NODES)
    (tmp_path / "link.csv").write_text(LINKS)
    units = {"units": "km,kph"}
    plain = networks.read(tmp_path, **units).network
    assert plain["node_names"] == ["3", "1", "2"]  # zones 1, 2, 10: as numbers, not as texts
    mapped = networks.read(tmp_path, columns={"b": "alpha", "node_name": "name"}, **units).network
    assert mapped["node_names"] == ["East", "West", "2"]  # one without a name keeps its id
    assert [link["capacity"] for link in mapped["links"]] == [1600, 2400]
    assert [link.get("b") for link in mapped["links"]] == [0.15, None]
    (tmp_path / "link.csv").write_text(LINKS.replace("3,auto", "3,bike"))
    with pytest.raises(TableError, match="a link without cars"):
        networks.read(tmp_path, columns={"b": "alpha"}, **units)


def test_points_in_a_network_s_numbers_are_asked_about(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("tail;head;free_flow_time;capacity\n1;2;1;1.800\n2;1;1;950\n")
    with pytest.raises(TableError, match=r"parted by a point\? say decimal='.'; found '1.800'"):
        networks.read(file)
    assert networks.read(file, decimal=".").network["links"][0]["capacity"] == 1.8


def test_a_line_that_qgis_calls_many(tmp_path: Path) -> None:
    def drawn(*lines: Any) -> Path:
        geometry = {"type": "MultiLineString", "coordinates": lines}
        properties = {"free_flow_time": 1, "capacity": 9}
        feature = {"type": "Feature", "properties": properties, "geometry": geometry}
        path = tmp_path / "roads.geojson"
        path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
        return path

    assert len(networks.read(drawn([[0, 0], [1, 1]])).network["links"]) == 1
    with pytest.raises(TableError, match=r"several lines: .*Multipart to singleparts"):
        networks.read(drawn([[0, 0], [1, 1]], [[2, 2], [3, 3]]))


def test_a_trips_file_that_was_cut_off_is_told_by_its_total() -> None:
    head = "<NUMBER OF ZONES> 3\n<TOTAL OD FLOW> 12\n<END OF METADATA>\n\nOrigin 1\n 2 : 5.0;"
    with pytest.raises(TableError, match="is 12, and the trips below sum to 5: is the file whole"):
        tntp.read_trips(head)
    assert len(tntp.read_trips(f"{head} 3 : 7.0;\n").rows) == 2
    assert len(tntp.read_trips(head.replace("<TOTAL OD FLOW> 12\n", "")).rows) == 1

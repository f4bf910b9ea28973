"""Networks from the field's own files, and link flows back into them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from discreet.errors import InvalidInput
from discreet.installation import local
from discreet.problems.charts import draw_result
from discreet.problems.road_networks.network import RoadNetwork
from discreet_client.flows import NotWritten, busiest, link_flows
from discreet_client.networks import NetworkReading, read
from discreet_client.networks.measures import MEASURED
from discreet_client.tables import TableError
from tests import bodies
from tests.growth import LINEAR, growth
from tests.problems.test_tntp import NETWORK, NODES

NODE_CSV = "node_id,x_coord,y_coord,zone_id\n10,0,0,2\n20,1,0,\n30,1,1,1\n"
LINK_CSV = (
    "link_id,from_node_id,to_node_id,directed,length,free_speed,capacity,lanes,geometry,name\n"
    'a,10,20,0,1.5,60,900,2,"LINESTRING (0 0, 0.5 0.2, 1 0)",Main\nb,20,30,1,1,30,800,1,,\n'
)
CONFIG_CSV = "dataset_name,long_length,speed\nx,mi,mph\n"
GMNS = {"node.csv": NODE_CSV, "link.csv": LINK_CSV, "config.csv": CONFIG_CSV}
LINES: list[dict[str, Any]] = [
    {
        "type": "Feature",
        "geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1], [2, 0]]},
        "properties": {"fft": 3, "capacity": 50, "directed": False},
    },
    {
        "type": "Feature",
        "geometry": {"type": "Point", "coordinates": [2, 0]},
        "properties": {"zone": 1},
    },
]


def written(folder: Path, files: dict[str, str]) -> list[Path]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return [folder / name for name in files]


def test_a_stored_network_is_known_to_a_server_alone() -> None:
    """`discreet plan` and `rehearse` of a file with its dataset inside ask no server."""
    problem = {"kind": "routing", "dataset": bodies.dataset(), "network": "net_1"}
    with pytest.raises(InvalidInput, match="/problem/network: net_1 is known to a server alone"):
        local.plan({"problem": problem, "privacy": {"epsilon": 1}})
    with pytest.raises(InvalidInput, match="discreet network show net_1 --json"):
        draw_result(problem, {"link_flows": [1.0]}, Path("never.png"))


def test_tntp_with_places(tmp_path: Path) -> None:
    paths = written(tmp_path, {"Town_net.tntp": NETWORK, "Town_node.tntp": NODES})
    reading = read(*paths)
    assert reading.name == "Town"
    assert reading.network["nodes_xy"] == [[1, 2], [-96.5, 4], [5, -0.6]]
    assert (reading.network["nodes"], reading.network["first_through_node"]) == (3, 3)
    assert reading.network["links"][0] == {
        "tail": 1,
        "head": 3,
        "free_flow_time": 4,
        "capacity": 100.5,
        "b": 0.15,
        "power": 4,
    }
    RoadNetwork.model_validate(reading.network)
    other = NETWORK.replace("\t3\t", "\t35\t").replace("\t3\t2", "\t35\t2")
    named = written(
        tmp_path, {"O_net.tntp": other, "O_node.tntp": NODES.replace("\n3\t", "\n35\t")}
    )
    assert read(*named).network["node_names"] == ["1", "2", "35"]
    assert read(*named).network["nodes_xy"] == reading.network["nodes_xy"]


def test_gmns(tmp_path: Path) -> None:
    written(tmp_path, GMNS)
    reading = read(tmp_path)
    network = reading.network
    assert network["node_names"] == ["30", "10", "20"]  # zones 1 and 2 first
    assert network["nodes_xy"] == [[1, 1], [0, 0], [1, 0]]
    assert network["link_names"] == [
        "Main",
        "Main (back)",
        "b",
    ]  # a street by its name, else by its id
    assert [(link["tail"], link["head"]) for link in network["links"]] == [(2, 3), (3, 2), (3, 1)]
    assert [link["free_flow_time"] for link in network["links"]] == pytest.approx([1.5, 1.5, 2])
    assert [link["capacity"] for link in network["links"]] == [1800, 1800, 800]
    assert network["link_shapes"] == [[[0.5, 0.2]], [[0.5, 0.2]], []]
    assert reading.left_out == []
    assert RoadNetwork.model_validate(network).own_issues() == []
    assert (network["period_minutes"], network["time_unit"]) == (60, "minutes")
    half = read(tmp_path, period_minutes=30, through_zones=False).network
    assert half["period_minutes"] == 30
    assert [link["capacity"] for link in half["links"]] == [900, 900, 400]
    assert half["first_through_node"] == 3
    metric = read(*(tmp_path / name for name in ("link.csv", "node.csv")), units="km,mph").network
    assert metric["links"][0]["free_flow_time"] == pytest.approx(1.5 / 1.609344)


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("config.csv", CONFIG_CSV, "dataset_name\nx\n", "units of length and speed are needed"),
        ("node.csv", "20,1,0,\n", "20,1,0,1\n", "zone 1 has the nodes 20 and 30"),
        ("link.csv", "b,20,30,1,1,30", "b,20,30,1,1,0", "line 3, column free_speed"),
        (
            "link.csv",
            "b,20,30",
            "b,20,31",
            "line 3, column to_node_id: a node that is not in node.csv; found '31'",
        ),
        ("link.csv", ",name\n", ",allowed_uses\n", "column allowed_uses: a link without cars"),
        ("link.csv", ",name\n", ",toll\n", "column toll: a number is needed"),
        (
            "link.csv",
            "LINESTRING (0 0, 0.5 0.2, 1 0)",
            "POINT (0 0)",
            "column geometry: LINESTRING",
        ),
        ("movement.csv", "", "mvmt_id\n1\n", "turns and what they cost are not modelled"),
    ],
)
def test_what_gmns_says_and_nobody_models_is_refused(
    tmp_path: Path, file: str, old: str, new: str, says: str
) -> None:
    text = GMNS.get(file, "")
    assert old in text
    written(tmp_path, {**GMNS, file: text.replace(old, new) if old else new})
    with pytest.raises(TableError, match=says.replace("(", r"\(")):
        read(tmp_path)


GMNS_LINK: dict[str, tuple[type, float | None]] = {
    "link_id": (str, None),
    "from_node_id": (str, None),
    "to_node_id": (str, None),
    "directed": (bool, None),
    "geometry": (str, None),
    "capacity": (float, 0),
    "lanes": (int, 0),
}
"""Of the published schema of link.csv (GMNS of the Zephyr Foundation, link.schema.json): type and
least value of the fields that are written here; the first four are required."""


@pytest.mark.parametrize("minutes", [30, 60, 120])
def test_link_csv_keeps_to_the_published_schema(minutes: float, tmp_path: Path) -> None:
    """From GMNS and back: the same links, with capacities of an hour and a lane, whatever period
    jobs have."""
    written(tmp_path, GMNS)
    network = read(tmp_path, period_minutes=minutes).network
    rows = list(
        csv.DictReader(
            io.StringIO(link_flows({"link_flows": [1.0, 2.0, 3.0]}, network, "gmns").decode())
        )
    )
    for row in rows:
        for name, (kind, least) in GMNS_LINK.items():
            assert (
                row[name] in ("true", "false", "1", "0")
                if kind is bool
                else kind(row[name]) is not None
            )
            assert least is None or float(row[name]) >= least
        assert all(row[name] for name in list(GMNS_LINK)[:4])
    assert len({row["link_id"] for row in rows}) == 3
    nodes = {node.split(",")[0] for node in NODE_CSV.splitlines()[1:]}
    assert {row[end] for row in rows for end in ("from_node_id", "to_node_id")} == nodes
    assert [float(row["capacity"]) * int(row["lanes"]) for row in rows] == [1800, 1800, 800]
    assert float(rows[0]["flow_over_capacity"]) == pytest.approx(1 / (1800 * minutes / 60))
    header = link_flows({"link_flows": []}, {"links": []}, "gmns").decode()
    assert header.strip().split(",") == list(GMNS_LINK)[:4]


def test_a_spreadsheet_may_write_numbers_with_commas() -> None:
    links = [{"tail": 1, "head": 2, "free_flow_time": 1.5, "capacity": 4.0}]
    network = {"links": links, "link_names": ["Am Ring 1.2; Nord"], "node_names": ["a", "b.c"]}
    told = {"link_flows": [np.float64(2.25)]}
    plain, commas = (
        link_flows(told, network, "csv", decimal=mark).decode("utf-8-sig") for mark in ".,"
    )
    (row,) = csv.DictReader(io.StringIO(commas), delimiter=";")
    assert (row["to_node"], row["capacity"], row["flow"]) == (
        "b.c",
        "4,0",
        "2,25",
    )  # names keep their dots
    (same,) = csv.DictReader(io.StringIO(plain))
    assert same["link"] == row["link"]
    assert {
        name: one.replace(",", ".")
        for name, one in row.items()
        if name not in ("link", "from_node", "to_node")
    } == {name: one for name, one in same.items() if name not in ("link", "from_node", "to_node")}
    for form, mark in (("gmns", ","), ("csv", ";")):
        with pytest.raises(NotWritten, match="decimal"):
            link_flows(told, network, form, decimal=mark)


def test_tolls_need_a_weight(tmp_path: Path) -> None:
    tolled = LINK_CSV.replace(",name\n", ",toll\n").replace(",Main\n", ",2\n")
    written(tmp_path, {**GMNS, "link.csv": tolled})
    with pytest.raises(TableError, match="line 2, column toll: a toll whose weight nobody says"):
        read(tmp_path)
    links = read(tmp_path, toll_weight=0.5).network["links"]
    assert [link.get("fixed_cost") for link in links] == [1, 1, None]


def test_tolls_of_csv_and_geojson_need_a_weight(tmp_path: Path) -> None:
    """A toll in money is worth a time, beside what a link costs otherwise; a column of nothing is
    no toll."""
    text = "tail,head,free_flow_time,capacity,fixed_cost,toll\n1,2,5,9,1,2\n2,1,5,9,,\n1,3,5,9,,4\n"
    [file] = written(tmp_path, {"roads.csv": f"{text}3,1,5,9,2,0\n"})
    with pytest.raises(TableError, match=r"line 2, column toll: a toll.* give toll_weight, how"):
        read(file)
    links = read(file, toll_weight=0.5).network["links"]
    assert [link.get("fixed_cost") for link in links] == [2, None, 2, 2]
    with pytest.raises(TableError, match="toll_weight says nothing of CSV without a column toll"):
        read(
            *written(tmp_path, {"free.csv": "tail,head,free_flow_time,capacity\n1,2,5,9\n"}),
            toll_weight=1,
        )
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    said = {"tail": 1, "head": 2, "free_flow_time": 5, "capacity": 9, "toll": 3}
    features = {"features": [{"type": "Feature", "geometry": line, "properties": said}]}
    [drawn] = written(tmp_path, {"roads.geojson": json.dumps(features)})
    with pytest.raises(TableError, match="column toll: a toll"):
        read(drawn)
    assert read(drawn, toll_weight=2).network["links"][0]["fixed_cost"] == 6


def test_lengths_cost_by_a_weight_of_their_own(tmp_path: Path) -> None:
    """For a unit of the file's length, beside tolls by theirs; in every format that has lengths."""
    text = "tail,head,length,speed,capacity,toll\n1,2,3,60,9,4\n2,1,3,60,9,\n1,3,0,60,9,\n"
    [file] = written(tmp_path, {"roads.csv": f"{text}3,1,1.5,60,9,2\n"})
    known: dict[str, Any] = {"units": "mi,mph", "toll_weight": 0.5}
    plain, weighed = read(file, **known), read(file, **known, distance_weight=2)
    costs = [link.get("fixed_cost") for link in weighed.network["links"]]
    assert costs == [3 * 2 + 4 * 0.5, 6, None, 1.5 * 2 + 2 * 0.5]
    assert [one["free_flow_time"] for one in weighed.network["links"]] == [
        one["free_flow_time"] for one in plain.network["links"]
    ]
    assert any("2 of time for each unit of mi" in note for note in weighed.notes)
    timed = "tail,head,free_flow_time,km,capacity,fixed_cost\n1,2,5,3,9,1\n2,1,5,4,9,\n"
    [clock] = written(tmp_path, {"timed.csv": timed})
    links = read(clock, columns={"length": "km"}, distance_weight=0.25).network["links"]
    assert [link["fixed_cost"] for link in links] == [1.75, 1]
    with pytest.raises(TableError, match="distance_weight says nothing of CSV without a column le"):
        read(clock, distance_weight=1)
    wrong = timed.replace(",4,9", ",-4,9").replace(",3,9", ",,9")
    [cells] = written(tmp_path, {"wrong.csv": wrong})
    with pytest.raises(TableError, match="column km"):
        read(cells, columns={"length": "km"}, distance_weight=1)
    for weight in (-1, float("nan"), float("inf")):
        with pytest.raises(TableError, match="distance_weight is a number of at least 0"):
            read(file, **known, distance_weight=weight)
    written(tmp_path, GMNS)
    before, after = read(tmp_path), read(tmp_path, distance_weight=3)
    assert [link.get("fixed_cost", 0) for link in before.network["links"]] == [0, 0, 0]
    first = float(next(csv.DictReader(io.StringIO(LINK_CSV)))["length"])
    assert after.network["links"][0]["fixed_cost"] == 3 * first
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    said = {"tail": 1, "head": 2, "free_flow_time": 5, "capacity": 9, "length": 3}
    features = {"features": [{"type": "Feature", "geometry": line, "properties": said}]}
    [drawn] = written(tmp_path, {"roads.geojson": json.dumps(features)})
    assert read(drawn, distance_weight=2).network["links"][0]["fixed_cost"] == 6


def test_nodes_of_gmns_by_their_names(tmp_path: Path) -> None:
    """`node_name` is the one column of GMNS that is chosen; what else it reads stays as it is."""
    first, *lines = NODE_CSV.splitlines()
    nodes = [f"name,{first}", *(f"Place {line[:2]},{line}" for line in lines)]
    named = {**GMNS, "node.csv": "\n".join(nodes)}
    written(tmp_path, named)
    by_id, by_name = read(tmp_path), read(tmp_path, columns={"node_name": "name"})
    assert any("columns={'node_name': 'name'} calls" in note for note in by_id.notes)
    assert by_name.network["node_names"] == ["Place 30", "Place 10", "Place 20"]
    assert by_name.network["links"] == by_id.network["links"]
    assert by_name.network["nodes_xy"] == by_id.network["nodes_xy"]
    with pytest.raises(TableError, match="no column called"):
        read(tmp_path, columns={"node_name": "called"})


def test_gmns_stays_gmns_whatever_is_chosen(tmp_path: Path) -> None:
    """Lanes are multiplied and links without cars refused as ever, and nodes without a name keep
    their ids."""
    head, *links = LINK_CSV.splitlines()
    plain = [f"alpha,{head}", *(f"0.{number},{link}" for number, link in enumerate(links, 1))]
    first, *lines = NODE_CSV.splitlines()
    nodes = [
        f"name,{first}",
        *((f"Place {n}" if n else "") + f",{line}" for n, line in enumerate(lines)),
    ]
    files = {**GMNS, "link.csv": "\n".join(plain), "node.csv": "\n".join(nodes)}
    written(tmp_path, files)
    bare = read(tmp_path).network
    for columns in ({"b": "alpha"}, {"b": "alpha", "node_name": "name"}, {"capacity": "capacity"}):
        found = read(tmp_path, columns=columns).network
        for name in ("capacity", "free_flow_time"):
            assert [link[name] for link in found["links"]] == [link[name] for link in bare["links"]]
        assert ("b" in found["links"][0]) == ("b" in columns)
    found = read(tmp_path, columns={"node_name": "name"}).network["node_names"]
    assert sorted(found) == ["10", "Place 1", "Place 2"]
    cycling = files["link.csv"].replace(",name", ",allowed_uses").replace("alpha", "beta")
    written(tmp_path, {**files, "link.csv": cycling})
    with pytest.raises(TableError, match="a link without cars"):
        read(tmp_path, columns={"b": "beta"})


def test_csv_by_its_own_names(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        {
            "roads.csv": "from;to;t;cap;kind;b\nMill;Inn;1,5;100;x;\nInn;Mill;2;100;x;0,3\n",
            "places.csv": "id;lon;lat\nInn;1;1\nMill;0;0,5\n",
        },
    )
    columns = {"tail": "from", "head": "to", "free_flow_time": "t", "capacity": "cap"}
    reading = read(*paths, columns={**columns, "node": "id", "x": "lon", "y": "lat"})
    assert reading.network == {
        "nodes": 2,
        "links": [
            {"tail": 2, "head": 1, "free_flow_time": 1.5, "capacity": 100},
            {"tail": 1, "head": 2, "free_flow_time": 2, "capacity": 100, "b": 0.3},
        ],
        "node_names": ["Inn", "Mill"],
        "nodes_xy": [[1, 1], [0, 0.5]],
    }
    assert reading.left_out == ["roads.csv: nothing was asked of kind"]
    hours = read(
        *paths, columns={**columns, "node": "id", "x": "lon", "y": "lat"}, time_unit="hours"
    )
    assert hours.network == {**reading.network, "time_unit": "hours"}
    assert RoadNetwork.model_validate(hours.network).own_issues() == []
    with pytest.raises(TableError, match="time_unit is seconds, minutes, hours, not days"):
        read(*paths, time_unit="days")
    with pytest.raises(TableError, match="nothing is called 'tial' here"):
        read(*paths, columns={"tial": "from"})
    with pytest.raises(TableError, match="no column capacity"):
        read(
            paths[0],
            columns={name: column for name, column in columns.items() if name != "capacity"},
        )


@pytest.mark.parametrize("form", ["csv", "tntp", "geojson"])
def test_capacities_of_an_hour_become_those_of_a_period(form: str, tmp_path: Path) -> None:
    """And the network says so; else nobody knows of which period they are."""
    path = {
        "csv": "tail,head,free_flow_time,capacity\n1,2,5,100.5\n",
        "tntp": NETWORK,
        "geojson": json.dumps({"type": "FeatureCollection", "features": LINES}),
    }
    (file,) = written(tmp_path, {f"roads_net.{form}": path[form]})
    columns = {"free_flow_time": "fft"} if form == "geojson" else {}
    hourly = read(file, columns=columns)
    two_hours = read(file, columns=columns, period_minutes=120)
    assert "period_minutes" not in hourly.network
    assert (
        hourly.notes[-1]
        == "capacities are taken as vehicles per period, as they stand in the file; if they are "
        "per hour, give period_minutes"
    )
    assert two_hours.network["period_minutes"] == 120
    assert (
        two_hours.notes[-1]
        == "capacities, per hour in the file, were converted to periods of 120 minutes"
    )
    capacities = (
        [link["capacity"] for link in one.network["links"]] for one in (hourly, two_hours)
    )
    assert [2 * capacity for capacity in next(capacities)] == next(capacities)
    for minutes in (0, -5, math.nan, math.inf, "60"):
        with pytest.raises(TableError, match="period_minutes is a number of minutes above 0"):
            read(file, columns=columns, period_minutes=minutes)  # type: ignore[arg-type]


def test_csv_of_lengths_and_speeds(tmp_path: Path) -> None:
    """As planners have them: the time follows, in minutes."""
    (path,) = written(tmp_path, {"roads.csv": "tail;head;km;v;capacity\nMill;Inn;1,5;60;100\n"})
    columns = {"length": "km", "speed": "v"}
    reading = read(path, columns=columns, units="km,kph")
    assert reading.network["links"] == [
        {"tail": 1, "head": 2, "free_flow_time": 1.5, "capacity": 100}
    ]
    assert reading.network["time_unit"] == "minutes"
    with pytest.raises(
        TableError,
        match="time_unit says nothing of links of lengths and speeds, which make minutes",
    ):
        read(path, columns=columns, units="km,kph", time_unit="hours")
    assert reading.notes[0].startswith("free_flow_time is length / speed, in minutes")
    assert read(path, columns=columns, units="mi,mph").network["links"][0]["free_flow_time"] == 1.5
    assert read(path, columns=columns, units="km,mph").network["links"][0][
        "free_flow_time"
    ] == pytest.approx(0.932057)
    with pytest.raises(TableError, match="units of length and speed are needed"):
        read(path, columns=columns)
    with pytest.raises(
        TableError,
        match=r"say columns=\{'free_flow_time': …\}, or columns=\{'length': …, 'speed': …\}",
    ):
        read(path)
    with pytest.raises(TableError, match="units says nothing of CSV with a column free_flow_time"):
        read(path, columns={"free_flow_time": "v"}, units="km,kph")


def test_nodes_need_no_coordinates(tmp_path: Path) -> None:
    """Their order and names, and those of the zones, are told without; a network has no map
    then."""
    nodes = "node,zone\nMill,\nInn,2\nPond,1\n"
    files = {
        "roads.csv": "tail,head,free_flow_time,capacity\nMill,Inn,1,9\nInn,Pond,1,9\n",
        "nodes.csv": nodes,
    }
    network = read(*written(tmp_path, files)).network
    assert network["node_names"] == ["Pond", "Inn", "Mill"]
    assert "nodes_xy" not in network
    assert RoadNetwork.model_validate(network).own_issues() == []
    half = "node,x,y,zone\nMill,1,2,\nInn,,,2\nPond,3,4,1\n"
    with pytest.raises(TableError, match="line 3, column x: a value is missing"):
        read(*written(tmp_path, {**files, "nodes.csv": half}))
    empty = half.replace("1,2,", ",,").replace("3,4,", ",,")
    assert read(*written(tmp_path, {**files, "nodes.csv": empty})).network == network
    paths = written(
        tmp_path, {**files, "nodes.csv": nodes.replace("zone", "x").replace(",\n", ",5\n")}
    )
    with pytest.raises(TableError, match="no column y; columns are: node, x"):
        read(*paths)
    with pytest.raises(TableError, match="no column lat; columns are: node, x"):
        read(*paths, columns={"y": "lat"})

    folder = tmp_path / "gmns"
    folder.mkdir()
    written(folder, {**GMNS, "node.csv": "node_id,zone_id\n10,2\n20,\n30,1\n"})
    bare = read(folder)
    assert bare.network["node_names"] == ["30", "10", "20"]
    assert not {"nodes_xy", "link_shapes"} & bare.network.keys()
    assert any("the lines of links are left out" in note for note in bare.notes)
    assert RoadNetwork.model_validate(bare.network).own_issues() == []


def test_nodes_are_called_as_people_call_them(tmp_path: Path) -> None:
    """Links know ids, trips know names; zone 1 is then the first of the table of nodes, and not the
    lowest id."""
    links = "tail,head,free_flow_time,capacity\n101,33,5,100\n33,101,5,100\n101,7,2,100\n"
    files = written(
        tmp_path, {"links.csv": links, "nodes.csv": "Nr,Name\n101,Markt\n33,S\u00fcd\n7,Park\n"}
    )
    made = read(*files, columns={"node": "Nr", "node_name": "Name"})
    assert made.network["node_names"] == ["Markt", "S\u00fcd", "Park"]
    assert [(link["tail"], link["head"]) for link in made.network["links"]] == [
        (1, 2),
        (2, 1),
        (1, 3),
    ]
    assert any("from zone 1 on Markt, S\u00fcd, Park" in note for note in made.notes)
    by_id = read(*files, columns={"node": "Nr"})
    assert by_id.network["node_names"] == ["7", "33", "101"]
    assert any(
        "from zone 1 on 7, 33, 101" in note for note in by_id.notes
    )  # nobody guesses it from the file
    (tmp_path / "nodes.csv").write_text("Nr,Name\n101,Markt\n33,Markt\n7,Park\n")
    with pytest.raises(
        TableError, match=r"line 3, column Name: two nodes are called so; found 'Markt'"
    ):
        read(*files, columns={"node": "Nr", "node_name": "Name"})
    with pytest.raises(TableError, match="no column Title"):
        read(*files, columns={"node": "Nr", "node_name": "Title"})
    (tmp_path / "links.csv").write_text(links + "101,8,1,1\n")
    (tmp_path / "nodes.csv").write_text("Nr,Name\n101,Markt\n33,S\u00fcd\n7,8\n")  # a name is no id
    with pytest.raises(TableError, match="end at node 8, missing from"):
        read(*files, columns={"node": "Nr", "node_name": "Name"})


def test_geojson_of_lengths_and_speeds(tmp_path: Path) -> None:
    line = {**LINES[0], "properties": {"metres": 1500, "v": 60, "capacity": 50}}
    (path,) = written(tmp_path, {"l.geojson": collection(line, LINES[1])})
    columns = {"length": "metres", "speed": "v"}
    reading = read(path, columns=columns, units="m,kph")
    assert [link["free_flow_time"] for link in reading.network["links"]] == pytest.approx([1.5])
    assert reading.notes[0] == "free_flow_time is length / speed, in minutes"
    assert reading.left_out == reading.warnings == []
    assert reading.network["time_unit"] == "minutes"
    assert read(path, columns=columns, units="ft,mps").network["links"][0][
        "free_flow_time"
    ] == pytest.approx(0.127)
    with pytest.raises(TableError, match="units of length and speed are needed"):
        read(path, columns=columns)
    with pytest.raises(
        TableError, match="units says nothing of GeoJSON with a column free_flow_time"
    ):
        read(path, columns={"free_flow_time": "v"}, units="km,kph")


@pytest.mark.parametrize(
    ("lengths", "speeds", "units", "says"),
    [
        (
            (800, 150),
            (50, 50),
            "km,kph",
            "line 2 is 800 km long and takes 960 minutes, .*: are lengths in metres",
        ),
        (
            (90, 60),
            (50, 50),
            "km,kph",
            "half of all links are longer than 75 km: are lengths in metres",
        ),
        ((0.8, 0.2), (50, 50), "m,kph", "half of all links are shorter than 0.5 m"),
        ((0.8, 0.2), (50, 260), "km,kph", "on the link of line 3 cars drive 260 km/h"),
        ((0.8, 0.2), (1, 0.5), "km,kph", "on half of all links cars drive less than 0.75 km/h"),
        ((0.8, 58), (250, 3), "km,kph", None),
        ((0.0, 0.2), (50, 50), "km,kph", None),
        ((800, 150), (50, 50), "m,kph", None),
    ],
)
def test_absurd_lengths_and_speeds_are_warned_of_and_taken(
    lengths: tuple[float, float],
    speeds: tuple[float, float],
    units: str,
    says: str | None,
    tmp_path: Path,
) -> None:
    rows = "".join(
        f"{tail},{3 - tail},{length},{speed},9\n"
        for tail, length, speed in zip((1, 2), lengths, speeds, strict=True)
    )
    (path,) = written(tmp_path, {"l.csv": "tail,head,length,speed,capacity\n" + rows})
    reading = read(path, units=units)
    assert len(reading.network["links"]) == 2
    assert len(reading.warnings) == (says is not None)
    if says is not None:
        assert re.search(says, reading.warnings[0])
    config = f"dataset_name,long_length,speed\nx,{units}\n"
    header = "link_id,from_node_id,to_node_id,length,free_speed,capacity\n"
    links = header + "".join(
        f"{place},{row}" for place, row in enumerate(rows.splitlines(keepends=True))
    )
    folder = tmp_path / "gmns"
    folder.mkdir()
    written(folder, {"link.csv": links, "config.csv": config, "node.csv": "node_id\n1\n2\n"})
    assert read(folder).warnings == reading.warnings


def test_links_without_an_opposite_one_are_counted_and_made(tmp_path: Path) -> None:
    links = "tail,head,free_flow_time,capacity,name\nA,B,1,5,Mill\nB,A,1,5,Mill back\nB,C,2,6,Inn\n"
    (path,) = written(tmp_path, {"l.csv": links})
    says = (
        "1 of 3 links lacks an opposite link, such as B to C: it is one-way; if it is not, "
        "both_ways or a column"
    )
    assert read(path).notes[0].startswith(says)
    both = read(path, both_ways=True)
    assert both.network["link_names"] == ["Mill", "Mill back", "Inn", "Inn (back)"]
    assert both.network["links"][3] == {"tail": 3, "head": 2, "free_flow_time": 2, "capacity": 6}
    assert not any("one-way" in note for note in both.notes)
    (told,) = written(
        tmp_path,
        {
            "d.csv": links.replace(",name", ",directed")
            .replace("Mill back", "1")
            .replace("Mill", "1")
            .replace("Inn", "0")
        },
    )
    assert len(read(told).network["links"]) == 4
    with pytest.raises(
        TableError, match="both_ways says nothing of links of which a column `directed` says it"
    ):
        read(told, both_ways=True)
    (tntp,) = written(tmp_path, {"T_net.tntp": NETWORK})
    with pytest.raises(TableError, match="both_ways says nothing of TNTP"):
        read(tntp, both_ways=True)


def test_a_street_that_stands_twice_is_refused_taken_once_or_summed(tmp_path: Path) -> None:
    """Two links side by side carry twice as much; those that differ in a figure are links side by
    side."""
    rows = (
        "tail,head,free_flow_time,capacity,name\na,b,1,10,Mill St\na,b,1,10,Mill "
        "St\nb,a,1,10,Mill St\na,b,2,10,By\n"
    )
    (file,) = written(tmp_path, {"town.csv": rows})
    says = (
        "1 link stands more than once with the same ends, name and figures: a to b, Mill St. So "
        "they would carry"
    )
    with pytest.raises(TableError, match=says) as refused:
        read(file)
    assert "doubled='keep-first' takes each once, doubled='sum' makes one link" in str(
        refused.value
    )
    for doubled, capacity in (("keep-first", 10), ("sum", 20)):
        reading = read(file, doubled=doubled)
        assert [link["capacity"] for link in reading.network["links"]] == [capacity, 10, 10]
        assert reading.network["link_names"] == ["Mill St (a → b)", "Mill St (b → a)", "By"]
        assert "1 link stands more than once" in " ".join(reading.notes)
    with pytest.raises(TableError, match="doubled is refuse, keep-first, sum, not both"):
        read(file, doubled="both")
    (file,) = written(
        tmp_path, {"town.csv": rows.replace("a,b,1,10,Mill St\n", "a,b,1,11,Mill St\n", 1)}
    )
    assert len(read(file).network["links"]) == 4
    (file,) = written(tmp_path, {"town.csv": rows + "b,a,1,10,Mill St\n"})
    with pytest.raises(
        TableError, match=r"2 links stand more than once .*: a to b, Mill St; b to a, Mill St"
    ):
        read(file)


def test_all_that_is_wrong_with_a_file_of_links_is_said_at_once(tmp_path: Path) -> None:
    """By the names of the file: a person mends it once."""
    (file,) = written(tmp_path, {"town.csv": "von;nach;laenge\na;b;1\n"})
    with pytest.raises(TableError) as refused:
        read(file, columns={"tail": "von"})
    lines = str(refused.value).splitlines()
    assert lines[0] == "no column head; say columns={'head': …}, where a link ends"
    assert lines[1].startswith(
        "no column free_flow_time; say columns={'free_flow_time': …}, or columns={'length': …, "
        "'speed': …} with units='km,kph', from"
    )
    assert lines[2].startswith(
        "no column capacity; say columns={'capacity': …}, or lane_capacity=N"
    )
    assert lines[3] == "columns are: von, nach, laenge"
    rows = (
        "von;nach;km;tempo;spuren;einbahn\n;b;1,5;50;2;ja\nb;c;-1;0;x;vielleicht\nc;a;1;50;0;nein\n"
    )
    (file,) = written(tmp_path, {"town.csv": rows})
    own = {
        "tail": "von",
        "head": "nach",
        "length": "km",
        "speed": "tempo",
        "lanes": "spuren",
        "directed": "einbahn",
    }
    with pytest.raises(TableError) as refused:
        read(file, columns=own, units="km,kph", lane_capacity=800)
    said = str(refused.value).splitlines()
    for one in (
        "line 2, column von (tail): a value is missing",
        "line 3, column km (length): a number of 0 or more is needed",
        "line 3, column tempo (speed): a speed above 0 is needed",
        "line 3, column spuren (lanes): a number is needed; found 'x'",
        "line 3, column einbahn (directed): true or false is needed",
    ):
        assert any(line.startswith(one) for line in said), (one, said)
    assert len(said) == 5


def test_one_speed_for_all_links_where_lengths_are_known(tmp_path: Path) -> None:
    (file,) = written(tmp_path, {"town.csv": "tail,head,length,capacity\na,b,1.5,5\nb,a,3,5\n"})
    with pytest.raises(
        TableError, match="or speed=N, of all links, beside the lengths that are there"
    ):
        read(file)
    reading = read(file, speed=30, units="km,kph")
    assert [one["free_flow_time"] for one in reading.network["links"]] == [3, 6]
    assert {"the speed of every link is taken to be 30", MEASURED} <= set(reading.notes)
    for value in (0, math.nan, "fast"):
        with pytest.raises(TableError, match="speed is a number above 0"):
            read(file, speed=value, units="km,kph")
    (timed,) = written(tmp_path, {"timed.csv": "tail,head,free_flow_time,capacity\na,b,1,5\n"})
    with pytest.raises(TableError, match="speed says nothing of CSV with a column free_flow_time"):
        read(timed, speed=30)


def test_files_of_several_encodings(tmp_path: Path) -> None:
    """Links out of Excel, nodes in UTF-8: each is read as it is written."""
    links, nodes = tmp_path / "links.csv", tmp_path / "nodes.csv"
    links.write_bytes(
        "tail,head,free_flow_time,capacity,name\n1,2,1,5,Mühlweg\n2,1,1,5,Gäßle\n".encode("cp1252")
    )
    nodes.write_bytes("node,node_name,zone\n1,Köln,1\n2,Füssen,2\n".encode())
    for files in ((links, nodes), (nodes, links)):
        network = read(*files, encoding="cp1252").network
        assert network["node_names"] == ["Köln", "Füssen"]
        assert network["link_names"] == ["Mühlweg", "Gäßle"]
    with pytest.raises(TableError, match=r"such as encoding='cp1252'$"):
        read(nodes, links, encoding="ascii")


def test_lanes_beside_capacities_are_not_counted_and_it_is_said(tmp_path: Path) -> None:
    rows = "tail,head,free_flow_time,capacity,lanes\na,b,1,800,{}\nb,c,1,800,1\n"
    (two, one) = written(tmp_path, {"two.csv": rows.format(2), "one.csv": rows.format(1)})
    assert [link["capacity"] for link in read(two).network["links"]] == [800, 800]
    assert any(note.startswith("lanes change no capacity") for note in read(two).notes)
    assert not any("lanes" in note for note in read(one).notes)  # the product is the same


def test_capacities_that_a_town_does_not_have_follow_from_lanes(tmp_path: Path) -> None:
    rows = "tail,head,length,speed,lanes,oneway\na,b,1,60,2,ja\nb,c,1,30,1,nein\n"
    (file,) = written(tmp_path, {"town.csv": rows})
    with pytest.raises(
        TableError, match=r"no column capacity; say .*lane_capacity=N, which is multiplied"
    ):
        read(file, units="km,kph")
    reading = read(
        file, units="km,kph", lane_capacity=800, period_minutes=30, columns={"directed": "oneway"}
    )
    assert [(one["free_flow_time"], one["capacity"]) for one in reading.network["links"]] == [
        (1, 800),
        (2, 400),
        (2, 400),
    ]
    assert "the capacity of a link is taken to be 800 for each of its lanes" in reading.notes
    assert not any(
        "both_ways" in note for note in reading.notes
    )  # a column says which links are one-way
    assert any(
        "1 of 3 links lacks an opposite link, such as a to b: it is one-way" in note
        for note in reading.notes
    )
    (plain,) = written(tmp_path, {"town.csv": "tail,head,free_flow_time\na,b,1\nb,a,1\n"})
    assert [one["capacity"] for one in read(plain, lane_capacity=700).network["links"]] == [
        700,
        700,
    ]
    for value in (0, -1, math.inf):
        with pytest.raises(TableError, match="lane_capacity is a number of vehicles above 0"):
            read(plain, lane_capacity=value)
    (known,) = written(tmp_path, {"town.csv": "tail,head,free_flow_time,capacity\na,b,1,5\n"})
    with pytest.raises(
        TableError, match="lane_capacity says nothing of CSV with a column capacity"
    ):
        read(known, lane_capacity=700)


def test_a_street_may_be_several_links(tmp_path: Path) -> None:
    """And some have no name: all are told apart by their ends."""
    rows = "A,B,1,5,High\nB,A,1,5,High\nA,B,2,5,High\nB,C,1,5,\nC,B,1,5,Low\n"
    (path,) = written(tmp_path, {"l.csv": "tail,head,free_flow_time,capacity,name\n" + rows})
    reading = read(path)
    assert reading.network["link_names"] == [
        "High (A → B)",
        "High (B → A)",
        "High (A → B) 2",
        "(B → C)",
        "Low",
    ]
    assert reading.notes[-2].startswith("4 of 5 links have no name, or share one")
    (single,) = written(
        tmp_path, {"l.csv": "tail,head,free_flow_time,capacity,name\nA,B,1,5,High\nB,C,1,5,High\n"}
    )
    names = read(single, both_ways=True).network["link_names"]
    assert names == ["High (A → B)", "High (B → A)", "High (B → C)", "High (C → B)"]
    assert RoadNetwork.model_validate(reading.network).own_issues() == []


@pytest.mark.parametrize("form", ["csv", "gmns", "geojson"])
def test_zones_with_names_are_what_their_nodes_are_called(tmp_path: Path, form: str) -> None:
    """As trips name them. Zones with numbers, of several nodes, or called as another node is leave
    nodes their ids."""
    ends = [("7", "9", 1), ("9", "7", 1), ("9", "Pond", 2), ("Pond", "9", 2)]

    def reading(zones: dict[str, str]) -> NetworkReading:
        if form == "geojson":
            places = {"7": [0, 0], "9": [1, 0], "Pond": [2, 1]}
            properties = [
                {"tail": tail, "head": head, "free_flow_time": time, "capacity": 50, "name": "Way"}
                for tail, head, time in ends
            ]
            lines = [
                {
                    "type": "Feature",
                    "properties": one,
                    "geometry": {
                        "type": "LineString",
                        "coordinates": [places[one["tail"]], places[one["head"]]],
                    },
                }
                for one in properties
            ]
            points = [
                {
                    "type": "Feature",
                    "properties": {"zone": zone},
                    "geometry": {"type": "Point", "coordinates": places[node]},
                }
                for node, zone in zones.items()
            ]
            files = {"l.geojson": json.dumps({"features": lines + points})}
            return read(*written(tmp_path, files))
        nodes = "".join(f"{node},{zones.get(node, '')}\n" for node in ("7", "9", "Pond"))
        if form == "gmns":
            rows = "".join(
                f"{place},{tail},{head},1,1,60,50,Way\n"
                for place, (tail, head, _) in enumerate(ends)
            )
            head = "link_id,from_node_id,to_node_id,directed,length,free_speed,capacity,name\n"
            files = {"link.csv": head + rows, "node.csv": "node_id,zone_id\n" + nodes}
            return read(*written(tmp_path, files), units="km,kph")
        rows = "".join(f"{tail},{head},{time},50,Way\n" for tail, head, time in ends)
        files = {
            "l.csv": "tail,head,free_flow_time,capacity,name\n" + rows,
            "n.csv": "node,zone\n" + nodes,
        }
        return read(*written(tmp_path, files))

    named = reading({"7": "Weststadt", "Pond": "Altstadt"})
    assert named.network["node_names"] == ["Altstadt", "Weststadt", "9"]
    assert named.network["link_names"][0] == "Way (Weststadt → 9)"
    assert named.network["links"][0]["tail"] == 2
    assert any(note.endswith("from zone 1 on Altstadt, Weststadt") for note in named.notes)
    assert reading({"7": "2", "Pond": "1"}).network["node_names"] == ["Pond", "7", "9"]
    assert reading({"7": "9", "Pond": "A"}).network["node_names"] == ["7", "Pond", "9"]
    with pytest.raises(TableError, match="zone A has the nodes 7 and Pond"):
        reading({"7": "A", "Pond": "A"})


def test_geojson_there_and_back(tmp_path: Path) -> None:
    (path,) = written(
        tmp_path, {"l.geojson": json.dumps({"type": "FeatureCollection", "features": LINES})}
    )
    network = read(path, columns={"free_flow_time": "fft"}).network
    assert network["link_shapes"] == [[[1, 1]], [[1, 1]]]
    assert network["nodes_xy"] == [[2, 0], [0, 0]]  # the zone first
    interval = {"lower": [4.0, 6.0], "upper": [6.0, 8.0]}
    result = {"link_flows": [5.0, 6.5], "uncertainty": {"values": {"link_flows": interval}}}
    features = json.loads(link_flows(result, network, "geojson"))["features"]
    assert [one["geometry"]["coordinates"] for one in features] == [
        [[0, 0], [1, 1], [2, 0]],
        [[2, 0], [1, 1], [0, 0]],
    ]
    said = features[1]["properties"]
    assert (said["flow"], said["flow_lower"], said["flow_upper"], said["flow_over_capacity"]) == (
        6.5,
        6,
        8,
        0.13,
    )
    rows = list(csv.DictReader(io.StringIO(link_flows(result, network, "gmns").decode())))
    assert [row["flow"] for row in rows] == ["5.0", "6.5"]
    assert rows[0]["geometry"] == "LINESTRING (0.0 0.0, 1.0 1.0, 2.0 0.0)"
    table = pq.read_table(io.BytesIO(link_flows(result, network, "parquet")))
    assert table.column("flow").to_pylist() == [5.0, 6.5]
    assert table.column("from_node_id").to_pylist() == [row["from_node_id"] for row in rows]
    bare = {name: value for name, value in network.items() if not name.endswith(("_xy", "_shapes"))}
    with pytest.raises(NotWritten, match="needs coordinates"):
        link_flows(result, bare, "geojson")
    assert b"LINESTRING" not in link_flows(result, bare, "gmns")
    with pytest.raises(NotWritten, match="no link flows"):
        link_flows({"unit_flows": []}, network, "gmns")
    with pytest.raises(NotWritten, match="it is of another network"):
        link_flows({"link_flows": [1.0]}, network, "parquet")
    broken = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "geometry": {"type": "Polygon"}}],
    }
    path.write_text(json.dumps(broken))
    with pytest.raises(TableError, match="feature 0: Polygon is not modelled"):
        read(path)


def test_flows_for_a_spreadsheet_and_the_busiest_links() -> None:
    """By the names of streets, with intervals."""
    ends = [(1, 2), (2, 1), (2, 3)]
    network: dict[str, Any] = {
        "nodes": 3,
        "links": [
            {"tail": tail, "head": head, "free_flow_time": 2, "capacity": 50} for tail, head in ends
        ],
        "node_names": ["Inn", "Mühle", "Pond"],
        "link_names": ["High St", "High St (back)", "Hauptstraße"],
    }
    interval = {"lower": [4.0, 0.0, 60.0], "upper": [6.0, 2.0, 70.0]}
    noise = [False, True, False]
    told = {
        "level": 0.9,
        "values": {"link_flows": interval},
        "noise_dominates": {"link_flows": noise},
    }
    result = {"link_flows": [5.0, 1.0, 65.0], "uncertainty": told}
    content = link_flows(result, network, "csv")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert content.startswith("\ufefflink,from_node,to_node,".encode())
    assert [row["link"] for row in rows] == network["link_names"]
    assert rows[2] == {
        "link": "Hauptstraße",
        "from_node": "Mühle",
        "to_node": "Pond",
        "free_flow_time": "2",
        "capacity": "50",
        "flow": "65.0",
        "flow_over_capacity": "1.3",
        "flow_lower": "60.0",
        "flow_upper": "70.0",
    }
    first, second = busiest(result, network, 2)
    assert first == {
        "name": "Hauptstraße",
        "from_node": "Mühle",
        "to_node": "Pond",
        "flow": 65.0,
        "flow_over_capacity": 1.3,
        "flow_lower": 60.0,
        "flow_upper": 70.0,
        "noise": False,
    }
    assert second["name"] == "High St"
    assert busiest(result, network, 3)[2]["noise"]
    bare = {**network, "link_names": None}
    assert busiest({"link_flows": [5.0, 1.0, 65.0]}, bare, 1)[0] == {
        **{
            name: value for name, value in first.items() if name not in ("flow_lower", "flow_upper")
        },
        "name": "Mühle → Pond",
    }
    with pytest.raises(NotWritten, match="it is of another network"):
        busiest({"link_flows": [1.0]}, network, 3)


CSV = "tail,head,free_flow_time,capacity\n1,2,1,1\n"
LINE = {**LINES[0], "properties": {"free_flow_time": 1, "capacity": 1}}


def collection(*features: Any) -> str:
    return json.dumps({"type": "FeatureCollection", "features": features})


def line(coordinates: Any) -> str:
    return collection({**LINE, "geometry": {"type": "LineString", "coordinates": coordinates}})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.geojson", "[" * 100_000),
        ("a.geojson", '{"features": 5}'),
        ("a.geojson", '{"features": "abc"}'),
        ("a.geojson", "\ud800"),
        ("a.geojson", collection({**LINE, "geometry": [1]})),
        ("a.geojson", collection({**LINE, "geometry": {"type": ["LineString"]}})),
        ("a.geojson", collection({**LINE, "properties": [1]})),
        (
            "a.geojson",
            collection({**LINE, "properties": {"free_flow_time": 10**400, "capacity": 1}}),
        ),
        (
            "a.geojson",
            collection(
                LINE, {"type": "Feature", "geometry": {"type": "Point"}, "properties": {"zone": 1}}
            ),
        ),
        ("a.geojson", line([[float("nan"), 0], [1, 1]])),
        ("a.geojson", line([[10**400, 0], [1, 1]])),
        ("a.geojson", line({"a": 1})),
        ("a.geojson", line(None)),
        ("a.csv", CSV.replace("1,2,1,1", "1,2,nan,1")),
        ("a.csv", CSV.replace("1,2,1,1", "1,2,inf,1")),
        ("a.csv", CSV.replace("1,2,1,1", f"1,2,1,{'9' * 200_000}")),
        ("a.csv", CSV.replace("1,2,1,1", "1,1,1,1")),
        (
            "a_net.tntp",
            "<NUMBER OF NODES> 900000000\n<NUMBER OF ZONES> 1\n<END OF METADATA>\n1 2 1 1 1 1 1 "
            ";\n",
        ),
        ("a_net.tntp", "<" * 100_000),
    ],
)
def test_hostile_files_are_one_sentence(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, errors="surrogatepass")
    with pytest.raises(TableError) as refused:
        read(tmp_path / name)
    assert len(str(refused.value)) < 500


def test_refusals_cost_in_proportion(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text(CSV)

    def nodes(size: int) -> Path:
        file = tmp_path / f"nodes{size}.csv"
        file.write_text(
            "node,x,y\n" + "".join(f"{node},0,0\n" for node in range(size)) + f"{size - 1},0,0\n"
        )
        return file

    def twice(file: Path) -> None:
        with pytest.raises(TableError, match="stands more than once"):
            read(tmp_path / "links.csv", file)

    def geometry(size: int) -> Path:
        file = tmp_path / f"lines{size}.csv"
        file.write_text(
            LINK_CSV.replace("LINESTRING (0 0, 0.5 0.2, 1 0)", f"LINESTRING{' ' * size}")
        )
        return file

    (tmp_path / "node.csv").write_text(NODE_CSV)

    def unreadable(file: Path) -> None:
        with pytest.raises(TableError, match="LINESTRING"):
            read(file, tmp_path / "node.csv", units="mi,mph")

    assert growth(nodes, twice, 4000) < LINEAR
    assert growth(geometry, unreadable, 8000) < LINEAR


def test_a_zone_that_is_cut_off_is_named_once() -> None:
    """Ring of twelve places of which one has no street left: each pair with it has no path."""
    links = [(one, one % 11 + 1) for one in range(1, 12)]
    links += [(head, tail) for tail, head in links]
    body = {
        "nodes": 12,
        "links": [
            {"tail": tail, "head": head, "free_flow_time": 1.0, "capacity": 9.0}
            for tail, head in links
        ],
        "node_names": [f"place {number}" for number in range(1, 13)],
    }
    (issue,) = RoadNetwork.model_validate(body).issues(12)
    assert issue.detail.startswith(
        "no path leads from zone 1 (place 1) to zone 12 (place 12), nor from 10 others; 20"
    )
    assert (
        RoadNetwork.model_validate({**body, "links": [*body["links"], *_both(1, 12)]}).issues(12)
        == []
    )
    one_way = RoadNetwork.model_validate(
        {**body, "links": [*body["links"], _both(1, 12)[0]]}
    ).issues(12)
    assert [issue.detail for issue in one_way] == [
        "no path leads from zone 12 (place 12) to zone 1 (place 1), nor to 10 others"
    ]
    few = RoadNetwork.model_validate({"nodes": 2, "links": [_both(1, 2)[0]]}).issues(2)
    assert [issue.detail for issue in few] == ["no path leads from zone 2 to zone 1"]


def _both(one: int, other: int) -> list[dict[str, Any]]:
    figures = {"free_flow_time": 1.0, "capacity": 9.0}
    return [{"tail": one, "head": other, **figures}, {"tail": other, "head": one, **figures}]


def test_what_is_wrong_with_gmns_is_said_at_once(tmp_path: Path) -> None:
    """A person mends a file once: ends that no table knows, speeds, capacities and lines, each with
    its line."""
    links = LINK_CSV.splitlines()
    head = links[0].split(",")

    def with_cells(row: int, **cells: str) -> None:
        fields = next(csv.reader([links[row]]))
        for name, cell in cells.items():
            fields[head.index(name)] = cell
        text = io.StringIO()
        csv.writer(text).writerow(fields)
        links[row] = text.getvalue().strip()

    with_cells(1, from_node_id="nowhere", free_speed="0")
    with_cells(2, capacity="many", to_node_id="elsewhere")
    written(tmp_path, {**GMNS, "link.csv": "\n".join(links) + "\n"})
    with pytest.raises(TableError) as refused:
        read(tmp_path)
    said = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in said] == [
        "line 2, column from_node_id",
        "line 3, column to_node_id",
        "line 2, column free_speed",
        "line 3, column capacity",
    ]


def test_what_is_wrong_with_geojson_is_said_once_for_all_of_a_sort(tmp_path: Path) -> None:
    """And a list of nodes with several twice, or links that end at several unknown ones, names them
    together."""
    square = {
        "type": "Feature",
        "properties": {},
        "geometry": {"type": "Polygon", "coordinates": []},
    }
    plain = {
        "type": "Feature",
        "properties": 5,
        "geometry": {"type": "Point", "coordinates": [0, 0]},
    }
    place = tmp_path / "roads.geojson"
    place.write_text(json.dumps({"type": "FeatureCollection", "features": [*[square] * 8, plain]}))
    with pytest.raises(TableError) as refused:
        read(place)
    assert str(refused.value).splitlines() == [
        "roads.geojson, features 0, 1, 2, 3, 4 and 3 more: Polygon is not modelled, LineString and "
        "Point are",
        "roads.geojson, feature 8: properties are an object",
    ]
    short = {**plain, "properties": {}, "geometry": {"type": "LineString", "coordinates": [[0, 0]]}}
    place.write_text(json.dumps({"type": "FeatureCollection", "features": [short, short]}))
    with pytest.raises(TableError, match=r"^lines 0, 1: a LineString has two points"):
        read(place)
    written(
        tmp_path,
        {
            "l.csv": "tail,head,free_flow_time,capacity\na,b,1,1\nx,y,1,1\nb,b,1,1\n",
            "n.csv": "node\na\nb\n",
        },
    )
    with pytest.raises(
        TableError, match=r"links end at nodes x, y, missing from the table of nodes"
    ):
        read(tmp_path / "l.csv", tmp_path / "n.csv")
    (tmp_path / "n.csv").write_text("node\na\nb\nx\ny\nx\ny\n")
    with pytest.raises(TableError, match=r"nodes x, y stand more than once"):
        read(tmp_path / "l.csv", tmp_path / "n.csv")
    (tmp_path / "n.csv").write_text("node\na\nb\nx\ny\n")
    with pytest.raises(TableError, match=r"links lead from a node to itself, at node b"):
        read(tmp_path / "l.csv", tmp_path / "n.csv", through_zones=True)


def test_geodata_that_is_not_read_names_what_converts_it(tmp_path: Path) -> None:
    file = tmp_path / "roads.shp"
    file.write_bytes(b"\x00\x00\x27\x0a")
    with pytest.raises(TableError, match=r"ogr2ogr -t_srs EPSG:4326 roads\.geojson FILE"):
        read(file)

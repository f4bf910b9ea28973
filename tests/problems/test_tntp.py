"""The TNTP format: what is read, and what an error says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from discreet import cli
from discreet.errors import InvalidInput
from discreet.installation import local
from discreet.problems.routing import dataset as tntp

NETWORK = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 3
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 4
<ORIGINAL HEADER>~ init term capacity length ffs b power ;
<END OF METADATA>

~\tinit\tterm\tcapacity\tlength\tfft\tb\tpower\tspeed\ttoll\ttype\t;
\t1\t3\t100.5\t9\t4\t0.15\t4\t50\t0\t1\t;
\t3\t2\t200\t9\t0\t.15\t4.0\t50\t0\t1\t;
\t2\t3\t3e2\t9\t5.25\t0.15\t4\t50\t0\t1\t;
\t3\t1\t400\t9\t6\t0.15\t4\t50\t0\t1\t;
"""
TRIPS = """<NUMBER OF ZONES> 2
<TOTAL OD FLOW> 17.0
<END OF METADATA>

Origin  1
    1 :   5.0;    2 :   12.0;

Origin\t2
    1 :   0.0;
"""
UNSUMMED = TRIPS.replace("<TOTAL OD FLOW> 17.0\n", "\n")
NODES = "Node\tX\tY\t;\n2\t-96.5\t4\t;\n1\t1\t2\t;\n3\t5\t-6e-1\t;\n"


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


def complaint(net: str = NETWORK, trips: str = TRIPS, **options: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        tntp.convert(net, trips, **options)
    return refused.value.issues[0].detail


def test_a_body_of_all_that_the_files_say() -> None:
    assert tntp.convert(NETWORK, TRIPS, name="two zones", epsilon="0.25", cap=("2.5", "1e-6")) == {
        "problem": {
            "kind": "routing",
            "dataset": {
                "name": "two zones",
                "kind": "routing",
                "public": {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60},
                "content": {
                    "trips": [
                        {"period": 0, "origin": 1, "destination": 1, "count": 5},
                        {"period": 0, "origin": 1, "destination": 2, "count": 12},
                    ]
                },
                "cap": {"epsilon": 2.5, "delta": 1e-6},
                "mode": "private",
            },
            "network": {
                "nodes": 3,
                "first_through_node": 3,
                "links": [
                    {"tail": 1, "head": 3, "free_flow_time": 4, "capacity": 100.5},
                    {"tail": 3, "head": 2, "free_flow_time": 0, "capacity": 200},
                    {"tail": 2, "head": 3, "free_flow_time": 5.25, "capacity": 300},
                    {"tail": 3, "head": 1, "free_flow_time": 6, "capacity": 400},
                ],
            },
            "latency": {"type": "bpr", "b": 0.15, "power": 4},
            "objective": "system_optimum",
        },
        "privacy": {"epsilon": 0.25, "delta": 0},
    }


def test_the_body_is_one_that_can_be_planned() -> None:
    body = json.loads(json.dumps(tntp.convert(NETWORK, TRIPS)))
    assert local.plan(body)["price"]["epsilon"] == 0.1


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_and_byte_order_marks_change_nothing(end: str) -> None:
    net, trips = ("\ufeff" + text.replace("\n", end) for text in (NETWORK, TRIPS))
    assert tntp.convert(net, trips) == tntp.convert(NETWORK, TRIPS)


def test_nodes_come_in_the_order_of_their_numbers() -> None:
    assert tntp.read_nodes(NODES) == [(1, 2), (-96.5, 4), (5, -0.6)]
    tntp.convert(NETWORK, TRIPS, node_text=NODES)
    assert (
        complaint(node_text="1 0 0;\n2 1 1;\n") == "the network file has 3 nodes, the node file 2"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 0 0;\n1 1 1;\n", "node file, line 2: node 1 stands twice"),
        ("1 0 0;\n0 1 1;\n", "node file, line 2: '0' is not a node"),
        ("node X Y;\n1 0;\n", "node file, line 2: a node needs number, x and y"),
        ("1 nan 0;\n", "node file, line 1: x is a number, not 'nan'"),
    ],
)
def test_node_files_that_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        tntp.read_nodes(text)
    assert refused.value.issues[0].detail == why


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("<NUMBER OF NODES> 3\n", "", "network file: <NUMBER OF NODES> is missing"),
        (
            "<NUMBER OF NODES> 3",
            "<NUMBER OF NODES> x",
            "network file, line 2: <NUMBER OF NODES> is a positive integer",
        ),
        (
            "<NUMBER OF ZONES> 2",
            "<NUMBER OF ZONES> 4",
            "network file, line 1: 4 zones do not fit into 3 nodes",
        ),
        (
            "<NUMBER OF LINKS> 4",
            "<NUMBER OF LINKS> 5",
            "network file, line 4: 5 links are announced, 4 follow",
        ),
        (
            "<FIRST THRU NODE> 3",
            "<FIRST THRU NODE> 4",
            "network file, line 3: the network has 3 nodes",
        ),
        (
            "\t3\t2\t200",
            "\t3\t4\t200",
            "network file, line 2: 3 nodes are announced, links have 4 up to 4",
        ),
        ("\t3\t2\t200", "\t3\t0\t200", "network file, line 10: '0' is not a node"),
        (
            "\t.15\t4.0",
            "\t.15\t.5",
            "network file, line 10: power 0.5: only 0 and powers of at least 1",
        ),
        (
            "4.0\t50\t0\t1",
            "4.0\t50\t0\t1\t7",
            "network file, line 10: 11 figures of a link, of which only 10",
        ),
        (
            "4.0\t50\t0\t1",
            "4.0\t50\t2\t1",
            "network file, line 10: a toll of 2, but no factor that converts",
        ),
        ("4.0\t50\t0\t1", "4.0\t50\tx\t1", "network file, line 10: toll is a number, not 'x'"),
        (
            "<END",
            "<TOLL FACTOR> x\n<END",
            "network file, line 6: <TOLL FACTOR> is a number, not 'x'",
        ),
        ("\t3\t2\t200", "\t3\t3\t200", "network file, line 10: a link from node 3 to itself"),
        ("\t2\t3\t3e2", "\t2\t3\t0", "network file, line 11: capacity must be positive"),
        ("\t3\t2\t200", "\t3\t2\tnan", "network file, line 10: capacity is a number, not 'nan'"),
        (
            "\t3\t2\t200",
            "\t3\t2\t1e999",
            "network file, line 10: capacity is a number, not '1e999'",
        ),
        ("\t3\t2\t200", "\t3\t2\t2_0", "network file, line 10: capacity is a number, not '2_0'"),
        ("5.25", "-5.25", "network file, line 11: free flow time cannot be negative"),
        (
            "\t3\t2\t200\t9\t0\t.15\t4.0\t50\t0\t1\t;",
            "\t3\t2\t200;",
            "network file, line 10: a link needs tail, head",
        ),
    ],
)
def test_network_files_that_are_refused(old: str, new: str, why: str) -> None:
    assert complaint(net=changed(NETWORK, old, new)).startswith(why)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (
            "<NUMBER OF ZONES> 2",
            "<NUMBER OF ZONES> 3",
            "the network file has 2 zones, the trips file 3",
        ),
        ("Origin  1\n", "\n", "trips file, line 6: trips before the first 'Origin'"),
        ("Origin  1", "Origin  3", "trips file, line 5: '3' is not a zone of 1..2"),
        ("Origin  1", "Origin", "trips file, line 5: 'Origin' needs one zone"),
        ("2 :   12.0", "0 :   12.0", "trips file, line 6: '0' is not a zone of 1..2"),
        (
            "2 :   12.0",
            "2     12.0",
            "trips file, line 6: '2     12.0' is not 'destination : trips'",
        ),
        ("2 :   12.0", "2 :  -12.0", "trips file, line 6: trips cannot be negative"),
        (
            "2 :   12.0",
            "2 :   12.5",
            "trips file, line 6: 12.5 trips from 1 to 2: a number of trips is an integer",
        ),
        ("Origin\t2", "Origin\t1", "trips file, line 9: trips from 1 to 1 stand in line 6 already"),
    ],
)
def test_trips_files_that_are_refused(old: str, new: str, why: str) -> None:
    assert complaint(trips=changed(TRIPS, old, new)).startswith(why)


def links_of(net: str, **options: Any) -> Any:
    return tntp.convert(net, TRIPS, **options)["problem"]["network"]["links"]


def test_links_have_their_own_latency_where_it_is_not_that_of_most() -> None:
    second = changed(NETWORK, "\t.15\t4.0", "\t.2\t0")
    body = tntp.convert(second, TRIPS)
    assert body["problem"]["latency"] == {"type": "bpr", "b": 0.15, "power": 4}
    own = [
        {name: link[name] for name in ("b", "power") if name in link} for link in links_of(second)
    ]
    assert own == [{}, {"b": 0.2, "power": 0}, {}, {}]
    assert local.plan(json.loads(json.dumps(body)))["price"]["epsilon"] == 0.1
    constant = NETWORK.replace("0.15\t4\t", "0.15\t0\t").replace("\t.15\t4.0", "\t1e9\t1")
    assert [(link["b"], link["power"]) for link in links_of(constant)] == [
        (0.15, 0),
        (1e9, 1),
        (0.15, 0),
        (0.15, 0),
    ]


def test_tolls_and_lengths_count_by_their_weights() -> None:
    tolled = changed(NETWORK, "4.0\t50\t0\t1", "4.0\t50\t2\t1")
    fixed = [
        link.get("fixed_cost", 0) for link in links_of(tolled, toll_weight=0.5, distance_weight=0.1)
    ]
    assert fixed == pytest.approx([0.9, 1.9, 0.9, 0.9])
    assert not any("fixed_cost" in link for link in links_of(tolled, toll_weight=0))
    said = changed(tolled, "<END", "<TOLL FACTOR> 3\n<DISTANCE FACTOR> .5\n<END")
    assert [link["fixed_cost"] for link in links_of(said)] == [4.5, 10.5, 4.5, 4.5]
    assert [link["fixed_cost"] for link in links_of(said, distance_weight=1)] == [9, 15, 9, 9]


@pytest.mark.parametrize(
    ("capacity", "kept", "b"),
    [
        ("inf", 1e12, 0.0),
        ("1e15", 1e12, 0.15 * 1e-12),
        ("1e12", 1e12, 0.15),
        ("99999999", 99999999, 0.15),
    ],
)
def test_capacities_above_what_a_link_may_have_are_a_smaller_b(
    capacity: str, kept: float, b: float
) -> None:
    link = links_of(changed(NETWORK, "\t2\t3\t3e2", f"\t2\t3\t{capacity}"))[2]
    assert (link["capacity"], link.get("b", 0.15)) == (kept, pytest.approx(b))


def test_a_link_whose_time_is_constant_needs_no_capacity() -> None:
    assert links_of(changed(NETWORK, "\t3\t2\t200", "\t3\t2\t0"))[1]["capacity"] == 1


def test_nodes_may_have_any_numbers() -> None:
    """Those of the file, in their order: zones 10 and 20, and node 35."""
    node = {"1": "10", "2": "20", "3": "35"}
    head, rows = NETWORK.split("~\tinit")
    rows = "\n".join(
        "\t".join(
            [
                node.get(field, field) if at in (1, 2) else field
                for at, field in enumerate(row.split("\t"))
            ]
        )
        for row in rows.split("\n")
    )
    trips = changed(changed(TRIPS, "Origin  1", "Origin  10"), "Origin\t2", "Origin\t20")
    trips = trips.replace("    1 :", "   10 :").replace("    2 :", "   20 :")
    net = changed(head, "<FIRST THRU NODE> 3", "<FIRST THRU NODE> 21") + "~\tinit" + rows
    assert tntp.convert(net, trips, node_text=NODES.replace("\n3\t", "\n35\t")) == tntp.convert(
        NETWORK, TRIPS
    )
    assert complaint(net=net, trips=trips.replace("   20 :", "   35 :")) == (
        "trips file, line 6: 35 is not a zone: those are the first 2 nodes"
    )


def test_trips_are_rounded_when_asked_and_none_are_left_out() -> None:
    trips = changed(changed(UNSUMMED, "12.0", "12.5"), "5.0", "0.25")
    body = tntp.convert(NETWORK, trips, round_trips=True)
    rows = body["problem"]["dataset"]["content"]["trips"]
    assert rows == [{"period": 0, "origin": 1, "destination": 2, "count": 13}]


def test_fractions_are_kept_in_parts_of_a_trip() -> None:
    trips = changed(changed(UNSUMMED, "12.0", "12.07"), "5.0", "0.25")
    dataset = tntp.convert(NETWORK, trips, trip_scale=100)["problem"]["dataset"]
    assert dataset["public"]["trip_scale"] == 100
    assert [row["count"] for row in dataset["content"]["trips"]] == [0.25, 12.07]
    assert complaint(trips=trips, trip_scale=10).startswith(
        "trips file, line 6: 0.25 trips from 1 to 1: a number of trips has no smaller parts than "
        "1/10 of a trip"
    )
    rounded = tntp.convert(NETWORK, trips, trip_scale=10, round_trips=True)["problem"]["dataset"][
        "content"
    ]["trips"]
    assert [row["count"] for row in rounded] == [0.3, 12.1]
    assert "public.trip_scale is an integer of 1 to 1000" in complaint(trip_scale=1001)


@pytest.mark.parametrize(
    "text", ["", "x", "nan", "Infinity", "1e999999999", "0.1234567890123456789"]
)
def test_budgets_that_json_cannot_say_are_refused(text: str) -> None:
    assert complaint(epsilon=text).startswith("epsilon: ")
    assert complaint(cap=("1", text)).startswith("cap delta: ")


def test_the_command_writes_the_body(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, trips, out = tmp_path / "net.tntp", tmp_path / "trips.tntp", tmp_path / "job.json"
    net.write_text(NETWORK)
    trips.write_text(TRIPS)
    assert (
        cli.run(["convert", "tntp", str(net), str(trips), "--epsilon", "0.5", "--out", str(out)])
        == 0
    )
    assert json.loads(out.read_text()) == tntp.convert(NETWORK, TRIPS, epsilon="0.5")
    trips.write_text(changed(TRIPS, "12.0", "12.5"))
    assert cli.run(["convert", "tntp", str(net), str(trips)]) == 1
    capsys.readouterr()
    assert cli.run(["convert", "tntp", str(net), str(trips), "--round-trips"]) == 0
    assert capsys.readouterr().err == "rounding made 18 trips of 17.50\n"

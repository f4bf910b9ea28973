"""How pages read files of road networks: rules that they get with the schema, as `x-file`."""

from __future__ import annotations

from typing import Any

FILES: dict[str, Any] = {
    "formats": "TNTP (`…_net.tntp`), link.csv of GMNS, or CSV with tail, head, capacity and "
    "free_flow_time, or length and speed, in its first line; with link.csv choose node.csv, both "
    "at once or one after the other, and nodes have their names and places",
    "columns": {
        "init_node": "tail",
        "from_node_id": "tail",
        "from": "tail",
        "term_node": "head",
        "to_node_id": "head",
        "to": "head",
        "vdf_fftt": "free_flow_time",
        "fft": "free_flow_time",
    },
    "positions": [
        "tail",
        "head",
        "capacity",
        "length",
        "free_flow_time",
        "b",
        "power",
        "speed",
        "toll",
    ],
    "sums": {"fixed_cost": {"toll": "TOLL FACTOR", "length": "DISTANCE FACTOR"}},
    "headings": {"NUMBER OF NODES": "nodes", "FIRST THRU NODE": "first_through_node"},
    "largest": {"nodes": ["tail", "head"]},
    "hourly": {"field": "period_minutes", "columns": ["capacity"]},
    "measured": {
        "field": "free_flow_time",
        "length": ["length"],
        "speed": ["free_speed", "speed"],
        "lengths": {"km": 1, "m": 0.001, "mi": 1.609344, "ft": 0.0003048},
        "speeds": {"km/h": 1, "mph": 1.609344, "m/s": 3.6},
        "times": 60,
        "says": {"time_unit": "minutes"},
    },
    "by_lane": {"told_by": "free_speed", "column": "capacity", "lanes": "lanes", "minutes": 60},
    "weighed": {"column": "toll", "field": "fixed_cost"},
    "both_ways": {
        "column": "directed",
        "ends": ["tail", "head"],
        "no": ["0", "false", "no", "nein"],
    },
    "nodes": {
        "told_by": ["node_id", "node"],
        "called": ["node_name", "name"],
        "place": [["x_coord", "x"], ["y_coord", "y"]],
        "zone": ["zone_id", "zone"],
        "ends": ["tail", "head"],
        "fields": {"count": "nodes", "names": "node_names", "places": "nodes_xy"},
    },
    "named": {"field": "link_names", "ends": ["tail", "head"]},
    "doubled": {"ends": ["tail", "head"], "sum": "capacity"},
}
"""How a browser reads a network's file into `links` and the fields beside them: other names of
CSV's columns; columns by position, weighted sums of them and headings in files with `<NAME> value`;
fields that are the largest of a column; columns that may be of an hour in the file, and the field
with the minutes of the period that they are made of; times that follow from lengths and speeds,
whose units the owner is asked for; capacities of a lane and an hour; a column that counts by a
weight, which is asked for; the column of rows that lead both ways; the columns of a file of nodes
beside that of links, and the fields that they make; the field with the names of links; the columns
by which links listed twice are recognized, and the one that is added up where they are merged.
"""

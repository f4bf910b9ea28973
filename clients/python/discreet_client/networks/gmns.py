"""GMNS: link.csv and node.csv, with config.csv for the units."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from discreet_client.networks.assembly import assembled, each_street_once, with_opposite_links
from discreet_client.networks.links import street_names
from discreet_client.networks.measures import (
    distance_costs,
    doubts_about,
    toll_costs,
    units_of,
    weight_notes,
)
from discreet_client.networks.nodes import called_by_names, places_of, zone_count, zones_of
from discreet_client.networks.roads import (
    NODE,
    NODE_NAME,
    OWN,
    AnyFile,
    Made,
    Options,
    Point,
    Road,
    all_at_once,
    finite_point,
    unread_columns,
)
from discreet_client.tables import Floats, Table, TableError, missing

GMNS_LINK = ("link_id", "from_node_id", "to_node_id", "length", "free_speed", "capacity")
GMNS_LINK_OPTIONAL = ("lanes", "directed", "toll", "geometry", "dir_flag", "allowed_uses", "name")
OWN_NAMES = {
    "speed": "free_speed",
    "length": "length",
    "zone": "zone_id",
    "x": "x_coord",
    "y": "y_coord",
}
"""What GMNS calls columns for which a network has a name of its own."""
CARS = re.compile(r"\b(auto|autos|car|cars|sov|hov|vehicle|vehicles|all)\b", re.IGNORECASE)
OF_NODE = ("node_id", "x_coord", "y_coord", "zone_id")
_LINESTRING = re.compile(r"LINESTRING\s*(?:Z\s*)?\((.*)\)", re.IGNORECASE | re.DOTALL)


def read_gmns(tables: Mapping[AnyFile, Table], options: Options) -> Made:
    links = nodes = config = None
    for path, table in tables.items():
        if "from_node_id" in table.columns:
            links = table
        elif "node_id" in table.columns:
            nodes = table
        elif path.name.lower() == "config.csv":
            config = table
        else:
            raise TableError(f"{path.name} is no node.csv, link.csv or config.csv of GMNS")
    if links is None or nodes is None:
        raise TableError("GMNS: link.csv and node.csv are needed")
    options.refuse("GMNS", "time_unit", "lane_capacity", "speed")
    length, speed = units_of(options, config)
    chosen = {OWN_NAMES.get(role, role): name for role, name in options.columns.items()}
    of_nodes = {role: chosen.pop(role) for role in (NODE_NAME, *OF_NODE) if role in chosen}
    roles = (*GMNS_LINK, *GMNS_LINK_OPTIONAL, *(one for one in OWN if one in chosen))
    left_out = unread_columns(links, [chosen.get(role, role) for role in roles], "link.csv")
    table = links.named(chosen, GMNS_LINK, roles, options.words)
    _check_gmns(table, nodes, options)
    speeds, lengths = table.numbers("free_speed"), table.numbers("length")
    free = lengths * length / (speeds * speed) * 60
    capacity = _gmns_capacity(table)
    costs = (np.array(toll_costs(table, options)) + distance_costs(table, options)).tolist()
    shapes = _geometries(table)
    own = [table.numbers(one, may_lack=True).tolist() for one in OWN if one in chosen]
    names_of_own = [one for one in OWN if one in chosen]
    costs_of_own = [
        {
            name: figure
            for name, figure in zip(names_of_own, row, strict=True)
            if not math.isnan(figure)
        }
        for row in (zip(*own, strict=True) if own else [()] * table.rows)
    ]
    figures = zip(free.tolist(), capacity.tolist(), costs, costs_of_own, strict=True)
    called = [
        name or link
        for name, link in zip(street_names(table), table.names("link_id").tolist(), strict=True)
    ]
    roads = [
        Road(
            tail,
            head,
            {
                "free_flow_time": time,
                "capacity": most,
                **more,
                **_fixed_cost(cost + more.get("fixed_cost", 0.0)),
            },
            name,
            line,
        )
        for tail, head, (time, most, cost, more), name, line in zip(
            table.names("from_node_id").tolist(),
            table.names("to_node_id").tolist(),
            figures,
            called,
            shapes,
            strict=True,
        )
    ]
    names = {"node": "node_id", "x": "x_coord", "y": "y_coord"}
    names = {role: of_nodes.get(name, name) for role, name in names.items()}
    places = places_of(
        nodes,
        {
            role: name
            for role, name in names.items()
            if role in NODE or name in (*nodes.columns, *of_nodes.values())
        },
        options.words,
    )
    zone = of_nodes.get("zone_id", "zone_id")
    if "zone_id" in of_nodes and zone not in nodes.columns:
        raise TableError(f"no column {zone}; columns are: {nodes.listed()}", "columns")
    zones = zones_of(nodes, zone, list(places))
    roads, places, zones = called_by_names(nodes, of_nodes, roads, places, zones)
    roads, once = each_street_once(with_opposite_links(roads, table, options), options)
    directed = "directed" in table.columns
    network, notes = assembled(roads, places, zones, options, directed=directed)
    notes.append("free_flow_time is in minutes, capacity in vehicles, of all lanes")
    if (
        NODE_NAME not in options.columns
        and "name" in nodes.columns
        and not missing(nodes.columns["name"]).all()
    ):
        notes.append(
            f"nodes are called by node_id; {options.words.columns(node_name='name')} calls them "
            "by their names, as trips may know them"
        )
    if not {"b", "power"} & chosen.keys():
        notes.append(
            "links have no b and power of their own: a problem's `latency` says them (BPR: 0.15 "
            "and 4)"
        )
    notes += weight_notes(options)
    network["time_unit"] = "minutes"
    return Made(
        network,
        [*notes, *once],
        left_out,
        [*doubts_about(table, lengths * length, speeds * speed, options.words)],
        zone_count(zones),
    )


def _fixed_cost(cost: float) -> dict[str, float]:
    return {"fixed_cost": cost} if cost else {}


def _check_gmns(table: Table, nodes: Table, options: Options) -> None:
    """TableError of everything that is wrong with the cells of link.csv and with the nodes that it
    names."""

    def uses() -> None:
        if "allowed_uses" in table.columns:
            told = table.columns["allowed_uses"]
            other = [value is not None and not CARS.search(str(value)) for value in told.tolist()]
            says = "a link without cars, which are all that is modelled"
            table.refuse(np.array(other, dtype=bool), "allowed_uses", says, told)

    def speeds() -> None:
        found = table.numbers("free_speed")
        table.refuse(~(found > 0), "free_speed", "a speed above 0 is needed", found)

    def lengths() -> None:
        found = table.numbers("length")
        table.refuse(found < 0, "length", "a number of 0 or more is needed", found)

    def capacities() -> None:
        found = _gmns_capacity(table)
        table.refuse(~(found > 0), "capacity", "a capacity and lanes above 0 are needed", found)

    def ends(column: str) -> None:
        known = set(nodes.names("node_id").tolist())
        names = table.names(column)
        lost = np.array([name not in known for name in names.tolist()], dtype=bool)
        table.refuse(lost, column, "a node that is not in node.csv", names)

    columns = [partial(ends, column) for column in ("from_node_id", "to_node_id")]
    rest: list[Callable[[], Any]] = [
        partial(toll_costs, table, options),
        partial(_geometries, table),
    ]
    rest += [partial(_of_own, table, one) for one in OWN if one in table.columns]
    directions = [partial(table.truths, "directed")] if "directed" in table.columns else []
    all_at_once([*columns, uses, speeds, lengths, capacities, *directions, *rest])


def _of_own(table: Table, column: str) -> None:
    found = table.numbers(column, may_lack=True)
    table.refuse(found < 0, column, "a number of 0 or more is needed", found)


def _gmns_capacity(table: Table) -> Floats:
    """Of all lanes of each link."""
    lanes = table.numbers("lanes") if "lanes" in table.columns else 1.0
    return table.numbers("capacity") * lanes


def _geometries(table: Table) -> list[tuple[Point, ...]]:
    if "geometry" not in table.columns:
        return [()] * table.rows
    found = []
    flags = (
        table.numbers("dir_flag", may_lack=True).tolist()
        if "dir_flag" in table.columns
        else [1.0] * table.rows
    )
    given = table.columns["geometry"]
    lines = [() if value is None else _line(str(value)) for value in given.tolist()]
    wrong = np.array([line is None for line in lines], dtype=bool)
    table.refuse(wrong, "geometry", "LINESTRING (x y, x y) is needed", given)
    for line, flag in zip(lines, flags, strict=True):
        points = line or ()
        found.append((points if flag != -1 else points[::-1])[1:-1])
    return found


def _line(text: str) -> tuple[Point, ...] | None:
    matched = _LINESTRING.fullmatch(text.strip())
    try:
        return (
            None
            if matched is None
            else tuple(finite_point(one.split()) for one in matched[1].split(","))
        )
    except (ValueError, TypeError, IndexError):
        return None

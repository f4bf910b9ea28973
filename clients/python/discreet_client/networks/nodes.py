"""Nodes: where they are, what they are called, and which of them are zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from discreet_client.networks.roads import (
    NODE,
    NODE_NAME,
    PLACE,
    Point,
    Road,
    is_number,
    some_of,
    text_of,
)
from discreet_client.option_words import Words
from discreet_client.tables import Table, TableError, missing

P = TypeVar("P", Point, Point | None)


def places_of(source: Table, columns: Mapping[str, str], words: Words) -> dict[str, Point | None]:
    """The nodes of a table in its order, with their coordinates where it has both columns of
    them."""
    there = [one for one in PLACE if columns.get(one, one) in source.columns]
    lacking = [one for one in PLACE if one not in there and (there or one in columns)]
    if lacking:
        raise TableError(
            f"no column {columns.get(lacking[0], lacking[0])}; columns are: {source.listed()}",
            "columns",
        )
    table = source.named(
        {role: name for role, name in columns.items() if role in (*NODE, *there)},
        NODE,
        there,
        words,
    )
    names = table.names("node").tolist()
    if len(counts := Counter(names)) < len(names):
        twice = [name for name, count in counts.items() if count > 1]
        raise TableError(
            f"{some_of(twice, 'node', 'stands', 'stand')} more than once in the table of nodes"
        )
    if not there or all(missing(table.columns[one]).all() for one in PLACE):
        return dict.fromkeys(names)
    x, y = table.numbers("x").tolist(), table.numbers("y").tolist()
    return dict(zip(names, zip(x, y, strict=True), strict=True))


def _called(source: Table, columns: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """What each node is called, by its id; empty where the table does not say."""
    column = columns.get(NODE_NAME, NODE_NAME)
    if column not in source.columns:
        if NODE_NAME in columns:
            raise TableError(f"no column {column}; columns are: {source.listed()}", "columns")
        return {}
    there = ~missing(source.columns[column])
    names = np.array(nodes, dtype=object)  # of one without a name its id
    if there.any():
        names[there] = source.ordered(np.flatnonzero(there)).names(column)
    first = np.isin(np.arange(names.size), np.unique(names, return_index=True)[1])
    source.refuse(~first, column, "two nodes are called so", names)
    return dict(zip(nodes, names.tolist(), strict=True))


def called_by_names(
    source: Table,
    columns: Mapping[str, str],
    roads: list[Road],
    places: dict[str, Point | None],
    zones: dict[str, str] | None,
) -> tuple[list[Road], dict[str, Point | None], dict[str, str] | None]:
    """The same roads, places and zones with nodes called by their names, where the table of nodes
    tells them."""
    called = _called(source, columns, list(places))
    if not called:
        return called_by_zones(roads, places, zones)
    require_known_ends(roads, called)
    return (
        [replace(road, tail=called[road.tail], head=called[road.head]) for road in roads],
        {called[node]: place for node, place in places.items()},
        zones and {called[node]: zone for node, zone in zones.items()},
    )


def called_by_zones(
    roads: list[Road], places: dict[str, P], zones: dict[str, str] | None
) -> tuple[list[Road], dict[str, P], dict[str, str] | None]:
    """The same with the node of each zone called by its zone, where zones have names: trips know
    these, and often nobody knows the ids that a GIS gave the nodes. Numbers of zones name none."""
    ends = {node for road in roads for node in (road.tail, road.head)}
    called = dict(zones or {})
    others = (ends | places.keys()) - called.keys()
    named = not all(is_number(zone) for zone in called.values())
    if not named or len(set(called.values())) < len(called) or others & set(called.values()):
        return roads, places, zones
    return (
        [
            replace(
                road, tail=called.get(road.tail, road.tail), head=called.get(road.head, road.head)
            )
            for road in roads
        ],
        {called.get(node, node): place for node, place in places.items()},
        {zone: zone for zone in called.values()},
    )


def zones_of(table: Table, column: str, nodes: Sequence[str]) -> dict[str, str] | None:
    """The zone of each node that is one; None where the table does not tell."""
    if column not in table.columns:
        return None
    values = table.columns[column]
    there = (~missing(values)).tolist()
    return {
        node: text_of(value)
        for node, value, is_zone in zip(nodes, values.tolist(), there, strict=True)
        if is_zone
    }


def zone_count(zones: Mapping[str, str] | None) -> int | None:
    return None if not zones else len(zones)


def require_known_ends(roads: Sequence[Road], nodes: Collection[str]) -> None:
    ends = dict.fromkeys(node for road in roads for node in (road.tail, road.head))
    if lost := [node for node in ends if node not in nodes]:
        raise TableError(f"links end at {some_of(lost, 'node')}, missing from the table of nodes")

"""Links with their opposite ones, each street once, and nodes numbered from 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from discreet_client.networks.nodes import require_known_ends
from discreet_client.networks.roads import (
    MOST_FAULTS,
    SHOWN_ZONES,
    Json,
    Options,
    Point,
    Road,
    is_number,
    some_of,
)
from discreet_client.option_words import Words
from discreet_client.tables import Table, TableError

BACK = " (back)"
"""After the name of a link that was made of one that is not directed: its other way."""


def with_opposite_links(roads: Sequence[Road], table: Table, options: Options) -> list[Road]:
    """Links that are not directed as two; with the option all that have no opposite one."""
    if "directed" in table.columns:
        options.refuse("links of which a column `directed` says it", "both_ways")
        single = (~table.truths("directed")).tolist()
    elif options.both_ways:
        there = {(road.tail, road.head) for road in roads}
        single = [(road.head, road.tail) not in there for road in roads]
    else:
        return list(roads)
    found = []
    for road, twice in zip(roads, single, strict=True):
        found.append(road)
        if twice:
            name = None if road.name is None else f"{road.name}{BACK}"
            found.append(Road(road.head, road.tail, road.figures, name, road.shape[::-1]))
    return found


def _one_way(roads: Sequence[Road], words: Words, *, said: bool) -> list[str]:
    """How many links lack an opposite link, in a sentence. `said`: a column says which have one."""
    there = {(road.tail, road.head) for road in roads}
    alone = [road for road in roads if (road.head, road.tail) not in there]
    if not alone:
        return []
    few, them = ("it is", "it") if len(alone) == 1 else ("they are", "each of them")
    lacks = "lacks" if len(alone) == 1 else "lack"
    such = f"{alone[0].tail} to {alone[0].head}"
    one_way = (
        f"{len(alone):,} of {len(roads):,} links {lacks} an opposite link, such as {such}: "
        f"{few} one-way"
    )
    if said:
        return [one_way]
    return [
        f"{one_way}; if {few} not, {words.option('both_ways')} or a column `directed` makes two "
        f"links of {them}"
    ]


def each_street_once(roads: Sequence[Road], options: Options) -> tuple[list[Road], list[str]]:
    """Each street once, as the option `doubled` says, and in a sentence what that changed. Doubled
    is what is the same in ends, name and figures; links side by side that differ are kept."""
    alike: dict[tuple[Any, ...], list[Road]] = {}
    for road in roads:
        alike.setdefault(
            (road.tail, road.head, road.name, *sorted(road.figures.items())), []
        ).append(road)
    more = [same for same in alike.values() if len(same) > 1]
    if not more:
        return list(roads), []
    streets = [
        f"{same[0].tail} to {same[0].head}{f', {same[0].name}' if same[0].name else ''}"
        for same in more
    ]
    rest = len(more) - MOST_FAULTS
    listed = "; ".join(streets[:MOST_FAULTS]) + (f"; and {rest:,} more" if rest > 0 else "")
    link = "1 link stands" if len(more) == 1 else f"{len(more):,} links stand"
    doubled, option = options.doubled, options.words.option
    if doubled == "refuse":
        raise TableError(
            f"{link} more than once with the same ends, name and figures: {listed}. So they would "
            f"carry twice as much. {option('doubled', 'keep-first')} takes each once, "
            f"{option('doubled', 'sum')} makes one link of them with their capacities together",
            "doubled",
        )
    if doubled == "keep-first":
        return [same[0] for same in alike.values()], [
            f"{link} more than once, taken once each: {listed}"
        ]
    summed = [
        replace(
            same[0],
            figures={**same[0].figures, "capacity": same[0].figures["capacity"] * len(same)},
        )
        for same in alike.values()
    ]
    return summed, [
        f"{link} more than once, made one link each with their capacities together: {listed}"
    ]


def _link_names(roads: Sequence[Road]) -> list[str] | None:
    """A name for each link, all different: a street that is several links is told apart by their
    ends. None where no link has one."""
    if all(road.name is None for road in roads):
        return None
    often = Counter(road.name for road in roads)
    found = [
        f"{(road.name or '').removesuffix(BACK)} ({road.tail} → {road.head})".strip()
        if road.name is None or often[road.name] > 1
        else road.name
        for road in roads
    ]
    seen: dict[str, int] = {}
    for place, name in enumerate(found):
        label = name
        while label in seen:  # links side by side
            seen[name] += 1
            label = f"{name} {seen[name]}"
        seen[label] = 1
        found[place] = label
    return found


def assembled(
    roads: Sequence[Road],
    places: Mapping[str, Point | None] | None,
    zones: Mapping[str, str] | None,
    options: Options,
    *,
    directed: bool = False,
) -> tuple[Json, list[str]]:
    """Nodes as 1..n: zones first, in the order of their names; numbers in their order, other names
    as they came."""
    ends = dict.fromkeys(node for road in roads for node in (road.tail, road.head))
    if places is not None:
        require_known_ends(roads, places)
    nodes = list(ends if places is None else places)
    if all(is_number(node) for node in nodes):
        nodes.sort(key=int)
    notes = _one_way(roads, options.words, said=directed)
    if zones:
        by_zone: dict[str, str] = {}
        for node, zone in zones.items():
            if zone in by_zone:
                says = (
                    f"zone {zone} has the nodes {by_zone[zone]} and {node}; here a zone is one "
                    "node:"
                )
                raise TableError(f"{says} a centroid, which connectors join to the others")
            by_zone[zone] = node
        order = sorted(
            by_zone,
            key=lambda zone: (not is_number(zone), int(zone) if is_number(zone) else 0, zone),
        )
        first = [by_zone[zone] for zone in order]
        nodes = first + [node for node in nodes if node not in zones]
        more = ", …" if len(first) > SHOWN_ZONES else ""
        notes.append(
            f"the first {len(first)} nodes are the zones, in the order of the zones' names: from "
            f"zone 1 on {', '.join(first[:SHOWN_ZONES])}{more}"
        )
    else:
        more = ", …" if len(nodes) > SHOWN_ZONES else ""
        notes.append(
            "no file says which nodes are zones: those of a dataset are the first nodes, from "
            f"zone 1 on {', '.join(nodes[:SHOWN_ZONES])}{more}; trips that name their zones are "
            "numbered so where reader.zones (--zones) is this network"
        )
        if not options.through_zones:
            raise TableError(
                f"{options.words.name('through_zones')}: the file does not tell which nodes are "
                "zones",
                "through_zones",
            )
    number = {node: place for place, node in enumerate(nodes, start=1)}
    if loops := list(dict.fromkeys(road.tail for road in roads if road.tail == road.head)):
        raise TableError(f"links lead from a node to itself, at {some_of(loops, 'node')}")
    network: Json = {
        "nodes": len(nodes),
        "links": [
            {"tail": number[road.tail], "head": number[road.head], **road.figures} for road in roads
        ],
    }
    if zones and not options.through_zones:
        network["first_through_node"] = len(zones) + 1
    if nodes != [str(place) for place in number.values()]:
        network["node_names"] = nodes
    known = [point for node in nodes if (point := (places or {}).get(node)) is not None]
    if known:  # of all nodes or of none
        network["nodes_xy"] = [list(point) for point in known]
    if names := _link_names(roads):
        network["link_names"] = names
        if few := sum(name != road.name for name, road in zip(names, roads, strict=True)):
            notes.append(
                f"{few:,} of {len(roads):,} links have no name, or share one: the nodes at their "
                "ends are added to it"
            )
    if any(road.shape for road in roads) and not known:
        notes.append(
            "nodes have no coordinates, so there is no map and the lines of links are left out"
        )
    elif any(road.shape for road in roads):
        network["link_shapes"] = [[list(point) for point in road.shape] for road in roads]
    return network, notes

"""CSV: a table of links, and one of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from discreet_client.networks.assembly import assembled, each_street_once, with_opposite_links
from discreet_client.networks.links import link_figures, links_of, street_names
from discreet_client.networks.measures import said_in_minutes
from discreet_client.networks.nodes import called_by_names, places_of, zone_count, zones_of
from discreet_client.networks.roads import (
    LENGTH,
    LINK,
    LINK_OPTIONAL,
    NODE,
    NODE_NAME,
    PLACE,
    AnyFile,
    Made,
    Options,
    Road,
)
from discreet_client.tables import Table, TableError


def read_tables(tables: Mapping[AnyFile, Table], options: Options) -> Made:
    known = (*LINK, *LINK_OPTIONAL, *LENGTH, *NODE, NODE_NAME, *PLACE, "zone")
    if unknown := sorted(set(options.columns) - set(known)):
        raise TableError(
            f"columns: nothing is called {unknown[0]!r} here; there are {', '.join(known)}",
            "columns",
        )
    words, tail = options.words, options.columns.get("tail", "tail")
    links = [path for path, table in tables.items() if tail in table.columns]
    nodes = [path for path in tables if path not in links]
    if len(links) != 1 or len(nodes) > 1:
        listed = next(iter(tables.values())).listed()
        raise TableError(
            f"CSV: one table of links, with a column {tail}, and one of nodes or none; columns "
            f"are: {listed}; say {words.columns('tail', 'head')}, where a link begins and ends, "
            "beside them free_flow_time, or length and speed with "
            f"{words.option('units', 'km,kph')}; capacity, or "
            f"{words.option('lane_capacity', 'N')}; name and directed where there are such",
            "columns",
        )
    table, notes, left_out, warnings = links_of(
        tables[links[0]], links[0].name, "CSV", options, ends=True
    )
    roads = [
        Road(tail, head, figures, name)
        for tail, head, figures, name in zip(
            table.names("tail").tolist(),
            table.names("head").tolist(),
            link_figures(table),
            street_names(table),
            strict=True,
        )
    ]
    places, zones = None, None
    if nodes:
        chosen = {role: name for role, name in options.columns.items() if role in (*NODE, *PLACE)}
        places = places_of(tables[nodes[0]], chosen, words)
        zones = zones_of(tables[nodes[0]], options.columns.get("zone", "zone"), list(places))
        roads, places, zones = called_by_names(
            tables[nodes[0]], options.columns, roads, places, zones
        )
    roads, once = each_street_once(with_opposite_links(roads, table, options), options)
    directed = "directed" in table.columns
    network, told = assembled(roads, places, zones, options, directed=directed)
    told = [*notes, *told, *once]
    return Made(said_in_minutes(network, notes), told, left_out, warnings, zone_count(zones))

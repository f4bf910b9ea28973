"""A network by itself as a chart: its links as wide as their capacities, and where its nodes
are."""

from __future__ import annotations

import numpy as np

from discreet.figures.charts import Chart, Table
from discreet.figures.geometry import beside, half_arrows, inches, zone_radius
from discreet.figures.style import QUIET
from discreet.figures.traces import polygons
from discreet.problems.road_networks.network import (
    MAX_LINKS,
    MAX_NODES,
    NAMED_ZONES,
    Floats,
    RoadNetwork,
    link_hovers,
    map_figure,
    node_traces,
)

WIDEST_QUANTILE = 0.95
"""The quantile of capacities above which links, such as connectors without a limit, are drawn no
wider."""


def road_map(roads: RoadNetwork, zones: int | None) -> Chart | None:
    """The map of a network with coordinates, and its links as a table; None of one without, or of
    more nodes than are drawn. `zones`: how many of the first nodes get circles with their names;
    None where it is not known: all nodes of a small network."""
    places = roads.places()
    if places is None or roads.nodes > MAX_NODES or not roads.links:
        return None
    named = zones if zones is not None else roads.nodes if roads.nodes <= NAMED_ZONES else 0
    network = roads.arrays(min(named, roads.nodes))
    where = inches(places)
    radius = np.full(network.nodes, zone_radius(where, network))
    widest = 0.4 * float(radius[0])
    radius[network.zones :] *= 0.4
    widths = _widths(network.capacity, widest)
    arrows = half_arrows(where, network.tail, network.head, widths, beside(network, widths), radius)
    drawn = np.argsort(-network.capacity, kind="stable")[:MAX_LINKS]
    texts = [
        f"{link.free_flow_time:,.6g} without traffic, capacity {link.capacity:,.6g}"
        for link in (roads.links[place] for place in drawn.tolist())
    ]
    data = [polygons("links", arrows[drawn], QUIET)]
    data += [link_hovers(where, network, roads, drawn, texts)]
    data += node_traces(where, network, roads, radius)
    left_out = (
        ""
        if drawn.size == len(roads.links)
        else f" Shown are the {drawn.size:,} links with the largest capacities of "
        f"{len(roads.links):,}."
    )
    circles = "zones" if zones is not None else "nodes"
    rows = [
        (
            roads.link_called(place),
            roads.called(link.tail),
            roads.called(link.head),
            link.free_flow_time,
            link.capacity,
        )
        for place, link in enumerate(roads.links)
    ]
    return Chart(
        name="map",
        title="Map of the network",
        caption="Each link is a half arrow on the right of its direction: the wider, the larger "
        f"its capacity. Circles are {circles}. Nodes stand where the network's coordinates "
        f"say.{left_out}",
        figure=map_figure(data, where),
        table=Table.of(("link", "from node", "to node", "free-flow time", "capacity"), rows),
    )


def _widths(capacity: Floats, widest: float) -> Floats:
    most = float(np.quantile(capacity, WIDEST_QUANTILE))
    found: Floats = widest * np.clip(capacity / most, 0.1, 1.0)
    return found

"""A network with its link flows as a chart, and the paths of one pair of zones on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.figures.charts import Blocks, Chart, Table, interval_of, largest, noise_of
from discreet.figures.geometry import beside, half_arrows, inches, layout, zone_radius
from discreet.figures.series import field
from discreet.figures.style import INK, QUIET
from discreet.figures.traces import Trace, bars, figure, heat, matrix_axes, plain, polygons
from discreet.problems.results import counted
from discreet.problems.road_networks.network import (
    MAX_LINKS,
    MAX_NODES,
    Floats,
    RoadNetwork,
    hover_texts,
    map_figure,
    node_traces,
)
from discreet.problems.routing import map_traces
from discreet.problems.routing.class_charts import class_charts
from discreet.solvers.traffic.traffic_assignment import Network

SHOWN = (
    "map of the network with its flows, how full the links are, released demand; flows, costs and "
    "demand of each class of users; the paths of any pair of zones, on the map and in words"
)
NAMED_ORIGINS = 20
UNDETERMINED = "the model does not determine how much these carry, other ways are as good"
WHISKERS = " Whiskers: 90 % noise intervals."


def charts_of(problem: dict[str, Any], plan: dict[str, Any], result: dict[str, Any]) -> list[Chart]:
    """The map, the load of links, the released demand, and the selected additional charts."""
    charts = []
    roads = RoadNetwork.model_validate(problem["network"])
    if roads.nodes <= MAX_NODES and {"link_flows", "unit_flows"} & result.keys():
        charts.append(network_map(roads, result, plan, closed=problem.get("closed_links") or ()))
    if "link_flows" in result:
        charts.append(
            _loads(roads, np.array(result["link_flows"]), interval_of(result, "link_flows"))
        )
    if (demand := np.array(result.get("demand", ()))).size:
        charts.append(_demand(demand, plan, result, zone_names(problem, result)))
    names = zone_names(problem, result)
    charts += class_charts(problem, plan, result, names)
    return [*charts, *selection_charts(roads, result, names)]


def row_names(problem: dict[str, Any], result: dict[str, Any], field: str) -> list[str] | None:
    """Labels of the rows of a field: zones by their numbers, links by theirs and the nodes at their
    ends, classes of users by their names."""
    if field == "demand":
        roads = RoadNetwork.model_validate(problem["network"])
        return [
            f"zone {roads.called(zone)}" for zone in range(1, roads.nodes + 1)
        ]  # the first nodes are the zones
    if field == "skims" and (called := zone_names(problem, result)):
        return [f"zone {name}" for name in called]
    if field in ("link_flows", "link_flow_changes"):
        roads = RoadNetwork.model_validate(problem["network"])
        return [roads.way(link) for link in range(len(roads.links))]
    if field in ("demand_by_class", "link_flows_by_class", "skims_by_class"):
        return [str(name) for name in result.get("user_classes", ())]
    return None


def zone_names(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[str] | None:
    """The network's names of the zones, which are the first of its nodes; None if they have only
    numbers."""
    names = problem["network"].get("node_names")
    zones = len(result.get("demand", ())) or max(
        (pair["origin"] for pair in result.get("policy", ())), default=None
    )
    return None if names is None else [str(name) for name in names[:zones]]


def zones_of(result: dict[str, Any], roads: RoadNetwork) -> int:
    """The number of zones of a result; its policy has every ordered pair."""
    pairs = result.get("policy", ())
    return len(result.get("demand", ())) or max(
        (pair["origin"] for pair in pairs), default=roads.nodes
    )


def network_map(
    roads: RoadNetwork,
    result: dict[str, Any],
    plan: dict[str, Any],
    paths: Sequence[dict[str, Any]] | None = None,
    closed: Sequence[int] = (),
) -> Chart:
    """Half arrows as wide as the flow, coloured by flow / capacity; `paths` of one pair are drawn
    on top in separate colours with widths by their shares, and all other links in grey."""
    network = roads.arrays(min(zones_of(result, roads), roads.nodes))
    # Otherwise the method gradient was used, which releases the route of one trip of each pair.
    counted = "link_flows" in result
    flow = np.array(result["link_flows"] if counted else np.sum(result["unit_flows"], axis=0))
    ratio = flow / network.capacity if counted else flow
    known = roads.places()
    where = inches(
        _places(network.nodes, network.tail.tobytes(), network.head.tobytes(), network.zones)
        if known is None
        else known
    )
    radius = np.full(network.nodes, zone_radius(where, network))
    widest = 0.8 * float(radius[0])
    radius[network.zones :] *= 0.4
    widths = np.maximum(0.06 * widest, widest * flow / (float(flow.max(initial=0.0)) or 1.0))
    arrows = half_arrows(where, network.tail, network.head, widths, beside(network, widths), radius)
    drawn = np.argsort(-flow, kind="stable")[:MAX_LINKS]
    if paths is None:
        data = map_traces.classes(arrows, ratio, drawn, counted=counted)
    else:
        data = [polygons("all other links", arrows[drawn], QUIET, opacity=0.35)]
        data += map_traces.paths_of(where, network, radius, paths, widest)
    left_open = np.array(result.get("undetermined_links", ()), dtype=np.int64)
    if left_open.size and paths is None:
        data += [polygons("not determined", arrows[left_open], QUIET)]
    if closed:
        data += [map_traces.closed(where, network, closed)]
    ends = interval_of(result, "link_flows") if counted else None
    data += [
        hover_texts(
            where,
            network,
            roads,
            flow,
            ratio if counted else None,
            ends,
            drawn,
            left_open.tolist(),
        )
    ]
    data += node_traces(where, network, roads, radius)
    rows = [
        (roads.link_called(k), *_ends(roads, k), float(flow[k]), float(ratio[k]))[
            : 5 if counted else 4
        ]
        for k in np.argsort(-ratio, kind="stable").tolist()
    ]
    left_out = (
        ""
        if drawn.size == flow.size
        else f" Shown are the {drawn.size} links with the largest flows of {flow.size}."
    )
    links = (
        "Each link is a half arrow on the right of its direction: the wider, the more flow a "
        "period; its colour says how full it is (flow / capacity), the darker on a light page the "
        "fuller: the same colours in all maps."
        if paths is None and counted
        else "Each link is a half arrow on the right of its direction: the wider and the darker "
        "on a light page, the more of the pairs' ways lead over it, if every pair of zones had "
        "one trip."
        if paths is None
        else "The paths of this pair in colours of their own, as wide as the share of its trips "
        "that they take; all other links in grey, as wide as their flow."
    )
    if left_open.size and paths is None:
        links += f" Grey: {UNDETERMINED}."
    released = "the released demand" if counted else "the released unit flows"
    return Chart(
        name="network",
        title="Flows on the network" if paths is None else "Paths on the network",
        caption=f"{links} Circles with {'numbers' if roads.node_names is None else 'names'} are "
        f"zones. {_LAID_OUT if known is None else _PLACED} All of it follows from {released}, so "
        "noise in that moves flows, and no more about the trips can be read from "
        f"it.{left_out}{noise_of(plan)}",
        figure=map_figure(data, where),
        table=Table.of(
            ("link", "from node", "to node", "flow", "flow / capacity")[: 5 if counted else 4], rows
        ),
    )


_LAID_OUT = "The places of nodes are laid out from the links, not from geography."
_PLACED = "Nodes stand where the network's coordinates say."


def _ends(roads: RoadNetwork, link: int) -> tuple[int | str, int | str]:
    """The nodes at the ends of a link, by their names if they have some."""
    tail, head = roads.links[link].tail, roads.links[link].head
    return (tail, head) if roads.node_names is None else (roads.called(tail), roads.called(head))


@lru_cache(maxsize=16)
def _places(nodes: int, tail: bytes, head: bytes, zones: int) -> Floats:
    """The layout of a network, which takes up to a second if it is large."""
    ends = [np.frombuffer(side, dtype=np.int64) for side in (tail, head)]
    ones = np.ones(ends[0].size)
    return layout(Network(nodes, zones, 0, ends[0], ends[1], ones, ones))


def _loads(roads: RoadNetwork, flows: Floats, ends: tuple[Floats, Floats] | None) -> Chart:
    capacity = np.array([link.capacity for link in roads.links])
    ratio = flows / capacity
    order = np.argsort(-ratio, kind="stable")
    most = order[:60]
    ways = [plain(roads.way(k)) for k in most.tolist()]
    texts = [
        f"{way}: {ratio[k]:.3f} of capacity" for way, k in zip(ways, most.tolist(), strict=True)
    ]
    interval = None
    if ends is not None:
        low, high = ends[0] / capacity, ends[1] / capacity
        interval = low[most], high[most]
        texts = [
            f"{text} ({low[k]:.3f} to {high[k]:.3f})" if np.isfinite(low[k]) else text
            for text, k in zip(texts, most.tolist(), strict=True)
        ]
    trace = bars("flow / capacity", list(range(1, len(most) + 1)), ratio[most], interval=interval)
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    full = int((ratio > 1).sum())
    shown = (
        f"the {len(most)} fullest of {len(ratio)} links" if len(most) < len(ratio) else "all links"
    )
    limit: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": "capacity",
        "x": [0.5, len(most) + 0.5],
        "y": [1, 1],
        "line": {"color": INK, "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
    }
    drawn = figure([trace, limit], x=f"{shown}, fullest first", y="flow / capacity", height=320)
    columns = ("link", "from node", "to node", "flow", "capacity", "flow / capacity")
    rows = [
        (
            roads.link_called(k),
            *_ends(roads, k),
            float(flows[k]),
            roads.links[k].capacity,
            float(ratio[k]),
        )
        + (() if ends is None else tuple(_cell(end[k]) for end in ends))
        for k in order.tolist()
    ]
    return Chart(
        name="loads",
        title="How full the links are",
        caption=f"Flow / capacity of {shown}. {full} of {len(ratio)} carry more than their "
        "capacity (dotted line). Figures follow from the released "
        "demand." + ("" if ends is None else WHISKERS),
        figure=drawn,
        table=Table.of(columns + (() if ends is None else ("flow from", "flow to")), rows),
    )


def _cell(end: float) -> float | str:
    """An end of an interval in a table; empty where there is none."""
    return float(end) if np.isfinite(end) else ""


def _demand(
    demand: Floats, plan: dict[str, Any], result: dict[str, Any], names: Sequence[str] | None
) -> Chart:
    ends = interval_of(result, "demand")
    called = names or [str(zone) for zone in range(1, len(demand) + 1)]
    noisy = result.get("uncertainty", {}).get("noise_dominates", {}).get("demand", [])
    origins = [called[zone] for zone in np.flatnonzero(noisy).tolist()]
    says = ""
    if origins:
        named = (
            f"{', '.join(origins[:NAMED_ORIGINS])}{', …' if len(origins) > NAMED_ORIGINS else ''}"
        )
        says = f" Rows that are mostly noise: {len(origins)} of {len(demand)} ({named})."
    rows = [
        (
            *(called[origin], called[destination], trips),
            *(() if ends is None else (float(end[origin, destination]) for end in ends)),
        )
        for origin, destination, trips in largest(demand)
    ]
    blocks = Blocks.of(len(demand), names=called)
    labels = [plain(one) for one in blocks.labels]
    trace = heat(
        blocks.sums(demand),
        x=labels,
        y=labels,
        hover="from %{y} to %{x}: %{z} trips",
        title="trips a period",
    )
    return Chart(
        name="demand",
        title="Released demand",
        caption="Mean trips of a period from each zone (row) to each other (column), as the "
        "mechanism released them: pairs without any trip have noise too, small figures mean "
        f"little.{says}{noise_of(plan)}{blocks.says}",
        figure=figure([trace], x="destination", y="origin", height=460, **matrix_axes()),
        table=Table.of(
            ("origin", "destination", "trips a period", *(() if ends is None else ("from", "to"))),
            rows,
        ),
    )


def draw(
    problem: dict[str, Any],
    result: dict[str, Any],
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
) -> None:
    """Link flows on a map."""
    from discreet.figures.network import draw_link_flows  # noqa: PLC0415 - matplotlib is not loaded for pages

    if "unit_flows" in result or "unit_flows" in result.get("tables", ()):
        raise InvalidInput(
            "the method gradient releases a routing without demand: there are no flows to draw"
        )
    network = RoadNetwork.model_validate(problem["network"])
    flows = field(result, "link_flows")
    places = network.places() if coordinates is None else coordinates
    draw_link_flows(
        network.arrays(network.nodes),
        flows,
        path,
        coordinates=places,
        names=network.node_names,
        undetermined=result.get("undetermined_links", ()),
    )


def pairs(problem: Mapping[str, Any], result: dict[str, Any]) -> int:
    """Zones of the result; its policy has paths between every two of them."""
    return zones_of(result, RoadNetwork.model_validate(problem["network"]))


def pair_map(
    problem: Mapping[str, Any],
    plan: dict[str, Any],
    result: dict[str, Any],
    paths: Sequence[dict[str, Any]],
) -> Chart:
    """The map with the paths of one pair on top."""
    closed = problem.get("closed_links") or ()
    return network_map(RoadNetwork.model_validate(problem["network"]), result, plan, paths, closed)


def pair_paths(problem: Mapping[str, Any], paths: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Paths as lists of nodes, with their free-flow times."""
    roads = RoadNetwork.model_validate(problem["network"])
    return [
        {
            "share": path["share"],
            "nodes": [
                _ends(roads, path["links"][0])[0],
                *(_ends(roads, k)[1] for k in path["links"]),
            ],
            "links": path["links"],
            "free_flow_time": sum(roads.links[k].free_flow_time for k in path["links"]),
        }
        for path in paths
        if path["links"]
    ]


# Selection charts ---------------------------------------------------------------------------------
# Charts of selected additional fields: who uses selected links, and the travel times of pairs.

SHOWN_PAIRS = 40
SHOWN_LINKS = 30
NO_CHANGE = 1e-9
"""Changes below this fraction of the largest flow are left over by the assignment's gap."""
ON_THIS_POLICY = " 90 % noise intervals of what the true trips do on this policy."


def selection_charts(
    roads: RoadNetwork, result: Mapping[str, Any], names: Sequence[str] | None = None
) -> list[Chart]:
    """Charts of the fields `link_flow_changes`, `select_link` and `skims`, if the result has them.
    `names`: those of zones that have some."""
    charts = []
    if result.get("link_flow_changes"):
        charts.append(_changes(roads, result))
    charts += [
        _users(roads, result, field)
        for field in ("select_link", "select_link_by_class")
        if result.get(field)
    ]
    if "skims" in result:
        charts.append(_times(roads, np.array(result["skims"]), result, names))
    return charts


def _users(roads: RoadNetwork, result: Mapping[str, Any], field: str) -> Chart:
    rows, ends = result[field], interval_of(result, field)
    own = field == "select_link_by_class"
    trips = np.array([row["trips"] for row in rows])
    order = np.argsort(-trips, kind="stable")
    most = order[:SHOWN_PAIRS]
    ways = [
        f"{roads.called(row['origin'])} \u2192 {roads.called(row['destination'])} over link "
        f"{roads.way(row['link'])}{', ' + row['user_class'] if own else ''}"
        for row in (rows[k] for k in most.tolist())
    ]
    interval = None if ends is None else (ends[0][most], ends[1][most])
    trace = bars("trips a period", list(range(1, len(most) + 1)), trips[most], interval=interval)
    texts = [
        f"{plain(way)}: {trips[k]:.6g} trips" for way, k in zip(ways, most.tolist(), strict=True)
    ]
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    links = len({row["link"] for row in rows})
    shown = f"the {len(most)} largest of {len(rows)}" if len(most) < len(rows) else "all"
    columns = (
        *(("class",) if own else ()),
        "link",
        "from zone",
        "to zone",
        "share of the pair",
        "trips a period",
        *(() if ends is None else ("from", "to")),
    )
    table = (
        (
            *((rows[k]["user_class"],) if own else ()),
            roads.way(rows[k]["link"]),
            roads.called(rows[k]["origin"]),
            roads.called(rows[k]["destination"]),
            rows[k]["share"],
            rows[k]["trips"],
            *(() if ends is None else (float(ends[0][k]), float(ends[1][k]))),
        )
        for k in order.tolist()
    )
    return Chart(
        name="select-link",
        title="Who uses the chosen links",
        caption=f"Trips a period of each pair of zones over {counted(links, 'chosen link')}: "
        f"{shown}. They follow from the released demand and "
        "policy." + ("" if ends is None else ON_THIS_POLICY),
        figure=figure([trace], x="pairs, most trips first", y="trips a period", height=320),
        table=Table.of(columns, table),
    )


def _changes(roads: RoadNetwork, result: Mapping[str, Any]) -> Chart:
    moved, ends = np.array(result["link_flow_changes"]), interval_of(result, "link_flow_changes")
    flows = np.array(result["link_flows"])
    order = np.argsort(-np.abs(moved), kind="stable")
    most = order[
        : min(
            SHOWN_LINKS,
            int(np.count_nonzero(np.abs(moved) > NO_CHANGE * np.abs(flows).max(initial=1.0))),
        )
    ]
    interval = None if ends is None else (ends[0][most], ends[1][most])
    trace = bars("change", list(range(1, len(most) + 1)), moved[most], interval=interval)
    texts = [f"{plain(roads.way(k))}: {moved[k]:+,.6g} trips" for k in most.tolist()]
    trace |= {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    rows = (
        (
            *(roads.way(k), float(flows[k] - moved[k]), float(flows[k]), float(moved[k])),
            *(() if ends is None else (float(ends[0][k]), float(ends[1][k]))),
        )
        for k in order.tolist()
    )
    columns = ("link", "all roads open", "now", "change", *(() if ends is None else ("from", "to")))
    told = "" if ends is None else " Whiskers: 90 % noise intervals of the change itself."
    return Chart(
        name="closing",
        title="What closing changes",
        caption=f"Trips a period that {counted(len(most), 'link')} carry more or less than with "
        f"all roads open, of the same released trips, the largest changes first.{told}",
        figure=figure(
            [trace], x="links, largest change first", y="trips a period, change", height=320
        ),
        table=Table.of(columns, rows),
    )


def _times(
    roads: RoadNetwork,
    times: NDArray[np.float64],
    result: Mapping[str, Any],
    names: Sequence[str] | None,
) -> Chart:
    ends = interval_of(result, "skims")
    blocks = Blocks.of(len(times), names=names) if names else Blocks.of(len(times), first=1)
    pairs = blocks.sums(~np.eye(len(times), dtype=bool))
    trace = heat(
        blocks.sums(times) / np.maximum(pairs, 1.0),
        x=[plain(one) for one in blocks.labels],
        y=[plain(one) for one in blocks.labels],
        hover="from %{y} to %{x}: %{z}",
        title="travel time",
    )
    rows = [
        (
            roads.called(origin),
            roads.called(to),
            time,
            *(() if ends is None else (float(end[origin - 1, to - 1]) for end in ends)),
        )
        for origin, to, time in largest(times, first=1)
    ]
    return Chart(
        name="skims",
        title="Travel times",
        caption="Time that a trip from each zone (row) to each other (column) takes in the mean "
        f"on its paths at the released flows, in {roads.time_unit or 'the unit of free_flow_time'}."
        f"{'' if ends is None else ON_THIS_POLICY}{blocks.says}",
        figure=figure([trace], x="destination", y="origin", height=460, **matrix_axes()),
        table=Table.of(
            ("from zone", "to zone", "time", *(() if ends is None else ("from", "to"))), rows
        ),
    )

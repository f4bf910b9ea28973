"""Road networks: public objects of their own, which routing problems hold or name; and latencies of
their links."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Discriminator, Field, StringConstraints, Tag
from pydantic.dataclasses import dataclass

from discreet.errors import FieldIssue
from discreet.figures.charts import Chart, Table
from discreet.figures.geometry import beside, half_arrows, inches, zone_radius
from discreet.figures.style import INK, PAPER, QUIET
from discreet.figures.traces import Figure, Trace, figure, plain, polygons, rounded
from discreet.intake.field_issues import WHY, and_more
from discreet.intake.items import InPieces
from discreet.problems.contents import MAX_ISSUES, PublicObject
from discreet.problems.numbers import Frozen, Real, Seen
from discreet.solvers.traffic.traffic_assignment import Latency, Network, unreachable_pairs

# Network ------------------------------------------------------------------------------------------

Node = Annotated[
    int, Field(strict=True, ge=1, json_schema_extra={WHY: "nodes are numbered from 1"})
]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Link:
    """A directed link of the network; nodes are 1..n.

    Its travel time is `free_flow_time (1 + b (y / capacity)^power) + fixed_cost` at y trips a
    period; `b` and `power` are those of the problem's `latency` where the link has none of its own.
    """

    # Not a pydantic model: that takes five times as much memory, and networks have many links.

    tail: Node
    head: Node
    free_flow_time: Annotated[Real, Field(ge=0, le=1e9)]
    capacity: Annotated[Real, Field(gt=0, le=1e12)]
    b: Annotated[Real, Field(ge=0, le=1e12)] | None = Field(
        default=None,
        description="Of this link; by default the latency's b, or factor where that is affine",
    )
    power: Annotated[Real, Field(ge=0, le=20)] | None = Field(
        default=None,
        description="Of this link, 0 or at least 1; by default the latency's, 1 where that is "
        "affine",
    )
    fixed_cost: Annotated[Real, Field(ge=0, le=1e9)] = Field(
        default=0.0,
        description="Added at any flow, in the unit of free_flow_time: a toll or a length by its "
        "weight",
    )


Coordinate = Annotated[Real, Field(ge=-1e12, le=1e12)]
Point = tuple[Coordinate, Coordinate]
Line = Annotated[tuple[Point, ...], Field(fail_fast=True)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), Seen]
MOST = 1_000_000
"""Nodes or links of a network."""

MOST_APART = 3
"""So many pairs without a path are named one by one; where there are more, the zone that most of
them share is named."""


def _without_path(pairs: Sequence[tuple[int, int]], names: Sequence[str] | None) -> list[str]:
    """Sentences that name ordered pairs of zones, counted from 0, that no path joins. Where most of
    them share an origin or a destination, one sentence says so, with the first of them."""

    def called(zone: int) -> str:
        return f"zone {zone + 1}" if names is None else f"zone {zone + 1} ({names[zone]})"

    for end in (1, 0):
        shared, often = Counter(pair[end] for pair in pairs).most_common(1)[0] if pairs else (0, 0)
        if often > MOST_APART and 2 * often >= len(pairs):
            other = next(pair[1 - end] for pair in pairs if pair[end] == shared)
            origin, destination = (other, shared) if end else (shared, other)
            which = "from" if end else "to"
            says = (
                f"no path leads from {called(origin)} to {called(destination)}, nor {which} "
                f"{often - 1} others"
            )
            return [f"{says}; {len(pairs)} pairs or more have none" if len(pairs) > often else says]
    return [
        f"no path leads from {called(origin)} to {called(destination)}"
        for origin, destination in pairs
    ]


class RoadNetwork(PublicObject):
    """A public network. Zones are its first nodes; nodes before `first_through_node` are not passed
    through.

    Coordinates and names change no flow: pictures and files that results are written to are made
    with them.
    """

    type: ClassVar[str] = "network"
    prefix: ClassVar[str] = "net"

    nodes: Annotated[int, Field(strict=True, ge=1, le=MOST)]
    first_through_node: Annotated[int, Field(strict=True, ge=1)] = 1
    links: Annotated[tuple[Link, ...], InPieces(max_length=MOST)]
    period_minutes: Annotated[Real, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Length of the period that capacities are for. Jobs on periods of another "
        "length are refused; if absent, capacities are taken for those of a dataset's period, "
        "however long, and the plan says so",
    )
    time_unit: Literal["seconds", "minutes", "hours"] | None = Field(
        default=None,
        description="Unit of free_flow_time and fixed_cost, which answers name beside travel "
        "times; no flow depends on it",
    )
    nodes_xy: Annotated[tuple[Point, ...], InPieces(max_length=MOST)] | None = Field(
        default=None,
        description="Coordinates [x, y] of every node, by number; x to the right, y upward, in any "
        "unit",
    )
    node_names: Annotated[tuple[Label, ...], InPieces(max_length=MOST)] | None = Field(
        default=None,
        description="What each node is called where the network comes from, by number; all "
        "different",
    )
    link_names: Annotated[tuple[Label, ...], InPieces(max_length=MOST)] | None = Field(
        default=None,
        description="What each link is called where the network comes from, by position; all "
        "different",
    )
    link_shapes: Annotated[tuple[Line, ...], InPieces(max_length=MOST)] | None = Field(
        default=None,
        description="The points of each link's line between its two nodes, by position",
    )

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Three places with coordinates, and a road both ways between every two."""
        ways = [(1, 2, 10.0), (2, 3, 5.0), (1, 3, 7.0)]
        links = [
            {"tail": tail, "head": head, "free_flow_time": time, "capacity": 800.0}
            for one, other, time in ways
            for tail, head in ((one, other), (other, one))
        ]
        return {"nodes": 3, "links": links, "nodes_xy": [[0, 0], [2, 0], [1, 1]]}

    def issues(self, zones: int, minutes: float | None = None) -> list[FieldIssue]:
        """What keeps this from being a network that joins all ordered pairs of zones, with
        capacities of periods of so many minutes; of pairs the first few."""
        found = []
        own = self.period_minutes
        if own is not None and minutes is not None and not math.isclose(own, minutes):
            says = (
                f"capacities are of periods of {own:g} minutes, the dataset's periods have "
                f"{minutes:g}: read the files"
            )
            found.append(
                FieldIssue(
                    "/period_minutes",
                    f"{says} again for these (--period-minutes {minutes:g}, period_minutes in "
                    "Python, Minutes of a period on pages)",
                )
            )
        if self.nodes < zones:
            says = (
                f"your network has {self.nodes} nodes, the dataset {zones} zones: zones are the "
                "first of the nodes"
            )
            found.append(FieldIssue("/nodes", says))
        found += self.own_issues()
        if found:
            return found

        pairs = list(islice(unreachable_pairs(self.arrays(zones)), MAX_ISSUES))
        return [FieldIssue("/links", says) for says in _without_path(pairs, self.node_names)]

    def of_periods(self, minutes: float) -> str:
        """Which periods capacities are of, in a sentence."""
        if self.period_minutes is not None:
            return f"capacities per {minutes:g} minutes (stated by the network)"
        return f"capacities per {minutes:g} minutes (not stated by the network)"

    def own_issues(self) -> list[FieldIssue]:
        found = []
        if self.first_through_node > self.nodes:
            found.append(FieldIssue("/first_through_node", f"the network has {self.nodes} nodes"))
        links = self.links
        mistakes: Sequence[tuple[str, Callable[[Link], bool], Callable[[Link], str]]] = (
            (
                "/tail",
                lambda link: link.tail > self.nodes,
                lambda link: f"node {link.tail} of {self.nodes} nodes",
            ),
            (
                "/head",
                lambda link: link.head > self.nodes,
                lambda link: f"node {link.head} of {self.nodes} nodes",
            ),
            ("/power", lambda link: link.power is not None and 0 < link.power < 1, _below_one),
            (
                "",
                lambda link: link.tail == link.head,
                lambda link: f"a link from node {link.tail} to itself",
            ),
        )
        for field, wrong, says in mistakes:
            # One sentence a mistake, or refusing a million links would be an answer of a million
            # sentences.
            if places := [position for position, link in enumerate(links) if wrong(link)]:
                more = and_more(len(places) - 1, f"/links/{places[-1]}{field}")
                found.append(
                    FieldIssue(f"/links/{places[0]}{field}", says(links[places[0]]) + more)
                )
        for field, names, size, what in (
            ("nodes_xy", self.nodes_xy, self.nodes, "nodes"),
            ("node_names", self.node_names, self.nodes, "nodes"),
            ("link_names", self.link_names, len(self.links), "links"),
            ("link_shapes", self.link_shapes, len(self.links), "links"),
        ):
            if names is not None and len(names) != size:
                found.append(
                    FieldIssue(
                        f"/{field}",
                        f"{size} entries are needed, one for each of the {what}, not {len(names)}",
                    )
                )
            elif names is not None and field.endswith("names") and len(set(names)) < size:
                found.append(
                    FieldIssue(
                        f"/{field}",
                        f"a name appears twice, and {what} are told apart by their names",
                    )
                )
        if self.link_shapes is not None and self.nodes_xy is None:
            found.append(
                FieldIssue(
                    "/link_shapes", "needs nodes_xy beside it: lines begin and end at their nodes"
                )
            )
        return found

    def sizes(self) -> dict[str, Any]:
        return {
            "nodes": self.nodes,
            "links": len(self.links),
            "coordinates": self.nodes_xy is not None,
        }

    def places(self) -> NDArray[np.float64] | None:
        """float64[nodes, 2] where coordinates are known."""
        return (
            None
            if self.nodes_xy is None
            else np.array(self.nodes_xy, dtype=np.float64).reshape(-1, 2)
        )

    def called(self, node: int) -> str:
        """A node of 1..n by the name that people know: its own, or its number."""
        return str(node) if self.node_names is None else self.node_names[node - 1]

    def link_called(self, link: int) -> int | str:
        """A link, given by its position from 0, by the name that people know: its own, or that
        position."""
        return link if self.link_names is None else self.link_names[link]

    def way(self, link: int) -> str:
        """The name of a link with the nodes at its ends, in its direction: `12 (3 → 4)`, or `High
        St (Inn → Mill)`."""
        ends = f"({self.called(self.links[link].tail)} \u2192 {self.called(self.links[link].head)})"
        name = str(self.link_called(link))
        return name if name.endswith(ends) else f"{name} {ends}"

    def arrays(self, zones: int) -> Network:
        """The solver's form."""
        return Network(
            nodes=self.nodes,
            zones=zones,
            first_through_node=self.first_through_node - 1,
            tail=np.array([link.tail - 1 for link in self.links], dtype=np.int64),
            head=np.array([link.head - 1 for link in self.links], dtype=np.int64),
            free_flow_time=np.array([link.free_flow_time for link in self.links]),
            capacity=np.array([link.capacity for link in self.links]),
        )

    def latencies(self, latency: AffineLatency | BprLatency) -> Latency:
        """The solver's form of the latency of every link: its own figures, and `latency` where it
        has none."""
        common = latency.solver_form()
        links = self.links
        return Latency(
            coefficient=np.array(
                [common.coefficient if link.b is None else link.b for link in links]
            ),
            power=np.array([common.power if link.power is None else link.power for link in links]),
            fixed_cost=np.array([link.fixed_cost for link in links]),
        )


def _below_one(link: Link) -> str:
    return (
        f"0 or at least 1, not {link.power:g}: below 1 the first vehicle would meet an infinite "
        "slope"
    )


def _named_or_whole(value: Any) -> str:
    return "id" if isinstance(value, str) else RoadNetwork.__name__


NetworkOrId = Annotated[
    Annotated[RoadNetwork, Tag(RoadNetwork.__name__)]
    | Annotated[str, Field(max_length=64), Tag("id")],
    Discriminator(_named_or_whole),
    Field(description="The network, or the id of a stored one"),
]


def affine(network: RoadNetwork, latency: AffineLatency | BprLatency) -> bool:
    """Whether all travel times are affine in the flow."""
    common = latency.solver_form().power
    return all((common if link.power is None else link.power) in (0, 1) for link in network.links)


class AffineLatency(Frozen):
    """`t(y) = free_flow_time (1 + factor y / capacity)`."""

    type: Literal["affine"]
    factor: Annotated[Real, Field(ge=0, le=1e6)] = 1.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.factor, power=1.0)


class BprLatency(Frozen):
    """`t(y) = free_flow_time (1 + b (y / capacity)^power)`, Bureau of Public Roads 1964."""

    type: Literal["bpr"]
    b: Annotated[Real, Field(ge=0, le=1e6)] = 0.15
    power: Annotated[Real, Field(ge=1, le=20)] = 4.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.b, power=self.power)


# Map figure ---------------------------------------------------------------------------------------
# The map of a network as a figure: links, hover texts, nodes.

Floats = NDArray[np.float64]
NARROWEST = 1e-9
"""Inches: a narrower map is a line."""
NAMED_ZONES = 300
MAX_NODES = 10_000
"""Larger networks are not drawn: their layout would take seconds."""
MAX_LINKS = 4000
"""If there are more links, those with the largest flows or capacities are drawn."""


def map_figure(data: list[Trace], where: Floats) -> Figure:
    """`where`: the nodes, in inches."""
    across, up = np.ptp(where, axis=0).tolist()
    shape = up / across if across > NARROWEST else 0.5
    hidden = {"visible": False, "automargin": False}
    return figure(
        data,
        height=int(min(760, max(380, 120 + 700 * shape))),
        xaxis=hidden,
        yaxis={**hidden, "scaleanchor": "x", "scaleratio": 1},
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        uirevision="map",
        meta={"shape": shape},
    )


def hover_texts(
    where: Floats,
    network: Network,
    roads: RoadNetwork,
    flow: Floats,
    ratio: Floats | None,
    ends: tuple[Floats, Floats] | None,
    drawn: NDArray[np.int64],
    undetermined: Sequence[int] = (),
) -> Trace:
    """Invisible points in the middle of links, on their right, that carry the hover texts."""
    left_open = set(undetermined)

    def between(link: int) -> str:
        if link in left_open:
            return " (not determined)"
        if ends is None or np.isnan(ends[0][link]):
            return ""
        return f" ({ends[0][link]:,.4g} to {ends[1][link]:,.4g})"

    texts = [
        f"flow {flow[link]:,.6g}"
        + between(link)
        + ("" if ratio is None else f", {ratio[link]:.3g} of capacity")
        for link in drawn.tolist()
    ]
    return link_hovers(where, network, roads, drawn, texts)


def link_hovers(
    where: Floats,
    network: Network,
    roads: RoadNetwork,
    drawn: NDArray[np.int64],
    texts: Sequence[str],
) -> Trace:
    """As `hover_texts`, with any `texts` below the names of the links."""
    tail, head = network.tail[drawn], network.head[drawn]
    along = where[head] - where[tail]
    right = np.stack([along[:, 1], -along[:, 0]], axis=1) * 0.06
    points = rounded(((where[tail] + where[head]) / 2 + right).T, 5)
    return {
        "type": "scatter",
        "mode": "markers",
        "x": points[0],
        "y": points[1],
        "marker": {"size": 14, "opacity": 0},
        "showlegend": False,
        "hovertemplate": "%{text}<extra></extra>",
        "text": [
            f"link {plain(roads.way(link))}<br>{text}"
            for link, text in zip(drawn.tolist(), texts, strict=True)
        ],
    }


def node_traces(where: Floats, network: Network, roads: RoadNetwork, radius: Floats) -> list[Trace]:
    zones = network.zones
    named = zones <= NAMED_ZONES
    x, y = rounded(where.T, 5)
    size = max(8.0, min(24.0, 90 * float(radius[0]))) if named else 6.0
    others = {
        "type": "scatter",
        "mode": "markers",
        "x": x[zones:],
        "y": y[zones:],
        "marker": {"size": size / 3, "color": QUIET},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    circles = {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "x": x[:zones],
        "y": y[:zones],
        "text": [plain(roads.called(zone + 1)) for zone in range(zones)] if named else [],
        "textfont": {"size": min(12, 0.5 * size)},
        "marker": {"size": size, "color": PAPER, "line": {"color": INK, "width": 1}},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return ([others] if network.nodes > zones else []) + [circles]


# Map ----------------------------------------------------------------------------------------------
# A network by itself as a chart: its links as wide as their capacities, and where its nodes are.

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

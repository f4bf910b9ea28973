"""The map of a network as a figure: links, hover texts, nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.figures.style import INK, PAPER, QUIET
from discreet.figures.traces import Figure, Trace, figure, plain, rounded
from discreet.problems.road_networks.network import RoadNetwork
from discreet.solvers.traffic.traffic_assignment import Network

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

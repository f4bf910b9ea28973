"""Traces of a map of roads: links in the colours of their load, paths, and closed roads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.figures.geometry import half_arrows, round_step
from discreet.figures.style import INK, LOAD_STEP, LOADS
from discreet.figures.traces import Trace, polygons, rounded
from discreet.solvers.traffic.traffic_assignment import Network

Floats = NDArray[np.float64]

PATH_COLOURS = ("#d62a4a", "#2f6f9f", "#b7791f", "#43307a", "#3d8f5f", "#7b8794")


def classes(
    arrows: Floats, ratio: Floats, drawn: NDArray[np.int64], *, counted: bool
) -> list[Trace]:
    """One trace of polygons for each class of `ratio`. Classes of fractions of capacity are the
    same in every map, and all are in the legend, so that two maps can be compared; classes of
    relative trips end with the largest."""
    most = float(ratio.max(initial=0.0))
    step = LOAD_STEP if counted else round_step(most / len(LOADS))
    place = np.minimum(ratio / step + 1e-9, len(LOADS) - 1).astype(np.int64)
    scale, unit = (100.0, "% of capacity") if counted else (1.0, "trips")
    traces = []
    for k, colour in enumerate(LOADS):
        chosen = drawn[place[drawn] == k]
        name = f"{k * step * scale:g}\u2013{(k + 1) * step * scale:g} {unit}"
        if counted and k == len(LOADS) - 1:
            name = f"{k * step * scale:g} {unit} and more"
        if chosen.size:
            traces.append(polygons(name, arrows[chosen], colour))
        elif counted:
            traces.append({**polygons(name, arrows[:0], colour), "x": [None], "y": [None]})
    return traces


def closed(where: Floats, network: Network, closed: Sequence[int]) -> Trace:
    """Dotted lines for closed roads."""
    links = np.array(closed, dtype=np.int64)
    gap = np.full((links.size, 1, 2), np.nan)
    ends = np.stack([where[network.tail[links]], where[network.head[links]]], axis=1)
    x, y = rounded(np.concatenate([ends, gap], axis=1).reshape(-1, 2).T, 5)
    line = {"color": INK, "width": 2.5, "dash": "dot"}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "closed",
        "x": x,
        "y": y,
        "line": line,
        "hoverinfo": "skip",
    }


def paths_of(
    where: Floats, network: Network, radius: Floats, paths: Sequence[dict[str, Any]], widest: float
) -> list[Trace]:
    traces = []
    taken = np.zeros(network.tail.size)
    for place, path in enumerate(paths):
        links = np.array(path["links"], dtype=np.int64)
        if not links.size:
            continue
        widths = np.full(links.size, max(0.25, float(path["share"])) * widest)
        arrows = half_arrows(
            where, network.tail[links], network.head[links], widths, taken[links] + 0.02, radius
        )
        taken[links] += widths[0] + 0.01
        name = f"path {place + 1}: {100 * path['share']:.4g} %"
        traces.append(polygons(name, arrows, PATH_COLOURS[place % len(PATH_COLOURS)]))
    return traces

"""Pictures of a network with its link flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.figures.geometry import (
    POINT,
    Floats,
    beside,
    half_arrows,
    inches,
    layout,
    zone_radius,
)
from discreet.figures.style import DOTS_PER_INCH, INK, LOAD_STEP, LOADS, QUIET, picture_format, save
from discreet.solvers.traffic.traffic_assignment import Network

MARGIN, KEYS = 0.35, 1.55  # inches
SMALLEST_LABEL = 4.0
"""Node numbers that would be smaller than this many points are left out."""
NAME_POINTS = 7.0
LONGEST_NAME = 16
"""Characters of a name in a picture."""
COLOURS = LinearSegmentedColormap.from_list("load", LOADS)
DARKEST = LOAD_STEP * (len(LOADS) - 1)
"""The fraction of capacity that is drawn darkest: the same in all pictures, so that they can be
compared."""


def draw_link_flows(
    network: Network,
    link_flows: ArrayLike,
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
    title: str | None = None,
    names: Sequence[str] | None = None,
    undetermined: Sequence[int] = (),
) -> None:
    """Draw the network as a picture file: .png, .svg or .pdf.

    `link_flows`: float64[m], >= 0, in the unit of the capacities. Every link is half an arrow on
    the right of the line from tail to head, as wide as its flow and coloured by flow / capacity:
    darkest is 150 % or more, in every picture. Links without flow are hairlines. Zones are circles
    with their numbers, or what `names` (one a node) calls them; other nodes are dots. Links of
    which the flow is `undetermined`, by position, are grey.
    `coordinates`: float64[nodes, 2], any unit, x to the right and y upward; without them
    `geometry.layout` places the nodes. Raises InvalidInput where a length does not fit, a figure is
    not finite or negative, or the file has another format.
    """
    flow = np.asarray(link_flows, dtype=np.float64)
    if flow.shape != network.tail.shape:
        raise InvalidInput(
            f"{network.tail.size} links need as many link flows, not an array of shape {flow.shape}"
        )
    if not (np.isfinite(flow).all() and (flow >= 0).all()):
        raise InvalidInput("link flows must be finite and not negative")
    kind = picture_format(path)
    where = layout(network) if coordinates is None else np.asarray(coordinates, dtype=np.float64)
    if where.shape != (network.nodes, 2) or not np.isfinite(where).all():
        raise InvalidInput(f"{network.nodes} nodes need as many finite coordinates [x, y]")

    where = inches(where)
    radius = np.full(network.nodes, zone_radius(where, network))
    widest = 0.8 * radius[0]
    radius[network.zones :] *= 0.4
    heading = 0.45 if title else 0.0
    width, height = where.max(axis=0) + 2 * MARGIN
    height = max(height, 4.0)
    figure = Figure(figsize=(width + KEYS, height + heading), dpi=DOTS_PER_INCH, facecolor="white")
    FigureCanvasAgg(figure)
    chart = _axes(figure, 0, 0, width, height)
    chart.set_xlim(-MARGIN, width - MARGIN)
    middle = where[:, 1].max() / 2
    chart.set_ylim(middle - height / 2, middle + height / 2)
    chart.set_aspect("equal")
    chart.set_axis_off()

    most = float(flow.max(initial=0.0)) or 1.0
    widths = np.maximum(0.8 * POINT, widest * flow / most)
    ratio = flow / network.capacity
    shades = Normalize(0, DARKEST)
    order = np.argsort(flow, kind="stable")  # large flows above small ones where drawings cross
    arrows = half_arrows(where, network.tail, network.head, widths, beside(network, widths), radius)
    links = PolyCollection(
        list(arrows[order]), array=ratio[order], cmap=COLOURS, norm=shades, linewidths=0, zorder=2
    )
    chart.add_collection(links)
    if left_open := list(undetermined):
        grey = PolyCollection(list(arrows[left_open]), facecolors=QUIET, linewidths=0, zorder=2.5)
        chart.add_collection(grey)
        says = f"grey: flow not determined ({len(left_open)})"
        chart.text(0, -MARGIN, says, fontsize=8, color=INK, va="bottom", zorder=4)
    numbers = [str(node) for node in range(1, network.nodes + 1)]
    _draw_nodes(chart, where, network.zones, radius, numbers if names is None else list(names))

    _draw_load_key(figure, links, width, height)
    _draw_width_key(figure, most, widest, width)
    if title:
        figure.text(
            MARGIN / (width + KEYS),
            1 - 0.3 / (height + heading),
            title,
            fontsize=13,
            color=INK,
            va="center",
        )
    save(figure, path, kind)


def _draw_nodes(
    chart: Axes, where: Floats, zones: int, radius: Floats, names: Sequence[str]
) -> None:
    chart.add_collection(
        EllipseCollection(
            2 * radius,
            2 * radius,
            np.zeros(len(where)),
            units="xy",
            offsets=where,
            offset_transform=chart.transData,
            facecolors=["white"] * zones + [QUIET] * (len(where) - zones),
            edgecolors=INK,
            linewidths=min(1.0, 6 * float(radius.max())),
            zorder=3,
        )
    )
    room = 2 * float(radius.max()) / POINT
    longest = max((len(name) for name in names[:zones]), default=1)
    points = min(11.0, room * min(0.5, 1.15 / longest))
    # Names that are too long for the circles stand above them.
    above = points < SMALLEST_LABEL and longest > len(str(zones))
    if above:
        points = NAME_POINTS if room >= SMALLEST_LABEL else 0.0
    if points >= SMALLEST_LABEL:
        for name, (x, y) in zip(names, where[:zones].tolist(), strict=False):
            text = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
            height, side = (y + float(radius.max()), "bottom") if above else (y, "center_baseline")
            chart.text(
                x, height, _plain(text), size=points, color=INK, ha="center", va=side, zorder=4
            )


def _plain(text: str) -> str:
    """A name as it is: matplotlib would read what stands between dollars as mathematics."""
    return text.replace("$", r"\$")


def _draw_load_key(figure: Figure, links: PolyCollection, left: float, height: float) -> None:
    bar = figure.colorbar(
        links, extend="max", cax=_axes(figure, left + 0.1, 2.0, 0.2, height - 2.0 - MARGIN)
    )
    bar.set_label("how full: flow in % of capacity", fontsize=11, color=INK)
    bar.ax.yaxis.set_major_locator(MaxNLocator(6))
    bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    if bar.norm.vmax is not None and bar.norm.vmax > 1:  # marks 100 %
        bar.ax.axhline(1.0, color=INK, linewidth=1.5)
    bar.ax.tick_params(labelsize=10, color=QUIET, labelcolor=INK)
    bar.outline.set_visible(False)


def _draw_width_key(figure: Figure, most: float, widest: float, left: float) -> None:
    """Three arrows of round flows below the colourbar."""
    key = _axes(figure, left, MARGIN, KEYS, 1.2)
    key.set_xlim(0, KEYS)
    key.set_ylim(0, 1.2)
    key.set_axis_off()
    key.text(0.1, 1.1, "flow a period", size=11, color=INK, va="center")
    largest = 10.0 ** np.floor(np.log10(most))
    largest *= max(step for step in (1, 2, 4, 5, 8) if step * largest <= most)
    for flow, y in zip((largest, largest / 2, largest / 4), (0.8, 0.48, 0.2), strict=True):
        width = np.array([widest * flow / most])
        ends = np.array([[0.1, y + width[0] / 2], [0.6, y + width[0] / 2]])
        arrow = half_arrows(ends, np.array([0]), np.array([1]), width, np.zeros(1), np.zeros(2))
        key.add_collection(PolyCollection(list(arrow), facecolors=QUIET, linewidths=0))
        key.text(0.7, y, f"{flow:,.6g}", size=10, color=INK, va="center")


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))

"""A network with its link flows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from discreet.errors import InvalidInput
from discreet.figures.style import DOTS_PER_INCH, INK, LOADS, QUIET, picture_format
from discreet.solvers.traffic_assignment import Network

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAP_INCHES = 8.0
"""The longer side of the map."""
MARGIN, KEYS = 0.35, 1.55  # inches
POINT = 1 / 72
SMALLEST_LABEL = 4.0
"""Node numbers that would be smaller than this many points are left out."""
COLOURS = LinearSegmentedColormap.from_list("load", LOADS)
PIVOTS = 64
STRESS_NODES = 600
"""Up to this many nodes a layout is refined by stress majorization, whose matrices are dense."""


def draw_link_flows(
    network: Network,
    link_flows: ArrayLike,
    path: Path,
    *,
    coordinates: ArrayLike | None = None,
    title: str | None = None,
) -> None:
    """Draw the network as a picture file: .png, .svg or .pdf.

    `link_flows`: float64[m], >= 0, in the unit of the capacities. Every link is half an arrow on the right of the line
    from tail to head, as wide as its flow and coloured by flow / capacity; links without flow are hairlines. Zones are
    numbered circles, other nodes dots. `coordinates`: float64[nodes, 2], any unit, x to the right and y upward; without
    them a layout of the network by distances in links, always the same. Raises InvalidInput where a length does not
    fit, a figure is not finite or negative, or the file has another format.
    """
    flow = np.asarray(link_flows, dtype=np.float64)
    if flow.shape != network.tail.shape:
        raise InvalidInput(f"{network.tail.size} links need as many link flows, not an array of shape {flow.shape}")
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
    shades = Normalize(0, float(ratio.max(initial=0.0)) or 1.0)
    order = np.argsort(flow, kind="stable")  # large flows above small ones where drawings cross
    arrows = half_arrows(where, network.tail, network.head, widths, beside(network, widths), radius)
    links = PolyCollection(list(arrows[order]), array=ratio[order], cmap=COLOURS, norm=shades, linewidths=0, zorder=2)
    chart.add_collection(links)
    _draw_nodes(chart, where, network.zones, radius)

    _draw_load_key(figure, links, width, height)
    _draw_width_key(figure, most, widest, width)
    if title:
        figure.text(MARGIN / (width + KEYS), 1 - 0.3 / (height + heading), title, fontsize=13, color=INK, va="center")
    figure.savefig(path, format=kind)


def layout(network: Network) -> Floats:
    """Coordinates float64[nodes, 2] that put nodes as far apart as the links between them are many; deterministic.

    Pivot multidimensional scaling (Brandes, Pich, "Eigensolver methods for progressive multidimensional scaling of
    large data", GD 2006), refined by stress majorization (Gansner, Koren, North, "Graph drawing by stress
    majorization", GD 2004) where the network is small enough.
    """
    nodes = network.nodes
    if nodes < 3:
        return np.array([[node, 0.0] for node in range(nodes)])
    joined = csr_array((np.ones(network.tail.size), (network.tail, network.head)), shape=(nodes, nodes))
    distances = np.empty((min(nodes, PIVOTS if nodes > STRESS_NODES else nodes), nodes))
    nearest = np.full(nodes, np.inf)
    pivot = 0
    for row in distances:  # pivots far from each other; all nodes of a small network
        row[:] = dijkstra(joined, directed=False, unweighted=True, indices=[pivot])[0]
        nearest = np.minimum(nearest, row)
        nearest[pivot] = -1
        pivot = int(nearest.argmax())
    finite = distances[np.isfinite(distances)]
    distances[~np.isfinite(distances)] = finite.max() + 1  # parts that nothing joins stand side by side
    squares = distances**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1, keepdims=True) + squares.mean()
    where = _principal(-centred.T / 2 @ np.linalg.svd(centred, full_matrices=False)[0][:, :2])
    where *= finite.max() / max(np.ptp(where, axis=0).max(), 1e-9)
    # Nodes with the same distances to all others would coincide and stay so.
    turn = np.arange(nodes) * np.pi * (3 - 5**0.5)
    where += 0.1 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    if nodes <= STRESS_NODES:
        where = _stress_majorized(where, joined, finite.max() + 1)
    return _principal(where)


def _stress_majorized(where: Floats, joined: Any, apart: float) -> Floats:
    """Minimize `sum_{i<j} d_ij^{-2} (|x_i - x_j| - d_ij)^2` from `where`, d the distances in links."""
    distances = dijkstra(joined, directed=False, unweighted=True)
    distances[~np.isfinite(distances)] = apart
    np.fill_diagonal(distances, 1.0)
    weights = distances**-2
    np.fill_diagonal(weights, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights, hermitian=True)
    for _ in range(300):
        now = np.sqrt(((where[:, None] - where[None]) ** 2).sum(axis=2))
        pull = weights * distances / np.maximum(now, 1e-9)
        moved: Floats = inverse @ (pull.sum(axis=1)[:, None] * where - pull @ where)
        if np.abs(moved - where).max() < 1e-4:
            return moved
        where = moved
    return where


def _principal(where: Floats) -> Floats:
    """Centred, the longest extent along x, and of the two mirror images of each axis always the same."""
    where = where - where.mean(axis=0)
    where = where @ np.linalg.svd(where, full_matrices=False)[2].T
    far = where[np.abs(where).argmax(axis=0), [0, 1]]
    return np.copysign(1.0, far) * where


def inches(where: Floats) -> Floats:
    """In inches on the map, so that a unit of the axes is an inch of the picture; the origin at the lower left."""
    extent = float(np.ptp(where, axis=0).max())
    scaled: Floats = (where - where.min(axis=0)) * (MAP_INCHES / extent if extent > 0 else 1.0)
    return scaled


def zone_radius(where: Floats, network: Network) -> float:
    """In inches: small against the links, and such that circles of few pairs of nodes touch."""
    length = np.hypot(*(where[network.head] - where[network.tail]).T)
    length = length[length > 0]
    radius = 0.2 if not length.size else min(0.2, 0.2 * float(np.median(length)))
    if network.nodes > 1:
        apart = np.asarray(cKDTree(where).query(where, k=2)[0])[:, 1]
        radius = min(radius, 0.45 * float(np.quantile(apart, 0.05)))
    return max(radius, 0.02)


def beside(network: Network, widths: Floats) -> Floats:
    """float64[m]: how far from the line between its nodes a link begins; parallel links lie side by side."""
    taken: dict[tuple[int, int], float] = {}
    inner = np.empty(network.tail.size)
    for link, ends in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True)):
        inner[link] = taken.get(ends, 0.4 * POINT)
        taken[ends] = inner[link] + widths[link] + 0.4 * POINT
    return inner


def half_arrows(where: Floats, tail: Ints, head: Ints, widths: Floats, inner: Floats, radius: Floats) -> Floats:
    """float64[m, 4, 2]: polygons on the right of the lines from tail to head, pointed where they enter the head."""
    along = where[head] - where[tail]
    length = np.hypot(along[:, 0], along[:, 1])
    along = along / np.maximum(length, 1e-9)[:, None]
    right = np.stack([along[:, 1], -along[:, 0]], axis=1)
    tip = np.maximum(length - radius[head] - POINT, 0.5 * length)
    shoulder = np.maximum(tip - 1.3 * widths - 2 * POINT, 0.5 * tip)
    start = where[tail]
    outer = inner + widths

    def corner(onward: Floats, aside: Floats) -> Floats:
        return start + onward[:, None] * along + aside[:, None] * right

    begin = np.minimum(0.5 * radius[tail], 0.3 * length)
    return np.stack([corner(begin, inner), corner(begin, outer), corner(shoulder, outer), corner(tip, inner)], axis=1)


def _draw_nodes(chart: Axes, where: Floats, zones: int, radius: Floats) -> None:
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
    points = min(11.0, 2 * float(radius.max()) / POINT * min(0.5, 1.15 / len(str(zones))))
    if points >= SMALLEST_LABEL:
        for node, (x, y) in enumerate(where[:zones].tolist(), start=1):
            chart.text(x, y, str(node), size=points, color=INK, ha="center", va="center_baseline", zorder=4)


def _draw_load_key(figure: Figure, links: PolyCollection, left: float, height: float) -> None:
    bar = figure.colorbar(links, cax=_axes(figure, left + 0.1, 2.0, 0.2, height - 2.0 - MARGIN))
    bar.set_label("flow / capacity", fontsize=11, color=INK)
    bar.ax.yaxis.set_major_locator(MaxNLocator(6))
    bar.ax.tick_params(labelsize=10, color=QUIET, labelcolor=INK)
    bar.outline.set_visible(False)


def _draw_width_key(figure: Figure, most: float, widest: float, left: float) -> None:
    """Three arrows of round flows below the colourbar."""
    key = _axes(figure, left, MARGIN, KEYS, 1.2)
    key.set_xlim(0, KEYS)
    key.set_ylim(0, 1.2)
    key.set_axis_off()
    key.text(0.1, 1.1, "flow", size=11, color=INK, va="center")
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

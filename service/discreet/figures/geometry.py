"""The positions of a network's nodes in a drawing, and the outlines of its links. Uses no drawing
library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from discreet.solvers.traffic.traffic_assignment import Network

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAP_INCHES = 8.0
"""The longer side of the map."""
POINT = 1 / 72  # in inches
PIVOTS = 64
"""Nodes from which distances are computed where a network is large."""
STRESS_NODES = 600
"""Up to this many nodes a layout is refined by stress majorization, whose matrices are dense."""


def layout(network: Network) -> Floats:
    """Coordinates float64[nodes, 2] whose distances are close to the distances in links;
    deterministic.

    Pivot multidimensional scaling (Brandes, Pich, "Eigensolver methods for progressive
    multidimensional scaling of large data", GD 2006), refined by stress majorization (Gansner,
    Koren, North, "Graph drawing by stress majorization", GD 2004) where the network is small
    enough.
    """
    nodes = network.nodes
    if nodes < 3:
        return np.array([[node, 0.0] for node in range(nodes)])
    joined = csr_array(
        (np.ones(network.tail.size), (network.tail, network.head)), shape=(nodes, nodes)
    )
    distances = np.empty((min(nodes, PIVOTS if nodes > STRESS_NODES else nodes), nodes))
    nearest = np.full(nodes, np.inf)
    pivot = 0
    for row in distances:  # pivots far from each other; all nodes of a small network
        row[:] = dijkstra(joined, directed=False, unweighted=True, indices=[pivot])[0]
        nearest = np.minimum(nearest, row)
        nearest[pivot] = -1
        pivot = int(nearest.argmax())
    finite = distances[np.isfinite(distances)]
    distances[~np.isfinite(distances)] = finite.max() + 1  # separate components, side by side
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
    """Minimize `sum_{i<j} d_ij^{-2} (|x_i - x_j| - d_ij)^2` from `where`, d the distances in
    links."""
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
    """The coordinates centred and rotated so that their longest extent is along x, and each axis
    mirrored so that its farthest point is positive."""
    where = where - where.mean(axis=0)
    where = where @ np.linalg.svd(where, full_matrices=False)[2].T
    far = where[np.abs(where).argmax(axis=0), [0, 1]]
    return np.copysign(1.0, far) * where


def inches(where: Floats) -> Floats:
    """The coordinates in inches on the map, with the origin at the lower left."""
    extent = float(np.ptp(where, axis=0).max())
    # divided first: of the smallest extents the factor would be infinite
    scaled: Floats = (where - where.min(axis=0)) / (extent if extent > 0 else 1.0) * MAP_INCHES
    return scaled


def zone_radius(where: Floats, network: Network) -> float:
    """The radius of zones in inches: small against the links, and such that few circles touch."""
    length = np.hypot(*(where[network.head] - where[network.tail]).T)
    length = length[length > 0]
    radius = 0.2 if not length.size else min(0.2, 0.2 * float(np.median(length)))
    if network.nodes > 1:
        from scipy.spatial import cKDTree  # noqa: PLC0415 - the template of solvers draws nothing

        apart = np.asarray(cKDTree(where).query(where, k=2)[0])[:, 1]
        radius = min(radius, 0.45 * float(np.quantile(apart, 0.05)))
    return max(radius, 0.02)


def beside(network: Network, widths: Floats) -> Floats:
    """float64[m]: the distance of each link's inner edge from the line between its nodes; parallel
    links lie side by side."""
    taken: dict[tuple[int, int], float] = {}
    inner = np.empty(network.tail.size)
    for link, ends in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True)):
        inner[link] = taken.get(ends, 0.4 * POINT)
        taken[ends] = inner[link] + widths[link] + 0.4 * POINT
    return inner


def half_arrows(
    where: Floats, tail: Ints, head: Ints, widths: Floats, inner: Floats, radius: Floats
) -> Floats:
    """float64[m, 4, 2]: polygons on the right of the lines from tail to head, pointed where they
    enter the head."""
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
    return np.stack(
        [corner(begin, inner), corner(begin, outer), corner(shoulder, outer), corner(tip, inner)],
        axis=1,
    )


def round_step(least: float) -> float:
    """1, 2, 2.5 or 5 times a power of ten, not below `least`."""
    if not least > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= least * (1 - 1e-9))

"""How kernels read features: of tabular states (one index per row), or dense ones, which may be
computed row by row.

    phi = at(rows, row, room)   what stands for phi(row): an index, a row, or `room` filled with it
    dot(phi, weights)           phi·weights
    add(phi, factor, out)       out += factor phi

The features of a row depend on that row alone, to the last bit: a matrix product may round a row
differently depending on the number of other rows, and each person's share of a sum must be a
function of that person's record. A matrix of all rows' features is never made: it can be a thousand
times as large as the content, so whether it fits into memory would reveal how much content there
is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class DenseRows(NamedTuple):
    """States `points` float64[N, k] in the box `low`, `high` float64[k], to be read as cos(pi c·x),
    x in [0, 1]^k, for c in {0, …, order}^k, the last coordinate of c running fastest. With `order`
    -1 the points themselves are the features (one type for both, so that kernels are compiled
    once)."""

    points: Floats
    low: Floats
    high: Floats
    order: int


Rows = NDArray[np.int32] | DenseRows


@njit(cache=True, nogil=True)
def fourier(points: Floats, row: int, low: Floats, high: Floats, order: int, out: Floats) -> None:
    """Fill `out` float64[(order + 1)^k] with the features of one state, moved into the box; NaN
    counts as its lower end.

    cos of a sum is the real part of a product of e^{i pi c_j x_j}, which is computed coordinate by
    coordinate.
    """
    imaginary = np.zeros(out.size)
    powers, turned = np.empty(order + 1), np.empty(order + 1)
    out[0] = 1.0
    size = 1
    for axis in range(low.size):
        value = points[row, axis]
        share = 0.0
        if value >= high[axis]:
            share = 1.0
        elif value > low[axis]:
            share = min(max((value - low[axis]) / (high[axis] - low[axis]), 0.0), 1.0)
        cosine, sine = math.cos(math.pi * share), math.sin(math.pi * share)
        powers[0], turned[0] = 1.0, 0.0
        for c in range(order):
            powers[c + 1] = powers[c] * cosine - turned[c] * sine
            turned[c + 1] = powers[c] * sine + turned[c] * cosine
        for i in range(
            size - 1, -1, -1
        ):  # backwards: writes are at or after the entries still to be read
            real, other = out[i], imaginary[i]
            for c in range(order, -1, -1):
                out[i * (order + 1) + c] = real * powers[c] - other * turned[c]
                imaginary[i * (order + 1) + c] = real * turned[c] + other * powers[c]
        size *= order + 1
    for i in range(out.size):
        out[i] = min(max(out[i], -1.0), 1.0)


@njit(cache=True, nogil=True)
def fourier_all(points: Floats, low: Floats, high: Floats, order: int, out: Floats) -> None:
    """`fourier` of every row, into `out` float64[N, (order + 1)^k]."""
    for row in range(points.shape[0]):
        fourier(points, row, low, high, order, out[row])


def at(rows: Rows, row: int, room: Floats) -> Any:
    """The representation of phi(row)."""
    if not isinstance(rows, DenseRows):
        return int(rows[row])
    if rows.order < 0:
        return rows.points[row]
    fourier(rows.points, row, rows.low, rows.high, rows.order, room)
    return room


def dot(phi: Any, weights: Floats) -> float:
    """phi·weights."""
    return float(weights[phi]) if isinstance(phi, int) else float(phi @ weights)


def add(phi: Any, factor: float, out: Floats) -> None:
    """out += factor phi."""
    if isinstance(phi, int):
        out[phi] += factor
    else:
        out += factor * cast(Floats, phi)


@overload(at)
def _at(rows: Any, row: Any, room: Any) -> Callable[..., Any] | None:
    if isinstance(rows, types.NamedTuple):

        def computed(rows: Any, row: Any, room: Any) -> Any:
            if rows.order < 0:
                return rows.points[row]
            fourier(rows.points, row, rows.low, rows.high, rows.order, room)
            return room

        return computed

    def stored(rows: Any, row: Any, room: Any) -> Any:
        return rows[row]

    return stored if isinstance(rows, types.Array) else None


@overload(dot)
def _dot(phi: Any, weights: Any) -> Callable[..., Any] | None:
    if isinstance(phi, types.Integer):

        def tabular(phi: Any, weights: Any) -> Any:
            return weights[phi]

        return tabular

    def dense(phi: Any, weights: Any) -> Any:
        total = 0.0
        for column in range(weights.size):
            total += phi[column] * weights[column]
        return total

    return dense if isinstance(phi, types.Array) else None


@overload(add)
def _add(phi: Any, factor: Any, out: Any) -> Callable[..., Any] | None:
    if isinstance(phi, types.Integer):

        def tabular(phi: Any, factor: Any, out: Any) -> Any:
            out[phi] += factor

        return tabular

    def dense(phi: Any, factor: Any, out: Any) -> Any:
        for column in range(out.size):
            out[column] += factor * phi[column]

    return dense if isinstance(phi, types.Array) else None

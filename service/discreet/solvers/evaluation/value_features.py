"""Features of linear value functions: tabular, Fourier, the user's own columns; each with a public
bound on its norm.

A feature map is frozen and public. Called with N states it returns an (N, dimension) float64 array
whose rows never exceed `norm_bound` in l2, whatever the states: a state outside the public box is
moved to its boundary, a row of the user's that is too long is scaled down, NaN counts as 0 (in a
Fourier state: as its lower bound). So the map is total.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit, types
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.errors import InvalidArgument

Floats = NDArray[np.float64]

SMOOTHNESS = 1.0
"""How fast the weights of waves are assumed to fall with their frequency; public, chosen on
synthetic data."""


@dataclass(frozen=True)
class Tabular:
    """One indicator per state: the value of each of `states` states has its own weight."""

    states: int

    @property
    def dimension(self) -> int:
        return self.states

    @property
    def norm_bound(self) -> float:
        """Public bound on |phi|_2: 1."""
        return 1.0

    def scales(self) -> Floats:
        """The expected relative sizes of the weights: all equal."""
        return np.ones(self.states)

    def constant(self) -> Floats | None:
        """The weights that give the value 1 in every state; None if there are none."""
        return np.ones(self.states)

    def __call__(self, state: ArrayLike) -> Floats:
        """`state[N]`, integers in [0, states); IndexError otherwise."""
        index = np.asarray(state)
        if index.size and not (index.min() >= 0 and index.max() < self.states):
            raise IndexError(f"states are 0 to {self.states - 1}")
        rows = np.zeros((index.size, self.states))
        rows[np.arange(index.size), index] = 1.0
        return rows


@dataclass(frozen=True)
class Fourier:
    """cos(pi c·x) for all c in {0, …, order}^k, x the state scaled to [0, 1]^k (Konidaris,
    Osentoski & Thomas 2011).

    `low` and `high`, one number for each of the k coordinates, are the public box.
    """

    order: int
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.order < 0:
            raise InvalidArgument("the order must not be negative")
        if len(self.low) != len(self.high) or not self.low:
            raise InvalidArgument("low and high must have one number for each coordinate")
        if not all(
            math.isfinite(high - low) and low < high
            for low, high in zip(self.low, self.high, strict=True)
        ):
            raise InvalidArgument("low must be below high, both finite")

    @property
    def dimension(self) -> int:
        return int((self.order + 1) ** len(self.low))

    @property
    def norm_bound(self) -> float:
        """Public bound on |phi|_2: sqrt(dimension), reached at `low`."""
        return math.sqrt(self.dimension)

    def scales(self) -> Floats:
        """(1 + |c|²)^(-SMOOTHNESS/2) of every wave: value functions are smooth, so the weights of
        fast waves are small."""
        c = np.indices((self.order + 1,) * len(self.low)).reshape(len(self.low), -1)
        return np.asarray((1.0 + (c**2).sum(axis=0)) ** (-SMOOTHNESS / 2), dtype=np.float64)

    def constant(self) -> Floats | None:
        """The first wave is 1 everywhere."""
        one: Floats = np.eye(1, self.dimension)[0]
        return one

    def __call__(self, state: ArrayLike) -> Floats:
        """`state[N, k]`; InvalidArgument for another k."""
        rows = self.rows(state)
        found = np.empty((len(rows.points), self.dimension))
        fourier_all(*rows, found)
        return found

    def rows(self, state: ArrayLike) -> DenseRows:
        """The same features of `state[N, k]`, to be computed row by row where they are needed."""
        x = np.ascontiguousarray(state, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.low):
            raise InvalidArgument(f"states have {len(self.low)} coordinates")
        return DenseRows(x, np.array(self.low), np.array(self.high), self.order)


@dataclass(frozen=True)
class Identity:
    """The state's own columns, scaled down to a public l2 `bound`."""

    columns: int
    bound: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InvalidArgument("the bound is positive")

    @property
    def dimension(self) -> int:
        return self.columns

    @property
    def norm_bound(self) -> float:
        """Public bound on |phi|_2: `bound`."""
        return self.bound

    def scales(self) -> Floats:
        """All weights are expected to be of the same size."""
        return np.ones(self.columns)

    def constant(self) -> Floats | None:
        """None: no column is known to be constant."""
        return None

    def __call__(self, state: ArrayLike) -> Floats:
        """`state[N, columns]`; InvalidArgument for another number of columns."""
        x = np.asarray(state, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != self.columns:
            raise InvalidArgument(f"states have {self.columns} coordinates")
        # Coordinates are clipped first: then a square cannot overflow, and the row's norm does not
        # grow.
        cut = np.clip(
            np.nan_to_num(x, nan=0.0, posinf=math.inf, neginf=-math.inf), -self.bound, self.bound
        )
        # Slightly below the bound, so that no rounding crosses it.
        norm = np.linalg.norm(cut, axis=1, keepdims=True) / (self.bound * (1 - 1e-12))
        return np.asarray(cut / np.maximum(norm, 1.0), dtype=np.float64)


Features = Tabular | Fourier | Identity


# Feature access -----------------------------------------------------------------------------------
# How kernels read features: of tabular states (one index per row), or dense ones, which may be
# computed row by row.
#
# phi = at(rows, row, room)   what stands for phi(row): an index, a row, or `room` filled with it
#     dot(phi, weights)           phi·weights
#     add(phi, factor, out)       out += factor phi
#
# The features of a row depend on that row alone, to the last bit: a matrix product may round a row
# differently depending on the number of other rows, and each person's share of a sum must be a
# function of that person's record. A matrix of all rows' features is never made: it can be a
# thousand times as large as the content, so whether it fits into memory would reveal how much
# content there is.


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

"""Features of linear value functions: tabular, Fourier, the user's own columns; each with a public
bound on its norm.

A feature map is frozen and public. Called with N states it returns an (N, dimension) float64 array
whose rows never exceed `norm_bound` in l2, whatever the states: a state outside the public box is
moved to its boundary, a row of the user's that is too long is scaled down, NaN counts as 0 (in a
Fourier state: as its lower bound). So the map is total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.evaluation.feature_access import DenseRows, fourier_all

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

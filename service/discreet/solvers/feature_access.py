"""How kernels read features, the same for tabular states (an index a row) and dense ones (a vector a row)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int32] | Floats


def dot(rows: Rows, row: int, weights: Floats) -> float:
    """phi(row)·weights."""
    if rows.ndim == 1:
        return float(weights[rows[row]])
    return float(rows[row] @ weights)


def add_scaled(rows: Rows, row: int, factor: float, out: Floats) -> None:
    """out += factor phi(row)."""
    if rows.ndim == 1:
        out[rows[row]] += factor
    else:
        out += factor * rows[row]


@overload(dot)
def _dot(rows: Any, row: Any, weights: Any) -> Callable[..., Any] | None:
    if not isinstance(rows, types.Array):
        return None
    if rows.ndim == 1:

        def tabular(rows: Any, row: Any, weights: Any) -> Any:
            return weights[rows[row]]

        return tabular

    def dense(rows: Any, row: Any, weights: Any) -> Any:
        total = 0.0
        for column in range(weights.size):
            total += rows[row, column] * weights[column]
        return total

    return dense


@overload(add_scaled)
def _add_scaled(rows: Any, row: Any, factor: Any, out: Any) -> Callable[..., Any] | None:
    if not isinstance(rows, types.Array):
        return None
    if rows.ndim == 1:

        def tabular(rows: Any, row: Any, factor: Any, out: Any) -> Any:
            out[rows[row]] += factor

        return tabular

    def dense(rows: Any, row: Any, factor: Any, out: Any) -> Any:
        for column in range(out.size):
            out[column] += factor * rows[row, column]

    return dense

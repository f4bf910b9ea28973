"""Rows of trips, checked and summed into their cells without intermediate columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

COLUMNS = ("period", "origin", "destination", "count")
_BYTES = 8


def plain_columns(batch: pa.RecordBatch) -> list[NDArray[np.int64]] | None:
    """The four columns of a batch as int64, each read-only as Arrow gives it; None if the batch has
    other columns, missing values, or numbers that are not integers in range: other readers report
    these."""
    if sorted(batch.schema.names) != sorted(COLUMNS):
        return None
    found = []
    for name in COLUMNS:
        column = batch.column(name)
        width = column.type.bit_width // 8 if pa.types.is_integer(column.type) else _BYTES + 1
        if column.null_count or width > _BYTES or column.type == pa.uint64():
            return None
        values = column.to_numpy().astype(np.int64, copy=False)
        values.setflags(write=False)
        found.append(values)
    return found


def add_rows(
    cells: NDArray[np.int64], columns: Sequence[NDArray[np.int64]], sides: tuple[int, int, int]
) -> bool:
    """Add the counts of these rows to their cells; False, and nothing added, if a row is out of
    bounds.

    `sides`: periods, zones, and the largest count of a row.
    """
    period, origin, destination, count = columns
    periods, zones, most = (np.int64(side) for side in sides)
    return bool(_add(period, origin, destination, count, periods, zones, most, cells))


@njit(cache=True, nogil=True)
def _add(
    period: NDArray[np.int64],
    origin: NDArray[np.int64],
    destination: NDArray[np.int64],
    count: NDArray[np.int64],
    periods: np.int64,
    zones: np.int64,
    most: np.int64,
    cells: NDArray[np.int64],
) -> bool:
    for row in range(period.size):
        if not (
            0 <= period[row] < periods
            and 1 <= origin[row] <= zones
            and 1 <= destination[row] <= zones
        ):
            return False
        if not 0 <= count[row] <= most:
            return False
    for row in range(period.size):
        cells[(period[row] * zones + origin[row] - 1) * zones + destination[row] - 1] += count[row]
    return True

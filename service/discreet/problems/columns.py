"""Rows and tables of private content, checked column by column.

Errors name row and value: they go to the owner who registers the data, never to an analyst.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput

MAX_ISSUES = 20
"""Issues that one answer names: a file with a million bad rows needs no million sentences."""


class Issues:
    """Collects issues of rows and raises them together."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._found: list[FieldIssue] = []

    def where(self, bad: NDArray[np.bool_], column: str, detail: str, values: Sequence[Any] | NDArray[Any]) -> None:
        """One issue for each row where `bad` holds, with the value that stands there."""
        for row in np.flatnonzero(bad)[: MAX_ISSUES - len(self._found)]:
            self._found.append(FieldIssue(f"{self.prefix}/{row}/{column}", f"{detail}; found {values[row]!s:.40}"))

    def check(self) -> None:
        if self._found:
            raise InvalidInput(self._found)


def integer_columns(
    table: pa.Table, bounds: Mapping[str, tuple[int, int]], prefix: str, optional: Sequence[str] = ()
) -> dict[str, NDArray[np.int64]]:
    """Integer columns of an uploaded table, each within its bounds.

    Raises InvalidInput for a missing or unknown column, a type that holds no integers, a missing value, and a value
    out of bounds (with its row).
    """
    unknown = [name for name in table.column_names if name not in bounds and name not in optional]
    missing = [name for name in bounds if name not in table.column_names]
    if unknown or missing:
        raise InvalidInput(
            [FieldIssue(prefix, f"column {name!r} is missing") for name in missing]
            + [
                FieldIssue(prefix, f"column {name!r} is not known here; needed: {', '.join(bounds)}")
                for name in unknown
            ]
        )
    columns: dict[str, NDArray[np.int64]] = {}
    for name in bounds:
        column = table.column(name)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise InvalidInput(f"column {name!r} holds {column.type}, not integers", pointer=prefix)
        if column.null_count:
            row = int(np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False))[0])
            raise InvalidInput("a value is missing", pointer=f"{prefix}/{row}/{name}")
        values = column.to_numpy()
        issues = Issues(prefix)
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                issues.where(~(np.floor(values) == values), name, "an integer is needed", values)
                issues.where(np.abs(values) > 2**53, name, "too large", values)
        elif values.dtype == np.uint64:
            issues.where(values > np.uint64(2**53), name, "too large", values)
        issues.check()
        columns[name] = values.astype(np.int64)
    check_bounds(columns, bounds, prefix)
    return columns


def check_bounds(columns: Mapping[str, NDArray[np.int64]], bounds: Mapping[str, tuple[int, int]], prefix: str) -> None:
    """InvalidInput with the row of every value out of its bounds."""
    issues = Issues(prefix)
    for name, (low, high) in bounds.items():
        values = columns[name]
        issues.where((values < low) | (values > high), name, f"must be {low} to {high}", values)
    issues.check()

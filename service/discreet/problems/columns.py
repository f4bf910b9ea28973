"""Rows and tables of private content, checked column by column.

Errors name row and value: they go to the owner who registers the data, never to an analyst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput

MAX_ISSUES = 20
"""Issues that one answer names: a file with a million bad rows needs no million sentences."""


class Issues:
    """Collects issues of rows and raises them together. `first` is the number of the first row at hand."""

    def __init__(self, prefix: str, first: int = 0) -> None:
        self.prefix = prefix
        self.first = first
        self._found: list[FieldIssue] = []

    def where(
        self, bad: NDArray[np.bool_], column: str, detail: str, values: Sequence[Any] | NDArray[Any] | None = None
    ) -> None:
        """One issue for each row where `bad` holds, with the value of `values` that stands there."""
        for row in np.flatnonzero(bad)[: MAX_ISSUES - len(self._found)]:
            found = "" if values is None else f"; found {values[row]!s:.40}"
            self._found.append(FieldIssue(f"{self.prefix}/{self.first + row}/{column}", detail + found))

    def check(self) -> None:
        if self._found:
            raise InvalidInput(self._found)


def integer_columns(
    table: pa.Table, bounds: Mapping[str, tuple[int, int]], prefix: str, optional: Sequence[str] = (), first: int = 0
) -> dict[str, NDArray[np.int64]]:
    """Integer columns of an uploaded table, or of a part of one that begins at row `first`, each within its bounds.

    Raises InvalidInput for a missing or unknown column, a type that holds no integers, a missing value, and a value
    out of bounds (with its row).
    """
    check_names(table, list(bounds), optional, prefix)
    columns: dict[str, NDArray[np.int64]] = {}
    for name in bounds:
        values = real_column(table, name, prefix, "integers", first)
        issues = Issues(prefix, first)
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                issues.where(~(np.floor(values) == values), name, "an integer is needed", values)
                issues.where(np.abs(values) > 2**53, name, "too large", values)
        elif values.dtype == np.uint64:
            issues.where(values > np.uint64(2**53), name, "too large", values)
        issues.check()
        columns[name] = values.astype(np.int64)
    check_bounds(columns, bounds, prefix, first)
    return columns


def check_names(table: pa.Table, needed: Sequence[str], optional: Sequence[str], prefix: str) -> None:
    """InvalidInput for every column that is missing, not known, or there twice."""
    names = table.column_names
    found = [
        *(FieldIssue(prefix, f"column {name!r} stands twice") for name in sorted(set(names)) if names.count(name) > 1),
        *(FieldIssue(prefix, f"column {name!r} is missing") for name in needed if name not in table.column_names),
        *(
            FieldIssue(prefix, f"column {name!r} is not known here; needed: {', '.join(needed)}")
            for name in table.column_names
            if name not in needed and name not in optional
        ),
    ]
    if found:
        raise InvalidInput(found[:MAX_ISSUES])


def real_column(table: pa.Table, name: str, prefix: str, what: str = "numbers", first: int = 0) -> NDArray[Any]:
    """A column of integers or floats, none missing, in the type that it came in."""
    column = table.column(name)
    if pa.types.is_null(column.type):  # what CSV makes of a column in which nothing stands
        raise InvalidInput(f"column {name!r} is empty", pointer=prefix)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidInput(f"column {name!r} holds {column.type}, not {what}", pointer=prefix)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput("a value is missing", pointer=f"{prefix}/{first + row}/{name}")
    values: NDArray[Any] = column.to_numpy()
    return values


def owner_column(table: pa.Table, name: str, prefix: str) -> NDArray[np.int64]:
    """Whose row each is, as numbers in the order of first appearance; names of any type, none missing."""
    if name not in table.column_names:
        raise InvalidInput(f"column {name!r} is missing", pointer=prefix)
    column = table.column(name)
    if column.null_count:
        raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
    encoded = column.dictionary_encode().combine_chunks()
    indices = encoded.indices if isinstance(encoded, pa.DictionaryArray) else encoded.chunk(0).indices
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def check_bounds(
    columns: Mapping[str, NDArray[np.int64]], bounds: Mapping[str, tuple[int, int]], prefix: str, first: int = 0
) -> None:
    """InvalidInput with the row of every value out of its bounds."""
    issues = Issues(prefix, first)
    for name, (low, high) in bounds.items():
        values = columns[name]
        issues.where((values < low) | (values > high), name, f"must be {low} to {high}", values)
    issues.check()


def record_order(start: NDArray[np.int64], columns: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """An order of the records start[i]..start[i+1]-1 that depends on nothing but what stands in them: int64[records].

    By two 64-bit hashes of a record's columns (8 bytes an entry). Records whose hashes agree but not their content, one
    pair in 2^128, stay in the order in which they came.
    """
    hashes = np.tile(np.array([[0x243F6A8885A308D3], [0x13198A2E03707344]], dtype=np.uint64), (1, start.size - 1))
    for column in columns:
        words = np.ascontiguousarray(column).view(np.uint64).reshape(start[-1], -1)
        _add_hashes(words, start, hashes)
    return np.lexsort((hashes[0], hashes[1], np.diff(start))).astype(np.int64)


@njit(cache=True, nogil=True)
def _add_hashes(words: NDArray[np.uint64], start: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014) as a chain over the words of each record."""
    for record in range(start.size - 1):
        for which in range(2):
            state = hashes[which, record]
            for row in range(start[record], start[record + 1]):
                for position in range(words.shape[1]):
                    state = (state ^ words[row, position]) + np.uint64(0x9E3779B97F4A7C15)
                    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                    state = state ^ (state >> np.uint64(31))
            hashes[which, record] = state


def gathered(start: NDArray[np.int64], order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the records in this order, and where each then starts."""
    length = np.diff(start)[order]
    begins = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    rows = np.repeat(start[order] - begins[:-1], length) + np.arange(begins[-1])
    return rows.astype(np.int64), begins

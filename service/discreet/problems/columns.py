"""Rows and tables of private content, checked column by column.

Errors name row and value: they go to the owner who registers the data, never to an analyst.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import and_more
from discreet_client.cells import AS_WRITTEN, Refusal
from discreet_client.names import blurred, name_of

ROWS_AT_ONCE = 1 << 16
MAX_ISSUES = 20
"""Issues that one answer names: a file with a million bad rows needs no million sentences."""


class Issues:
    """Collects issues of rows and raises them together. `first` is the number of the first row at
    hand."""

    def __init__(self, prefix: str, first: int = 0) -> None:
        self.prefix = prefix
        self.first = first
        self._found: list[FieldIssue] = []

    def where(
        self,
        bad: NDArray[np.bool_],
        column: str,
        detail: str,
        values: Sequence[Any] | NDArray[Any] | None = None,
    ) -> None:
        """One issue for all rows where `bad` holds: the first row with its entry of `values`,
        and how many there are up to which row."""
        rows = np.flatnonzero(bad)
        if rows.size == 0 or len(self._found) == MAX_ISSUES:
            return
        first, last = (f"{self.prefix}/{self.first + row}/{column}" for row in (rows[0], rows[-1]))
        found = "" if values is None else f"; found {values[rows[0]]!s:.40}"
        self._found.append(FieldIssue(first, detail + found + and_more(rows.size - 1, last)))

    def check(self) -> None:
        if self._found:
            raise InvalidInput(self._found)


def integer_columns(
    table: pa.Table,
    bounds: Mapping[str, tuple[int, int]],
    prefix: str,
    beside: Sequence[str] = (),
    first: int = 0,
    dtype: type[np.signedinteger[Any]] = np.int64,
) -> dict[str, NDArray[Any]]:
    """Integer columns of an uploaded table, or of a part of one that begins at row `first`, each
    within its bounds.

    They are made `dtype`, which must hold the bounds. `beside`: the other columns that are needed,
    which are not looked into here.

    Raises InvalidInput for a missing or unknown column, a type that holds no integers, a missing
    value, and a value out of bounds (with its row).
    """
    check_names(table, [*beside, *bounds], (), prefix)
    columns: dict[str, NDArray[Any]] = {}
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
        columns[name] = values if values.dtype.kind == "i" else values.astype(np.int64)
    check_bounds(columns, bounds, prefix, first)
    return {name: values.astype(dtype) for name, values in columns.items()}


def check_names(
    table: pa.Table, needed: Sequence[str], optional: Sequence[str], prefix: str
) -> None:
    """InvalidInput for every column that is missing, unknown or duplicated."""
    names = Counter(table.column_names)
    known = f"needed: {', '.join(needed)}" + (
        f"; possible: {', '.join(optional)}" if optional else ""
    )
    others = [name for name in names if name not in needed and name not in optional]
    listed = ", ".join(f"{name:.40}" for name in list(names)[:MAX_ISSUES])
    there = f"; columns are: {listed}" if others else ""
    found = [
        *(
            FieldIssue(prefix, f"column {name!r:.80} appears twice")
            for name in sorted(names)
            if names[name] > 1
        ),
        *(
            FieldIssue(prefix, f"column {name!r} is missing{there}")
            for name in needed
            if name not in names
        ),
        *(FieldIssue(prefix, f"column {name!r:.80} is not known here; {known}") for name in others),
    ]
    if found:
        raise InvalidInput(found[:MAX_ISSUES])


def real_column(
    table: pa.Table, name: str, prefix: str, what: str = "numbers", first: int = 0
) -> NDArray[Any]:
    """A column of integers or floats, none missing, in the type that it came in."""
    column = table.column(name)
    if pa.types.is_null(column.type):  # what CSV makes of a column in which nothing stands
        raise InvalidInput(f"column {name!r} is empty", pointer=prefix)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        if column.length():
            raise _no_numbers(column, name, prefix, what, first)
        return np.zeros(0)  # of a file that is read in batches the schema comes first
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InvalidInput(f"column {name!r} holds {column.type}, not {what}", pointer=prefix)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInput("a value is missing", pointer=f"{prefix}/{first + row}/{name}")
    values: NDArray[Any] = column.to_numpy()
    return values


def _no_numbers(
    column: pa.ChunkedArray, name: str, prefix: str, what: str, first: int
) -> InvalidInput:
    """The first text of a column that is not a number, and how many there are."""
    wrong = last = -1
    count, row = 0, first
    text = ""
    for chunk in column.chunks:
        for value in chunk.to_pylist():
            if value is not None and isinstance(AS_WRITTEN.number(value), Refusal):
                wrong, text = (row, value) if wrong < 0 else (wrong, text)
                count, last = count + 1, row
            row += 1
    if wrong < 0:
        return InvalidInput(f"column {name!r} holds {column.type}, not {what}", pointer=prefix)
    hint = "; numbers with decimal commas need ';' between columns" if text.count(",") == 1 else ""
    more = and_more(count - 1, f"{prefix}/{last}/{name}")
    return InvalidInput(
        f"{what} are needed; found {text!r:.42}{hint}{more}", pointer=f"{prefix}/{wrong}/{name}"
    )


def owner_column(table: pa.Table, name: str, prefix: str) -> NDArray[np.integer[Any]]:
    """Whose row each is, as numbers in the order of first appearance; names of any type, none
    missing.

    Of texts each person has one writing (`discreet_client.names`). Floats that stand for several
    whole numbers are refused: they would merge two people into one, and noise that hides one
    person would hide neither.
    """
    column = table.column(name)
    if pa.types.is_dictionary(column.type):  # which may hold a name twice
        column = column.cast(column.type.value_type)
    if not column.length():  # where Arrow finds owners of fewer types than among rows
        return np.zeros(0, dtype=np.int64)
    if column.null_count:
        raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
    if pa.types.is_floating(column.type):
        values = column.to_numpy()
        if np.isnan(values).any():
            raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
        issues = Issues(prefix)
        issues.where(
            blurred(values),
            name,
            "this float stands for several integers: give names as text or integers",
        )
        issues.check()
        column = pa.chunked_array([values + 0.0])  # one zero
    if pa.types.is_integer(column.type):
        values = column.to_numpy()
        if (values[1:] >= values[:-1]).all():  # as a file in order has them: no need to look any up
            owner = np.zeros(values.size, dtype=np.int32 if values.size < 2**31 else np.int64)
            np.cumsum(values[1:] != values[:-1], out=owner[1:])
            return owner
    encoded = column.dictionary_encode().combine_chunks()
    encoded = encoded if isinstance(encoded, pa.DictionaryArray) else encoded.chunk(0)
    indices = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    texts = encoded.dictionary
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return indices
    parts = (
        texts.slice(first, ROWS_AT_ONCE).to_pylist() for first in range(0, len(texts), ROWS_AT_ONCE)
    )
    if all(text and name_of(text) == text for part in parts for text in part):
        return indices
    number: dict[str, int] = {}
    person = [number.setdefault(name_of(text), len(number)) for text in texts.to_pylist()]
    if "" in number:
        raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
    return np.array(person, dtype=np.int64)[indices]


def check_bounds(
    columns: Mapping[str, NDArray[Any]],
    bounds: Mapping[str, tuple[int, int]],
    prefix: str,
    first: int = 0,
) -> None:
    """InvalidInput with the row of every value out of its bounds."""
    issues = Issues(prefix, first)
    for name, (low, high) in bounds.items():
        values = columns[name]
        says = f"must be {low} to {high}"
        if low == 1 and values.size and values.min() == 0 and values.max() < high:
            says = f"count from 1; yours look 0-based: {says}"
        issues.where((values < low) | (values > high), name, says, values)
    issues.check()


def in_order(
    owner: NDArray[np.integer[Any]],
    step: NDArray[np.integer[Any]],
    columns: dict[str, NDArray[Any]],
) -> tuple[
    NDArray[np.integer[Any]],
    NDArray[np.integer[Any]],
    dict[str, NDArray[Any]],
    NDArray[np.int64] | None,
]:
    """Rows by owner and step, and which one each was; None where they stood so already."""
    same = owner[1:] == owner[:-1]
    if ((owner[1:] > owner[:-1]) | (same & (step[1:] > step[:-1]))).all():
        return owner, step, columns, None
    order = np.lexsort((step, owner)).astype(np.int64, copy=False)
    return owner[order], step[order], {name: one[order] for name, one in columns.items()}, order


def starts_in(same: NDArray[np.bool_], rows: int) -> NDArray[np.int64]:
    """Where the records begin of rows in order, of which `same` says that the next one is of the
    same, and where the last one ends."""
    return np.concatenate([np.zeros(min(rows, 1)), np.flatnonzero(~same) + 1, [rows]]).astype(
        np.int64
    )


def record_order(start: NDArray[np.int64], columns: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """An order of the records start[i]..start[i+1]-1 that depends only on their content:
    int64[records].

    By two 64-bit hashes of a record's columns (8 bytes an entry). Records whose hashes agree but
    not their content, one pair in 2^128, stay in the order in which they came.
    """
    hashes = _record_hashes(start, columns)
    return np.lexsort((hashes[:, 0], hashes[:, 1], np.diff(start))).astype(np.int64)


def record_keys(start: NDArray[np.int64], columns: Iterable[NDArray[Any]]) -> NDArray[np.bytes_]:
    """S24[records], of which `record_order` is the order: length, second and first hash."""
    hashes = _record_hashes(start, columns)
    keys = np.stack([np.diff(start).astype(np.uint64), hashes[:, 1], hashes[:, 0]], axis=1)
    return keys.astype(">u8").view("S24").reshape(-1)


def _record_hashes(start: NDArray[np.int64], columns: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """uint64[records, 2]"""
    hashes = np.tile(
        np.array([0x243F6A8885A308D3, 0x13198A2E03707344], dtype=np.uint64), (start.size - 1, 1)
    )
    # By parts of whole records: a word takes 64 bits in a part, and what it has in the column. The
    # kernel then has one type, the one that was compiled before an upload's child lost the means
    # to.
    parts = np.unique(
        np.append(np.searchsorted(start, np.arange(0, start[-1], ROWS_AT_ONCE)), start.size - 1)
    )
    for column in columns:
        kind = np.float64 if column.dtype.kind == "f" else np.int64
        for first, last in pairwise(parts.tolist()):
            words = np.array(column[start[first] : start[last]], dtype=kind).view(np.uint64)
            here = start[first : last + 1] - start[first]
            _add_hashes(words.reshape(here[-1], -1), here, hashes[first:last])
    return hashes


@njit(cache=True, nogil=True)
def _add_hashes(
    words: NDArray[np.uint64], start: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> None:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014) as a chain over the words of each record,
    in 64 bits."""
    for record in range(start.size - 1):
        # Both at once: each chain waits for its own last word.
        first, second = hashes[record, 0], hashes[record, 1]
        for row in range(start[record], start[record + 1]):
            for position in range(words.shape[1]):
                word = words[row, position]
                first = _chained(first, word)
                second = _chained(second, word)
        hashes[record, 0], hashes[record, 1] = first, second


@njit(cache=True, nogil=True, inline="always")
def _chained(state: np.uint64, word: np.uint64) -> np.uint64:
    state = (state ^ word) + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def starts_of(start: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each record starts when they stand in this order: int64[records + 1]."""
    return np.concatenate([[0], np.cumsum(np.diff(start)[order])]).astype(np.int64)


def in_order_of_keys(
    content: dict[str, NDArray[Any]], keys: NDArray[Any], records: str
) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """A content, whose array `records` says where each record starts, with its records in the order
    of their keys; and the keys in it. Records of one key stay in the order in which they came."""
    start = content[records]
    order = keys.argsort(kind="stable").astype(np.int64)
    found = {
        name: starts_of(start, order) if name == records else rearranged(array, start, order)
        for name, array in content.items()
    }
    return found, keys[order]


def rearranged(
    column: NDArray[Any], start: NDArray[np.int64], order: NDArray[np.int64]
) -> NDArray[Any]:
    """A column with its records in this order; without an index a row, which would take 8 bytes
    each."""
    found = np.empty(column.shape, column.dtype)
    if not len(column):
        return found
    source, moved = (
        np.require(array, requirements=["C", "W"]).reshape(-1).view(np.uint8)
        for array in (column, found)
    )
    _move_records(source, moved, start * (source.size // start[-1]), order)
    return found


@njit(cache=True, nogil=True)
def _move_records(
    source: NDArray[np.uint8],
    found: NDArray[np.uint8],
    start: NDArray[np.int64],
    order: NDArray[np.int64],
) -> None:
    place = 0
    for record in order:
        part = source[start[record] : start[record + 1]]
        there = found[place : place + part.size]
        for i in range(part.size):
            there[i] = part[i]
        place += part.size

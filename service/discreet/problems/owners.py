"""Whose rows they are, a batch at a time: each name in one writing, and a hash by which all rows of
one unit come to the same place.

Two units may have one hash: they are then in one part and told apart there, by their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.columns import Issues, rearranged, starts_of
from discreet_client.names import blurred, name_of

Hashes = NDArray[np.uint64]


def are_spread(kind: pa.DataType) -> bool:
    """Whether owners of this type can be brought together by a hash: integers, floats and texts."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


@dataclass(frozen=True)
class Owners:
    """The owners of some rows: numbers, or the bytes of texts, those of row i from `start[i]` to
    `start[i + 1] - 1`."""

    values: NDArray[Any]
    start: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, table: pa.Table, name: str, prefix: str, first: int) -> Self:
        """The owners in a column of part of a table, whose first row has the number `first`.
        InvalidInput as from `columns.owner_column`, which must tell the same owners apart."""
        chunked = table.column(name)
        if pa.types.is_dictionary(chunked.type):
            chunked = chunked.cast(chunked.type.value_type)
        if chunked.null_count:
            raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
        if pa.types.is_integer(chunked.type):
            values = chunked.to_numpy()
            return cls(values.astype(np.uint64 if values.dtype == np.uint64 else np.int64))
        if pa.types.is_floating(chunked.type):
            values = chunked.to_numpy()
            if np.isnan(values).any():
                raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
            issues = Issues(prefix, first)
            says = "this float stands for several integers: give names as text or integers"
            issues.where(blurred(values), name, says)
            issues.check()
            return cls(values.astype(np.float64) + 0.0)  # one zero
        found = cls(*_bytes_of(chunked))
        assert found.start is not None
        plain = np.empty(len(found), dtype=np.bool_)
        _look(found.values, found.start, plain)
        if plain.all():
            return found
        names = [name_of(text) for text in chunked.to_pylist()]
        if "" in names:
            raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
        return cls(*_bytes_of(pa.chunked_array([pa.array(names, pa.string())])))

    def __len__(self) -> int:
        return self.values.size if self.start is None else self.start.size - 1

    def hashes(self, seed: np.uint64) -> Hashes:
        """uint64[rows]: equal for equal owners. With a seed that nobody knows nobody can choose
        names that all come to one place."""
        found = np.empty(len(self), dtype=np.uint64)
        if self.start is None:
            _hash_numbers(self.values.view(np.uint64), seed, found)
        else:
            _hash_texts(self.values, self.start, seed, found)
        return found

    def ordered(self, order: NDArray[np.int64]) -> Owners:
        if self.start is None:
            return Owners(self.values[order])
        return Owners(rearranged(self.values, self.start, order), starts_of(self.start, order))

    def packed(self, first: int, last: int) -> bytes:
        """The owners of rows first..last-1."""
        if self.start is None:
            return self.values[first:last].tobytes()
        start = self.start[first : last + 1]
        lengths = np.diff(start).astype(np.int32)
        return lengths.tobytes() + self.values[start[0] : start[-1]].tobytes()

    def numbers(self) -> NDArray[np.int64]:
        """int64[rows]: a number each, from 0, the same for rows of the same owner."""
        if self.start is None:
            _, found = np.unique(self.values, return_inverse=True)
            return np.asarray(found.reshape(-1), dtype=np.int64)
        texts = pa.Array.from_buffers(
            pa.large_string(),
            len(self),
            [None, pa.py_buffer(self.start), pa.py_buffer(np.ascontiguousarray(self.values))],
        )
        return np.asarray(texts.dictionary_encode().indices.to_numpy(), dtype=np.int64)


def unpacked(parts: list[tuple[int, memoryview]], kind: np.dtype[np.generic] | None) -> Owners:
    """What `packed` made of so many rows each, one after the other. `kind`: of numbers; None for
    texts."""
    if kind is not None:
        return Owners(np.concatenate([np.frombuffer(data, dtype=kind) for _, data in parts]))
    lengths = np.concatenate([np.frombuffer(data, np.int32, rows) for rows, data in parts])
    texts = [np.frombuffer(data, np.uint8, offset=4 * rows) for rows, data in parts]
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Owners(np.concatenate(texts), start.astype(np.int64))


def _bytes_of(chunked: pa.ChunkedArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    column = chunked.cast(pa.large_string()).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no chunks, or of one
        column = column.chunk(0) if column.num_chunks else pa.array([], pa.large_string())
    _, offsets, data = column.buffers()
    if not len(column) or data is None:
        return np.zeros(0, dtype=np.uint8), np.zeros(len(column) + 1, dtype=np.int64)
    start = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
    values = np.frombuffer(data, np.uint8, int(start[-1]))[start[0] :]
    return values.copy(), start - start[0]


@njit(cache=True, nogil=True)
def _look(values: NDArray[np.uint8], start: NDArray[np.int64], plain: NDArray[np.bool_]) -> None:
    """Which texts are surely written as their canonical form: ASCII without spaces and points."""
    for row in range(start.size - 1):
        good = start[row + 1] > start[row]
        for place in range(start[row], start[row + 1]):
            byte = values[place]
            good &= (byte > 32) & (byte < 127) & (byte != 46)
        plain[row] = good


@njit(cache=True, nogil=True)
def _hash_texts(
    values: NDArray[np.uint8], start: NDArray[np.int64], seed: np.uint64, found: Hashes
) -> None:
    for row in range(start.size - 1):
        state = seed
        for place in range(start[row], start[row + 1]):
            state = (state ^ np.uint64(values[place])) * np.uint64(0x100000001B3)
            state ^= state >> np.uint64(29)
        found[row] = _mixed(state ^ seed)


@njit(cache=True, nogil=True)
def _hash_numbers(values: Hashes, seed: np.uint64, found: Hashes) -> None:
    for row in range(values.size):
        found[row] = _mixed(_mixed(values[row] ^ seed) + seed)


@njit(cache=True, nogil=True, inline="always")
def _mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's finalizer (Steele, Lea & Flood 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))

"""Whose rows they are, a batch at a time: by numbers of names, of which each becomes one writing
where batches are put together, and a hash by which all rows of one unit come to the same place.

Two units may have one hash: they are then in one part and told apart there, by their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.columns import Issues
from discreet_client.names import blurred, name_of

Hashes = NDArray[np.uint64]
FIRST_PLAIN, LAST_PLAIN, POINT = 0x21, 0x7E, 0x2E
"""Names of such bytes without a point are as they are written (`discreet_client.names`)."""


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
    """The owners of some rows."""

    number: NDArray[np.int32]
    """int32[rows]: whose each row is, by a place in `names`, none less than the one before."""
    names: pa.Array
    """As they are written, one for rows that follow each other, so that each may be there again:
    int64, uint64, float64 or large_string."""

    @classmethod
    def of(cls, table: pa.Table, name: str, prefix: str, first: int) -> Self:
        """The owners in a column of part of a table, whose first row has the number `first`.
        InvalidInput as from `columns.owner_column`, which must tell the same owners apart; and
        for a type that is not spread."""
        chunked = table.column(name)
        if not are_spread(chunked.type):
            raise InvalidInput(f"column {name!r} holds {chunked.type}", pointer=prefix)
        if pa.types.is_dictionary(chunked.type):
            chunked = chunked.cast(chunked.type.value_type)
        if chunked.null_count:
            raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
        if pa.types.is_floating(chunked.type):
            numbers = chunked.to_numpy()
            if np.isnan(numbers).any():
                raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
            issues = Issues(prefix, first)
            says = "this float stands for several integers: give names as text or integers"
            issues.where(blurred(numbers), name, says)
            issues.check()
            values = pa.array(numbers.astype(np.float64) + 0.0)  # one zero
        elif pa.types.is_integer(chunked.type):
            kind = pa.uint64() if pa.types.is_uint64(chunked.type) else pa.int64()
            values = _array_of(chunked, kind)
        else:
            values = _array_of(chunked, pa.large_string())
        return cls._of(values)

    @classmethod
    def _of(cls, values: pa.Array) -> Self:
        heads = _heads_of(values)
        run = np.zeros(len(values), dtype=np.int32)
        run[heads[1:]] = 1
        few = heads.size < len(values)
        return cls(np.cumsum(run, out=run), values.take(pa.array(heads)) if few else values)

    @classmethod
    def together(cls, parts: Sequence[Owners], name: str, prefix: str) -> Owners:
        """The owners of all parts, one after the other, each under one writing of its name.
        InvalidInput where nothing is left of a name."""
        names = pa.concat_arrays([part.names for part in parts])
        if pa.types.is_large_string(names.type) and not _are_canonical(names):
            written = [name_of(text) for text in names.to_pylist()]
            if "" in written:
                raise InvalidInput(f"column {name!r} has missing values", pointer=prefix)
            names = pa.array(written, pa.large_string())
        ends = np.cumsum([0, *(len(part.names) for part in parts)]).astype(np.int32)
        rows = [end + part.number for end, part in zip(ends, parts, strict=False)]
        return cls(np.concatenate(rows), names)

    def __len__(self) -> int:
        return self.number.size

    @property
    def kind(self) -> np.dtype[Any] | None:
        """Of names that are numbers; None of texts."""
        return None if pa.types.is_large_string(self.names.type) else self.names.to_numpy().dtype

    def taken(self, first: int, last: int) -> Owners:
        """Those of the rows first..last-1."""
        number = self.number[first:last]
        if not number.size:
            return Owners(number, self.names[:0])
        low, high = int(number[0]), int(number[-1])
        return Owners(number - np.int32(low), self.names[low : high + 1])

    def numbers(self) -> NDArray[np.int32]:
        """int32[rows]: a number each, from 0 in the order of first appearance, the same for rows of
        the same owner."""
        place: NDArray[np.int32] = self.names.dictionary_encode().indices.to_numpy()
        return place[self.number]

    def hashes(self, seed: np.uint64) -> Hashes:
        """uint64[rows]: equal for equal owners. With a seed that nobody knows nobody can choose
        names that all come to one place."""
        return self.name_hashes(seed)[self.number]

    def name_hashes(self, seed: np.uint64) -> Hashes:
        """uint64[names]: those of `hashes`, for each of `names`."""
        found = np.empty(len(self.names), dtype=np.uint64)
        if self.kind is None:
            start, texts = _texts_of(self.names)
            _hash_texts(texts, start, seed, found)
        else:
            _hash_numbers(np.array(self.names.to_numpy()).view(np.uint64), seed, found)
        return found

    def packed(self, order: NDArray[np.int64], ends: Sequence[int]) -> Iterator[bytes]:
        """The names of the rows in this order, from one end to the next at a time."""
        number = self.number[order]
        if self.kind is not None:
            numbers = self.names.to_numpy()[number]
            yield from (numbers[here:end].tobytes() for here, end in pairwise(ends))
            return
        start, texts = _texts_of(self.names.take(pa.array(number)))
        lengths = np.diff(start).astype(np.int32)
        for here, end in pairwise(ends):
            yield lengths[here:end].tobytes() + texts[start[here] : start[end]].tobytes()


def unpacked(parts: list[tuple[int, memoryview]], kind: np.dtype[Any] | None) -> Owners:
    """The owners that `packed` made of so many rows each, one after the other. `kind`: of names
    that are numbers."""
    if kind is not None:
        numbers = np.concatenate([np.frombuffer(data, dtype=kind) for _, data in parts])
        return Owners._of(pa.array(numbers))
    lengths = np.concatenate([np.frombuffer(data, np.int32, rows) for rows, data in parts])
    texts = np.concatenate([np.frombuffer(data, np.uint8, offset=4 * rows) for rows, data in parts])
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    buffers = [None, pa.py_buffer(start), pa.py_buffer(texts)]
    return Owners._of(pa.Array.from_buffers(pa.large_string(), lengths.size, buffers))


def _array_of(chunked: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    values = chunked.cast(kind).combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # of no chunks, or of one
        values = values.chunk(0) if values.num_chunks else pa.array([], kind)
    return values


def _heads_of(values: pa.Array) -> NDArray[np.int64]:
    """The rows whose value is not that of the row before, the first among them."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    if not pa.types.is_large_string(values.type):
        numbers = values.to_numpy()
        return np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
    return np.flatnonzero(_differ(*_texts_of(values)))


def _texts_of(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each begins and the last one ends, and their bytes."""
    _, offsets, data = texts.buffers()
    if not len(texts):
        start = np.zeros(1, dtype=np.int64)
    else:
        start = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    found = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    for array in (start, found):
        array.setflags(write=False)  # the type for which the kernels are compiled
    return start, found


def _are_canonical(names: pa.Array) -> bool:
    """Whether each text is the name for which it stands."""
    start, texts = _texts_of(names)
    if (start[1:] == start[:-1]).any():
        return False
    letters = texts[start[0] : start[-1]]
    if ((letters >= FIRST_PLAIN) & (letters <= LAST_PLAIN) & (letters != POINT)).all():
        return True
    return all(name_of(text) == text for text in names.to_pylist())


@njit(cache=True, nogil=True)
def _differ(start: NDArray[np.int64], texts: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """bool[rows]: which texts are not the one before."""
    found = np.ones(start.size - 1, dtype=np.bool_)
    for row in range(1, start.size - 1):
        before, here, end = start[row - 1], start[row], start[row + 1]
        if end - here != here - before:
            continue
        place = 0
        while place < end - here and texts[before + place] == texts[here + place]:
            place += 1
        found[row] = place < end - here
    return found


@njit(cache=True, nogil=True)
def _hash_texts(
    texts: NDArray[np.uint8], start: NDArray[np.int64], seed: np.uint64, found: Hashes
) -> None:
    for row in range(start.size - 1):
        state = seed
        for place in range(start[row], start[row + 1]):
            state = (state ^ np.uint64(texts[place])) * np.uint64(0x100000001B3)
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

"""Private content and what was released of it: arrays by name, and the bytes that they are stored
and digested as."""

from __future__ import annotations

import hashlib
import io
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray
from pydantic import ConfigDict, JsonValue, TypeAdapter

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import and_more
from discreet.problems.numbers import Frozen
from discreet_agent import canonical
from discreet_client.cells import AS_WRITTEN, Refusal
from discreet_client.names import blurred, name_of

Content = dict[str, NDArray[Any]]
"""Private content in its canonical form: arrays by name, the same for the same data in any
order."""

Packed = dict[str, NDArray[Any]]
"""Rows of a JSON content as arrays by name, not yet checked against the public part."""

Released = dict[str, NDArray[Any]]
"""What the mechanisms released, arrays by name, and nothing else."""

Sums = dict[str, NDArray[np.int64]]
"""Integer sums over records, arrays by name, before noise: as private as the content."""

Profile = dict[str, NDArray[Any]]
"""What a release says about the data as a whole, arrays by name: synthetic data are made from
it, and errors predicted around it."""

Progress = Callable[[int, int], None]
"""Called with (step, total), during post-processing only, so that steps and their timing reveal
nothing about the data."""

Mode = Literal["private", "simulation"]


def arrays(*forms: dict[str, JsonValue]) -> ConfigDict:
    """Arrays that may stand for a content, in the contract of its model: an SDK makes a table of
    one, a row a number.

    `axes`, `value`: the table's columns, an axis that is None has none; `first`: the number of the
    first position on each axis, 0 where it is left out; `sparse`: numbers that are 0 have no row;
    `integers`: it holds no others.
    """
    return ConfigDict(json_schema_extra={"x-arrays": list(forms)})


DIGEST_ITEMS = 1 << 17
"""Numbers of a content that are hashed at once."""

PRIVATE: dict[str, JsonValue] = {"x-private": True}
"""Marks a field of a schema as private; whatever is not marked is treated as published."""


def pack(arrays: Content | Released) -> bytes:
    """Arrays by name as bytes, the same for the same arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})
    return buffer.getvalue()


def unpack(data: bytes | memoryview) -> dict[str, NDArray[Any]]:
    """The arrays that `pack` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def framed(parts: Iterable[bytes | bytearray]) -> bytearray:
    """Packed contents one after the other, each preceded by its length."""
    found = bytearray()
    for part in parts:
        found += len(part).to_bytes(8, "big")
        found += part
    return found


def unframed(data: bytes | bytearray) -> Iterator[memoryview]:
    """What `framed` wrote."""
    view, start = memoryview(data), 0
    while start < len(view):
        end = start + 8 + int.from_bytes(view[start : start + 8], "big")
        yield view[start + 8 : end]
        start = end


def canonical_bytes(content: Content) -> Iterable[bytes]:
    """The bytes that a dataset's digest covers: names, types, shapes and values, independent of
    how they were sent."""
    for name in sorted(content):
        array = np.ascontiguousarray(content[name])
        yield f"{name}\0{array.dtype.str}\0{array.shape}\0".encode()
        flat = array.reshape(-1)
        for first in range(0, flat.size, DIGEST_ITEMS):  # a copy of a part, not of the whole
            yield flat[first : first + DIGEST_ITEMS].tobytes()


# Columns ------------------------------------------------------------------------------------------
# Rows and tables of private content, checked column by column.
#
# Errors name row and value: they go to the owner who registers the data, never to an analyst.

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


# Objects ------------------------------------------------------------------------------------------
# Public objects that are stored once and named by jobs: a road network of a hundred thousand links,
# for one.
#
# An object never changes, and its id is made of its content: whatever names the id, a sealed job or
# a signed certificate, names these very figures. Nothing in it is private.


class PublicObject(Frozen):
    """Something public that a field of a problem may hold as a whole, or name by the id that it is
    stored under."""

    type: ClassVar[str]
    """What it is, in a word."""
    prefix: ClassVar[str]
    """Ids begin with it and an underscore."""

    def own_issues(self) -> list[FieldIssue]:
        """What is wrong with it, independent of any job."""
        return []

    def sizes(self) -> dict[str, Any]:
        """Figures of it that lists show."""
        return {}

    def content(self) -> bytes:
        """Its canonical JSON (RFC 8785). Fields that have their default are left out, so that a
        later version, which has more of them, makes the same."""
        return canonical.dumps(
            TypeAdapter(type(self)).dump_python(self, mode="json", exclude_defaults=True)
        )

    def digest(self) -> bytes:
        """SHA-256 of its content."""
        return hashlib.sha256(self.content()).digest()

    @classmethod
    def of_content(cls, content: bytes) -> Self:
        """The inverse of `content`."""
        return cls.model_validate_json(content)


# Owners -------------------------------------------------------------------------------------------
# Whose rows they are, a batch at a time: by numbers of names, of which each becomes one writing
# where batches are put together, and a hash by which all rows of one unit come to the same place.
#
# Two units may have one hash: they are then in one part and told apart there, by their names.

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
    def merge_batches(cls, parts: Sequence[Owners], name: str, prefix: str) -> Owners:
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


# Unit rows ----------------------------------------------------------------------------------------
# How a kind reads rows by the unit that they are of: checked a batch at a time, in threads too,
# then brought together and put into canonical form, all units at once or, of rows that do not fit
# memory, a part of them at a time.
#
# A part holds all rows of each of its units, from whichever file they came, so what is said of a
# unit's rows together (steps that follow each other, a person's sums) is checked and made there.
# The records of all parts, merged by their keys, are the content that `Dataset.read_table` makes of
# all rows at once, byte for byte: the digest knows nothing of parts.

Columns = dict[str, NDArray[Any]]


@dataclass
class _Fault:
    """The first row with a fault, its value, how many there are and the last of them."""

    row: int
    value: str
    count: int
    last: int


class RowIssues:
    """Faults of rows that are found part by part: what is said of them in the end is the same for
    any parts in any order.

    Faults of a stage are looked for where there are none of the stages before, but which units are
    in a part with such a fault is drawn: so only those of the first stage with any are told."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._faults: dict[tuple[int, str, str], _Fault] = {}

    def __bool__(self) -> bool:
        return bool(self._faults)

    def where(
        self,
        rows: NDArray[np.int64],
        column: str,
        detail: str,
        values: Sequence[Any] | NDArray[Any] | None = None,
        stage: int = 0,
    ) -> None:
        """`rows`: the numbers of those with the fault, as they came; `values`: one for each."""
        if not rows.size:
            return
        place = int(rows.argmin())
        value = "" if values is None else f"; found {values[place]!s:.40}"
        new = _Fault(int(rows[place]), value, rows.size, int(rows.max()))
        known = self._faults.setdefault((stage, column, detail), new)
        if known is not new:
            if new.row < known.row:
                known.row, known.value = new.row, new.value
            known.count, known.last = known.count + new.count, max(known.last, new.last)

    def check(self, stage: int | None = None) -> None:
        """InvalidInput with what was found, by rows, in this stage or those before; in all."""
        first = min((one for one, _, _ in self._faults), default=None)
        if first is None or (stage is not None and first > stage):
            return
        found = sorted(
            (item for item in self._faults.items() if item[0][0] == first),
            key=lambda one: (one[1].row, one[0]),
        )
        raise InvalidInput(
            FieldIssue(
                f"{self._prefix}/{fault.row}/{column}",
                detail
                + fault.value
                + and_more(fault.count - 1, f"{self._prefix}/{fault.last}/{column}"),
            )
            for (_, column, detail), fault in found[:MAX_ISSUES]
        )


class Checked(NamedTuple):
    """Rows whose values are as they should be, each by itself, in as few bits as they need: nothing
    else of their batch is kept."""

    columns: Columns
    owners: Owners

    @property
    def num_rows(self) -> int:
        return len(self.owners)

    def taken(self, first: int, last: int) -> Checked:
        """The rows first..last-1."""
        columns = {name: column[first:last] for name, column in self.columns.items()}
        return Checked(columns, self.owners.taken(first, last))

    def alone(self) -> Checked:
        """The same rows, without memory that they share with others of their batches."""
        return Checked({name: one.copy() for name, one in self.columns.items()}, self.owners)


class UnitRows(ABC):
    """Reads the rows of one content. It keeps what is to be checked of the whole."""

    owner: str
    """The column that says whose a row is."""
    records = "start"
    """The array of a content that says where each record starts."""
    prefix = "/content"

    def __init__(self, public: Any) -> None:
        self.public = public
        self.issues = RowIssues(self.prefix)
        self.all_rows = self.units = 0

    def checked(self, table: pa.Table, first: int = 0) -> Checked:
        """A part of a table whose first row has the number `first`. Threads may do so at once.
        InvalidInput with the row for each value that is wrong by itself."""
        return Checked(self.rows(table, first), Owners.of(table, self.owner, self.prefix, first))

    def merge_batches(self, parts: Sequence[Checked], known: int = 0) -> Checked:
        """Several batches as one, which says each owner in one way, and is counted, but for
        `known` rows. InvalidInput where there are none, or no name is left."""
        if not parts:
            raise InvalidInput("there are no rows", pointer=self.prefix)
        owners = Owners.merge_batches([part.owners for part in parts], self.owner, self.prefix)
        self.all_rows += len(owners) - known
        if len(parts) == 1:
            return Checked(parts[0].columns, owners)
        names = list(parts[0].columns)
        # Out of each batch, so that little is there twice.
        columns = {
            name: np.concatenate([part.columns.pop(name) for part in parts]) for name in names
        }
        return Checked(columns, owners)

    def whole(self, parts: Sequence[Checked]) -> Content:
        """The content of all rows at once. InvalidInput for what is wrong with it."""
        columns, owners = self.merge_batches(parts)
        part = self.part(columns, owners.numbers(), np.arange(len(owners)))
        self.check()
        return in_order_of_keys(part, self.keys(part), self.records)[0]

    @abstractmethod
    def rows(self, table: pa.Table, first: int) -> Columns:
        """What is kept of the rows of part of a table, whose first has the number `first`, beside
        their owner: arrays with an entry a row. It changes nothing here. InvalidInput with the row
        for each value that is wrong by itself."""

    @abstractmethod
    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        """The content of some units, at least one row, but for the order of its records; the rows
        were counted. `owner`: whose each row is, by number; `row`: as which one it came. Faults go
        to `issues`; what is returned is not used then."""

    @abstractmethod
    def keys(self, content: Content) -> NDArray[Any]:
        """A key of each record of a content: in canonical form they stand in the order of keys."""

    def check(self) -> None:
        """InvalidInput for what is wrong with the whole, when all parts were made."""
        self.issues.check()

"""Batches of an uploaded table that were checked one by one, put together as one.

Each has the columns that a content is made of, in as few bits as they need, and says whose rows it
has: nothing else of a batch is kept, so what a table takes in memory is little more than its
content. All that is found here is found anew by the reader of whole tables, which says it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet_client.names import name_of

Ints32 = NDArray[np.int32]
FIRST_PLAIN, LAST_PLAIN, POINT = 0x21, 0x7E, 0x2E
"""Names of such bytes without a point are as they are written (`discreet_client.names`)."""


class Owners(NamedTuple):
    """Whose row each of a batch is."""

    number: Ints32
    """int32[rows], of their names."""
    names: Any
    """The Arrow array of the names, each once, in the order of first appearance."""


class Checked(NamedTuple):
    """A batch whose values are as they should be, each by itself."""

    columns: dict[str, NDArray[Any]]
    owners: Owners


def owners_of(column: pa.ChunkedArray, name: str) -> Owners:
    """Whose row each of a batch is, by texts or by integers. InvalidInput where they are something
    else, or one is missing."""
    values = column.combine_chunks()
    texts = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if values.null_count or not (texts or pa.types.is_integer(values.type)):
        raise InvalidInput(f"column {name!r} is not plain")
    values = values.cast(pa.string()) if texts else values
    heads = _heads_of(values)
    encoded = (values if 2 * heads.size > len(values) else values.take(heads)).dictionary_encode()
    number = encoded.indices.to_numpy().astype(np.int32, copy=False)
    if len(number) < len(values):
        run = np.zeros(len(values), dtype=np.int32)
        run[heads[1:]] = 1
        number = number[np.cumsum(run, out=run)]
    return Owners(number, encoded.dictionary)


def gathered(parts: Iterable[Checked]) -> tuple[dict[str, NDArray[Any]], Ints32]:
    """The columns of all batches, and whose row each is: int32[rows], numbers in the order of first
    appearance. InvalidInput where there are no rows, and where a name can be written in another way
    (`columns.owner_column`)."""
    columns: dict[str, list[NDArray[Any]]] = {}
    owners: list[Owners] = []
    for part in parts:
        owners.append(part.owners)
        for name, values in part.columns.items():
            columns.setdefault(name, []).append(values)
    if not owners:
        raise InvalidInput("there are no rows")
    whole = {name: np.concatenate(columns.pop(name)) for name in list(columns)}
    names = pa.concat_arrays([each.names for each in owners]).dictionary_encode()
    if pa.types.is_string(names.dictionary.type) and not _are_canonical(names.dictionary):
        raise InvalidInput("names may be written in several ways")
    number = names.indices.to_numpy().astype(np.int32, copy=False)
    ends = np.cumsum([0, *(len(each.names) for each in owners)])
    return whole, np.concatenate(
        [number[end:][each.number] for each, end in zip(owners, ends, strict=False)]
    )


def _heads_of(values: pa.Array) -> NDArray[np.int64]:
    """The rows whose value is not that of the row before, the first among them."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    if pa.types.is_integer(values.type):
        numbers = values.to_numpy()
        return np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
    _, offsets, texts = values.buffers()
    start = np.frombuffer(offsets, dtype=np.int32)[values.offset :][: len(values) + 1]
    bytes_of = np.frombuffer(b"" if texts is None else texts, dtype=np.uint8)
    for array in (start, bytes_of):
        array.setflags(write=False)  # the type for which the kernel is compiled
    return np.flatnonzero(_differ(start, bytes_of))


@njit(cache=True, nogil=True)
def _differ(start: NDArray[np.int32], texts: NDArray[np.uint8]) -> NDArray[np.bool_]:
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


def _are_canonical(names: pa.Array) -> bool:
    """Whether each text is the name for which it stands."""
    _, offsets, texts = names.buffers()
    start = np.frombuffer(offsets, dtype=np.int32)[names.offset :][: len(names) + 1]
    if (start[1:] == start[:-1]).any():
        return False
    letters = np.frombuffer(texts, dtype=np.uint8)[start[0] : start[-1]]
    if ((letters >= FIRST_PLAIN) & (letters <= LAST_PLAIN) & (letters != POINT)).all():
        return True
    return all(name_of(text) == text for text in names.to_pylist())

"""Private content and what was released of it: arrays by name, and the bytes that they are stored
and digested as."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, JsonValue

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

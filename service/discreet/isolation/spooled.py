"""Sealed contents in a file that a child was given, as files of their own."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from discreet.storage.sealing import ChunkCipher, SealedReader, new_data_key, seal_stream


def opened(content: Mapping[str, Any], descriptor: int) -> Callable[[], BinaryIO]:
    """What opens a content `{name, data_key, offset, sealed_bytes}` in the file of `descriptor`,
    anew each time."""
    return partial(_opened, content, descriptor)


def _opened(content: Mapping[str, Any], descriptor: int) -> BinaryIO:
    def read_at(place: int, size: int) -> bytes:
        return os.pread(descriptor, size, content["offset"] + place)

    cipher = ChunkCipher(bytes.fromhex(content["data_key"]), content["name"])
    return io.BufferedReader(SealedReader(cipher, read_at, content["sealed_bytes"]))


@contextlib.contextmanager
def in_memory(packed: bytes) -> Iterator[tuple[Mapping[str, Any], int]]:
    """A content that was sealed just now, and a descriptor of the file in memory that holds it: for
    rehearsals."""
    key = new_data_key()
    sealed = seal_stream(key, "rehearsal", packed)
    place = {"name": "rehearsal", "data_key": key.hex(), "offset": 0, "sealed_bytes": len(sealed)}
    descriptor = os.memfd_create("rehearsal")
    try:
        os.write(descriptor, sealed)
        yield place, descriptor
    finally:
        os.close(descriptor)

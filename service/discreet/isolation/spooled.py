"""Sealed contents in a file that a child was given, as files of their own."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from discreet.storage.sealing import (
    CHUNK_BYTES,
    STREAM_CHUNK_BYTES,
    ChunkCipher,
    SealedReader,
    new_data_key,
    seal_stream,
)

Needs = Callable[[int, int], None]
"""Called with the first and last of a content's sealed chunks before these are read."""


def opened(
    content: Mapping[str, Any], descriptor: int, needs: Needs | None = None
) -> Callable[[], BinaryIO]:
    """What opens a content `{name, data_key, offset, sealed_bytes}` in the file of `descriptor`,
    anew each time."""
    return partial(_opened, content, descriptor, needs)


def ask_ahead(content: Mapping[str, Any], needs: Needs, start: int, end: int) -> None:
    """Ask for the chunks that a share lies in, in bytes, before any is used. Which these are
    follows from the numbers of rows and of records, not from where records are cut, so that whoever
    sees what is fetched sees no more; and for the next one, in which the last record ends unless it
    is very long."""
    last = (content["sealed_bytes"] - 1) // STREAM_CHUNK_BYTES
    needs(start // CHUNK_BYTES, min(last, end // CHUNK_BYTES + 1))


def _opened(content: Mapping[str, Any], descriptor: int, needs: Needs | None) -> BinaryIO:
    def read_at(place: int, size: int) -> bytes:
        if needs is not None:
            needs(place // STREAM_CHUNK_BYTES, place // STREAM_CHUNK_BYTES)
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

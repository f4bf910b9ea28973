"""Pieces of rows that a child puts aside, in a file without a name that it was given: encrypted,
and the key is nowhere but in its own memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from discreet.errors import PayloadTooLarge
from discreet.storage.keys.provider import NONCE_BYTES
from discreet.storage.sealing import new_data_key

MOST_BYTES = (1 << 31) - (1 << 16)
"""Of a piece: AES-GCM and one call of the system take hardly more."""


class NoSpool(Exception):
    """The file cannot be written or read."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.errno)
        self.number = error.errno or errno.EIO


class Segment(NamedTuple):
    """Where a piece lies."""

    number: int
    offset: int
    size: int


@dataclass(frozen=True)
class Row:
    """Segments that follow one another, in little memory: there are millions of them."""

    index: int
    offset: int
    ends: NDArray[np.int64]
    """Of each, from `offset` on."""

    def __len__(self) -> int:
        return self.ends.size

    def segment(self, number: int) -> Segment:
        first = int(self.ends[number - 1]) if number else 0
        return Segment(self.index + number, self.offset + first, int(self.ends[number]) - first)


class Segments:
    """Pieces of any size. Each is sealed by AES-256-GCM under its number, so that none can be taken
    for another."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._cipher = AESGCM(new_data_key())
        self._index = self._end = 0

    def put(self, plain: bytes) -> Segment:
        """NoSpool where there is no room on the disk; PayloadTooLarge beyond what this child may
        write."""
        if len(plain) > MOST_BYTES:
            raise PayloadTooLarge(
                f"rows of one unit that are read together take {len(plain)} bytes, of at most "
                f"{MOST_BYTES}: give shorter names"
            )
        index, offset = self._index, self._end
        sealed = self._cipher.encrypt(index.to_bytes(NONCE_BYTES, "big"), plain, None)
        try:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            view = memoryview(sealed)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            if error.errno == errno.EFBIG:
                raise PayloadTooLarge(
                    "putting the rows of each unit together takes more room on disk than one "
                    "upload is given: fewer rows, or shorter names of the units"
                ) from error
            raise NoSpool(error) from error
        self._index, self._end = index + 1, offset + len(sealed)
        return Segment(index, offset, len(sealed))

    def put_all(self, plain: Iterable[bytes]) -> Row:
        """Some pieces, none of which need have any bytes. Errors as of `put`."""
        index, offset = self._index, self._end
        sizes = np.fromiter((self.put(one).size for one in plain), np.int64)
        return Row(index, offset, np.cumsum(sizes, dtype=np.int64))

    def get(self, segment: Segment) -> bytes:
        """NoSpool where the disk does not give it back; InvalidTag where it was changed."""
        try:
            sealed = os.pread(self._descriptor, segment.size, segment.offset)
        except OSError as error:  # nothing that the upload can help
            raise NoSpool(error) from error
        return self._cipher.decrypt(segment.number.to_bytes(NONCE_BYTES, "big"), sealed, None)

    def forget(self) -> None:
        """What was put is not needed any more: its room is used again."""
        self._end = 0

"""Pieces of rows that a child puts aside, in a file without a name that it was given: encrypted,
and the key is nowhere but in its own memory."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import PayloadTooLarge
from discreet.storage.keys.provider import NONCE_BYTES
from discreet.storage.sealing import new_data_key


class NoSpool(Exception):
    """The file cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.errno)
        self.number = error.errno or errno.EIO


class Segment(NamedTuple):
    """Where a piece lies."""

    index: int
    offset: int
    size: int


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
                    "putting the rows of each unit together takes more room than a content of the "
                    "largest size would"
                ) from error
            raise NoSpool(error) from error
        self._index, self._end = index + 1, offset + len(sealed)
        return Segment(index, offset, len(sealed))

    def get(self, segment: Segment) -> bytes:
        sealed = os.pread(self._descriptor, segment.size, segment.offset)
        return self._cipher.decrypt(segment.index.to_bytes(NONCE_BYTES, "big"), sealed, None)

    def forget(self) -> None:
        """What was put is not needed any more: its room is used again."""
        self._end = 0

"""Encryption at rest: AES-256-GCM in chunks bound to their place.

Two forms. Datasets, uploads and releases are sealed under a data key of their own, chunk by chunk
as in STREAM (Hoang, Reyhanitabar, Rogaway & Vizár 2015): the nonce is the chunk's number with the
mark of the last one, so that nothing can be reordered or cut off, and any place can be read without
the rest. The data key is wrapped by a master key: rotating that one wraps the data key again and
touches no content, and a content whose wrapped key is gone is gone.

What is small and short-lived (sessions and their releases) is sealed by a master key itself, with
random nonces. A master key that lies in a token wraps a data key for each of these too.
"""

from __future__ import annotations

import io
import os
import secrets as random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import DiscreetError
from discreet.storage.keys.provider import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    KeysUnavailable,
    MasterKey,
)
from discreet.storage.secrets import Secrets

CHUNK_BYTES = 1 << 20
_OVERHEAD = NONCE_BYTES + TAG_BYTES
STREAM_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES
"""A chunk of a stream as it is stored; the last one may be shorter."""


class SealBroken(DiscreetError):
    """Stored content cannot be decrypted: it was changed, or its key is gone."""

    code = "seal_broken"


# Under a data key ---------------------------------------------------------------------------------


def new_data_key() -> bytes:
    return random.token_bytes(KEY_BYTES)


def wrap(secrets: Secrets, name: str, data_key: bytes, terms: bytes = b"") -> bytes:
    """The data key of `name`, wrapped by the master key `secrets.content_key_id`; it opens only
    with the same terms."""
    return _used(secrets).wrap(data_key, _wrapped(name, terms))


def unwrap(secrets: Secrets, key_id: str, name: str, wrapped: bytes, terms: bytes = b"") -> bytes:
    """The data key that `wrap` wrapped under master key `key_id`; SealBroken when it does not open,
    KeysUnavailable when nobody can tell."""
    try:
        return secrets.content_keys[key_id].unwrap(wrapped, _wrapped(name, terms))
    except (InvalidTag, KeyError, ValueError) as error:
        raise SealBroken() from error


def _used(secrets: Secrets) -> MasterKey:
    if (
        secrets.content_key_id not in secrets.content_keys
    ):  # retired while the next one could not be opened
        raise KeysUnavailable(
            "the master key in use could not be opened yet; nothing was done, try again"
        )
    return secrets.content_keys[secrets.content_key_id]


class ChunkCipher:
    """The chunks of one stream. A data key seals one stream only: its nonces are the chunks'
    numbers."""

    def __init__(self, data_key: bytes, name: str) -> None:
        self._cipher = AESGCM(data_key)
        self._name = name.encode()

    def seal(self, index: int, plain: bytes | bytearray | memoryview, *, last: bool) -> bytes:
        return self._cipher.encrypt(_place_nonce(index, last), plain, self._name)

    def open(self, index: int, sealed: bytes, *, last: bool) -> bytes:
        try:
            return self._cipher.decrypt(_place_nonce(index, last), sealed, self._name)
        except (InvalidTag, ValueError) as error:
            raise SealBroken() from error


class SealedWriter(io.RawIOBase):
    """A binary file that seals what is written to it and gives each chunk to `store`; holds two
    chunks at most.

    Only `finish` marks the end: a stream without it does not open.
    """

    def __init__(self, cipher: ChunkCipher, store: Callable[[bytes], object]) -> None:
        super().__init__()
        self._cipher = cipher
        self._store = store
        self._buffer = bytearray()
        self._index = 0
        self.plain_bytes = 0
        self.sealed_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.plain_bytes += len(view)
        if self._buffer:
            room = CHUNK_BYTES - len(self._buffer)
            self._buffer += view[:room]
            view = view[room:]
        if view and self._buffer:  # it is full
            self._put(self._buffer, last=False)
            self._buffer.clear()
        while len(view) > CHUNK_BYTES:  # what stays is never empty, so it can be the last chunk
            self._put(view[:CHUNK_BYTES], last=False)
            view = view[CHUNK_BYTES:]
        self._buffer += view
        return memoryview(data).nbytes

    def finish(self) -> None:
        self._put(self._buffer, last=True)
        self._buffer.clear()

    def _put(self, plain: bytes | bytearray | memoryview, *, last: bool) -> None:
        sealed = self._cipher.seal(self._index, plain, last=last)
        self._store(sealed)
        self._index += 1
        self.sealed_bytes += len(sealed)


class SealedReader(io.RawIOBase):
    """A sealed stream as a file that can be read at any place; holds one chunk of it in the clear.

    `read_at(offset, size)` gives stored bytes. The last chunk is opened first: a stream that was
    cut off does not open at all.
    """

    def __init__(
        self, cipher: ChunkCipher, read_at: Callable[[int, int], bytes], sealed_bytes: int
    ) -> None:
        super().__init__()
        self._cipher = cipher
        self._read_at = read_at
        self._sealed_bytes = sealed_bytes
        self._count = max(1, -(-sealed_bytes // STREAM_CHUNK_BYTES))
        self._size = sealed_bytes - self._count * TAG_BYTES
        self._position = 0
        self._held = -1
        self._plain = b""
        self._chunk(self._count - 1)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError("a place before the beginning")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._position >= self._size:
            return 0
        index, start = divmod(self._position, CHUNK_BYTES)
        part = self._chunk(index)[start : start + len(view)]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _chunk(self, index: int) -> bytes:
        if index != self._held:
            start = index * STREAM_CHUNK_BYTES
            sealed = self._read_at(start, min(STREAM_CHUNK_BYTES, self._sealed_bytes - start))
            self._plain = self._cipher.open(index, sealed, last=index == self._count - 1)
            self._held = index
        return self._plain


class StreamOpener:
    """Opens a stream that is written to it in parts of any size, and gives each chunk, sealed and
    plain, to `take`. SealBroken, at the latest from `finish`, unless the stream is whole and
    unchanged."""

    def __init__(
        self, data_key: bytes, name: str, sealed_bytes: int, take: Callable[[bytes, bytes], object]
    ) -> None:
        self._cipher = ChunkCipher(data_key, name)
        self._count = max(1, -(-sealed_bytes // STREAM_CHUNK_BYTES))
        self._sealed_bytes, self._take = sealed_bytes, take
        self._buffer = bytearray()
        self._index = self._taken = 0

    def write(self, part: bytes) -> None:
        self._buffer += part
        while len(self._buffer) >= STREAM_CHUNK_BYTES:
            self._open(bytes(self._buffer[:STREAM_CHUNK_BYTES]))
            del self._buffer[:STREAM_CHUNK_BYTES]

    def finish(self) -> None:
        if self._buffer:
            self._open(bytes(self._buffer))
        if self._taken != self._sealed_bytes or self._sealed_bytes < TAG_BYTES:
            raise SealBroken("the content is shorter than when it was sealed")

    def _open(self, sealed: bytes) -> None:
        if self._index >= self._count:
            raise SealBroken("the content is longer than when it was sealed")
        plain = self._cipher.open(self._index, sealed, last=self._index == self._count - 1)
        self._take(sealed, plain)
        self._index += 1
        self._taken += len(sealed)


def open_stream(data_key: bytes, name: str, sealed_bytes: int, parts: Iterable[bytes]) -> bytearray:
    """The plain bytes of a stream that comes in parts of any size; SealBroken unless it is whole
    and unchanged."""
    count = max(1, -(-sealed_bytes // STREAM_CHUNK_BYTES))
    plain = bytearray(max(0, sealed_bytes - count * TAG_BYTES))  # in one piece: contents are large
    place = 0

    def take(_: bytes, part: bytes) -> None:
        nonlocal place
        plain[place : place + len(part)] = part
        place += len(part)

    opener = StreamOpener(data_key, name, sealed_bytes, take)
    for part in parts:
        opener.write(part)
    opener.finish()
    return plain


def seal_stream(data_key: bytes, name: str, plain: bytes) -> bytes:
    """A whole stream, as `open_stream` opens it."""
    parts: list[bytes] = []
    writer = SealedWriter(ChunkCipher(data_key, name), parts.append)
    writer.write(plain)
    writer.finish()
    return b"".join(parts)


def _place_nonce(index: int, last: bool) -> bytes:
    return index.to_bytes(NONCE_BYTES - 1, "big") + bytes([last])


def _wrapped(name: str, terms: bytes) -> bytes:
    return f"{name}\0data key".encode() + (b"\0" + terms if terms else b"")


# Under a master key -------------------------------------------------------------------------------


def seal(secrets: Secrets, name: str, plain: bytes) -> Iterator[bytes]:
    """Encrypted chunks of `plain`, to be stored in order under `name` with
    `secrets.content_key_id`."""
    head, cipher = _used(secrets).small_cipher(name.encode())
    count = max(1, -(-len(plain) // CHUNK_BYTES))
    for index in range(count):
        nonce = os.urandom(NONCE_BYTES)
        part = plain[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        yield head + nonce + cipher.encrypt(nonce, part, _place(name, index, index == count - 1))
        head = b""


def unseal(secrets: Secrets, key_id: str, name: str, chunks: Iterable[bytes]) -> bytes:
    """The plain bytes of all chunks of `name`; SealBroken when any is missing, moved or changed."""
    parts = list(chunks)
    if not parts:
        raise SealBroken("the content does not exist")
    try:
        key = secrets.content_keys[key_id]
        head, parts[0] = parts[0][: key.head_bytes], parts[0][key.head_bytes :]
        cipher = key.open_small(head, name.encode())
        return b"".join(
            cipher.decrypt(
                part[:NONCE_BYTES], part[NONCE_BYTES:], _place(name, index, index == len(parts) - 1)
            )
            for index, part in enumerate(parts)
        )
    except (InvalidTag, KeyError, ValueError) as error:
        raise SealBroken() from error


def seal_whole(secrets: Secrets, name: str, plain: bytes) -> bytes:
    """`plain` in one piece."""
    return b"".join(seal(secrets, name, plain))


def unseal_whole(secrets: Secrets, key_id: str, name: str, sealed: bytes) -> bytes:
    """The plain bytes of what `seal_whole` made."""
    size = CHUNK_BYTES + _OVERHEAD
    key = secrets.content_keys.get(key_id)
    first = size + (0 if key is None else key.head_bytes)
    rest = (sealed[start : start + size] for start in range(first, len(sealed), size))
    return unseal(secrets, key_id, name, (sealed[:first], *rest))


def _place(name: str, index: int, last: bool) -> bytes:
    return f"{name}\0{index}\0{int(last)}".encode()

"""Encryption at rest: AES-256-GCM in chunks bound to their place.

Each chunk has a nonce of its own; its associated data names the object, the chunk's number and whether it is the
last, so that chunks cannot be swapped between objects, reordered or cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import DiscreetError
from discreet.storage.secrets import Secrets

CHUNK_BYTES = 1 << 20
_NONCE_BYTES = 12
_OVERHEAD = _NONCE_BYTES + 16


class SealBroken(DiscreetError):
    """Stored content does not open: it was changed, or its key is gone."""

    code = "seal_broken"


def seal(secrets: Secrets, name: str, plain: bytes) -> Iterator[bytes]:
    """Encrypted chunks of `plain`, to be stored in order under `name` with `secrets.content_key_id`."""
    cipher = AESGCM(secrets.content_keys[secrets.content_key_id])
    count = max(1, -(-len(plain) // CHUNK_BYTES))
    for index in range(count):
        nonce = os.urandom(_NONCE_BYTES)
        part = plain[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        yield nonce + cipher.encrypt(nonce, part, _place(name, index, index == count - 1))


def unseal(secrets: Secrets, key_id: str, name: str, chunks: Iterable[bytes]) -> bytes:
    """The plain bytes of all chunks of `name`; SealBroken when any is missing, moved or changed."""
    parts = list(chunks)
    if not parts:
        raise SealBroken("the content is not there")
    try:
        cipher = AESGCM(secrets.content_keys[key_id])
        return b"".join(
            cipher.decrypt(part[:_NONCE_BYTES], part[_NONCE_BYTES:], _place(name, index, index == len(parts) - 1))
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
    return unseal(secrets, key_id, name, (sealed[start : start + size] for start in range(0, len(sealed), size)))


def _place(name: str, index: int, last: bool) -> bytes:
    return f"{name}\0{index}\0{int(last)}".encode()

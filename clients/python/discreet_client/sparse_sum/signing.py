"""Ed25519 of keys as bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Verify = Callable[[bytes, bytes, bytes], bool]
"""Of key, signature and message. Who plays many agents in one process may check once for all."""


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    """False for what is no key, too."""
    try:
        _key(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=1 << 16)
def _key(raw: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(raw)

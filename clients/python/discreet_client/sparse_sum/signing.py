"""Ed25519 of keys as bytes."""

from __future__ import annotations

from collections.abc import Callable

from discreet_client import ed25519

Verify = Callable[[bytes, bytes, bytes], bool]
"""Of key, signature and message. Who plays many agents in one process may check once for all."""


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    """False for what is no key, too."""
    return ed25519.is_signed(key, message, signature)

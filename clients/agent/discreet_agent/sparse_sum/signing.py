"""Ed25519 verification with raw public keys."""

from __future__ import annotations

from collections.abc import Callable

from discreet_agent import ed25519

Verify = Callable[[bytes, bytes, bytes], bool]
"""Maps key, signature and message to whether they fit. A simulation of many agents in one process
may check each signature once for all of them."""


def verify(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature is valid; False also for bytes that are not a key."""
    return ed25519.is_signed(key, message, signature)

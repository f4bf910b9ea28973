"""What signs: an Ed25519 key, in memory or where nobody can read it."""

from __future__ import annotations

from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Signer(Protocol):
    """What `Ed25519PrivateKey` of cryptography does, and a token's key too (RFC 8032)."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature, 64 bytes; the errors of a token that does not answer are its own."""

    def public_key(self) -> Ed25519PublicKey:
        """The key that checks it."""

"""An Ed25519 key that signs: in memory, or in a token that does not reveal it."""

from __future__ import annotations

from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Signer(Protocol):
    """The methods of `cryptography`'s `Ed25519PrivateKey` that a key in a token has too (RFC
    8032)."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature, 64 bytes. A token that does not answer raises its own errors."""

    def public_key(self) -> Ed25519PublicKey:
        """The key that verifies it."""

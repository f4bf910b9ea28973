"""The key under which an agent's contributions on one stream are authentic: agreed on by X25519
(RFC 7748) with keys that both sides draw for that stream and that their long-term keys sign, in
Challenge and Hello.

A MAC costs a hundredth of a signature. It convinces the other side alone: what has to convince
anybody else is signed.
"""

from __future__ import annotations

import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from discreet_agent.federation import signing

KEY_BYTES = MAC_BYTES = 32


class Exchange:
    """One side's X25519 key for one stream; `public` is what the other side is told."""

    def __init__(self, key: X25519PrivateKey | None = None) -> None:
        self._key = key or X25519PrivateKey.generate()
        self.public = self._key.public_key().public_bytes_raw()

    def key(self, other: bytes, session: str, challenge: bytes, hello: bytes) -> bytes:
        """The key of the agent's contributions, 32 bytes: the same on both sides if they have the
        same contents of Challenge and Hello, and so the same nonce, identities and X25519 keys.
        ValueError if `other` is no X25519 key, or one of small order, with which the secret would
        be the same for everybody."""
        secret = self._key.exchange(X25519PublicKey.from_public_bytes(other))
        info = signing.contribution_key(session, challenge, hello)
        return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)


def mac(key: bytes, statement: bytes) -> bytes:
    """HMAC-SHA-256 of a statement."""
    return hmac.digest(key, statement, "sha256")


class Verifier:
    """Checks the MACs of one stream. It keeps the state of HMAC after the key: OpenSSL takes twice
    as long where it is given the key, and looks SHA-256 up, for each message."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def is_authentic(self, statement: bytes, given: bytes) -> bool:
        """Whether `given` is the statement's MAC, compared in constant time."""
        expected = self._keyed.copy()
        expected.update(statement)
        return hmac.compare_digest(expected.digest(), given)

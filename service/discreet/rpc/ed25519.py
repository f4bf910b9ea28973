"""The check of agents' signatures, one a message, by libsodium: half the time of OpenSSL.

libsodium refuses more than RFC 8032 asks for: keys and signatures with points of small order, and
keys that are not written in their one canonical way. No honest agent has such a key.
"""

from __future__ import annotations

from nacl import bindings
from nacl.exceptions import BadSignatureError

KEY, SIGNATURE = bindings.crypto_sign_PUBLICKEYBYTES, bindings.crypto_sign_BYTES


def is_signed(public_key: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of `public_key` (32 raw bytes) on `statement`."""
    # libsodium takes both as one: with another length the end of the one would be the other's.
    if len(public_key) != KEY or len(signature) != SIGNATURE:
        return False
    try:
        bindings.crypto_sign_open(signature + statement, public_key)
    except BadSignatureError:
        return False
    return True

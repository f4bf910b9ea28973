"""Checks agents' signatures with libsodium, in half the time of OpenSSL.

It accepts and refuses exactly what `discreet_agent.ed25519` does, which all other code uses, so
that no message is validly signed for one verifier and forged for another.
"""

from __future__ import annotations

from nacl import bindings
from nacl.exceptions import BadSignatureError

KEY, SIGNATURE = bindings.crypto_sign_PUBLICKEYBYTES, bindings.crypto_sign_BYTES


def is_signed(public_key: bytes, statement: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of `public_key` (32 raw bytes) on `statement`."""
    # libsodium gets signature and statement as one string: a signature of another length would move
    # bytes from one to the other.
    if len(public_key) != KEY or len(signature) != SIGNATURE:
        return False
    try:
        bindings.crypto_sign_open(signature + statement, public_key)
    except BadSignatureError:
        return False
    return True

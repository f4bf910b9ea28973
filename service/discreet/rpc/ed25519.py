"""The check of agents' signatures, one a message, by libsodium: half the time of OpenSSL.

It takes and refuses what `discreet_client.ed25519` does, which all others check by: nobody can show
the same message as signed to one and forged to another.
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

"""Ed25519 (RFC 8032), by one rule in all programs that check the same signature.

RFC 8032 leaves open what becomes of odd keys and signatures, and libraries differ: what one takes
and another refuses would show the same message as signed to some and forged to others. The rule
here is libsodium's, by which the service checks what agents send. A signature (R, S) of key A on a
message M holds when

    A     is written in its one form (y < p) and is not of small order,
    R     is written in its one form and is not of small order,
    S     is less than the order of the group,
    R     is S B - H(R, A, M) A to the last byte: without the cofactor.

Honest keys and signatures are never refused. docs/protocol.md says this for other languages.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PRIME = 2**255 - 19
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = frozenset({0, 1, PRIME - 1, _EIGHTH, PRIME - _EIGHTH})
"""y of the eight points whose order divides eight: of orders 4, 1, 2, and twice 8."""


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is that of `public_key` (32 raw bytes) on `message`. False for what is no
    key or no signature, too."""
    try:
        _parsed(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return is_ordinary(signature[:32])


def is_key(public_key: bytes) -> bool:
    """Whether these bytes may be a key. Whether they are a point of the curve is seen when they
    are used."""
    return len(public_key) == 32 and is_ordinary(public_key)


def is_ordinary(point: bytes) -> bool:
    """Whether these 32 bytes write a y in its one form that is not of a point of small order."""
    y = int.from_bytes(point, "little") & (1 << 255) - 1
    return y < PRIME and y not in SMALL_ORDER


@lru_cache(maxsize=1 << 14)
def _parsed(public_key: bytes) -> Ed25519PublicKey:
    if not is_key(public_key):
        raise ValueError("no key, one of small order, or in another than its one form")
    return Ed25519PublicKey.from_public_bytes(public_key)

"""Ed25519 (RFC 8032), verified by the same rule in all programs that check a signature.

RFC 8032 leaves the treatment of unusual keys and signatures open, and libraries differ: the same
message would be signed for some and forged for others. The rule here is libsodium's, by which the
service checks what agents send. A signature (R, S) of key A on a message M is valid when

    A     is encoded canonically (y < p) and is not of small order,
    R     is encoded canonically and is not of small order,
    S     is less than the order of the group,
    R     is byte for byte the encoding of S B - H(R, A, M) A: the cofactorless equation.

Honest keys and signatures are never refused. docs/protocol.md states the rule for other languages.
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

PRIME = 2**255 - 19
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = frozenset({0, 1, PRIME - 1, _EIGHTH, PRIME - _EIGHTH})
"""y of the eight points whose order divides 8, in turn: order 4, 1, 2, and twice order 8."""


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is a valid signature of `public_key` (32 raw bytes) on `message`; also
    False for bytes that are not a key or not a signature."""
    try:
        _parsed(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return is_ordinary(signature[:32])


def is_key(public_key: bytes) -> bool:
    """Whether these bytes may be a key. Whether they encode a point of the curve is checked when
    they are used."""
    return len(public_key) == 32 and is_ordinary(public_key)


def is_ordinary(point: bytes) -> bool:
    """Whether these 32 bytes are the canonical encoding of a y that is not that of a point of small
    order."""
    y = int.from_bytes(point, "little") & (1 << 255) - 1
    return y < PRIME and y not in SMALL_ORDER


@lru_cache(maxsize=1 << 14)
def _parsed(public_key: bytes) -> Ed25519PublicKey:
    if not is_key(public_key):
        raise ValueError("not a key, of small order, or not canonically encoded")
    return Ed25519PublicKey.from_public_bytes(public_key)

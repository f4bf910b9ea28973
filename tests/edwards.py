"""Ed25519 in plain integers, and the keys and signatures about which libraries differ.

Nothing here is fast or secret. Points are (x, y) on -x² + y² = 1 + d x² y² over the integers modulo
p (RFC 8032, section 5.1); additions are the complete ones, written out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def add(one: Point, other: Point) -> Point:
    (a, b), (c, d) = one, other
    product = D * a * b * c * d % P
    return (
        (a * d + b * c) * pow(1 + product, -1, P) % P,
        (b * d + a * c) * pow(1 - product, -1, P) % P,
    )


def times(number: int, point: Point) -> Point:
    total = NEUTRAL
    while number:
        if number & 1:
            total = add(total, point)
        point, number = add(point, point), number >> 1
    return total


def written(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def read(data: bytes) -> Point | None:
    """The point in its one form; None for every other."""
    number = int.from_bytes(data, "little")
    y, odd = number % 2**255, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P or (x == 0 and odd):
        return None
    return (x if x & 1 == odd else P - x), y


def _base() -> Point:
    found = read((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert found is not None
    return found


BASE = _base()


@lru_cache
def torsion() -> tuple[Point, ...]:
    """The eight points of small order: multiples of one of order 8."""
    for y in range(2, 100):
        point = read(y.to_bytes(32, "little"))
        if point is not None:
            eighth = times(ORDER, point)
            if times(4, eighth) != NEUTRAL:
                return tuple(times(number, eighth) for number in range(8))
    raise AssertionError("one of these has a part of order 8")


def challenge(commitment: bytes, key: bytes, message: bytes) -> int:
    return int.from_bytes(hashlib.sha512(commitment + key + message).digest(), "little") % ORDER


def holds(key: bytes, message: bytes, signature: bytes) -> bool:
    """The rule of docs/protocol.md, from its words."""
    scalar = int.from_bytes(signature[32:], "little")
    public, commitment = read(key), read(signature[:32])
    if len(signature) != 64 or scalar >= ORDER or public is None or commitment is None:
        return False
    if NEUTRAL in (times(8, public), times(8, commitment)):
        return False
    asked = challenge(signature[:32], key, message)
    return times(scalar, BASE) == add(commitment, times(asked, public))


class Edge(NamedTuple):
    """A signature that somebody may make who does not keep to RFC 8032."""

    about: str
    key: bytes
    message: bytes
    signature: bytes

    def told(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "key": self.key.hex(),
            "message": self.message.hex(),
            "signature": self.signature.hex(),
            "holds": holds(self.key, self.message, self.signature),
        }


SECRET, DRAWN = (
    int.from_bytes(hashlib.sha512(name).digest(), "little") % ORDER for name in (b"key", b"drawn")
)


def _signature(
    about: str, key: int, commitment: int, forms: tuple[bytes | None, bytes | None] = (None, None)
) -> Iterator[tuple[bool, Edge]]:
    """By a key with the torsion point of this number, and a commitment with another; `key` or
    `commitment` below zero: the torsion point alone, of number -1 - n. `forms`: how they are
    written instead. With each, whether the equation holds without the cofactor; with it, all do."""
    small = torsion()
    secret, drawn = (SECRET if key >= 0 else 0), (DRAWN if commitment >= 0 else 0)
    key, commitment = (number if number >= 0 else -1 - number for number in (key, commitment))
    public = forms[0] or written(add(times(secret, BASE), small[key]))
    first = forms[1] or written(add(times(drawn, BASE), small[commitment]))
    for number in range(200):
        message = b"message %d" % number
        asked = challenge(first, public, message)
        last = ((drawn + asked * secret) % ORDER).to_bytes(32, "little")
        exact = (commitment + asked * key) % 8 == 0
        yield exact, Edge(about, public, message, first + last)


def edges() -> list[Edge]:
    """All of them; first an honest one."""

    def first(exact: bool, *what: Any) -> Edge:
        return next(edge for is_exact, edge in _signature(*what) if is_exact is exact)

    honest = first(True, "as RFC 8032 makes it", 0, 0)
    scalar = int.from_bytes(honest.signature[32:], "little")

    def with_scalar(about: str, number: int) -> Edge:
        changed = honest.signature[:32] + number.to_bytes(32, "little")
        return honest._replace(about=about, signature=changed)

    found = [
        honest,
        honest._replace(about="of another message", message=b"another"),
        with_scalar("S and once the order", scalar + ORDER),
        with_scalar("S and seven times the order", scalar + 7 * ORDER),
        with_scalar("S with its highest bit", scalar + 2**255),
        first(False, "R with a part of order 8: with the cofactor alone", 0, 1),
        first(False, "key with a part of order 8: with the cofactor alone", 1, 0),
        first(True, "key with a part of order 8: the exact equation", 1, 0),
        first(True, "key and R with parts of order 8 that cancel", 1, 3),
        first(True, "R neutral", 0, -1),
        first(True, "key with a part of order 8, R of small order", 1, -2),
    ]
    for number in range(8):
        found.append(first(True, f"key of small order, number {number}", -1 - number, 0))
        found.append(first(True, f"key and R of small order, number {number}", -1 - number, -1))
    sign = 1 << 255
    of_order_4 = {written(torsion()[number])[31] >> 7: number for number in (2, 6)}
    odd = [
        ("neutral with the sign of x", 0, 1 | sign),
        ("of order 2 with the sign of x", 4, P - 1 | sign),
        ("neutral as p + 1", 0, P + 1),
        ("neutral as p + 1 with the sign of x", 0, P + 1 | sign),
        ("of order 4 as p", of_order_4[0], P),
        ("of order 4 as p with the sign of x", of_order_4[1], P | sign),
    ]
    for about, number, form in odd:
        data = form.to_bytes(32, "little")
        found.append(first(True, f"key {about}", -1 - number, 0, (data, None)))
        found.append(first(True, f"key {about}, R neutral", -1 - number, -1, (data, None)))
        if number == 0:
            found.append(first(True, f"R {about}", 0, -1, (None, data)))
    return found

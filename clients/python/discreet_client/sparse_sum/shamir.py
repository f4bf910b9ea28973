"""Shamir's shares (1979) of elements of the prime field of 2^255 - 19."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence

P = 2**255 - 19
SIZE = 32
"""Bytes of an element, big-endian."""


def draw() -> int:
    """A uniform element of the field."""
    return secrets.randbelow(P)


def share(secret: int, threshold: int, holders: int) -> list[int]:
    """Shares at the points 1 to `holders`; `threshold` of them tell the secret, fewer nothing."""
    if not (0 <= secret < P and 1 <= threshold <= holders < P):
        raise ValueError("a secret of the field, and a threshold of 1 to as many as hold shares")
    return evaluate([secret, *(draw() for _ in range(threshold - 1))], holders)


def evaluate(coefficients: Sequence[int], holders: int) -> list[int]:
    """The polynomial, constant term first, at the points 1 to `holders`."""
    shares = []
    for point in range(1, holders + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = value * point + coefficient  # points are small: reduced once, at the end
        shares.append(value % P)
    return shares


def recover(shares: Mapping[int, int], threshold: int) -> int:
    """The secret from shares by their points, by Lagrange's formula at 0. Raises ValueError when
    they are fewer than the threshold.

    With all the points 1 to m the weight of point i is `(-1)^(i-1) C(m, i)`; each absent point a
    gives it a factor `(a - i) / a`. So everything is whole numbers but for one division.
    """
    if len(shares) < threshold or min(shares) < 1:
        raise ValueError(f"{len(shares)} shares, of which {threshold} tell the secret")
    last = max(shares)
    absent = [point for point in range(1, last) if point not in shares]
    total = 0
    for point, value in shares.items():
        weight = math.comb(last, point) * math.prod(other - point for other in absent)
        total += value * (weight if point % 2 else -weight)
    return total * pow(math.prod(absent), -1, P) % P

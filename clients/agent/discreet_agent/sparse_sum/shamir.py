"""Shamir's secret sharing (1979) over the prime field of order 2^255 - 19."""

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
    """Shares at the points 1 to `holders`; `threshold` of them reveal the secret, fewer nothing.
    Raises ValueError for arguments out of range."""
    if not (0 <= secret < P and 1 <= threshold <= holders < P):
        raise ValueError("the secret must be in the field, and the threshold from 1 to the holders")
    return evaluate([secret, *(draw() for _ in range(threshold - 1))], holders)


def evaluate(coefficients: Sequence[int], holders: int) -> list[int]:
    """The values of the polynomial, constant term first, at the points 1 to `holders`."""
    shares = []
    for point in range(1, holders + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = value * point + coefficient  # points are small: reduced once, at the end
        shares.append(value % P)
    return shares


def recover(shares: Mapping[int, int], threshold: int) -> int:
    """The secret from shares by their points, by Lagrange interpolation at 0. Raises ValueError
    when there are fewer than the threshold.

    With all the points 1 to m the weight of point i is `(-1)^(i-1) C(m, i)`; each absent point a
    multiplies it by `(a - i) / a`. So all is computed in whole numbers except for one division.
    """
    if len(shares) < threshold or min(shares) < 1:
        raise ValueError(f"{threshold} shares at points from 1 are needed, not {len(shares)}")
    last = max(shares)
    absent = [point for point in range(1, last) if point not in shares]
    total = 0
    for point, value in shares.items():
        weight = math.comb(last, point) * math.prod(other - point for other in absent)
        total += value * (weight if point % 2 else -weight)
    return total * pow(math.prod(absent), -1, P) % P

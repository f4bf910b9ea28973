"""Exact discrete Gaussian noise."""

from __future__ import annotations

import secrets
from collections.abc import Callable

NOISE_TAIL = 64
"""Standard deviations beyond which a draw is an error; its probability is below e^-2000."""


Below = Callable[[int], int]
"""From n: an integer that is uniform from 0 to n - 1."""


def discrete_gaussian(variance: int, count: int, below: Below = secrets.randbelow) -> list[int]:
    """Exact draws with `P(z) ~ exp(-z²/(2 variance))`, from the operating system's generator or
    from `below`, in integer arithmetic only.

    Canonne, Kamath and Steinke (2020), Algorithms 1 to 3. The sum of several agents' draws is not
    exactly a discrete Gaussian; at variances of 2^20 grid units and more, as in secure sums, the
    difference is below any floating-point number (Kairouz, Liu, Steinke 2021, Lemma 10: `10 Σ
    exp(-2π² σ² k/(k+1))`). Raises ValueError when the variance is not positive.
    """
    if variance < 1:
        raise ValueError(
            f"the variance of discrete noise must be a positive integer, not {variance}"
        )
    scale = int(variance**0.5) + 1
    draws: list[int] = []
    while len(draws) < count:
        z = _discrete_laplace(scale, below)
        if _bernoulli_exp((abs(z) * scale - variance) ** 2, 2 * variance * scale * scale, below):
            draws.append(z)
    return draws


def _bernoulli_exp(top: int, bottom: int, below: Below) -> bool:
    """True with probability exp(-top/bottom)."""
    while top > bottom:
        if not _bernoulli_exp(1, 1, below):
            return False
        top -= bottom
    k = 1
    while below(bottom * k) < top:
        k += 1
    return k % 2 == 1


def _discrete_laplace(scale: int, below: Below) -> int:
    """A draw with `P(z) ~ exp(-|z|/scale)`."""
    while True:
        remainder = below(scale)
        if not _bernoulli_exp(remainder, scale, below):
            continue
        whole = 0
        while _bernoulli_exp(1, 1, below):
            whole += 1
        magnitude = remainder + whole * scale
        negative = below(2)
        if magnitude or not negative:
            return -magnitude if negative else magnitude

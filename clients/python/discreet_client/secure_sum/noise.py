"""Exact discrete Gaussian noise."""

from __future__ import annotations

import secrets

NOISE_TAIL = 64
"""Standard deviations beyond which a draw is an error; its probability is below e^-2000."""


def discrete_gaussian(variance: int, count: int) -> list[int]:
    """Exact draws with `P(z) ~ exp(-z²/(2 variance))`, from the operating system's generator, in
    integer arithmetic only.

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
        z = _discrete_laplace(scale)
        if _bernoulli_exp((abs(z) * scale - variance) ** 2, 2 * variance * scale * scale):
            draws.append(z)
    return draws


def _bernoulli_exp(top: int, bottom: int) -> bool:
    """True with probability exp(-top/bottom)."""
    while top > bottom:
        if not _bernoulli_exp(1, 1):
            return False
        top -= bottom
    k = 1
    while secrets.randbelow(bottom * k) < top:
        k += 1
    return k % 2 == 1


def _discrete_laplace(scale: int) -> int:
    """A draw with `P(z) ~ exp(-|z|/scale)`."""
    while True:
        remainder = secrets.randbelow(scale)
        if not _bernoulli_exp(remainder, scale):
            continue
        whole = 0
        while _bernoulli_exp(1, 1):
            whole += 1
        magnitude = remainder + whole * scale
        negative = secrets.randbits(1)
        if magnitude or not negative:
            return -magnitude if negative else magnitude

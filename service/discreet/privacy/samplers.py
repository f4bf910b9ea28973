"""Exact samplers of discrete Laplace and discrete Gaussian noise: integers in, integers out, no
floating point at all.

A scale is the dyadic rational that its float is, `n/q` with q a power of two; every decision is a
comparison of integers against uniform 64-bit words, so the distribution is the one that the
accounting speaks of, not one near it.

- Bernoulli(exp(-x)), x in [0, 1]: try Bernoulli(x/k) for k = 1, 2, … until the first failure; true
  when that is at an odd k (Canonne, Kamath & Steinke 2020, Algorithm 1, after Forsythe and von
  Neumann).
- Discrete Laplace: geometric with parameter exp(-1/n), divided by q, with a random sign (ibid.,
  Algorithm 2).
- Discrete Gaussian: Karney 2016 ("Sampling exactly from the normal distribution", Algorithm D),
  which needs no integer much wider than the scale, unlike the rejection of ibid., Algorithm 3,
  whose exponents need its fourth power.

The kernels read words from an array. One that runs out mid-sample reports where that sample began,
and is called again with the unread words and new ones behind them: the same words, so no sample is
ever dropped for being long.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.privacy.units import LARGEST_SCALE

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

SMALLEST_SCALE = 2.0**-9

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function, compiled by numba when it is first called, and kept in numba's cache on disk
    where there is one."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder that this user may write to
        return cast(F, numba.njit(nogil=True)(function))


def as_ratio(scale: float) -> tuple[int, int]:
    """(n, q) with n/q = scale: the float itself from 2^-9 on; below that 2^-9, which only adds
    noise.

    n < 2^53 and q <= 2^61. ValueError when scale is not in (0, 2^52].
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"a noise scale lies in (0, 2^52]: {scale}")
    ratio = Fraction(max(scale, SMALLEST_SCALE))
    return ratio.numerator, ratio.denominator


# The position of the next unread word goes into each function below and comes back with its answer;
# a position beyond the array means that the words ran out and the answer is void.


@compiled
def _bits(bound: int) -> int:
    """Bits that hold every integer in [0, bound)."""
    bits = 0
    while (bound - 1) >> bits:
        bits += 1
    return bits


@compiled
def _below(words: Words, at: int, bound: int, bits: int) -> tuple[int, int]:
    """A uniform integer in [0, bound), 1 <= bound < 2^63: the top bits of a word, again when too
    large."""
    if bits == 0:
        return 0, at
    shift = np.uint64(64 - bits)
    while at < len(words):
        value: Any = np.int64(words[at] >> shift)
        at += 1
        if value < bound:
            return value, at
    return 0, len(words) + 1


@compiled
def _bernoulli_exp(words: Words, at: int, top: int, bottom: int, bits: int) -> tuple[bool, int]:
    """True with probability exp(-top/bottom), 0 <= top <= bottom < 2^63, bits = _bits(bottom)."""
    k = 1
    while at <= len(words):
        draw, at = _below(words, at, bottom, bits)
        if draw >= top:
            break
        draw, at = _below(words, at, k, _bits(k))
        if draw > 0:
            break
        k += 1
    return k % 2 == 1, at


@compiled
def fill_laplace(out: Integers, done: int, words: Words, n: int, q: int) -> tuple[int, int]:
    """Fill out[done:] with P(z) ~ exp(-|z| q/n); returns how far it came and the first word that
    the rest must read.

    A run of 512 factors of 1/e, probability e^-512, is cut there, so that nothing overflows: |z| <
    2^62.
    """
    start = 0
    at = 0
    bits = _bits(n)
    while done < len(out):
        remainder = 0
        while at <= len(words):
            remainder, at = _below(words, at, n, bits)
            accepted, at = _bernoulli_exp(words, at, remainder, n, bits)
            if accepted:
                break
        whole = 0
        while at <= len(words) and whole < 512:
            another, at = _bernoulli_exp(words, at, 1, 1, 0)
            if not another:
                break
            whole += 1
        negative, at = _below(words, at, 2, 1)
        if at > len(words):
            break
        magnitude = whole * (n // q) + (remainder + whole * (n % q)) // q
        if negative == 0 or magnitude > 0:
            out[done] = -magnitude if negative == 1 else magnitude
            done += 1
        start = at
    return done, start


@compiled
def fill_gaussian(out: Integers, done: int, words: Words, n: int, q: int) -> tuple[int, int]:
    """As `fill_laplace` for P(z) ~ exp(-z² q²/(2 n²)). Beyond 64 scales, below e^-2000, nothing is
    drawn."""
    start = 0
    at = 0
    ceiling = (n + q - 1) // q
    n_bits = _bits(n)
    ceiling_bits = _bits(ceiling)
    while done < len(out):
        # D1, D2: k with probability ~ exp(-k²/2), as exp(-k/2) times exp(-k(k-1)/2).
        k = 0
        while at <= len(words):
            another, at = _bernoulli_exp(words, at, 1, 2, 1)
            if not another:
                break
            k += 1
        accepted = k < 64
        trial = 0
        while accepted and trial < k * (k - 1) and at <= len(words):
            accepted, at = _bernoulli_exp(words, at, 1, 2, 1)
            trial += 1
        if accepted:
            # D3 to D5: a sign and a uniform i from k n/q on, less than n/q beyond; zero has one
            # sign only.
            negative, at = _below(words, at, 2, 1)
            offset, at = _below(words, at, ceiling, ceiling_bits)
            i = (k * n + q - 1) // q + offset
            top = i * q - k * n  # x = top/n of the paper
            accepted = top < n and not (i == 0 and negative == 1)
            # D6: exp(-x(2k+x)/2) as k+1 trials of exp(-x (2k+x)/(2k+2)).
            wide = (2 * k + 2) * n
            wide_bits = _bits(wide)
            trial = 0
            while accepted and trial <= k and at <= len(words):
                j = 1
                while at <= len(words):
                    draw, at = _below(words, at, n, n_bits)
                    if draw >= top:
                        break
                    draw, at = _below(words, at, wide, wide_bits)
                    if draw >= 2 * k * n + top:
                        break
                    draw, at = _below(words, at, j, _bits(j))
                    if draw > 0:
                        break
                    j += 1
                accepted = j % 2 == 1
                trial += 1
            if accepted and at <= len(words):
                out[done] = -i if negative == 1 else i
                done += 1
        if at > len(words):
            break
        start = at
    return done, start


def warm_up() -> None:
    """Compile both kernels, or load them from numba's cache: seconds once, before anything is timed
    or confined."""
    words = np.zeros(64, dtype=np.uint64)
    for kernel in (fill_laplace, fill_gaussian):
        kernel(np.empty(1, dtype=np.int64), 0, words, 3, 2)

"""The functions of GMP that Paillier needs, with Python's own integers, for computers without
gmpy2.

An agent's work takes six to ten times as long as with GMP (docs/federation.md has figures); its
bytes are the same.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

mpz = int
gcd = math.gcd

LEAST_REPETITIONS = 64
"""Rounds of Miller–Rabin with random bases: a composite number, even one that an adversary chose,
passes with probability at most 4^-64."""


def invert(number: int, modulus: int) -> int:
    """The inverse modulo `modulus`; ValueError if there is none."""
    return pow(number, -1, modulus)


def powmod(base: int, exponent: int, modulus: int) -> int:
    return pow(base, exponent, modulus)


def powmod_base_list(bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
    return [pow(base, exponent, modulus) for base in bases]


def is_prime(number: int, repetitions: int = LEAST_REPETITIONS) -> bool:
    """Whether a number is prime; wrong for a composite one with probability at most 4^-64 (Rabin
    1980, Theorem 1)."""
    if number < 2:
        return False
    for small in _SMALL:
        if number % small == 0:
            return number == small
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(max(repetitions, LEAST_REPETITIONS)):
        power = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _primes(below: int) -> list[int]:
    """Eratosthenes' sieve."""
    is_free = [False, False, *[True] * (below - 2)]
    for number in range(2, math.isqrt(below) + 1):
        if is_free[number]:
            is_free[number * number :: number] = [False] * len(
                range(number * number, below, number)
            )
    return [number for number, free in enumerate(is_free) if free]


_SMALL = _primes(2000)
"""Five in six random odd numbers have a divisor among these."""

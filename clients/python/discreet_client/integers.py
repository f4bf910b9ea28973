"""Arithmetic of large integers: GMP's if gmpy2 is installed, otherwise Python's own."""

from __future__ import annotations

try:
    from gmpy2 import gcd, invert, is_prime, mpz, powmod, powmod_base_list
except ImportError:
    from discreet_client.plain_integers import gcd, invert, is_prime, mpz, powmod, powmod_base_list

__all__ = ["gcd", "invert", "is_prime", "mpz", "powmod", "powmod_base_list"]

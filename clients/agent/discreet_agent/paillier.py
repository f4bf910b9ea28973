"""The Paillier cryptosystem (Paillier 1999) on whole vectors, under the keys of `phe`: faster
kernels for its `PaillierPublicKey` and `PaillierPrivateKey`, whose ciphertexts its
`EncryptedNumber` holds.

`E(m) = (1 + mN) r^N mod N²`; a product of ciphertexts encrypts the sum of the plaintexts. Three
things are faster than in `phe`:

- The obfuscator `r^N` is `h^e` for a base `h = x^N` that each encryptor draws for itself, computed
  from a table of `h^(d 2^(wi))` by multiplications alone. Exponents have full length, |N| + 128
  bits, so `h^e` is within 2^-128 of uniform in the group that h generates. That h cannot be
  distinguished from an N-th non-residue is the decisional composite residuosity assumption, from
  which semantic security follows as for the generator of Damgård, Jurik and Nielsen (2010), but
  without their short exponents.
- Whoever knows p and q works modulo p² and q² and joins the halves by the Chinese remainder
  theorem. An N-th power modulo p² lies in the subgroup of order p - 1, so exponents drawn uniformly
  below p - 1 make it exactly uniform there.
- Decryption works modulo p² and q² (Paillier 1999, section 7), on whole vectors in one call outside
  the interpreter lock.

Arithmetic is GMP's (without gmpy2 that of `phe`: slower, the same bytes). As with `phe`, its time
depends on the key, and the time of an answer reveals it if an agent answers at once.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

try:
    from gmpy2 import gcd, invert, is_prime, mpz, powmod, powmod_base_list
except ImportError:
    # Of phe, which loads slowly, only where something is computed: an agent that masks without
    # encryption computes nothing here.
    mpz, gcd = int, math.gcd

    def is_prime(number: int, repetitions: int) -> bool:
        from phe import util  # noqa: PLC0415

        return bool(util.is_prime(number, repetitions))

    def invert(number: int, modulus: int) -> int:
        from phe import util  # noqa: PLC0415

        return int(util.invert(number, modulus))

    def powmod(base: int, exponent: int, modulus: int) -> int:
        from phe import util  # noqa: PLC0415

        return int(util.powmod(base, exponent, modulus))

    def powmod_base_list(bases: Sequence[int], exponent: int, modulus: int) -> list[int]:
        return [powmod(base, exponent, modulus) for base in bases]


if TYPE_CHECKING:
    from phe import PaillierPrivateKey, PaillierPublicKey

SMALLEST_KEY_BITS = 2048
STATISTICAL_BITS = 128
PRIMALITY_REPETITIONS = 64
"""Rounds of Miller–Rabin: a composite number, even one that an adversary chose, passes with
probability at most 4^-64 (Rabin 1980, Theorem 1). GMP runs Baillie–PSW and then 24 fewer."""
WINDOW_BITS = 8


class InvalidKey(ValueError):
    """The numbers are not a Paillier key of the required size."""


class InvalidCiphertext(ValueError):
    """The number is not a ciphertext under this key."""


# Keys ---------------------------------------------------------------------------------------------
# phe is imported where a key is made: an agent that masks without encryption never loads it.


def public_key(n: int) -> PaillierPublicKey:
    """The key with the modulus n; its generator is n + 1."""
    from phe import PaillierPublicKey  # noqa: PLC0415

    return PaillierPublicKey(n)


def private_key(p: int, q: int) -> PaillierPrivateKey:
    """The key of these primes. InvalidKey unless they are distinct primes with `gcd(pq,
    (p-1)(q-1)) = 1`."""
    from phe import PaillierPrivateKey  # noqa: PLC0415

    if p == q or not all(is_prime(mpz(x), PRIMALITY_REPETITIONS) for x in (p, q)):
        raise InvalidKey("p and q must be distinct primes")
    if gcd(mpz(p) * q, mpz(p - 1) * (q - 1)) != 1:
        raise InvalidKey("N shares a factor with (p-1)(q-1)")
    return PaillierPrivateKey(public_key(p * q), p, q)


def bits_of(public: PaillierPublicKey) -> int:
    return int(public.n).bit_length()


def generate(
    bits: int = 3072,
    randbits: Callable[[int], int] = secrets.randbits,
    *,
    _smallest_bits: int = SMALLEST_KEY_BITS,
) -> PaillierPrivateKey:
    """A new key with a modulus of exactly `bits` bits, from the operating system's randomness or
    that of `randbits`.

    Raises InvalidKey below 2048 bits; only tests pass another limit.
    """
    check_size(bits, _smallest_bits)
    while True:
        p, q = _prime(bits // 2, randbits), _prime(bits // 2, randbits)
        # Fermat's factorization is fast when p and q are close (FIPS 186-5, A.1.3).
        if abs(p - q).bit_length() > bits // 2 - 100:
            return private_key(int(p), int(q))


def check_size(bits: int, _smallest_bits: int = SMALLEST_KEY_BITS) -> None:
    """InvalidKey when a modulus of `bits` bits is refused."""
    if bits < _smallest_bits or bits % 16:
        raise InvalidKey(
            f"a Paillier key needs at least {_smallest_bits} bits, a multiple of 16; not {bits}"
        )


def _prime(bits: int, randbits: Callable[[int], int]) -> mpz:
    """A prime drawn uniformly from those whose two top bits are set, so that the product of two has
    exactly 2·bits bits."""
    while True:
        candidate = mpz(randbits(bits - 2) | 3 << (bits - 2) | 1)
        if is_prime(candidate, PRIMALITY_REPETITIONS):
            return candidate


# Ciphertexts --------------------------------------------------------------------------------------


def encrypt(
    public: PaillierPublicKey, plaintexts: Sequence[int], obfuscators: Sequence[mpz]
) -> list[mpz]:
    """Ciphertexts of integers modulo N. Each takes one obfuscator, which must never be used
    again."""
    n = mpz(public.n)
    square = n * n
    return [
        (1 + (mpz(m) % n) * n) * r % square for m, r in zip(plaintexts, obfuscators, strict=True)
    ]


def product(public: PaillierPublicKey, vectors: Iterable[Sequence[mpz]]) -> list[mpz]:
    """Ciphertexts of the sum of the vectors that these ciphertexts encrypt."""
    square = mpz(public.nsquare)
    total: list[mpz] = []
    for vector in vectors:
        total = (
            [a * b % square for a, b in zip(total, vector, strict=True)] if total else list(vector)
        )
    return total


def ciphertext_bytes(public: PaillierPublicKey) -> int:
    return (2 * bits_of(public) + 7) // 8


def to_bytes(public: PaillierPublicKey, ciphertexts: Sequence[mpz]) -> bytes:
    """The ciphertexts as big-endian integers of `ciphertext_bytes` each."""
    size = ciphertext_bytes(public)
    return b"".join(int(c).to_bytes(size, "big") for c in ciphertexts)


def from_bytes(public: PaillierPublicKey, raw: bytes, count: int) -> list[mpz]:
    """The inverse of `to_bytes`; InvalidCiphertext for another length or numbers outside
    1..N²-1."""
    size = ciphertext_bytes(public)
    if len(raw) != size * count:
        raise InvalidCiphertext(f"{count} ciphertexts have {size * count} bytes, not {len(raw)}")
    found = [mpz(int.from_bytes(raw[at : at + size], "big")) for at in range(0, len(raw), size)]
    if not all(0 < c < public.nsquare for c in found):
        raise InvalidCiphertext("a ciphertext must lie between 0 and N²")
    return found


def check_units(public: PaillierPublicKey, ciphertexts: Sequence[mpz]) -> None:
    """InvalidCiphertext unless all are units modulo N²; any other would reveal a factor of N."""
    n = mpz(public.n)
    if any(gcd(c, n) != 1 for c in ciphertexts):
        raise InvalidCiphertext("a ciphertext shares a factor with N")


def decrypt(private: PaillierPrivateKey, ciphertexts: Sequence[mpz]) -> list[int]:
    """Plaintexts in -N/2..N/2."""
    check_units(private.public_key, ciphertexts)
    n, p, q = private.public_key.n, mpz(private.p), mpz(private.q)
    powers = [
        powmod_base_list([c % square for c in ciphertexts], prime - 1, square)
        for prime, square in ((p, p * p), (q, q * q))
    ]
    found = []
    for a, b in zip(*powers, strict=True):
        m_p = (a - 1) // p * private.hp % p
        m_q = (b - 1) // q * private.hq % q
        m = m_p + p * ((m_q - m_p) * private.p_inverse % q)
        found.append(int(m if 2 * m < n else m - n))
    return found


def decrypt_short(private: PaillierPrivateKey, ciphertexts: Sequence[mpz]) -> list[int]:
    """Plaintexts that are known to be below 2^(|N|/2 - 2) in magnitude, decrypted modulo p alone,
    which is half the work. Of any other plaintext it returns the residue modulo p."""
    check_units(private.public_key, ciphertexts)
    p = mpz(private.p)
    square, found = p * p, []
    for c in ciphertexts:
        m = (powmod(c % square, p - 1, square) - 1) // p * private.hp % p
        found.append(int(m if 2 * m < p else m - p))
    return found


# Obfuscators --------------------------------------------------------------------------------------


class FixedBase:
    """`h^e mod m` for exponents of `bits` bits, from a table of `h^(d 2^(wi))` with `bits/w`
    multiplications."""

    def __init__(self, base: mpz, modulus: mpz, bits: int, window: int = WINDOW_BITS) -> None:
        self.modulus, self.bits, self.window = modulus, bits, window
        self._rows: list[list[mpz]] = []
        for _ in range(-(-bits // window)):
            row = [mpz(1)]
            for _ in range((1 << window) - 1):
                row.append(row[-1] * base % modulus)
            self._rows.append(row)
            base = row[-1] * base % modulus

    def power(self, exponent: int) -> mpz:
        """`h^exponent mod m`, 0 <= exponent < 2^bits."""
        modulus, window = self.modulus, self.window
        result = mpz(1)
        if window == 8:
            for row, digit in zip(
                self._rows, exponent.to_bytes(len(self._rows), "little"), strict=True
            ):
                result = result * row[digit] % modulus
            return result
        mask = (1 << window) - 1
        for row in self._rows:
            result = result * row[exponent & mask] % modulus
            exponent >>= window
        return result


class Obfuscators:
    """Random N-th residues modulo N², each drawn anew. Safe to share between threads."""

    def __init__(
        self, key: PaillierPublicKey | PaillierPrivateKey, window: int = WINDOW_BITS
    ) -> None:
        self._primes: list[mpz] = [mpz(key.p), mpz(key.q)] if hasattr(key, "p") else []
        public = key.public_key if self._primes else key
        n = mpz(public.n)
        x = _unit(n)
        if self._primes:
            self._bases = [
                FixedBase(powmod(x, n, prime * prime), prime * prime, prime.bit_length(), window)
                for prime in self._primes
            ]
            p_square, q_square = (base.modulus for base in self._bases)
            self._p_square_inverse = invert(p_square, q_square)
        else:
            # The order of x^N is unknown, so exponents are 128 bits longer than N.
            bits = n.bit_length() + STATISTICAL_BITS
            self._bases = [FixedBase(powmod(x, n, n * n), n * n, bits, window)]

    def draw(self, count: int) -> list[mpz]:
        """`count` obfuscators."""
        return [self._fresh() for _ in range(count)]

    def _fresh(self) -> mpz:
        if not self._primes:
            base = self._bases[0]
            return base.power(secrets.randbits(base.bits))
        modulo_p, modulo_q = (
            base.power(secrets.randbelow(int(prime - 1)))
            for base, prime in zip(self._bases, self._primes, strict=True)
        )
        p_square, q_square = (base.modulus for base in self._bases)
        return modulo_p + p_square * ((modulo_q - modulo_p) * self._p_square_inverse % q_square)


def _unit(n: mpz) -> mpz:
    while True:
        x = mpz(secrets.randbelow(int(n)))
        if gcd(x, n) == 1:
            return x

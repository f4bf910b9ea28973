"""A fast implementation of the Paillier cryptosystem (Paillier 1999), with keys and ciphertexts
that `phe` reads and writes.

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

Arithmetic is GMP's (without gmpy2 Python's own: slower, the same bytes). As with `phe`, its time
depends on the key, and the time of an answer reveals it if an agent answers at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from discreet_client.integers import gcd, invert, is_prime, mpz, powmod, powmod_base_list

if TYPE_CHECKING:
    from phe import PaillierPrivateKey, PaillierPublicKey

SMALLEST_KEY_BITS = 2048
STATISTICAL_BITS = 128
PRIMALITY_REPETITIONS = 32
"""GMP runs Baillie–PSW and then 24 fewer rounds of Miller–Rabin; without GMP there are 64
rounds."""
WINDOW_BITS = 8


class InvalidKey(ValueError):
    """The numbers are not a Paillier key of the required size."""


class InvalidCiphertext(ValueError):
    """The number is not a ciphertext under this key."""


@dataclass(frozen=True)
class PublicKey:
    """The modulus N; the generator is N + 1, as with `phe`."""

    n: int

    @cached_property
    def modulus(self) -> mpz:
        return mpz(self.n)

    @cached_property
    def square(self) -> mpz:
        return self.modulus * self.modulus

    @property
    def bits(self) -> int:
        return self.n.bit_length()

    @property
    def plaintext_bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def ciphertext_bytes(self) -> int:
        return (2 * self.bits + 7) // 8

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of N, big-endian."""
        return hashlib.sha256(self.n.to_bytes(self.plaintext_bytes, "big")).digest()

    @classmethod
    def from_phe(cls, key: PaillierPublicKey) -> PublicKey:
        return cls(int(key.n))

    def to_phe(self) -> PaillierPublicKey:
        from phe import PaillierPublicKey  # noqa: PLC0415  # agents that never meet phe do not load it

        return PaillierPublicKey(self.n)

    def encrypt(self, plaintexts: Sequence[int], obfuscators: Sequence[mpz]) -> list[mpz]:
        """Ciphertexts of integers modulo N. Each takes one obfuscator, which must never be used
        again."""
        n, square = self.modulus, self.square
        return [
            (1 + (mpz(m) % n) * n) * r % square
            for m, r in zip(plaintexts, obfuscators, strict=True)
        ]

    def product(self, vectors: Iterable[Sequence[mpz]]) -> list[mpz]:
        """Ciphertexts of the sum of the vectors that these ciphertexts encrypt."""
        square = self.square
        total: list[mpz] = []
        for vector in vectors:
            total = (
                [a * b % square for a, b in zip(total, vector, strict=True)]
                if total
                else list(vector)
            )
        return total

    def to_bytes(self, ciphertexts: Sequence[mpz]) -> bytes:
        """The ciphertexts as big-endian integers of `ciphertext_bytes` each."""
        size = self.ciphertext_bytes
        return b"".join(int(c).to_bytes(size, "big") for c in ciphertexts)

    def from_bytes(self, raw: bytes, count: int) -> list[mpz]:
        """The inverse of `to_bytes`; InvalidCiphertext for another length or numbers outside
        1..N²-1."""
        size = self.ciphertext_bytes
        if len(raw) != size * count:
            raise InvalidCiphertext(
                f"{count} ciphertexts have {size * count} bytes, not {len(raw)}"
            )
        found = [mpz(int.from_bytes(raw[at : at + size], "big")) for at in range(0, len(raw), size)]
        if not all(0 < c < self.square for c in found):
            raise InvalidCiphertext("a ciphertext must lie between 0 and N²")
        return found

    def check_units(self, ciphertexts: Sequence[mpz]) -> None:
        """InvalidCiphertext unless all are units modulo N²; any other would reveal a factor of
        N."""
        if any(gcd(c, self.modulus) != 1 for c in ciphertexts):
            raise InvalidCiphertext("a ciphertext shares a factor with N")


class PrivateKey:
    """The primes p and q. Raises InvalidKey unless they are distinct primes with `gcd(pq,
    (p-1)(q-1)) = 1`."""

    def __init__(self, p: int, q: int) -> None:
        if p == q or not all(is_prime(mpz(x), PRIMALITY_REPETITIONS) for x in (p, q)):
            raise InvalidKey("p and q must be distinct primes")
        if gcd(mpz(p) * q, mpz(p - 1) * (q - 1)) != 1:
            raise InvalidKey("N shares a factor with (p-1)(q-1)")
        self.p, self.q = sorted((mpz(p), mpz(q)))
        self.public = PublicKey(int(self.p * self.q))
        n = self.public.modulus
        self.p_square, self.q_square = self.p * self.p, self.q * self.q
        # L((1+N)^(p-1)) = (p-1) q = -q modulo p (Paillier 1999, section 7).
        self._h_p = invert((self.p - 1) * (n // self.p), self.p)
        self._h_q = invert((self.q - 1) * (n // self.q), self.q)
        self._p_inverse = invert(self.p, self.q)
        self._p_square_inverse = invert(self.p_square, self.q_square)

    def __repr__(self) -> str:
        # The primes never reach a log.
        return f"<PrivateKey of {self.public.fingerprint.hex()[:16]}>"

    @classmethod
    def from_phe(cls, key: PaillierPrivateKey) -> PrivateKey:
        return cls(int(key.p), int(key.q))

    def to_phe(self) -> PaillierPrivateKey:
        from phe import PaillierPrivateKey  # noqa: PLC0415

        return PaillierPrivateKey(self.public.to_phe(), int(self.p), int(self.q))

    def join(self, modulo_p: mpz, modulo_q: mpz) -> mpz:
        """The residue modulo N² that has these residues modulo p² and q²."""
        return modulo_p + self.p_square * (
            (modulo_q - modulo_p) * self._p_square_inverse % self.q_square
        )

    def decrypt(self, ciphertexts: Sequence[mpz]) -> list[int]:
        """Plaintexts in -N/2..N/2."""
        self.public.check_units(ciphertexts)
        powers = [
            powmod_base_list([c % square for c in ciphertexts], prime - 1, square)
            for prime, square in ((self.p, self.p_square), (self.q, self.q_square))
        ]
        n = self.public.modulus
        found = []
        for a, b in zip(*powers, strict=True):
            m_p = (a - 1) // self.p * self._h_p % self.p
            m_q = (b - 1) // self.q * self._h_q % self.q
            m = m_p + self.p * ((m_q - m_p) * self._p_inverse % self.q)
            found.append(int(m if 2 * m < n else m - n))
        return found

    def decrypt_short(self, ciphertexts: Sequence[mpz]) -> list[int]:
        """Plaintexts that are known to be below 2^(|N|/2 - 2) in magnitude, decrypted modulo p
        alone, which is half the work. Of any other plaintext it returns the residue modulo p.
        """
        self.public.check_units(ciphertexts)
        found = []
        for c in ciphertexts:
            m = (
                (powmod(c % self.p_square, self.p - 1, self.p_square) - 1)
                // self.p
                * self._h_p
                % self.p
            )
            found.append(int(m if 2 * m < self.p else m - self.p))
        return found


def generate(
    bits: int = 3072,
    randbits: Callable[[int], int] = secrets.randbits,
    *,
    _smallest_bits: int = SMALLEST_KEY_BITS,
) -> PrivateKey:
    """A new key with a modulus of exactly `bits` bits, from the operating system's randomness or
    that of `randbits`.

    Raises InvalidKey below 2048 bits; only tests pass another limit.
    """
    check_size(bits, _smallest_bits)
    while True:
        p, q = _prime(bits // 2, randbits), _prime(bits // 2, randbits)
        # Fermat's factorization is fast when p and q are close (FIPS 186-5, A.1.3).
        if abs(p - q).bit_length() > bits // 2 - 100:
            return PrivateKey(int(p), int(q))


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

    def __init__(self, key: PublicKey | PrivateKey, window: int = WINDOW_BITS) -> None:
        self._private = key if isinstance(key, PrivateKey) else None
        public = key if isinstance(key, PublicKey) else key.public
        x = _unit(public)
        if self._private is None:
            # The order of x^N is unknown, so exponents are 128 bits longer than N.
            self._bases = [
                FixedBase(
                    powmod(x, public.modulus, public.square),
                    public.square,
                    public.bits + STATISTICAL_BITS,
                    window,
                )
            ]
        else:
            self._bases = [
                FixedBase(powmod(x, public.modulus, square), square, prime.bit_length(), window)
                for prime, square in (
                    (self._private.p, self._private.p_square),
                    (self._private.q, self._private.q_square),
                )
            ]

    def draw(self, count: int) -> list[mpz]:
        """`count` obfuscators."""
        return [self._fresh() for _ in range(count)]

    def _fresh(self) -> mpz:
        if self._private is None:
            base = self._bases[0]
            return base.power(secrets.randbits(base.bits))
        key = self._private
        return key.join(
            *(
                base.power(secrets.randbelow(int(prime - 1)))
                for base, prime in zip(self._bases, (key.p, key.q), strict=True)
            )
        )


def _unit(public: PublicKey) -> mpz:
    while True:
        x = mpz(secrets.randbelow(public.n))
        if gcd(x, public.modulus) == 1:
            return x

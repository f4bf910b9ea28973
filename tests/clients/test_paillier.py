"""Paillier and its packing against `phe`, Python's integers and the group's own structure."""

from __future__ import annotations

import itertools
import math
import secrets

import gmpy2
import numpy as np
import phe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from discreet_agent.packing import (
    CHECK_BITS,
    FixedPoint,
    NotPacked,
    OutOfRange,
    Packing,
    box_bound,
)
from discreet_agent.paillier import (
    FixedBase,
    InvalidCiphertext,
    InvalidKey,
    Obfuscators,
    bits_of,
    ciphertext_bytes,
    decrypt,
    decrypt_short,
    encrypt,
    from_bytes,
    generate,
    private_key,
    product,
    to_bytes,
)

# 2048 bits where phe takes part and where a rule demands it, 512 elsewhere.
KEY = generate(2048)
SMALL = generate(512, _smallest_bits=512)


# phe ----------------------------------------------------------------------------------------------


def test_keys_are_those_of_phe() -> None:
    """phe decrypts what our kernels encrypt under a key, and they decrypt what phe encrypts."""
    assert type(KEY) is phe.PaillierPrivateKey
    public = KEY.public_key
    assert type(public) is phe.PaillierPublicKey
    values = [0, 1, -1, 3 << 400, -(5 << 400)]
    obfuscators = Obfuscators(KEY, window=4).draw(3) + Obfuscators(public, window=4).draw(2)
    ciphertexts = encrypt(public, values, obfuscators)
    assert [KEY.raw_decrypt(int(c)) for c in ciphertexts] == [v % public.n for v in values]
    # On the grid 2^-32 = 16^-8 a ciphertext is phe's number with exponent -8.
    real = encrypt(public, [round(-1.375 * 2**32)], Obfuscators(KEY, window=4).draw(1))
    assert KEY.decrypt(phe.EncryptedNumber(public, int(real[0]), exponent=-8)) == -1.375
    theirs = [gmpy2.mpz(public.encrypt(v).ciphertext()) for v in (100, 17, -12345)]
    assert decrypt(KEY, theirs) == decrypt_short(KEY, theirs) == [100, 17, -12345]


def test_sums_of_both_kinds_of_ciphertexts() -> None:
    public, private = phe.generate_paillier_keypair(n_length=2048)
    ours = encrypt(public, [5, -9], Obfuscators(private, window=4).draw(2))
    theirs = [gmpy2.mpz(public.encrypt(v).ciphertext()) for v in (100, 200)]
    total = product(public, [ours, theirs, ours])
    assert decrypt(private, total) == [110, 182]
    assert [private.decrypt(phe.EncryptedNumber(public, int(c))) for c in total] == [110, 182]


# Keys ---------------------------------------------------------------------------------------------


def test_keys() -> None:
    assert bits_of(KEY.public_key) == 2048
    assert SMALL.p != SMALL.q
    assert str(KEY.p) not in repr(KEY)
    for bits in (1024, 2047, 2056):
        with pytest.raises(InvalidKey, match="at least 2048 bits, a multiple of 16"):
            generate(bits)
    with pytest.raises(InvalidKey, match="distinct primes"):
        private_key(SMALL.p, SMALL.p)
    with pytest.raises(InvalidKey, match="distinct primes"):
        private_key(SMALL.p, SMALL.q * 3)
    with pytest.raises(InvalidKey, match="shares a factor"):
        private_key(3, 7)  # 3 divides 7 - 1: decryption would be ambiguous


# Encryption ---------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.integers(-(2**500), 2**500), min_size=1, max_size=4))
def test_decryption_inverts_encryption(values: list[int]) -> None:
    n = SMALL.public_key.n
    obfuscators = Obfuscators(SMALL, window=2)
    ciphertexts = encrypt(SMALL.public_key, values, obfuscators.draw(len(values)))
    expected = [(v + n // 2) % n - n // 2 for v in values]
    assert decrypt(SMALL, ciphertexts) == expected
    raw = to_bytes(SMALL.public_key, ciphertexts)
    assert from_bytes(SMALL.public_key, raw, len(values)) == ciphertexts
    short = [v >> 300 for v in values]
    encrypted = encrypt(SMALL.public_key, short, obfuscators.draw(len(short)))
    assert decrypt_short(SMALL, encrypted) == short


def test_ciphertexts_that_are_none() -> None:
    public = SMALL.public_key
    size = ciphertext_bytes(public)
    for raw in (
        bytes(size),
        public.nsquare.to_bytes(size + 1, "big")[-size:],
        bytes(size - 1),
        b"\xff" * size,
    ):
        with pytest.raises(InvalidCiphertext):
            from_bytes(public, raw, 1)
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        decrypt(SMALL, [SMALL.p * 3])
    with pytest.raises(InvalidCiphertext, match="shares a factor"):
        decrypt_short(SMALL, [SMALL.q])


@pytest.mark.parametrize("window", [1, 3, 8])
def test_fixed_base_powers(window: int) -> None:
    modulus, base = gmpy2.mpz(SMALL.public_key.nsquare), gmpy2.mpz(12345)
    table = FixedBase(base, modulus, 200, window)
    for exponent in (0, 1, 255, 256, 2**200 - 1, secrets.randbits(200)):
        assert table.power(exponent) == gmpy2.powmod(base, exponent, modulus)


def test_obfuscators_differ_and_encrypt_zero() -> None:
    for key in (SMALL, SMALL.public_key):
        obfuscators = Obfuscators(key, window=4)
        drawn = obfuscators.draw(3) + obfuscators.draw(5)
        assert len(set(drawn)) == 8
        assert decrypt(SMALL, drawn) == [0] * 8
    assert decrypt(SMALL, []) == []


@pytest.mark.parametrize("public", [False, True])
def test_obfuscators_are_uniform_in_the_group_of_their_base(public: bool) -> None:
    """p = 11, q = 17: exponents of full length reach every element equally often.

    Chi-square at 1e-10 for each of two groups, of 10 and 16 elements; a group of which one element
    of 16 was never seen has probability (15/16)^8000.
    """
    key = private_key(11, 17)
    while True:
        obfuscators = Obfuscators(key.public_key if public else key, window=2)
        found = [int(r) for r in obfuscators.draw(8000)]
        groups = [sorted(r % square for r in found) for square in (121, 289)]
        counts = [np.unique(group, return_counts=True)[1] for group in groups]
        if all(
            len(count) > 3 for count in counts
        ):  # a base of small order is rare for real primes, not for these
            break
    for count, group, square in zip(counts, groups, (121, 289), strict=True):
        assert chisquare(count).pvalue > 1e-10
        elements = set(group)
        assert {a * b % square for a in elements for b in elements} == elements, (
            "the whole group was seen"
        )
    assert all(pow(r, 10, 121) == 1 and pow(r, 16, 289) == 1 for r in set(found)), (
        "N-th powers only"
    )


# Packing ------------------------------------------------------------------------------------------


def test_slots_of_the_usual_keys() -> None:
    assert [Packing(1024, bits).slots for bits in (2048, 3072)] == [30, 46]
    assert [Packing(1024, bits).words for bits in (2048, 3072)] == [35, 23]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_sums_of_packed_vectors_are_packed_sums(data: st.DataObject) -> None:
    slot_bits = data.draw(st.sampled_from([16, 40, 64]))
    dimension, terms = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 5))
    packing = Packing(dimension, 512, slot_bits)
    most = (2 ** (slot_bits - 1) - 1) // terms
    numbers = st.lists(st.integers(-most, most), min_size=dimension, max_size=dimension)
    vectors = np.array([data.draw(numbers) for _ in range(terms)], dtype=np.int64)
    packed = [packing.pack(vector) for vector in vectors]
    assert all(abs(word) < 2 ** (512 - CHECK_BITS) for words in packed for word in words)
    # The definition, with Python's integers.
    assert packed[0][0] == sum(
        int(v) << (slot_bits * j) for j, v in enumerate(vectors[0][: packing.slots])
    )
    sums = [sum(words) for words in zip(*packed, strict=True)]
    np.testing.assert_array_equal(packing.unpack(sums), vectors.sum(axis=0))


def test_what_is_not_packed_is_refused() -> None:
    packing = Packing(10, 512)
    good = packing.pack(np.arange(10))
    for wrong in (
        good[:1],
        [*good, 0],
        [good[0] + (1 << 450), good[1]],
        [good[0], good[1] + (1 << 64 * 5)],
    ):
        with pytest.raises(NotPacked):
            packing.unpack(wrong)
    for _ in range(200):  # one passes with probability 2^-CHECK_BITS, 1e-20
        with pytest.raises(NotPacked):
            packing.unpack([secrets.randbits(511), good[1]])
    with pytest.raises(OutOfRange):
        Packing(2, 512, 16).pack(np.array([1, 2**15]))
    with pytest.raises(ValueError, match="10 integers"):
        packing.pack(np.arange(9))
    with pytest.raises(ValueError, match="no room"):
        Packing(1, 128)
    with pytest.raises(ValueError, match="empty"):
        Packing(0, 512)


def test_fixed_point() -> None:
    point = FixedPoint(bound=10.0, terms=4)
    values = np.array([0.0, -10.0, 10.0, 1 / 3, -1e-12])
    np.testing.assert_allclose(point.decode(point.encode(values)), values, atol=2**-33, rtol=0)
    assert point.encode(np.array([-(2.0**-32) * 1.9]), toward_zero=True) == [-1]
    for wrong in (10.0000001, -11.0, math.nan, math.inf):
        with pytest.raises(OutOfRange, match="beyond the bound"):
            point.encode(np.array([0.0, wrong]))
    with pytest.raises(OutOfRange, match="larger than its terms"):
        point.decode(np.array([41 << 32]))
    with pytest.raises(OutOfRange, match="larger than its terms"):
        point.decode(np.array([11 << 32]), terms=1)


def test_overflow_cannot_depend_on_data() -> None:
    """(n+1) max|v| 2^F < 2^63, or there is no such fixed point; the largest vectors of one that
    there is are added."""
    with pytest.raises(OutOfRange, match="a slot has 64"):
        FixedPoint(bound=2.0**31 / 5, terms=5)
    bound = 2.0**31 / 5 - 1
    point, packing = FixedPoint(bound, terms=5), Packing(3, 512)
    worst = point.encode(np.array([bound, -bound, bound]))
    words = [5 * word for word in packing.pack(worst)]
    np.testing.assert_array_equal(
        point.decode(packing.unpack(words)), 5 * np.array([bound, -bound, bound])
    )
    with pytest.raises(OutOfRange):
        FixedPoint(bound, terms=5, allowance=1 << 61)
    with pytest.raises(ValueError, match="slots have"):
        FixedPoint(1.0, 3, slot_bits=60)
    with pytest.raises(ValueError, match="below slot_bits"):
        FixedPoint(1.0, 3, fraction_bits=64)
    with pytest.raises(ValueError, match="no sum"):
        FixedPoint(math.nan, 3)


def test_box_bound_is_the_largest_corner() -> None:
    rng = np.random.default_rng(1)
    A, lower = rng.normal(size=(3, 4)), rng.normal(size=4)
    upper = lower + rng.uniform(0, 2, 4)
    corners = np.array(list(itertools.product(*zip(lower, upper, strict=True))))
    np.testing.assert_allclose(box_bound(A, lower, upper), np.abs(corners @ A.T).max(axis=0))
    np.testing.assert_allclose(
        box_bound(A, 0, 1),
        np.abs(np.array(list(itertools.product((0, 1), repeat=4))) @ A.T).max(axis=0),
    )

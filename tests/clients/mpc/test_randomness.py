"""Random numbers on shares, truncations and tests for zero, with all parties in this process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mpyc import finfields, thresha

from discreet_agent.mpc import randomness
from discreet_agent.mpc.links import Broken
from discreet_agent.mpc.randomness import Dealers, Keys, Randomness, recombined, split
from discreet_agent.mpc.terms import STATISTICAL_BITS, Terms

FRACTION, BITS = 20, 30
FIELD = finfields.GF(finfields.find_prime_root(BITS + FRACTION + STATISTICAL_BITS + 6)[0])
MODULUS = int(FIELD.modulus)


class Array:
    """A share of an array of fixed-point numbers."""

    sectype = SimpleNamespace(field=FIELD, bit_length=BITS)
    frac_length = FRACTION

    def __init__(self, share: Any) -> None:
        self.share = FIELD.array(share)
        self.shape, self.size = share.shape, share.size


class Together:
    """Messages between parties in this process. `opened` holds [parties, size] of each opening."""

    def __init__(self, parties: int, threshold: int) -> None:
        self.terms = Terms(parties, 1, threshold, False, True, 1.0, 1.0, 1.0, 1.0)
        self.opened: list[Any] = []
        self.drawn: list[Any] = []
        self._meeting: dict[tuple[str, int], tuple[list[Any], asyncio.Barrier]] = {}
        keys = {
            subset: bytes([place]) * 16
            for place, subset in enumerate(
                itertools.combinations(range(parties), parties - threshold)
            )
        }
        self.sources: list[Randomness] = []
        for party in range(parties):
            mine = {subset: key for subset, key in keys.items() if party in subset}
            counter = itertools.count()
            mpc = SimpleNamespace(
                pid=party,
                _prss_keys=mine,
                _prss_uci=lambda counter=counter: next(counter).to_bytes(8, "little"),
                returnType=self._nothing,
                gather=self._gather,
                coroutine=lambda function: function,
                output=self._output(party),
            )
            if threshold > 2:
                source: Randomness = Dealers(mpc, self.terms, None)
                source._exchange = self._exchange(party)  # type: ignore[attr-defined]
            else:
                source = Keys(mpc, self.terms)
            self.sources.append(source)

    def all(self, work: Callable[[int, Randomness], Any]) -> list[Any]:
        """What each party's work comes to."""

        async def run() -> list[Any]:
            return await asyncio.gather(*(work(*one) for one in enumerate(self.sources)))

        return asyncio.run(run())

    def replaced(self, name: str, shares: Sequence[Any], *arguments: Any) -> list[Any]:
        return self.all(
            lambda party, source: randomness.replacements(source.mpc, source)[name](
                shares[party], *arguments
            )
        )

    async def _nothing(self, *_: Any) -> None: ...

    async def _gather(self, a: Array) -> Any:
        return a.share

    async def _met(self, what: str, party: int, step: int, said: Any) -> list[Any]:
        """What all parties have said in this step."""
        count = len(self.sources)
        there, met = self._meeting.setdefault(
            (what, step), ([None] * count, asyncio.Barrier(count))
        )
        there[party] = said
        await met.wait()
        return there

    def _output(self, party: int) -> Callable[..., Any]:
        steps = itertools.count()

        async def output(share: Any, threshold: int | None = None) -> Any:
            there = await self._met("output", party, next(steps), share.value.reshape(-1))
            degree = self.terms.threshold if threshold is None else threshold
            if party == 0:
                self.opened.append(np.stack(there))
            points = [(place + 1, one) for place, one in enumerate(there[: degree + 1])]
            return thresha.np_recombine(FIELD, points)

        return output

    def _exchange(self, party: int) -> Callable[..., Any]:
        steps = itertools.count()

        async def exchange(shares: Any, dealers: Sequence[int]) -> Any:
            there = await self._met("exchange", party, next(steps), shares)
            return np.stack([there[one][party] for one in dealers])

        return exchange


def values_of(shares: Sequence[Any], degree: int) -> list[int]:
    """The values of polynomials of this degree; every share is on them."""
    return recombined(FIELD, [np.asarray(one) % MODULUS for one in shares], degree)


AGENTS = [(3, 1), (5, 2), (7, 3), (9, 4)]


@pytest.mark.parametrize(("parties", "threshold"), AGENTS)
def test_uniform_numbers_and_zeros(parties: int, threshold: int) -> None:
    """One polynomial each, of the degree that is said and of no lower one."""
    together = Together(parties, threshold)
    assert isinstance(together.sources[0], Dealers if threshold > 2 else Keys)

    async def draw(_: int, source: Randomness) -> Any:
        return await source.uniform(FIELD, 50)

    numbers, zeros = zip(*together.all(draw), strict=True)
    found = values_of(numbers, threshold)
    assert len(set(found)) == 50
    assert max(map(abs, found)) > MODULUS // 4
    assert values_of(zeros, 2 * threshold) == [0] * 50
    for shares, lower in ((numbers, threshold - 1), (zeros, 2 * threshold - 1)):
        with pytest.raises(Broken):
            values_of(shares, lower)


@pytest.mark.parametrize(("parties", "threshold"), AGENTS)
def test_masks_have_parts_that_colluding_parties_lack(parties: int, threshold: int) -> None:
    together = Together(parties, threshold)
    parts, bits, low = together.terms.mask_parts, 60, 8

    async def draw(_: int, source: Randomness) -> Any:
        return await source.masks(FIELD, 400, bits, low)

    whole, rest = (values_of(one, threshold) for one in zip(*together.all(draw), strict=True))
    for shares, most in ((whole, bits), (rest, low)):
        assert min(shares) >= 0
        assert max(shares) < parts << most
        assert np.mean(np.array(shares, dtype=float)) == pytest.approx(
            parts * 2.0 ** (most - 1), rel=0.1
        )
    assert all((one - other) % (1 << low) == 0 for one, other in zip(whole, rest, strict=True))


@pytest.mark.parametrize(("parties", "threshold"), AGENTS)
def test_truncations_err_by_a_few_units(parties: int, threshold: int) -> None:
    """On average by none, and by no more than it is said of as many parts."""
    together = Together(parties, threshold)
    parts = together.terms.mask_parts
    values = np.random.default_rng(1).integers(-(1 << 48), 1 << 48, 3000).astype(object)
    shares = split(FIELD, values % MODULUS, threshold, parties)
    made = together.replaced("np_trunc", [Array(one) for one in shares])
    found = np.array(values_of([one.value for one in made], threshold), dtype=float)
    errors = found - np.array(values, dtype=float) / 2.0**FRACTION
    deviation = np.sqrt((parts + 1) / 12)
    assert np.abs(errors).max() <= (parts + 1) / 2
    assert abs(errors.mean()) < 5 * deviation / np.sqrt(errors.size)
    assert errors.std() == pytest.approx(deviation, rel=0.1)
    # What is opened has as many bits beyond the product's as it is said, in the parts that
    # `threshold` parties lack.
    (opened,) = together.opened
    bits = BITS + FRACTION + STATISTICAL_BITS
    assert 2 ** (bits - 1) < max(values_of(opened, threshold)) < parts * 2**bits + 2**bits


def is_square(value: int) -> bool:
    return pow(value, (MODULUS - 1) // 2, MODULUS) <= 1


def discriminants(opened: Any) -> list[int]:
    """Of the quadratic polynomials through the shares of three parties, at 1, 2 and 3."""
    first, second, third = (opened[place] for place in range(3))
    half = (MODULUS + 1) // 2
    square = (first - 2 * second + third) * half
    linear = second - first - 3 * square
    constant = first - square - linear
    return [int(one) for one in (linear**2 - 4 * square * constant) % MODULUS]


def test_tests_for_zero_open_random_polynomials() -> None:
    """The product of two shared numbers is opened by its shares. If these are the products of
    shares, the polynomial has the roots of both factors, and a party that knows its own shares
    reads the number from a root. Half of all random polynomials have roots; 2^-40 of a false
    alarm."""
    together = Together(3, 1)
    values = np.array([0, 1, 2, -5] * 50, dtype=object)
    shares = split(FIELD, values % MODULUS, 1, 3)
    said = together.replaced("np_is_zero_public", [Array(one.reshape(4, 50)) for one in shares])
    assert all(np.array_equal(one, (values == 0).reshape(4, 50)) for one in said)
    (opened,) = together.opened
    have_roots = sum(map(is_square, discriminants(opened)))
    assert 50 < have_roots < 150
    products = shares * split(FIELD, np.arange(1, 201).astype(object), 1, 3)
    assert sum(map(is_square, discriminants(products))) == 200  # as it would be without


@pytest.mark.parametrize(("parties", "threshold"), AGENTS)
def test_random_bits(parties: int, threshold: int) -> None:
    together = Together(parties, threshold)
    made = together.replaced("np_random_bits", [FIELD] * parties, 400)
    found = values_of([one.value for one in made], threshold)
    assert set(found) == {0, 1}
    assert 130 < sum(found) < 270
    (opened,) = together.opened
    if threshold == 1:
        assert 130 < sum(map(is_square, discriminants(opened))) < 270


def test_numbers_of_bytes() -> None:
    for size in (1, 8, 14, 16, 23):
        numbers = np.array([0, 1, 256**size - 1, 3 * 2 ** (8 * size - 2)], dtype=object)
        data = randomness.bytes_of(numbers, size)
        assert data == b"".join(int(one).to_bytes(size, "little") for one in numbers)
        assert randomness.integers_of(data, size).tolist() == numbers.tolist()
    assert randomness.integers_of(b"", 8).size == 0

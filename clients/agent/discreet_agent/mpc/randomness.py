"""Random numbers on shares, and the parts of a computation that take most of them.

Replacements of parts of MPyC (`install`), in NumPy where MPyC makes one Python object at a time:

- *Random numbers* come from common keys (`Keys`; Cramer, Damgård and Ishai 2005), or with many keys
  from what all deal to each other (`Dealers`; Damgård and Nielsen 2007).
- *Truncations*: MPyC draws a secret bit for every bit that is dropped, so that products are rounded
  up or down. Here one number masks a product. It is the sum of several `parts`, one of each key or
  dealer, and so is what it leaves in the dropped bits (Catrina and de Hoogh 2010). Results are then
  off by at most `(parts + 1)/2` units, with a standard deviation of √((parts + 1)/12). Colluding
  parties lack one part at least, of STATISTICAL_BITS more bits than the product has.
- *Tests for zero* open the number times a random one. MPyC opens all shares of the product as they
  are: the polynomial through them is the product of two, and its roots tell the number. Here the
  polynomial is a random one.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import shake_128
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.mpc.links import Broken
from discreet_agent.mpc.terms import STATISTICAL_BITS, Terms

Integers = NDArray[Any]
"""Of Python's, which have no bounds."""

WORD = 64
_LOW = (1 << WORD) - 1


def integers_of(data: bytes | NDArray[np.uint8], size: int) -> Integers:
    """Little-endian numbers of `size` bytes each."""
    count, words = len(data) // size, -(-size * 8 // WORD)
    padded = np.zeros((count, words * 8), dtype=np.uint8)
    padded[:, :size] = np.frombuffer(data, dtype=np.uint8).reshape(count, size)
    read = padded.view("<u8").astype(object)
    found = read[:, words - 1]
    for place in range(words - 2, -1, -1):
        found = (found << WORD) + read[:, place]
    return np.asarray(found)


def bytes_of(numbers: Integers, size: int) -> bytes:
    """The inverse of `integers_of`, of numbers that are not negative and fit."""
    words = -(-size * 8 // WORD)
    parts = np.empty((numbers.size, words), dtype="<u8")
    for place in range(words):
        parts[:, place] = (numbers & _LOW).astype(np.uint64)
        numbers = numbers >> WORD
    return parts.view(np.uint8)[:, :size].tobytes()


def drawn(count: int, bits: int) -> Integers:
    """Random numbers below 2^bits."""
    size = (bits + 7) // 8
    return np.asarray(integers_of(secrets.token_bytes(count * size), size) & ((1 << bits) - 1))


def split(field: Any, secret: Any, threshold: int, parties: int) -> Integers:
    """Shamir's shares of an array of field elements: [parties, size]."""
    modulus = field.modulus
    values = np.asarray(secret.value if isinstance(secret, field.array) else secret, dtype=object)
    size = values.size
    coefficients = drawn(threshold * size, int(modulus).bit_length()).reshape(threshold, size)
    shares = np.empty((parties, size), dtype=object)
    for place in range(parties):
        share: Any = 0
        for row in coefficients[::-1]:
            share = (share + row) * (place + 1)
        shares[place] = (share + values.reshape(-1)) % modulus
    return shares


def recombined(field: Any, shares: Sequence[Integers], threshold: int) -> list[int]:
    """The signed numbers of which all parties have sent their shares; Broken unless these are of
    one polynomial."""
    from mpyc.thresha import np_recombine  # noqa: PLC0415  # an extra

    first = [(place + 1, shares[place]) for place in range(threshold + 1)]
    for place in range(threshold + 1, len(shares)):
        if np.any(np_recombine(field, first, place + 1).value != shares[place]):
            raise Broken("message")
    modulus = int(field.modulus)
    found = [int(one) for one in np_recombine(field, first).value]
    return [one - modulus if one > modulus // 2 else one for one in found]


class Randomness(ABC):
    """Random numbers that nobody knows, as shares of this party. All parties call the same in the
    same order."""

    def __init__(self, mpc: Any, terms: Terms) -> None:
        self.mpc, self.parts = mpc, terms.mask_parts
        self.party, self.parties, self.threshold = mpc.pid, terms.parties, terms.threshold

    @abstractmethod
    async def uniform(self, field: Any, count: int) -> tuple[Integers, Integers]:
        """Shares of uniform field elements, and of zeros by random polynomials of twice the degree:
        added to the shares of a product, they leave nothing to see but its value."""

    @abstractmethod
    async def masks(self, field: Any, count: int, bits: int, low: int) -> tuple[Integers, Integers]:
        """Shares of sums of `parts` numbers below 2^bits, and of the sums of the `low` lowest bits
        of each."""


class Keys(Randomness):
    """Every set of all but `threshold` parties has a key. Numbers follow from it without
    messages."""

    async def uniform(self, field: Any, count: int) -> tuple[Integers, Integers]:
        bits = int(field.modulus).bit_length()
        numbers: Any = 0
        zeros: Any = 0
        for factor, rows in self._streams(field, (1 + self.threshold, count), bits):
            numbers = numbers + rows[0] * factor
            zero: Any = 0
            for row in rows[1:]:
                zero = (zero + row) * (self.party + 1)
            zeros = zeros + zero * factor
        return np.asarray(numbers), np.asarray(zeros)

    async def masks(self, field: Any, count: int, bits: int, low: int) -> tuple[Integers, Integers]:
        whole: Any = 0
        rest: Any = 0
        for factor, numbers in self._streams(field, (count,), bits):
            whole = whole + numbers * factor
            rest = rest + (numbers & ((1 << low) - 1)) * factor
        return np.asarray(whole), np.asarray(rest)

    def _streams(self, field: Any, shape: tuple[int, ...], bits: int) -> list[tuple[int, Integers]]:
        """Numbers of each key, below 2^bits, and the factor that makes them this party's shares.
        The field's modulus is less than 2^-60 of itself below a power of two."""
        from mpyc.thresha import _f_S_i  # noqa: PLC0415  # an extra

        common = self.mpc._prss_uci()
        size, count = (bits + 7) // 8, int(np.prod(shape))
        found = []
        for parties, key in self.mpc._prss_keys.items():
            stream = shake_128(bytes(key) + common).digest(count * size)
            numbers = integers_of(stream, size) & ((1 << bits) - 1)
            factor = int(_f_S_i(field, self.parties, self.party, parties))
            found.append((factor, numbers.reshape(shape)))
        return found


class Dealers(Randomness):
    """Parties deal shares to each other. Of numbers dealt by all, `parties - threshold`
    combinations are uniform whatever colluding parties know of their own."""

    def __init__(self, mpc: Any, terms: Terms, words: Any) -> None:
        super().__init__(mpc, terms)
        self._words = words
        self._exchange = _coroutine(mpc, self._exchanged)
        points = np.arange(1, terms.parties + 1, dtype=object)
        powers = [points**place for place in range(terms.parties - terms.threshold)]
        self._combinations = np.stack(powers)

    async def uniform(self, field: Any, count: int) -> tuple[Integers, Integers]:
        size = -(-count // len(self._combinations))
        number = drawn(size, int(field.modulus).bit_length()) % field.modulus
        shares = split(field, number, self.threshold, self.parties)
        zeros = split(field, 0 * number, 2 * self.threshold, self.parties)
        dealt = await self._exchange(np.concatenate([shares, zeros], axis=1), range(self.parties))
        made = (self._combinations @ dealt % field.modulus).reshape(-1, 2, size)
        return made[:, 0].reshape(-1)[:count], made[:, 1].reshape(-1)[:count]

    async def masks(self, field: Any, count: int, bits: int, low: int) -> tuple[Integers, Integers]:
        numbers = drawn(count, bits)
        both = np.concatenate([numbers, numbers & ((1 << low) - 1)])
        shares = split(field, both, self.threshold, self.parties)
        total = (await self._exchange(shares, range(self.parts))).sum(axis=0)
        return total[:count], total[count:]

    async def _exchanged(self, shares: Integers, dealers: Sequence[int]) -> Any:
        """What each dealer has dealt to this party: [dealers, size]."""
        await self.mpc.returnType(asyncio.Future)
        if self.party in dealers:
            for peer in range(self.parties):
                if peer != self.party:
                    self.mpc._send_message(peer, self._words.dumps(shares[peer]))
        others = [one for one in dealers if one != self.party]
        said = await self.mpc.gather([self.mpc._receive_message(one) for one in others])
        received = dict(zip(others, map(self._words.loads, said), strict=True))
        size = shares.shape[1]
        if any(one.size != size for one in received.values()):
            raise Broken("message")
        return np.stack([received.get(one, shares[self.party]) for one in dealers])


def install(runtime: Any, mpc: Any, terms: Terms, words: Any) -> None:
    """Replace these parts of MPyC's runtime in this process."""
    source = Dealers(mpc, terms, words) if mpc.options.no_prss else Keys(mpc, terms)
    runtime.thresha.np_random_split = split
    for name, function in replacements(mpc, source).items():
        setattr(mpc, name, _coroutine(mpc, function))


def _coroutine(mpc: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """An MPyC coroutine."""

    async def work(*arguments: Any, **named: Any) -> Any:
        return await function(*arguments, **named)

    work.__annotations__.clear()  # MPyC would make placeholders by them
    made: Callable[..., Any] = mpc.coroutine(work)
    return made


def replacements(mpc: Any, source: Randomness) -> dict[str, Callable[..., Any]]:
    """By their names in MPyC."""
    doubled = 2 * source.threshold

    async def np_random_bits(field: Any, count: int) -> Any:
        """Bits of a number over the positive root of its square, which is opened (Damgård et al.
        2006)."""
        await mpc.returnType(asyncio.Future)
        while True:
            numbers, zeros = await source.uniform(field, count)
            squares = await mpc.output(field.array(numbers**2 + zeros), threshold=doubled)
            if not np.any(squares.value == 0):  # nearly always, since the field is large
                break
        signs = field.array(numbers * field.array._sqrt(squares.value, INV=True))
        return field.array((signs.value + 1) * ((field.modulus + 1) >> 1))

    async def _np_randoms(field: Any, count: int, bound: int) -> Any:
        """Numbers whose parts sum up to less than `bound`."""
        await mpc.returnType(asyncio.Future)
        bits = (bound // source.parts).bit_length() - 1
        return field.array((await source.masks(field, count, bits, 0))[0])

    async def np_is_zero_public(a: Any) -> Any:
        await mpc.returnType(asyncio.Future)
        field = type(a).sectype.field
        factors, zeros = await source.uniform(field, a.size)
        value = (await mpc.gather(a)).value.reshape(-1)
        opened = await mpc.output(field.array(value * factors + zeros), threshold=doubled)
        return (opened.value == 0).reshape(a.shape)

    async def np_trunc(a: Any, f: int | None = None) -> Any:
        kind = type(a)
        await mpc.returnType((kind, a.shape))
        field, dropped = kind.sectype.field, kind.frac_length if f is None else f
        bits = kind.sectype.bit_length + kind.frac_length
        mask, low = await source.masks(field, a.size, bits + STATISTICAL_BITS, dropped)
        # Without what the parts add on average beyond the mean of one.
        value = (await mpc.gather(a)).value.reshape(-1) - ((source.parts - 1) << dropped >> 1)
        opened = await mpc.output(field.array(value + mask + (1 << (bits - 1))))
        rest = opened.value & ((1 << dropped) - 1)
        return (field.array(value + low - rest) >> dropped).reshape(a.shape)

    return {one.__name__: one for one in (np_random_bits, _np_randoms, np_is_zero_public, np_trunc)}

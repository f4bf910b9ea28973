"""Random numbers on shares, and the truncations that take most of them.

Replacements of parts of MPyC (`install`), in NumPy where MPyC makes one Python object at a time:

- `Stream`: the pseudo-random functions of common keys, whose range is a power of two. The field's
  modulus is less than 2^-80 of itself below one, so whole words are uniform in the field.
- `split`: Shamir's shares of an array.
- `truncation`: of products. MPyC draws a secret bit for every bit that is dropped, so that results
  are rounded up or down. Here one random number masks a product: it is the sum of one number of
  every key, and so is what it leaves in the dropped bits (Catrina and de Hoogh 2010 with Cramer,
  Damgård and Ishai 2005). Results are then off by at most `(parts + 1)/2` units, with a standard
  deviation of √((parts + 1)/12), for as many keys as there are. Whoever lacks one key sees the
  product under a number of STATISTICAL_BITS more bits than it has: a polynomial of a degree that is
  the threshold is known from the shares of so many parties, and that masked value.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable, Sequence
from hashlib import shake_128
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.mpc.links import Broken
from discreet_client.mpc.terms import STATISTICAL_BITS, Terms

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


class Stream:
    """A pseudo-random function in place of `mpyc.thresha.PRF`: numbers of the bits of `bound - 1`,
    one after the other from SHAKE128 of key and input."""

    def __init__(self, key: bytes, bound: int) -> None:
        bits = (bound - 1).bit_length()
        self._key, self._mask, self._size = bytes(key), (1 << bits) - 1, (bits + 7) // 8

    def __call__(self, common: bytes, shape: tuple[int, ...]) -> Integers:
        count = int(np.prod(shape))
        drawn = shake_128(self._key + common).digest(count * self._size)
        return np.asarray(integers_of(drawn, self._size) & self._mask).reshape(shape)


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
        share = 0
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


def install(runtime: Any, mpc: Any, terms: Terms) -> None:
    """Replace these parts of MPyC's runtime in this process."""

    def prfs(bound: int) -> dict[tuple[int, ...], Stream]:
        return {subset: Stream(key, bound) for subset, key in mpc._prss_keys.items()}

    mpc.prfs = functools.cache(prfs)
    mpc.np_trunc = truncation(mpc, terms)
    runtime.thresha.np_random_split = split


def truncation(mpc: Any, terms: Terms) -> Callable[..., Any]:
    """`np_trunc` of MPyC's runtime, for arrays of secret fixed-point numbers."""
    parts = terms.mask_parts

    async def masks(field: Any, size: int, bits: int, low: int) -> tuple[Any, Any]:
        """Shares of the sum of `parts` numbers below 2^bits, and of the sum of the `low` lowest
        bits of each."""
        lowest = (1 << low) - 1
        if not mpc.options.no_prss:
            whole, rest = 0, 0
            common = mpc._prss_uci()
            for subset, stream in mpc.prfs(1 << bits).items():
                factor = factor_of(field, len(mpc.parties), mpc.pid, subset)
                numbers = stream(common, (size,))
                whole = whole + numbers * factor
                rest = rest + (numbers & lowest) * factor
            return whole, rest
        first = mpc._program_counter[0] % len(mpc.parties)
        senders = tuple((first + place) % len(mpc.parties) for place in range(parts))
        numbers = drawn(size, bits) if mpc.pid in senders else np.zeros(size, dtype=object)
        dealt = await mpc.input(
            field.array(np.concatenate([numbers, numbers & lowest])), senders=senders
        )
        total = sum(one.value for one in dealt)
        return total[:size], total[size:]

    async def np_trunc(a: Any, f: int | None = None) -> Any:
        kind = type(a)
        await mpc.returnType((kind, a.shape))
        field, dropped = kind.sectype.field, kind.frac_length if f is None else f
        bits = kind.sectype.bit_length + kind.frac_length
        mask, low = await masks(field, a.size, bits + STATISTICAL_BITS, dropped)
        value = (await mpc.gather(a)).value
        # Half of what the parts add on average beyond the mean of one.
        value = value.reshape(-1) - ((parts - 1) << dropped >> 1)
        opened = await mpc.output(field.array(value + mask + (1 << (bits - 1))))
        rest = opened.value & ((1 << dropped) - 1)
        return (field.array(value + low - rest) >> dropped).reshape(a.shape)

    np_trunc.__annotations__.clear()  # MPyC would make its placeholder by them
    found: Callable[..., Any] = mpc.coroutine(np_trunc)
    return found


def factor_of(field: Any, parties: int, party: int, subset: tuple[int, ...]) -> int:
    """What a number of the subset's key is multiplied with to give the party's share of it."""
    from mpyc.thresha import _f_S_i  # noqa: PLC0415  # an extra

    return int(_f_S_i(field, parties, party, subset))

"""Fixed-point numbers, many to one integer: `floor(v 2^F)`-like integers in signed slots of w bits,
with check bits above.

A plaintext modulo N of |N| bits carries `floor((|N| - 66)/w)` slots. The 66 bits that are left hold
a sign, one bit of room (N may be little more than 2^(|N|-1)) and 64 check bits: an integer that is
no sum of packed ones, an unmasked residue say, passes `unpack` with probability below 2^-64. Slots
never carry into their neighbours as long as every sum stays below 2^(w-1); `FixedPoint` refuses
parameters for which it could not, so that overflow cannot depend on data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHECK_BITS = 66


class OutOfRange(ValueError):
    """A value does not fit its slot."""


class NotPacked(ValueError):
    """The integer is not a sum of packed plaintexts: its check bits are wrong."""


@dataclass(frozen=True)
class FixedPoint:
    """Numbers of magnitude at most `bound` on the grid 2^-F, of which at most `terms` are added.

    `fraction_bits` is F, `slot_bits` w (a multiple of 8 up to 64), `allowance` what a term may
    carry beyond its bound, in units of the grid (noise). Raises OutOfRange unless `terms (bound 2^F
    + 1 + allowance) < 2^(w-1)`.
    """

    bound: float
    terms: int
    fraction_bits: int = 32
    slot_bits: int = 64
    allowance: int = 0

    def __post_init__(self) -> None:
        if self.slot_bits % 8 or not 16 <= self.slot_bits <= 64:
            raise ValueError(f"slots have 16, 24, … or 64 bits, not {self.slot_bits}")
        if not 0 <= self.fraction_bits < self.slot_bits:
            raise ValueError(f"fraction_bits must be below slot_bits: {self.fraction_bits}")
        if not (
            np.isfinite(self.bound) and self.bound >= 0 and self.terms >= 1 and self.allowance >= 0
        ):
            raise ValueError(f"no sum of {self.terms} numbers up to {self.bound}")
        if self.bound >= 2.0**self.slot_bits:  # before it is scaled, beyond what doubles hold
            raise OutOfRange(
                f"numbers up to {self.bound:g} do not fit in a slot of {self.slot_bits} bits"
            )
        if self.largest_sum >= 1 << (self.slot_bits - 1):
            raise OutOfRange(
                f"{self.terms} numbers up to {self.bound:g} with {self.fraction_bits} fraction "
                f"bits need {self.largest_sum.bit_length() + 1} bits; a slot has {self.slot_bits}"
            )

    @property
    def largest(self) -> int:
        """The largest magnitude of one term, on the grid."""
        return int(np.ceil(np.ldexp(self.bound, self.fraction_bits))) + 1 + self.allowance

    @property
    def largest_sum(self) -> int:
        """The largest magnitude of a sum, on the grid."""
        return self.terms * self.largest

    def encode(self, values: Floats, *, toward_zero: bool = False) -> Integers:
        """The nearest grid points (or the next ones toward zero), int64, for float64 of any shape.

        Raises OutOfRange when a value is not finite or beyond the bound.
        """
        values = np.asarray(values, dtype=np.float64)
        if not np.all(np.abs(values) <= self.bound):  # also false for NaN
            worst = float(np.max(np.abs(values)))
            raise OutOfRange(
                f"a value of magnitude {worst:g} is beyond the bound {self.bound:g} of this sum"
            )
        scaled = np.ldexp(values, self.fraction_bits)
        return (np.trunc(scaled) if toward_zero else np.rint(scaled)).astype(np.int64)

    def decode(self, sums: Integers, terms: int | None = None) -> Floats:
        """Numbers of the grid points; OutOfRange when one is larger than a sum of `terms` (default:
        all) can be."""
        most = (self.terms if terms is None else terms) * self.largest
        if sums.size and not (-most <= int(sums.min()) and int(sums.max()) <= most):
            raise OutOfRange("a sum is larger than its terms can make it")
        return np.ldexp(sums.astype(np.float64), -self.fraction_bits)


@dataclass(frozen=True)
class Packing:
    """Vectors of `dimension` signed integers below 2^(w-1) in magnitude as integers below
    2^(|N|-66)."""

    dimension: int
    modulus_bits: int
    slot_bits: int = 64

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError("an empty vector is not packed")
        if self.slots < 1:
            raise ValueError(
                f"a modulus of {self.modulus_bits} bits has no room for a slot of {self.slot_bits}"
            )

    @property
    def slots(self) -> int:
        """Slots of a plaintext."""
        return (self.modulus_bits - CHECK_BITS) // self.slot_bits

    @property
    def words(self) -> int:
        """Plaintexts of a vector."""
        return -(-self.dimension // self.slots)

    @property
    def _offset(self) -> int:
        """2^(w-1) in every slot: added to a packed integer it makes all slots nonnegative."""
        return sum(1 << (self.slot_bits * slot + self.slot_bits - 1) for slot in range(self.slots))

    def pack(self, values: Integers) -> list[int]:
        """`sum_j v_j 2^(wj)`, signed, for each `slots` entries of int64[dimension].

        Raises OutOfRange for an entry outside its slot, ValueError for another length.
        """
        half = 1 << (self.slot_bits - 1)
        if values.shape != (self.dimension,):
            raise ValueError(f"{self.dimension} integers are packed, not {values.shape}")
        if not (-half <= int(values.min()) and int(values.max()) < half):
            raise OutOfRange(f"an entry does not fit into {self.slot_bits} bits")
        padded = np.zeros(self.words * self.slots, dtype=np.int64)
        padded[: self.dimension] = values
        unsigned = (padded.view(np.uint64) + np.uint64(half)).astype("<u8")
        slots = unsigned.view(np.uint8).reshape(self.words, self.slots, 8)[
            :, :, : self.slot_bits // 8
        ]
        offset = self._offset
        return [int.from_bytes(word.tobytes(), "little") - offset for word in slots]

    def unpack(self, words: list[int]) -> Integers:
        """int64[dimension] of sums of packed integers, given as they are (negative ones negative).

        Raises NotPacked when the check bits are wrong or an unused slot is not zero.
        """
        if len(words) != self.words:
            raise NotPacked(f"{self.words} plaintexts hold this vector, not {len(words)}")
        size = self.slots * self.slot_bits // 8
        offset = self._offset
        raw = np.zeros((self.words, self.slots, 8), dtype=np.uint8)
        for position, word in enumerate(words):
            shifted = int(word) + offset
            if not 0 <= shifted < 1 << (8 * size):
                raise NotPacked("the check bits of a sum are wrong")
            raw[position, :, : self.slot_bits // 8] = np.frombuffer(
                shifted.to_bytes(size, "little"), dtype=np.uint8
            ).reshape(self.slots, -1)
        unsigned = raw.reshape(-1).view("<u8").astype(np.uint64)
        values = (unsigned - np.uint64(1 << (self.slot_bits - 1))).view(np.int64)
        if values[self.dimension :].any():
            raise NotPacked("an unused slot of a sum is not empty")
        return values[: self.dimension].copy()


def box_bound(A: Floats, lower: Floats | float, upper: Floats | float) -> Floats:
    """`max |A x|` over the box, entry by entry: what a contribution can reach, by public figures.
    float64[rows]."""
    A = np.asarray(A, dtype=np.float64)
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), A.shape[1:]) for side in (lower, upper)
    )
    positive, negative = np.maximum(A, 0), np.minimum(A, 0)
    return np.maximum(
        np.abs(positive @ low + negative @ high), np.abs(positive @ high + negative @ low)
    )

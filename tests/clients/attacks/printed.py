"""The protocol as Huo & Liu print it (Paradigm 1), with `phe`: only to be attacked.

Two variants beside it close one hole and open another: the operator adds c itself without
obfuscating anew, and numbers are packed into slots that nobody checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import phe
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ciphertexts = list[phe.EncryptedNumber]


@dataclass
class Wire:
    """What travels in one round."""

    shares: list[Ciphertexts] = field(default_factory=list)
    """E(gamma_i c), operator to agent i."""
    messages: list[Ciphertexts] = field(default_factory=list)
    """E(v_i + gamma_i c), agent i to operator."""
    broadcast: Ciphertexts = field(default_factory=list)


class Printed:
    """n agents that share one key pair, and an operator with c; contributions are given each
    round."""

    def __init__(self, c: Floats, seed: int, bits: int = 512) -> None:
        self.public, self.private = phe.generate_paillier_keypair(n_length=bits)
        self.c = c
        self.random = np.random.default_rng(seed)

    def round(self, values: Floats, *, precision: float | None = 1e-9) -> Wire:
        """Lines 4 to 7 of Paradigm 1 for `values`, float64[n, m]; the sums are not obfuscated anew
        (line 6)."""
        gamma = self.random.uniform(size=len(values))
        gamma /= gamma.sum()
        wire = Wire()
        for share, value in zip(gamma, values, strict=True):
            wire.shares.append([self.public.encrypt(float(share * c), precision) for c in self.c])
            own = [self.private.decrypt(e) for e in wire.shares[-1]]
            wire.messages.append(
                [
                    self.public.encrypt(float(v + o), precision)
                    for v, o in zip(value, own, strict=True)
                ]
            )
        wire.broadcast = self.combine(wire.messages)
        return wire

    def combine(self, messages: list[Ciphertexts]) -> Ciphertexts:
        """The operator takes whatever it gets."""
        total = messages[0]
        for message in messages[1:]:
            total = [a + b for a, b in zip(total, message, strict=True)]
        return total

    def opened(self, ciphertexts: Ciphertexts) -> Floats:
        """By any agent: they all hold the key."""
        return np.array([self.private.decrypt(e) for e in ciphertexts])


def packed(values: list[int], slot_bits: int) -> int:
    """Slots without a bound and without check bits."""
    return sum(v << (slot_bits * j) for j, v in enumerate(values))


def unpacked(total: int, count: int, slot_bits: int) -> list[int]:
    """Two's complement of each slot, carries and all."""
    values = []
    for _ in range(count):
        slot = total & ((1 << slot_bits) - 1)
        if slot >> (slot_bits - 1):
            slot -= 1 << slot_bits
        values.append(slot)
        total = (total - slot) >> slot_bits
    return values

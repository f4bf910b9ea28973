"""Key streams, and the two schemes that mask the summands with them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from discreet_agent import paillier
from discreet_agent.packing import Integers, NotPacked, Packing
from discreet_agent.secure_sum.frames import HEADER, NOTHING, SIGNATURE
from discreet_agent.secure_sum.roster import Parameters

if TYPE_CHECKING:
    from phe import PaillierPrivateKey, PaillierPublicKey


def extract(secret: bytes) -> bytes:
    """HKDF-Extract (RFC 5869) with SHA-256 and no salt."""
    return hmac.digest(NOTHING, secret, "sha256")


def expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand (RFC 5869) to 32 bytes."""
    return hmac.digest(key, info + b"\x01", "sha256")


def stream(key: bytes, size: int) -> bytes:
    """`size` bytes of the ChaCha20 key stream of a one-time key."""
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(size))


def commitment(group_key: bytes) -> bytes:
    return hashlib.sha256(b"discreet/group-key/v1" + group_key).digest()


def deal_sizes(parameters: Parameters) -> tuple[int, int]:
    """Bytes of the dealer's public part, and of one sealed secret with its tag of 16 bytes."""
    if parameters.scheme == "masking":
        return 32, 32 + 16
    return parameters.key_bits // 8, parameters.key_bits // 8 + 16


def longest_answer(parameters: Parameters, agents: int) -> int:
    """Bytes of the longest frame that any of so many agents sends: the dealer's keys for all, a
    contribution, or the mask keys of the missing."""
    public, secret = deal_sizes(parameters)
    if parameters.scheme == "paillier":
        words = Packing(parameters.dimension, parameters.key_bits, parameters.slot_bits).words
        contribution = words * 2 * parameters.key_bits // 8
    else:
        contribution = 8 * (parameters.dimension + MaskingScheme.CHECKS)
    return HEADER.size + SIGNATURE + max(public + secret * (agents - 1), contribution, 32 * agents)


# A scheme turns an agent's integers into a payload (`contribute`), the payloads into one of the sum
# (`combine`), and that into the integers of the sum (`open`). `masks` adds and subtracts the key
# streams of the given keys; agents and operator both use it.


class PaillierScheme:
    """Integers are packed into residues modulo N, masked modulo N, and encrypted. `private` is None
    for the operator."""

    def __init__(
        self,
        parameters: Parameters,
        public: PaillierPublicKey,
        private: PaillierPrivateKey | None,
        obfuscators: paillier.Obfuscators,
    ) -> None:
        self.packing = Packing(parameters.dimension, paillier.bits_of(public), parameters.slot_bits)
        self.public, self.private, self.obfuscators = public, private, obfuscators

    def masks(self, plus: Iterable[bytes], minus: Iterable[bytes]) -> list[int]:
        """Sum of the streams of `plus` less those of `minus`: residues within 2^-128 of uniform."""
        words = self.packing.words
        size = (paillier.bits_of(self.public) + paillier.STATISTICAL_BITS + 7) // 8
        cuts = [slice(at, at + size) for at in range(0, words * size, size)]
        totals = [0] * words
        for sign, keys in ((1, plus), (-1, minus)):
            for key in keys:
                drawn = stream(key, words * size)
                for word, cut in enumerate(cuts):
                    totals[word] += sign * int.from_bytes(drawn[cut], "little")
        return totals

    def contribute(self, values: Integers, masks: list[int]) -> bytes:
        words = [value + mask for value, mask in zip(self.packing.pack(values), masks, strict=True)]
        drawn = self.obfuscators.draw(len(words))
        return paillier.to_bytes(self.public, paillier.encrypt(self.public, words, drawn))

    def accept(self, payload: bytes) -> list[int]:
        return paillier.from_bytes(self.public, payload, self.packing.words)

    def combine(self, contributions: Sequence[list[int]], own: Integers, masks: list[int]) -> bytes:
        """Ciphertexts of `Σ contributions + own - masks`, rerandomized by the operator."""
        total = paillier.product(self.public, contributions)
        rest = [value - mask for value, mask in zip(self.packing.pack(own), masks, strict=True)]
        shifted = paillier.encrypt(self.public, rest, self.obfuscators.draw(len(rest)))
        return paillier.to_bytes(self.public, paillier.product(self.public, [total, shifted]))

    def open(self, payload: bytes) -> Integers:
        assert self.private is not None
        words, packing = self.accept(payload), self.packing
        used = (packing.dimension - (packing.words - 1) * packing.slots) * packing.slot_bits
        # The last plaintext is often short, and decrypted faster then; unpacking checks its empty
        # slots either way.
        short = paillier.bits_of(self.public) // 2 - paillier.STATISTICAL_BITS
        whole = len(words) - (used < short)
        plaintexts = paillier.decrypt(self.private, words[:whole])
        return packing.unpack(plaintexts + paillier.decrypt_short(self.private, words[whole:]))


class MaskingScheme:
    """Integers are words modulo 2^64, followed by two check words of 1 and masked with each agent's
    pad. `pads` is None for the operator."""

    CHECKS = 2

    def __init__(
        self, parameters: Parameters, pads: Callable[[], Iterable[bytes]] | None, own_pad: bytes
    ) -> None:
        self.size = parameters.dimension + self.CHECKS
        self.pads, self.own_pad = pads, own_pad
        self.summands = 0

    def masks(self, plus: Iterable[bytes], minus: Iterable[bytes]) -> NDArray[np.uint64]:
        total = np.zeros(self.size, dtype=np.uint64)
        for key in plus:
            total += np.frombuffer(stream(key, 8 * self.size), dtype="<u8")
        for key in minus:
            total -= np.frombuffer(stream(key, 8 * self.size), dtype="<u8")
        return total

    def contribute(self, values: Integers, masks: NDArray[np.uint64]) -> bytes:
        checked = np.concatenate([values, np.ones(self.CHECKS, dtype=np.int64)]).view(np.uint64)
        return (checked + masks + self.masks([self.own_pad], [])).astype("<u8").tobytes()

    def accept(self, payload: bytes) -> NDArray[np.uint64]:
        if len(payload) != 8 * self.size:
            raise paillier.InvalidCiphertext(
                f"a masked vector must have {8 * self.size} bytes, not {len(payload)}"
            )
        return np.frombuffer(payload, dtype="<u8").astype(np.uint64)

    def combine(
        self, contributions: Sequence[NDArray[np.uint64]], own: Integers, masks: NDArray[np.uint64]
    ) -> bytes:
        constant = np.concatenate([own, np.zeros(self.CHECKS, dtype=np.int64)]).view(np.uint64)
        total = constant - masks
        for contribution in contributions:
            total += contribution
        return total.astype("<u8").tobytes()

    def open(self, payload: bytes) -> Integers:
        assert self.pads is not None
        total = (self.accept(payload) - self.masks(self.pads(), [])).view(np.int64)
        if np.any(total[-self.CHECKS :] != self.summands):
            raise NotPacked("the check words of a sum are wrong")
        return total[: -self.CHECKS].copy()

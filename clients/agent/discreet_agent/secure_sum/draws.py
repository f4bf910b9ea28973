"""What an agent of a secure sum draws: a function of the session's key and of all broadcasts.

A folder that is put back from a copy answers the same broadcasts again. With fresh randomness the
second answer would be another vector under the same mask, and their difference would be open to the
server. So start, haze, noise and the dealer's secret are drawn from here: after the same broadcasts
they are the same, and so is the answer; after another broadcast masks, noise and all else are
others (`Party._bound`). The key is drawn with the session and erased at its end, so that neither
the agent's long-lived key nor its folder tells later what was drawn.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms
from numpy.typing import NDArray

from discreet_agent.secure_sum.masks import expand

KEY_BYTES = 32
START = hashlib.sha256(b"discreet/draws/start").digest()
"""Where an agent stands that has heard nothing yet."""


class Draws:
    """A ChaCha20 stream under `HKDF(key, 'discreet/draws/v1' ‖ place)`, which begins anew whenever
    `place()`, a digest of all that was heard, is another."""

    def __init__(self, key: bytes | None = None, place: Callable[[], bytes] = lambda: START):
        self.key = secrets.token_bytes(KEY_BYTES) if key is None else key
        self.place = place
        self._at = b""
        self._stream: CipherContext | None = None

    def bytes(self, size: int) -> bytes:
        at = self.place()
        if self._stream is None or at != self._at:
            key = expand(self.key, b"discreet/draws/v1" + at)
            self._at = at
            self._stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
        return self._stream.update(bytes(size))

    def uniform(self, size: int) -> NDArray[np.float64]:
        """float64[size] uniform in [0, 1)."""
        words = np.frombuffer(self.bytes(8 * size), dtype="<u8")
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def below(self, bound: int) -> int:
        """An integer from 0 to bound - 1, exactly uniform."""
        while (drawn := self.bits((bound - 1).bit_length())) >= bound:
            pass
        return drawn

    def bits(self, count: int) -> int:
        """An integer of so many uniform bits."""
        size = (count + 7) // 8
        return int.from_bytes(self.bytes(size), "big") >> (8 * size - count)

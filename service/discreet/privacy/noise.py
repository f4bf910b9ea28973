"""The only source of randomness that a release may use."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from discreet.privacy.samplers import Integers, Words, as_ratio, fill_gaussian, fill_laplace

Floats = NDArray[np.float64]
Size = int | tuple[int, ...]

WORDS_AT_ONCE = 1 << 20
LARGEST_VALUE = 1 << 62


class Additive(Protocol):
    """An event whose noise is added to values; `MechanismEvent` has `draw`."""

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]: ...


class Noise:
    """Random draws, from the operating system (`secure`) or from a seed (`seeded`: simulation
    datasets only).

    `add` is what a release calls: it knows how each additive mechanism rounds, noises and never
    overflows. The draws behind it are exact, see `samplers`; `generator` serves the millions of
    draws inside an iteration.
    """

    def __init__(self, entropy: Callable[[int], bytes]) -> None:
        """`entropy(n)` returns n fresh random bytes; use `secure` or `seeded`."""
        self._entropy = entropy

    @classmethod
    def secure(cls) -> Noise:
        """Every word from the operating system."""
        return cls(os.urandom)

    @classmethod
    def seeded(cls, seed: int) -> Noise:
        """Reproducible, so not private: for simulation datasets only."""
        stream = np.random.Generator(cast(Any, AESCounter(np.random.SeedSequence(seed))))
        return cls(stream.bytes)

    # Draws.

    def discrete_laplace(self, scale: float, size: Size) -> Integers:
        """Integers with P(z) ~ exp(-|z|/scale), scale in (0, 2^52]; |z| < 2^62."""
        return self._fill(fill_laplace, scale, size, 16)

    def discrete_gaussian(self, scale: float, size: Size) -> Integers:
        """Integers with P(z) ~ exp(-z²/(2 scale²)), scale in (0, 2^52]; |z| < 64 scale + 1."""
        return self._fill(fill_gaussian, scale, size, 24)

    def below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Uniform integers in [0, bound), 1 <= bound <= 2^31: the top bits of 32, again where they
        are too large."""
        bits = max(bound - 1, 0).bit_length()
        found = np.empty(0, dtype=np.int64)
        while found.size < size:
            words = np.frombuffer(self._entropy(4 * (size - found.size)), dtype=np.uint32)
            drawn = words.astype(np.int64) >> (32 - bits)
            found = np.concatenate([found, drawn[drawn < bound]])
        return found

    def generator(self) -> np.random.Generator:
        """A new NumPy generator on AES-128 in counter mode, freshly keyed; also for numba. Its
        floats are not exact."""
        return np.random.Generator(
            cast(Any, AESCounter(key=int.from_bytes(self._entropy(16), "little")))
        )

    def dirichlet(self, alpha: NDArray[np.float64]) -> Floats:
        """One draw from Dir(alpha) for each row (last axis) of `alpha`, every parameter positive.

        Drawn in logarithms, so that parameters far below 1 do not underflow to zero rows, by float
        gamma variates. A result is rounded to multiples of 2^-40 and divided by its sum: low bits
        of the variates do not come through.
        """
        shape = np.asarray(alpha, dtype=np.float64)
        if not np.all(shape > 0):
            raise ValueError("Dirichlet parameters are positive")
        generator = self.generator()
        # G(a) = G(a+1) U^{1/a}.
        logs = (
            np.log(generator.standard_gamma(shape + 1))
            + np.log1p(-generator.random(shape.shape)) / shape
        )
        logs -= logs.max(axis=-1, keepdims=True)
        rows = np.exp(logs)
        rows /= rows.sum(axis=-1, keepdims=True)
        rounded = np.rint(np.ldexp(rows, 40))
        return cast(Floats, rounded / rounded.sum(axis=-1, keepdims=True))

    # Mechanisms.

    def add(self, event: Additive, values: NDArray[Any]) -> NDArray[Any]:
        """`values` with the noise of one release of an additive `event`; nothing else of `values`
        comes through.

        Integer mechanisms take and return integers; the others round to the event's grid first and
        return floats. Values are clamped to ±2^62 steps first (no sensitivity grows), and noise
        stays within ±2^62: nothing overflows. NaN counts as 0, so that the release is total.
        """
        dimension = getattr(event, "dimension", values.size)
        if values.size > dimension:
            raise ValueError(f"the event was priced for {dimension} coordinates, not {values.size}")
        return event.draw(self, np.asarray(values))

    def choose(self, event: Additive, scores: NDArray[Any]) -> int:
        """The place of the candidate that one release of `event` takes, by integer scores."""
        return int(event.draw(self, np.asarray(scores)))

    def add_each(self, event: Additive, rows: NDArray[Any]) -> NDArray[Any]:
        """Independent releases of `event`, one for each entry of the first axis: for simulation and
        audit."""
        return event.draw(self, np.asarray(rows))

    # How mechanisms draw.

    def to_integers(
        self, draw: Callable[[float, Size], Integers], scale: float, values: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Integers, clamped to ±2^62, with `draw` of this scale. TypeError: values of another
        type."""
        if not np.issubdtype(values.dtype, np.integer):
            raise TypeError("this mechanism takes integers")
        if values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(LARGEST_VALUE))
        exact = np.clip(values.astype(np.int64), -LARGEST_VALUE, LARGEST_VALUE)
        return cast(Integers, exact + draw(scale, exact.shape))

    def on_grid(
        self,
        draw: Callable[[float, Size], Integers],
        scale: float,
        grid: float,
        values: NDArray[Any],
    ) -> Floats:
        """Values rounded to multiples of `grid`, clamped to ±2^62 of them, with `draw` of this
        scale."""
        steps = np.nan_to_num(
            np.asarray(values, dtype=np.float64) / grid, nan=0.0, posinf=math.inf, neginf=-math.inf
        )
        rounded = np.rint(np.clip(steps, -float(LARGEST_VALUE), float(LARGEST_VALUE))).astype(
            np.int64
        )
        return cast(Floats, (rounded + draw(scale / grid, rounded.shape)) * grid)

    def _fill(
        self,
        kernel: Callable[[Integers, int, Words, int, int], tuple[int, int]],
        scale: float,
        size: Size,
        words: int,
    ) -> Integers:
        n, q = as_ratio(scale)
        out = np.empty(size, dtype=np.int64)
        flat = out.reshape(-1)
        done, left = 0, np.empty(0, dtype=np.uint64)
        while done < len(flat):
            wanted = min(WORDS_AT_ONCE, words * (len(flat) - done) + 64)
            fresh = np.frombuffer(self._entropy(8 * wanted), dtype=np.uint64)
            left = np.concatenate([left, fresh])
            done, start = kernel(flat, done, left, n, q)
            left = left[start:]
        return out

"""Three wrong ways to charge blocks of a source, which the audit must catch, and the right one.

Each plays all that a source released: a noisy count of each of its blocks, at epsilon each, on its
own account. The claim is about one account: that whatever is released of one block tells at most
its cap about one record of it (`docs/theory/sources.md` has the proof). What makes it false is that
one record moves more than the block that is charged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.mechanism import Sampler
from discreet.privacy.noise import Noise

BLOCKS = 30
EPSILON = 0.5
"""Epsilon of each release, and the cap of each block: what its account promises."""


def _counts(noise: Noise, left: Sequence[float], right: Sequence[float]) -> tuple[Sampler, Sampler]:
    """The counts of all blocks, each with noise for one record of it."""
    generator = noise.generator()

    def at(counts: Sequence[float]) -> Sampler:
        exact = np.asarray(counts, dtype=np.float64)

        def draw(n: int) -> NDArray[np.float64]:
            return exact + generator.laplace(scale=1 / EPSILON, size=(n, exact.size))

        return draw

    return at(left), at(right)


def by_date(noise: Noise) -> tuple[Sampler, Sampler]:
    """The right one: a record is in the block of its date, so that one record more changes one
    count by one."""
    counts = [10.0] * BLOCKS
    return _counts(noise, [11.0, *counts[1:]], counts)


def closed_by_count(noise: Noise) -> tuple[Sampler, Sampler]:
    """Blocks of ten records each, in the order in which they come: one record more at the beginning
    moves the last of every block to the next one. Counted are records of one sort, of which every
    second block had one, its last."""
    records = np.array([[0.0] * 9 + [1.0], [0.0] * 10] * (BLOCKS // 2)).ravel()

    def counts(came: NDArray[np.float64]) -> list[float]:
        full = came[: 10 * BLOCKS].reshape(BLOCKS, 10)
        return [float(block.sum()) for block in full]

    return _counts(noise, counts(np.concatenate([[0.0], records])), counts(records))


def late_to_arrival(noise: Noise) -> tuple[Sampler, Sampler]:
    """A block is released again whenever late records have come, and each time the block of their
    arrival is charged: one record of the first block shows in all of these releases, and its own
    account says that there was one."""
    versions = [10.0] * 10
    return _counts(noise, [one + 1 for one in versions], versions)


def caps_as_a_persons(noise: Noise) -> tuple[Sampler, Sampler]:
    """The cap of a block, claimed to bound what is told of a person who has a record in every
    block."""
    counts = [10.0] * BLOCKS
    return _counts(noise, [one + 1 for one in counts], counts)

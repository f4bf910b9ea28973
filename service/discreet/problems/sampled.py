"""Kinds whose release may have in memory, of a stored content, the records that it samples.

release_sampled(public, plan, records, noise)   what is released; reads records by their numbers

A method of this kind draws in each step which units take part, with the noise of the release and
not by what stands in the data. So it knows what its next steps will draw, and reads that alone.
Where it reads does not depend on what was drawn: see `StoredContent.read`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from discreet.privacy.noise import Noise
from discreet.problems.contents import Released
from discreet.problems.parts import StoredContent
from discreet.problems.plans import Plan

WINDOW_BYTES = 64 << 20
"""Of the units that are in memory at once: those that the next steps draw. Larger contents are
passed through more often the smaller it is."""
PASSED_BYTES_PER_SECOND = 1e9
"""Read and decrypted, and searched for the units of a window."""
FILLED = 0.8
"""How much of a window is full, at least, where steps are small beside it."""


@dataclass(frozen=True)
class Records:
    """A stored content, and how much of it may be in memory."""

    content: StoredContent
    window_bytes: int = WINDOW_BYTES


class SampledRecords(ABC):
    """What a kind has beside `Problem` if some of its plans have `sampled_by`, for these plans."""

    @abstractmethod
    def release_sampled(self, public: Any, plan: Plan, records: Records, noise: Noise) -> Released:
        """`release` on the content of these records, with the same draws of the same noise: the
        same arrays, bit for bit. Total."""


def passing_seconds(most_bytes: float, drawn_bytes: float, steps: int) -> float:
    """Seconds to pass through a content of at most `most_bytes`, as often as its windows are
    filled: with `drawn_bytes` in all, in so many steps, none of which is in two windows. From
    public figures. 0 where all is in memory at once."""
    if most_bytes <= WINDOW_BYTES:
        return 0.0
    windows = min(float(steps), 1 + drawn_bytes / (FILLED * WINDOW_BYTES))
    return windows * most_bytes / PASSED_BYTES_PER_SECOND

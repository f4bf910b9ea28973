"""Kinds whose release may have in memory, of a stored content, the records that it samples.

release_sampled(public, plan, records, noise)   what is released; reads records by their numbers

A method of this kind draws in each step which units take part, with the noise of the release and
not by what stands in the data. So it knows what its next steps will draw, and reads that alone.
Where it reads does not depend on what was drawn: see `StoredContent.read`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Released
from discreet.problems.parts import JoinedContent, StoredContent
from discreet.problems.plans import Plan

WINDOW_BYTES = 64 << 20
"""Of the units that are in memory at once: those that the next steps draw. The smaller it is, the
more often a content is passed through."""
PASSED_BYTES_PER_SECOND = 2e9
"""Read and decrypted, and searched for the units of a window."""
FILLED = 0.8
"""How much of a window is full, at least, where steps are small beside it."""
MOST_PASSING = 2.0
"""Times the work itself: so long may passing through a content take. A window that takes longer is
made larger, of contents many times as large as it."""


@dataclass(frozen=True)
class Records:
    """A stored content, and how much of it may be in memory."""

    content: StoredContent | JoinedContent
    window_bytes: int


class SampledRecords(ABC):
    """What a kind has beside `Problem` if some of its plans have `sampled_by`, for these plans."""

    @abstractmethod
    def release_sampled(self, public: Any, plan: Plan, records: Records, noise: Noise) -> Released:
        """`release` on the content of these records, with the same draws of the same noise: the
        same arrays, bit for bit. Total."""

    @classmethod
    @abstractmethod
    def unit_keys(cls, content: Content) -> NDArray[Any]:
        """Keys by which the units of a canonical content, and those of several as one, are in
        order."""

    @abstractmethod
    def window_bytes(self, public: Any, plan: Plan) -> int:
        """How much is to be in memory at once, from public figures alone. What is released does not
        depend on it."""


@dataclass(frozen=True)
class Passing:
    """Reads of a content, of which no more than a window is in memory: from public figures alone.

    most_bytes: of the content at most; drawn_bytes: of all that is drawn, in `steps` steps, none of
    which is in two windows; seconds: of the work on what is drawn.
    """

    most_bytes: float
    drawn_bytes: float
    steps: int
    work_seconds: float

    @property
    def window_bytes(self) -> int:
        """WINDOW_BYTES, or as much more as MOST_PASSING or what a single step draws asks for."""
        times = MOST_PASSING * self.work_seconds * PASSED_BYTES_PER_SECOND / self.most_bytes - 1
        needed = self.drawn_bytes / FILLED / times if times > 0 else self.most_bytes
        needed = min(max(needed, self.drawn_bytes / self.steps), self.most_bytes)
        return max(WINDOW_BYTES, math.ceil(needed))

    @property
    def seconds(self) -> float:
        """0 where all is in memory at once: it is read once, as whatever is read as a whole."""
        if self.most_bytes <= self.window_bytes:
            return 0.0
        # A step is never in two windows: of those that are large beside it, the rest stays empty.
        each = max(1.0, FILLED * self.window_bytes * self.steps // self.drawn_bytes)
        windows = min(float(self.steps), 1 + self.steps / each)
        return windows * self.most_bytes / PASSED_BYTES_PER_SECOND

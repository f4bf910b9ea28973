"""Kinds whose release may be sums over parts of a content.

part_sums(public, plan, content)          integer sums over one part, before noise: PRIVATE
release_sums(public, plan, sums, noise)   what is released of the sums of all parts; total
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Released, Sums
from discreet.problems.plans import Plan


class SumsOverParts(ABC):
    """What a kind has beside `Problem` if some of its plans have `parts_by`, for these plans."""

    @abstractmethod
    def part_sums(self, public: Any, plan: Plan, content: Content) -> Sums:
        """What a part of a content adds to the sums that are released, before noise: PRIVATE.
        Total, also for a part without records.

        All records of one unit lie in one part. The sums of any parts in any order add up to those
        of the whole content, bit for bit: they are integers.
        """

    @abstractmethod
    def release_sums(self, public: Any, plan: Plan, sums: Sums, noise: Noise) -> Released:
        """`release` on the content that has these sums: where they and noise meet."""

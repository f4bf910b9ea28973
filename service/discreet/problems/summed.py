"""Kinds whose release may be sums over parts of a content.

release_number(public, plan, units, noise)   what is released before the sums, which follow from it
following(public, plan, before)              the plan with what follows from that
part_sums(public, plan, content)             integer sums over one part, before noise: PRIVATE
release_sums(public, plan, sums, noise)      what is released of the sums of all parts; total

A plan of one event has sums alone. One of more has its other events first: the number of units gets
noise, what the sums are to be (a clip) follows from that, and then parts are summed. It is one
release all the same, with one price, and the number gets noise once.
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
        """`release` on the content that has these sums: where they and noise meet. Without what was
        released before, of which the noise is passed over."""


class SumsAfterNumber(SumsOverParts):
    """What a kind has if some plans with `parts_by` have more than one event, for these plans."""

    @abstractmethod
    def release_number(self, public: Any, plan: Plan, units: int, noise: Noise) -> Released:
        """What is released of the number of units: before the sums, with the first draws of the
        noise."""

    @abstractmethod
    def following(self, public: Any, plan: Plan, before: Released) -> Plan:
        """The plan as its sums are to be made after what was released `before`."""

"""How large contents may be: what one child may hold as a whole, and what is read by parts alone.

A release must never fail because of the amount of data, and how much there is may be private. So
whether a job may read a content is decided by how large that *could* be, by public figures: the
bounds that its owner has declared (`Dataset.most_bytes`), `block_bytes` of a source, and the limits
of this installation. Registration takes no content that is larger. Contents without a declared
bound are never larger than what is held as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from discreet.errors import InvalidInput
from discreet.problems import DATASETS
from discreet.problems.base import Problem
from discreet.problems.parts import SampledRecords
from discreet.problems.plans import Plan
from discreet.settings import Settings
from discreet.usecases.facts import DatasetFacts

ORDER_BYTES = 56
"""For each unit of several blocks that are sampled as one content (`parts.JoinedContent`)."""


@dataclass(frozen=True)
class ContentSizes:
    """The limits of an installation, in bytes of memory."""

    whole_bytes: int = 1 << 30
    """Of contents that one child holds as a whole."""
    content_bytes: int = 64 << 30
    """Of those that are read by parts."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(settings.whole_bytes, settings.content_bytes)

    def max_bytes(self, kind: str, public: Any, most_bytes: int | None = None) -> int:
        """How large a content of this public part may be: registration takes no more. `most_bytes`:
        of a block, as its source says."""
        if most_bytes is None:
            declared = DATASETS[kind].most_bytes(public)
            most_bytes = max(self.whole_bytes, declared or 0)
        return min(self.content_bytes, most_bytes)

    def check(self, problem: Problem, plan: Plan, data: DatasetFacts) -> None:
        """InvalidInput where a job could not have in memory what it has to, by public bounds."""
        if why := self._against(problem, plan, data):
            raise InvalidInput(why, pointer=data.pointer)

    def _against(self, problem: Problem, plan: Plan, data: DatasetFacts) -> str:
        blocks = 1 if data.source is None else len(data.source.blocks)
        block_bytes = data.block_bytes
        of_one = self.max_bytes(data.kind, data.public) if block_bytes is None else block_bytes
        most = of_one * blocks
        if plan.parts_by is not None and most <= self.content_bytes:
            return ""
        if plan.sampled_by is not None and self.whole_bytes < most <= self.content_bytes:
            assert isinstance(problem, SampledRecords)
            window = min(most, problem.window_bytes(data.public, plan))
            if blocks > 1:  # the order of the units of all
                window += ORDER_BYTES * (DATASETS[data.kind].most_units(data.public) or 0)
            says = f"of the records that are drawn {window} bytes would be in memory at once"
            advice = "fewer steps or less sampling are needed"
            return "" if window <= self.whole_bytes else f"{says}, {self._whole}; {advice}"
        if most <= self.whole_bytes:
            return ""
        parted = plan.parts_by is not None or plan.sampled_by is not None
        limit = self.content_bytes if parted else self.whole_bytes
        if block_bytes is not None and block_bytes <= limit:
            says = f"{blocks} blocks of up to {block_bytes} bytes (block_bytes of the source)"
            says += f": at most {limit // block_bytes} blocks are read at once here"
        else:
            says = (
                "this reads the content as a whole, which by its public bounds may take "
                f"{most} bytes, {self._whole}"
            )
        return says if parted else f"{says}; {problem.by_parts}"

    @property
    def _whole(self) -> str:
        return f"of at most {self.whole_bytes} (an eighth of DISCREET_JOB_MEMORY_BYTES)"

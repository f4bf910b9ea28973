"""What is known about the data that a request names before anything is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import NotFound
from discreet.problems.plans import PlannedSource

LONGEST_ID = 64
"""Characters of an id that an error repeats: those of ours have 30."""


def no_dataset(dataset_id: str) -> NotFound:
    """The tenant has no dataset of this id, which may be any text: its beginning is said."""
    shown = dataset_id if len(dataset_id) <= LONGEST_ID else dataset_id[:LONGEST_ID] + "…"
    says = f"there is no dataset {shown}"
    if not dataset_id.startswith("dst_"):
        says += ": an id is needed, which begins with dst_; GET /v1/datasets has those of all names"
    return NotFound(says, pointer="/problem/dataset")


@dataclass(frozen=True)
class DatasetFacts:
    """What a plan needs to know of a dataset, or of blocks of a source that are read as one, and
    what changes with its revision alone."""

    dataset_id: str | None
    """None: blocks of a source."""
    kind: str
    mode: str
    accounts: tuple[str, ...]
    """Each of them once: one of a dataset, one for each block, or one of all blocks."""
    unit: str
    public: Any
    """The kind's own model."""
    source: PlannedSource | None = None
    """The blocks, with the versions that are read."""
    numbers: tuple[int, ...] = ()
    """Of these versions in their source, by which the database knows them."""
    block_bytes: int | None = None
    """That each block may take in memory."""
    shared: bool = False
    """The source has a rule who may spend which share: jobs on it may wait."""
    revision: int = 1
    """Of the dataset, or of the source: one more with each correction. A job is accepted for the
    one of which its plan was made."""

    @property
    def versions(self) -> tuple[str, ...]:
        """The datasets that are read where they are blocks."""
        return () if self.source is None else tuple(one.version for one in self.source.blocks)

    @property
    def identity(self) -> str:
        """An identifier of the data as they are: an id, or the ids of all versions, and which
        revision, where they were corrected."""
        named = self.dataset_id or "+".join(self.versions)
        return named if self.revision == 1 else f"{named}@{self.revision}"

    @property
    def pointer(self) -> str:
        """Where a request names them."""
        return "/problem/dataset" if self.source is None else "/problem/source"

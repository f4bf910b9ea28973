"""What is known about the data that a request names before anything is done with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.errors import FieldIssue, InvalidInput, NotFound
from discreet.problems import DATASETS
from discreet.problems.plans import PlannedSource

LONGEST_ID = 64
"""Characters of an id that an error repeats: those of ours have 30."""


HOW_LONG = "While nothing was spent or reserved on these data, declare it"


def correct_command(of: str, name: str, said: str) -> str:
    """The command and the call by which a dataset, or a source, is corrected, and the page."""
    page = ", or its page" if of == "dataset" else ""
    return f"discreet {of} correct {name} {said}, PATCH /v1/{of}s/{name}{page}"


def advice_undeclared(of: str, name: str, undeclared: Mapping[str, str], *, mode: str) -> list[str]:
    """What later questions may need that is not declared: a sentence for each."""
    until = "always" if mode == "simulation" else "while nothing was spent or reserved on them"
    return [
        f"not declared: {field}, {buys}. These data can be corrected {until}: "
        f"{correct_command(of, name, f'--set {field}=…')}"
        for field, buys in undeclared.items()
    ]


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
    zone_names: bytes | None = None
    """The keyed digest of the names by which its zones were read, in their order."""

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

    def named_undeclared(self, error: InvalidInput) -> InvalidInput:
        """A refusal of a plan that speaks of public figures which are not declared, with the way to
        declare them."""
        kind = DATASETS[self.kind]
        fields = [name for name in sorted(kind.FIGURES) if getattr(self.public, name, None) is None]

        def named(issue: FieldIssue) -> FieldIssue:
            told = [name for name in fields if re.search(rf"\b{name}\b", issue.detail)]
            if not told or issue.pointer.endswith(tuple(f"/{name}" for name in told)):
                return issue
            return FieldIssue(issue.pointer, f"{issue.detail}. {self.to_declare(told)}")

        return InvalidInput(map(named, error.issues), code=error.code, limit=error.limit)

    def to_declare(self, fields: Iterable[str]) -> str:
        """How public figures are declared afterwards, as a sentence."""
        said = " ".join(f"--set {name}=…" for name in fields)
        if self.source is None:
            return f"{HOW_LONG}: {correct_command('dataset', str(self.dataset_id), said)}"
        return f"{HOW_LONG}: {correct_command('source', self.source.id, said)}"

    @property
    def pointer(self) -> str:
        """Where a request names them."""
        return "/problem/dataset" if self.source is None else "/problem/source"

"""Sources: data that keep arriving, in blocks, each of which is a dataset with its own budget.

Which block a record is in follows from the record: its day, its month, or the label that its owner
gives. A job reads several blocks as one dataset, draws noise once, and is charged to every block it
reads. What that protects, with the proof, stands in `docs/theory/sources.md`; the sentences of it
that plans and certificates carry are made here.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, WithJsonSchema, model_validator

from discreet.errors import InvalidInput, NotFound
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.contents import Content
from discreet.problems.datasets import Cap, DatasetOfRows, Name
from discreet.problems.numbers import Frozen, Seen
from discreet.problems.plans import PlannedSource
from discreet.problems.reuse import ProblemOnData

BlockBy = Literal["day", "month", "label"]
CapOf = Literal["block", "source"]
MOST_BLOCKS = 366
"""That one job reads: a leap year of days."""
MOST_NAMED = 20
"""Blocks that an error names."""
FORMS = {"day": re.compile(r"\d{4}-\d{2}-\d{2}"), "month": re.compile(r"\d{4}-\d{2}")}
LABEL = re.compile(r"[^/]{1,100}")
POINTER = "/problem/source"

WHOLE = 1_000_000
MOST_SHARES = 100
USUAL_LENT_DAYS = 28
Share = Annotated[
    Decimal,
    Field(gt=0, le=1, decimal_places=6),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
BlockName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True), Seen
]


class SourceSettings(Frozen):
    """The fields of a source, which never change; its public part may be corrected for a while."""

    name: Name = Field(description="Unique among the tenant's sources")
    mode: Literal["private", "simulation"] = Field(
        default="private", description="Mode of all blocks"
    )
    by: BlockBy = Field(
        description="Which records a block has: those of a day (`2026-10-01`) or month "
        "(`2026-10`), by the column `date` of every record, which is checked; or those to which "
        "the owner gives a label"
    )
    cap: Cap = Field(
        description="The most that may be spent on each block, or on the whole source with "
        "`cap_of: source`"
    )
    cap_of: CapOf = Field(
        default="block",
        description="`block`: each block has an account, and a job is charged to every block it "
        "reads. `source`: all blocks have one account, to which each job is charged once",
    )
    block_bytes: Annotated[int, Field(strict=True, ge=1024)] | None = Field(
        default=None,
        description="The most memory that the content of a block takes, chosen without looking at "
        "the data. A job reads as many blocks as together fit into the limit of one content. "
        "Absent: 1/32 of that limit",
    )
    retention_days: Annotated[int, Field(strict=True, ge=1, le=36500)] | None = Field(
        default=None,
        description="The content of each version is erased after so many days; absent: the "
        "installation's setting applies",
    )


class SourceRule(Frozen):
    """Who may spend which share of each block of a source."""

    shares: Annotated[dict[Name, Share], Field(min_length=1, max_length=MOST_SHARES)] = Field(
        description="Share of each block by principal, as a fraction with up to six decimals; at "
        "most "
        "1 together. What is in nobody's share is open to everybody at once"
    )
    lent_days: Annotated[int, Field(strict=True, ge=1, le=3650)] = Field(
        default=USUAL_LENT_DAYS,
        description="Days over which the unused part of a share is lent to all, linearly from "
        "when the block was first registered (with `cap_of: source`, when the source was made)",
    )

    @model_validator(mode="after")
    def _at_most_all(self) -> Self:
        if sum(self.millionths.values()) > WHOLE:
            raise FieldError("shares", "shares must sum to at most 1")
        return self

    @property
    def millionths(self) -> dict[str, int]:
        """The shares as the database keeps them."""
        return {name: int(share * WHOLE) for name, share in sorted(self.shares.items())}


class SourceBlocks(Frozen):
    """Blocks of a source, as one dataset."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    blocks: (
        BlockName
        | Annotated[tuple[BlockName, ...], InPieces(min_length=1, max_length=MOST_BLOCKS)]
        | None
    ) = Field(
        default=None,
        description="One block, a list of them, or `first/last` for days or months, each of which "
        "must exist",
    )
    last: Annotated[int, Field(strict=True, ge=1, le=MOST_BLOCKS)] | None = Field(
        default=None, description="Instead of `blocks`: how many of the newest blocks"
    )
    versions: Annotated[tuple[str, ...], InPieces(min_length=1, max_length=MOST_BLOCKS)] | None = (
        Field(
            default=None,
            description="The version of each of `blocks`, in their order; absent: the newest. An "
            "accepted job names all of them",
        )
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.blocks is None) == (self.last is None):
            raise FieldError("blocks", "either `blocks` or `last` is needed")
        if self.versions is not None and (
            not isinstance(self.blocks, tuple) or len(self.versions) != len(self.blocks)
        ):
            raise FieldError("versions", "need `blocks` as a list, with one version for each")
        return self


class ProblemOnBlocks(ProblemOnData):
    """A kind that reads a dataset, or blocks of a source as one."""

    places: ClassVar[tuple[tuple[str, str], ...]] = (*ProblemOnData.places, ("source", "source"))

    source: SourceBlocks | None = Field(
        default=None,
        description="Instead of `dataset`: blocks of a source, read and charged together",
    )


class DatasetInBlocks(DatasetOfRows):
    """A dataset that may come as blocks of a source: several with the same public part form one
    dataset."""

    UNCUT: ClassVar[str] = ""
    """Of a kind whose unit has several rows: what was checked of a block, so that no unit lies in
    two of them, and what is assumed; certificates carry the sentence. Empty where each row is of
    units that lie in it as a whole."""

    @classmethod
    def in_block(cls) -> type[Self]:
        """How the content of a block is read, which is refused where it was seen to hold a part of
        a unit whose beginning is elsewhere."""
        return cls

    @classmethod
    @abstractmethod
    def not_in_blocks(cls, public: Any) -> str:
        """Why datasets with this public part cannot be blocks of a source, as a sentence; empty
        if they can. A unit must lie in one block, whatever else is in the data, and nothing
        public may depend on what a block holds."""

    @classmethod
    @abstractmethod
    def nothing(cls, public: Any) -> Content:
        """The canonical content of a block without records."""

    @classmethod
    @abstractmethod
    def combined(cls, public: Any, number: int) -> Any:
        """The public part of so many blocks as one dataset; a function of public figures.
        InvalidInput where it is none, with a pointer below /problem."""

    @classmethod
    @abstractmethod
    def joined(cls, public: Any, contents: Sequence[Content]) -> Content:
        """The canonical content of these blocks as one dataset, in their order: that of one upload
        of the same records. Total: never raises on contents that registration accepted. `public` is
        that of one block."""


def block_name(by: str, name: str) -> str:
    """The name of a block. InvalidInput where it is none of such a source."""
    if by == "label":
        # What nobody sees would make two labels of one.
        if LABEL.fullmatch(name) is None or not name.isprintable() or name != name.strip():
            raise InvalidInput(
                "a label has 1 to 100 printable characters, none of them `/`", pointer="/block"
            )
        return name
    try:
        if FORMS[by].fullmatch(name) is None:
            raise ValueError
        date.fromisoformat(name if by == "day" else f"{name}-01")
    except ValueError:
        form = "2026-10-01" if by == "day" else "2026-10"
        raise InvalidInput(
            f"blocks of this source are {by}s, such as {form}", pointer="/block"
        ) from None
    return name


def _next(by: str, name: str) -> str:
    if by == "day":
        return (date.fromisoformat(name) + timedelta(days=1)).isoformat()
    year, month = map(int, name.split("-"))
    return f"{year + month // 12:04}-{month % 12 + 1:02}"


def _between(by: str, first: str, last: str, pointer: str) -> list[str]:
    """All names from one to the other. InvalidInput where they are too many."""
    found: list[str] = []
    name = first
    while name <= last:
        if len(found) == MOST_BLOCKS:
            raise InvalidInput(f"a job reads at most {MOST_BLOCKS} blocks", pointer=pointer)
        found.append(name)
        if name >= ("9999-12-31" if by == "day" else "9999-12"):
            break
        name = _next(by, name)
    return found


def chosen(asked: SourceBlocks, by: str, known: Sequence[str]) -> list[str]:
    """The names of the blocks that are asked for, in the order of `known`, all of the source's.

    InvalidInput for what names none, NotFound for blocks that are not there: days and months in
    between are not left out, for which of them had no records would then be told.
    """
    order = sorted(known) if by != "label" else list(known)
    there = set(order)
    if asked.last is not None:
        pointer = f"{POINTER}/last"
        if len(order) < asked.last:
            raise InvalidInput(f"the source has {len(order)} blocks", pointer=pointer)
        names = order[-asked.last :]
        if by != "label":
            names = _between(by, names[0], names[-1], pointer)
    else:
        pointer = f"{POINTER}/blocks"
        names = _named(asked, by, pointer)
        if len(set(names)) < len(names):
            raise InvalidInput("a block is named twice", pointer=pointer)
    if missing := [name for name in names if name not in there]:
        shown = ", ".join(missing[:MOST_NAMED]) + (", …" if len(missing) > MOST_NAMED else "")
        says = f"not registered: {shown}"
        if by != "label":
            says += f"; a {by} without records is registered too, with an empty content"
        raise NotFound(says, pointer=pointer)
    wanted = set(names)
    return [name for name in order if name in wanted]


def _named(asked: SourceBlocks, by: str, pointer: str) -> list[str]:
    if isinstance(asked.blocks, tuple):
        return list(asked.blocks)
    assert asked.blocks is not None
    first, ranged, last = asked.blocks.partition("/")
    if not ranged:
        return [first]
    if by == "label":
        raise InvalidInput("labels have no order, so a list of them is needed", pointer=pointer)
    try:
        first, last = (block_name(by, one) for one in (first, last))
    except InvalidInput as error:
        raise InvalidInput(
            f"{error.issues[0].detail}; a range is first/last", pointer=pointer
        ) from None
    if first > last:
        raise InvalidInput("the first block is after the last", pointer=pointer)
    return _between(by, first, last, pointer)


# What is claimed ----------------------------------------------------------------------------------


def assumptions(source: PlannedSource, unit: str, uncut: str = "") -> tuple[str, ...]:
    """What a price on blocks of a source guarantees and does not guarantee, and its assumptions.
    `uncut` is that of the kind's datasets."""
    where = {
        "day": "the day of its date",
        "month": "the month of its date",
        "label": "the label its owner gave it",
    }
    claim = (
        f"one {unit} lies in exactly one block, by {where[source.by]}. For every block b read: "
        f"whatever this source has released or will release, P(S) <= e^E P'(S) + D when one {unit} "
        "of b is added or removed and all else stays; (E, D) is the largest cap that grants on b "
        f"reached. Caps of blocks do not add up for one {unit}. Nothing is claimed about a person "
        "with several; moving it to another block costs both caps"
        if source.cap_of == "block"
        else f"one {unit} lies in exactly one block, by {where[source.by]}, and all blocks of this "
        "source have one account, to which each job is charged once, whichever blocks it reads: "
        f"whatever this source has released or will release, P(S) <= e^E P'(S) + D when one {unit} "
        "of any block is added or removed and all else stays; (E, D) is the largest cap that "
        "grants on the account reached. Nothing is claimed about a person with several"
    )
    checked = (
        "that a record belongs to its block is the claim of whoever gave the label; it was not "
        "checked"
        if source.by == "label"
        else "every record's date was checked against its block, late ones too, and no "
        f"{source.by} was left out of a range for having no records; the date itself is taken to "
        "be true"
    )
    return (
        claim,
        checked,
        *((uncut,) if uncut else ()),
        "when blocks and their versions were registered is public, and is taken to tell nothing of "
        "their records",
    )

"""Answers about sources and their blocks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from discreet.api.dataset_schemas import PlaceAnswer
from discreet.api.schemas import Figures
from discreet.problems.contents import Mode
from discreet.problems.sources import BlockBy, CapOf


class BlockAnswer(BaseModel):
    """A version of a block. Its size is not disclosed."""

    block: str
    version: int = Field(
        description="From 1; a later version adds late records and is charged to the same account"
    )
    dataset: str = Field(description="Its id: DELETE /v1/datasets/{id} erases its content")
    account: str
    created_at: datetime
    expires_at: datetime | None
    place: PlaceAnswer | None = Field(
        default=None,
        description="Where its content stays, if it is not stored; GET /v1/datasets/{id} tells "
        "owners the address",
    )
    notes: list[str] = Field(
        default_factory=list,
        description="Where its table was read by the source's reader: what was left out or changed",
    )


class SourceBlock(BlockAnswer):
    """The newest version of a block, and its budget."""

    erased: bool = Field(description="True if its content is gone; it is no longer read")
    cap: Figures
    spent: Figures
    reserved: Figures
    remaining: Figures


class RuleAnswer(BaseModel):
    """Who may spend which share of each block."""

    shares: dict[str, float] = Field(description="Share of each block by principal, as a fraction")
    lent_days: int = Field(
        description="Days over which the unused part of a share is lent to all, linearly"
    )
    version: int = Field(description="From 1; the newest version applies")
    created_by: str
    created_at: datetime


class SourceAnswer(BaseModel):
    """A source: data that keep arriving, in blocks. Only its public part may be corrected."""

    id: str
    name: str
    kind: str
    public: dict[str, Any] = Field(description="The public part of each block")
    revision: int = Field(
        default=1, description="1, and one more with each correction of its public part"
    )
    mode: Mode
    by: BlockBy
    cap: Figures = Field(description="The cap that a new account begins with")
    cap_of: CapOf
    block_bytes: int = Field(description="The most that the content of a block takes in memory")
    retention_days: int | None
    account: str | None = Field(description="The account of all blocks, with `cap_of: source`")
    created_by: str
    created_at: datetime
    rule: RuleAnswer | None = Field(
        default=None,
        description="Who may spend which share; null if whoever comes first may spend. Not in "
        "lists",
    )
    blocks: list[SourceBlock] | None = Field(
        default=None, description="In their order; not in lists"
    )


class SourcePage(BaseModel):
    """A page of sources, newest first."""

    sources: list[SourceAnswer]
    next_page_token: str | None

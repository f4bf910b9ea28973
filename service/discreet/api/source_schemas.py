"""What the API says of sources and their blocks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from discreet.api.schemas import Figures
from discreet.problems.contents import Mode
from discreet.problems.sources import BlockBy, CapOf


class BlockAnswer(BaseModel):
    """A version of a block. How much is in it is not told."""

    block: str
    version: int = Field(
        description="From 1: a later one has late records, and is charged to the same account"
    )
    dataset: str = Field(description="Its id: DELETE /v1/datasets/{id} erases its content")
    account: str
    created_at: datetime
    expires_at: datetime | None


class SourceBlock(BlockAnswer):
    """The newest version of a block, and its budget."""

    erased: bool = Field(description="Its content is gone: it is not read any more")
    cap: Figures
    spent: Figures
    reserved: Figures
    remaining: Figures


class RuleAnswer(BaseModel):
    """Who may spend which share of each block."""

    shares: dict[str, float] = Field(description="Of each block, by principal, in parts of one")
    lent_days: int = Field(
        description="What of a share is unused is lent to all, linearly over so many days"
    )
    version: int = Field(description="From 1; the newest counts")
    created_by: str
    created_at: datetime


class SourceAnswer(BaseModel):
    """A source: data that keep coming, in blocks. What it says of them is for good."""

    id: str
    name: str
    kind: str
    public: dict[str, Any] = Field(description="Of each block")
    mode: Mode
    by: BlockBy
    cap: Figures = Field(description="That a new account begins with")
    cap_of: CapOf
    block_bytes: int = Field(description="The most that the content of a block takes in memory")
    retention_days: int | None
    account: str | None = Field(description="Of all blocks, with `cap_of: source`")
    created_by: str
    created_at: datetime
    rule: RuleAnswer | None = Field(
        default=None,
        description="Who may spend which share; null: whoever comes first. Not in lists",
    )
    blocks: list[SourceBlock] | None = Field(
        default=None, description="In their order; not in lists"
    )


class SourcePage(BaseModel):
    """A page of sources, newest first."""

    sources: list[SourceAnswer]
    next_page_token: str | None

"""Answers about datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from discreet.problems.contents import Mode


class PlaceAnswer(BaseModel):
    """Where the content of a dataset stays."""

    at: Literal["file", "https", "s3", "postgresql"] = Field(
        description="A folder of the service's machine, a web server, a bucket or a database"
    )
    unchanged_at: datetime = Field(
        description="When it was last found there as it was registered: then, or by a job"
    )
    address: str | None = Field(
        default=None,
        description="Its address, of a web server without a query; for owners, where one dataset "
        "is asked for",
    )


class DatasetAnswer(BaseModel):
    """A registered dataset. Its content is never returned."""

    id: str
    name: str
    kind: str
    public: dict[str, Any]
    mode: Mode
    account: str
    created_at: datetime
    expires_at: datetime | None = Field(
        description="When the content is erased; null if it is kept"
    )
    delete_after_job: bool = Field(
        description="The content is erased after the first job that succeeds on it"
    )
    revision: int = Field(
        default=1, description="1, and one more with each correction of its public part"
    )
    undeclared: dict[str, str] = Field(
        default_factory=dict,
        description="Public fields that are not declared and that later questions may need, each "
        "with what it buys; a correction declares them",
    )
    source: str | None = Field(
        default=None, description="The source, if it is a version of a block"
    )
    block: str | None = Field(default=None, description="That block")
    place: PlaceAnswer | None = Field(
        default=None, description="Where its content stays, if it is not stored"
    )
    notes: list[str] = Field(
        default_factory=list,
        description="Where a table was read by its description: what was left out or changed, in "
        "sentences; only in the answer to who registers it",
    )


class ProposalAnswer(BaseModel):
    """A description to begin with, by the form of a file alone."""

    reader: dict[str, Any]
    columns: dict[str, str]


class ReadAnswer(BaseModel):
    """A file that is here, for a day, and was not registered."""

    id: str
    format: str
    bytes: int
    created_at: datetime
    expires_at: datetime = Field(description="When it is erased, unless it is registered before")


class LookAnswer(ReadAnswer):
    """What a file would be read as."""

    columns: list[str] = Field(description="The names of its columns")
    proposal: ProposalAnswer
    rows: list[dict[str, Any]] = Field(description="The first rows as they are understood")
    left_out: list[dict[str, Any]] = Field(description="Why rows are left out, and how many")
    notes: list[str]
    issues: list[dict[str, Any]] = Field(
        description="What is wrong: row, column, cause, found, expected, way_out, count, last"
    )
    count: int | None = Field(description="Rows of the file; null where it cannot be read")


class ErasedAnswer(BaseModel):
    """What remains of erased content."""

    id: str
    remains: list[str] = Field(
        description="Where its sealed bytes still exist, and until when, in sentences"
    )


class DatasetPage(BaseModel):
    """A page of datasets, newest first."""

    datasets: list[DatasetAnswer]
    next_page_token: str | None

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

"""Answers about federated sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from discreet.api.schemas import JobError
from discreet.storage.tables import JobState


class SessionTokensAnswer(BaseModel):
    """Links for agents, shown only once."""

    session: str
    links: list[str] = Field(
        description="One for each agent, good for one enrolment; in the order of `names`"
    )
    link: str | None = Field(description="The one link of a standing group, which holds no token")
    expires_at: datetime | None = None


class SessionAgentAnswer(BaseModel):
    """An agent that has enrolled."""

    name: str
    fingerprint: str
    key: str
    unit: str
    account: str
    announcement: dict[str, Any]
    enrolled_at: datetime
    on_roster: bool
    accepted: bool = Field(
        description="True if it has the roster and has recorded its charge in its own ledger"
    )
    receipt: dict[str, Any] | None = Field(description="Its signed receipt for that")
    speaks: list[str] = Field(
        description="Versions of protocols, methods and encryptions that it speaks, as it says"
    )
    cause: str | None = Field(
        description="Why the session could not go on without it; null if it could"
    )


class OpenedBefore(BaseModel):
    """What was opened of sums with an agent in them: chances to find it out add up over jobs."""

    for_each_agent: float = Field(
        description="Opened numbers for each agent among whom they were, summed over jobs"
    )
    numbers: int
    jobs: int


class SessionAnswer(BaseModel):
    """The session of a federated job."""

    id: str
    job: str
    kind: str
    state: JobState
    terms: dict[str, Any]
    parameters: dict[str, Any] | None = Field(
        description="What the owner signs with the roster besides the agents"
    )
    owner: str | None
    tokens: dict[str, int]
    agents: list[SessionAgentAnswer]
    roster: str | None
    approve_by: datetime | None = Field(
        description="When the session stops waiting for the signed roster; null if it does not wait"
    )
    approved_at: datetime | None
    round: int = Field(description="Completed rounds")
    opened_before: OpenedBefore = Field(
        description="Of the enrolled agent of whom most was opened without noise in other jobs"
    )
    error: JobError | None = Field(description="Why it failed, and what was charged")


class SessionAgainAnswer(BaseModel):
    """A job like one that has failed, without some of its agents."""

    job: str
    session: str
    link: str = Field(
        description="For all agents that remain: they start again with it and their own keys"
    )
    agents: list[str] = Field(description="Fingerprints of those")

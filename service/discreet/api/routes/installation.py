"""The state of the installation, for its operators."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from discreet.api.operations import operation
from discreet.usecases import operations
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

# Installation schemas -----------------------------------------------------------------------------
# Answers for operators about the whole installation.

Level = Literal["full", "partial", "none"]


class QueueState(BaseModel):
    """Jobs that have not ended."""

    queued: int
    awaiting_agents: int
    waiting_for_budget: int = Field(
        description="Jobs on sources that wait for shares to be lent; they are in no queue"
    )
    running: int
    leases_over: int = Field(description="Running jobs whose worker has been silent for too long")
    oldest_wait_seconds: float | None = Field(description="null if none waits")


class WaitingTenant(BaseModel):
    """A tenant whose jobs wait."""

    tenant: str = Field(description="Its name")
    queued: int
    running: int
    oldest_wait_seconds: float
    share: float = Field(
        description="Its share of the time that all waiting jobs have waited so far, in [0, 1]"
    )


class IsolationState(BaseModel):
    """How well the children of a process are isolated, as tested by one of them."""

    level: Level
    reached: list[str] = Field(description="What that child reached but should not have")
    walls: list[str] = Field(description="The walls that held")


class ProcessState(BaseModel):
    """A process of the service, as it reports itself."""

    part: Literal["api", "rpc", "worker"]
    host: str
    version: str
    schema_version: str = Field(description="The schema that its code expects")
    places: int | None = Field(description="How many jobs a worker can run at once")
    busy: int | None = Field(description="How many jobs a worker is running")
    helping: bool | None = Field(
        description="Whether a worker has read a share of a release that another worker runs"
    )
    isolation: IsolationState | None = Field(description="null if it has started no child yet")
    started_at: datetime
    seen_at: datetime
    silent_seconds: float
    alive: bool = Field(description="True if it reported within the last 60 s")


class CheckpointState(BaseModel):
    """The newest checkpoint of the transparency log."""

    size: int
    signed_at: datetime


class WitnessState(BaseModel):
    """A witness that the installation names."""

    name: str
    size: int | None = Field(
        description="Size of the largest checkpoint that it has signed; null if none"
    )
    signed_at: datetime | None = Field(description="When that signature arrived")
    behind_seconds: float = Field(
        description="For how long there has been a checkpoint that it has not signed"
    )
    signed_newest: bool


class LogState(BaseModel):
    """The transparency log and its witnesses."""

    checkpoint: CheckpointState | None
    pending: int = Field(description="Ledger entries not yet in the log; 10000 stands for more too")
    witnesses_needed: int
    witnesses: list[WitnessState]


class BackupNote(BaseModel):
    """A known backup."""

    made_at: datetime = Field(description="The time of the state that it holds")
    made_with: Literal["discreet", "other"] = Field(
        description="Written by `discreet backup`, or reported by `discreet note-backup`"
    )
    schema_version: str = Field(description="The schema of the database at that time")


class ArchiveState(BaseModel):
    """PostgreSQL's archive of its write-ahead log."""

    archived_at: datetime | None
    failed_at: datetime | None


class BackupState(BaseModel):
    """What is known of backups."""

    last: BackupNote | None = Field(description="null if none is known")
    archive: ArchiveState | None = Field(description="null if the server archives nothing")


class Versions(BaseModel):
    """Versions of the process that answers, and of the database."""

    service: str
    schema_version: str = Field(description="The schema that this process's code expects")
    database_schema_version: str
    postgres: str


class OperationsAnswer(BaseModel):
    """The state of the installation. It names tenants and how long their jobs wait, and says
    nothing else about them."""

    at: datetime
    checks: dict[str, str] = Field(
        description="By name of each check of `/readyz`: `ok`, or the reason why not"
    )
    queue: QueueState
    tenants: list[WaitingTenant] = Field(
        description="Tenants whose jobs wait, longest wait first; 20 at most"
    )
    processes: list[ProcessState]
    log: LogState
    backup: BackupState
    versions: Versions
    keys: str = Field(
        description="Where keys are kept: `file`, `pkcs11`, `awskms`; the place of new keys first"
    )


# Installation -------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1", tags=["health"])


@router.get(
    "/operations",
    **operation("read_operations", roles=["operator"], answers={200: OperationsAnswer}),
)
async def read_operations(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The state of the installation: queue, processes with the walls of their sandboxes,
    transparency log and witnesses, last backup, versions, and whose jobs wait (operators)."""
    return answer(await operations.state(services, principal))

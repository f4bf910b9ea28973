"""What the API tells operators of the installation as a whole."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

Level = Literal["full", "partial", "none"]


class QueueState(BaseModel):
    """Jobs that have not ended."""

    queued: int
    awaiting_agents: int
    waiting_for_budget: int = Field(
        description="Jobs on sources that wait for shares to be lent; on no queue"
    )
    running: int
    leases_over: int = Field(description="Of those that run: whose worker was silent for too long")
    oldest_wait_seconds: float | None = Field(description="null: none waits")


class WaitingTenant(BaseModel):
    """A tenant whose jobs wait."""

    tenant: str = Field(description="Its name")
    queued: int
    running: int
    oldest_wait_seconds: float
    share: float = Field(
        description="Of the time that all waiting jobs have waited until now, in 0..1"
    )


class IsolationState(BaseModel):
    """How well the children of a process are shut in, as one of them tried."""

    level: Level
    reached: list[str] = Field(description="What it reached and should not")
    walls: list[str] = Field(description="The walls that stood around it")


class ProcessState(BaseModel):
    """A process of the service, as it says of itself."""

    part: Literal["api", "rpc", "worker"]
    host: str
    version: str
    schema_version: str = Field(description="The schema that its code knows")
    places: int | None = Field(description="Of a worker, how many jobs it runs at once")
    busy: int | None = Field(description="Of a worker, how many it runs now")
    isolation: IsolationState | None = Field(description="null: it has started no child yet")
    started_at: datetime
    seen_at: datetime
    silent_seconds: float
    alive: bool = Field(description="It was heard of within 60 s")


class CheckpointState(BaseModel):
    """The newest checkpoint of the transparency log."""

    size: int
    signed_at: datetime


class WitnessState(BaseModel):
    """A witness that the installation names."""

    name: str
    size: int | None = Field(
        description="Of the largest checkpoint that it has signed; null: of none"
    )
    signed_at: datetime | None = Field(description="When that signature came")
    behind_seconds: float = Field(
        description="For how long there has been a checkpoint that it has not signed"
    )
    signed_newest: bool


class LogState(BaseModel):
    """The transparency log and its witnesses."""

    checkpoint: CheckpointState | None
    pending: int = Field(
        description="Ledger entries that it does not hold yet; 10000 where there are more"
    )
    witnesses_needed: int
    witnesses: list[WitnessState]


class BackupNote(BaseModel):
    """A backup that is known."""

    made_at: datetime = Field(description="The time whose state it holds")
    made_with: Literal["discreet", "other"] = Field(
        description="`discreet backup` wrote it, or `discreet note-backup` told of it"
    )
    schema_version: str = Field(description="The schema of the database then")


class ArchiveState(BaseModel):
    """PostgreSQL's archive of its write-ahead log."""

    archived_at: datetime | None
    failed_at: datetime | None


class BackupState(BaseModel):
    """What is known of backups."""

    last: BackupNote | None = Field(description="null: none is known")
    archive: ArchiveState | None = Field(description="null: the server archives nothing")


class Versions(BaseModel):
    """Versions of what answers, and of the database."""

    service: str
    schema_version: str = Field(description="The schema that this process's code knows")
    database_schema_version: str
    postgres: str


class OperationsAnswer(BaseModel):
    """The state of the installation. Of tenants it tells names and how long their jobs wait, and
    nothing else."""

    at: datetime
    checks: dict[str, str] = Field(description="`ok`, or why not, by check of `/readyz`")
    queue: QueueState
    tenants: list[WaitingTenant] = Field(
        description="Those whose jobs wait, who have waited most first; 20 at most"
    )
    processes: list[ProcessState]
    log: LogState
    backup: BackupState
    versions: Versions
    keys: str = Field(
        description="Where keys lie: `file`, `pkcs11`, `awskms`; of several that of new keys first"
    )

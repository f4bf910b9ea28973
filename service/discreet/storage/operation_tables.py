"""The tables of what operators look at, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, Integer, Numeric, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class Process(Base):
    """A process of the service, as it reports itself."""

    __tablename__ = "processes"
    __table_args__ = (
        CheckConstraint("part IN ('api', 'rpc', 'worker')", name="processes_part"),
        CheckConstraint("isolation IN ('full', 'partial', 'none')", name="processes_isolation"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    part: Mapped[str]
    host: Mapped[str]
    version: Mapped[str]
    schema: Mapped[str]
    places: Mapped[int | None] = mapped_column(Integer)
    queue_worker: Mapped[int | None] = mapped_column(BigInteger)
    isolation: Mapped[str | None]
    reached: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    walls: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    started_at: Mapped[datetime] = mapped_column(server_default=NOW)
    seen_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Backup(Base):
    """A backup that was reported."""

    __tablename__ = "backups"
    __table_args__ = (
        CheckConstraint("made_with IN ('discreet', 'other')", name="backups_made_with"),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    made_at: Mapped[datetime]
    made_with: Mapped[str]
    schema: Mapped[str]


class JobCount(Base):
    """A part of the number of a tenant's jobs of a kind that have not ended, by state."""

    __tablename__ = "job_counts"
    __table_args__ = (Index("job_counts_of", "tenant_id", "kind"),)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    tenant_id: Mapped[str]
    kind: Mapped[str]
    queued: Mapped[int] = mapped_column(server_default=text("0"))
    awaiting_agents: Mapped[int] = mapped_column(server_default=text("0"))
    waiting: Mapped[int] = mapped_column(server_default=text("0"))
    running: Mapped[int] = mapped_column(server_default=text("0"))
    queued_since: Mapped[Decimal] = mapped_column(Numeric, server_default=text("0"))

"""The tables of shares of sources and of jobs that wait for budget, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Float, ForeignKey, Identity, Index, Numeric
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class SourceRule(Base):
    """Who may spend which share of each block of a source. A row never changes."""

    __tablename__ = "source_rules"
    __table_args__ = (
        CheckConstraint("version > 0", name="source_rules_version"),
        CheckConstraint("lent_days BETWEEN 1 AND 3650", name="source_rules_lent_days"),
    )
    source_id: Mapped[str] = mapped_column(ForeignKey("sources.id"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    shares: Mapped[dict[str, Any]]
    lent_days: Mapped[int]
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class SourceUse(Base):
    """What a principal has spent or reserved on a block."""

    __tablename__ = "source_uses"
    source_id: Mapped[str] = mapped_column(ForeignKey("sources.id"), primary_key=True)
    block: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]
    epsilon: Mapped[int] = mapped_column(Numeric(38, 0))
    delta: Mapped[int] = mapped_column(Numeric(38, 0))
    rho: Mapped[int] = mapped_column(Numeric(38, 0))
    delta_z: Mapped[int] = mapped_column(Numeric(38, 0))


class JobWait(Base):
    """A job that waits for budget."""

    __tablename__ = "job_waits"
    __table_args__ = (
        Index("job_waits_place", "source_id", "place", "job_id"),
        Index("job_waits_next", "next_try"),
    )
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    source_id: Mapped[str] = mapped_column(ForeignKey("sources.id"))
    tenant_id: Mapped[str]
    place: Mapped[float] = mapped_column(Float(53))
    until: Mapped[datetime]
    next_try: Mapped[datetime]
    block: Mapped[str]


class SourceWake(Base):
    """Budget became free on a source: the jobs that wait there must be decided again."""

    __tablename__ = "source_wakes"
    __table_args__ = (Index("source_wakes_source", "source_id"),)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    source_id: Mapped[str]
    tenant_id: Mapped[str]


WAITS = (
    JobWait.next_try.label("waits_next"),
    JobWait.until.label("waits_until"),
    JobWait.block.label("waits_block"),
)
"""Columns that describe the wait of a job that waits, for queries of jobs."""

"""The tables of sources, whose blocks are datasets, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class Source(Base):
    """Data that keep coming, in blocks. The row never changes."""

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="sources_name"),
        CheckConstraint("mode IN ('private', 'simulation')", name="sources_mode"),
        CheckConstraint("block_by IN ('day', 'month', 'label')", name="sources_block_by"),
        CheckConstraint(
            "cap_of IN ('block', 'source') AND (cap_of = 'source') = (account_id IS NOT NULL)",
            name="sources_cap_of",
        ),
        Index("sources_page", "tenant_id", "created_at", "id"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    kind: Mapped[str]
    public: Mapped[dict[str, Any]]
    mode: Mapped[str]
    block_by: Mapped[str]
    cap_of: Mapped[str]
    cap: Mapped[dict[str, Any]]
    block_bytes: Mapped[int] = mapped_column(BigInteger)
    retention_days: Mapped[int | None]
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id"))
    chain_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id"))
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class BlockSums(Base):
    """What was spent on a block of a source that has one chain."""

    __tablename__ = "block_sums"
    chain_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), unique=True)
    tenant_id: Mapped[str]
    cap: Mapped[dict[str, Any]]
    filters: Mapped[str]
    totals: Mapped[dict[str, Any]]
    reserved: Mapped[dict[str, Any]]


class JobBlock(Base):
    """A version of a block that a job reads."""

    __tablename__ = "job_blocks"
    __table_args__ = (Index("job_blocks_dataset", "dataset_id"),)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    tenant_id: Mapped[str]

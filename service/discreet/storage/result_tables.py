"""The tables of what jobs tell, release and publish, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class JobEvent(Base):
    """The events of a job's stream, in order."""

    __tablename__ = "job_events"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    event: Mapped[str]
    details: Mapped[dict[str, Any]]


class Release(Base):
    """What a job's mechanisms released, sealed: written before `finish` starts, and kept as long as
    the result."""

    __tablename__ = "releases"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    attempt: Mapped[int]
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes | None]
    terms: Mapped[bytes | None]
    digest: Mapped[bytes | None]
    sealed: Mapped[bytes]
    at: Mapped[datetime] = mapped_column(server_default=NOW)


class JobShare(Base):
    """A share of a running release that other workers may read, with what they found, sealed."""

    __tablename__ = "job_shares"
    __table_args__ = (
        CheckConstraint("number >= 0 AND number < shares", name="job_shares_number"),
        Index(
            "job_shares_open",
            "job_id",
            postgresql_where=text("taken_by IS NULL AND wrapped_key IS NOT NULL"),
        ),
    )
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    shares: Mapped[int]
    attempt: Mapped[int]
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes | None]
    taken_by: Mapped[int | None] = mapped_column(BigInteger)
    sealed: Mapped[bytes | None]


class JobResult(Base):
    """A published result and its certificate, as JSON text; the result may go, the certificate
    stays."""

    __tablename__ = "job_results"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    result: Mapped[bytes | None]
    certificate: Mapped[dict[str, Any]]
    at: Mapped[datetime] = mapped_column(server_default=NOW)


class ResultTable(Base):
    """A large field of a result, as Parquet."""

    __tablename__ = "result_tables"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    parquet: Mapped[bytes]

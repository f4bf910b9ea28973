"""The tables of federated sessions, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class FederatedSession(Base):
    """The session of a federated job."""

    __tablename__ = "sessions"
    __table_args__ = (Index("sessions_lease", "lease_until"),)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    terms: Mapped[dict[str, Any]]
    budget: Mapped[dict[str, Any]]
    owner: Mapped[str | None]
    roster: Mapped[bytes | None]
    roster_signature: Mapped[bytes | None]
    owner_key: Mapped[bytes | None]
    approved_at: Mapped[datetime | None]
    holder: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    wanted: Mapped[str | None]
    round: Mapped[int] = mapped_column(BigInteger, server_default="0")
    content_key_id: Mapped[str | None]
    sealed: Mapped[bytes | None]
    transcript: Mapped[bytes | None]


class SessionToken(Base):
    """A one-time token for enrolment."""

    __tablename__ = "session_tokens"
    mac: Mapped[bytes] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime]
    used_by: Mapped[str | None]
    used_at: Mapped[datetime | None]
    name: Mapped[str | None]


class SessionAgent(Base):
    """An agent in a session, by the fingerprint of its key."""

    __tablename__ = "session_agents"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    unit: Mapped[str]
    announcement: Mapped[dict[str, Any]]
    enrolled_at: Mapped[datetime] = mapped_column(server_default=NOW)
    receipt: Mapped[dict[str, Any] | None]
    speaks: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    cause: Mapped[str | None]


class GroupMember(Base):
    """A member of a standing group of agents, which enrols in sessions without a token."""

    __tablename__ = "group_members"
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    group_name: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    unit: Mapped[str]
    announcement: Mapped[dict[str, Any]]
    speaks: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))

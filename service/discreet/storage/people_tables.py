"""The tables of people, of what they ask each other, and of the audit log, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy import Identity as Generated
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class Identity(Base):
    """A person, as an identity provider knows them, in one tenant."""

    __tablename__ = "identities"
    __table_args__ = (
        CheckConstraint(
            "role IN ('operator', 'owner', 'analyst', 'auditor')", name="identities_role"
        ),
        UniqueConstraint("issuer", "subject", "tenant_id", name="identities_person"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    issuer: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str | None]
    role: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    last_used_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    removed_at: Mapped[datetime | None]
    everywhere: Mapped[bool] = mapped_column(server_default=text("false"))
    used_window: Mapped[int | None] = mapped_column(BigInteger)
    used_requests: Mapped[int] = mapped_column(Integer, server_default="0")


class AuditEntry(Base):
    """A change and who made it. The table is append-only."""

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("audit_log_tenant", "tenant_id", "id"),
        Index("audit_log_action", "tenant_id", "action", "id"),
        Index("audit_log_principal", "tenant_id", "principal", "id"),
        Index("audit_log_keys_made", "credential", postgresql_where=text("action = 'key.create'")),
    )
    id: Mapped[int] = mapped_column(BigInteger, Generated(always=True), primary_key=True)
    tenant_id: Mapped[str]
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    action: Mapped[str]
    object: Mapped[str | None]
    principal: Mapped[str]
    role: Mapped[str]
    credential: Mapped[str]
    issuer: Mapped[str | None]
    subject: Mapped[str | None]
    details: Mapped[dict[str, Any]]


class BudgetRequest(Base):
    """A request to an owner to raise a cap."""

    __tablename__ = "budget_requests"
    __table_args__ = (
        Index("budget_requests_account", "account_id", "created_at", "id"),
        Index(
            "budget_requests_open",
            "tenant_id",
            "principal",
            postgresql_where=text("state = 'open'"),
        ),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    principal: Mapped[str]
    more: Mapped[dict[str, Any]]
    reason: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    state: Mapped[str] = mapped_column(server_default="open")
    answered_by: Mapped[str | None]
    answer: Mapped[str | None]
    answered_at: Mapped[datetime | None]

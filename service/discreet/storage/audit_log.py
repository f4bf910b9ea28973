"""The audit log: who changed what.

An entry is written in the transaction of its change, so neither exists without the other, and the
database refuses to alter or delete it. It names the principal and, of a person, issuer and subject,
and never holds private content or a secret.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.people_tables import AuditEntry
from discreet.storage.tenants import Principal

Action = Literal[
    "cap.grant",
    "cap.set",
    "budget_request.decline",
    "dataset.correct",
    "dataset.erase",
    "dataset.place",
    "dataset.register",
    "dataset.retention",
    "key.create",
    "key.revoke",
    "login.end",
    "login.end_by_provider",
    "login.key",
    "login.link",
    "login.link_made",
    "login.provider",
    "object.add",
    "object.remove",
    "person.remove",
    "person.restore",
    "place.fail",
    "read.look",
    "read.remove",
    "roster.remove_member",
    "roster.sign",
    "session.again",
    "session.tokens",
    "source.correct",
    "source.create",
    "source.rule",
    "tenant.create",
    "webhook.create",
    "webhook.remove",
]


async def note(
    connection: AsyncConnection,
    principal: Principal,
    action: Action,
    about: str | None = None,
    *,
    tenant_id: str | None = None,
    **details: Any,
) -> None:
    """Add an entry: `principal` did this to that object, in their tenant or another (an operator's
    change)."""
    await connection.execute(
        insert(AuditEntry).values(
            tenant_id=tenant_id or principal.tenant_id,
            action=action,
            object=about,
            principal=principal.name,
            role=principal.role,
            credential=principal.key_id,
            issuer=principal.issuer,
            subject=principal.subject,
            details=details,
        )
    )


async def page(
    connection: AsyncConnection,
    tenant_id: str | None,
    *,
    before: int | None = None,
    action: str | None = None,
    principal: str | None = None,
    since: datetime | None = None,
    size: int,
) -> list[dict[str, Any]]:
    """Entries of the tenant (None, in the system's scope: of all), newest first, before this
    number."""
    columns = list(AuditEntry.__table__.columns)
    statement = select(*columns).order_by(AuditEntry.id.desc()).limit(size)
    if tenant_id is not None:
        statement = statement.where(AuditEntry.tenant_id == tenant_id)
    if before is not None:
        statement = statement.where(AuditEntry.id < before)
    if action is not None:
        statement = statement.where(AuditEntry.action == action)
    if principal is not None:
        statement = statement.where(AuditEntry.principal == principal)
    if since is not None:
        statement = statement.where(AuditEntry.at >= since)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]

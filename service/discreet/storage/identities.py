"""People of identity providers, as tenants know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Database
from discreet.storage.people_tables import Identity
from discreet.storage.rows import one_of
from discreet.storage.tables import Tenant, WebSession

Row = Mapping[str, Any]

COLUMNS = (
    Identity.id,
    Identity.tenant_id,
    Identity.issuer,
    Identity.subject,
    Identity.name,
    Identity.role,
    Identity.created_at,
    Identity.last_used_at,
    Identity.removed_at,
    Identity.everywhere,
)


def principal_name(issuer: str, subject: str) -> str:
    """This person's name in budgets, caps and the ledger. An issuer contains no `#`, so no two
    persons share a name."""
    return f"{issuer}#{subject}"


def is_a_persons_name(name: str) -> bool:
    """Whether a name has the form of a person's: no key may be called so, or it would spend and
    sign as that person."""
    return name.startswith(("https://", "http://")) and "#" in name


@dataclass(frozen=True)
class Known:
    """What is known about a person in a tenant."""

    id: str | None
    """None for a person who was removed before their first login."""
    tenant_id: str | None
    """None: there is no such tenant."""
    removed: bool
    ended_at: datetime | None
    """Logins and tokens from up to then count no more."""


async def meet(database: Database, **values: Any) -> Known:
    """The person's row in the tenant of this name or id, made at the first time, with the newest
    name and role.

    Sent again where the connection breaks, which changes nothing more.
    """
    (row,) = await database.ask(_MEET, values)
    return Known(row["id"], row["tenant"], row["removed"], row["ended_at"])


async def page(
    connection: AsyncConnection, tenant_id: str | None, subject: str | None
) -> list[dict[str, Any]]:
    """People of the tenant (None, in the system's scope: of all), who came last first; of this
    subject, if given."""
    statement = select(*COLUMNS, Tenant.name.label("tenant")).join(
        Tenant, Tenant.id == Identity.tenant_id
    )
    if tenant_id is not None:
        statement = statement.where(Identity.tenant_id == tenant_id)
    if subject is not None:
        statement = statement.where(Identity.subject == subject)
    order = statement.order_by(Identity.last_used_at.desc().nulls_last(), Identity.id).limit(1000)
    return [dict(row) for row in (await connection.execute(order)).mappings()]


async def find(connection: AsyncConnection, identity_id: str, tenant_id: str | None) -> Row | None:
    statement = select(*COLUMNS).where(Identity.id == identity_id)
    if tenant_id is not None:
        statement = statement.where(Identity.tenant_id == tenant_id)
    return one_of(await connection.execute(statement))


async def is_welcome(connection: AsyncConnection, identity_id: str) -> bool:
    """Whether the person of this row has access, that is, was not removed."""
    statement = select(Identity.id).where(Identity.id == identity_id, Identity.removed_at.is_(None))
    return (await connection.execute(statement)).first() is not None


async def role_of(
    connection: AsyncConnection, tenant_id: str, issuer: str, subject: str
) -> str | None:
    """The newest role of a person in the tenant; None if they have never logged in there."""
    statement = select(Identity.role).where(
        Identity.issuer == issuer, Identity.subject == subject, Identity.tenant_id == tenant_id
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def lock(connection: AsyncConnection, issuer: str, subject: str) -> None:
    """Nobody else meets this person for the first time, or removes them, until this transaction
    ends."""
    await connection.execute(_LOCK, {"issuer": issuer, "subject": subject})


async def remove(
    connection: AsyncConnection,
    identity_id: str,
    tenant_id: str,
    issuer: str,
    subject: str,
    *,
    everywhere: bool,
) -> str:
    """End all that this person has in the tenant, or everywhere, for good; the id of their row in
    the tenant.

    A person who was never here gets a row that says so. The transaction must see the tenants that
    it concerns.
    """
    made = {
        "removed_at": func.clock_timestamp(),
        "ended_at": func.clock_timestamp(),
        "everywhere": everywhere,
    }
    statement = upsert(Identity).values(
        id=identity_id, tenant_id=tenant_id, issuer=issuer, subject=subject, role="auditor", **made
    )
    row = await connection.execute(
        statement.on_conflict_do_update(
            constraint="identities_person",
            set_={**made, "everywhere": Identity.everywhere | everywhere},
        ).returning(Identity.id)
    )
    if everywhere:
        others = update(Identity).where(Identity.issuer == issuer, Identity.subject == subject)
        await connection.execute(others.values(made))
    await _end_sessions(connection, issuer, subject, None if everywhere else tenant_id)
    return str(row.scalar_one())


async def restore(
    connection: AsyncConnection, tenant_id: str | None, issuer: str, subject: str
) -> int:
    """Let the person in again; returns how many rows changed. Sessions and keys from before the
    removal stay ended."""
    statement = update(Identity).where(
        Identity.issuer == issuer, Identity.subject == subject, Identity.removed_at.is_not(None)
    )
    if tenant_id is not None:
        statement = statement.where(Identity.tenant_id == tenant_id)
    return (await connection.execute(statement.values(removed_at=None, everywhere=False))).rowcount


async def is_removed_everywhere(connection: AsyncConnection, issuer: str, subject: str) -> bool:
    """In the scope of all tenants."""
    statement = select(Identity.id).where(
        Identity.issuer == issuer,
        Identity.subject == subject,
        Identity.everywhere,
        Identity.removed_at.is_not(None),
    )
    return (await connection.execute(statement.limit(1))).first() is not None


async def end(
    connection: AsyncConnection, issuer: str, subject: str, moment: datetime
) -> list[Row]:
    """End what this person has from up to the moment, by the provider's clock, in all tenants;
    their rows there."""
    statement = (
        update(Identity)
        .where(Identity.issuer == issuer, Identity.subject == subject)
        .values(ended_at=func.greatest(Identity.ended_at, moment))
        .returning(*COLUMNS)
    )
    rows: list[Row] = [dict(row) for row in (await connection.execute(statement)).mappings()]
    await _end_sessions(connection, issuer, subject, None, until=moment)
    return rows


async def subjects_of(connection: AsyncConnection, issuer: str, session: str) -> list[str]:
    """Whose logins the provider calls by this `sid`."""
    statement = (
        select(Identity.subject)
        .join(WebSession, WebSession.identity_id == Identity.id)
        .where(Identity.issuer == issuer, WebSession.sid == session)
    )
    return list((await connection.execute(statement.distinct())).scalars())


async def _end_sessions(
    connection: AsyncConnection,
    issuer: str,
    subject: str,
    tenant_id: str | None,
    until: datetime | None = None,
) -> None:
    whose = select(Identity.id).where(Identity.issuer == issuer, Identity.subject == subject)
    if tenant_id is not None:
        whose = whose.where(Identity.tenant_id == tenant_id)
    statement = delete(WebSession).where(WebSession.identity_id.in_(whose))
    if until is not None:
        statement = statement.where(
            or_(WebSession.issued_at.is_(None), WebSession.issued_at <= until)
        )
    await connection.execute(statement)


_MEET = text(
    "SELECT id, tenant, removed, ended_at FROM meet_identity(:new, :tenant, :issuer, :subject, "
    ":name, :role)"
)
_LOCK = text("SELECT pg_advisory_xact_lock(identity_lock(:issuer, :subject))")

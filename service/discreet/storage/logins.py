"""Logins of the dashboard: sessions by their cookie, and links that log in once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.identities import principal_name
from discreet.storage.people_tables import Identity
from discreet.storage.tables import Key, LoginLink, Tenant, WebSession
from discreet.storage.tenants import Principal


@dataclass(frozen=True)
class Login:
    """Who is logged in and until when, the name of the tenant, and the person's or the key's name
    for people."""

    principal: Principal
    tenant: str
    expires_at: datetime
    called: str


async def add_session(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(WebSession).values(**values))


async def find_session(connection: AsyncConnection, mac: bytes) -> Login | None:
    """The login of a valid session: neither it, nor its key or person, has expired or was
    revoked."""
    statement = (
        select(
            WebSession.expires_at,
            Tenant.name.label("tenant"),
            WebSession.tenant_id,
            WebSession.role,
            *_HOLDERS,
        )
        .join_from(WebSession, Tenant, Tenant.id == WebSession.tenant_id)
        .outerjoin(Key, Key.id == WebSession.key_id)
        .outerjoin(Identity, Identity.id == WebSession.identity_id)
        .where(WebSession.mac == mac, WebSession.expires_at > func.now())
        .where(
            or_(and_(Key.id.is_not(None), *_living()), and_(Identity.id.is_not(None), *_welcome()))
        )
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    if row.identity_id is None:
        principal = Principal(row.tenant_id, row.key_principal, row.key_role, row.key_id)
        return Login(principal, row.tenant, row.expires_at, row.key_principal)
    name = principal_name(row.issuer, row.subject)
    principal = Principal(row.tenant_id, name, row.role, row.identity_id, row.issuer, row.subject)
    return Login(principal, row.tenant, row.expires_at, row.called or row.subject)


async def end_session(connection: AsyncConnection, mac: bytes) -> bytes | None:
    """End the session; returns the hint that was stored for logging out at the provider."""
    statement = delete(WebSession).where(WebSession.mac == mac).returning(WebSession.hint)
    return (await connection.execute(statement)).scalar_one_or_none()


async def add_link(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(LoginLink).values(**values))


async def find_link(connection: AsyncConnection, mac: bytes) -> Principal | None:
    """Whom an unused link logs in; None if it was used or has expired, or if its key was revoked
    or has expired."""
    statement = (
        select(Key.tenant_id, Key.principal, Key.role, Key.id)
        .join_from(LoginLink, Key, Key.id == LoginLink.key_id)
        .where(LoginLink.mac == mac, LoginLink.expires_at > func.now(), *_living())
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else Principal(row[0], row[1], row[2], row[3])


async def use_link(connection: AsyncConnection, mac: bytes) -> bool:
    """Use up a link; False if it was used already."""
    return (await connection.execute(delete(LoginLink).where(LoginLink.mac == mac))).rowcount == 1


async def forget_expired(connection: AsyncConnection) -> None:
    for table in (WebSession, LoginLink):
        await connection.execute(delete(table).where(table.expires_at < func.now()))


_HOLDERS = (
    Key.id.label("key_id"),
    Key.principal.label("key_principal"),
    Key.role.label("key_role"),
    Identity.id.label("identity_id"),
    Identity.issuer,
    Identity.subject,
    Identity.name.label("called"),
)


def _welcome() -> tuple[Any, ...]:
    """The person was not removed, and their provider has not ended their logins since this one."""
    ended = or_(Identity.ended_at.is_(None), WebSession.issued_at > Identity.ended_at)
    return Identity.removed_at.is_(None), ended


def _living() -> tuple[Any, ...]:
    """The key was not revoked and has not expired."""
    return Key.revoked_at.is_(None), or_(Key.expires_at.is_(None), Key.expires_at > func.now())

"""Logins of the dashboard: sessions by their cookie, and links that log in once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.tables import Key, LoginLink, Tenant, WebSession
from discreet.storage.tenants import Principal


@dataclass(frozen=True)
class Login:
    """Who is logged in, until when, and the name of the tenant."""

    principal: Principal
    tenant: str
    expires_at: datetime


async def add_session(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(WebSession).values(**values))


async def find_session(connection: AsyncConnection, mac: bytes) -> Login | None:
    """The login of a session that counts now: neither it nor the key that it came from has ended."""
    statement = (
        select(Key.tenant_id, Key.principal, Key.role, Key.id, Tenant.name, WebSession.expires_at)
        .join_from(WebSession, Key, Key.id == WebSession.key_id)
        .join(Tenant, Tenant.id == Key.tenant_id)
        .where(WebSession.mac == mac, WebSession.expires_at > func.now(), *_living())
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else Login(Principal(row[0], row[1], row[2], row[3]), row[4], row[5])


async def end_session(connection: AsyncConnection, mac: bytes) -> None:
    await connection.execute(delete(WebSession).where(WebSession.mac == mac))


async def add_link(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(LoginLink).values(**values))


async def find_link(connection: AsyncConnection, mac: bytes) -> Principal | None:
    """Whom an unused link logs in; None when it was used, has expired, or its key has ended."""
    statement = (
        select(Key.tenant_id, Key.principal, Key.role, Key.id)
        .join_from(LoginLink, Key, Key.id == LoginLink.key_id)
        .where(LoginLink.mac == mac, LoginLink.expires_at > func.now(), *_living())
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else Principal(row[0], row[1], row[2], row[3])


async def use_link(connection: AsyncConnection, mac: bytes) -> bool:
    """False when somebody else was first."""
    return (await connection.execute(delete(LoginLink).where(LoginLink.mac == mac))).rowcount == 1


async def forget_expired(connection: AsyncConnection) -> None:
    for table in (WebSession, LoginLink):
        await connection.execute(delete(table).where(table.expires_at < func.now()))


def _living() -> tuple[Any, ...]:
    return Key.revoked_at.is_(None), or_(Key.expires_at.is_(None), Key.expires_at > func.now())

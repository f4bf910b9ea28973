"""Tenants and API keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Database
from discreet.storage.tables import Key, Tenant


@dataclass(frozen=True)
class Principal:
    """Who is asking: a key's owner within a tenant, with a role."""

    tenant_id: str
    name: str
    role: str
    key_id: str


async def add_tenant(connection: AsyncConnection, tenant_id: str, name: str) -> bool:
    """False when the name is taken."""
    statement = upsert(Tenant).values(id=tenant_id, name=name).on_conflict_do_nothing().returning(Tenant.id)
    return (await connection.execute(statement)).first() is not None


async def find_tenant(connection: AsyncConnection, name: str) -> str | None:
    return (await connection.execute(select(Tenant.id).where(Tenant.name == name))).scalar_one_or_none()


async def add_key(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(Key).values(**values))


async def revoke_key(connection: AsyncConnection, key_id: str, tenant_id: str | None) -> bool:
    """False when there is no such living key (of this tenant, if one is given)."""
    statement = update(Key).where(Key.id == key_id, Key.revoked_at.is_(None)).values(revoked_at=func.now())
    if tenant_id is not None:
        statement = statement.where(Key.tenant_id == tenant_id)
    return (await connection.execute(statement)).rowcount == 1


async def set_mac(connection: AsyncConnection, key_id: str, mac: bytes, pepper_id: str) -> None:
    """The key's MAC under another pepper."""
    await connection.execute(update(Key).where(Key.id == key_id).values(mac=mac, pepper_id=pepper_id))


async def has_keys(connection: AsyncConnection, tenant_id: str) -> bool:
    return (await connection.execute(select(Key.id).where(Key.tenant_id == tenant_id).limit(1))).first() is not None


async def list_keys(connection: AsyncConnection, tenant_id: str) -> list[dict[str, Any]]:
    columns = (Key.id, Key.principal, Key.role, Key.created_at, Key.expires_at, Key.revoked_at)
    statement = select(*columns).where(Key.tenant_id == tenant_id).order_by(Key.created_at, Key.id)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def find_key(database: Database, lookup: str) -> tuple[Principal, bytes] | None:
    """The principal of a key that counts now, and the MAC that the whole key must have."""
    rows = await database.ask(_FIND_KEY, {"lookup": lookup})
    if not rows:
        return None
    (row,) = rows
    return Principal(row["tenant_id"], row["principal"], row["role"], row["id"]), bytes(row["mac"])


_FIND_KEY = text("SELECT tenant_id, principal, role, id, mac FROM find_key(:lookup)")

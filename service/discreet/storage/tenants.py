"""Tenants and API keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Database
from discreet.storage.rows import lock_key
from discreet.storage.tables import Key, Tenant

KEYS_CHANNEL = "discreet_keys"
"""Notified with a key's id when it is revoked or changed (a trigger: whoever changes it)."""


@dataclass(frozen=True)
class Principal:
    """Who is asking, within a tenant and with a role: the holder of a key, or a person of an
    identity provider."""

    tenant_id: str
    name: str
    """Their name in budgets, caps and the ledger. For a person it is `issuer#subject`, a form
    that no key's name may have."""
    role: str
    key_id: str
    """The key, or the row of the person in this tenant: what quotas and logins belong to."""
    issuer: str | None = None
    subject: str | None = None


async def add_tenant(connection: AsyncConnection, tenant_id: str, name: str) -> bool:
    """Add a tenant; False if the name is taken."""
    statement = (
        upsert(Tenant).values(id=tenant_id, name=name).on_conflict_do_nothing().returning(Tenant.id)
    )
    return (await connection.execute(statement)).first() is not None


async def find_tenant(connection: AsyncConnection, tenant: str) -> str | None:
    """The id of the tenant with this name or, where none is called so, with this id."""
    statement = select(Tenant.id).where((Tenant.name == tenant) | (Tenant.id == tenant))
    return (
        await connection.execute(statement.order_by(Tenant.name != tenant).limit(1))
    ).scalar_one_or_none()


async def name_of(connection: AsyncConnection, tenant_id: str) -> str | None:
    """The name of the tenant with this id."""
    return (
        await connection.execute(select(Tenant.name).where(Tenant.id == tenant_id))
    ).scalar_one_or_none()


async def all_ids(connection: AsyncConnection) -> list[str]:
    """Every tenant, in the system's scope."""
    return list((await connection.execute(select(Tenant.id).order_by(Tenant.id))).scalars())


async def list_tenants(connection: AsyncConnection) -> list[dict[str, Any]]:
    """All tenants, oldest first; the transaction must be the system's."""
    statement = select(Tenant.id, Tenant.name, Tenant.created_at).order_by(
        Tenant.created_at, Tenant.id
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def add_key(connection: AsyncConnection, **values: Any) -> None:
    await connection.execute(insert(Key).values(**values))


async def revoke_key(connection: AsyncConnection, key_id: str, tenant_id: str | None) -> str | None:
    """The key's tenant; None when there is no such living key (of this tenant, if one is given)."""
    statement = (
        update(Key).where(Key.id == key_id, Key.revoked_at.is_(None)).values(revoked_at=func.now())
    )
    if tenant_id is not None:
        statement = statement.where(Key.tenant_id == tenant_id)
    return (await connection.execute(statement.returning(Key.tenant_id))).scalar_one_or_none()


async def lock_access(connection: AsyncConnection) -> None:
    """Lock out other changes of keys and people until this transaction ends. These are rare, and
    one order for all of them ensures that no two miss each other."""
    await lock_key(connection, "access")


async def living_key(connection: AsyncConnection, key_id: str, tenant_id: str | None) -> str | None:
    """The role of the key; None when there is no such key (of this tenant, if one is given) that
    was not revoked."""
    statement = select(Key.role).where(Key.id == key_id, Key.revoked_at.is_(None))
    if tenant_id is not None:
        statement = statement.where(Key.tenant_id == tenant_id)
    return (await connection.execute(statement)).scalar_one_or_none()


async def keys_made_by(
    connection: AsyncConnection, issuer: str, subject: str, tenant_id: str | None
) -> list[dict[str, Any]]:
    """Keys with id, role and tenant that count and that this person has made (in this tenant, if
    one is given), or that were made with such a key, at any distance. The audit log, which nobody
    can change, has who made which."""
    values = {"issuer": issuer, "subject": subject, "tenant": tenant_id}
    return [dict(row) for row in (await connection.execute(_KEYS_MADE_BY, values)).mappings()]


async def set_mac(connection: AsyncConnection, key_id: str, mac: bytes, pepper_id: str) -> None:
    """The key's MAC under another pepper."""
    await connection.execute(
        update(Key).where(Key.id == key_id).values(mac=mac, pepper_id=pepper_id)
    )


async def has_keys(connection: AsyncConnection, tenant_id: str) -> bool:
    return (
        await connection.execute(select(Key.id).where(Key.tenant_id == tenant_id).limit(1))
    ).first() is not None


async def list_keys(connection: AsyncConnection, tenant_id: str) -> list[dict[str, Any]]:
    columns = (
        Key.id,
        Key.principal,
        Key.role,
        Key.created_at,
        Key.expires_at,
        Key.revoked_at,
        Key.last_used_at,
    )
    statement = select(*columns).where(Key.tenant_id == tenant_id).order_by(Key.created_at, Key.id)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


@dataclass(frozen=True)
class FoundKey:
    """A key as the database knows it; whoever presents it must show the whole, whose MAC is
    `mac`."""

    principal: Principal
    mac: bytes
    revoked: bool
    seconds_left: float | None
    """Until it expires; not positive: it has. None: it does not expire."""


async def find_key(database: Database, lookup: str) -> FoundKey | None:
    """The key with this public part, whatever has become of it."""
    rows = await database.ask(_FIND_KEY, {"lookup": lookup})
    if not rows:
        return None
    (row,) = rows
    principal = Principal(row["tenant_id"], row["principal"], row["role"], row["id"])
    return FoundKey(principal, bytes(row["mac"]), row["revoked"], row["seconds_left"])


async def take_requests(
    database: Database, key_id: str, *, seconds: int, quota: int, block: int
) -> tuple[int, int, float]:
    """Requests of a key that are set aside for this process: how many, how many all processes got
    in this window of `seconds`, and how long it still lasts. Sent again where the connection
    breaks, which may set a block aside in vain.
    """
    values = {"key": key_id, "seconds": seconds, "quota": quota, "block": block}
    (row,) = await database.ask(_TAKE_REQUESTS, values)
    return row["granted"], row["taken"], row["seconds_left"]


_KEYS_MADE_BY = text("""
    -- Keys that a person has made, and keys that were made with these, at any distance, as the
    -- audit log says: there a person's credential is the id of their row in a tenant.
    WITH RECURSIVE made AS (
      SELECT object AS key FROM audit_log WHERE action = 'key.create' AND credential IN
        (SELECT id FROM identities WHERE issuer = :issuer AND subject = :subject)
      UNION SELECT following.object FROM made CROSS JOIN LATERAL (
        SELECT object FROM audit_log WHERE action = 'key.create' AND credential = made.key
        OFFSET 0  -- key by key, by the index: few keys have made others
      ) AS following
    )
    SELECT keys.id, keys.role, keys.tenant_id FROM keys JOIN made ON made.key = keys.id
      WHERE keys.revoked_at IS NULL
        AND (CAST(:tenant AS text) IS NULL OR keys.tenant_id = :tenant)
      ORDER BY keys.id
""")
_FIND_KEY = text(
    "SELECT tenant_id, principal, role, id, mac, revoked, seconds_left FROM open_key(:lookup)"
)
_TAKE_REQUESTS = text(
    "SELECT granted, taken, seconds_left FROM take_requests(:key, :seconds, :quota, :block)"
)

"""Tenants and API keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Database, lock_key, one_of
from discreet.storage.people_tables import Identity
from discreet.storage.tables import Key, LoginLink, Tenant, WebSession

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


# Identities ---------------------------------------------------------------------------------------
# People of identity providers, as tenants know them.

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


# Logins -------------------------------------------------------------------------------------------
# Logins of the dashboard: sessions by their cookie, and links that log in once.


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

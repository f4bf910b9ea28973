"""API keys and roles.

A key is `dsc_` + 12 characters that find it + 40 secret ones + 6 of checksum. The checksum tells a
typing error, or a key in a leaked file, without asking the database; what is stored is the public
part and an HMAC of the whole.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as random
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from discreet.errors import Conflict, FieldIssue, Forbidden, InvalidInput, NotFound, Unauthenticated
from discreet.storage import audit_log, tenants
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.secrets import Secrets
from discreet.storage.tenants import FoundKey, Principal, is_a_persons_name
from discreet.usecases.services import Services

PREFIX = "dsc_"
ROLES = ("operator", "owner", "analyst", "auditor")
KEEPERS = ("operator", "owner")
"""Roles that may make and revoke keys."""

DEFAULT_TENANT = "default"

LOCAL = "local"
"""Stands for the key of a command that works on the database itself."""

REMOVED = "person_removed"

MOST_LIFE = timedelta(days=3653)
"""A key with an expiry expires within so long."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LOOKUP, _SECRET, _CHECKSUM = 12, 40, 6


def new_key() -> str:
    """A fresh key: 238 secret bits."""
    body = "".join(random.choice(_ALPHABET) for _ in range(_LOOKUP + _SECRET))
    return PREFIX + body + _checksum(body)


def is_well_formed(key: str) -> bool:
    """Whether prefix, length and checksum are right; this does not say whether the key is valid."""
    body, checksum = key[len(PREFIX) : -_CHECKSUM], key[-_CHECKSUM:]
    return (
        key.startswith(PREFIX)
        and len(body) == _LOOKUP + _SECRET
        and key.isascii()
        and body.isalnum()
        and hmac.compare_digest(_checksum(body), checksum)
    )


async def authenticate(services: Services, key: str) -> Principal:
    """Who holds this key; Unauthenticated with a code that says what is wrong with it.

    Asks the database every time. `keyring.Keyring` knows the keys that a process has seen.
    """
    return (await find(services, key)).principal


async def find(services: Services, key: str) -> FoundKey:
    """The same, with what else is known about the key."""
    if not is_well_formed(key):
        raise Unauthenticated(
            "this is not a discreet API key: its form or its checksum is wrong, perhaps by a "
            "typing error",
            code="key_malformed",
        )
    found = await tenants.find_key(services.database, lookup_of(key))
    # Who shows the whole key may know what became of it; nobody else learns even that it exists.
    if found is None or not await opens(services, key, found.principal, found.mac):
        raise Unauthenticated("this API key is unknown", code="key_unknown")
    if found.revoked:
        raise Unauthenticated("this API key was revoked", code="key_revoked")
    if found.seconds_left is not None and found.seconds_left <= 0:
        raise Unauthenticated("this API key has expired", code="key_expired")
    return found


async def opens(services: Services, key: str, holder: Principal, mac: bytes) -> bool:
    """Whether this is the key that was stored as `mac`. A MAC under the pepper before a
    rotation, or after it, is valid too, and is moved to the pepper in use."""
    secrets = services.secrets
    if hmac.compare_digest(mac, mac_of(secrets, key)):
        return True
    if not any(
        hmac.compare_digest(mac, mac_of(secrets, key, pepper)) for pepper in secrets.other_peppers
    ):
        return False
    async with services.database.transaction(holder.tenant_id) as connection:
        await tenants.set_mac(connection, holder.key_id, mac_of(secrets, key), secrets.pepper_id)
    return True


def require(principal: Principal, *roles: str) -> None:
    """Forbidden unless the principal has one of these roles."""
    if principal.role not in roles:
        holder = "this key has" if principal.issuer is None else "this person has"
        raise Forbidden(
            f"this needs the role {' or '.join(roles)}; {holder} the role {principal.role}"
        )


async def hold(connection: Any, principal: Principal) -> None:
    """Lock changes of access until this transaction ends, and check that the principal still has
    access. Unauthenticated if they were removed, or their key was revoked, while the request was
    being served."""
    await tenants.lock_access(connection)
    if principal.issuer is not None:
        if not await tenants.is_welcome(connection, principal.key_id):
            raise Unauthenticated(
                "this person was removed here; an owner or operator can undo that", code=REMOVED
            )
    elif (
        principal.key_id != LOCAL
        and await tenants.living_key(connection, principal.key_id, None) is None
    ):
        raise Unauthenticated("this API key was revoked", code="key_revoked")


async def create_tenant(services: Services, principal: Principal, name: str) -> dict[str, Any]:
    require(principal, "operator")
    tenant_id = new_id("ten")
    async with services.database.transaction(SYSTEM) as connection:
        if not await tenants.add_tenant(connection, tenant_id, name):
            raise Conflict(f"there is a tenant {name} already", code="name_taken")
        await audit_log.note(
            connection, principal, "tenant.create", tenant_id, tenant_id=tenant_id, name=name
        )
    return {"id": tenant_id, "name": name}


async def list_tenants(services: Services, principal: Principal) -> list[dict[str, Any]]:
    require(principal, "operator")
    async with services.database.transaction(SYSTEM) as connection:
        return await tenants.list_tenants(connection)


async def create_key(
    services: Services,
    principal: Principal,
    *,
    role: str,
    name: str,
    tenant: str | None = None,
    expires_at: datetime | None = None,
) -> dict[str, Any]:
    """A new key, shown only once. An owner makes keys of their own tenant below operator, an
    operator keys of any tenant."""
    require(principal, *KEEPERS)
    if principal.role == "owner" and (role == "operator" or tenant is not None):
        raise Forbidden("an owner makes keys for their own tenant only, and none for operators")
    if role not in ROLES:
        raise InvalidInput([FieldIssue("/role", f"one of {', '.join(ROLES)}")])
    if is_a_persons_name(name):
        raise InvalidInput(
            "names of this form are kept for people of an identity provider", pointer="/principal"
        )
    if expires_at is not None and (
        expires_at.tzinfo is None or not _now() < expires_at < _now() + MOST_LIFE
    ):
        raise InvalidInput(
            "must be a time with its UTC offset, in the future and less than ten years away",
            pointer="/expires_at",
        )
    async with services.database.transaction(
        principal.tenant_id if tenant is None else SYSTEM
    ) as connection:
        await hold(connection, principal)
        tenant_id: str | None = principal.tenant_id
        if tenant is not None:
            tenant_id = await tenants.find_tenant(connection, tenant)
        if tenant_id is None:
            raise NotFound(f"there is no tenant with the name or id {tenant}", pointer="/tenant")
        key, key_id = await _add_key(services, connection, tenant_id, role, name, expires_at)
        known = {"whose": name, "role": role}
        await audit_log.note(
            connection, principal, "key.create", key_id, tenant_id=tenant_id, **known
        )
    return {
        "id": key_id,
        "key": key,
        "role": role,
        "principal": name,
        "tenant": tenant_id,
        "expires_at": None if expires_at is None else expires_at.astimezone(UTC),
    }


async def list_keys(services: Services, principal: Principal) -> list[dict[str, Any]]:
    require(principal, *KEEPERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await tenants.list_keys(connection, principal.tenant_id)


async def revoke_key(services: Services, principal: Principal, key_id: str) -> None:
    """Revoke a key as of this commit. Forbidden for an owner if it is an operator's."""
    require(principal, *KEEPERS)
    own_tenant = None if principal.role == "operator" else principal.tenant_id
    async with services.database.transaction(own_tenant or SYSTEM) as connection:
        await hold(connection, principal)
        if (
            principal.role != "operator"
            and await tenants.living_key(connection, key_id, own_tenant) == "operator"
        ):
            raise Forbidden("an owner cannot revoke an operator's key")
        whose = await tenants.revoke_key(connection, key_id, own_tenant)
        if whose is None:
            raise NotFound("there is no such key")
        await audit_log.note(connection, principal, "key.revoke", key_id, tenant_id=whose)


async def bootstrap(services: Services, keys: Mapping[str, str]) -> bool:
    """Make these the first keys of tenant `default`, by role. True if they are its keys, by this
    or an earlier call; False if it has others."""
    async with services.database.transaction(SYSTEM) as connection:
        await tenants.add_tenant(connection, new_id("ten"), DEFAULT_TENANT)
        tenant_id = await tenants.find_tenant(connection, DEFAULT_TENANT)
        assert tenant_id is not None
        if not await tenants.has_keys(connection, tenant_id):
            for role, key in keys.items():
                await _add_key(services, connection, tenant_id, role, role, None, key)
            return True
    try:
        return all([await authenticate(services, key) for key in keys.values()])
    except Unauthenticated:
        return False


async def local_owner(services: Services) -> Principal:
    """The owner of tenant `default`, for commands that hold the database themselves."""
    async with services.database.transaction(SYSTEM) as connection:
        await tenants.add_tenant(connection, new_id("ten"), DEFAULT_TENANT)
        tenant_id = await tenants.find_tenant(connection, DEFAULT_TENANT)
    assert tenant_id is not None
    return Principal(tenant_id, "owner", "owner", LOCAL)


async def _add_key(
    services: Services,
    connection: Any,
    tenant_id: str,
    role: str,
    name: str,
    expires_at: datetime | None,
    key: str | None = None,
) -> tuple[str, str]:
    key, key_id, secrets = key or new_key(), new_id("key"), services.secrets
    await tenants.add_key(
        connection,
        id=key_id,
        tenant_id=tenant_id,
        principal=name,
        role=role,
        lookup=lookup_of(key),
        mac=mac_of(secrets, key),
        pepper_id=secrets.pepper_id,
        expires_at=expires_at,
    )
    return key, key_id


def lookup_of(key: str) -> str:
    """The public part of a key, which finds it."""
    return key[len(PREFIX) : len(PREFIX) + _LOOKUP]


def mac_of(secrets: Secrets, key: str, pepper: bytes | None = None) -> bytes:
    """The MAC that is stored of a whole key, under the pepper in use or another."""
    return hmac.digest(pepper or secrets.pepper, key.encode(), hashlib.sha256)


def _now() -> datetime:
    return datetime.now(UTC)


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM):
        value, digit = divmod(value, len(_ALPHABET))
        digits += _ALPHABET[digit]
    return digits


# Audit log ----------------------------------------------------------------------------------------
# Reading the audit log: every change to a tenant, and who made it. The ledger says what was spent;
# this log says who registered and erased data, set caps, made and revoked keys and tenants, signed
# rosters, logged in, and removed people.

READERS = ("operator", "owner", "auditor")


async def page(
    services: Services,
    principal: Principal,
    *,
    before: int | None = None,
    action: str | None = None,
    by: str | None = None,
    since: datetime | None = None,
    size: int,
) -> list[dict[str, Any]]:
    """Entries, newest first: those of the principal's tenant, or of all tenants for an operator."""
    require(principal, *READERS)
    tenant_id = None if principal.role == "operator" else principal.tenant_id
    async with services.database.transaction(tenant_id or SYSTEM) as connection:
        return await audit_log.page(
            connection,
            tenant_id,
            before=before,
            action=action,
            principal=by,
            since=since,
            size=size,
        )

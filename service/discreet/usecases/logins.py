"""Logging in to the dashboard: with an API key, with a link that works once, or by an identity
provider (`oidc/login.py`).

The cookie and the link are 256 random bits; what is stored is an HMAC of them. A session ends after
twelve hours, at the logout, or with the key, or the person's access, that it came from.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets as random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from discreet.errors import Forbidden, NotFound
from discreet.storage import audit_log, tenants
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Login, Principal
from discreet.usecases import access
from discreet.usecases.services import Services

SESSION_HOURS = 12
LINK_MINUTES = 10
TOKEN_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True)
class Opened:
    """A new session or link: its secret, told this once."""

    token: str
    expires_at: datetime


async def open_session(services: Services, key: str) -> Opened:
    """A session of the key's principal. Unauthenticated if the key is not valid."""
    return await _open_session(services, await access.authenticate(services, key), "login.key")


async def open_for_person(
    services: Services, person: Principal, *, issued_at: datetime, sid: str | None, id_token: str
) -> Opened:
    """A session of a person whom an identity provider vouches for, by an ID token made at
    `issued_at`."""
    made = _opened()
    sealed = _sealed(services, made.token, id_token)
    async with services.database.transaction(person.tenant_id) as connection:
        await tenants.forget_expired(connection)
        await tenants.add_session(
            connection,
            mac=mac(services, "session", made.token),
            tenant_id=person.tenant_id,
            identity_id=person.key_id,
            role=person.role,
            issued_at=issued_at,
            sid=sid,
            hint=sealed,
            expires_at=made.expires_at,
        )
        await audit_log.note(connection, person, "login.provider")
    return made


async def create_link(services: Services, principal: Principal) -> Opened:
    """A link that logs this principal in, once, within ten minutes."""
    if principal.issuer is not None:
        raise Forbidden(
            "a login link needs an API key; log in through the identity provider instead"
        )
    made = Opened(
        random.token_urlsafe(TOKEN_BYTES), datetime.now(UTC) + timedelta(minutes=LINK_MINUTES)
    )
    async with services.database.transaction(principal.tenant_id) as connection:
        await tenants.forget_expired(connection)
        await tenants.add_link(
            connection,
            mac=mac(services, "link", made.token),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            expires_at=made.expires_at,
        )
        await audit_log.note(connection, principal, "login.link_made")
    return made


async def link_holder(services: Services, token: str) -> Principal:
    """Whom a link would log in; the link stays unused. NotFound if it would log in nobody."""
    async with services.database.transaction(SYSTEM) as connection:
        found = await tenants.find_link(connection, mac(services, "link", token))
    if found is None:
        raise NotFound("this link was used or has expired; `discreet login` prints a new one")
    return found


async def use_link(services: Services, token: str) -> Opened:
    """A session from a link, which cannot be used again."""
    holder = await link_holder(services, token)
    async with services.database.transaction(SYSTEM) as connection:
        if not await tenants.use_link(connection, mac(services, "link", token)):
            raise NotFound("this link was used already; `discreet login` prints a new one")
    return await _open_session(services, holder, "login.link")


async def find(services: Services, token: str) -> Login | None:
    """Who holds this session, looked up at every request: a revoked key and a removal end their
    sessions at once."""
    async with services.database.transaction(SYSTEM) as connection:
        return await tenants.find_session(connection, mac(services, "session", token))


async def end_session(services: Services, token: str, principal: Principal) -> str | None:
    """End the session; the ID token that it began with, if a provider made one."""
    async with services.database.transaction(SYSTEM) as connection:
        sealed = await tenants.end_session(connection, mac(services, "session", token))
        await audit_log.note(connection, principal, "login.end")
    return None if sealed is None else _unsealed(services, token, sealed)


def form_token(services: Services, cookie: str) -> str:
    """The CSRF token that every form of this session must carry: another site can send the
    cookie, but cannot know this."""
    return mac(services, "form", cookie).hex()


async def _open_session(services: Services, principal: Principal, how: audit_log.Action) -> Opened:
    made = _opened()
    async with services.database.transaction(principal.tenant_id) as connection:
        await tenants.forget_expired(connection)
        await tenants.add_session(
            connection,
            mac=mac(services, "session", made.token),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            expires_at=made.expires_at,
        )
        await audit_log.note(connection, principal, how)
    return made


def _opened() -> Opened:
    return Opened(
        random.token_urlsafe(TOKEN_BYTES), datetime.now(UTC) + timedelta(hours=SESSION_HOURS)
    )


def _sealed(services: Services, token: str, text: str) -> bytes:
    """Encrypt text so that only the holder of the session's cookie and of the pepper can open
    it."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(mac(services, "hint", token)).encrypt(nonce, text.encode(), None)


def _unsealed(services: Services, token: str, sealed: bytes) -> str | None:
    try:
        cipher = AESGCM(mac(services, "hint", token))
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None).decode()
    except InvalidTag:  # the pepper was changed meanwhile
        return None


def mac(services: Services, use: str, token: str) -> bytes:
    """A MAC of a token for one use, which only this installation can make and which is useless
    for any other."""
    return hmac.digest(
        services.secrets.pepper, f"discreet/{use}/v1\0{token}".encode(), hashlib.sha256
    )

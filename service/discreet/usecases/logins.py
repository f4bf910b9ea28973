"""Logging in to the dashboard: with an API key, or with a link that works once.

The cookie and the link are 256 random bits; what is stored is an HMAC of them. A session ends after twelve hours, at
the logout, or with the key that it came from.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets as random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from discreet.errors import NotFound
from discreet.storage import logins
from discreet.storage.database import SYSTEM
from discreet.storage.logins import Login
from discreet.storage.tenants import Principal
from discreet.usecases import access
from discreet.usecases.services import Services

SESSION_HOURS = 12
LINK_MINUTES = 10
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Opened:
    """A new session or link: its secret, told this once."""

    token: str
    expires_at: datetime


async def open_session(services: Services, key: str) -> Opened:
    """A session of the key's principal. Unauthenticated when the key does not count."""
    return await _open_session(services, await access.authenticate(services, key))


async def create_link(services: Services, principal: Principal) -> Opened:
    """A link that logs this principal in, once, within ten minutes."""
    made = Opened(random.token_urlsafe(TOKEN_BYTES), datetime.now(UTC) + timedelta(minutes=LINK_MINUTES))
    async with services.database.transaction(principal.tenant_id) as connection:
        await logins.forget_expired(connection)
        await logins.add_link(
            connection,
            mac=_mac(services, "link", made.token),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            expires_at=made.expires_at,
        )
    return made


async def link_holder(services: Services, token: str) -> Principal:
    """Whom a link would log in; it stays unused. NotFound when it would nobody."""
    async with services.database.transaction(SYSTEM) as connection:
        found = await logins.find_link(connection, _mac(services, "link", token))
    if found is None:
        raise NotFound("this link was used or has expired; `discreet login` prints a new one")
    return found


async def use_link(services: Services, token: str) -> Opened:
    """A session from a link, which from now on opens nothing."""
    holder = await link_holder(services, token)
    async with services.database.transaction(SYSTEM) as connection:
        if not await logins.use_link(connection, _mac(services, "link", token)):
            raise NotFound("this link was used already; `discreet login` prints a new one")
    return await _open_session(services, holder)


async def find(services: Services, token: str) -> Login | None:
    """Who holds this session, looked up at every request: a revoked key ends its sessions at once."""
    async with services.database.transaction(SYSTEM) as connection:
        return await logins.find_session(connection, _mac(services, "session", token))


async def end_session(services: Services, token: str) -> None:
    async with services.database.transaction(SYSTEM) as connection:
        await logins.end_session(connection, _mac(services, "session", token))


def form_token(services: Services, cookie: str) -> str:
    """What every form of this cookie's holder must carry: another site can send the cookie, but cannot know this."""
    return _mac(services, "form", cookie).hex()


async def _open_session(services: Services, principal: Principal) -> Opened:
    made = Opened(random.token_urlsafe(TOKEN_BYTES), datetime.now(UTC) + timedelta(hours=SESSION_HOURS))
    async with services.database.transaction(principal.tenant_id) as connection:
        await logins.forget_expired(connection)
        await logins.add_session(
            connection,
            mac=_mac(services, "session", made.token),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            expires_at=made.expires_at,
        )
    return made


def _mac(services: Services, use: str, token: str) -> bytes:
    return hmac.digest(services.secrets.pepper, f"discreet/{use}/v1\0{token}".encode(), hashlib.sha256)

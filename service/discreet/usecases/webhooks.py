"""Webhooks: an owner's addresses that are told what became of jobs, signed as Standard Webhooks
say.

A message holds ids and states and nothing else. It goes through the client of `discreet.outbound`;
of the answer only the status is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import secrets as secure
import time
from collections.abc import Iterable
from typing import Any, get_args

import structlog

from discreet import outbound
from discreet.errors import Conflict, FieldIssue, InvalidInput, NotFound
from discreet.observability import faults
from discreet.settings import Settings
from discreet.storage import audit_log, sealing, webhooks
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.jobs import WebhookEvent
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.rotation import sealing_step, still_known
from discreet.usecases.services import Services

log = structlog.get_logger()

EVENTS: tuple[str, ...] = get_args(WebhookEvent)
MOST = 20
"""Webhooks of one tenant."""
SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of the standard
SECRET_BYTES = 32
LONGEST_WAIT_SECONDS = 6 * 3600.0
GONE = 410


# What owners do -----------------------------------------------------------------------------------


@sealing_step
async def create(
    services: Services, principal: Principal, *, url: str, events: Iterable[str], secret: str | None
) -> dict[str, Any]:
    """A new webhook; its secret is shown this once."""
    require(principal, "owner")
    chosen = sorted(set(events))
    reach = reach_of(services.settings)
    try:
        target = outbound.Target.of(url, reach)
        await outbound.resolve(target.host, target.port, reach.networks)
    except outbound.AddressRefused as error:
        raise InvalidInput(error.why, pointer="/url") from error
    except outbound.OutboundError:
        pass  # the name is not known now; what it leads to is checked again at every delivery
    secret = secret or SECRET_PREFIX + base64.b64encode(secure.token_bytes(SECRET_BYTES)).decode()
    signing_key(secret)
    webhook_id, keys = new_id("whk"), services.secrets
    async with services.database.transaction(principal.tenant_id) as connection:
        if await webhooks.count(connection, principal.tenant_id) >= MOST:
            raise Conflict(f"a tenant may have {MOST} webhooks", code="too_many_webhooks")
        row = await webhooks.add(
            connection,
            id=webhook_id,
            tenant_id=principal.tenant_id,
            url=url,
            events=chosen,
            content_key_id=keys.content_key_id,
            sealed_secret=sealing.seal_whole(keys, webhook_id, secret.encode()),
        )
        await audit_log.note(connection, principal, "webhook.create", webhook_id, events=chosen)
        still_known(services, keys)
    return {**view(row), "secret": secret}


async def list_all(services: Services, principal: Principal) -> list[dict[str, Any]]:
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        return [view(row) for row in await webhooks.all_of(connection, principal.tenant_id)]


async def remove(services: Services, principal: Principal, webhook_id: str) -> None:
    """After this commit nothing more is sent, except deliveries that have begun."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        if not await webhooks.remove(connection, principal.tenant_id, webhook_id):
            raise NotFound("there is no such webhook")
        await audit_log.note(connection, principal, "webhook.remove", webhook_id)


async def forget_old(services: Services) -> None:
    """Drop old messages."""
    async with services.database.transaction(SYSTEM) as connection:
        await webhooks.forget_old(connection)


def view(row: dict[str, Any]) -> dict[str, Any]:
    """A webhook as its owner sees it; never its secret."""
    names = ("id", "url", "events", "created_at", "failing_since", "last_error", "disabled_at")
    return {name: row[name] for name in names}


def signing_key(secret: str) -> bytes:
    """The key of a secret `whsec_…` (24 to 64 bytes in base64). InvalidInput if it is not one."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise InvalidInput([FieldIssue("/secret", "whsec_ and 24 to 64 bytes in base64")])
    return key


def signature(secret: str, message_id: str, timestamp: int, body: str) -> str:
    """`v1,` and base64 of HMAC-SHA256 over `id.timestamp.body` (Standard Webhooks)."""
    mac = hmac.digest(
        signing_key(secret), f"{message_id}.{timestamp}.{body}".encode(), hashlib.sha256
    )
    return "v1," + base64.b64encode(mac).decode()


def reach_of(settings: Settings) -> outbound.Reach:
    """Where messages may go."""
    return outbound.Reach(
        "private" if settings.webhook_allow_private else "public",
        http=settings.webhook_allow_http,
        ports=settings.webhook_ports,
    )


# What workers do ----------------------------------------------------------------------------------


class Sender:
    """Delivers what is due, some at a time, until it is cancelled."""

    def __init__(self, services: Services, at_once: int = 16) -> None:
        self._services = services
        self._at_once = at_once
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self, pause_seconds: float = 1.0) -> None:
        try:
            while True:
                try:
                    taken = await self.take()
                except Exception as error:
                    log.warning("webhooks could not be checked", error=type(error).__name__)
                    taken = 0
                if not taken or len(self._under_way) >= self._at_once:
                    await asyncio.sleep(pause_seconds)
        finally:
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def take(self) -> int:
        """Begin what is due, as far as there is room; the number of deliveries begun."""
        room = self._at_once - len(self._under_way)
        if room <= 0:
            return 0
        services = self._services
        async with services.database.transaction(SYSTEM) as connection:
            due = await webhooks.take(
                connection, room, lease_seconds=3 * services.settings.webhook_seconds
            )
        for delivery in due:
            task = asyncio.create_task(self._deliver(delivery))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return len(due)

    async def _deliver(self, delivery: dict[str, Any]) -> None:
        services, settings = self._services, self._services.settings
        try:
            async with asyncio.timeout(2 * settings.webhook_seconds):
                why, status = None, await self._send(delivery)
        except sealing.SealBroken:
            why, status = "secret_unreadable", None
        except outbound.AddressRefused:
            why, status = "address_refused", None
        except (TimeoutError, outbound.NotInTime):
            why, status = "timeout", None
        except outbound.OutboundError:
            why, status = "no_connection", None
        if status is not None and not 200 <= status < 300:
            why = f"status_{status}"
        faults.point("webhook.sent")
        async with services.database.transaction(SYSTEM) as connection:
            if why is None:
                await webhooks.delivered(connection, delivery)
                return
            wait = min(
                settings.webhook_backoff_seconds * 2.0 ** (delivery["attempts"] - 1),
                LONGEST_WAIT_SECONDS,
            )
            disabled = await webhooks.failed(
                connection,
                delivery,
                why=why,
                wait_seconds=wait * random.uniform(0.8, 1.2),  # noqa: S311 - so that not all come at once
                give_up_seconds=settings.webhook_give_up_seconds,
                gone=status == GONE,
            )
        log.info("webhook failed", webhook=delivery["webhook_id"], why=why, disabled=disabled)

    async def _send(self, delivery: dict[str, Any]) -> int:
        """The status that the address answers."""
        secret = sealing.unseal_whole(
            self._services.secrets,
            delivery["content_key_id"],
            delivery["webhook_id"],
            bytes(delivery["sealed_secret"]),
        ).decode()
        timestamp = int(time.time())
        settings = self._services.settings
        asks = outbound.Asks(
            "POST",
            delivery["url"],
            {
                "Content-Type": "application/json",
                "webhook-id": delivery["id"],
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(secret, delivery["id"], timestamp, delivery["body"]),
            },
            content=delivery["body"].encode(),
            silent_seconds=settings.webhook_seconds,
            attempt=delivery["attempts"],
        )
        async with outbound.ask(asks, reach_of(settings)) as answer:
            return answer.status  # the body is nobody's business

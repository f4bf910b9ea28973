"""Webhooks: an owner's addresses that are told what became of jobs, signed as Standard Webhooks
say.

A message holds ids and states and nothing else. It goes to the address that was looked up and
checked, not to the name again (a name can point somewhere else a moment later), follows no
redirects, and of the answer only the status is read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import secrets as secure
import socket
import time
from collections.abc import Iterable
from functools import cached_property
from typing import Any, get_args
from urllib.parse import SplitResult, urlsplit

import httpx
import structlog

from discreet.errors import Conflict, DiscreetError, FieldIssue, InvalidInput, NotFound
from discreet.observability import faults
from discreet.settings import Settings
from discreet.storage import audit_log, sealing, webhooks
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.jobs import WebhookEvent
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.public_addresses import is_public
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


class Refused(DiscreetError):
    """Webhooks may not be sent to this address."""

    code = "address_refused"


# What owners do -----------------------------------------------------------------------------------


@sealing_step
async def create(
    services: Services, principal: Principal, *, url: str, events: Iterable[str], secret: str | None
) -> dict[str, Any]:
    """A new webhook; its secret is shown this once."""
    require(principal, "owner")
    chosen = sorted(set(events))
    try:
        await resolve(services.settings, url)
    except Refused as error:
        raise InvalidInput(error.detail, pointer="/url") from error
    except OSError:
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


# Where messages may go ----------------------------------------------------------------------------


async def resolve(settings: Settings, url: str) -> tuple[SplitResult, list[str]]:
    """The parts of the address and the IP addresses of its host.

    Refused when its form or its port is not allowed, or when any address that its name has is not
    public; OSError when the name is not known.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Refused("this is not a valid address") from error
    if parts.scheme != "https" and not (parts.scheme == "http" and settings.webhook_allow_http):
        raise Refused("an address that begins with https:// is needed")
    if (
        not parts.hostname
        or parts.username is not None
        or parts.password is not None
        or parts.fragment
    ):
        raise Refused("an address with a host, without user and fragment is needed")
    if not url.isascii() or any(character.isspace() or ord(character) < 32 for character in url):
        raise Refused(
            "an address of printable ASCII is needed; write other letters percent-encoded or as "
            "punycode"
        )
    port = port if port is not None else 443 if parts.scheme == "https" else 80
    if not is_allowed_port(settings.webhook_ports, port):
        raise Refused(
            f"webhooks go to port {settings.webhook_ports} only (DISCREET_WEBHOOK_PORTS), not to "
            f"{port}"
        )
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(settings.webhook_seconds):
            found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a part of the name is too long
        raise Refused("this is not the name of a host") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not settings.webhook_allow_private and not all(is_public(address) for address in addresses):
        raise Refused(
            "this address leads into a network that is not the public internet: loopback, private "
            "or special"
        )
    if not addresses:
        raise OSError("no address")
    return parts, addresses


def is_allowed_port(ports: str, port: int) -> bool:
    """Whether `ports` (`443,8000-8999`) has this one."""
    ranges = (word.partition("-") for word in ports.split(","))
    return any(int(first) <= port <= int(last or first) for first, _, last in ranges)


# What workers do ----------------------------------------------------------------------------------


class Sender:
    """Delivers what is due, some at a time, until it is cancelled."""

    def __init__(self, services: Services, at_once: int = 16) -> None:
        self._services = services
        self._at_once = at_once
        self._under_way: set[asyncio.Task[None]] = set()

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        """Made for the first delivery: with all the world's certificate authorities it takes 10
        MB."""
        # No proxy of the environment, which would look the name up again.
        seconds = self._services.settings.webhook_seconds
        return httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=seconds)

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
            if "_client" in vars(self):
                await self._client.aclose()

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
        except Refused:
            why, status = "address_refused", None
        except sealing.SealBroken:
            why, status = "secret_unreadable", None
        except (TimeoutError, httpx.TimeoutException):
            why, status = "timeout", None
        except (OSError, httpx.HTTPError):
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
        parts, addresses = await resolve(self._services.settings, delivery["url"])
        address = addresses[
            (delivery["attempts"] - 1) % len(addresses)
        ]  # one that is dead costs one attempt
        secret = sealing.unseal_whole(
            self._services.secrets,
            delivery["content_key_id"],
            delivery["webhook_id"],
            bytes(delivery["sealed_secret"]),
        ).decode()
        timestamp = int(time.time())
        host = f"[{address}]" if ":" in address else address
        target = parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}")
        assert parts.hostname is not None
        request = self._client.build_request(
            "POST",
            target.geturl(),
            content=delivery["body"].encode(),
            headers={
                "Host": parts.netloc,
                "Content-Type": "application/json",
                "User-Agent": "discreet",
                "webhook-id": delivery["id"],
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(secret, delivery["id"], timestamp, delivery["body"]),
            },
            # The certificate must be that of the name, whatever the address.
            extensions={"sni_hostname": parts.hostname},
        )
        answer = await self._client.send(request, stream=True)
        await answer.aclose()  # the body is nobody's business
        return answer.status_code

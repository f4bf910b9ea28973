"""The keys and access tokens that an API process knows, and what each may still ask.

A key is looked up once and then kept, so that a request needs no query for it. What is kept counts
only while this process is sure to hear of a revocation: a trigger notifies of it, one connection
listens, and a round trip on that same connection every BEAT_SECONDS shows that nothing is under
way. Without such a proof in the last TRUST_SECONDS every request asks the database again. So a
revoked key is refused by every process after TRUST_SECONDS, whatever fails. The same holds for an
access token of a person who was removed; a kept token is also looked at anew after TOKEN_SECONDS,
so that one whose key the provider has withdrawn does not count until it expires.

The quota of a key is one for all processes: each sets aside a block of requests in the database,
spends it from memory, and comes back for the next. They never give out more than the quota
together; what is left over in a block when its window ends is lost, at most one block a process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from discreet.errors import Limit, TooManyRequests
from discreet.storage import tenants
from discreet.storage.tenants import KEYS_CHANNEL, Principal
from discreet.usecases import access
from discreet.usecases.oidc import people
from discreet.usecases.oidc.tokens import Provider, looks_like_one
from discreet.usecases.services import Services

log = structlog.get_logger()

TRUST_SECONDS = 1.0
BEAT_SECONDS = 0.4
RECONNECT_SECONDS = 0.5
TOKEN_SECONDS = 60.0
MOST_KEYS = 10_000
"""Kept at once; the one that was not used for longest makes room."""

BLOCKS = 50
"""A block is this part of the quota."""


@dataclass(frozen=True)
class Kept:
    """A key, or an access token, that was valid when it was looked up."""

    principal: Principal
    mac: bytes
    """Of a token: its digest."""
    expires: float
    """Monotonic time."""


@dataclass(frozen=True)
class Rate:
    """What a key may still ask in this window, as far as this process knows: others may have taken
    of it since."""

    quota: int
    window_seconds: int
    remaining: int
    seconds_left: int


@dataclass
class Allowance:
    """Requests of a key that are set aside for this process."""

    left: int = 0
    taken: int = 0
    """By all processes, when the block was taken."""
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Keyring:
    """Who holds which key, in one process; nothing is kept unless `listen` runs beside it."""

    def __init__(
        self,
        services: Services,
        on_change: Callable[[], None] = lambda: None,
        provider: Provider | None = None,
    ) -> None:
        """`on_change` is called when a key was revoked or changed, and when some of that may have
        been missed. `provider`: whose access tokens count beside keys."""
        self._services = services
        self._provider = provider
        self._on_change = on_change
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()
        self._trusted_until = 0.0
        self._generation = 0

    async def principal(self, key: str) -> Principal:
        """Who holds this key, or shows this access token; Unauthenticated as `access.authenticate`
        says it, or `people.bearer`, which has further refusals."""
        now = time.monotonic()
        if self._provider is not None and looks_like_one(key):
            return await self._of_token(self._provider, key)
        lookup = access.lookup_of(key)
        kept = self._kept.get(lookup)
        if (
            kept is not None
            and now < self._trusted_until
            and now < kept.expires
            and hmac.compare_digest(kept.mac, access.mac_of(self._services.secrets, key))
        ):
            self._kept.move_to_end(lookup)
            return kept.principal
        generation = self._generation
        found = await access.find(self._services, key)
        if (
            generation == self._generation and now < self._trusted_until
        ):  # no news of any key meanwhile
            expires = math.inf if found.seconds_left is None else now + found.seconds_left
            self._keep(lookup, Kept(found.principal, found.mac, expires))
        return found.principal

    async def _of_token(self, provider: Provider, token: str) -> Principal:
        now = time.monotonic()
        digest = hashlib.sha256(token.encode()).digest()
        kept = self._kept.get(digest.hex())
        if kept is not None and now < self._trusted_until and now < kept.expires:
            self._kept.move_to_end(digest.hex())
            return kept.principal
        generation = self._generation
        principal, vouched = await people.bearer(self._services, provider, token)
        if generation == self._generation and now < self._trusted_until:
            left = (
                vouched.expires_at.timestamp() + provider.configuration.skew_seconds - time.time()
            )
            self._keep(digest.hex(), Kept(principal, digest, now + min(left, TOKEN_SECONDS)))
        return principal

    def _keep(self, name: str, kept: Kept) -> None:
        self._kept[name] = kept
        if len(self._kept) > MOST_KEYS:
            self._kept.popitem(last=False)

    async def admit(self, key: str) -> tuple[Principal, Rate]:
        """Who holds this key, with one request of it counted. Unauthenticated, or
        TooManyRequests."""
        principal = await self.principal(key)
        return principal, await self.count(principal)

    async def count(self, principal: Principal) -> Rate:
        """One request of the principal's key, or of the person, by whatever it was let in.
        TooManyRequests."""
        return await self._count(principal.key_id)

    def forget(self, key_id: str) -> None:
        """Forget a key or person that has changed."""
        self._generation += 1
        for lookup in [
            name for name, kept in self._kept.items() if kept.principal.key_id == key_id
        ]:
            del self._kept[lookup]
        self._on_change()

    async def listen(self) -> None:
        """Hear of changed keys until cancelled."""
        while True:
            try:
                await self._listen()
            except Exception as error:
                log.warning("key listener failed", error=type(error).__name__)
            finally:
                self._trusted_until = 0.0
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        async with await self._services.database.listen(KEYS_CHANNEL) as connection:
            self._generation += 1
            self._kept.clear()
            self._on_change()
            while True:
                asked = time.monotonic()
                async with asyncio.timeout(TRUST_SECONDS):
                    await connection.execute("SELECT")
                    async for news in connection.notifies(
                        timeout=0
                    ):  # what came before that answer
                        self.forget(news.payload)
                self._trusted_until = asked + TRUST_SECONDS
                async for news in connection.notifies(timeout=BEAT_SECONDS):
                    self.forget(news.payload)

    async def _count(self, key_id: str) -> Rate:
        settings = self._services.settings
        quota, window = settings.rate_limit_requests, settings.rate_limit_seconds
        allowance = self._allowances.get(key_id)
        if allowance is None:
            allowance = self._allowances[key_id] = Allowance()
            if len(self._allowances) > MOST_KEYS:
                self._allowances.popitem(last=False)
        now = time.monotonic()
        if now >= allowance.until or (not allowance.left and allowance.taken < quota):
            async with allowance.lock:
                now = time.monotonic()
                if now >= allowance.until or (not allowance.left and allowance.taken < quota):
                    granted, taken, seconds = await tenants.take_requests(
                        self._services.database,
                        key_id,
                        seconds=window,
                        quota=quota,
                        block=max(1, quota // BLOCKS),
                    )
                    allowance.left, allowance.taken, allowance.until = granted, taken, now + seconds
        seconds_left = max(1, math.ceil(allowance.until - now))
        if not allowance.left:
            raise TooManyRequests(
                Limit("rate_limit_requests", "requests", quota, quota + 1), window, seconds_left
            )
        allowance.left -= 1
        return Rate(quota, window, max(0, quota - allowance.taken) + allowance.left, seconds_left)

"""Wakes the event streams of a process: one database connection listens for all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterator

import structlog

from discreet.errors import Limit, TooManyStreams
from discreet.storage.acceptance import CHANNEL
from discreet.storage.database import Database

log = structlog.get_logger()

RECONNECT_SECONDS = 1.0
ANY_JOB = "*"
"""The job of streams that any news wakes, of all tenants: it says only that it is time to look."""
AGAIN_SECONDS = 5
"""When a key with too many streams may come again."""


class Hub:
    """Streams wait here for news of their job."""

    def __init__(self, database: Database, key_streams: int) -> None:
        """`key_streams`: the most streams that one key may have open here."""
        self._database = database
        self._most = key_streams
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.closing = False
        self._listening = asyncio.Event()

    def require_room(self, key_id: str) -> None:
        """TooManyStreams where this key, or person, has as many streams as one may have."""
        if self._open[key_id] >= self._most:
            limit = Limit("key_streams", "event streams", self._most, self._most + 1)
            raise TooManyStreams(limit, AGAIN_SECONDS)

    @contextlib.contextmanager
    def waiting(self, job_id: str, key_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the job has news, for a stream of this key or person."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        self._open[key_id] += 1
        try:
            yield event
        finally:
            self._open[key_id] -= 1
            if not self._open[key_id]:
                del self._open[key_id]
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Whether news came within `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
                return True
        return False

    async def listens(self, seconds: float) -> bool:
        """Whether news of jobs arrives, now or within so many seconds; otherwise streams wait
        in vain."""
        return await self.wait(self._listening, seconds)

    async def listen(self) -> None:
        """Listen until cancelled; after a lost connection every stream looks again."""
        while True:
            try:
                async with await self._database.listen(CHANNEL) as connection:
                    self._listening.set()
                    self.wake_all()
                    async for notification in connection.notifies():
                        for name in (notification.payload, ANY_JOB):
                            for event in self._waiting.get(name, ()):
                                event.set()
            except Exception as error:
                log.warning("listener failed", error=type(error).__name__)
            finally:
                self._listening.clear()
            await asyncio.sleep(RECONNECT_SECONDS)

    def wake_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    def close(self) -> None:
        """Streams end; their clients resume with Last-Event-ID elsewhere or later."""
        self.closing = True
        self.wake_all()

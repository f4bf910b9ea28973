"""Wakes the event streams of a process: one database connection listens for all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

import structlog

from discreet.storage.acceptance import CHANNEL
from discreet.storage.database import Database

log = structlog.get_logger()

RECONNECT_SECONDS = 1.0
ANY_JOB = "*"
"""The job of streams that any news wakes, of all tenants: it says only that it is time to look."""


class Hub:
    """Streams wait here for news of their job."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.closing = False
        self._listening = asyncio.Event()

    @contextlib.contextmanager
    def waiting(self, job_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the job has news."""
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        try:
            yield event
        finally:
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

"""Through a database that is away for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from discreet.storage.database import trouble

log = structlog.get_logger()

TRIES, PAUSE_SECONDS = 60, 0.5


Answer = TypeVar("Answer")


async def stubbornly(job_id: str, what: Callable[[], Awaitable[Answer]]) -> Answer:
    """What `what` answers, asked again while the database is away; a fencing token decides whether
    it still counts. After half a minute the database's error."""
    for left in range(TRIES, -1, -1):
        try:
            return await what()
        except Exception as error:
            found = trouble(error)
            if found is None or not left:
                raise
            log.warning("waiting for the database", job=job_id, code=found.code)
        await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("the last attempt returns or raises")

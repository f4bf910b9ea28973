"""Through a database that is away for a moment, and keys that are away for longer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from discreet.storage.database import trouble
from discreet.storage.keys.provider import KeysUnavailable

log = structlog.get_logger()

TRIES, PAUSE_SECONDS = 60, 0.5


Answer = TypeVar("Answer")


async def stubbornly(job_id: str, what: Callable[[], Awaitable[Answer]]) -> Answer:
    """What `what` answers, asked again while the database is away; a fencing token decides whether
    it still counts. After half a minute the database's error. Keys are waited for without end: the
    lease goes on meanwhile, and a session that ended for want of them would be charged in vain."""
    left = TRIES
    while True:
        try:
            return await what()
        except KeysUnavailable as error:
            log.warning("waiting for keys", job=job_id, why=error.detail)
        except Exception as error:
            found = trouble(error)
            if found is None or not left:
                raise
            left -= 1
            log.warning("waiting for the database", job=job_id, code=found.code)
        await asyncio.sleep(PAUSE_SECONDS)

"""Retries while the database does not answer for a moment, or keys for longer."""

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
    """Call `what` again while the database does not answer, for at most half a minute, then
    raise its error; the fencing token decides whether the call still counts. Keys are waited for
    without limit: the lease is renewed meanwhile, and a session that ended for lack of keys
    would be charged for nothing."""
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

"""Keeping a lease while the work under it is done, for jobs in a worker and sessions in an rpc
process. The database decides whether a lease still holds, by its own clock and the fencing
token; here is only the task that asks, and ends the work if it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from discreet.usecases.claims import LostJob

log = structlog.get_logger()

RENEWALS = 4
"""Renewals in the time of one lease, at least: some may be lost."""
LONGEST_PAUSE_SECONDS = 1.0
"""So soon a wish to cancel is noticed, however long the lease."""


def pause_seconds(lease_seconds: float) -> float:
    """How long to wait between two renewals."""
    return min(LONGEST_PAUSE_SECONDS, lease_seconds / RENEWALS)


@contextlib.asynccontextmanager
async def kept(
    job_id: str, renew: Callable[[], Awaitable[Exception | None]], pause: Callable[[], float]
) -> AsyncIterator[None]:
    """Renew every `pause()` seconds while the body runs.

    What `renew` returns interrupts the body, which then raises it; so does LostJob. Any other error
    is logged and nothing more: a database that does not answer for a moment is no reason to lose
    the work, publishing decides.
    """
    body = asyncio.current_task()
    assert body is not None
    reason: Exception | None = None

    async def keep() -> None:
        nonlocal reason
        while reason is None:
            await asyncio.sleep(pause())
            try:
                reason = await renew()
            except LostJob as lost:
                reason = lost
            except Exception as error:
                log.warning("lease not renewed", job=job_id, error=type(error).__name__)
        body.cancel()

    keeper = asyncio.create_task(keep())
    try:
        yield
    except asyncio.CancelledError:
        if reason is None:
            raise
        body.uncancel()
        raise reason from None
    finally:
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper

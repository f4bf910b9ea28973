"""Jobs whose worker is gone: they are put on the queue again, or ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.storage import jobs, ledger, queue, shares, stored_releases
from discreet.storage.database import SYSTEM
from discreet.usecases.services import Services


async def repair(services: Services) -> int:
    """Put jobs back on the queue that no worker would take; returns their number.

    Reaper and reconciler in one: a running job whose lease ran out, and a queued one whose queue
    entry is gone. What killed workers left of shares goes too.
    """
    async with services.database.transaction(SYSTEM) as connection:
        if not await jobs.hold_repair(connection):
            return 0
        found = await jobs.stranded(connection, queued_seconds=2 * services.settings.lease_seconds)
        repaired = 0
        for job_id, tag in found:
            if not await queue.waits(connection, job_id):
                await queue.enqueue(connection, job_id, priority=-tag)
                repaired += 1
        await shares.forget_left(connection)
        await queue.forget_dead(connection)
        await jobs.forget_requests(connection, hours=48)
    return repaired


async def lost_code(connection: Any, row: Mapping[str, Any]) -> str:
    """The code of a job whose last worker was lost. While it worked on the data, what ended it may
    depend on them."""
    touched = any(
        entry["kind"] == "data_touched" for entry in await ledger.reservation(connection, row["id"])
    )
    hidden = touched and await stored_releases.find_release(connection, row["id"]) is None
    return "solver_failed" if hidden else "worker_lost"

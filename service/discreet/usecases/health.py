"""The state of the whole installation, for operators: numbers without tenants."""

from __future__ import annotations

from typing import Any

from discreet.storage import jobs, queue
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services

SILENT_SECONDS = 60.0
"""A worker that has not said anything for so long is taken for dead; it should beat every ten seconds."""


async def installation(services: Services, principal: Principal) -> dict[str, Any]:
    """Workers with the time since they were last heard of, and what waits and runs."""
    require(principal, "operator")
    async with services.database.transaction(SYSTEM) as connection:
        found = await queue.workers(connection)
        unfinished = await jobs.unfinished(connection)
    return {
        **unfinished,
        "workers": [{**worker, "alive": worker["silent_seconds"] < SILENT_SECONDS} for worker in found],
    }

"""Cancelling a job, and the outcome."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, NotFound
from discreet.problems.federation import is_session
from discreet.storage import jobs, ledger, stored_releases
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.cancellations import CANCELLATIONS, Cancellation
from discreet.usecases.jobs import SUBMITTERS
from discreet.usecases.services import Services


async def cancel(
    services: Services, principal: Principal, job_id: str
) -> tuple[dict[str, Any], Cancellation]:
    """Cancel a job: the job as it is now, and the outcome of the request.

    What has not touched data is released in full; what has is charged in full. A job whose release
    is stored is paid for and goes on to its result, unless it is a simulation, which costs nothing.
    What is said here holds: a worker's later steps look under the same lock (`running.touch`,
    `keep_release`, `publish`). Conflict when the job has ended otherwise than by a cancellation.
    """
    require(principal, *SUBMITTERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.lock(connection, job_id, principal.tenant_id)
        if row is None:
            raise NotFound("there is no such job")
        if row["state"] in jobs.FINAL:
            if row["state"] != "cancelled":
                raise Conflict(f"this job has {row['state']} already", code="job_ended")
        elif not row["cancel_requested"] and await _is_paid(connection, job_id):
            return row, CANCELLATIONS["too_late", "full"]
        elif not await jobs.request_cancel(connection, job_id):
            await ledger.settle(connection, job_id, principal.name)
            await jobs.end(connection, job_id, "cancelled")
        found = await jobs.find(connection, job_id)
        assert found is not None
        return found, await _cancellation(connection, found)


async def cancellation(
    services: Services, principal: Principal, job_id: str
) -> Cancellation | None:
    """The outcome of a cancellation, final or expected; None if nobody asked for one or the job
    ended otherwise."""
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.find(connection, job_id, principal.tenant_id)
        if row is None or (
            row["state"] != "cancelled"
            and (row["state"] in jobs.FINAL or not row["cancel_requested"])
        ):
            return None
        return await _cancellation(connection, row)


async def _is_paid(connection: AsyncConnection, job_id: str) -> bool:
    """Whether the job's release is stored, and costs something."""
    entries = await ledger.reservation(connection, job_id)
    return bool(entries) and await stored_releases.is_released(connection, job_id)


async def _cancellation(connection: AsyncConnection, row: dict[str, Any]) -> Cancellation:
    """The outcome of a cancellation, final or expected; the ledger says what it costs."""
    kinds = {entry["kind"] for entry in await ledger.reservation(connection, row["id"])}
    if row["state"] in jobs.FINAL:
        return CANCELLATIONS["done", "full" if "commit" in kinds else "none"]
    if "data_touched" in kinds:
        return CANCELLATIONS["requested", "full"]
    # An agent's message that is on its way touches data; a worker asks under the job's lock first.
    federated = is_session(row["problem"])
    return CANCELLATIONS["requested", "undecided" if federated and kinds else "none"]

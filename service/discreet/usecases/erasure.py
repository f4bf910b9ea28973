"""Erasure of content, on request or on expiry, and where copies of it remain."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio.to_thread

from discreet.errors import Conflict, NotFound
from discreet.observability import faults
from discreet.storage import audit_log, datasets, jobs, results
from discreet.storage import reads as read_rows
from discreet.storage.database import SYSTEM
from discreet.storage.objects import StorageTrouble
from discreet.storage.tenants import Principal
from discreet.usecases import reads
from discreet.usecases.access import require
from discreet.usecases.datasets import find
from discreet.usecases.services import Services

RESULTS_AT_ONCE = 200
"""So many jobs lose what they have made in one transaction: nobody waits long for their rows."""


class _Needed(Exception):
    """A job reads what was to be erased: nothing of it is."""


async def would_remain(
    services: Services, principal: Principal, dataset_id: str
) -> tuple[str, ...]:
    """What `erase` would return."""
    row = await find(services, principal, dataset_id)
    async with services.database.transaction(principal.tenant_id) as connection:
        traces = await datasets.traces(connection)
    return remains(
        traces,
        services.settings.expiry_seconds,
        in_objects=row["object_name"] is not None,
        stays=row["stays"] is not None,
    )


async def erase(services: Services, principal: Principal, dataset_id: str) -> tuple[str, ...]:
    """Erase the content and its key. Account, ledger and the memory of the content's digest stay.

    Returns where sealed bytes remain, and until when, in sentences.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        found = await datasets.find(connection, principal.tenant_id, dataset_id)
        # The row is locked first, so that no job can be accepted between the look and the erasure.
        if found is None or not await datasets.erase(connection, principal.tenant_id, dataset_id):
            raise NotFound("there is no such dataset")
        if await jobs.active_of_dataset(connection, dataset_id):
            raise Conflict("a job still needs this dataset; cancel it first", code="dataset_in_use")
        traces = await datasets.traces(connection)
        await audit_log.note(connection, principal, "dataset.erase", dataset_id)
    faults.point("dataset.erased")
    if found["object_name"] is not None and services.objects is not None:
        # Its key is gone with the row, so it is erased; bytes that nobody can read are swept when
        # the storage answers.
        with suppress(StorageTrouble):
            await anyio.to_thread.run_sync(services.objects.erase, found["object_name"])
    return remains(
        traces,
        services.settings.expiry_seconds,
        in_objects=found["object_name"] is not None,
        stays=found["stays"] is not None,
    )


def remains(
    traces: Mapping[str, Any], expiry_seconds: float, *, in_objects: bool, stays: bool = False
) -> tuple[str, ...]:
    """Where the sealed bytes of an erased content are still found, and until when. `traces` is that
    of the storage. One that `stays` was never stored: sealed is its address."""
    vacuumed = (
        f"a worker vacuums the table within {_lasting(expiry_seconds)}"
        if traces["vacuumed"]
        else "autovacuum has run"
    )
    checkpoints = _lasting(2 * traces["checkpoint_seconds"])
    found = [
        f"in the database's files: until {vacuumed}, and then until other rows are written over "
        "them",
        f"in the write-ahead log: until its segments are recycled, {checkpoints} of writing or "
        "more from now",
    ]
    if traces["archived"]:
        found.append(
            "in the archive or on the standbys of the write-ahead log: as long as these keep it"
        )
    if stays:
        whole = "the content itself, at its place, as its keeper there wishes: it was never stored"
        found.insert(0, f"{whole}, and what follows are the sealed bytes of its address")
    found.append("in earlier backups: as long as these are kept")
    if in_objects:
        found.append("in the object storage, if it keeps versions: as long as it keeps old ones")
    found.append(
        "all of these are sealed: only the master key opens them, so rotating and retiring it "
        "(`discreet secrets rotate content`, `retire`) makes them unreadable at once"
    )
    return tuple(found)


def _lasting(seconds: float) -> str:
    return f"{round(seconds / 60)} minutes" if seconds >= 120 else f"{round(seconds)} seconds"


async def vacuum(services: Services) -> bool:
    """Clear away dead rows of contents; False when there are none, or this role may not."""
    async with services.database.transaction(SYSTEM) as connection:
        if not await datasets.dead_contents(connection):
            return False
    await services.database.vacuum(*datasets.OF_CONTENTS)
    return True


async def expire(services: Services) -> int:
    """Erase expired contents, and files that were looked at; returns their number."""
    looked_at = await reads.expire(services)
    gone = []
    async with services.database.transaction(SYSTEM) as connection:
        found = await datasets.expired(connection)
    for dataset_id in found:  # in a transaction each: nobody waits for the contents of others
        if (row := await _expire(services, dataset_id)) is not None:
            gone.append(row)
    for row in gone:
        if row["object_name"] is not None and services.objects is not None:
            await anyio.to_thread.run_sync(services.objects.erase, row["object_name"])
    return len(gone) + looked_at


async def _expire(services: Services, dataset_id: str) -> Mapping[str, Any] | None:
    """Erase a content whose time is over; its row as it was, or None if a job needs it."""
    try:
        async with services.database.transaction(SYSTEM) as connection:
            row = await datasets.lock_expired(connection, dataset_id)
            if row is None or not await datasets.erase(connection, row["tenant_id"], dataset_id):
                return None
            # Asked under its lock: a job may have been accepted since the look.
            if await jobs.active_of_dataset(connection, dataset_id):
                raise _Needed
            return row
    except _Needed:
        return None


async def forget_results(services: Services) -> int:
    """Drop what jobs have made whose time is over, RESULTS_AT_ONCE in each transaction; the
    number of them."""
    days, count = services.settings.result_retention_days, 0
    while days is not None:
        async with services.database.transaction(SYSTEM) as connection:
            found = await results.forget(connection, days, RESULTS_AT_ONCE)
            faults.point("results.forgotten")
        faults.point("forgetting.committed")
        count += found
        if found < RESULTS_AT_ONCE:
            break
    return count


async def remove_orphans(services: Services) -> int:
    """Remove objects that belong to no dataset with content; the number of them.

    Only those that are older than any registration takes from object to row.
    """
    if services.objects is None:
        return 0
    names = await anyio.to_thread.run_sync(
        services.objects.older_than, services.settings.orphan_seconds
    )
    async with services.database.transaction(SYSTEM) as connection:
        known = await datasets.objects_of(connection, names)
        orphans = set(names) - known - await read_rows.objects_of(connection, names)
    for name in sorted(orphans):
        await anyio.to_thread.run_sync(services.objects.erase, name)
    return len(orphans)

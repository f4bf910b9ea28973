"""A look at a file before anything is registered: what it would be read as, and what is wrong.

The file stays sealed for a day, for whoever sent it, or until it is registered. Nothing is charged,
and nothing of what the reader found is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio.to_thread
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, DiscreetError, InvalidInput, Limit, NotFound, Unavailable
from discreet.observability import faults
from discreet.problems import DATASETS
from discreet.problems.descriptions import completed, looked
from discreet.storage import audit_log, reads, sealing
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.objects import StorageTrouble
from discreet.storage.sealing import STREAM_CHUNK_BYTES
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.descriptions import zone_names
from discreet.usecases.requests import ReadRequest
from discreet.usecases.rotation import sealing_step, still_known
from discreet.usecases.services import Services
from discreet.usecases.uploads import Upload

HOURS = 24
"""That a file stays."""
MOST_FILES = 10
"""Of one principal at a time: when another comes, the oldest is erased."""
Row = dict[str, Any]


class TooManyDrafts(Conflict):
    """The files of a tenant that wait for their registration have as many bytes as they may."""

    code = "too_many_drafts"

    def __init__(self, allowed: int, taken: int, size: int, own: Sequence[str]) -> None:
        way = "wait until the day of others' files is over"
        if own:
            way = f"register or delete one of yours (DELETE /v1/reads/{{id}}: {', '.join(own)})"
        super().__init__(
            f"files of this tenant that are looked at may have {allowed} bytes together "
            f"(draft_bytes); those that are here have {taken}, and this one has {size}: {way}, or "
            "register this one without a look (POST /v1/datasets)"
        )
        self.limit = Limit("draft_bytes", "bytes", allowed, taken + size)


async def look(
    services: Services, principal: Principal, asked: ReadRequest, upload: Upload
) -> dict[str, Any]:
    """What a file that came would be read as, and the draft that it is now. Errors:
    `uploads.Reader.read`, `NoRoom`, TooManyDrafts."""
    read_id = new_id("read")
    with upload.file:
        require(principal, "owner")
        if asked.format is not None:
            upload.format = asked.format
        await require_room(services, principal, upload.sealed_bytes)
        await _note(services, principal, asked, read_id)
        found = await _preview(services, principal, asked, upload)
        row = await _keep(services, principal, read_id, upload)
    return {**view(row), **found}


async def look_again(
    services: Services, principal: Principal, asked: ReadRequest
) -> dict[str, Any]:
    """The same of a file that is here already. NotFound."""
    if asked.draft is None:
        raise InvalidInput("a file is needed, or the draft of one", pointer="/draft")
    row = await find(services, principal, asked.draft)
    upload = await open_draft(services, principal, asked.draft)
    with upload.file:
        if asked.format is not None:
            upload.format = asked.format
        await _note(services, principal, asked, row["id"])
        found = await _preview(services, principal, asked, upload)
    return {**view(row), **found}


async def require_room(services: Services, principal: Principal, size: int) -> None:
    """TooManyDrafts where a file of so many bytes would not be kept."""
    async with services.database.transaction(principal.tenant_id) as connection:
        await _make_room(services, connection, principal, size)


async def find(services: Services, principal: Principal, read_id: str) -> Row:
    """A file that is still here. NotFound, also for one of somebody else."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await reads.find(connection, principal.tenant_id, principal.name, read_id)
    if row is None:
        says = "there is no such file here: it was registered, or erased after a day; send it again"
        raise NotFound(says, pointer="/draft")
    return row


async def open_draft(services: Services, principal: Principal, read_id: str) -> Upload:
    """The file as it came, which the caller closes. NotFound, Unavailable, StorageTrouble."""
    row, secrets = await find(services, principal, read_id), services.secrets
    if row["content_key_id"] not in secrets.content_keys:
        says = "a rotation of the master key has not reached this machine: ask again"
        raise Unavailable(says, code="keys_unavailable")
    key = await anyio.to_thread.run_sync(
        sealing.unwrap, secrets, row["content_key_id"], read_id, bytes(row["wrapped_key"])
    )
    upload = Upload.kept(
        services.settings.spool_folder,
        key,
        row["format"],
        row["plain_bytes"],
        row["sealed_bytes"],
    )
    try:
        if row["object_name"] is None:
            async with services.database.transaction(principal.tenant_id) as connection:
                async for part in reads.chunks(connection, read_id):
                    await anyio.to_thread.run_sync(upload.file.append, part)
        elif services.objects is None:
            says = "the file is in object storage, and DISCREET_OBJECT_URL is not set"
            raise sealing.SealBroken(says)
        else:
            stored = services.objects.read(row["object_name"])
            await anyio.to_thread.run_sync(_copy, stored, upload)
        if os.fstat(upload.file.descriptor).st_size < row["sealed_bytes"]:
            raise sealing.SealBroken("the file is shorter than what was stored")
    except (StorageTrouble, sealing.SealBroken):
        upload.close()
        await find(services, principal, read_id)  # erased while it was copied
        raise
    except BaseException:
        upload.close()
        raise
    return upload


async def erase(services: Services, principal: Principal, read_id: str) -> None:
    """Erase a file, because it is registered or its owner says so. NotFound."""
    await find(services, principal, read_id)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await reads.remove(connection, principal.tenant_id, read_id)
        if row is not None:
            await audit_log.note(connection, principal, "read.remove", read_id)
    if row is not None:
        await _forget(services, row)


async def expire(services: Services) -> int:
    """Erase files whose day is over; returns their number."""
    async with services.database.transaction(SYSTEM) as connection:
        gone = await reads.remove_expired(connection)
    for row in gone:
        await _forget(services, row)
    return len(gone)


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A file as its owner sees it."""
    return {
        "id": row["id"],
        "format": row["format"],
        "bytes": row["plain_bytes"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
    }


async def _preview(
    services: Services, principal: Principal, asked: ReadRequest, upload: Upload
) -> dict[str, Any]:
    if asked.kind not in DATASETS:
        raise InvalidInput(f"one of {', '.join(DATASETS)}", pointer="/kind")
    public = asked.public
    with suppress(InvalidInput):
        public = completed(asked.kind, asked.public)
    job = {
        "kind": asked.kind,
        "public": public,
        "zones": await zone_names(services.database, principal.tenant_id, public),
        "memory_bytes": services.settings.job_memory_bytes,
    }
    found = await services.reader.preview(upload, job, services.settings.job_memory_bytes)
    return await anyio.to_thread.run_sync(looked, asked.kind, asked.public, found)


async def _note(services: Services, principal: Principal, asked: ReadRequest, read_id: str) -> None:
    """Before the file is read: an entry behind that would tell others how long that took."""
    async with services.database.transaction(principal.tenant_id) as connection:
        await audit_log.note(connection, principal, "read.look", read_id, kind=asked.kind)


async def _make_room(
    services: Services,
    connection: AsyncConnection,
    principal: Principal,
    size: int,
    coming: str = "",
) -> list[str]:
    """The oldest files of the principal, whose place the one takes that is coming. TooManyDrafts
    where it would find no room also without them."""
    own = await reads.newest(connection, principal.tenant_id, principal.name)
    own = [one for one in own if one != coming]
    staying, old = own[: MOST_FILES - 1], own[MOST_FILES - 1 :]
    taken = await reads.sealed_bytes(connection, principal.tenant_id, [*old, coming])
    if taken + size > services.settings.draft_bytes:
        raise TooManyDrafts(services.settings.draft_bytes, taken, size, staying)
    return old


@sealing_step
async def _keep(services: Services, principal: Principal, read_id: str, upload: Upload) -> Row:
    secrets, objects = services.secrets, services.objects
    wrapped = await anyio.to_thread.run_sync(sealing.wrap, secrets, read_id, upload.key)
    name = None
    if objects is not None and upload.sealed_bytes > services.settings.object_bytes:
        name = read_id
        parts = upload.file.parts(STREAM_CHUNK_BYTES)
        await anyio.to_thread.run_sync(objects.write, name, parts)
        faults.point("read.object_written")
    try:
        async with services.database.transaction(principal.tenant_id) as connection:
            row = await reads.add(
                connection,
                upload.file.parts(STREAM_CHUNK_BYTES) if name is None else (),
                id=read_id,
                tenant_id=principal.tenant_id,
                principal=principal.name,
                format=upload.format,
                plain_bytes=upload.plain_bytes,
                sealed_bytes=upload.sealed_bytes,
                content_key_id=secrets.content_key_id,
                wrapped_key=wrapped,
                object_name=name,
                expires_at=datetime.now(UTC) + timedelta(hours=HOURS),
            )
            still_known(services, secrets)
            # Each counts the files of those before it: of two at once both would find room.
            await reads.lock_tenant(connection, principal.tenant_id)
            old = await _make_room(services, connection, principal, upload.sealed_bytes, read_id)
            gone = await reads.remove_all(connection, old)
            faults.point("read.written")
    except DiscreetError:  # so it was not committed
        await _forget(services, {"object_name": name})
        raise
    for one in gone:
        await _forget(services, one)
    return row


def _copy(parts: Iterable[bytes], upload: Upload) -> None:
    for part in parts:
        upload.file.append(part)


async def _forget(services: Services, row: Mapping[str, Any]) -> None:
    """The object of a file whose key is gone; the sweep takes what is left here."""
    if row["object_name"] is not None and services.objects is not None:
        with suppress(StorageTrouble):
            await anyio.to_thread.run_sync(services.objects.erase, row["object_name"])

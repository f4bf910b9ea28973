"""Fetch what an address holds, sealed as it comes, for the reader of uploads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

import anyio.to_thread
import structlog
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from discreet.errors import Limit, PayloadTooLarge
from discreet.settings import Settings
from discreet.storage import tenants
from discreet.usecases.places import buckets, databases, local, web
from discreet.usecases.places.addresses import (
    DATABASE,
    Address,
    PlaceRefused,
    PlaceUnavailable,
    parse,
)
from discreet.usecases.places.rules import (
    BucketPlace,
    DatabasePlace,
    FolderPlace,
    Place,
    WebPlace,
    place_of,
    read_places,
)
from discreet.usecases.services import Services
from discreet.usecases.uploads import Upload, format_of

log = structlog.get_logger()

FETCH_SECONDS = 3600.0
"""The most that fetching may take."""
THREADS = 64
"""That fetch files and objects at once in one process: as many as a worker may have jobs. They are
not those of all else that the process does in threads: a place that is slow, or hangs, would hold
these for an hour, and pages and requests would wait for it."""
_limiter: RunVar[CapacityLimiter] = RunVar("discreet.places")


class Owner(Protocol):
    """For whom a content is fetched: a principal, or who had registered it."""

    @property
    def tenant_id(self) -> str: ...

    @property
    def name(self) -> str: ...


async def fetch(services: Services, owner: Owner, text: str, *, logged: bool = True) -> Upload:
    """What the address holds, as if this owner had uploaded it. The caller closes it. With `logged`
    the log says when it came, and its size, or why it did not come: for a job, none may be seen.

    PlaceRefused where no place of the operator's allows it to this owner, PlaceUnavailable,
    PlacesUnreadable, ContentChanged, PayloadTooLarge.
    """
    address = parse(text)
    places = await anyio.to_thread.run_sync(read_places, services.settings)
    whose = await _names(services, owner.tenant_id) if places else ()
    place = place_of(address, places, whose, owner.name)
    upload = Upload(services.settings.spool_folder)
    if address.scheme != DATABASE:
        upload.format = format_of(address.segments[-1], "")
    try:
        if address.is_pattern and upload.format != "parquet":
            raise PlaceRefused(
                "several files are read as one content where they are Parquet; name one"
            )
        async with asyncio.timeout(FETCH_SECONDS):
            await _copy(
                services.settings,
                place,
                address,
                upload,
                lambda other: place_of(other, places, whose, owner.name),
            )
        upload.finish()
    except TimeoutError:
        upload.close()
        raise PlaceUnavailable(f"the content does not arrive within {FETCH_SECONDS:g} s") from None
    except BaseException as error:
        upload.close()
        if logged and isinstance(error, PlaceUnavailable) and error.kind_of_cause is not None:
            log.warning("place failed", scheme=address.scheme, error=error.kind_of_cause)
        raise
    if logged:  # never the address: it may hold a signature
        size, parts = upload.plain_bytes, len(upload.parts)
        log.info("content fetched", scheme=address.scheme, bytes=size, parts=parts)
    return upload


def _threads() -> CapacityLimiter:
    """The threads of this event loop."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(CapacityLimiter(THREADS))
        return _limiter.get()


async def _copy(
    settings: Settings, place: Place, address: Address, upload: Upload, place_for: web.AnyPlaceFor
) -> None:
    def room(coming: int) -> None:
        """Refuses what would be more than an upload may have."""
        is_json = upload.format == "json"
        most = settings.json_body_bytes if is_json else settings.upload_bytes
        if upload.plain_bytes + coming > most:
            name = "json_body_bytes" if is_json else "upload_bytes"
            raise PayloadTooLarge(limit=Limit(name, "bytes", most, upload.plain_bytes + coming))

    until = time.monotonic() + FETCH_SECONDS
    match place:
        case FolderPlace():
            await anyio.to_thread.run_sync(
                local.copy, place, address, upload, room, until, limiter=_threads()
            )
        case BucketPlace():
            await anyio.to_thread.run_sync(
                buckets.copy, place, address, upload, room, until, limiter=_threads()
            )
        case WebPlace():
            await web.copy(address, place_for, upload, room)
        case DatabasePlace():
            hosts = await web.addresses_of(place, address)
            await anyio.to_thread.run_sync(
                databases.copy, place, address, hosts, upload, room, until, limiter=_threads()
            )


async def _names(services: Services, tenant_id: str) -> Sequence[str]:
    """Id and name of the tenant."""
    async with services.database.transaction(tenant_id) as connection:
        name = await tenants.name_of(connection, tenant_id)
    return (tenant_id,) if name is None else (tenant_id, name)

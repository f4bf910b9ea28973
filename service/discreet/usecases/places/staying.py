"""Contents that stay where they lie: their address, sealed, and the way from there to a job.

Such a content is registered as any other, but its digest alone is kept. Each job fetches it again,
in the worker, encrypted as it comes, and the same sandboxed reader makes it a content; nothing else
is done with it unless its digest is the one that was registered. The digest is that of the content,
so the order of rows, the number of files and their format are free.

Whoever can write the database can lead no job elsewhere: the address is sealed under a key that is
bound to the dataset's row, and what comes from there is compared with the digest, to which that key
is bound too.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio.to_thread
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, DiscreetError, InvalidInput, PayloadTooLarge, Unavailable
from discreet.isolation.children import ChildFailed
from discreet.observability import faults
from discreet.problems import DATASETS
from discreet.problems.descriptions import is_described
from discreet.problems.plans import OPENED_BYTES_PER_SECOND
from discreet.storage import audit_log, datasets, sealing, tamper_seals
from discreet.storage.keys.provider import KeysUnavailable
from discreet.storage.secrets import Secrets
from discreet.storage.tenants import Principal
from discreet.usecases.descriptions import zone_names
from discreet.usecases.known_contents import require_same_way
from discreet.usecases.places.local import ContentChanged
from discreet.usecases.places.reading import TooManyFailedReads, require_few, shown
from discreet.usecases.places.rules import (
    DATABASE,
    NothingThere,
    PlaceRefused,
    PlacesUnreadable,
    PlaceUnavailable,
    parse,
)
from discreet.usecases.places.web import Owner, fetch
from discreet.usecases.rotation import still_known
from discreet.usecases.services import Services
from discreet.usecases.uploads import NoRoom, SealedFile, reading_job

PLACE_SECONDS = 1.0
"""Planned for fetching one content, whatever its size, and for the reader's start."""
READ_BYTES_PER_SECOND = 1e7
"""Planned for fetching, reading and digesting contents."""


class PlaceFails(DiscreetError):
    """The content cannot be had from its place. `code` is one of `endings.FAILURES`, `about` names
    the dataset; `passing`: another attempt may help; `cause` says what came in the
    way, which operators hear after the padding."""

    def __init__(
        self, row: Mapping[str, Any], code: str, *, passing: bool = False, cause: str | None = None
    ) -> None:
        super().__init__(code=code)
        self.about, self.passing = f"{row['name']} ({row['id']})", passing
        self.cause = cause or code


def planned_seconds(opening_seconds: float, contents: int) -> float:
    """The time to which fetching, reading and comparing so many contents, one after the other, are
    padded, from that which the plan gives to opening stored ones: it too follows from the largest
    that public bounds allow."""
    reading = opening_seconds * OPENED_BYTES_PER_SECOND / READ_BYTES_PER_SECOND
    return contents * PLACE_SECONDS + reading


@dataclass(frozen=True)
class Stay:
    """Where a content stays, and for whom it is fetched."""

    address: str
    principal: str
    """Who registered it: the operator's file must allow them the place whenever it is fetched."""
    block: Mapping[str, str] | None
    most_bytes: int | None
    """The last two as in `Registration`."""

    def columns(self, data_key: bytes, dataset_id: str) -> dict[str, Any]:
        """Of the dataset's row. The key must never have sealed another address."""
        said = {name: getattr(self, name) for name in ("address", "principal", "block")}
        plain = json.dumps({**said, "most_bytes": self.most_bytes}).encode()
        return {
            "stays": parse(self.address).scheme,
            "place": sealing.seal_stream(data_key, _name(dataset_id), plain),
            "seen_at": datetime.now(UTC),
        }


@dataclass(frozen=True)
class Registrant:
    """Who registered a dataset, as far as places ask."""

    tenant_id: str
    name: str


@dataclass(frozen=True)
class Fetched:
    """A content that is the registered one: sealed, under the dataset's id, in a file without a
    name that the caller closes."""

    file: SealedFile
    data_key: bytes
    sealed_bytes: int


async def keep_alike(
    connection: AsyncConnection,
    services: Services,
    principal: Principal,
    known: Mapping[str, Any],
    stay: Stay | None,
) -> None:
    """Conflict where a content that is registered is stored and shall stay at a place, or the other
    way round. One that stays is fetched from where it was found now."""
    require_same_way(known, stays=stay is not None)
    if stay is None:
        return
    secrets, data_key = services.secrets, sealing.new_data_key()
    moved = await datasets.move(
        connection,
        known["id"],
        content_key_id=secrets.content_key_id,
        wrapped_key=tamper_seals.wrap(secrets, known, data_key),
        **stay.columns(data_key, known["id"]),
    )
    if not moved:
        says = f"{known['name']} ({known['id']}) was erased at this moment: register it again"
        raise Conflict(says, code="content_known")
    still_known(services, secrets)
    await audit_log.note(connection, principal, "dataset.place", known["id"])


async def with_address(
    services: Services, principal: Principal, row: Mapping[str, Any], view: dict[str, Any]
) -> dict[str, Any]:
    """The view of a dataset, for its owners with the address of its place, but of a web server
    without a query, which may be a signature. Also without address where no key opens it now."""
    if "place" not in view or principal.role != "owner":
        return view
    try:
        secrets = services.secrets
        if row["content_key_id"] not in secrets.content_keys:
            return view
        place = await anyio.to_thread.run_sync(_opened, secrets, row)
    except (KeysUnavailable, sealing.SealBroken):
        return view
    return {**view, "place": {**view["place"], "address": shown(place["address"])}}


async def address_of(services: Services, row: Mapping[str, Any]) -> str:
    """The address at which a dataset's content stays. SealBroken where no key opens it."""
    return str((await anyio.to_thread.run_sync(_opened, services.secrets, row))["address"])


async def fetch_again(services: Services, row: Mapping[str, Any], public: Any = None) -> Fetched:
    """The content of a dataset that stays at its place, which is the registered one; read by
    another public part, where one is given.

    PlaceFails if it is not, or is not to be had; SealBroken if the address does not open; NoRoom.
    The master key must be known.
    """
    place = await anyio.to_thread.run_sync(_opened, services.secrets, row)
    data_key, settings = sealing.new_data_key(), services.settings
    public = DATASETS[row["kind"]].read_public(row["public"]) if public is None else public
    owner: Owner = Registrant(row["tenant_id"], place["principal"])
    try:
        if row["stays"] == DATABASE:  # what fails there, and when, is as its query says
            await require_few(services, row["tenant_id"])
        job = reading_job(
            settings,
            services.secrets.digest_key,
            tenant=row["tenant_id"],
            kind=row["kind"],
            public=public,
            mode=row["mode"],
            name=row["id"],
            data_key=data_key,
            block=place["block"],
            most_bytes=place["most_bytes"],
            described=is_described(public),
            zones=await zone_names(services.database, row["tenant_id"], public),
        )
        upload = await fetch(services, owner, place["address"], logged=False)
        try:
            read = await services.reader.read(
                upload, settings.spool_folder, job, settings.job_memory_bytes, logged=False
            )
        finally:
            upload.close()
    except NoRoom:
        raise
    except DiscreetError as error:
        raise _failure(row, error) from error
    try:
        if not hmac.compare_digest(read.digest, bytes(row["digest"])):
            raise PlaceFails(row, "content_differs")
        faults.point("place.compared")
    except BaseException:
        read.file.close()
        raise
    return Fetched(read.file, data_key, read.sealed_bytes)


async def open_again(services: Services, row: Mapping[str, Any]) -> bytearray:
    """The packed content of such a dataset. Errors as of `fetch_again`."""
    fetched = await fetch_again(services, row)
    with fetched.file as file:
        return await anyio.to_thread.run_sync(
            sealing.open_stream,
            fetched.data_key,
            row["id"],
            fetched.sealed_bytes,
            file.parts(sealing.STREAM_CHUNK_BYTES),
        )


def _failure(row: Mapping[str, Any], error: DiscreetError) -> DiscreetError:
    """What a job says of it. Whatever depends on what lies there now, other than that it is not the
    registered content, is one code: of what it is nothing is told."""
    cause = error.code
    if isinstance(error, PlaceUnavailable) and error.kind_of_cause is not None:
        cause += f": {error.kind_of_cause}"
    elif isinstance(error.__cause__, ChildFailed) and isinstance(error, Unavailable):
        cause += f": {error.__cause__.code}"
    fails = partial(PlaceFails, row, cause=cause)
    match error:
        case TooManyFailedReads():
            return fails(error.code)
        case NothingThere():
            return fails("content_missing")
        case PlaceRefused():
            return fails("place_forbidden")
        case ContentChanged():  # while it was read: it may be whole, and the same, the next time
            return fails("content_differs", passing=True)
        case InvalidInput() | PayloadTooLarge():
            return fails("content_differs")
        case PlaceUnavailable() | PlacesUnreadable():
            return fails("place_unreadable", passing=True)
        case Unavailable():
            return fails("content_not_read", passing=True)
    return error


def _opened(secrets: Secrets, row: Mapping[str, Any]) -> dict[str, Any]:
    if row["place"] is None or row["wrapped_key"] is None:
        raise sealing.SealBroken("the content does not exist")
    data_key = tamper_seals.unwrap(secrets, row)
    sealed = bytes(row["place"])
    found: dict[str, Any] = json.loads(
        sealing.open_stream(data_key, _name(row["id"]), len(sealed), [sealed])
    )
    return found


def _name(dataset_id: str) -> str:
    """Under which the address is sealed; no content is."""
    return f"{dataset_id}/place"

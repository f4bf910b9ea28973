"""Contents of an HTTPS server, fetched by the client of `discreet.outbound`.

Unless the place may be private, all IP addresses of its name must be in the public internet. A
redirect is followed only to an address in a place that the same owner may use; it is resolved and
checked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import urljoin

import anyio.to_thread
import structlog
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from discreet import outbound
from discreet.errors import Limit, PayloadTooLarge
from discreet.outbound import Answer, Asks, OutboundError, Reach
from discreet.settings import Settings
from discreet.storage import tenants
from discreet.usecases.places import buckets, databases, local
from discreet.usecases.places.rules import (
    DATABASE,
    Address,
    BucketPlace,
    DatabasePlace,
    FolderPlace,
    NothingThere,
    Place,
    PlaceRefused,
    PlaceUnavailable,
    ServerPlace,
    WebPlace,
    parse,
    place_of,
    read_places,
)
from discreet.usecases.services import Services
from discreet.usecases.uploads import Upload, format_of

PIECE_BYTES = 1 << 20
REDIRECTS = 5
ATTEMPTS = 4
"""Attempts at one request, which is repeated if the server is busy (429, 503), or if the connection
breaks before any content came."""
LONGEST_PAUSE_SECONDS = 10.0
_AGAIN = (429, 503)
_FINAL = (outbound.AnswerRefused, outbound.CertificateRefused)
"""What another attempt does not cure."""
AnyPlaceFor = Callable[[Address], Place]
Room = Callable[[int], None]


async def copy(address: Address, place_for: AnyPlaceFor, upload: Upload, room: Room) -> None:
    """Write the content at the address to the upload, and set the upload's format from the name or
    media type. `place_for` returns the place of an address or raises; `room` is called with the
    bytes that will come, and raises if they are too many.

    Raises PlaceRefused or PlaceUnavailable.
    """
    for _ in range(REDIRECTS + 1):
        place = place_for(address)
        if not isinstance(place, WebPlace):
            raise PlaceRefused("the server redirects to an address that is not https://")
        next_address = await _follow(address, place, upload, room)
        if next_address is None:
            return
        address = next_address
    raise PlaceRefused(f"the server redirects more than {REDIRECTS} times")


async def addresses_of(place: ServerPlace, address: Address) -> list[str]:
    """The IP addresses of a place's server. PlaceRefused, PlaceUnavailable."""
    try:
        return await outbound.resolve(address.hostname, address.port, _networks(place))
    except outbound.AddressRefused as error:
        raise PlaceRefused(error.why) from error
    except OutboundError as error:
        raise PlaceUnavailable(error.why) from error


async def _follow(address: Address, place: WebPlace, upload: Upload, room: Room) -> Address | None:
    """None once the content was written, or the address to which the server redirects."""
    for attempt in range(1, ATTEMPTS + 1):
        pause = min(2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS)
        try:
            found = await _ask(address, place, upload, room, attempt)
        except outbound.AddressRefused as error:
            raise PlaceRefused(error.why) from error
        except OutboundError as error:
            if isinstance(error, _FINAL) or upload.plain_bytes or attempt == ATTEMPTS:
                raise PlaceUnavailable(error.why) from error
        else:
            if not isinstance(found, float):
                return found
            pause = found
            if attempt == ATTEMPTS:
                break
        await asyncio.sleep(pause)
    raise PlaceUnavailable("the server says that it is too busy; nothing was registered")


async def _ask(
    address: Address, place: WebPlace, upload: Upload, room: Room, attempt: int
) -> Address | float | None:
    """As `_follow`, or the seconds to wait before the next attempt."""
    own = place.authorization
    headers = {} if own is None else {"Authorization": own.get_secret_value()}
    asks = Asks("GET", address.text, headers, authority=place.authority, attempt=attempt)
    async with outbound.ask(asks, Reach(_networks(place))) as answer:
        return await _answer(answer, address, upload, room)


async def _answer(
    answer: Answer, address: Address, upload: Upload, room: Room
) -> Address | float | None:
    if answer.status in outbound.REDIRECTING:
        try:
            return parse(urljoin(address.text, answer.location))
        except (PlaceRefused, ValueError) as error:
            raise PlaceRefused(
                "the server redirects to an address from which nothing may be read"
            ) from error
    if answer.status in _AGAIN:
        after = answer.headers.get("retry-after", "")
        return min(float(after), LONGEST_PAUSE_SECONDS) if _is_number(after) else 1.0
    if answer.status in (404, 410):
        raise NothingThere("the server has nothing at this address")
    if answer.status in (401, 403):
        raise PlaceUnavailable("the server does not let this service in")
    if answer.status != 200:
        raise PlaceUnavailable(f"the server answers with status {answer.status}")
    upload.format = format_of(address.segments[-1], answer.media_type)
    declared = answer.headers.get("content-length", "")
    if _is_number(declared):
        room(int(declared))
    piece = bytearray()
    async for part in answer.parts():
        piece += part
        room(len(piece))
        if len(piece) >= PIECE_BYTES:
            await anyio.to_thread.run_sync(upload.write, bytes(piece))
            piece.clear()
    await anyio.to_thread.run_sync(upload.write, bytes(piece))
    upload.end_part()
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def _networks(place: ServerPlace) -> outbound.Networks:
    return "private" if place.private else "public"


# Fetching -----------------------------------------------------------------------------------------
# Fetch what an address holds, sealed as it comes, for the reader of uploads.

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
    settings: Settings, place: Place, address: Address, upload: Upload, place_for: AnyPlaceFor
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
            await copy(address, place_for, upload, room)
        case DatabasePlace():
            hosts = await addresses_of(place, address)
            await anyio.to_thread.run_sync(
                databases.copy, place, address, hosts, upload, room, until, limiter=_threads()
            )


async def _names(services: Services, tenant_id: str) -> Sequence[str]:
    """Id and name of the tenant."""
    async with services.database.transaction(tenant_id) as connection:
        name = await tenants.name_of(connection, tenant_id)
    return (tenant_id,) if name is None else (tenant_id, name)

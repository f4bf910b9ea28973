"""Contents of an HTTPS server, fetched from the very IP address that was checked.

A name is resolved once a request. Unless the place may be private, all its IP addresses must be in
the public internet, and the connection goes to one of them, not to the name again, which could
resolve differently a moment later (DNS rebinding). Link-local addresses, where clouds serve
credentials, are always refused. The certificate must be valid for the name. A redirect is followed
only to an address in a place that the same owner may use; it is resolved and checked again. Proxies
of the environment are not used, since a proxy would resolve the name itself.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from urllib.parse import urljoin

import anyio.to_thread
import httpx

from discreet.usecases.places.addresses import (
    Address,
    NothingThere,
    PlaceRefused,
    PlaceUnavailable,
    parse,
)
from discreet.usecases.places.hosts import CONNECT_SECONDS, resolve
from discreet.usecases.places.rules import Place, WebPlace
from discreet.usecases.uploads import Upload, format_of

SILENT_SECONDS = 30.0
"""The longest that a server may send nothing."""
SLOW_SECONDS, SLOW_BYTES = 60.0, 1e4
"""After so many seconds a server must have sent so many bytes a second: one that sends a byte now
and then is not waited for."""
PIECE_BYTES = 1 << 20
REDIRECTS = 5
ATTEMPTS = 4
"""Attempts at one request, which is repeated if the server is busy (429, 503), or if the connection
breaks before any content came."""
LONGEST_PAUSE_SECONDS = 10.0
REDIRECTING = (301, 302, 303, 307, 308)
_AGAIN = (429, 503)
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


async def _follow(address: Address, place: WebPlace, upload: Upload, room: Room) -> Address | None:
    """None once the content was written, or the address to which the server redirects."""
    for attempt in range(1, ATTEMPTS + 1):
        pause = min(2.0 ** (attempt - 2), LONGEST_PAUSE_SECONDS)
        try:
            found = await _ask(address, place, upload, room, attempt)
        except (httpx.HTTPError, OSError, ssl.SSLError) as error:
            if upload.plain_bytes or attempt == ATTEMPTS:
                raise _trouble(error, upload.plain_bytes > 0) from error
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
    addresses = await resolve(address, private=place.private)
    where = addresses[(attempt - 1) % len(addresses)]  # a dead server costs only one attempt
    authority = place.authority is None or ssl.create_default_context(cafile=str(place.authority))
    url = httpx.URL(address.text)
    headers = {"Host": url.netloc.decode(), "Accept-Encoding": "identity", "User-Agent": "discreet"}
    if place.authorization is not None:
        headers["Authorization"] = place.authorization.get_secret_value()
    timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
    async with httpx.AsyncClient(
        verify=authority, trust_env=False, follow_redirects=False, timeout=timeout
    ) as client:
        request = client.build_request(
            "GET",
            url.copy_with(host=where),
            headers=headers,
            extensions={"sni_hostname": address.hostname},
        )
        answer = await client.send(request, stream=True)
        try:
            return await _answer(answer, address, upload, room)
        finally:
            await answer.aclose()


async def _answer(
    answer: httpx.Response, address: Address, upload: Upload, room: Room
) -> Address | float | None:
    status = answer.status_code
    if status in REDIRECTING:
        try:
            return parse(urljoin(address.text, answer.headers.get("location", "")))
        except (PlaceRefused, ValueError) as error:
            raise PlaceRefused(
                "the server redirects to an address from which nothing may be read"
            ) from error
    if status in _AGAIN:
        after = answer.headers.get("retry-after", "")
        return min(float(after), LONGEST_PAUSE_SECONDS) if after.isdecimal() else 1.0
    if status in (404, 410):
        raise NothingThere("the server has nothing at this address")
    if status in (401, 403):
        raise PlaceUnavailable("the server does not let this service in")
    if status != 200:
        raise PlaceUnavailable(f"the server answers with status {status}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise PlaceUnavailable(
            "the server sends the content compressed, though the request forbids it"
        )
    upload.format = format_of(
        address.segments[-1], answer.headers.get("content-type", "").partition(";")[0].strip()
    )
    declared = answer.headers.get("content-length", "")
    if declared.isdecimal():
        room(int(declared))
    piece, began = bytearray(), time.monotonic()
    async for part in answer.aiter_raw():
        piece += part
        room(len(piece))
        seconds = time.monotonic() - began
        if seconds > SLOW_SECONDS and upload.plain_bytes + len(piece) < seconds * SLOW_BYTES:
            raise PlaceUnavailable("the server sends the content too slowly")
        if len(piece) >= PIECE_BYTES:
            await anyio.to_thread.run_sync(upload.write, bytes(piece))
            piece.clear()
    await anyio.to_thread.run_sync(upload.write, bytes(piece))
    upload.end_part()
    return None


def _trouble(error: Exception, begun: bool) -> PlaceUnavailable:
    """The error for the owner: its kind, but not its text, which may contain the address."""
    if begun or isinstance(error, httpx.RemoteProtocolError):
        return PlaceUnavailable("the server ended the connection before all content came")
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return PlaceUnavailable("the server does not answer in time")
    if isinstance(error, socket.gaierror):
        return PlaceUnavailable("the name of the server is not known")
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return PlaceUnavailable(
                "the server's certificate is not valid for this name, or no known authority has "
                "signed it"
            )
        cause = cause.__cause__ or cause.__context__
    return PlaceUnavailable("the server cannot be reached")

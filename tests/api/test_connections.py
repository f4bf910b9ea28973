"""Clients that begin and do not go on: their connections end, and nobody else's do."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from discreet.api.connections import bounded_protocol
from discreet.settings import Settings
from discreet.web import problem_details

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n"
OPENED: list[asyncio.StreamWriter] = []
QUICK = {"header_seconds": 0.3, "body_stall_seconds": 0.3}
PATIENT = {"header_seconds": 3600.0, "body_stall_seconds": 3600.0}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers the number of bytes of the body; reads it after a while where the path says so."""
    if scope["path"] == "/later":
        await asyncio.sleep(1.0)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]}
    )
    await send({"type": "http.response.body", "body": b"%09d" % size})


@asynccontextmanager
async def listening(**values: Any) -> AsyncIterator[int]:
    config = uvicorn.Config(
        application,
        port=0,
        lifespan="off",
        log_level="critical",
        http=bounded_protocol(Settings(**values)),
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    while OPENED:
        OPENED.pop().close()
    server.should_exit = server.force_exit = True
    await task


async def opened(port: int, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    OPENED.append(writer)
    writer.write(sent)
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Head and nine bytes of an answer that leaves the connection open."""
    return await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(9)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost:", POST + b"1234"])
def test_unfinished_requests_end(sent: bytes) -> None:
    async def scene() -> None:
        async with listening(**QUICK) as port:
            reader, _ = await opened(port, sent)
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    asyncio.run(scene())


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_as_everything_is(sent: bytes) -> None:
    async def scene() -> None:
        async with listening(**PATIENT) as port:
            reader, _ = await opened(port, sent)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            status, *headers = head.lower().split(b"\r\n")
            assert status == b"http/1.1 400 bad request"
            assert {
                b"content-type: application/problem+json",
                b"x-content-type-options: nosniff",
                b"cache-control: no-store",
                b"connection: close",
            } <= set(headers)
            assert json.loads(body) == problem_details.example("invalid_http")

    asyncio.run(scene())


@pytest.mark.parametrize("first", [GET, POST + b"12345678"])
def test_a_body_that_begins_in_the_packet_of_the_request_before_has_its_time_too(
    first: bytes,
) -> None:
    """It is read once that one is answered, and then no byte comes that would begin a wait."""

    async def scene() -> None:
        async with listening(**QUICK) as port:
            reader, _ = await opened(port, first + POST + b"1234")
            assert (await answer(reader)).startswith(b"HTTP/1.1 200 ")
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    asyncio.run(scene())


def test_connections_without_a_byte_end_silently() -> None:
    async def scene() -> None:
        async with listening(**QUICK) as port:
            reader, _ = await opened(port, b"")
            assert await reader.read() == b""

    asyncio.run(scene())


def test_a_head_that_drips_ends_and_a_body_that_drips_does_not() -> None:
    async def scene() -> None:
        async with listening(**QUICK) as port:
            reader, writer = await opened(port, b"GET / HTTP/1.1\r\nX: ")
            dripping = asyncio.create_task(drip(writer))
            with contextlib.suppress(
                ConnectionResetError
            ):  # where a byte met the closed connection
                await reader.read()
            dripping.cancel()
        async with listening(
            header_seconds=3600.0, body_stall_seconds=2.0, body_bytes_per_second=1
        ) as port:
            reader, writer = await opened(port, POST)
            for _ in range(8):
                await asyncio.sleep(0.4)
                writer.write(b"x")
            assert (await answer(reader)).endswith(b"000000008")

    asyncio.run(scene())


async def drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await asyncio.sleep(0.02)


def test_a_body_that_drips_for_ever_is_ended() -> None:
    """Each byte comes within the pause that is allowed, and nothing else would ever end it."""

    async def scene() -> None:
        async with listening(header_seconds=3600.0, body_stall_seconds=0.5) as port:
            reader, writer = await opened(port, POST.replace(b"8", b"999999999"))
            dripping = asyncio.create_task(drip(writer))
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
            dripping.cancel()

    asyncio.run(scene())


def test_the_second_head_of_a_connection_has_its_time_too() -> None:
    async def scene() -> None:
        async with listening(**QUICK) as port:
            reader, writer = await opened(port, GET)
            assert (await answer(reader)).startswith(b"HTTP/1.1 200 ")
            writer.write(b"GET / HT")
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")

    asyncio.run(scene())


def test_an_application_that_reads_late_is_no_stall() -> None:
    async def scene() -> None:
        size = 4_000_000  # more than the server buffers
        async with listening(**QUICK) as port:
            head = b"POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size
            reader, _ = await opened(port, head + bytes(size))
            assert (await answer(reader)).endswith(b"%09d" % size)

    asyncio.run(scene())


def test_the_oldest_of_too_many_that_wait_makes_room() -> None:
    async def scene() -> None:
        async with listening(**PATIENT, waiting_connections=3) as port:
            waiting = [await opened(port, b"GET / HT") for _ in range(3)]
            for _ in range(2):
                reader, writer = await opened(port, GET)
                assert (await answer(reader)).startswith(b"HTTP/1.1 200 ")
            first = waiting[0]
            assert (await first[0].read()).startswith(b"HTTP/1.1 408 ")
            for reader, writer in waiting[2:]:
                writer.write(b"TP/1.1\r\nHost: x\r\n\r\n")
                assert (await answer(reader)).startswith(b"HTTP/1.1 200 ")

    asyncio.run(scene())

"""Crowds of calls that mean no good, against a real rpc process: what tests do a little of, and
`make hostile` much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread
from typing import Any

import grpc

from discreet_agent.federation import signing
from discreet_agent.federation.identity import Identity
from discreet_agent.stubs import federation_pb2 as pb

ENROLL, PARTICIPATE = "/discreet.v1.Federation/Enroll", "/discreet.v1.Federation/Participate"
CODE_KEY = "discreet-code"


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled_memory(pid: int, seconds: float = 30.0) -> int:
    """Resident bytes of a process once they have stood still for two seconds, within 2 MiB: what a
    start still gives back must not hide what an attack took."""
    end, before = time.monotonic() + seconds, memory_of(pid)
    while time.monotonic() < end:
        time.sleep(2)
        now = memory_of(pid)
        if abs(now - before) < 2 << 20:
            return now
        before = now
    return before


@asynccontextmanager
async def connections(port: int, count: int) -> AsyncIterator[list[Any]]:
    """So many TCP connections, each of its own."""
    own = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) for _ in range(count)]
    try:
        yield channels
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))


async def ended(call: Any) -> tuple[str, str]:
    """Status and code of a call that is refused."""
    try:
        if isinstance(call, grpc.aio.StreamStreamCall):
            while await call.read() is not grpc.aio.EOF:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, dict(error.trailing_metadata() or ()).get(CODE_KEY, "")
    return "OK", ""


async def first_messages(
    port: int, count: int, size: int, at_once: int = 46
) -> Counter[tuple[str, str]]:
    """Calls whose first message is garbage of `size` bytes, half of them streams; how they
    ended."""
    garbage = bytes(size)
    answers: Counter[tuple[str, str]] = Counter()
    turns = asyncio.Semaphore(at_once)
    async with connections(port, 8) as channels:

        async def send(number: int) -> None:
            channel = channels[number % len(channels)]
            async with turns:
                if number % 2:
                    call = channel.stream_stream(PARTICIPATE)()
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await call.write(garbage)
                else:
                    call = channel.unary_unary(ENROLL)(garbage)
                answers[await ended(call)] += 1

        await asyncio.gather(*(send(number) for number in range(count)))
    return answers


@contextmanager
def endless_headers(port: int, size: int) -> Iterator[None]:
    """A connection whose call begins with a header block of `size` bytes and more: CONTINUATION
    frames (RFC 9113, section 6.10) none of which ends it."""

    def frame(kind: int, stream: int, payload: bytes) -> bytes:
        return (
            struct.pack(">I", len(payload))[1:]
            + bytes([kind, 0])
            + struct.pack(">I", stream)
            + payload
        )

    def literal(name: bytes, value: bytes) -> bytes:
        """A header field without indexing (RFC 7541, section 6.2.2)."""
        return b"\0" + b"".join(_integer(len(part)) + part for part in (name, value))

    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": ENROLL.encode(),
        b":authority": b"x",
    }
    begin = b"".join(literal(name, value) for name, value in fields.items())
    more = frame(9, 1, literal(b"a", b"b" * 16_000))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"") + frame(1, 1, begin)
        )
        with contextlib.suppress(OSError):  # closed on us: that is a defence too
            for _ in range(size // len(more) + 1):
                connection.sendall(more)
        yield


def _integer(number: int) -> bytes:
    """A length of seven bits and more (RFC 7541, section 5.1)."""
    if number < 127:
        return bytes([number])
    coded, number = [127], number - 127
    while number >= 128:
        coded.append(number % 128 | 128)
        number //= 128
    return bytes([*coded, number])


async def enrolments(
    port: int, count: int, session: str, token: str, at_once: int = 200
) -> Counter[tuple[str, str]]:
    """Well-formed enrolments, each well signed by a key of its own, with a token that is none."""
    answers: Counter[tuple[str, str]] = Counter()
    turns = asyncio.Semaphore(at_once)
    async with connections(port, 8) as channels:

        async def send(number: int) -> None:
            async with turns:
                answers[
                    await ended(channels[number % 8].unary_unary(ENROLL)(enrolment(session, token)))
                ] += 1

        await asyncio.gather(*(send(number) for number in range(count)))
    return answers


def enrolment(session: str, token: str) -> bytes:
    identity = Identity.generate()
    content = pb.Enrolment(
        token=token,
        name="raw",
        unit="trajectory",
        cap_epsilon="1",
        cap_delta="0",
        announcement=b"{}",
    )
    data, nonce, now = content.SerializeToString(), os.urandom(16), time.time_ns() // 1_000_000
    return pb.EnrollRequest(
        session=session,
        public_key=identity.public_key,
        nonce=nonce,
        timestamp_ms=now,
        content=data,
        signature=identity.sign(signing.enrolment(session, nonce, now, data)),
    ).SerializeToString()


async def keep_silent(
    port: int, streams: int, channels: int, stop: Event, tally: Counter[str]
) -> None:
    """Hold so many streams that say nothing; a stream that is closed is opened again at once."""
    async with connections(port, channels) as opened:

        async def hold(number: int) -> None:
            channel = opened[number % channels]
            while not stop.is_set():
                call = channel.stream_stream(PARTICIPATE)()
                tally["opened"] += 1
                _, code = await ended(call)
                tally[code] += 1
                await asyncio.sleep(0.1)

        holding = [asyncio.create_task(hold(number)) for number in range(streams)]
        await asyncio.to_thread(stop.wait)
        for task in holding:
            task.cancel()
        await asyncio.gather(*holding, return_exceptions=True)


@contextmanager
def silence(port: int, streams: int, channels: int) -> Iterator[Counter[str]]:
    """`keep_silent` in a thread of its own; what became of its streams, by code."""
    stop, tally = Event(), Counter[str]()
    thread = Thread(target=lambda: asyncio.run(keep_silent(port, streams, channels, stop, tally)))
    thread.start()
    try:
        end = time.monotonic() + 60
        while tally["opened"] < streams and time.monotonic() < end:
            time.sleep(0.05)
        yield tally
    finally:
        stop.set()
        thread.join()

"""Who may connect, and how much they may send: the waiting room, the length of messages, and seats.

    a stranger     a place in the waiting room, one message of FIRST_BYTES, FIRST_SECONDS for it
    an agent       a guest's seat, messages of FIRST_BYTES, while the owner has not signed
    on a roster    a seat that was kept for it; a round's answer as heavy as the plan says

Nothing here looks at an IP address: a hundred honest agents may share one (NAT), and a hundred
strangers need not. Instead connections are compared: one with many silent streams makes room
before one with a single stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc
from prometheus_client import Gauge

from discreet.errors import DiscreetError, PayloadTooLarge, Unavailable

FIRST_BYTES = 8 << 10
"""Longest message of a stream whose agent is not on a roster: an Enroll, a Hello; also of health
and reflection."""
FIRST_SECONDS = 5.0
"""How long a stream may be silent before its first message."""
YIELD_SECONDS = 0.5
"""A stream that was silent for so long makes room where all places are taken. Who means to say
Hello has said it by then from most places on Earth; who has not comes again."""

_waiting = Gauge("discreet_rpc_waiting", "Calls whose first message has not come or is looked at")
_seats = Gauge("discreet_rpc_streams", "Agents' streams that are open, after their Hello")
_reserved = Gauge("discreet_rpc_reserved", "Seats that are kept for the members of signed rosters")


class Visitor:
    """One call in the waiting room."""

    def __init__(self, connection: str, deadline: asyncio.Timeout) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.silent = True
        self.sent_away = False
        self._deadline = deadline

    def arrived(self) -> None:
        """The first message has arrived, so its deadline no longer applies."""
        self.silent = False
        self._deadline.reschedule(None)

    def send_away(self) -> None:
        self.sent_away = True
        self.silent = False
        self._deadline.reschedule(asyncio.get_running_loop().time())


class WaitingRoom:
    """Places for calls about which nothing is known yet.

    What they can hold at most is `places` messages of the size that gRPC lets in; longer ones it
    refuses by their first bytes. When all places are taken, the connection with the most silent
    calls loses its oldest to a newcomer of a connection with fewer; among equals the oldest goes
    once it has been silent for YIELD_SECONDS. Otherwise the newcomer is told to try again later.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._there: dict[Visitor, None] = {}  # in the order of their coming

    @asynccontextmanager
    async def visit(self, connection: str) -> AsyncIterator[Visitor]:
        """A place until the block ends. Unavailable when there is none (`too_many_streams`), when
        another needs it more, or when no message comes in time (`first_message_late`)."""
        if len(self._there) >= self._places:
            self._make_room(connection)
        visitor: Visitor | None = None
        try:
            async with asyncio.timeout(FIRST_SECONDS) as deadline:
                visitor = Visitor(connection, deadline)
                self._there[visitor] = None
                _waiting.set(len(self._there))
                yield visitor
        except TimeoutError:
            if visitor is None or not deadline.expired():
                raise
            if visitor.sent_away:
                raise too_many() from None
            raise Unavailable(
                f"no message came within {FIRST_SECONDS:g} s; come again", code="first_message_late"
            ) from None
        finally:
            if visitor is not None:
                self.leave(visitor)

    def leave(self, visitor: Visitor) -> None:
        """The visitor got a seat or left. Calling this again is harmless."""
        self._there.pop(visitor, None)
        _waiting.set(len(self._there))

    def _make_room(self, connection: str) -> None:
        silent: dict[str, list[Visitor]] = {}
        for visitor in self._there:
            if visitor.silent:
                silent.setdefault(visitor.connection, []).append(visitor)
        fullest = max(silent.values(), key=len, default=[])
        if len(fullest) > len(silent.get(connection, [])) + 1:
            away = fullest[0]
        else:
            oldest = next((visitor for visitor in self._there if visitor.silent), None)
            if oldest is None or time.monotonic() - oldest.since < YIELD_SECONDS:
                raise too_many()
            away = oldest
        away.send_away()
        self.leave(away)


class Messages:
    """A stream's messages as bytes, none longer than `most` is at that moment, and not too many in
    a second.

    They are read by `context.read`: gRPC's iterator over a call's messages keeps the last one until
    a collector comes. A message that is too long is let go before the refusal is raised: a
    traceback that keeps a frame keeps no message.
    """

    def __init__(self, context: Any, visitor: Visitor, room: WaitingRoom, rate: float) -> None:
        self.most = FIRST_BYTES
        self._context, self._visitor, self._room = context, visitor, room
        self._rate = self._left = rate
        self._last = time.monotonic()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        message: bytes = await self._context.read()
        if message is grpc.aio.EOF:
            raise StopAsyncIteration
        if self._visitor.silent:
            self._visitor.arrived()
        size = len(message)
        if size > self.most:
            del message
            raise too_long(size, self.most)
        now = time.monotonic()  # a token bucket of one second
        self._left = min(self._rate, self._left + (now - self._last) * self._rate)
        self._last = now
        if self._left < 1:
            raise PayloadTooLarge(
                f"more than {self._rate:g} messages a second", code="too_many_messages"
            )
        self._left -= 1
        return message

    def seated(self) -> None:
        """The agent is known, so its place in the waiting room is free again."""
        self._room.leave(self._visitor)


class Seats:
    """The streams of known agents, `most` in all. Seats of a signed roster's members are
    reserved as long as this process runs their session, connected or not; agents that wait for a
    signature use the rest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rosters: dict[str, int] = {}
        self._guests: dict[Any, Callable[[DiscreetError], None]] = {}

    @property
    def reserved(self) -> int:
        return sum(self._rosters.values())

    def reserve(self, job_id: str, members: int) -> None:
        """Keep seats for a roster, to be given back by `free`; guests make room, the last to come
        first. Unavailable when other rosters leave too few; one that is larger than the whole
        process has it for itself."""
        others = self.reserved - self._rosters.get(job_id, 0)
        if others and others + members > self._most:
            raise too_many()
        self._rosters[job_id] = members
        _reserved.set(self.reserved)
        while self._guests and len(self._guests) + self.reserved > self._most:
            _, send_away = self._guests.popitem()
            send_away(too_many())

    def free(self, job_id: str) -> None:
        self._rosters.pop(job_id, None)
        _reserved.set(self.reserved)

    def seat_guest(self, seat: Any, send_away: Callable[[DiscreetError], None]) -> None:
        """A seat that is not kept for anybody; Unavailable when there is none."""
        if len(self._guests) + self.reserved >= self._most:
            raise too_many()
        self._guests[seat] = send_away

    def free_guest_seat(self, seat: Any) -> None:
        """Free a guest's seat, since it left or has a seat of its roster now; nothing happens
        for others."""
        self._guests.pop(seat, None)


def too_long(size: int, most: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"a message of {size} bytes; {most} are allowed here", code="message_too_large"
    )


def too_many() -> Unavailable:
    return Unavailable(
        "this process serves as many streams as it may; try again", code="too_many_streams"
    )


@contextmanager
def open_stream() -> Iterator[None]:
    """Counts an agent's stream while it is open."""
    with _seats.track_inprogress():
        yield

"""The server of a run over gRPC: it relays the agents' messages and reports the sums."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from discreet_agent.packing import Integers
from discreet_agent.secure_sum.errors import Missing, SecureSumError, Tampered
from discreet_agent.sparse_sum.conversation import (
    HEAD,
    SETTING_UP,
    Conductor,
    Step,
    longest_answer,
)
from discreet_agent.sparse_sum.group import digest
from discreet_agent.sparse_sum.roster import Roster
from discreet_agent.sparse_sum.signing import verify
from discreet_agent.sparse_sum.wire import SIGNATURE

SERVICE, METHOD = "discreet.SparseSum", "Converse"
PLACE = struct.Struct(">I")
END = b""
"""The last message of a stream: the run is over."""
HELLO_SECONDS = 10.0
NONCE = 32

Tell = Callable[[dict[str, Any]], None]
Seat = asyncio.Queue[bytes | None]
"""Messages for one stream; None ends it."""


def hello(roster: Roster, nonce: bytes) -> bytes:
    """The statement that an agent signs to authenticate: a stream's first message is its place and
    the signature."""
    return digest(b"hello", roster.digest, nonce)


class Relay:
    """Runs a `Conductor` for the connected agents. `seconds`: how long a step waits for agents.

    `tell` receives `{"round", "sum", "agents"}` for each sum, and `{"round", "lost"}` or `{"setup",
    "lost"}`, with the reason, for a round or setup that failed.
    """

    def __init__(self, conductor: Conductor, seconds: float, tell: Tell) -> None:
        self.conductor, self._seconds, self._tell = conductor, seconds, tell
        self._seats: dict[int, Seat] = {}
        self._asked = False  # whether the step's messages are out
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Run until the last round is over, or no setup is left."""
        conductor = self.conductor
        while not conductor.done:
            if conductor.step is Step.SHARES:
                await self._wait(self._are_enough)
            for place, message in conductor.messages.items():
                if place in self._seats:
                    self._seats[place].put_nowait(message)
            self._asked = True
            await self._wait(self._have_all_answered)
            self._advance()
        for seat in self._seats.values():
            seat.put_nowait(END)
            seat.put_nowait(None)

    def _are_enough(self) -> bool:
        return len(self._seats) >= self.conductor.roster.plan.minimum

    def _have_all_answered(self) -> bool:
        """Whether the step can end. In a round, agents that have disconnected are not waited
        for."""
        missing = self.conductor.waited_for
        if self.conductor.step in SETTING_UP:
            return not missing
        return missing.isdisjoint(self._seats)

    def _advance(self) -> None:
        self._asked = False
        conductor = self.conductor
        what = "setup" if conductor.step in SETTING_UP else "round"
        number = conductor.number
        try:
            found: Integers | None = conductor.advance()
        except (Missing, Tampered) as error:
            self._tell({what: number, "lost": str(error)})
        else:
            if found is not None:
                agents = sorted(conductor.summed)
                self._tell({what: number, "sum": found.tolist(), "agents": agents})

    async def _wait(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._seconds
        while not enough() and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        """One agent's stream. A newer stream of the same agent ends it."""
        nonce = os.urandom(NONCE)
        yield nonce
        place = await self._greeted(requests, nonce, context)
        seat: Seat = asyncio.Queue()
        before = self._seats.pop(place, None)
        if before is not None:
            before.put_nowait(None)
        self._seats[place] = seat
        conductor = self.conductor
        if again := conductor.joining():
            seat.put_nowait(again)
        if self._asked and place in conductor.waited_for:
            seat.put_nowait(conductor.messages[place])
        self._changed.set()
        reading = asyncio.create_task(self._read(place, seat, requests))
        try:
            while (message := await seat.get()) is not None:
                yield message
        finally:
            reading.cancel()
            self._leave(place, seat)

    async def _greeted(self, requests: AsyncIterator[bytes], nonce: bytes, context: Any) -> int:
        """The place of the agent that has signed this stream's nonce; other streams are aborted."""
        roster = self.conductor.roster
        try:
            said = await asyncio.wait_for(anext(requests, b""), HELLO_SECONDS)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the first message is late")
            raise AssertionError from None
        if len(said) == PLACE.size + SIGNATURE:
            (place,) = PLACE.unpack_from(said)
            known = place < len(roster.keys)
            if known and verify(roster.keys[place], said[PLACE.size :], hello(roster, nonce)):
                return int(place)
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not an agent of this roster")
        raise AssertionError

    async def _read(self, place: int, seat: Seat, requests: AsyncIterator[bytes]) -> None:
        try:
            async for said in requests:
                self._take(place, said)
        finally:
            seat.put_nowait(None)

    def _take(self, place: int, said: bytes) -> None:
        """Take an answer to the message of this step; answers to other messages are late and
        ignored, and an empty answer is a refusal."""
        conductor = self.conductor
        head, body = said[: HEAD.size], said[HEAD.size :]
        if place in conductor.waited_for and head == conductor.messages[place][: HEAD.size]:
            try:
                conductor.take(place, body)
            except SecureSumError as error:
                conductor.waited_for.discard(place)
                if body:
                    print(f"agent {place}: {error}", file=sys.stderr)
            self._changed.set()

    def _leave(self, place: int, seat: Seat) -> None:
        if self._seats.get(place) is seat:
            del self._seats[place]
        self._changed.set()


async def serve(
    relay: Relay,
    address: str,
    *,
    certificate: tuple[bytes, bytes] | None = None,
    ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Serve a run to its end. `certificate`: key and chain (PEM), without which nothing is
    encrypted. `ready` is called with the port. OSError if the address cannot be bound."""
    handler = grpc.stream_stream_rpc_method_handler(relay.converse)
    longest = HEAD.size + longest_answer(relay.conductor.roster.plan)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", longest)])
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    try:
        if certificate is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, grpc.ssl_server_credentials([certificate]))
    except RuntimeError as error:  # gRPC has no narrower one
        raise OSError(f"cannot listen at {address}: {error}") from None
    await server.start()
    try:
        ready(port)
        await relay.run()
    finally:
        await server.stop(grace=1.0)


def print_line(told: dict[str, Any]) -> None:
    """Print the JSON object on a line of its own."""
    print(json.dumps(told), flush=True)

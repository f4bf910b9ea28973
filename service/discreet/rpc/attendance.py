"""The agents of one session: who is connected, what was asked of them, and what they answered."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.errors import (
    Conflict,
    DiscreetError,
    Forbidden,
    InvalidInput,
    Unauthenticated,
    Unavailable,
)
from discreet.ledger.entries import Signer
from discreet.problems.federation import DECLINED
from discreet.rpc.admission import FIRST_BYTES, Messages, Seats
from discreet.rpc.authentication import signed
from discreet.rpc.interceptors import Checked, Received
from discreet.rpc.retries import stubbornly
from discreet.rpc.statements import charge_of, start_message
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.usecases.sessions.rounds import SessionLease
from discreet_agent.federation import signing
from discreet_agent.stubs import federation_pb2 as pb

ENVELOPE_BYTES = 1 << 10
"""More than envelope, signature and digest add to the body of a round's answer."""


class Attendance:
    """Streams of agents, and the answers to the round that is open. `changed` is set whenever a
    waiter should look."""

    def __init__(self, services: Services, held: SessionLease, seating: Seats) -> None:
        self.held = held
        """The session as its coordinator holds it now; it sets this when it has read it again."""
        self.changed = asyncio.Event()
        self.declined: dict[str, str] = {}
        """Who declines to take part, and the cause."""
        self.absent: set[str] = set()
        """Who missed the last round and has not come back."""
        self.messages: dict[str, bytes] = {}
        """Answers to the round that is open, or was."""
        self._refused: set[str] = set()
        """Whose stream ended in it since something on it was refused."""
        self._services, self._seating = services, seating
        self._signer: Signer = services.secrets.signer
        self._seats: dict[str, Seat] = {}
        self._number: int | None = None
        self._round, self._answers = pb.Round(), b""
        """The open round, and what answers it who was delivered nothing of its own."""
        self._announcement: bytes | None = None
        """The open round as all are told it who are delivered nothing of their own."""
        self._deliveries: Mapping[str, bytes] = {}
        self._touching = asyncio.Lock()
        self._touched = held.touched
        self._farewell: bytes | None = None
        self._dismissed: DiscreetError | None = None

    @property
    def anybody(self) -> bool:
        """Whether an agent is connected."""
        return bool(self._seats)

    @property
    def said(self) -> int:
        """Answers to the open round that are not empty."""
        return sum(map(bool, self.messages.values()))

    def ready(self) -> set[str]:
        """Agents that have accepted the roster and are connected."""
        return {name for name, seat in self._seats.items() if seat.ready}

    def cause(self, agent: str) -> str:
        """Why an agent that has not answered the open round is missing."""
        if agent in self.declined:
            return self.declined[agent]
        if agent in self._refused:
            return "refused"
        return "no_answer" if agent in self._seats else "not_connected"

    async def wait(self, seconds: float) -> None:
        """Wait until something changes, at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self.changed.wait()
        self.changed.clear()

    def welcome_again(self) -> None:
        """There is a roster now: tell connected agents that they are on it, or that they are
        not."""
        for seat in list(self._seats.values()):
            self._seating.free_guest_seat(seat)
            self._welcome(seat)

    def open_round(
        self,
        number: int,
        broadcast: bytes,
        transcript: bytes,
        seconds: float,
        deliveries: Mapping[str, bytes],
    ) -> None:
        """Ask all agents, including those that connect before the round is closed. `deliveries`:
        what single agents are told beside it."""
        self.messages, self._refused = {}, set()
        self._round = pb.Round(
            number=number,
            broadcast=broadcast,
            transcript=transcript,
            milliseconds=int(min(seconds, 4e6) * 1000),
        )
        self._announcement, self._deliveries = self._signed(round=self._round), deliveries
        self._answers = signing.answers(broadcast, b"")
        self._number = number
        for seat in self._seats.values():
            if seat.ready:
                self._ask(seat)

    def close_round(self) -> None:
        """Close the round: later answers are refused."""
        self._number = None

    def take_leave(self, end: pb.End) -> None:
        """Tell all agents, including those that connect later, how the session ended."""
        self._farewell = self._signed(end=end)
        for seat in self._seats.values():
            seat.send("end", self._farewell)

    def dismiss(self) -> None:
        """Ask agents to reconnect, to whichever process runs the session then."""
        self._dismissed = Unavailable(
            "the session goes to another process; come again", code="session_elsewhere"
        )
        for seat in self._seats.values():
            seat.close(self._dismissed)

    async def attend(self, stream: Checked, hello: Received, context: Any) -> None:
        """Serve one agent's stream until it ends, the session ends, or a newer stream of the same
        agent replaces it."""
        if self._dismissed is not None:
            raise self._dismissed
        seat = Seat(hello.fingerprint, stream.messages)
        before = self._seats.get(seat.fingerprint)
        if (
            before is not None
        ):  # after a break this side may not have noticed that the old one is dead
            before.close_now(
                Conflict("a newer stream of the same agent replaces this one", code="replaced")
            )
            self._seating.free_guest_seat(before)
        if self.held.roster is None:
            self._seating.seat_guest(seat, seat.close_now)
        self._seats[seat.fingerprint] = seat
        try:
            self._welcome(seat)
            async with asyncio.timeout(None) as seat.patience:
                await first_to_end(self._read(seat, stream.received), seat.write(context))
        except TimeoutError:
            if seat.closing is None:
                raise
            raise seat.closing from None
        except (Conflict, Forbidden, InvalidInput, Unauthenticated):
            if self._seats.get(seat.fingerprint) is seat:
                self._refused.add(seat.fingerprint)
            raise
        finally:
            self._seating.free_guest_seat(seat)
            if self._seats.get(seat.fingerprint) is seat:
                del self._seats[seat.fingerprint]
            self.changed.set()

    def _welcome(self, seat: Seat) -> None:
        if self._farewell is not None:
            seat.send("end", self._farewell)
        elif self.held.roster is None:
            seat.send("waiting", self._signed(waiting=pb.Waiting(**{"for": "roster"})))
        elif seat.fingerprint not in self.held.accounts:
            seat.close(Forbidden("this agent is not on the owner's roster", code="not_on_roster"))
        else:
            seat.send("start", start_message(self.held, self._signer, seat.fingerprint))

    async def _read(self, seat: Seat, received: AsyncIterator[Received]) -> None:
        async for message in received:
            if message.kind == "contribution":
                await self._contribute(seat, message.round, message.content)
            elif message.kind == "accept":
                await self._accept(seat, message.content)
            elif message.kind == "decline":
                code = message.content.code
                self.declined[seat.fingerprint] = code if code in DECLINED else "declined"
                self.changed.set()
            else:
                raise InvalidInput("a message of no known kind")

    async def _accept(self, seat: Seat, accept: pb.Accept) -> None:
        held = self.held
        if held.roster is None or seat.fingerprint not in held.accounts:
            raise Conflict("there is no roster to accept", code="not_on_roster")
        charge = charge_of(held, seat.fingerprint)
        digests = (signing.digest(held.roster), signing.digest(charge))
        if (accept.roster_digest, accept.charge_digest) != digests:
            raise Conflict("another roster or another charge was accepted", code="wrong_roster")
        key = next(member.key for member in held.members if member.fingerprint == seat.fingerprint)
        booked = signing.booked(accept.ledger_link, accept.ledger_seq, accept.charge_digest)
        if len(accept.ledger_link) != 32 or not signing.is_signed(
            key, signing.ledger_entry(booked), accept.ledger_signature
        ):
            raise Forbidden(
                "this is no signed entry of the agent's ledger that holds the charge",
                code="bad_receipt",
            )
        if seat.fingerprint not in held.receipts:
            receipt = {
                "charge": charge.decode(),
                "seq": accept.ledger_seq,
                "link": accept.ledger_link.hex(),
                "hash": booked.hex(),
                "signature": base64.b64encode(accept.ledger_signature).decode(),
            }
            await rounds.keep_receipt(self._services, held, seat.fingerprint, receipt)
        seat.ready = True
        body = held.problem.answer_bytes(held.plan, len(held.members))
        longest = self._services.settings.rpc_message_bytes
        seat.messages.most = min(max(body + ENVELOPE_BYTES, FIRST_BYTES), longest)
        self.absent.discard(seat.fingerprint)
        self.declined.pop(seat.fingerprint, None)
        if self._announcement is not None and self._number is not None:
            self._ask(seat)
        self.changed.set()

    async def _contribute(self, seat: Seat, number: int, contribution: pb.Contribution) -> None:
        if not seat.ready or number not in seat.asked:
            raise Conflict(f"round {number} was not asked of this stream", code="wrong_round")
        if number != self._number:
            return  # too late for its round, which harms nobody else
        delivered, answers = self._deliveries.get(seat.fingerprint), self._answers
        if delivered:
            answers = signing.answers(self._round.broadcast, delivered)
        if contribution.answers != answers:
            raise Conflict("this answers another broadcast", code="wrong_broadcast")
        known = self.messages.get(seat.fingerprint)
        if known is not None:
            if known != contribution.body:
                raise Conflict(
                    "another message for this round was accepted before", code="contradiction"
                )
            return
        if not self._touched and number >= self.held.problem.first_round_with_data:
            async with self._touching:
                if not self._touched:
                    await stubbornly(
                        self.held.job_id, lambda: rounds.touch(self._services, self.held)
                    )
                    self._touched = True
            if number != self._number:
                return
        self.messages[seat.fingerprint] = contribution.body
        self.absent.discard(seat.fingerprint)
        there = min(len(self.held.members), len(self._seats))
        if len(self.messages) >= there - len(self.absent):
            self.changed.set()

    def _ask(self, seat: Seat) -> None:
        assert self._announcement is not None
        assert self._number is not None
        message, delivery = self._announcement, self._deliveries.get(seat.fingerprint)
        if delivery:
            told = pb.Round(delivery=delivery)
            told.MergeFrom(self._round)
            message = self._signed(round=told)
        seat.ask(self._number, message)

    def _signed(self, **content: Any) -> bytes:
        return signed(self._signer, self.held.session_id, **content)


# Seats --------------------------------------------------------------------------------------------
# One agent's stream: what waits to be sent, and when it ends.

WRITE_SECONDS = 60.0
"""An agent that takes so long to read one message has lost its stream: what it does not read lies
in our memory."""
ROUNDS_REMEMBERED = 9
"""An answer to one of so many rounds may come late; one to an earlier round is refused."""


@dataclass(eq=False)
class Seat:
    """One agent's stream. Only the newest message of each kind waits: a slow reader misses
    rounds instead of taking memory."""

    fingerprint: str
    messages: Messages
    outbox: dict[str, bytes] = field(default_factory=dict)
    closing: DiscreetError | None = None
    ready: bool = False
    """It has accepted roster and charge on this stream."""
    asked: range = range(0)
    """Rounds that this stream was asked to answer, the last few: it is asked for each, from its
    first on."""
    patience: asyncio.Timeout | None = None
    _idle: asyncio.Future[None] | None = None
    """What `write` waits for while there is nothing to send. A future of its own, since an event
    took twice as long, for each message."""
    _writing_since: float | None = None
    _alarm: asyncio.TimerHandle | None = None

    def ask(self, number: int, message: bytes) -> None:
        """Send the round of this number, which may be sent again."""
        first = self.asked.start if self.asked else number
        self.asked = range(max(first, number + 1 - ROUNDS_REMEMBERED), number + 1)
        self.send("round", message)

    def send(self, kind: str, message: bytes) -> None:
        self.outbox[kind] = message
        self._wake()

    def close(self, reason: DiscreetError) -> None:
        """Close after the agent has read its waiting messages."""
        self.closing = reason
        self._wake()

    def close_now(self, reason: DiscreetError) -> None:
        """Close at once, whether the agent reads or not."""
        self.close(reason)
        if self.patience is not None:
            self.patience.reschedule(asyncio.get_running_loop().time())

    async def write(self, context: Any) -> None:
        """Send waiting messages until the session has ended for this agent or the seat is
        closed."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                if not self.outbox and self.closing is None:
                    self._idle = loop.create_future()
                    await self._idle
                while self.outbox:
                    kind = next(iter(self.outbox))
                    message = self.outbox.pop(kind)
                    self._writing_since = loop.time()
                    if self._alarm is None:
                        self._alarm = loop.call_later(WRITE_SECONDS, self._look)
                    await context.write(message)
                    self._writing_since = None
                    if kind == "end":
                        return
                if self.closing is not None:
                    raise self.closing
        finally:
            if self._alarm is not None:
                self._alarm.cancel()

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _look(self) -> None:
        """Close where a message has been under way for WRITE_SECONDS.

        One alarm that looks when it rings, and is set again where something is under way: an alarm
        a message took longer than all else that is done for one here.
        """
        loop, self._alarm = asyncio.get_running_loop(), None
        if self._writing_since is None:
            return
        end = self._writing_since + WRITE_SECONDS
        if loop.time() < end:
            self._alarm = loop.call_at(end, self._look)
        else:
            self.close_now(
                Unavailable(f"nothing was read for {WRITE_SECONDS:g} s", code="not_reading")
            )


async def first_to_end(*what: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, stop the others, and end as it did.

    No name is left that holds a task or its error: through the traceback this frame would hold
    itself, and with it what its callers have read, until a collector comes.
    """
    tasks = [asyncio.create_task(each) for each in what]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        errors = [task.exception() for task in tasks if task.done() and not task.cancelled()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        tasks.clear()
        del task
    try:
        for error in errors:
            if error is not None:
                raise error
    finally:
        errors.clear()
        error = None

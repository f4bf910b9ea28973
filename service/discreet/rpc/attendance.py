"""The agents of one session: who is connected, what was asked of them, and what they answered."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from discreet.errors import (
    Conflict,
    DiscreetError,
    Forbidden,
    InvalidInput,
    Unauthenticated,
    Unavailable,
)
from discreet.ledger.signer import Signer
from discreet.problems.federation import DECLINED
from discreet.rpc.admission import FIRST_BYTES, Seats
from discreet.rpc.authentication import signed
from discreet.rpc.interceptors import Checked, Received
from discreet.rpc.patience import stubbornly
from discreet.rpc.seats import Seat, first_to_end
from discreet.rpc.statements import charge_of, start_message
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.usecases.sessions.rounds import SessionLease
from discreet_client.federation import signing
from discreet_client.stubs import federation_pb2 as pb

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
            self._seating.stands_up(seat)
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
            self._seating.stands_up(before)
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
            self._seating.stands_up(seat)
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

"""One federated session in one rpc process: who is connected, rounds and their deadlines, the session's child.

    waiting for the roster → waiting for the agents → rounds → result        `held.state` and `held.round` say where

Everything that must outlive this process is in the database before an agent can see what follows from it: another
process takes the lease, gets a new fencing token, and goes on with the round that was open. The agents connect again
and send the answers that lie on their disks.

An agent that is slow, silent, contradicts itself or sends what cannot be used counts as missing in that round. Under
`finish` the others go on with a quorum; under `abort` the job ends with a fixed code.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter

from discreet.errors import Conflict, DiscreetError, Forbidden, InvalidInput, Unavailable
from discreet.isolation.children import Limits, Zygote
from discreet.observability import faults, telemetry
from discreet.rpc.admission import FIRST_BYTES, Seats
from discreet.rpc.interceptors import Checked, Received, signed
from discreet.rpc.seats import Seat, first_to_end
from discreet.rpc.session_child import SessionChild, StepFailed, Stepped, TooFew, chained
from discreet.rpc.statements import charge_of, end_message, start_message
from discreet.storage import jobs
from discreet.storage.database import SYSTEM, trouble
from discreet.usecases import leases, running
from discreet.usecases.running import CancelRequested, Claim, LostJob
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.usecases.sessions.rounds import SessionLease
from discreet_client.federation import signing
from discreet_client.stubs import federation_pb2 as pb

log = structlog.get_logger()

POLL_SECONDS = 0.25
"""How soon a signed roster is noticed."""
PROGRESS_SECONDS = 0.25
DATABASE_TRIES, DATABASE_PAUSE = 60, 0.5
FAREWELL_SECONDS = 5.0
ENVELOPE_BYTES = 1 << 10
"""More than envelope, signature and digest add to the body of a round's answer."""

ASSUMPTIONS = (
    "every agent on the roster saw the broadcast of every round; who answered a round and when is seen by the operator",
)

_rounds = Counter("discreet_rpc_rounds_total", "Rounds that were completed")
_missing = Counter("discreet_rpc_missing_total", "Answers that a round went on without")


class Ending(Exception):
    """The job ends now: `state` and, when it failed, the fixed code."""

    def __init__(self, state: str, code: str | None = None) -> None:
        super().__init__(code or state)
        self.state, self.code = state, code


class Handover(Exception):
    """Another process asks for the session, and nobody is connected here."""


class Crowded(Exception):
    """Other rosters leave too few seats here for the one that was signed just now."""


class Coordinator:
    """Runs one session while this process holds its lease."""

    def __init__(self, services: Services, zygote: Zygote, held: SessionLease, seating: Seats) -> None:
        self.held = held
        self._services, self._zygote = services, zygote
        self._seating = seating
        self._signer: Ed25519PrivateKey = services.secrets.signer
        self._seats: dict[str, Seat] = {}
        self._changed = asyncio.Event()
        self._declined: set[str] = set()
        self._absent: set[str] = set()
        self._messages: dict[str, bytes] = {}
        self._number: int | None = None
        self._broadcast = b""
        self._broadcast_digest = b""
        self._announcement: pb.OperatorMessage | None = None
        self._deadline = 0.0
        self._touching = asyncio.Lock()
        self._touched = held.touched
        self._farewell: pb.OperatorMessage | None = None
        self._dismissed: DiscreetError | None = None
        self._reported = 0.0
        self._reporting: asyncio.Task[None] | None = None
        self._approved = held.roster is not None
        self._leasing = asyncio.Lock()  # a new fencing token must not come between a renewal and its answer

    # -- agents -------------------------------------------------------------------------------------------------------

    async def attend(self, stream: Checked, hello: Received, context: Any) -> None:
        """Serve one agent's stream until it ends, the session ends, or a newer stream of the same agent replaces it."""
        if self._dismissed is not None:
            raise self._dismissed
        seat = Seat(hello.fingerprint, stream.messages)
        before = self._seats.get(seat.fingerprint)
        if before is not None:  # after a break this side may not have noticed that the old one is dead
            before.close_now(Conflict("a newer stream of the same agent replaces this one", code="replaced"))
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
        finally:
            self._seating.stands_up(seat)
            if self._seats.get(seat.fingerprint) is seat:
                del self._seats[seat.fingerprint]
            self._changed.set()

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
                self._declined.add(seat.fingerprint)
                self._changed.set()
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
        if not signing.is_signed(key, signing.ledger_entry(accept.ledger_hash), accept.ledger_signature):
            raise Forbidden("the agent's ledger entry is not signed by it", code="bad_receipt")
        if seat.fingerprint not in held.receipts:
            receipt = {
                "charge": charge.decode(),
                "seq": accept.ledger_seq,
                "hash": accept.ledger_hash.hex(),
                "signature": base64.b64encode(accept.ledger_signature).decode(),
            }
            await rounds.keep_receipt(self._services, held, seat.fingerprint, receipt)
        seat.ready = True
        body = held.problem.answer_bytes(held.plan, len(held.members))
        longest = self._services.settings.rpc_message_bytes
        seat.messages.most = min(max(body + ENVELOPE_BYTES, FIRST_BYTES), longest)
        self._absent.discard(seat.fingerprint)
        self._declined.discard(seat.fingerprint)
        if self._announcement is not None and self._number is not None:
            self._ask(seat)
        self._changed.set()

    async def _contribute(self, seat: Seat, number: int, contribution: pb.Contribution) -> None:
        if not seat.ready or number not in seat.sent:
            raise Conflict(f"round {number} was not asked of this stream", code="wrong_round")
        if number != self._number:
            return  # too late for its round, which harms nobody else
        if contribution.answers != self._broadcast_digest:
            raise Conflict("this answers another broadcast", code="wrong_broadcast")
        known = self._messages.get(seat.fingerprint)
        if known is not None:
            if known != contribution.body:
                raise Conflict("another message for this round was accepted before", code="contradiction")
            return
        if not self._touched:
            async with self._touching:
                if not self._touched:
                    await self._stubbornly(lambda: rounds.touch(self._services, self.held))
                    self._touched = True
            if number != self._number:
                return
        self._messages[seat.fingerprint] = contribution.body
        self._absent.discard(seat.fingerprint)
        if len(self._messages) >= len(self.held.members) - len(self._absent):
            self._changed.set()

    # -- the session's way --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the session ends, is another process's, or this one is told to stop (cancelled)."""
        try:
            async with self._lease():
                await self._go()
        except Ending as ending:
            await self._end(ending)
        except CancelRequested:  # while it was publishing
            await self._end(Ending("cancelled"))
        except (LostJob, Handover, Crowded) as reason:
            log.info("session goes to another process", job=self.held.job_id, reason=type(reason).__name__)
            if isinstance(reason, (Handover, Crowded)):
                await rounds.give_back(self._services, self.held)
            self.dismiss()
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                await asyncio.shield(rounds.give_back(self._services, self.held))
            self.dismiss()
            raise
        except BaseException:
            self.dismiss()
            raise
        finally:
            if self._reporting is not None:
                self._reporting.cancel()
                await asyncio.gather(self._reporting, return_exceptions=True)

    async def _go(self) -> None:
        await self._roster()
        if self.held.released is None:
            await self._rounds()
        await self._publish()
        raise Ending("succeeded")

    async def _roster(self) -> None:
        """Wait for the owner; then read everything again, with the roster."""
        if self.held.roster is not None:
            return
        while not self._approved:
            await self._wait(POLL_SECONDS)
        await self._read_again()
        try:
            self._seating.reserve(self.held.job_id, len(self.held.members))
        except Unavailable:
            raise Crowded() from None
        for seat in list(self._seats.values()):
            self._seating.stands_up(seat)
            self._welcome(seat)

    async def _rounds(self) -> None:
        held = self.held
        if held.session_state is None:
            await self._gather()
        async with SessionChild.open(self._zygote, held, self._limits()) as child:
            number, transcript, broadcast = held.round, held.transcript, held.broadcast or b""
            if child.opening is not None:
                broadcast = child.opening.broadcast
                await self._keep(0, child.opening, transcript)
            await self._stubbornly(lambda: rounds.begin(self._services, self.held))
            while True:
                # Not the step itself: how long it takes depends on what agents sent.
                with telemetry.span("round", number=number):
                    messages = await self._round(number, broadcast, transcript)
                stepped = await self._step(child, number, messages)
                number, broadcast, transcript = number + 1, stepped.broadcast, chained(transcript, stepped)
                self._number = None
                if stepped.done or number == child.rounds:
                    released = await child.release()
                    break
                await self._keep(number, stepped, transcript)
                self._report(number, child.rounds)
        await self._stubbornly(
            lambda: rounds.keep_last(
                self._services,
                self.held,
                number=number,
                broadcast=broadcast,
                transcript=transcript,
                released=released,
            )
        )
        faults.point("coordinator.released")
        await self._read_again()

    async def _gather(self) -> None:
        """Wait until all agents of the roster have accepted; at the end of the time to join, until enough have."""
        names = set(self.held.accounts)
        left = await rounds.seconds_to_join(self._services, self.held)
        end = time.monotonic() + left
        while not names <= (there := {name for name, seat in self._seats.items() if seat.ready}):
            if self._declined & names and self._aborts:
                raise Ending("failed", "agent_declined")
            if time.monotonic() >= end or names == there | (self._declined & names):
                if not self._aborts and len(there & names) >= self.held.terms.least:
                    self._absent = names - there
                    return
                raise Ending("failed", "agents_absent")
            await self._wait(end - time.monotonic())

    async def _round(self, number: int, broadcast: bytes, transcript: bytes) -> dict[str, bytes]:
        """Ask all agents and collect their answers until all are there or the deadline passes."""
        seconds = self.held.terms.round_seconds
        self._messages = {}
        self._broadcast, self._broadcast_digest = broadcast, signing.digest(broadcast)
        self._deadline = time.monotonic() + seconds
        self._announcement = self._signed(
            round=pb.Round(
                number=number, broadcast=broadcast, transcript=transcript, milliseconds=int(min(seconds, 4e6) * 1000)
            )
        )
        self._number = number
        for seat in self._seats.values():
            if seat.ready:
                self._ask(seat)
        names = set(self.held.accounts)
        while (left := self._deadline - time.monotonic()) > 0:
            if self._aborts and self._declined & names:
                raise Ending("failed", "agent_declined")
            answered = self._messages.keys()
            # Who missed the last round and has not come back is not waited for, while the others are enough.
            if names <= answered or (
                not self._aborts and len(answered) >= self.held.terms.least and names - self._absent <= answered
            ):
                break
            await self._wait(left)
        return self._messages

    async def _step(self, child: SessionChild, number: int, messages: dict[str, bytes]) -> Stepped:
        """The session's step on what has come; Ending when the terms do not let it go on."""
        names = set(self.held.accounts)
        least = len(names) if self._aborts else self.held.terms.least
        short = Ending("failed", "agent_missing" if self._aborts else "quorum_lost")
        if len(messages) < least:
            raise short
        faults.point("coordinator.collected")
        try:
            stepped = await child.step(number, messages, least)
        except TooFew:
            raise short from None
        except StepFailed as failure:
            known = failure.code in self.held.problem.failures
            raise Ending("failed", failure.code if known else "session_failed") from None
        self._absent = names - messages.keys()  # who sent something unusable is there, and harms this round only
        _missing.inc(len(names) - len(stepped.used or {}))
        _rounds.inc()
        return stepped

    async def _publish(self) -> None:
        held = self.held
        assert held.released is not None
        claim = Claim(
            job_id=held.job_id,
            attempt=held.attempt,
            dataset_id=None,
            simulation=held.simulation,
            seed=held.seed,
            problem=held.problem,
            public=None,
            plan=held.plan,
            released=held.released,
        )
        header = {
            "step": "finish",
            "kind": held.problem.kind,
            "problem": held.problem.model_dump(mode="json"),
            "public": None,
            "plan": held.plan.model_dump(mode="json"),
            "seed": held.seed,
        }
        output = await self._zygote.run(header, held.released, self._limits())
        await self._stubbornly(
            lambda: running.publish(
                self._services,
                claim,
                output.payload,
                output.tables,
                assumptions=ASSUMPTIONS,
                federation={
                    "session": held.session_id,
                    "roster": signing.digest(held.roster or b"").hex(),
                    "owner": signing.fingerprint(held.owner_key or b""),
                    "agents": len(held.members),
                    "least": held.terms.least,
                    "rounds": held.round,
                    "transcript": held.transcript.hex(),
                },
            )
        )

    async def _end(self, ending: Ending) -> None:
        """Write the end, unless it is written, and tell the agents."""
        if ending.state == "failed":
            assert ending.code is not None
            code = ending.code
            await self._stubbornly(lambda: rounds.fail(self._services, self.held, code))
        elif ending.state == "cancelled":
            await self._stubbornly(lambda: rounds.cancel(self._services, self.held))
        self._number = None
        found = await rounds.farewell(self._services, self.held.session_id)
        assert found is not None
        self._farewell = self._signed(end=end_message(found))
        for seat in self._seats.values():
            seat.send("end", self._farewell)
        end = time.monotonic() + FAREWELL_SECONDS
        while self._seats and time.monotonic() < end:
            await self._wait(end - time.monotonic())

    # -- small things -------------------------------------------------------------------------------------------------

    @property
    def _aborts(self) -> bool:
        return self.held.terms.on_missing == "abort"

    def _ask(self, seat: Seat) -> None:
        assert self._announcement is not None
        assert self._number is not None
        seat.sent = {number for number in seat.sent if number >= self._number - 8} | {self._number}
        seat.send("round", self._announcement)

    def _signed(self, **content: Any) -> pb.OperatorMessage:
        return signed(self._signer, self.held.session_id, **content)

    def _limits(self) -> Limits:
        settings = self._services.settings
        return Limits(settings.job_memory_bytes, settings.job_cpu_seconds, settings.job_wall_seconds)

    async def _keep(self, number: int, stepped: Stepped, transcript: bytes) -> None:
        state, broadcast = stepped.state, stepped.broadcast
        await self._stubbornly(
            lambda: rounds.keep(
                self._services, self.held, number=number, state=state, broadcast=broadcast, transcript=transcript
            )
        )
        faults.point("coordinator.kept")

    def _report(self, number: int, rounds: int) -> None:
        """Say how far the session is, now and then; the agents do not wait for that."""
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SECONDS and (self._reporting is None or self._reporting.done()):
            self._reported = now
            self._reporting = asyncio.create_task(self._write_progress(number, rounds))

    async def _write_progress(self, number: int, rounds: int) -> None:
        try:
            async with self._services.database.transaction(SYSTEM) as connection:
                await jobs.report(connection, self.held.job_id, self.held.attempt, number, rounds)
        except Exception as error:  # the next one tells it
            log.warning("progress not written", job=self.held.job_id, error=type(error).__name__)

    async def _read_again(self) -> None:
        """The same session as the database has it now, with a new fencing token."""
        async with self._leasing:
            held = await self._stubbornly(lambda: rounds.take(self._services, self.held.job_id, self.held.holder))
            if held is None:
                raise LostJob()
            self.held = held

    async def _wait(self, seconds: float) -> None:
        """Until something changes, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        self._changed.clear()

    async def _stubbornly(self, what: Callable[[], Awaitable[Any]]) -> Any:
        """Through a database that is away for a moment; the fencing token decides whether it still counts."""
        for left in range(DATABASE_TRIES, -1, -1):
            try:
                return await what()
            except Exception as error:
                found = trouble(error)
                if found is None or not left:
                    raise
                log.warning("waiting for the database", job=self.held.job_id, code=found.code)
            await asyncio.sleep(DATABASE_PAUSE)
        raise AssertionError("the last attempt returns or raises")

    def dismiss(self) -> None:
        """Agents shall come back, to whoever runs the session then."""
        self._dismissed = Unavailable("the session goes to another process; come again", code="session_elsewhere")
        for seat in self._seats.values():
            seat.close(self._dismissed)

    def _lease(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep the lease; the body is interrupted when it is lost, somebody cancels the job, or wants the session."""

        async def renew() -> Exception | None:
            async with self._leasing:
                seen = await rounds.renew(self._services, self.held)
            self._approved = seen.approved
            if self._approved and self.held.roster is None:
                self._changed.set()
            if seen.cancel_requested:
                return Ending("cancelled")
            if seen.ended:
                return Ending("ended")
            return Handover() if seen.wanted and not self._seats else None

        def pause() -> float:
            if self.held.roster is None:
                return POLL_SECONDS
            return leases.pause_seconds(self._services.settings.lease_seconds)

        return leases.kept(self.held.job_id, renew, pause)

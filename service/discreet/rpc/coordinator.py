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
import hashlib
import json
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import Counter

from discreet import faults, telemetry
from discreet.errors import Conflict, DiscreetError, Forbidden, InvalidInput, Unavailable
from discreet.isolation.children import ChildFailed, Conversation, Limits, Zygote
from discreet.rpc.admission import FIRST_BYTES, Messages, Seats
from discreet.rpc.interceptors import Checked, Received, signed
from discreet.storage import jobs
from discreet.storage.database import SYSTEM, trouble
from discreet.usecases import leases, running
from discreet.usecases.running import CancelRequested, Claim, LostJob
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.usecases.sessions.rounds import Farewell, SessionLease
from discreet_client.federation import signing
from discreet_client.stubs import federation_pb2 as pb

log = structlog.get_logger()

POLL_SECONDS = 0.25
"""How soon a signed roster is noticed."""
PROGRESS_SECONDS = 0.25
DATABASE_TRIES, DATABASE_PAUSE = 60, 0.5
FAREWELL_SECONDS = 5.0
WRITE_SECONDS = 60.0
"""An agent that takes so long to read one message has lost its stream: what it does not read lies in our memory."""
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


@dataclass(eq=False)
class Seat:
    """One agent's stream. Of each kind of message only the newest waits: who reads slowly misses rounds, not memory."""

    fingerprint: str
    messages: Messages
    outbox: dict[str, pb.OperatorMessage] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    closing: DiscreetError | None = None
    ready: bool = False
    """It has accepted roster and charge on this stream."""
    sent: set[int] = field(default_factory=set)
    """Rounds that this stream was asked to answer; the last few."""
    patience: asyncio.Timeout | None = None

    def send(self, kind: str, message: pb.OperatorMessage) -> None:
        self.outbox[kind] = message
        self.changed.set()

    def close(self, reason: DiscreetError) -> None:
        """Once it has read what waits for it."""
        self.closing = reason
        self.changed.set()

    def close_now(self, reason: DiscreetError) -> None:
        """Whether it reads or not."""
        self.close(reason)
        if self.patience is not None:
            self.patience.reschedule(asyncio.get_running_loop().time())


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
                await _first_to_end(self._read(seat, stream.received), self._write(seat, context))
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
            seat.send("start", self._start(seat.fingerprint))

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

    async def _write(self, seat: Seat, context: Any) -> None:
        while True:
            await seat.changed.wait()
            seat.changed.clear()
            while seat.outbox:
                kind = next(iter(seat.outbox))
                message = seat.outbox.pop(kind)
                try:
                    async with asyncio.timeout(WRITE_SECONDS):
                        await context.write(message)
                except TimeoutError:
                    raise Unavailable(f"nothing was read for {WRITE_SECONDS:g} s", code="not_reading") from None
                if kind == "end":
                    return
            if seat.closing is not None:
                raise seat.closing

    async def _accept(self, seat: Seat, accept: pb.Accept) -> None:
        held = self.held
        if held.roster is None or seat.fingerprint not in held.accounts:
            raise Conflict("there is no roster to accept", code="not_on_roster")
        charge = self._charge(seat.fingerprint)
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
        seat.messages.most = self._answer_bytes()
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
        header = {
            "step": "session",
            "kind": held.problem.kind,
            "problem": held.problem.model_dump(mode="json"),
            "plan": held.plan.model_dump(mode="json"),
            "agents": [
                {"fingerprint": m.fingerprint, "name": m.name, "key": m.key.hex(), "announcement": m.announcement}
                for m in held.members
            ],
            "seed": held.seed,
            "round": held.round,
            "state": held.session_state is not None,
        }
        async with self._zygote.converse(header, held.session_state or b"", self._limits()) as child:
            answer, payload = await child.receive()
            total, number, transcript = int(answer["rounds"]), held.round, held.transcript
            if held.session_state is None:
                state, broadcast = _split(answer, payload)
                await self._keep(0, state, broadcast, transcript)
            else:
                broadcast = held.broadcast or b""
            await self._stubbornly(lambda: rounds.begin(self._services, self.held))
            while True:
                # Not the step itself: how long it takes depends on what agents sent.
                with telemetry.span("round", number=number):
                    messages = await self._round(number, broadcast, transcript)
                done, state, broadcast, used = await self._step(child, number, messages)
                number += 1
                transcript = _chain(transcript, used, broadcast)
                self._number = None
                if done or number == total:
                    _, released = await child.ask({"release": True})
                    break
                await self._keep(number, state, broadcast, transcript)
                self._report(number, total)
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

    async def _step(
        self, child: Conversation, number: int, messages: dict[str, bytes]
    ) -> tuple[bool, bytes, bytes, dict[str, bytes]]:
        """The session's step on what has come; Ending when the terms do not let it go on."""
        names = set(self.held.accounts)
        least = len(names) if self._aborts else self.held.terms.least
        short = "agent_missing" if self._aborts else "quorum_lost"
        if len(messages) < least:
            raise Ending("failed", short)
        faults.point("coordinator.collected")
        sizes = [(name, len(messages[name])) for name in sorted(messages)]
        body = b"".join(messages[name] for name, _ in sizes)
        answer, payload = await child.ask({"round": number, "messages": sizes, "least": least}, body)
        if "short" in answer:
            raise Ending("failed", short)
        if "failed" in answer:
            code = str(answer["failed"])
            raise Ending("failed", code if code in self.held.problem.failures else "session_failed")
        state, broadcast = _split(answer, payload)
        used = {name: messages[name] for name in answer["used"]}
        self._absent = names - messages.keys()  # who sent something unusable is there, and harms this round only
        _missing.inc(len(names - used.keys()))
        _rounds.inc()
        return bool(answer["done"]), state, broadcast, used

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

    def _answer_bytes(self) -> int:
        """The longest message of a member: what a round's answer may weigh by the plan that its owner signed for."""
        held = self.held
        body = held.problem.answer_bytes(held.plan, len(held.members))
        return min(max(body + ENVELOPE_BYTES, FIRST_BYTES), self._services.settings.rpc_message_bytes)

    def _ask(self, seat: Seat) -> None:
        assert self._announcement is not None
        assert self._number is not None
        seat.sent = {number for number in seat.sent if number >= self._number - 8} | {self._number}
        seat.send("round", self._announcement)

    def _start(self, fingerprint: str) -> pb.OperatorMessage:
        held = self.held
        charge = self._charge(fingerprint)
        return self._signed(
            start=pb.Start(
                roster=held.roster,
                roster_signature=held.roster_signature,
                owner_key=held.owner_key,
                charge=charge,
                charge_signature=self._signer.sign(signing.charge(charge)),
                parameters=json.dumps(held.plan.parameters).encode(),
                rounds=held.plan.resources.steps,
            )
        )

    def _charge(self, fingerprint: str) -> bytes:
        """What this agent's account is charged, in words that do not change."""
        held = self.held
        account = held.accounts[fingerprint]
        entry = held.charges.get(account)
        free = dict.fromkeys(held.plan.price, "0")
        body = {
            "version": 1,
            "session": held.session_id,
            "job": held.job_id,
            "agent": fingerprint,
            "account": account,
            "entry": entry,
            "price": free if entry is None else held.plan.price,
            "events": [event.model_dump(mode="json") for event in held.plan.events],
            "unit": held.plan.unit,
            "neighbours": held.plan.neighbours,
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

    def _signed(self, **content: Any) -> pb.OperatorMessage:
        return signed(self._signer, self.held.session_id, **content)

    def _limits(self) -> Limits:
        settings = self._services.settings
        return Limits(settings.job_memory_bytes, settings.job_cpu_seconds, settings.job_wall_seconds)

    async def _keep(self, number: int, state: bytes, broadcast: bytes, transcript: bytes) -> None:
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


class Coordinators:
    """The sessions that this process runs."""

    def __init__(self, services: Services, zygote: Zygote, holder: str, seating: Seats) -> None:
        self._services, self._zygote, self._holder = services, zygote, holder
        self._seating = seating
        self._running: dict[str, tuple[Coordinator, asyncio.Task[None]]] = {}
        self._failures: dict[str, int] = {}
        self._starting = asyncio.Lock()
        self._stopping = False

    async def of(self, job_id: str) -> Coordinator:
        """The coordinator of a session; Unavailable when another process runs it."""
        async with self._starting:
            if job_id in self._running:
                return self._running[job_id][0]
            held = None if self._stopping else await rounds.take(self._services, job_id, self._holder)
            if held is None:
                raise Unavailable("another process runs this session; come again", code="session_elsewhere")
            if held.roster is not None:
                try:
                    self._seating.reserve(job_id, len(held.members))
                except Unavailable:  # another process may have room
                    await rounds.give_back(self._services, held)
                    raise
            coordinator = Coordinator(self._services, self._zygote, held, self._seating)
            self._running[job_id] = (coordinator, asyncio.create_task(self._run(job_id, coordinator)))
            return coordinator

    async def sweep(self) -> None:
        """Take up sessions that nobody runs: after a restart, or to let their time to join pass."""
        while True:
            try:
                if count := await rounds.end_unsigned(self._services):
                    log.info("sessions ended that nobody signed", count=count)
                for job_id in await rounds.abandoned(self._services):
                    if job_id not in self._running:
                        with contextlib.suppress(Unavailable):
                            await self.of(job_id)
            except Exception as error:
                log.warning("sweep failed", error=type(error).__name__)
            await asyncio.sleep(min(5.0, self._services.settings.lease_seconds / 3))

    async def stop(self) -> None:
        """Give all sessions back."""
        self._stopping = True
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job_id: str, coordinator: Coordinator) -> None:
        held = coordinator.held
        try:
            with (
                structlog.contextvars.bound_contextvars(job=job_id),
                telemetry.span(
                    "session",
                    parent=held.traceparent or "",
                    kind=telemetry.Kind.CONSUMER,
                    job=job_id,
                    attempt=held.attempt,
                ),
            ):
                await coordinator.run()
        except Exception as error:
            count = self._failures[job_id] = self._failures.get(job_id, 0) + 1
            # Where, and of which type; not the message, which may carry a value.
            where = "".join(traceback.format_tb(error.__traceback__))
            # A child's own trace is there for post-processing only, which sees nothing private.
            child = error.trace if isinstance(error, ChildFailed) else None
            name = error.code if isinstance(error, ChildFailed) else type(error).__name__
            log.warning("session broke off", job=job_id, error=name, count=count, trace=where, child=child)
            with contextlib.suppress(Exception):
                if count >= self._services.settings.max_attempts:
                    await rounds.fail(self._services, coordinator.held, "session_failed")
                else:
                    await rounds.give_back(self._services, coordinator.held)
        finally:
            del self._running[job_id]
            self._seating.free(job_id)
            coordinator.dismiss()  # whoever is still there comes again, and hears how it ended


def end_message(found: Farewell) -> pb.End:
    return pb.End(
        state=found.state,
        code=found.code,
        broadcast=found.broadcast,
        transcript=found.transcript,
        rounds=found.rounds,
        charged=found.charged,
    )


async def _first_to_end(*what: Coroutine[Any, Any, None]) -> None:
    """Run until one of them ends, stop the others, and end as it did.

    No name is left that holds a task or its error: through the traceback this frame would hold itself, and with it
    what its callers have read, until a collector comes.
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


def _split(answer: dict[str, Any], payload: bytes) -> tuple[bytes, bytes]:
    size = int(answer["state"])
    return payload[:size], payload[size:]


def _chain(transcript: bytes, used: dict[str, bytes], broadcast: bytes) -> bytes:
    """SHA-256(transcript so far ‖ agent and digest of each message that was used, sorted ‖ digest of the broadcast)."""
    parts: Iterable[bytes] = (bytes.fromhex(name) + signing.digest(body) for name, body in sorted(used.items()))
    return hashlib.sha256(transcript + b"".join(parts) + signing.digest(broadcast)).digest()

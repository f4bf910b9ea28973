"""One federated session in one rpc process: who is connected, rounds and their deadlines, the
session's child.

    waiting for the roster → waiting for the agents → rounds → result

`held.state` and `held.round` say where.

Everything that must outlive this process is in the database before an agent can see what follows
from it: another process takes the lease, gets a new fencing token, and goes on with the round that
was open. The agents connect again and send the answers that lie on their disks.

An agent that is slow, silent, contradicts itself or sends what cannot be used counts as missing in
that round. Under `finish` the others go on with a quorum; under `abort` the job ends with a fixed
code.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from prometheus_client import Counter

from discreet.errors import Unavailable
from discreet.isolation.children import Limits, Zygote
from discreet.observability import faults, telemetry
from discreet.problems.federation import ROUNDS_ARE_SEEN
from discreet.rpc.admission import Seats
from discreet.rpc.attendance import Attendance
from discreet.rpc.interceptors import Checked, Received
from discreet.rpc.retries import stubbornly
from discreet.rpc.session_child import SessionChild, StepFailed, Stepped, TooFew, chained
from discreet.rpc.statements import certified, end_message
from discreet.storage import jobs
from discreet.storage.database import SYSTEM
from discreet.usecases import running
from discreet.usecases.running import CancelRequested, Claim, LostJob
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.usecases.sessions.rounds import SessionLease

log = structlog.get_logger()

POLL_SECONDS = 0.25
"""How soon a signed roster is noticed."""
PROGRESS_SECONDS = 0.25
FAREWELL_SECONDS = 5.0

ASSUMPTIONS = (
    "every agent on the roster saw the broadcast of every round; who answered a round and when is "
    "seen by the operator",
    ROUNDS_ARE_SEEN,
)

_rounds = Counter("discreet_rpc_rounds_total", "Completed rounds")
_missing = Counter("discreet_rpc_missing_total", "Answers that a round went on without")


class Ending(Exception):
    """The job ends now: `state` and, when it failed, the fixed code and by agent the cause for
    which it could not go on without it."""

    def __init__(
        self, state: str, code: str | None = None, blamed: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(code or state)
        self.state, self.code, self.blamed = state, code, blamed or {}


class Handover(Exception):
    """Another process asks for the session, and no agent is connected here."""


class Crowded(Exception):
    """Other rosters leave too few seats here for the one just signed."""


class Coordinator:
    """Runs one session while this process holds its lease."""

    def __init__(
        self, services: Services, zygote: Zygote, held: SessionLease, seating: Seats
    ) -> None:
        self._services, self._zygote = services, zygote
        self._seating = seating
        self._agents = Attendance(services, held, seating)
        self._reported = 0.0
        self._reporting: asyncio.Task[None] | None = None
        self._approved = held.roster is not None
        self._returning = held.session_state is not None
        # A new fencing token must not come between a renewal and its answer.
        self._leasing = asyncio.Lock()

    @property
    def held(self) -> SessionLease:
        """The session as this process holds it."""
        return self._agents.held

    async def attend(self, stream: Checked, hello: Received, context: Any) -> None:
        """Serve one agent's stream until it ends, the session ends, or a newer stream of the same
        agent replaces it."""
        await self._agents.attend(stream, hello, context)

    def dismiss(self) -> None:
        """Ask agents to reconnect, to whichever process runs the session then."""
        self._agents.dismiss()

    # -- the session's way -------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the session ends, another process takes it, or this one is told to stop
        (cancelled)."""
        try:
            async with self._lease():
                await self._go()
        except Ending as ending:
            await self._end(ending)
        except CancelRequested:  # while it was publishing
            await self._end(Ending("cancelled"))
        except (LostJob, Handover, Crowded) as reason:
            log.info(
                "session goes to another process",
                job=self.held.job_id,
                reason=type(reason).__name__,
            )
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
            await self._agents.wait(POLL_SECONDS)
        await self._read_again()
        try:
            self._seating.reserve(self.held.job_id, len(self.held.members))
        except Unavailable:
            raise Crowded() from None
        self._agents.welcome_again()

    async def _rounds(self) -> None:
        held = self.held
        if held.session_state is None:
            await self._gather()
        async with SessionChild.open(self._zygote, held, self._limits()) as child:
            number, transcript, broadcast = held.round, held.transcript, held.broadcast or b""
            deliveries = child.deliveries
            if child.opening is not None:
                broadcast = child.opening.broadcast
                await self._keep(0, child.opening, transcript)
            await self._retry_while_unavailable(lambda: rounds.begin(self._services, self.held))
            while True:
                # Not the step itself: how long it takes depends on what agents sent.
                with telemetry.span("round", number=number):
                    messages = await self._round(number, broadcast, transcript, deliveries)
                stepped = await self._step(child, number, messages)
                number, broadcast, transcript, deliveries = (
                    number + 1,
                    stepped.broadcast,
                    chained(transcript, stepped),
                    stepped.deliveries,
                )
                self._agents.close_round()
                if stepped.done or number == child.rounds:
                    released = await child.release()
                    break
                await self._keep(number, stepped, transcript)
                self._report(number, child.rounds)
        await self._retry_while_unavailable(
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
        """Wait until all agents of the roster have accepted; at the end of the time to join, until
        enough have."""
        names = set(self.held.accounts)
        left = await rounds.seconds_to_join(self._services, self.held)
        end = time.monotonic() + left
        while not names <= (there := self._agents.ready()):
            self._refuse_declined()
            declined = self._agents.declined
            if time.monotonic() >= end or names == there | (declined.keys() & names):
                enough = len(there & names) >= self.held.terms.least
                if not self._aborts and enough and not self.held.problem.begins_with_all:
                    self._agents.absent = names - there
                    return
                absent = {name: declined.get(name, "not_joined") for name in names - there}
                raise Ending("failed", "agents_absent", absent)
            await self._agents.wait(end - time.monotonic())

    async def _round(
        self, number: int, broadcast: bytes, transcript: bytes, deliveries: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Ask all agents and collect their answers until all are there or the deadline passes."""
        seconds = self.held.terms.round_seconds
        self._agents.open_round(number, broadcast, transcript, seconds, deliveries)
        deadline = time.monotonic() + seconds
        names = set(self.held.accounts)
        enough = self.held.problem.enough(number, self.held.plan)
        if self._returning:  # all agents are gone because this process is new, and come back
            enough, self._returning = None, False
        while (left := deadline - time.monotonic()) > 0:
            self._refuse_declined()
            answered = self._agents.messages.keys()
            # Who missed the last round and has not come back is not waited for, while the others
            # are enough.
            awaited = names - self._agents.absent
            if enough is not None and self._agents.said >= enough:
                awaited &= self._agents.ready()
            awaited -= self._agents.declined.keys()
            if names <= answered or (
                not self._aborts and len(answered) >= self.held.terms.least and awaited <= answered
            ):
                break
            await self._agents.wait(left)
        return self._agents.messages

    async def _step(self, child: SessionChild, number: int, messages: dict[str, bytes]) -> Stepped:
        """Run the session's step on the messages received. Ending where the terms do not allow
        it to continue."""
        names = set(self.held.accounts)
        least = len(names) if self._aborts else self.held.terms.least
        code = "agent_missing" if self._aborts else "quorum_lost"
        missing = {name: self._agents.cause(name) for name in names - messages.keys()}
        if len(messages) < least:
            raise Ending("failed", code, missing)
        faults.point("coordinator.collected")
        try:
            stepped = await child.step(number, messages, least)
        except TooFew as few:
            raise Ending("failed", code, missing | few.faults) from None
        except StepFailed as failure:
            known = failure.code in self.held.problem.failures
            code = failure.code if known else "session_failed"
            raise Ending("failed", code, failure.blamed) from None
        # Who sent something unusable is there, and harms this round only.
        self._agents.absent = names - messages.keys()
        _missing.inc(len(names) - len(stepped.used or {}))
        _rounds.inc()
        return stepped

    async def _publish(self) -> None:
        held = self.held
        assert held.released is not None
        claim = Claim(
            job_id=held.job_id,
            attempt=held.attempt,
            data=(),
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
        await self._retry_while_unavailable(
            lambda: running.publish(
                self._services,
                claim,
                output.payload,
                output.tables,
                headline=output.headline,
                assumptions=[one for one in ASSUMPTIONS if one not in held.plan.assumptions],
                federation=certified(held),
            )
        )

    async def _end(self, ending: Ending) -> None:
        """Write the end, unless it is written, and tell the agents."""
        if ending.state == "failed":
            assert ending.code is not None
            code, blamed = ending.code, ending.blamed
            await self._retry_while_unavailable(
                lambda: rounds.fail(self._services, self.held, code, blamed)
            )
        elif ending.state == "cancelled":
            await self._retry_while_unavailable(lambda: rounds.cancel(self._services, self.held))
        self._agents.close_round()
        found = await rounds.farewell(self._services, self.held.session_id)
        assert found is not None
        self._agents.take_leave(end_message(found))
        end = time.monotonic() + FAREWELL_SECONDS
        while self._agents.anybody and time.monotonic() < end:
            await self._agents.wait(end - time.monotonic())

    # -- small things ------------------------------------------------------------------------------

    def _refuse_declined(self) -> None:
        """Under `abort` the session ends where an agent of the roster declines."""
        declined = {
            name: cause
            for name, cause in self._agents.declined.items()
            if name in self.held.accounts
        }
        if self._aborts and declined:
            raise Ending("failed", "agent_declined", declined)

    @property
    def _aborts(self) -> bool:
        return self.held.terms.on_missing == "abort"

    def _limits(self) -> Limits:
        settings = self._services.settings
        return Limits(
            settings.job_memory_bytes, settings.job_cpu_seconds, settings.job_wall_seconds
        )

    async def _retry_while_unavailable(self, what: Callable[[], Awaitable[Any]]) -> Any:
        return await stubbornly(self.held.job_id, what)

    async def _keep(self, number: int, stepped: Stepped, transcript: bytes) -> None:
        state, broadcast = stepped.state, stepped.broadcast
        await self._retry_while_unavailable(
            lambda: rounds.keep(
                self._services,
                self.held,
                number=number,
                state=state,
                broadcast=broadcast,
                transcript=transcript,
            )
        )
        faults.point("coordinator.kept")

    def _report(self, number: int, rounds: int) -> None:
        """Report the session's progress now and then; agents do not wait for that."""
        now = time.monotonic()
        if now - self._reported >= PROGRESS_SECONDS and (
            self._reporting is None or self._reporting.done()
        ):
            self._reported = now
            self._reporting = asyncio.create_task(self._write_progress(number, rounds))

    async def _write_progress(self, number: int, rounds: int) -> None:
        try:
            async with self._services.database.transaction(SYSTEM) as connection:
                await jobs.report(connection, self.held.job_id, self.held.attempt, number, rounds)
        except Exception as error:  # the next one tells it
            log.warning("progress not written", job=self.held.job_id, error=type(error).__name__)

    async def _read_again(self) -> None:
        """Read the session from the database again, with a new fencing token."""
        async with self._leasing:
            held = await self._retry_while_unavailable(
                lambda: rounds.take(self._services, self.held.job_id, self.held.holder)
            )
            if held is None:
                raise LostJob()
            self._agents.held = held

    def _lease(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep the lease; the body is interrupted when it is lost, somebody cancels the job, or
        wants the session."""

        async def renew() -> Exception | None:
            async with self._leasing:
                seen = await rounds.renew(self._services, self.held)
            self._approved = seen.approved
            if self._approved and self.held.roster is None:
                self._agents.changed.set()
            if seen.cancel_requested:
                return Ending("cancelled")
            if seen.ended:
                return Ending("ended")
            return Handover() if seen.wanted and not self._agents.anybody else None

        def pause() -> float:
            if self.held.roster is None:
                return POLL_SECONDS
            return running.pause_seconds(self._services.settings.lease_seconds)

        return running.kept(self.held.job_id, renew, pause)

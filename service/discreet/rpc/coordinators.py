"""The sessions that one rpc process runs, and the sweep that takes up those that nobody runs."""

from __future__ import annotations

import asyncio
import contextlib
import traceback

import structlog

from discreet.errors import Unavailable
from discreet.isolation.children import ChildFailed, Zygote
from discreet.observability import telemetry
from discreet.rpc.admission import Seats
from discreet.rpc.coordinator import Coordinator
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds

log = structlog.get_logger()


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
            held = (
                None if self._stopping else await rounds.take(self._services, job_id, self._holder)
            )
            if held is None:
                raise Unavailable(
                    "another process runs this session; come again", code="session_elsewhere"
                )
            if held.roster is not None:
                try:
                    self._seating.reserve(job_id, len(held.members))
                except Unavailable:  # another process may have room
                    await rounds.give_back(self._services, held)
                    raise
            coordinator = Coordinator(self._services, self._zygote, held, self._seating)
            self._running[job_id] = (
                coordinator,
                asyncio.create_task(self._run(job_id, coordinator)),
            )
            return coordinator

    async def sweep(self) -> None:
        """Take up sessions that nobody runs: after a restart, or to let their time to join pass."""
        while True:
            try:
                if count := await rounds.end_unsigned(self._services):
                    log.info("sessions ended whose roster nobody signed", count=count)
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
            log.warning(
                "session broke off", job=job_id, error=name, count=count, trace=where, child=child
            )
            with contextlib.suppress(Exception):
                if count >= self._services.settings.max_attempts:
                    await rounds.fail(self._services, coordinator.held, "session_failed")
                else:
                    await rounds.give_back(self._services, coordinator.held)
        finally:
            del self._running[job_id]
            self._seating.free(job_id)
            coordinator.dismiss()  # whoever is still there comes again, and hears how it ended

"""One job from claim to end.

Who hears why a step failed: what ended the step on private data may depend on these, so its job
says `solver_failed` whatever it was, and the cause stands in the worker's log and metrics, after
the padding. What ended post-processing, or came before data were touched, depends on nothing
private, and the job's error names it.

A database that does not answer, is full, takes no changes or has the schema of another version ends
nothing, nor does a token or a key service that is away: the step waits and is said again, which
changes nothing where it had come through. Whether the job is still this worker's is the fencing
token's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import structlog
from prometheus_client import Counter

from discreet.errors import DiscreetError, Unavailable
from discreet.isolation.children import Zygote
from discreet.isolation.conversations import OnProgress, Output
from discreet.isolation.failures import (
    ChildFailed,
    CpuLimit,
    Crashed,
    Limits,
    MemoryLimit,
    NotIsolated,
    NotStarted,
    WallLimit,
)
from discreet.observability import faults, telemetry
from discreet.storage.database import trouble
from discreet.storage.keys.provider import KeysUnavailable
from discreet.storage.schema import schema_trouble
from discreet.storage.sealing import SealBroken
from discreet.usecases import leases, running
from discreet.usecases.claims import CancelRequested, Claim, KeysAway, KeyUnknown, LostJob
from discreet.usecases.datasets import MasterKeyUnknown
from discreet.usecases.places.staying import PlaceFails, planned_seconds
from discreet.usecases.services import Services
from discreet.usecases.shares import Offer
from discreet.usecases.spooling import Spooled
from discreet.worker.cluster.asking import Cluster
from discreet.worker.padding import Between, Pad, child_seconds
from discreet.worker.releasing import release_in_children

log = structlog.get_logger()

STORAGE_SECONDS = 2.0
"""Wait before the next attempt at a content whose storage does not answer, or whose key is not
known yet."""

DATABASE_SECONDS = 0.5
"""Wait before a step is said again to a database that did not take it."""

PROGRESS_SECONDS = 0.25
"""Progress is written at most so often."""

_attempts = Counter("discreet_attempts_total", "Attempts at jobs that began", ["kind"])
_child_failures = Counter(
    "discreet_child_failures_total",
    "Children that ended without a result, by cause",
    ["kind", "step", "cause"],
)
_database_waits = Counter(
    "discreet_worker_database_waits_total",
    "Steps of jobs that the database did not take at once, or for which keys were away",
    ["code"],
)
_leases_lost = Counter(
    "discreet_leases_lost_total", "Jobs that were given to another worker while this one had them"
)


RESULT_CODES: tuple[tuple[type[ChildFailed], str], ...] = (
    (MemoryLimit, "result_memory_limit"),
    (CpuLimit, "result_cpu_limit"),
    (WallLimit, "result_wall_limit"),
    (Crashed, "result_crashed"),
    (NotIsolated, "not_isolated"),
    (NotStarted, "child_not_started"),
    (ChildFailed, "result_failed"),
)
"""What a job's error says of a step that saw nothing private."""

Answer = TypeVar("Answer")


class StepFailed(Exception):
    """A step's child brought no result. `code` is what the job may say of it, `cause` what
    operators hear."""

    def __init__(self, step: str, code: str, cause: ChildFailed) -> None:
        super().__init__(code)
        self.step, self.code, self.cause = step, code, cause


def _told(failure: ChildFailed) -> str:
    return next(code for kind, code in RESULT_CODES if isinstance(failure, kind))


class Runner:
    """Runs jobs with one zygote's children."""

    def __init__(self, services: Services, zygote: Zygote) -> None:
        self._services = services
        self._zygote = zygote
        self._cluster = Cluster(services.settings)

    async def run(self, job_id: str, may_fetch: Callable[[], bool] = lambda: True) -> None:
        """Attempt the job until it ends, is lost to another worker, or may not be attempted
        again. One that fetches contents goes back on the queue where `may_fetch` says so."""
        with structlog.contextvars.bound_contextvars(job=job_id):
            await self._run(job_id, may_fetch)

    async def _run(self, job_id: str, may_fetch: Callable[[], bool]) -> None:
        while (held := await self._claim(job_id)) is not None:
            if held.stays and held.released is None and not may_fetch():
                with contextlib.suppress(LostJob):
                    await self._stubbornly(partial(running.hand_back, self._services, held))
                return
            _attempts.labels(held.problem.kind).inc()
            try:
                with self._traced(held):
                    async with self._lease(held):
                        await self._attempt(held)
                return
            except StepFailed as failed:
                found = failed.cause
                _child_failures.labels(held.problem.kind, failed.step, found.code).inc()
                log.warning(
                    "child failed",
                    attempt=held.attempt,
                    step=failed.step,
                    cause=found.code,
                    detail=found.detail,
                    trace=found.trace,
                )
                await self._count_failure(held, failed.code)
            except SealBroken:
                log.error("content cannot be decrypted", datasets=held.data)
                await self._fail(held, "content_unreadable")
                return
            except PlaceFails as error:
                log.warning(
                    "a content that stays does not come",
                    attempt=held.attempt,
                    dataset=error.about,
                    code=error.code,
                    cause=error.cause,
                )
                if not error.passing:
                    await self._fail(held, error.code, about=error.about)
                    return
                await asyncio.sleep(STORAGE_SECONDS)
                await self._count_failure(held, error.code, about=error.about)
            except Unavailable as error:
                log.warning(
                    "content cannot be read",
                    attempt=held.attempt,
                    code=error.code,
                    detail=error.detail,
                )
                await asyncio.sleep(STORAGE_SECONDS)
                code = error.code if isinstance(error, MasterKeyUnknown) else "content_unavailable"
                await self._count_failure(held, code)
            except CancelRequested:
                with contextlib.suppress(LostJob):
                    await self._stubbornly(partial(running.cancel, self._services, held))
                return
            except LostJob:
                _leases_lost.inc()
                log.info("job was given to another worker", attempt=held.attempt)
                return
            except asyncio.CancelledError:
                # This worker stops: the job goes back on the queue at once instead of waiting for
                # its lease to end.
                with contextlib.suppress(LostJob):
                    await asyncio.shield(running.hand_back(self._services, held))
                raise

    async def _claim(self, job_id: str) -> Claim | None:
        """The job, if it is to be had and this machine can go on with it."""
        while True:
            try:
                return await self._stubbornly(lambda: running.claim(self._services, job_id))
            except KeyUnknown as error:
                log.warning(
                    "what was released is sealed under an unknown key", attempt=error.attempt
                )
                await asyncio.sleep(STORAGE_SECONDS)
                await self._count_failure(error, error.code)
            except KeysAway as error:
                log.warning("what was released cannot be opened now", attempt=error.attempt)
                await asyncio.sleep(STORAGE_SECONDS)
                with contextlib.suppress(LostJob):
                    await self._stubbornly(partial(running.hand_back, self._services, error))
                return None

    async def _fail(self, held: Claim, code: str, *, about: str | None = None) -> None:
        ended = partial(running.fail, self._services, held, code, about=about)
        with contextlib.suppress(LostJob):
            await self._stubbornly(ended)

    async def _count_failure(
        self, held: Claim | KeyUnknown, code: str, *, about: str | None = None
    ) -> None:
        counted = partial(running.count_failure, self._services, held, code, about=about)
        with contextlib.suppress(LostJob):
            await self._stubbornly(counted)

    async def _stubbornly(self, step: Callable[[], Awaitable[Answer]]) -> Answer:
        """The step's answer, however long the database takes no changes or keys are away. Whoever
        waits can be cancelled."""
        while True:
            try:
                return await step()
            except Exception as error:
                found = await self._passing(error)
                if found is None:
                    raise
                _database_waits.labels(found.code).inc()
                away = "keys" if isinstance(found, KeysUnavailable) else "the database"
                log.warning(f"waiting for {away}", code=found.code, error=type(error).__name__)
            await asyncio.sleep(DATABASE_SECONDS)

    async def _passing(self, error: Exception) -> DiscreetError | None:
        """What is away, so that the step is to be said again; None for any other error."""
        if isinstance(error, KeysUnavailable):
            return error
        return trouble(error) or await schema_trouble(self._services.database, error)

    async def _attempt(self, held: Claim) -> None:
        if held.released is None:
            async with self._cluster.told(held.job_id, held.attempt) as tell:
                held = await self._release(held, tell)
        started = time.monotonic()
        with telemetry.span("finish", problem=held.problem.kind):
            try:
                output = await self._finish(held)
            except ChildFailed as failure:
                raise StepFailed("finish", _told(failure), failure) from failure
        child_seconds.labels(held.problem.kind, "finish").observe(time.monotonic() - started)
        faults.point("runner.finished")
        with telemetry.span("publish"):
            await self._stubbornly(
                lambda: running.publish(
                    self._services, held, output.payload, output.tables, headline=output.headline
                )
            )
        log.info("job published", attempt=held.attempt)

    async def _release(self, held: Claim, tell: Callable[[], None]) -> Claim:
        """The claim with what the mechanism released, which is stored."""
        planned = held.plan.resources.opening_seconds
        seconds = planned_seconds(planned, held.stays) if held.stays else planned
        opening = Pad(held, "opening", seconds)
        with contextlib.ExitStack() as opened:
            try:
                content = await self._stubbornly(
                    lambda: running.open_content(self._services, held, Between(held, seconds))
                )
            except Exception:  # also one that nobody expects, after which the lease runs out
                await opening.wait()  # nor how much of it could be read
                raise
            if isinstance(content, Spooled):
                opened.callback(content.close)
            # How long that took goes with the size of the content, and the ledger shows when the
            # next step was.
            await opening.wait()
            try:  # a worker that can make no child has no use for the data: nothing is charged
                await self._zygote.start()
            except ChildFailed as failure:
                raise StepFailed("start", _told(failure), failure) from failure
            await self._stubbornly(lambda: running.touch(self._services, held))
            seconds = held.plan.resources.release_quantum_seconds
            # What the database took in between depends on nothing private, and is not counted.
            release = Pad(held, "release", seconds, behind=planned)
            limits = self._limits(held, seconds)
            offer = Offer(self._services, held, tell)
            try:
                output = await release_in_children(
                    self._zygote,
                    self._header(held, "release"),
                    content,
                    limits,
                    self._services.settings.share_processes,
                    offer,
                )
                del content  # this process keeps it no longer than it must
            except ChildFailed as failure:
                await release.wait()  # nor how long a failure took
                code = _told(failure) if held.simulation else "solver_failed"
                raise StepFailed("release", code, failure) from failure
        released = output.payload
        faults.point("runner.released")
        await release.wait()
        offer.count()
        with telemetry.span("keep release"):
            return await self._stubbornly(
                lambda: running.keep_release(self._services, held, released)
            )

    @contextlib.contextmanager
    def _traced(self, held: Claim) -> Iterator[None]:
        """One attempt in the trace of the request that submitted the job; with the first, the time
        it waited."""
        parent = held.traceparent or ""  # not below whatever this worker does else
        if held.attempt == 1 and held.queued_at is not None:
            queued = round(held.queued_at.timestamp() * 1e9)
            telemetry.note(
                "queue", queued, time.time_ns(), parent=parent, problem=held.problem.kind
            )
        with telemetry.span(
            "job",
            parent=parent,
            kind=telemetry.Kind.CONSUMER,
            job=held.job_id,
            problem=held.problem.kind,
            attempt=held.attempt,
        ):
            yield

    async def _finish(self, held: Claim) -> Output:
        """Post-processing, which needs what was released and nothing private."""
        header, limits, released = self._header(held, "finish"), self._limits(held), held.released
        assert released is not None
        return await self._zygote.run(header, released, limits, self._progress(held))

    def _header(self, held: Claim, step: str) -> dict[str, object]:
        return {
            "step": step,
            "kind": held.problem.kind,
            "problem": held.problem.model_dump(mode="json"),
            "public": None if held.public is None else held.public.model_dump(mode="json"),
            "plan": held.plan.model_dump(mode="json"),
            "block": None if held.block is None else held.block.model_dump(mode="json"),
            "simulation": held.simulation,
            "seed": held.seed,
            "parts": [
                [weight, len(one.released)]
                for weight, one in zip(held.weights, held.firsts, strict=True)
            ],
        }

    def _limits(self, held: Claim, seconds: float = 0.0) -> Limits:
        """At least the `seconds` that a plan gives: a lower limit would end releases on large
        contents alone."""
        settings = self._services.settings
        return Limits(
            memory_bytes=settings.job_memory_bytes,
            cpu_seconds=max(settings.job_cpu_seconds, math.ceil(seconds)),
            wall_seconds=max(settings.job_wall_seconds, seconds),
        )

    def _progress(self, held: Claim) -> OnProgress:
        last = 0.0

        async def report(step: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PROGRESS_SECONDS:
                last = now
                try:
                    await running.report(self._services, held, step, total)
                except Exception as error:
                    if trouble(error) is None:
                        raise
                    log.warning("progress not told", error=type(error).__name__)

        return report

    def _lease(self, held: Claim) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep the lease alive; the body is interrupted when the job is lost or shall be
        cancelled."""

        async def renew() -> Exception | None:
            return CancelRequested() if await running.renew(self._services, held) else None

        return leases.kept(
            held.job_id, renew, lambda: leases.pause_seconds(self._services.settings.lease_seconds)
        )

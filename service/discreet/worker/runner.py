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
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import structlog
from prometheus_client import Counter

from discreet.errors import DiscreetError, Unavailable
from discreet.isolation.children import Zygote
from discreet.isolation.conversations import OnProgress
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
from discreet.usecases.claims import CancelRequested, Claim, Held, KeysAway, KeyUnknown, LostJob
from discreet.usecases.datasets import MasterKeyUnknown
from discreet.usecases.places.staying import PlaceFails, planned_seconds
from discreet.usecases.services import Services
from discreet.usecases.shares import Offer
from discreet.usecases.spooling import Spooled
from discreet.worker.cluster.asking import Cluster
from discreet.worker.padding import Between, Step, child_seconds
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


@contextlib.contextmanager
def _failing(step: str, code: str | None = None) -> Iterator[None]:
    """A failure of this step's child as StepFailed. Without a `code` the job says why it failed."""
    try:
        yield
    except ChildFailed as failure:
        told = code or next(said for kind, said in RESULT_CODES if isinstance(failure, kind))
        raise StepFailed(step, told, failure) from failure


@dataclass(frozen=True)
class Exit:
    """How a job goes on that leaves its way before the result: by which step of
    `usecases.running`, which alone settles what it is charged; after so many seconds; and whether
    this worker then claims it again."""

    step: Callable[[Services, Any], Awaitable[None]] | None = None
    pause: float = 0.0
    again: bool = False

    @classmethod
    def counted(cls, code: str, *, about: str | None = None, pause: float = 0.0) -> Self:
        """The attempt failed: the job waits for the next one, or fails if it was the last."""
        return cls(partial(running.count_failure, code=code, about=about), pause, again=True)

    @classmethod
    def failed(cls, code: str, *, about: str | None = None) -> Self:
        """No attempt can help."""
        return cls(partial(running.fail, code=code, about=about))


def _exit_of(held: Held, error: Exception) -> Exit:
    """Every exit but that of a worker which stops. The error itself where it is none that anybody
    expects: the lease runs out then.

    Whatever went wrong with private data comes here when its step's padded time is over, so it may
    be logged."""
    attempt = held.attempt
    match error:
        case StepFailed() if isinstance(held, Claim):
            found = error.cause
            _child_failures.labels(held.problem.kind, error.step, found.code).inc()
            log.warning(
                "child failed",
                attempt=attempt,
                step=error.step,
                cause=found.code,
                detail=found.detail,
                trace=found.trace,
            )
            return Exit.counted(error.code)
        case SealBroken() if isinstance(held, Claim):
            log.error("content cannot be decrypted", datasets=held.data)
            return Exit.failed("content_unreadable")
        case PlaceFails():
            log.warning(
                "a content that stays does not come",
                attempt=attempt,
                dataset=error.about,
                code=error.code,
                cause=error.cause,
            )
            if not error.passing:
                return Exit.failed(error.code, about=error.about)
            return Exit.counted(error.code, about=error.about, pause=STORAGE_SECONDS)
        case Unavailable():
            log.warning(
                "content cannot be read", attempt=attempt, code=error.code, detail=error.detail
            )
            known = not isinstance(error, MasterKeyUnknown)
            code = "content_unavailable" if known else error.code
            return Exit.counted(code, pause=STORAGE_SECONDS)
        case KeyUnknown():
            log.warning("what was released is sealed under an unknown key", attempt=attempt)
            return Exit.counted(error.code, pause=STORAGE_SECONDS)
        case KeysAway():
            log.warning("what was released cannot be opened now", attempt=attempt)
            return Exit(running.hand_back, STORAGE_SECONDS)
        case CancelRequested():
            return Exit(running.cancel)
        case LostJob():
            _leases_lost.inc()
            log.info("job was given to another worker", attempt=attempt)
            return Exit()
    raise error


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
            again = True
            while again:
                again = await self._attempt(job_id, may_fetch)

    async def _attempt(self, job_id: str, may_fetch: Callable[[], bool]) -> bool:
        """Claim the job and go its way to the result; whether to claim it again.

        The way: claim, open, touch, release, keep, finish, publish. What leaves it before its end
        is an exception, of which `_exit_of` says how the job goes on.
        """
        held: Held | None = None
        try:
            claimed = await self._stubbornly(partial(running.claim, self._services, job_id))
            if claimed is None:
                return False
            held = claimed
            if claimed.stays and claimed.released is None and not may_fetch():
                leaving = Exit(running.hand_back)
            else:
                _attempts.labels(claimed.problem.kind).inc()
                with self._traced(claimed):
                    async with self._lease(claimed):
                        await self._publish(await self._released(claimed))
                return False
        except asyncio.CancelledError:
            # This worker stops: the job goes back on the queue at once instead of waiting for its
            # lease to end.
            if held is not None:
                with contextlib.suppress(LostJob):
                    await asyncio.shield(running.hand_back(self._services, held))
            raise
        except Exception as error:
            if held is None:
                if not isinstance(error, KeyUnknown | KeysAway):
                    raise
                held = error
            leaving = _exit_of(held, error)
        await asyncio.sleep(leaving.pause)
        if leaving.step is not None:
            with contextlib.suppress(LostJob):
                await self._stubbornly(partial(leaving.step, self._services, held))
        return leaving.again

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

    async def _released(self, held: Claim) -> Claim:
        """The claim with what the mechanism released, which is stored: open, touch, release, keep.
        How long opening and release take is the two `Step`s' to say, however they end."""
        if held.released is not None:
            return held
        resources = held.plan.resources
        planned = resources.opening_seconds
        opens = planned_seconds(planned, held.stays) if held.stays else planned
        async with self._cluster.told(held.job_id, held.attempt) as tell:
            with contextlib.ExitStack() as opened:
                opening = Step(held, "opening", opens, stopping=opens)
                content = await opening.run(self._open(held, Between(held, opens), opened))
                # A worker that can make no child has no use for the data: nothing is charged.
                with _failing("start"):
                    await self._zygote.start()
                await self._stubbornly(lambda: running.touch(self._services, held))
                # What the database took in between depends on nothing private, and is not counted.
                seconds = resources.release_quantum_seconds
                release = Step(held, "release", seconds, stopping=opens, behind=planned)
                offer = Offer(self._services, held, tell)
                work = self._in_children(held, content, seconds, offer)
                del content  # this process keeps it no longer than it must
                with _failing("release", None if held.simulation else "solver_failed"):
                    released = await release.run(work)
            offer.count()
            with telemetry.span("keep release"):
                return await self._stubbornly(
                    lambda: running.keep_release(self._services, held, released)
                )

    async def _open(
        self, held: Claim, between: Between, opened: contextlib.ExitStack
    ) -> bytes | bytearray | Spooled:
        """The content; one in a file is closed with `opened`, beside what follows: how long that
        takes goes with its size."""
        content = await self._stubbornly(
            lambda: running.open_content(self._services, held, between)
        )
        if isinstance(content, Spooled):
            loop = asyncio.get_running_loop()
            opened.callback(loop.run_in_executor, None, content.close)
        return content

    async def _in_children(
        self, held: Claim, content: bytes | bytearray | Spooled, seconds: float, offer: Offer
    ) -> bytes:
        output = await release_in_children(
            self._zygote,
            self._header(held, "release"),
            content,
            self._limits(held, seconds),
            self._services.settings.share_processes,
            offer,
        )
        faults.point("runner.released")
        return output.payload

    async def _publish(self, held: Claim) -> None:
        """Post-processing, which needs what was released and nothing private, and its result."""
        header, limits, released = self._header(held, "finish"), self._limits(held), held.released
        assert released is not None
        started = time.monotonic()
        with telemetry.span("finish", problem=held.problem.kind), _failing("finish"):
            output = await self._zygote.run(header, released, limits, self._progress(held))
        child_seconds.labels(held.problem.kind, "finish").observe(time.monotonic() - started)
        faults.point("runner.finished")
        with telemetry.span("publish"):
            await self._stubbornly(
                lambda: running.publish(
                    self._services, held, output.payload, output.tables, headline=output.headline
                )
            )
        log.info("job published", attempt=held.attempt)

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

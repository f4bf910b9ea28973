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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

import structlog
from procrastinate.connector import BaseConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from prometheus_client import Counter, Histogram

from discreet.errors import DiscreetError, Unavailable
from discreet.isolation.children import (
    ChildFailed,
    CpuLimit,
    Crashed,
    Limits,
    MemoryLimit,
    NotIsolated,
    NotStarted,
    OnProgress,
    WallLimit,
    Zygote,
)
from discreet.observability import faults, telemetry
from discreet.storage.database import trouble
from discreet.storage.keys.provider import KeysUnavailable
from discreet.storage.queue import LONG_QUEUE, RUN_JOB
from discreet.storage.schema import schema_trouble
from discreet.storage.sealing import SealBroken
from discreet.usecases import running, shares
from discreet.usecases.datasets import MasterKeyUnknown
from discreet.usecases.places.staying import PlaceFails, planned_seconds
from discreet.usecases.running import CancelRequested, Claim, Held, KeysAway, KeyUnknown, LostJob
from discreet.usecases.services import Services
from discreet.usecases.shares import HelpedJob, Offer, Share
from discreet.usecases.spooling import Spooled
from discreet.worker.cluster.asking import Cluster
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
            claimed = await self._retry_while_unavailable(
                partial(running.claim, self._services, job_id)
            )
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
                await self._retry_while_unavailable(partial(leaving.step, self._services, held))
        return leaving.again

    async def _retry_while_unavailable(self, step: Callable[[], Awaitable[Answer]]) -> Answer:
        """The step's answer, however long the database takes no changes or keys are away. Whoever
        waits can be cancelled."""
        while True:
            try:
                return await step()
            except Exception as error:
                found = await self._unavailable_error(error)
                if found is None:
                    raise
                _database_waits.labels(found.code).inc()
                away = "keys" if isinstance(found, KeysUnavailable) else "the database"
                log.warning(f"waiting for {away}", code=found.code, error=type(error).__name__)
            await asyncio.sleep(DATABASE_SECONDS)

    async def _unavailable_error(self, error: Exception) -> DiscreetError | None:
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
                await self._retry_while_unavailable(lambda: running.touch(self._services, held))
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
                return await self._retry_while_unavailable(
                    lambda: running.keep_release(self._services, held, released)
                )

    async def _open(
        self, held: Claim, between: Between, opened: contextlib.ExitStack
    ) -> bytes | bytearray | Spooled:
        """The content; one in a file is closed with `opened`, beside what follows: how long that
        takes goes with its size."""
        content = await self._retry_while_unavailable(
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
            await self._retry_while_unavailable(
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

        return running.kept(
            held.job_id, renew, lambda: running.pause_seconds(self._services.settings.lease_seconds)
        )


# Helping ------------------------------------------------------------------------------------------
# A worker that has nothing to do reads shares of others' releases.
#
# Helping takes none of the places for jobs, so it delays nobody's turn: a share is taken only while
# this worker runs no job and none waits for it, and is given up when a job comes. When that is
# follows from when jobs come and end, which is padded.
#
# Nothing is told of how a share went: that depends on the data, and the worker that offers it tells
# it, after the padding.

MOST_REMEMBERED = 100
"""Jobs that this worker cannot help with, before it tries the first again."""


class Helper:
    """Reads shares with one zygote's children, one at a time, while `placed` has no job: those of
    any job, or `of` one."""

    def __init__(
        self, services: Services, zygote: Zygote, placed: PlacedJobs, of: str | None = None
    ) -> None:
        self._services, self._zygote, self._placed, self._of = services, zygote, placed, of
        self._cannot: dict[str, None] = {}

    async def run(self) -> None:
        """Help whenever this worker is idle, until cancelled."""
        while True:
            await self._placed.idle.wait()
            self._placed.idle.clear()
            try:
                await self.help()
            except Exception as error:
                log.warning("shares cannot be taken", error=type(error).__name__)

    async def help(self) -> int:
        """Read shares until none is open or a job comes; how many were handed back."""
        job: HelpedJob | None = None
        done = 0
        try:
            while (share := await self._take()) is not None:
                if job is not None and not job.is_of(share):
                    job.close()
                    job = None
                try:
                    job = job or await shares.job_of(self._services, share)
                    done += await self._read(job, share)
                except ChildFailed:  # which its own worker's child will meet as well, and tell of
                    self._remember(share)
                except asyncio.CancelledError:
                    await asyncio.shield(self._give_up(share))
                    raise
                except Exception as error:
                    log.info("no help with a job's shares", job=share.job_id, why=_why(error))
                    self._remember(share)
                    await self._give_up(share)
        finally:
            if job is not None:
                job.close()
        return done

    async def _take(self) -> Share | None:
        worker = self._placed.worker
        if worker is None or self._placed.running:
            return None
        return await shares.take(self._services, worker, list(self._cannot), self._of)

    async def _read(self, job: HelpedJob, share: Share) -> bool:
        """Whether its sums were handed back; a job that comes ends the child."""
        reading = asyncio.create_task(self._sums(job, share))
        coming = asyncio.create_task(self._placed.comes.wait())
        try:
            await asyncio.wait({reading, coming}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._give_up(share)
                return False
            return await shares.hand_back(self._services, job, share, await reading)
        finally:
            for task in (reading, coming):
                task.cancel()
            await asyncio.gather(reading, coming, return_exceptions=True)

    async def _sums(self, job: HelpedJob, share: Share) -> bytes:
        settings = self._services.settings
        limits = Limits(
            memory_bytes=settings.job_memory_bytes,
            cpu_seconds=max(settings.job_cpu_seconds, math.ceil(job.seconds)),
            wall_seconds=max(settings.job_wall_seconds, job.seconds),
        )
        header = {**job.header, "share": [share.number, share.of]}
        async with self._zygote.converse(header, b"", limits, [job.file.to_read()]) as child:
            while True:
                told, payload = await child.receive()
                if "need" not in told:
                    return payload
                await shares.fetch(self._services, job, *told["need"])
                await child.send({})

    async def _give_up(self, share: Share) -> None:
        with contextlib.suppress(Exception):  # it stays taken, and its own worker reads it
            await shares.give_up(self._services, share)

    def _remember(self, share: Share) -> None:
        self._cannot[share.job_id] = None
        if len(self._cannot) > MOST_REMEMBERED:
            del self._cannot[next(iter(self._cannot))]


def _why(error: Exception) -> str:
    return error.code if isinstance(error, DiscreetError) else type(error).__name__


# Padding ------------------------------------------------------------------------------------------
# When a step on private data ends, as everybody else sees it: one rule for every exit.
#
# A step that ends by itself, with an answer or an error, ends at a time of the plan, or at that
# time doubled where it did not suffice. A step that is called off (its job is cancelled or was
# given to another worker, or this worker stops) ends a public time after that moment, doubled
# likewise: the work has to stop first, which takes longer for a larger content.

STOPPING_SECONDS = 1.0
"""Until work that is called off has stopped, at least: an opening whose content is larger has the
time of the plan. Children are killed, and their memory is freed, in less."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

_overdue = Counter(
    "discreet_releases_overdue_total",
    "Releases that took longer than their plan pads them to, so that the padded time was doubled",
    ["kind", "part"],
)
child_seconds = Histogram(
    "discreet_child_seconds",
    "Time of a step in a child process; that of a release is padded",
    ["kind", "step"],
    buckets=SECONDS,
)


def padded_seconds(elapsed: float, quantum: float) -> float:
    """The quantum in seconds, doubled until it is no less than `elapsed`.

    Multiples of the quantum would reveal the time of an overdue release almost exactly; there are
    only a dozen doublings between a quantum and any limit. ValueError for a quantum that
    no doubling makes longer.
    """
    if not quantum > 0:
        raise ValueError(f"a quantum is longer than 0, not {quantum}")
    while quantum < elapsed:
        quantum *= 2
    return quantum


def exit_seconds(
    elapsed: float, planned: float, *, called_off: float | None, stopping: float
) -> float:
    """When a step that has taken `elapsed` seconds ends, in seconds after its beginning. `planned`
    and `stopping` follow from public figures; `called_off` is when the step was called off, None
    where it ended by itself."""
    if called_off is None:
        return padded_seconds(elapsed, planned)
    return called_off + padded_seconds(elapsed - called_off, stopping)


class Step:
    """One step on private data, `opening` or `release`, whose end is that of `exit_seconds`. A
    simulation's data are public, so its steps end when they end.

    The wait is a sleep: it occupies one of the worker's places for jobs, but no core.
    """

    def __init__(
        self, held: Claim, part: str, seconds: float, *, stopping: float, behind: float = 0.0
    ) -> None:
        """Begins now, or began `behind` seconds ago, and is planned to take `seconds`; once called
        off it takes `stopping`, or STOPPING_SECONDS if that is longer."""
        self.seconds = padded_seconds(0.0, seconds)
        self.part = part
        self._held = held
        self._stopping = max(stopping, STOPPING_SECONDS)
        self._began, self._started = time.time_ns() - round(behind * 1e9), time.monotonic() - behind

    async def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What `work` answers or raises, once the step may end. Whoever cancels this waits until
        then as well, however often they cancel it."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
            await self._end(None)
        except asyncio.CancelledError:
            stopping = asyncio.create_task(self._stop(task, self._elapsed()))
            while not stopping.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(stopping)
            raise
        return task.result()

    async def _stop(self, task: asyncio.Task[Any], called_off: float) -> None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # nobody asks for it any more
        await self._end(called_off)

    async def _end(self, called_off: float | None) -> None:
        """Wait for the end. Only then traces and metrics are written, with padded durations."""
        elapsed, held, kind = self._elapsed(), self._held, self._held.problem.kind
        ends = exit_seconds(elapsed, self.seconds, called_off=called_off, stopping=self._stopping)
        if held.simulation:
            ends = elapsed
        await asyncio.sleep(ends - elapsed)
        if not held.simulation and ends > self.seconds and called_off is None:
            _overdue.labels(kind, self.part).inc()
            log.info(
                "a release took longer than its plan pads it to",
                part=self.part,
                planned=self.seconds,
            )
        if self.part == "release":
            child_seconds.labels(kind, "release").observe(ends)
            telemetry.note("release", self._began, self._began + round(ends * 1e9), problem=kind)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


class Between:
    """Pads each of several contents that are fetched one after the other: the place of the next
    sees when it is asked, and whoever keeps it is not to learn from that how long the one before
    took. It has an equal share of the time that is planned for all, so nothing takes longer."""

    def __init__(self, held: Claim, seconds: float) -> None:
        """`seconds` for all contents. The first is fetched now."""
        self._none = held.simulation or not held.stays
        self._share = seconds / max(1, len(held.data))
        self._started = time.monotonic()

    async def __call__(self) -> None:
        """Wait until the time of this content is over."""
        if self._none:
            return
        elapsed = time.monotonic() - self._started
        await asyncio.sleep(padded_seconds(elapsed, self._share) - elapsed)
        self._started = time.monotonic()


# Places -------------------------------------------------------------------------------------------
# Which jobs a worker takes from its queues: one of its places is kept free of long jobs.
#
# Tags (`fair_tag` in the database) decide which job is next when a place becomes free. Running jobs
# are not interrupted, so without this rule a tenant's long jobs, sent when nobody else waits, could
# occupy every place for half an hour. A worker with one place takes any job.
#
# A job that fetches contents from places counts as a long one when it begins to: a place that sends
# little by little would occupy all others for an hour and more.


class PlacedJobs(JobManager):
    """procrastinate's job manager, which fetches no long jobs while such jobs occupy all places but
    one."""

    def __init__(self, connector: BaseConnector, places: int) -> None:
        super().__init__(connector)
        self._most = max(1, places - 1)
        self._long: set[int | None] = set()
        self.running: set[int | None] = set()
        """Entries of jobs that occupy a place."""
        self.idle = asyncio.Event()
        """Set when this worker has looked for a job, found none, and runs none."""
        self.comes = asyncio.Event()
        """Set while a job occupies a place."""
        self.worker: int | None = None
        """This worker's number in the queue, once it has one."""

    async def register_worker(self) -> int:
        self.worker = await super().register_worker()
        return self.worker

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        if queues is not None and len(self._long) >= self._most:
            queues = [name for name in queues if name != LONG_QUEUE]
        job = await super().fetch_job(queues, worker_id)
        if job is not None and job.queue == LONG_QUEUE:
            self._long.add(job.id)
        if job is not None and job.task_name == RUN_JOB:
            self.running.add(job.id)
            self.idle.clear()
            self.comes.set()
        elif job is None and not self.running:
            self.idle.set()
        return job

    def takes_long(self, entry: int | None) -> bool:
        """Whether this running entry may take long, as nobody knew when it was fetched: False while
        long jobs occupy all places that they may."""
        if entry not in self._long and len(self._long) >= self._most:
            return False
        self._long.add(entry)
        return True

    def ended(self, entry: int | None) -> None:
        """The job of this entry has left its place."""
        self._long.discard(entry)
        self.running.discard(entry)
        if not self.running:
            self.comes.clear()

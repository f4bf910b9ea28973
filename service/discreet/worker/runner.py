"""One job from claim to end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator

import structlog
from prometheus_client import Counter, Histogram

from discreet import faults, telemetry
from discreet.errors import Unavailable
from discreet.isolation.children import ChildFailed, Limits, OnProgress, Output, Zygote
from discreet.storage.sealing import SealBroken
from discreet.usecases import leases, running
from discreet.usecases.running import CancelRequested, Claim, LostJob
from discreet.usecases.services import Services
from discreet.worker.cluster import ClusterFinisher

log = structlog.get_logger()

STORAGE_SECONDS = 2.0
"""Wait before the next attempt at a content whose storage does not answer."""

OPENING_QUANTUM_SECONDS = 0.0625
"""Of opening a content, before the ledger says that data are touched."""

PROGRESS_SECONDS = 0.25
"""Progress is written at most so often."""

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)

_attempts = Counter("discreet_attempts_total", "Attempts at jobs that began", ["kind"])
_child_failures = Counter("discreet_child_failures_total", "Children that ended without a result", ["kind"])
_leases_lost = Counter("discreet_leases_lost_total", "Jobs that were given to another worker while this one had them")
_child_seconds = Histogram(
    "discreet_child_seconds",
    "Time of a step in a child process; a release's is padded to the plan's quantum",
    ["kind", "step"],
    buckets=SECONDS,
)


class Runner:
    """Runs jobs with one zygote's children."""

    def __init__(self, services: Services, zygote: Zygote) -> None:
        self._services = services
        self._zygote = zygote
        settings = services.settings
        self._cluster: ClusterFinisher | None = None
        if settings.routing_cluster is not None:
            self._cluster = ClusterFinisher(settings.routing_cluster, settings.routing_cluster_pairs)

    async def run(self, job_id: str) -> None:
        """Attempt the job until it ends, is lost to another worker, or may not be attempted again."""
        with structlog.contextvars.bound_contextvars(job=job_id):
            await self._run(job_id)

    async def _run(self, job_id: str) -> None:
        while (held := await running.claim(self._services, job_id)) is not None:
            _attempts.labels(held.problem.kind).inc()
            try:
                with self._traced(held):
                    async with self._lease(held):
                        await self._attempt(held)
                return
            except ChildFailed as failure:
                _child_failures.labels(held.problem.kind).inc()
                log.warning("child failed", job=job_id, attempt=held.attempt, trace=failure.trace)
                with contextlib.suppress(LostJob):
                    await running.count_failure(self._services, held)
            except SealBroken:
                log.error("content does not open", job=job_id, dataset=held.dataset_id)
                with contextlib.suppress(LostJob):
                    await running.fail(self._services, held, "content_unreadable")
                return
            except Unavailable:
                log.warning("content does not come", job=job_id, attempt=held.attempt)
                await asyncio.sleep(STORAGE_SECONDS)
                with contextlib.suppress(LostJob):
                    await running.count_failure(self._services, held, "content_unavailable")
            except CancelRequested:
                with contextlib.suppress(LostJob):
                    await running.cancel(self._services, held)
                return
            except LostJob:
                _leases_lost.inc()
                log.info("job was given to another worker", job=job_id, attempt=held.attempt)
                return
            except asyncio.CancelledError:
                # This worker stops: the job goes back on the queue at once instead of waiting for its lease to end.
                with contextlib.suppress(LostJob):
                    await asyncio.shield(running.hand_back(self._services, held))
                raise

    async def _attempt(self, held: Claim) -> None:
        released = held.released
        if released is None:
            began, started = time.time_ns(), time.monotonic()
            content = await running.open_content(self._services, held)
            await self._zygote.start()  # a worker that can make no child has no use for the data: nothing is charged
            # How long that took goes with the size of the content, and the ledger shows when the next step was.
            await _pad(started, OPENING_QUANTUM_SECONDS)
            await running.touch(self._services, held)
            try:
                output = await self._zygote.run(self._header(held, "release"), content, self._limits(held))
                del content  # this process keeps it no longer than it must
            except ChildFailed:
                await self._pad(held, began, started)  # nor how long a failure took
                raise
            released = output.payload
            faults.point("runner.released")
            await self._pad(held, began, started)
            with telemetry.span("keep release"):
                await running.keep_release(self._services, held, released)
        started = time.monotonic()
        with telemetry.span("finish", problem=held.problem.kind):
            output = await self._finish(held, released)
        _child_seconds.labels(held.problem.kind, "finish").observe(time.monotonic() - started)
        faults.point("runner.finished")
        with telemetry.span("publish"):
            await running.publish(self._services, held, output.payload, output.tables)
        log.info("job published", attempt=held.attempt)

    async def _pad(self, held: Claim, began: int, started: float) -> None:
        """Wait for the quantum, and only then tell traces and metrics: they see padded durations too."""
        seconds = await _pad(started, held.plan.resources.release_quantum_seconds)
        _child_seconds.labels(held.problem.kind, "release").observe(seconds)
        telemetry.note("release", began, began + round(seconds * 1e9), problem=held.problem.kind)

    @contextlib.contextmanager
    def _traced(self, held: Claim) -> Iterator[None]:
        """One attempt in the trace of the request that submitted the job; with the first, the time it waited."""
        parent = held.traceparent or ""  # not below whatever this worker does else
        if held.attempt == 1 and held.queued_at is not None:
            queued = round(held.queued_at.timestamp() * 1e9)
            telemetry.note("queue", queued, time.time_ns(), parent=parent, problem=held.problem.kind)
        with telemetry.span(
            "job",
            parent=parent,
            kind=telemetry.Kind.CONSUMER,
            job=held.job_id,
            problem=held.problem.kind,
            attempt=held.attempt,
        ):
            yield

    async def _finish(self, held: Claim, released: bytes) -> Output:
        """Post-processing: on the cluster where there is one and the job is huge, here otherwise or when that fails."""
        header, limits = self._header(held, "finish"), self._limits(held)
        if self._cluster is not None and self._cluster.takes(held):
            try:
                output = await self._cluster.run(header, released, limits, self._progress(held))
                log.info("finished on the cluster", job=held.job_id)
                return output
            except ChildFailed as failure:
                log.warning("the cluster failed, finishing here", job=held.job_id, trace=failure.trace)
        return await self._zygote.run(header, released, limits, self._progress(held))

    def _header(self, held: Claim, step: str) -> dict[str, object]:
        return {
            "step": step,
            "kind": held.problem.kind,
            "problem": held.problem.model_dump(mode="json"),
            "public": None if held.public is None else held.public.model_dump(mode="json"),
            "plan": held.plan.model_dump(mode="json"),
            "simulation": held.simulation,
            "seed": held.seed,
        }

    def _limits(self, held: Claim) -> Limits:
        settings = self._services.settings
        return Limits(
            memory_bytes=settings.job_memory_bytes,
            cpu_seconds=math.ceil(settings.job_wall_seconds),
            wall_seconds=settings.job_wall_seconds,
        )

    def _progress(self, held: Claim) -> OnProgress:
        last = 0.0

        async def report(step: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PROGRESS_SECONDS:
                last = now
                await running.report(self._services, held, step, total)

        return report

    def _lease(self, held: Claim) -> contextlib.AbstractAsyncContextManager[None]:
        """Keep the lease alive; the body is interrupted when the job is lost or shall be cancelled."""

        async def renew() -> Exception | None:
            return CancelRequested() if await running.renew(self._services, held) else None

        return leases.kept(held.job_id, renew, lambda: leases.pause_seconds(self._services.settings.lease_seconds))


def padded_seconds(elapsed: float, quantum: float) -> float:
    """The quantum, or that doubled until it is no less than `elapsed`.

    Multiples of the quantum would tell the time of a long release to a small part of itself, and whoever chooses its
    parameters can make it long; of doublings there are a dozen between a quantum and any limit.
    """
    while quantum < elapsed:
        quantum *= 2
    return quantum


async def _pad(started: float, quantum: float) -> float:
    """Wait until `padded_seconds` have passed since `started`, which it returns: how long the data took is not
    shown."""
    elapsed = time.monotonic() - started
    padded = padded_seconds(elapsed, quantum)
    await asyncio.sleep(padded - elapsed)
    return padded

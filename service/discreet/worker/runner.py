"""One job from claim to end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time

import structlog

from discreet import faults
from discreet.errors import Unavailable
from discreet.storage.sealing import SealBroken
from discreet.usecases import leases, running
from discreet.usecases.running import Claim, LostJob
from discreet.usecases.services import Services
from discreet.worker.children import ChildFailed, Limits, OnProgress, Output, Zygote
from discreet.worker.cluster import ClusterFinisher

log = structlog.get_logger()

STORAGE_SECONDS = 2.0
"""Wait before the next attempt at a content whose storage does not answer."""

PROGRESS_SECONDS = 0.25
"""Progress is written at most so often."""


class CancelRequested(Exception):
    """Somebody asked for the job's end."""


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
        while (held := await running.claim(self._services, job_id)) is not None:
            try:
                async with self._lease(held):
                    await self._attempt(held)
                return
            except ChildFailed as failure:
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
                log.info("job was given to another worker", job=job_id, attempt=held.attempt)
                return
            except asyncio.CancelledError:
                # This worker stops: the job goes back on the queue at once instead of waiting for its lease to end.
                with contextlib.suppress(LostJob):
                    await asyncio.shield(running.hand_back(self._services, held))
                raise

    async def _attempt(self, held: Claim) -> None:
        if held.cancel_requested:
            raise CancelRequested
        released = held.released
        if released is None:
            started = time.monotonic()
            content = await running.touch(self._services, held)
            try:
                output = await self._zygote.run(self._header(held, "release"), content, self._limits(held))
            except ChildFailed:
                await _pad(started, held.plan.resources.release_quantum_seconds)  # nor how long a failure took
                raise
            released = output.payload
            faults.point("runner.released")
            await _pad(started, held.plan.resources.release_quantum_seconds)
            await running.keep_release(self._services, held, released)
        output = await self._finish(held, released)
        faults.point("runner.finished")
        await running.publish(self._services, held, output.payload, output.tables)

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


async def _pad(started: float, quantum: float) -> None:
    """Wait until a multiple of the quantum has passed since `started`: how long the data took is not shown."""
    elapsed = time.monotonic() - started
    await asyncio.sleep(math.ceil(elapsed / quantum) * quantum - elapsed)

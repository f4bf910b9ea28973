"""A worker that has nothing to do reads shares of others' releases.

Helping takes none of the places for jobs, so it delays nobody's turn: a share is taken only while
this worker runs no job and none waits for it, and is given up when a job comes. When that is
follows from when jobs come and end, which is padded.

Nothing is told of how a share went: that depends on the data, and the worker that offers it tells
it, after the padding.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

import structlog

from discreet.errors import DiscreetError
from discreet.isolation.children import Zygote
from discreet.isolation.failures import ChildFailed, Limits
from discreet.usecases import helping
from discreet.usecases.helping import HelpedJob, Share
from discreet.usecases.services import Services
from discreet.worker.places import PlacedJobs

log = structlog.get_logger()

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
                    job = job or await helping.job_of(self._services, share)
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
        return await helping.take(self._services, worker, list(self._cannot), self._of)

    async def _read(self, job: HelpedJob, share: Share) -> bool:
        """Whether its sums were handed back; a job that comes ends the child."""
        reading = asyncio.create_task(self._sums(job, share))
        coming = asyncio.create_task(self._placed.comes.wait())
        try:
            await asyncio.wait({reading, coming}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._give_up(share)
                return False
            return await helping.hand_back(self._services, job, share, await reading)
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
                await helping.fetch(self._services, job, *told["need"])
                await child.send({})

    async def _give_up(self, share: Share) -> None:
        with contextlib.suppress(Exception):  # it stays taken, and its own worker reads it
            await helping.give_up(self._services, share)

    def _remember(self, share: Share) -> None:
        self._cannot[share.job_id] = None
        if len(self._cannot) > MOST_REMEMBERED:
            del self._cannot[next(iter(self._cannot))]


def _why(error: Exception) -> str:
    return error.code if isinstance(error, DiscreetError) else type(error).__name__

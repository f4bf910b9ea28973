"""Which jobs a worker takes from its queues: one of its places is kept free of long jobs.

Tags (`fair_tag` in the database) decide which job is next when a place becomes free. Running jobs
are not interrupted, so without this rule a tenant's long jobs, sent when nobody else waits, could
occupy every place for half an hour. A worker with one place takes any job.

A job that fetches contents from places counts as a long one when it begins to: a place that sends
little by little would occupy all others for an hour and more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from procrastinate.connector import BaseConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

from discreet.storage.queue import LONG_QUEUE, RUN_JOB


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

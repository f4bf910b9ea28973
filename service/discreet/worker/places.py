"""Which jobs a worker takes from its queues: one place is kept free of those that hold it for long.

Whose turn it is stands in the tags (`fair_tag` in the database). They decide when a place is free;
what already runs is not interrupted, so without this a tenant's long jobs, sent when nobody else
waits, could hold every place for half an hour. A worker of one place takes any job.
"""

from __future__ import annotations

from collections.abc import Iterable

from procrastinate.connector import BaseConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager

from discreet.storage.queue import LONG_QUEUE


class PlacedJobs(JobManager):
    """procrastinate's entries, of which those of long jobs are left where they are while such jobs
    hold all places but one."""

    def __init__(self, connector: BaseConnector, places: int) -> None:
        super().__init__(connector)
        self._most = max(1, places - 1)
        self._long: set[int | None] = set()
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
        return job

    def ended(self, entry: int | None) -> None:
        """The entry's job holds its place no longer."""
        self._long.discard(entry)

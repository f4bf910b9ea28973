"""The queue: procrastinate in the same database, enqueued in the caller's transaction. It carries
job ids only."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
from procrastinate import App, PsycopgConnector
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage import database as poolers
from discreet.storage.database import Database, raw

RUN_JOB = "discreet.run_job"
"""The task's name: use cases enqueue by name and never import the worker."""

QUEUE = "jobs"
LONG_QUEUE = "jobs-long"
"""The queue of jobs that are planned to take more than a minute, which `queue_of` in the database
decides: see `worker.places`."""

WAKE_WORKERS = dict.fromkeys(
    (f"procrastinate_queue_v1#{QUEUE}", "procrastinate_any_queue_v1"),
    '{"type": "job_inserted", "job_id": 0}',
)
"""Notifications by channel that tell procrastinate's workers to fetch. They read only the type, and
look at both queues."""

# Never opened: it only writes the INSERT statements, which run on the caller's own connection.
_deferrer = App(connector=PsycopgConnector())


class _Connector(PsycopgConnector):
    """procrastinate's connector, with queries through a pooler if there is one, and LISTEN on a
    direct connection."""

    def __init__(self, database: Database) -> None:
        super().__init__(conninfo=database.url, min_size=1, max_size=4, configure=poolers.configure)
        self._direct_url = database.direct_url

    @asynccontextmanager
    async def _get_standalone_connection(self) -> AsyncGenerator[psycopg.AsyncConnection]:
        async with await psycopg.AsyncConnection.connect(
            self._direct_url, autocommit=True
        ) as connection:
            yield connection


def connector(database: Database) -> PsycopgConnector:
    """The connector by which a worker reaches its queue."""
    return _Connector(database)


async def enqueue(connection: AsyncConnection, job_id: str, priority: int) -> None:
    """Put a job on its queue in this transaction. Higher priority runs first. That of one which
    fetches contents from places is the long one, whatever is planned: a place may be slow."""
    asked = {"queue": QUEUE, "long": LONG_QUEUE, "job": job_id}
    name = (await connection.execute(_QUEUE_OF, asked)).scalar_one()
    task = _deferrer.configure_task(
        RUN_JOB,
        queue=name,
        priority=priority,
        queueing_lock=job_id,
        connection=await raw(connection),
    )
    await task.defer_async(job_id=job_id)


async def waits(connection: AsyncConnection, job_id: str) -> bool:
    """Whether an entry of the job waits on the queue; there can be only one."""
    return bool((await connection.execute(_WAITS, {"job": job_id})).scalar_one())


async def forget_dead(connection: AsyncConnection) -> None:
    """Delete entries whose worker ended before it finished them: when the job's lease ends, it is
    enqueued again."""
    await connection.execute(_FORGET_DEAD)


# procrastinate deletes the rows of workers that send no heartbeats, which leaves their entries
# without a worker. After a day no such worker can resume and finish one.
_FORGET_DEAD = text(
    """
    DELETE FROM procrastinate_jobs AS entry
    WHERE status = 'doing' AND worker_id IS NULL AND NOT EXISTS (
        SELECT FROM procrastinate_events AS event
        WHERE event.job_id = entry.id AND event.at > now() - interval '1 day'
    )
    """
)
_QUEUE_OF = text(
    """
    SELECT CASE WHEN CAST(plan #>> '{resources,opening_seconds}' AS float8) > 0 AND EXISTS (
        SELECT 1 FROM datasets AS d WHERE d.id = j.dataset_id AND d.stays IS NOT NULL
        UNION ALL SELECT 1 FROM datasets AS d JOIN job_blocks AS b ON b.dataset_id = d.id
          WHERE b.job_id = j.id AND d.stays IS NOT NULL)
      THEN CAST(:long AS text) ELSE queue_of(:queue, plan) END
    FROM jobs AS j WHERE id = :job
    """
)
_WAITS = text(
    "SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = :job AND status = 'todo')"
)

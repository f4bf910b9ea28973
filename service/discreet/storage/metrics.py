"""The state of the installation: what waits, what runs, how large the ledger is. Over all
tenants, naming none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import text

from discreet.storage import log, operations
from discreet.storage.database import SYSTEM, Database
from discreet.storage.queue import LONG_QUEUE, QUEUE


@dataclass(frozen=True)
class Figures:
    """Counts of one moment. `jobs` by kind and state, of those that have not ended; `log_pending`
    up to MOST_PENDING; `witnesses_behind_seconds` of each witness that was asked for."""

    jobs: dict[tuple[str, str], int]
    queued: int
    oldest_queued_seconds: float
    ledger_entries: int
    workers: int
    leases_over: int
    log_pending: int
    witnesses_behind_seconds: tuple[float, ...]
    backup_age_seconds: float | None
    archive_fails: bool
    """The server's log was not archived since it was last tried; its disk fills meanwhile."""


MOST_PENDING = 10_000


async def figures(database: Database, witnesses: Sequence[str] = ()) -> Figures:
    """By index, or by PostgreSQL's own statistics: the cost does not grow with what has ended."""
    async with database.transaction(SYSTEM, snapshot=True) as connection:
        active = (await connection.execute(ACTIVE)).all()
        row = (await connection.execute(_WAITING, {"queues": [QUEUE, LONG_QUEUE]})).mappings().one()
        pending = await log.pending(connection, MOST_PENDING)
        behind = await operations.witnesses(connection, witnesses)
        backup = await operations.last_backup(connection)
        archive = await operations.archive(connection)
    return Figures(
        jobs={(kind, state): int(count) for kind, state, count in active},
        queued=row["queued"],
        oldest_queued_seconds=row["oldest"],
        ledger_entries=row["entries"],
        workers=row["workers"],
        leases_over=row["leases_over"],
        log_pending=pending,
        witnesses_behind_seconds=tuple(one["behind_seconds"] for one in behind),
        backup_age_seconds=None
        if backup is None
        else (datetime.now(UTC) - backup["made_at"]).total_seconds(),
        archive_fails=archive is not None and _fails(archive["archived_at"], archive["failed_at"]),
    )


def _fails(archived_at: datetime | None, failed_at: datetime | None) -> bool:
    return failed_at is not None and (archived_at is None or failed_at > archived_at)


ACTIVE = text(
    """
    SELECT c.kind, one.state, sum(one.jobs)
    FROM job_counts AS c CROSS JOIN LATERAL (VALUES ('queued', c.queued),
      ('awaiting_agents', c.awaiting_agents), ('waiting', c.waiting), ('running', c.running)
    ) AS one(state, jobs)
    GROUP BY c.kind, one.state HAVING sum(one.jobs) > 0
    """
)
# Entries are never removed: the statistics' count of living rows is theirs, and after a crash,
# which empties the statistics, the planner's estimate stands in.
_WAITING = text(
    """
    SELECT
      (SELECT count(*) FROM procrastinate_jobs
       WHERE queue_name = ANY(CAST(:queues AS text[])) AND status = 'todo') AS queued,
      (SELECT greatest(0, CAST(c.reltuples AS bigint), s.n_live_tup) FROM pg_class AS c
       JOIN pg_stat_user_tables AS s ON s.relid = c.oid
       WHERE c.oid = 'ledger_entries'::regclass) AS entries,
      (SELECT coalesce(max(date_part('epoch', clock_timestamp() - oldest_queued(c.tenant_id))), 0)
       FROM (SELECT tenant_id FROM job_counts GROUP BY tenant_id HAVING sum(queued) > 0) AS c)
        AS oldest,
      (SELECT count(*) FROM procrastinate_workers
       WHERE last_heartbeat > now() - interval '30 seconds') AS workers,
      leases_over() AS leases_over
    """
)

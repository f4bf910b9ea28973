"""The state of the installation for operators, over all tenants: queue, processes, witnesses,
backups. It shows nobody's data, and of tenants only names and how many of their jobs wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import one_of
from discreet.storage.tables import Backup, Process

MadeWith = Literal["discreet", "other"]

FORGOTTEN_AFTER = "1 day"
"""A process that has been silent for so long is no longer shown."""
MOST_TENANTS = 20


# What processes say of themselves -----------------------------------------------------------------


async def say(connection: AsyncConnection, process_id: str, said: Mapping[str, Any]) -> None:
    """Store the report of a process; its row is created if missing. `said` has every column but
    the id and the times."""
    again = update(Process).where(Process.id == process_id).values(**said, seen_at=func.now())
    if (await connection.execute(again)).rowcount == 0:
        await connection.execute(insert(Process).values(id=process_id, **said))
        await connection.execute(_FORGET)


async def gone(connection: AsyncConnection, process_id: str) -> None:
    """Remove a process that has ended as requested."""
    await connection.execute(delete(Process).where(Process.id == process_id))


async def processes(connection: AsyncConnection) -> list[dict[str, Any]]:
    """What processes say of themselves, with `silent_seconds` and, of workers, `busy`: the jobs
    that each has now, and `helping`: whether each has taken a share of a release that still
    runs. How many it has would show how fast it reads."""
    return [dict(row) for row in (await connection.execute(_PROCESSES)).mappings()]


# Queue and tenants --------------------------------------------------------------------------------


async def queue(connection: AsyncConnection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How many jobs wait, wait for agents and run, how long the oldest has waited, and how many
    leases have run out; and the MOST_TENANTS tenants whose jobs have waited longest in all, of whom
    `share` is that of all waiting time until now, in 0..1.

    From `job_counts`, which has a few rows of each tenant however many of its jobs wait.
    """
    row = (await connection.execute(QUEUE, {"most": MOST_TENANTS})).mappings().one()
    counts = dict(row)
    return counts, counts.pop("tenants")


# The log ------------------------------------------------------------------------------------------


async def checkpoint(connection: AsyncConnection) -> dict[str, Any] | None:
    """Size of the newest checkpoint of the transparency log, and when it was signed."""
    return one_of(await connection.execute(_CHECKPOINT))


async def witnesses(connection: AsyncConnection, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of each witness the largest checkpoint that it has signed, when, and for how many seconds the
    log has had one that it has not (0: it has signed the newest)."""
    found = (await connection.execute(_WITNESSES, {"names": list(names)})).mappings()
    return [dict(row) for row in found]


# Backups and versions -----------------------------------------------------------------------------


async def add_backup(
    connection: AsyncConnection, made_at: datetime, made_with: MadeWith, schema: str
) -> None:
    """Note a backup that holds the state of `made_at`."""
    values = {"made_at": made_at, "made_with": made_with, "schema": schema}
    await connection.execute(insert(Backup).values(**values))


async def last_backup(connection: AsyncConnection) -> dict[str, Any] | None:
    """The newest backup that is known."""
    columns = Backup.made_at, Backup.made_with, Backup.schema.label("schema_version")
    return one_of(
        await connection.execute(select(*columns).order_by(Backup.made_at.desc()).limit(1))
    )


async def archive(connection: AsyncConnection) -> dict[str, Any] | None:
    """When the server last put a segment of its write-ahead log into an archive, and last failed
    to; None where it archives nothing."""
    row = (await connection.execute(_ARCHIVE)).mappings().one()
    return (
        {name: row[name] for name in ("archived_at", "failed_at")} if row["mode"] != "off" else None
    )


async def versions(connection: AsyncConnection) -> dict[str, Any]:
    """The schema that the database has, and the version of its server."""
    return dict((await connection.execute(_VERSIONS)).mappings().one())


_FORGET = text(f"DELETE FROM processes WHERE seen_at < now() - interval '{FORGOTTEN_AFTER}'")  # noqa: S608
_PROCESSES = text(
    """
    SELECT p.part, p.host, p.version, p.schema AS schema_version, p.places, p.isolation, p.reached,
      p.walls, p.started_at, p.seen_at,
      greatest(0, CAST(extract(epoch FROM clock_timestamp() - p.seen_at) AS double precision))
        AS silent_seconds,
      CASE WHEN p.part = 'worker' THEN
        (SELECT count(*) FROM procrastinate_jobs AS entry
         WHERE entry.worker_id = p.queue_worker AND entry.status = 'doing'
           AND entry.task_name = 'discreet.run_job')
      END AS busy,
      CASE WHEN p.part = 'worker' THEN
        EXISTS (SELECT FROM job_shares AS share WHERE share.taken_by = p.queue_worker)
      END AS helping
    FROM processes AS p ORDER BY p.part, p.host, p.started_at, p.id
    """
)
QUEUE = text(
    """
    WITH open AS MATERIALIZED (
      SELECT c.*, CASE WHEN c.queued > 0
        THEN date_part('epoch', now() - oldest_queued(c.tenant_id)) END AS oldest_wait_seconds
      FROM (
        SELECT tenant_id, sum(queued) AS queued, sum(awaiting_agents) AS awaiting_agents,
          sum(waiting) AS waiting_for_budget, sum(running) AS running,
          CAST(greatest(0, sum(queued) * extract(epoch FROM now()) - sum(queued_since))
            AS double precision) AS waited
        FROM job_counts GROUP BY tenant_id) AS c
    ),
    longest AS (
      SELECT t.name AS tenant, o.queued, o.running, o.oldest_wait_seconds,
        coalesce(o.waited / nullif(sum(o.waited) OVER (), 0), 0) AS share
      FROM open AS o JOIN tenants AS t ON t.id = o.tenant_id
      WHERE o.queued > 0 ORDER BY o.waited DESC, t.name LIMIT :most
    )
    SELECT CAST(coalesce(sum(queued), 0) AS bigint) AS queued,
      CAST(coalesce(sum(awaiting_agents), 0) AS bigint) AS awaiting_agents,
      CAST(coalesce(sum(waiting_for_budget), 0) AS bigint) AS waiting_for_budget,
      CAST(coalesce(sum(running), 0) AS bigint) AS running,
      leases_over() AS leases_over,
      max(oldest_wait_seconds) AS oldest_wait_seconds,
      (SELECT coalesce(json_agg(l ORDER BY l.share DESC, l.tenant), '[]') FROM longest AS l)
        AS tenants
    FROM open
    """
)
_CHECKPOINT = text(
    "SELECT size, created_at AS signed_at FROM log_checkpoints ORDER BY size DESC LIMIT 1"
)
_WITNESSES = text(
    """
    SELECT n.name, last.size, last.created_at AS signed_at,
      coalesce(greatest(0, CAST(extract(epoch FROM clock_timestamp() - next.created_at)
                                AS double precision)), 0) AS behind_seconds
    FROM unnest(CAST(:names AS text[])) WITH ORDINALITY AS n(name, place)
    LEFT JOIN LATERAL (
      SELECT c.size, c.created_at FROM log_cosignatures AS c
      WHERE c.witness = n.name ORDER BY c.size DESC LIMIT 1
    ) AS last ON true
    LEFT JOIN LATERAL (
      SELECT c.created_at FROM log_checkpoints AS c
      WHERE c.size > coalesce(last.size, 0) ORDER BY c.size LIMIT 1
    ) AS next ON true
    ORDER BY n.place
    """
)
_ARCHIVE = text(
    "SELECT current_setting('archive_mode') AS mode, last_archived_time AS archived_at, "
    "last_failed_time AS failed_at FROM pg_stat_archiver"
)
_VERSIONS = text(
    "SELECT (SELECT version_num FROM alembic_version) AS database_schema_version,"
    " current_setting('server_version') AS postgres"
)

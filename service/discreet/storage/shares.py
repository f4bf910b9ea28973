"""Shares of running releases that idle workers take: every query about them.

A row is one share of one attempt. Whoever has taken one and is killed leaves it taken: the worker
that offers it reads it in the end itself, so that nobody waits for a lease of its. Nor for a lock:
whoever was stopped or cut off inside a transaction holds its row for as long as
IDLE_IN_TRANSACTION_SECONDS. Deleting passes such a row over, and the search for stranded jobs
deletes it later (`forget_left`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import delete, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.acceptance import Row
from discreet.storage.queue import WAKE_WORKERS
from discreet.storage.result_tables import JobShare
from discreet.storage.rows import one_of

LEADER = 0
"""Stands in `taken_by` for the worker that offers the share."""


async def offer(
    connection: AsyncConnection,
    job_id: str,
    attempt: int,
    shares: int,
    key_id: str,
    wrapped_key: bytes,
) -> None:
    """Offer the shares of an attempt, whose job this transaction holds, and wake workers. Once or
    more often."""
    values = {"job": job_id, "attempt": attempt, "shares": shares, "key": key_id}
    await connection.execute(_OFFER, values | {"wrapped": wrapped_key})
    for channel, notice in WAKE_WORKERS.items():
        await connection.execute(_WAKE, {"channel": channel, "notice": notice})


async def take(
    connection: AsyncConnection, worker: int, not_of: Collection[str], of: str | None = None
) -> Row | None:
    """An open share of the running job whose turn came first, now this worker's, except of
    these jobs, or of the job `of` alone; None if there is none."""
    values = {"worker": worker, "not": list(not_of), "of": of}
    return one_of(await connection.execute(_TAKE, values))


async def are_wanted(connection: AsyncConnection, job_id: str, attempt: int) -> bool:
    """Whether this attempt at the job is still at its release, whose shares were offered: nothing
    has been released, and a worker has it."""
    values = {"job": job_id, "attempt": attempt}
    return (await connection.execute(_ARE_WANTED, values)).scalar_one_or_none() is not None


async def take_own(connection: AsyncConnection, job_id: str, attempt: int) -> int | None:
    """The number of an open share, now that of the worker that offers it."""
    values = {"job": job_id, "attempt": attempt, "leader": LEADER}
    return (await connection.execute(_TAKE_OWN, values)).scalar_one_or_none()


async def hand_back(
    connection: AsyncConnection,
    job_id: str,
    attempt: int,
    number: int,
    worker: int,
    sealed: bytes | None,
) -> bool:
    """Store what this worker found of its share; without that the share is open again. False if
    nobody needs it any more."""
    statement = update(JobShare).where(*_of(job_id, attempt), JobShare.number == number)
    statement = statement.where(
        JobShare.taken_by == worker, JobShare.sealed.is_(None), JobShare.wrapped_key.is_not(None)
    )
    values = {"taken_by": None} if sealed is None else {"sealed": sealed}
    return bool((await connection.execute(statement.values(values))).rowcount)


async def returned(
    connection: AsyncConnection, job_id: str, attempt: int, wanted: Collection[int], most: int
) -> dict[int, bytes]:
    """What others have found, sealed, by the share's number. What is longer than `most` bytes is
    left out: no worker writes it, and it is not to fill the memory of one."""
    values = {"job": job_id, "attempt": attempt, "wanted": list(wanted), "most": most}
    return {row[0]: bytes(row[1]) for row in await connection.execute(_RETURNED, values)}


async def close(connection: AsyncConnection, job_id: str, attempt: int) -> None:
    """Delete what was found, and the key of what may still come: nothing is needed any more. Who
    helped stays until `forget`."""
    statement = update(JobShare).where(_free(*_of(job_id, attempt)))
    await connection.execute(statement.values(sealed=None, wrapped_key=None))


async def forget(connection: AsyncConnection, job_id: str) -> None:
    """Delete all shares of a job, of whichever attempt."""
    await connection.execute(delete(JobShare).where(_free(JobShare.job_id == job_id)))


async def forget_left(connection: AsyncConnection) -> int:
    """Delete shares that a worker left behind when it was killed; returns their number."""
    return (await connection.execute(_FORGET_LEFT)).rowcount


def _of(job_id: str, attempt: int) -> tuple[Any, Any]:
    return JobShare.job_id == job_id, JobShare.attempt == attempt


def _free(*which: Any) -> Any:
    """True of those of these rows that nobody has locked, which are locked then."""
    place = select(JobShare.job_id, JobShare.number).where(*which)
    free = place.with_for_update(skip_locked=True)
    return tuple_(JobShare.job_id, JobShare.number).in_(free)


_OFFER = text(
    """
    INSERT INTO job_shares (job_id, number, shares, attempt, content_key_id, wrapped_key)
    SELECT :job, number, CAST(:shares AS integer), :attempt, :key, :wrapped
    FROM generate_series(0, CAST(:shares AS integer) - 1) AS number
    ON CONFLICT (job_id, number) DO NOTHING
    """
)
_WAKE = text("SELECT pg_notify(:channel, :notice)")
# The last share first: who offers them begins with the first.
_TAKE = text(
    """
    UPDATE job_shares AS share SET taken_by = :worker
    WHERE (share.job_id, share.number) = (
      SELECT open.job_id, open.number
      FROM job_shares AS open JOIN jobs AS running ON running.id = open.job_id
      WHERE open.taken_by IS NULL AND open.wrapped_key IS NOT NULL
        AND running.state = 'running' AND running.attempt = open.attempt
        AND running.lease_until > clock_timestamp()
        AND open.job_id <> ALL (CAST(:not AS text[]))
        AND (CAST(:of AS text) IS NULL OR open.job_id = :of)
      ORDER BY running.fair_tag, open.job_id, open.number DESC LIMIT 1
      FOR UPDATE OF open SKIP LOCKED)
    RETURNING share.job_id, share.number, share.shares, share.attempt, share.content_key_id,
      share.wrapped_key
    """
)
_ARE_WANTED = text(
    """
    SELECT job.id FROM jobs AS job
    WHERE job.id = :job AND job.attempt = :attempt AND job.state = 'running'
      AND job.lease_until > clock_timestamp()
      AND EXISTS (SELECT FROM job_shares WHERE job_id = :job AND attempt = :attempt)
      AND NOT EXISTS (SELECT FROM releases WHERE job_id = :job)
    """
)
_TAKE_OWN = text(
    """
    UPDATE job_shares SET taken_by = :leader
    WHERE job_id = :job AND number = (
      SELECT number FROM job_shares
      WHERE job_id = :job AND attempt = :attempt AND taken_by IS NULL AND wrapped_key IS NOT NULL
      ORDER BY number LIMIT 1
      FOR UPDATE SKIP LOCKED)
    RETURNING number
    """
)
_RETURNED = text(
    """
    SELECT number, sealed FROM job_shares
    WHERE job_id = :job AND attempt = :attempt AND sealed IS NOT NULL
      AND number = ANY (CAST(:wanted AS integer[])) AND octet_length(sealed) <= :most
    """
)
_FORGET_LEFT = text(
    """
    DELETE FROM job_shares WHERE (job_id, number) IN (
      SELECT share.job_id, share.number
      FROM job_shares AS share JOIN jobs AS job ON job.id = share.job_id
      WHERE NOT (job.state = 'running' AND job.attempt = share.attempt
        AND job.lease_until > clock_timestamp())
      FOR UPDATE OF share SKIP LOCKED)
    """
)

"""Jobs: their states, leases and fencing tokens, results and events; releases are in
`stored_releases`.

Every change of a running job is guarded by its fencing token: a worker whose job was given to
another one cannot change it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from prometheus_client import Counter
from sqlalchemy import (
    and_,
    case,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased

from discreet.storage import webhooks
from discreet.storage.acceptance import CHANNEL, Row
from discreet.storage.database import one_of
from discreet.storage.queue import WAKE_WORKERS
from discreet.storage.tables import (
    UNFINISHED,
    Dataset,
    IdempotentRequest,
    Job,
    JobEvent,
    JobShare,
    Release,
    Source,
)
from discreet.storage.wait_tables import WAITS, JobWait

_REPAIR_LOCK = 7_365_208_515

FINAL = ("succeeded", "failed", "cancelled")

WebhookEvent = Literal["job.finished", "job.failed", "job.cancelled", "budget.exhausted"]
"""Events that webhooks can receive."""

_TOLD: dict[str, WebhookEvent] = {
    "succeeded": "job.finished",
    "failed": "job.failed",
    "cancelled": "job.cancelled",
}


_ended = Counter("discreet_jobs_ended_total", "Jobs that this process ended", ["kind", "state"])


# Reading ------------------------------------------------------------------------------------------


async def find(
    connection: AsyncConnection, job_id: str, tenant_id: str | None = None
) -> Row | None:
    """The job, with `dataset_name` and `simulated` of its dataset; `asked_name`: what the first of
    the jobs that it asks again is called, or that one's dataset."""
    statement = (
        select(Job, *_OF_DATASET, *WAITS)
        .outerjoin(Dataset, Dataset.id == _READS)
        .outerjoin(JobWait, JobWait.job_id == Job.id)
        .where(Job.id == job_id)
    )
    if tenant_id is not None:
        statement = statement.where(Job.tenant_id == tenant_id)
    return one_of(await connection.execute(statement))


async def page(
    connection: AsyncConnection,
    tenant_id: str,
    *,
    state: str | None,
    after: tuple[Any, str] | None,
    size: int,
) -> list[Row]:
    """Jobs of a tenant, newest first, as `find` gives them, but without problem and plan, which may
    be large."""
    brief = [column for column in Job.__table__.columns if column.name not in ("problem", "plan")]
    statement = select(*brief, *_OF_DATASET, *WAITS).outerjoin(Dataset, Dataset.id == _READS)
    statement = statement.outerjoin(JobWait, JobWait.job_id == Job.id)
    statement = statement.where(Job.tenant_id == tenant_id)
    if state is not None:
        statement = statement.where(Job.state == state)
    if after is not None:
        statement = statement.where(
            or_(Job.created_at < after[0], and_(Job.created_at == after[0], Job.id < after[1]))
        )
    statement = statement.order_by(Job.created_at.desc(), Job.id.desc()).limit(size)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def mostly_noise(connection: AsyncConnection, job_ids: Sequence[str]) -> frozenset[str]:
    """Those of these jobs whose result says that it is mostly noise."""
    statement = select(Job.id).where(Job.id.in_(job_ids), Job.mostly_noise)
    return frozenset((await connection.execute(statement)).scalars())


async def events(connection: AsyncConnection, job_id: str, after: int) -> list[Row]:
    statement = (
        select(JobEvent.seq, JobEvent.event, JobEvent.details)
        .where(JobEvent.job_id == job_id, JobEvent.seq > after)
        .order_by(JobEvent.seq)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def unread_rows(
    connection: AsyncConnection, tenant_id: str, since: datetime, most: int
) -> list[datetime]:
    """When jobs failed that could not read the rows of a database again, at most so many, newest
    first."""
    values = {"tenant": tenant_id, "since": since, "most": most}
    return list((await connection.execute(_UNREAD_ROWS, values)).scalars())


async def active_of_dataset(connection: AsyncConnection, dataset_id: str) -> bool:
    """True while a job that still needs the content is queued or running."""
    return bool((await connection.execute(_ACTIVE_OF_DATASET, {"dataset": dataset_id})).scalar())


# A worker's steps ---------------------------------------------------------------------------------


async def claim(connection: AsyncConnection, job_id: str, lease_seconds: float) -> Row | None:
    """Take a job that waits, or whose worker was silent for too long; the row carries the new
    fencing token."""
    statement = (
        update(Job)
        .where(
            Job.id == job_id,
            or_(
                Job.state == "queued",
                and_(Job.state == "running", Job.lease_until < func.clock_timestamp()),
            ),
        )
        .values(
            state="running",
            attempt=Job.attempt + 1,
            failures=case((Job.state == "running", Job.failures + 1), else_=Job.failures),
            lease_until=_in_seconds(lease_seconds),
            started_at=func.coalesce(Job.started_at, func.now()),
        )
        .returning(Job)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is not None and row["attempt"] > 1:
        await forget(connection, job_id)
    if row is not None and row["attempt"] == 1:
        await add_event(connection, job_id, "state", {"state": "running"})
    return None if row is None else dict(row)


async def renew(
    connection: AsyncConnection, job_id: str, attempt: int, lease_seconds: float
) -> bool | None:
    """Extend the lease: True when the job shall be cancelled, None when it is no longer this
    attempt's."""
    statement = (
        _own(job_id, attempt)
        .values(lease_until=_in_seconds(lease_seconds))
        .returning(Job.cancel_requested)
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def hold(connection: AsyncConnection, job_id: str, attempt: int) -> bool | None:
    """Lock the job for this transaction if it is still this attempt's: whether it is still wanted,
    which one that shall be cancelled is not; None when it is another's."""
    statement = select(~Job.cancel_requested).where(
        Job.id == job_id, Job.attempt == attempt, Job.state == "running"
    )
    return (
        await connection.execute(statement.with_for_update(key_share=True, of=Job))
    ).scalar_one_or_none()


async def release(connection: AsyncConnection, job_id: str, *, failed: bool) -> Row:
    """Give back a job that this transaction holds. The attempt keeps its number: tokens never
    repeat."""
    await forget(connection, job_id)
    statement = (
        update(Job)
        .where(Job.id == job_id)
        .values(state="queued", lease_until=None, failures=Job.failures + int(failed))
        .returning(Job)
    )
    return dict((await connection.execute(statement)).mappings().one())


async def report(
    connection: AsyncConnection, job_id: str, attempt: int, step: int, total: int
) -> None:
    done = await connection.execute(_own(job_id, attempt).values(step=step, total=total))
    if done.rowcount:
        await add_event(connection, job_id, "progress", {"step": step, "total": total})


async def end(
    connection: AsyncConnection,
    job_id: str,
    state: str,
    *,
    error: tuple[str, str] | None = None,
    mostly_noise: bool = False,
    headline: str | None = None,
) -> None:
    """Bring a job, which this transaction holds, to its final state. `mostly_noise` and
    `headline` are those of its result."""
    code, detail = error if error is not None else (None, None)
    ended = await connection.execute(
        update(Job)
        .where(Job.id == job_id)
        .values(
            state=state,
            lease_until=None,
            error_code=code,
            error_detail=detail,
            step=case((literal(state) == "succeeded", Job.total), else_=Job.step),
            finished_at=func.clock_timestamp(),
            mostly_noise=mostly_noise,
            headline=headline,
        )
        .returning(Job.tenant_id, Job.kind)
    )
    tenant_id, kind = ended.one()
    _ended.labels(kind, state).inc()
    await webhooks.announce(
        connection, tenant_id, _TOLD[state], job_id, {"job": job_id, "kind": kind, "state": state}
    )
    await forget(connection, job_id)
    kept = and_(Release.digest.is_not(None), literal(state) == "succeeded")
    await connection.execute(delete(Release).where(Release.job_id == job_id, ~kept))
    await add_event(
        connection, job_id, "state", {"state": state, **({"code": code} if code else {})}
    )


async def add_event(
    connection: AsyncConnection, job_id: str, event: str, details: Mapping[str, Any]
) -> None:
    """Append to the job's event stream and wake who listens. Writers of one job are serialized by
    its row."""
    await connection.execute(
        _ADD_EVENT, {"job": job_id, "event": event, "details": json.dumps(dict(details))}
    )
    await connection.execute(select(func.pg_notify(CHANNEL, job_id)))


# Cancelling and repairing -------------------------------------------------------------------------


async def lock(connection: AsyncConnection, job_id: str, tenant_id: str) -> Row | None:
    """The job, held until this transaction ends; rows that refer to it can be written meanwhile."""
    statement = (
        select(Job)
        .where(Job.id == job_id, Job.tenant_id == tenant_id)
        .with_for_update(key_share=True)
    )
    return one_of(await connection.execute(statement))


async def request_cancel(connection: AsyncConnection, job_id: str) -> bool:
    """Ask whoever runs the job to stop it; False when nobody does: it waits, or its worker's lease
    has run out."""
    statement = update(Job).where(
        Job.id == job_id,
        Job.state == "running",
        or_(
            Job.lease_until.is_(None), Job.lease_until >= func.clock_timestamp()
        ),  # a session's lease is its own
    )
    return bool((await connection.execute(statement.values(cancel_requested=True))).rowcount)


async def hold_repair(connection: AsyncConnection) -> bool:
    """False when another process repairs now."""
    return bool(
        (
            await connection.execute(select(func.pg_try_advisory_xact_lock(_REPAIR_LOCK)))
        ).scalar_one()
    )


async def stranded(
    connection: AsyncConnection, queued_seconds: float, most: int = 100
) -> list[tuple[str, int]]:
    """Jobs that no worker will come for: lease run out, or queued for long with no entry on the
    queue."""
    rows = await connection.execute(_STRANDED, {"queued_seconds": queued_seconds, "most": most})
    return [(row[0], row[1]) for row in rows]


async def could_touch(connection: AsyncConnection) -> list[tuple[str, bool]]:
    """Jobs that could still touch data, with whether something is reserved for them; those on
    public data left out."""
    rows = await connection.execute(_COULD_TOUCH)
    return [(row[0], row[1]) for row in rows]


async def forget_requests(connection: AsyncConnection, hours: int) -> None:
    """Drop idempotency keys older than their promise."""
    await connection.execute(
        delete(IdempotentRequest).where(
            IdempotentRequest.created_at < func.now() - text(f"interval '{int(hours)} hours'")
        )
    )


def _own(job_id: str, attempt: int) -> Any:
    return update(Job).where(Job.id == job_id, Job.attempt == attempt, Job.state == "running")


def _in_seconds(seconds: float) -> Any:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


_First, _FirstsDataset = aliased(Job), aliased(Dataset)
_ASKED = (
    select(func.coalesce(_First.name, _FirstsDataset.name))
    .outerjoin(_FirstsDataset, _FirstsDataset.id == _First.dataset_id)
    .where(_First.id == Job.released_by[1])
    .correlate(Job)
    .scalar_subquery()
)
_READS = func.coalesce(Job.dataset_id, Job.problem["source"]["versions"][0].as_string())
_SOURCE_NAME = (
    select(Source.name).where(Source.id == Dataset.source_id).correlate(Dataset).scalar_subquery()
)
# A job on no dataset says in its problem what it is; one that asks others again is what these were.
_OF_DATASET = (
    _ASKED.label("asked_name"),
    func.coalesce(_SOURCE_NAME, Dataset.name).label("dataset_name"),
    (func.coalesce(Dataset.mode, Job.problem["mode"].as_string()) == "simulation").label(
        "simulated"
    ),
)
# A job with a stored release touches nothing any more, nor does one that asks others again: that is
# post-processing.
_COULD_TOUCH = text(
    """
    SELECT id, EXISTS (SELECT FROM ledger_entries AS entry
                       WHERE entry.job_id = jobs.id AND entry.kind = 'reserve')
    FROM jobs
    WHERE state NOT IN ('succeeded', 'failed', 'cancelled') AND released_by IS NULL
      AND NOT EXISTS (SELECT FROM releases WHERE releases.job_id = jobs.id)
      AND NOT EXISTS (
        SELECT FROM datasets WHERE datasets.mode = 'simulation'
          AND datasets.id = coalesce(jobs.dataset_id, jobs.problem #>> '{source,versions,0}'))
    ORDER BY id
    """
)
_ADD_EVENT = text(
    """
    INSERT INTO job_events (job_id, seq, event, details)
    SELECT :job, coalesce(max(seq), 0) + 1, :event, CAST(:details AS jsonb)
    FROM job_events WHERE job_id = :job
    """
)
_STRANDED = text(
    """
    SELECT id, fair_tag FROM jobs
    WHERE (state = 'running' AND lease_until < clock_timestamp())
       OR (state = 'queued'
           AND created_at < clock_timestamp() - make_interval(secs => :queued_seconds)
           AND NOT EXISTS (SELECT FROM procrastinate_jobs AS entry
                           WHERE entry.queueing_lock = jobs.id AND entry.status = 'todo'))
    ORDER BY fair_tag LIMIT :most
    """
)
_UNREAD_ROWS = text(
    """
    SELECT j.finished_at FROM jobs AS j
    WHERE j.tenant_id = :tenant AND j.state = 'failed' AND j.finished_at >= :since
      AND j.created_at >= CAST(:since AS timestamptz) - interval '30 days'
      AND j.error_code IN ('content_differs', 'content_not_read', 'place_unreadable')
      AND EXISTS (
        SELECT FROM datasets AS d WHERE d.tenant_id = j.tenant_id AND d.stays = 'postgresql'
          AND (d.id = j.dataset_id OR d.source_id = j.source_id))
    ORDER BY j.finished_at DESC LIMIT :most
    """
)
_ACTIVE_OF_DATASET = text(
    f"""
    SELECT EXISTS (
      SELECT FROM jobs AS j JOIN datasets AS d ON d.id = :dataset
        AND j.tenant_id = d.tenant_id AND j.dataset_id = d.id
      WHERE j.state IN {UNFINISHED}
    ) OR EXISTS (
      SELECT FROM jobs AS j JOIN datasets AS d ON d.id = :dataset
        AND j.tenant_id = d.tenant_id AND j.source_id = d.source_id AND j.versions @> d.number
      WHERE j.state IN {UNFINISHED}
    )
    """  # noqa: S608 - states that the code names
)


# Shares -------------------------------------------------------------------------------------------
# Shares of running releases that idle workers take: every query about them.
#
# A row is one share of one attempt. Whoever has taken one and is killed leaves it taken: the worker
# that offers it reads it in the end itself, so that nobody waits for a lease of its. Nor for a
# lock: whoever was stopped or cut off inside a transaction holds its row for as long as
# IDLE_IN_TRANSACTION_SECONDS. Deleting passes such a row over, and the search for stranded jobs
# deletes it later (`forget_left`).

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


# Stored releases ----------------------------------------------------------------------------------
# Sealed releases of jobs and which of them may be asked again: every query about them.


async def store_release(
    connection: AsyncConnection,
    job_id: str,
    attempt: int,
    key_id: str,
    sealed: bytes,
    *,
    wrapped_key: bytes | None = None,
    terms: bytes | None = None,
    digest: bytes | None = None,
) -> None:
    """Store a release once: a caller that does not know whether its commit succeeded may repeat
    it, and the first row stays."""
    values = {"job": job_id, "attempt": attempt, "key": key_id, "sealed": sealed}
    await connection.execute(
        _STORE_RELEASE, values | {"wrapped": wrapped_key, "terms": terms, "digest": digest}
    )


async def is_released(connection: AsyncConnection, job_id: str) -> bool:
    """Whether a release of the job is stored."""
    return (
        await connection.execute(select(Release.job_id).where(Release.job_id == job_id))
    ).first() is not None


async def find_release(connection: AsyncConnection, job_id: str) -> Row | None:
    return one_of(await connection.execute(select(Release).where(Release.job_id == job_id)))


async def to_ask_again(
    connection: AsyncConnection, tenant_id: str, job_ids: Sequence[str]
) -> dict[str, Row]:
    """Of these jobs of the tenant by id: what was asked, what was done, whether a release of it is
    kept, its size, and what may be known of its dataset, also when that was erased."""
    rows = await connection.execute(_TO_ASK_AGAIN, {"tenant": tenant_id, "jobs": list(job_ids)})
    return {row["id"]: dict(row) for row in rows.mappings()}


async def reusable(connection: AsyncConnection, tenant_id: str, key: bytes) -> list[str]:
    """Jobs whose release of this key is kept, least noise first; ten at most."""
    statement = select(func.reusable_jobs(tenant_id, key))
    return list((await connection.execute(statement)).scalar_one())


_STORE_RELEASE = text(
    """
    INSERT INTO releases (job_id, attempt, content_key_id, sealed, wrapped_key, terms, digest)
    VALUES (:job, :attempt, :key, :sealed, :wrapped, :terms, :digest)
    ON CONFLICT (job_id) DO NOTHING
    """
)

_TO_ASK_AGAIN = text(
    """
    SELECT job.id, job.kind, job.state, job.problem, job.plan, job.seed, job.released_by,
           job.result_gone_at,
           coalesce(job.dataset_id, job.problem #>> '{source,versions}') AS dataset_id,
           release.digest IS NOT NULL AS kept, octet_length(release.sealed) AS bytes,
           data.publics, data.mode, data.deleted_at, data.corrected
    FROM jobs AS job
    LEFT JOIN releases AS release ON release.job_id = job.id
    LEFT JOIN LATERAL (
      SELECT jsonb_agg(dataset.public) AS publics, min(dataset.mode) AS mode,
        min(dataset.deleted_at) AS deleted_at, max(dataset.revision) > 1 AS corrected
      FROM datasets AS dataset WHERE dataset.id IN (
        SELECT job.dataset_id
        UNION ALL SELECT b.dataset_id FROM job_blocks AS b WHERE b.job_id = job.id)
    ) AS data ON true
    WHERE job.tenant_id = :tenant AND job.id = ANY(CAST(:jobs AS text[]))
    """
)

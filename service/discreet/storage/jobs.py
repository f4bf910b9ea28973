"""Jobs: their states, leases and fencing tokens, results and events; releases are in
`stored_releases`.

Every change of a running job is guarded by its fencing token: a worker whose job was given to
another one cannot change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import aliased

from discreet.storage import shares, webhooks
from discreet.storage.acceptance import CHANNEL, Row
from discreet.storage.result_tables import JobEvent, Release
from discreet.storage.rows import one_of
from discreet.storage.source_tables import Source
from discreet.storage.tables import UNFINISHED, Dataset, IdempotentRequest, Job
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
        await shares.forget(connection, job_id)
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
    await shares.forget(connection, job_id)
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
    await shares.forget(connection, job_id)
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

"""Shares of sources, and jobs that wait for budget: every query of them.

What is decided is made in `privacy.scheduling`; the ledger admits. Whoever decides on a source
holds its lock; whoever frees budget leaves a wake, waiting for nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage import sources
from discreet.storage.jobs import add_event
from discreet.storage.tables import Job
from discreet.storage.wait_tables import JobWait, SourceRule, SourceUse, SourceWake

Row = dict[str, Any]
COLUMNS = ("epsilon", "delta", "rho", "delta_z")


async def lock(connection: AsyncConnection, source_id: str) -> datetime:
    """Hold other decisions on this source until this transaction ends; the time that counts for
    this one. Later statements see what was committed meanwhile."""
    statement = text("SELECT pg_advisory_xact_lock(hashtextextended(:source, 23))")
    await connection.execute(statement, {"source": source_id})
    found: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return found


async def rule(connection: AsyncConnection, source_id: str) -> Row | None:
    """The newest rule of a source; None: it has none, and nobody waits there."""
    statement = (
        select(SourceRule)
        .where(SourceRule.source_id == source_id)
        .order_by(SourceRule.version.desc())
        .limit(1)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else dict(row)


async def add_rule(connection: AsyncConnection, **values: Any) -> Row:
    """A rule, or a newer version of one. With the first, what was spent before is counted."""
    row = (
        (await connection.execute(insert(SourceRule).values(**values).returning(SourceRule)))
        .mappings()
        .one()
    )
    if row["version"] == 1:
        # Those accepted meanwhile have committed then, or see the rule and are counted by it.
        await sources.lock(connection, row["source_id"])
        await connection.execute(_HOLD_BLOCKS, {"source": row["source_id"]})
        await connection.execute(_COUNT_EARLIER, {"source": row["source_id"]})
    await wake(connection, row["tenant_id"], row["source_id"])
    return dict(row)


async def uses(
    connection: AsyncConnection, source_id: str, blocks: Sequence[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """What each principal uses of each of these blocks: `[block][principal][column]`."""
    statement = select(SourceUse).where(
        SourceUse.source_id == source_id, SourceUse.block.in_(list(blocks))
    )
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in (await connection.execute(statement)).mappings():
        amounts = {column: max(0, int(row[column])) for column in COLUMNS}
        found.setdefault(row["block"], {})[row["principal"]] = amounts
    return found


async def waiting(connection: AsyncConnection, source_id: str) -> list[Row]:
    """Who waits on a source, in the order of their places."""
    statement = (
        select(JobWait, Job.principal, Job.price, _BLOCKS.label("blocks"))
        .join(Job, Job.id == JobWait.job_id)
        .where(JobWait.source_id == source_id)
        .order_by(JobWait.place, JobWait.job_id)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def of_job(connection: AsyncConnection, job_id: str) -> Row | None:
    """What a job waits for; None where it does not."""
    statement = select(JobWait).where(JobWait.job_id == job_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else dict(row)


async def hold(connection: AsyncConnection, job_id: str, **wait: Any) -> None:
    """Let a job wait that this transaction accepted without a reservation: nothing is on the queue
    for it."""
    await connection.execute(update(Job).where(Job.id == job_id).values(state="waiting"))
    await connection.execute(_UNQUEUE, {"job": job_id})
    await connection.execute(insert(JobWait).values(job_id=job_id, **wait))
    await add_event(connection, job_id, "state", {"state": "waiting"})


async def lock_waiting(connection: AsyncConnection, job_id: str) -> Row | None:
    """The job, held until this transaction ends; None where it waits no more."""
    statement = (
        select(Job)
        .where(Job.id == job_id, Job.state == "waiting")
        .with_for_update(key_share=True, of=Job)
    )
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else dict(row)


async def count(connection: AsyncConnection, job_id: str) -> None:
    """Count a reservation for the job's principal, on each block that it reads. What is released is
    taken away by the database itself."""
    await connection.execute(select(func.count_use(job_id, 1)))


async def granted(connection: AsyncConnection, job_id: str) -> int:
    """A job that waited, and has reserved now, takes its turn: its tag."""
    await connection.execute(delete(JobWait).where(JobWait.job_id == job_id))
    statement = update(Job).where(Job.id == job_id).values(state="queued").returning(Job.fair_tag)
    tag: int = (await connection.execute(statement)).scalar_one()
    await count(connection, job_id)
    await add_event(connection, job_id, "state", {"state": "queued"})
    return tag


async def put_off(connection: AsyncConnection, job_id: str, next_try: datetime, block: str) -> None:
    """Decide a job later."""
    changed = update(JobWait).where(JobWait.job_id == job_id)
    await connection.execute(changed.values(next_try=next_try, block=block))


async def wake(connection: AsyncConnection, tenant_id: str, source_id: str) -> None:
    """Let who waits on a source be decided."""
    await connection.execute(insert(SourceWake).values(source_id=source_id, tenant_id=tenant_id))


async def wake_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Let who waits on any source of a tenant be decided: a cap was changed."""
    await connection.execute(_WAKE_TENANT, {"tenant": tenant_id})


async def take_wakes(connection: AsyncConnection, source_id: str) -> bool:
    """Whether budget came free since the last decision. Those that this transaction sees are
    gone with it."""
    found = await connection.execute(delete(SourceWake).where(SourceWake.source_id == source_id))
    return bool(found.rowcount)


async def due(connection: AsyncConnection, after: str, most: int) -> Sequence[tuple[str, str]]:
    """Sources, with their tenants, on which somebody is to be decided now: in the order of their
    ids, those behind this one."""
    values = {"after": after, "most": most}
    return [(row[0], row[1]) for row in await connection.execute(_DUE, values)]


async def left(
    connection: AsyncConnection, tenant_id: str, principals: Sequence[str]
) -> frozenset[str]:
    """Those of a tenant's principals who may ask for nothing any more: persons who were removed,
    and who held keys and has none left that counts."""
    if not principals:
        return frozenset()
    rows = await connection.execute(_LEFT, {"tenant": tenant_id, "names": list(principals)})
    return frozenset(rows.scalars())


async def gone(connection: AsyncConnection, job_id: str) -> bool:
    """Whether a block that a job reads is not there any more, or its time is over; those that are
    stay until this transaction ends."""
    return bool((await connection.execute(_GONE, {"job": job_id})).scalar_one())


_BLOCKS = Job.problem["source"]["blocks"]
_COUNT_EARLIER = text(
    """
    SELECT count_use(j.id, 1) FROM (
      SELECT DISTINCT b.job_id AS id FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id
      WHERE d.source_id = :source) AS j
    WHERE EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = j.id AND e.kind = 'reserve')
      AND NOT EXISTS (SELECT FROM ledger_entries AS e WHERE e.job_id = j.id AND e.kind = 'release')
    """
)
_UNQUEUE = text("DELETE FROM procrastinate_jobs WHERE queueing_lock = :job AND status = 'todo'")
_WAKE_TENANT = text(
    """
    INSERT INTO source_wakes (source_id, tenant_id)
    SELECT DISTINCT source_id, tenant_id FROM source_rules WHERE tenant_id = :tenant
    """
)
_DUE = text(
    """
    SELECT source_id, tenant_id FROM source_wakes WHERE source_id > :after
    UNION SELECT source_id, tenant_id FROM job_waits
      WHERE next_try <= clock_timestamp() AND source_id > :after
    ORDER BY 1 LIMIT :most
    """
)
_LEFT = text(
    """
    SELECT name FROM (
      SELECT principal AS name, role IN ('owner', 'analyst') AND revoked_at IS NULL
          AND (expires_at IS NULL OR expires_at > clock_timestamp()) AS counts
        FROM keys WHERE tenant_id = :tenant AND principal = ANY (CAST(:names AS text[]))
      UNION ALL SELECT issuer || '#' || subject, removed_at IS NULL
        FROM identities WHERE tenant_id = :tenant
          AND issuer || '#' || subject = ANY (CAST(:names AS text[]))) AS ways
    GROUP BY name HAVING NOT bool_or(counts)
    """
)
_HOLD_BLOCKS = text(
    "SELECT id FROM datasets WHERE source_id = :source ORDER BY id FOR NO KEY UPDATE"
)
_GONE = text(
    """
    SELECT count(*) < (SELECT count(*) FROM job_blocks WHERE job_id = :job) FROM (
      SELECT d.id FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id
      WHERE b.job_id = :job AND d.deleted_at IS NULL
        AND (d.expires_at IS NULL OR d.expires_at > now())
      ORDER BY d.id FOR SHARE OF d) AS there
    """
)

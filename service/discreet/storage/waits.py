"""Shares of sources, and jobs that wait for budget: every query of them.

`privacy.scheduling` decides, and the ledger admits. Whoever decides on a source holds its lock;
whoever frees budget adds a row to `source_wakes`, without waiting for that lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Row, lock_key, one_of
from discreet.storage.jobs import add_event
from discreet.storage.tables import UNFINISHED, Job
from discreet.storage.wait_tables import JobWait, SourceRule, SourceUse, SourceWake

_LOCK_SEED = 23
COLUMNS = ("epsilon", "delta", "rho", "delta_z")


async def lock(connection: AsyncConnection, source_id: str) -> datetime:
    """Lock out other decisions on this source until this transaction ends; returns the time at
    which this one decides. Later statements see what was committed during the wait."""
    await lock_key(connection, source_id, _LOCK_SEED)
    found: datetime = (await connection.execute(select(func.clock_timestamp()))).scalar_one()
    return found


async def rule(connection: AsyncConnection, source_id: str) -> Row | None:
    """The newest rule of a source; None if it has none, so that no job waits there."""
    statement = (
        select(SourceRule)
        .where(SourceRule.source_id == source_id)
        .order_by(SourceRule.version.desc())
        .limit(1)
    )
    return one_of(await connection.execute(statement))


async def add_rule(connection: AsyncConnection, **values: Any) -> Row:
    """Add a rule, or a newer version of one. The first rule also counts what was spent before."""
    row = (
        (await connection.execute(insert(SourceRule).values(**values).returning(SourceRule)))
        .mappings()
        .one()
    )
    if row["version"] == 1:
        # The insertion waited for jobs that were being accepted, which are counted here; those that
        # are accepted from now on see the rule, and are counted under it. Jobs that are ending have
        # ended after this lock, and those that end later see the rule.
        ending = select(Job.id).where(Job.source_id == row["source_id"], Job.state.in_(UNFINISHED))
        await connection.execute(ending.order_by(Job.id).with_for_update(read=True))
        await connection.execute(_COUNT_EARLIER, {"source": row["source_id"]})
    await wake(connection, row["tenant_id"], row["source_id"])
    return dict(row)


async def uses(
    connection: AsyncConnection, source_id: str, blocks: Sequence[str]
) -> dict[str, dict[str, dict[str, int]]]:
    """What each principal has spent or reserved on these blocks: `[block][principal][column]`."""
    statement = select(SourceUse).where(
        SourceUse.source_id == source_id, SourceUse.block.in_(list(blocks))
    )
    found: dict[str, dict[str, dict[str, int]]] = {}
    for row in (await connection.execute(statement)).mappings():
        amounts = {column: max(0, int(row[column])) for column in COLUMNS}
        found.setdefault(row["block"], {})[row["principal"]] = amounts
    return found


async def waiting(connection: AsyncConnection, source_id: str) -> list[Row]:
    """The jobs that wait on a source, in their order."""
    statement = (
        select(JobWait, Job.principal, Job.price, _BLOCKS.label("blocks"))
        .join(Job, Job.id == JobWait.job_id)
        .where(JobWait.source_id == source_id)
        .order_by(JobWait.place, JobWait.job_id)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def of_job(connection: AsyncConnection, job_id: str) -> Row | None:
    """What a job waits for; None if it does not wait."""
    statement = select(JobWait).where(JobWait.job_id == job_id)
    return one_of(await connection.execute(statement))


async def hold(connection: AsyncConnection, job_id: str, **wait: Any) -> None:
    """Let a job wait that this transaction has accepted without a reservation: it is taken off the
    queue."""
    await connection.execute(update(Job).where(Job.id == job_id).values(state="waiting"))
    await connection.execute(_UNQUEUE, {"job": job_id})
    await connection.execute(insert(JobWait).values(job_id=job_id, **wait))
    await add_event(connection, job_id, "state", {"state": "waiting"})


async def lock_waiting(connection: AsyncConnection, job_id: str) -> Row | None:
    """The job, locked until this transaction ends; None if it no longer waits."""
    statement = (
        select(Job)
        .where(Job.id == job_id, Job.state == "waiting")
        .with_for_update(key_share=True, of=Job)
    )
    return one_of(await connection.execute(statement))


async def count(connection: AsyncConnection, job_id: str) -> None:
    """Count a job's reservation as its principal's use of each block that it reads. The database
    itself subtracts reservations that are released."""
    await connection.execute(select(func.count_use(job_id, 1)))


async def granted(connection: AsyncConnection, job_id: str) -> int:
    """Let a job that waited, and has reserved now, run in its turn; returns its `fair_tag`."""
    await connection.execute(delete(JobWait).where(JobWait.job_id == job_id))
    statement = update(Job).where(Job.id == job_id).values(state="queued").returning(Job.fair_tag)
    tag: int = (await connection.execute(statement)).scalar_one()
    await count(connection, job_id)
    await add_event(connection, job_id, "state", {"state": "queued"})
    return tag


async def put_off(connection: AsyncConnection, job_id: str, next_try: datetime, block: str) -> None:
    """Decide a waiting job again at `next_try`; `block` will be the last one to allow it."""
    changed = update(JobWait).where(JobWait.job_id == job_id)
    await connection.execute(changed.values(next_try=next_try, block=block))


async def wake(connection: AsyncConnection, tenant_id: str, source_id: str) -> None:
    """Have the jobs that wait on a source decided again."""
    await connection.execute(insert(SourceWake).values(source_id=source_id, tenant_id=tenant_id))


async def wake_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Have the jobs that wait on any source of a tenant decided again, because a cap changed."""
    await connection.execute(_WAKE_TENANT, {"tenant": tenant_id})


async def take_wakes(connection: AsyncConnection, source_id: str) -> bool:
    """Whether budget became free since the last decision. Deletes the source's wakes that this
    transaction sees."""
    found = await connection.execute(delete(SourceWake).where(SourceWake.source_id == source_id))
    return bool(found.rowcount)


async def due(connection: AsyncConnection, after: str, most: int) -> Sequence[tuple[str, str]]:
    """Sources, with their tenants, on which a waiting job is due, in the order of their ids and
    after the id `after`."""
    values = {"after": after, "most": most}
    return [(row[0], row[1]) for row in await connection.execute(_DUE, values)]


async def left(
    connection: AsyncConnection, tenant_id: str, principals: Sequence[str]
) -> frozenset[str]:
    """Those of a tenant's principals who may no longer submit jobs: persons who were removed, and
    principals of keys none of which is valid any more."""
    if not principals:
        return frozenset()
    rows = await connection.execute(_LEFT, {"tenant": tenant_id, "names": list(principals)})
    return frozenset(rows.scalars())


async def gone(connection: AsyncConnection, job_id: str) -> bool:
    """Whether a block that a job reads was deleted or has expired. The others cannot be deleted
    before this transaction ends."""
    await connection.execute(_KEEP, {"job": job_id})
    return bool((await connection.execute(_GONE, {"job": job_id})).scalar_one())


_BLOCKS = Job.problem["source"]["blocks"]
_COUNT_EARLIER = text(
    """
    SELECT count_use(j.id, 1) FROM (
      SELECT id FROM jobs WHERE source_id = :source) AS j
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
_KEEP = text("SELECT source_keep(source_id) FROM jobs WHERE id = :job")
_GONE = text(
    "SELECT NOT versions_offered(tenant_id, source_id, versions) FROM jobs WHERE id = :job"
)

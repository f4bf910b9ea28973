"""Sealed releases of jobs and which of them may be asked again: every query about them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.acceptance import Row
from discreet.storage.result_tables import Release
from discreet.storage.rows import one_of


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

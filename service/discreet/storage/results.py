"""Published results of jobs: every query of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.tables import JobResult, ResultTable


async def find(
    connection: AsyncConnection, job_id: str
) -> tuple[bytes | None, dict[str, Any]] | None:
    """The result (None once it was deleted) and its certificate; None if the job has published
    nothing."""
    statement = select(JobResult.result, JobResult.certificate).where(JobResult.job_id == job_id)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    return None if row[0] is None else bytes(row[0]), row[1]


async def table(connection: AsyncConnection, job_id: str, name: str) -> bytes | None:
    statement = select(ResultTable.parquet).where(
        ResultTable.job_id == job_id, ResultTable.name == name
    )
    return (await connection.execute(statement)).scalar_one_or_none()


async def certificate(connection: AsyncConnection, job_id: str) -> dict[str, Any] | None:
    statement = select(JobResult.certificate).where(JobResult.job_id == job_id)
    return (await connection.execute(statement)).scalar_one_or_none()


async def publish(
    connection: AsyncConnection,
    job_id: str,
    result_json: bytes,
    certificate: Mapping[str, Any],
    tables: Mapping[str, bytes],
) -> None:
    await connection.execute(
        insert(JobResult).values(job_id=job_id, result=result_json, certificate=dict(certificate))
    )
    for name, parquet in tables.items():
        await connection.execute(
            insert(ResultTable).values(job_id=job_id, name=name, parquet=parquet)
        )


async def forget(connection: AsyncConnection, days: int, most: int) -> int:
    """Delete the results of up to `most` jobs that ended at least `days` days ago; returns the
    number of jobs. Certificates and the ledger stay."""
    return int((await connection.execute(select(func.forget_results(days, most)))).scalar_one())

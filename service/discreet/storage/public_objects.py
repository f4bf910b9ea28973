"""Public objects and which jobs name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.object_tables import JobObject, PublicObject
from discreet.storage.rows import Row, lock_key, one_of

_SHOWN = (
    PublicObject.id,
    PublicObject.type,
    PublicObject.name,
    PublicObject.sizes,
    PublicObject.created_by,
    PublicObject.created_at,
)


async def lock_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Lock out other additions of the tenant until this transaction ends, so that its objects can
    be counted."""
    await lock_key(connection, f"public_objects/{tenant_id}")


async def taken(connection: AsyncConnection, tenant_id: str) -> tuple[int, int]:
    """The number of the tenant's objects, and their total size in bytes."""
    statement = select(func.count(), func.coalesce(func.sum(func.length(PublicObject.content)), 0))
    row = (await connection.execute(statement.where(PublicObject.tenant_id == tenant_id))).one()
    return int(row[0]), int(row[1])


async def add(connection: AsyncConnection, **values: Any) -> Row:
    row = (
        (await connection.execute(insert(PublicObject).values(**values).returning(*_SHOWN)))
        .mappings()
        .one()
    )
    return dict(row)


async def find(
    connection: AsyncConnection, tenant_id: str, object_id: str, type_: str
) -> Row | None:
    """An object without its content."""
    statement = select(*_SHOWN).where(
        PublicObject.tenant_id == tenant_id,
        PublicObject.id == object_id,
        PublicObject.type == type_,
    )
    return one_of(await connection.execute(statement))


async def contents(
    connection: AsyncConnection, tenant_id: str, ids: Iterable[str]
) -> dict[str, tuple[str, bytes]]:
    """Type and content by id, of those of these objects that the tenant has."""
    statement = select(PublicObject.id, PublicObject.type, PublicObject.content).where(
        PublicObject.tenant_id == tenant_id, PublicObject.id.in_(list(ids))
    )
    return {row[0]: (row[1], bytes(row[2])) for row in await connection.execute(statement)}


async def page(
    connection: AsyncConnection,
    tenant_id: str,
    type_: str,
    after: tuple[Any, str] | None,
    size: int,
) -> list[Row]:
    """Objects of a type, newest first."""
    statement = select(*_SHOWN).where(
        PublicObject.tenant_id == tenant_id, PublicObject.type == type_
    )
    if after is not None:
        statement = statement.where(
            (PublicObject.created_at < after[0])
            | ((PublicObject.created_at == after[0]) & (PublicObject.id < after[1]))
        )
    statement = statement.order_by(PublicObject.created_at.desc(), PublicObject.id.desc()).limit(
        size
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def lock(connection: AsyncConnection, tenant_id: str, object_id: str, type_: str) -> bool:
    """Lock an object, so that no job that names it is accepted meanwhile; False if it does not
    exist."""
    statement = (
        select(PublicObject.id)
        .where(
            PublicObject.tenant_id == tenant_id,
            PublicObject.id == object_id,
            PublicObject.type == type_,
        )
        .with_for_update()
    )
    return (await connection.execute(statement)).one_or_none() is not None


async def job_naming(connection: AsyncConnection, tenant_id: str, object_id: str) -> str | None:
    """Any one job that names the object; None if there is none."""
    statement = select(JobObject.job_id).where(
        JobObject.tenant_id == tenant_id, JobObject.object_id == object_id
    )
    return (await connection.execute(statement.limit(1))).scalar_one_or_none()


async def remove(connection: AsyncConnection, tenant_id: str, object_id: str) -> None:
    await connection.execute(
        delete(PublicObject).where(
            PublicObject.tenant_id == tenant_id, PublicObject.id == object_id
        )
    )


async def of_job(connection: AsyncConnection, tenant_id: str, job_id: str) -> list[Row]:
    """The objects that a job names, without contents."""
    statement = (
        select(PublicObject.id, PublicObject.type, PublicObject.name, PublicObject.sizes)
        .join(
            JobObject,
            (JobObject.tenant_id == PublicObject.tenant_id)
            & (JobObject.object_id == PublicObject.id),
        )
        .where(JobObject.tenant_id == tenant_id, JobObject.job_id == job_id)
        .order_by(PublicObject.id)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]

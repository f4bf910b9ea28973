"""Files that were sent to be looked at, sealed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Row, lock_key, one_of
from discreet.storage.datasets import CHUNKS_AT_ONCE
from discreet.storage.tables import Read, ReadChunk


async def add(connection: AsyncConnection, chunks: Iterable[bytes], **values: Any) -> Row:
    row = one_of(await connection.execute(insert(Read).values(**values).returning(Read)))
    assert row is not None
    rows = (
        {"read_id": row["id"], "index": index, "sealed": sealed}
        for index, sealed in enumerate(chunks)
    )
    while some := list(islice(rows, CHUNKS_AT_ONCE)):
        await connection.execute(insert(ReadChunk), some)
    return row


async def find(
    connection: AsyncConnection, tenant_id: str, principal: str, read_id: str
) -> Row | None:
    """A file that is still here, of whoever sent it."""
    statement = select(Read).where(
        Read.id == read_id,
        Read.tenant_id == tenant_id,
        Read.principal == principal,
        Read.expires_at > func.now(),
    )
    return one_of(await connection.execute(statement))


async def chunks(connection: AsyncConnection, read_id: str) -> AsyncIterator[bytes]:
    """The sealed file in order, one piece at a time; none when it was erased."""
    statement = select(ReadChunk.sealed).where(ReadChunk.read_id == read_id)
    async with connection.stream(
        statement.order_by(ReadChunk.index), execution_options={"yield_per": CHUNKS_AT_ONCE}
    ) as rows:
        async for row in rows:
            yield bytes(row[0])


async def remove(connection: AsyncConnection, tenant_id: str, read_id: str) -> Row | None:
    """Erase a file with its key; its row as it was. The caller removes an object after the
    commit."""
    statement = delete(Read).where(Read.id == read_id, Read.tenant_id == tenant_id).returning(Read)
    return one_of(await connection.execute(statement))


async def lock_tenant(connection: AsyncConnection, tenant_id: str) -> None:
    """Lock out other files of the tenant until this transaction ends, so that they can be
    counted."""
    await lock_key(connection, f"reads/{tenant_id}")


async def sealed_bytes(connection: AsyncConnection, tenant_id: str, gone: Iterable[str]) -> int:
    """Of all files of a tenant but these."""
    statement = select(func.coalesce(func.sum(Read.sealed_bytes), 0)).where(
        Read.tenant_id == tenant_id, Read.expires_at > func.now(), Read.id.not_in(list(gone))
    )
    return int((await connection.execute(statement)).scalar_one())


async def newest(connection: AsyncConnection, tenant_id: str, principal: str) -> list[str]:
    """The files of a principal that are still here, the newest first."""
    statement = select(Read.id).where(
        Read.tenant_id == tenant_id, Read.principal == principal, Read.expires_at > func.now()
    )
    found = await connection.execute(statement.order_by(Read.created_at.desc(), Read.id))
    return list(found.scalars())


async def remove_all(connection: AsyncConnection, ids: Iterable[str]) -> list[Row]:
    """Erase these files; their rows as they were."""
    found = await connection.execute(delete(Read).where(Read.id.in_(list(ids))).returning(Read))
    return [dict(row) for row in found.mappings()]


async def remove_expired(connection: AsyncConnection, most: int = 100) -> list[Row]:
    """Erase files whose day is over; their rows as they were."""
    over = select(Read.id).where(Read.expires_at <= func.now()).limit(most)
    found = await connection.execute(delete(Read).where(Read.id.in_(over)).returning(Read))
    return [dict(row) for row in found.mappings()]


async def objects_of(connection: AsyncConnection, names: Iterable[str]) -> set[str]:
    """Those of these objects that belong to a file."""
    statement = select(Read.object_name).where(Read.object_name.in_(list(names)))
    return {str(name) for name in (await connection.execute(statement)).scalars()}

"""Files that were sent to be looked at, sealed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Row, one_of
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


async def remove_oldest(
    connection: AsyncConnection, tenant_id: str, principal: str, keep: int
) -> list[Row]:
    """Erase all files of a principal but the newest; their rows as they were."""
    own = select(Read.id).where(Read.tenant_id == tenant_id, Read.principal == principal)
    old = own.order_by(Read.created_at.desc(), Read.id).offset(keep)
    found = await connection.execute(delete(Read).where(Read.id.in_(old)).returning(Read))
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

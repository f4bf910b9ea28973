"""Datasets and their sealed content."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.secrets import Secrets
from discreet.storage.tables import Dataset, DatasetChunk

Row = dict[str, Any]


def digest(secrets: Secrets, tenant_id: str, canonical: Iterable[bytes]) -> bytes:
    """The keyed name of a content: a plain digest would tell whoever holds a guess of the data whether it is right."""
    mac = hmac.new(secrets.digest_key, f"discreet/dataset/v1\0{tenant_id}\0".encode(), hashlib.sha256)
    for part in canonical:
        mac.update(part)
    return mac.digest()


async def lock_digest(connection: AsyncConnection, value: bytes) -> None:
    """Hold other registrations of the same content until this transaction ends."""
    key = int.from_bytes(value[:8], "big", signed=True)
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


async def find_digest(connection: AsyncConnection, tenant_id: str, value: bytes) -> Row | None:
    """The newest dataset of this content, deleted ones included: its account outlives it."""
    statement = (
        select(Dataset)
        .where(Dataset.tenant_id == tenant_id, Dataset.digest == value)
        .order_by(Dataset.deleted_at.is_not(None), Dataset.created_at.desc())
        .limit(1)
    )
    return _one(await connection.execute(statement))


async def add(connection: AsyncConnection, chunks: Iterable[bytes], **values: Any) -> Row:
    row = _one(await connection.execute(insert(Dataset).values(**values).returning(Dataset)))
    assert row is not None
    for index, sealed in enumerate(chunks):
        await connection.execute(insert(DatasetChunk).values(dataset_id=row["id"], index=index, sealed=sealed))
    return row


async def find(connection: AsyncConnection, tenant_id: str, dataset_id: str, *, keep: bool = False) -> Row | None:
    """A dataset that is not deleted; with `keep` it cannot be deleted before this transaction ends."""
    statement = select(Dataset).where(
        Dataset.id == dataset_id, Dataset.tenant_id == tenant_id, Dataset.deleted_at.is_(None)
    )
    if keep:
        statement = statement.with_for_update(read=True)
    return _one(await connection.execute(statement))


async def page(connection: AsyncConnection, tenant_id: str, after: tuple[Any, str] | None, size: int) -> list[Row]:
    """Datasets that are not deleted, newest first."""
    statement = select(Dataset).where(Dataset.tenant_id == tenant_id, Dataset.deleted_at.is_(None))
    if after is not None:
        statement = statement.where(
            (Dataset.created_at < after[0]) | ((Dataset.created_at == after[0]) & (Dataset.id < after[1]))
        )
    statement = statement.order_by(Dataset.created_at.desc(), Dataset.id.desc()).limit(size)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def of_account(connection: AsyncConnection, account_ids: Iterable[str]) -> list[Row]:
    """Id, name, account and deletion of the datasets of these accounts."""
    statement = (
        select(Dataset.id, Dataset.account_id, Dataset.name, Dataset.deleted_at)
        .where(Dataset.account_id.in_(list(account_ids)))
        .order_by(Dataset.created_at, Dataset.id)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def erase(connection: AsyncConnection, tenant_id: str, dataset_id: str) -> bool:
    """Delete the content; the row stays as the memory of its digest. False when there is no such dataset."""
    statement = (
        update(Dataset)
        .where(Dataset.id == dataset_id, Dataset.tenant_id == tenant_id, Dataset.deleted_at.is_(None))
        .values(deleted_at=func.now())
    )
    if (await connection.execute(statement)).rowcount == 0:
        return False
    await connection.execute(delete(DatasetChunk).where(DatasetChunk.dataset_id == dataset_id))
    return True


async def chunks(connection: AsyncConnection, dataset_id: str) -> list[bytes]:
    """The sealed content in order; empty when it was erased."""
    statement = select(DatasetChunk.sealed).where(DatasetChunk.dataset_id == dataset_id).order_by(DatasetChunk.index)
    return list((await connection.execute(statement)).scalars())


async def content_key(connection: AsyncConnection, dataset_id: str) -> str:
    """The id of the key that sealed the content."""
    return str((await connection.execute(select(Dataset.content_key_id).where(Dataset.id == dataset_id))).scalar_one())


def _one(result: Any) -> Row | None:
    row = result.mappings().one_or_none()
    return None if row is None else dict(row)

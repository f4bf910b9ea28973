"""Sources and their blocks, which are datasets that belong to a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Row, lock_key, one_of
from discreet.storage.tables import UNFINISHED, Dataset, Job, Source

_LOCK_SEED = 19
"""Keeps the locks of this module apart from others of the same name."""


async def add(connection: AsyncConnection, **values: Any) -> Row:
    row = (
        (await connection.execute(insert(Source).values(**values).returning(Source)))
        .mappings()
        .one()
    )
    return dict(row)


async def lock_name(connection: AsyncConnection, tenant_id: str, name: str) -> None:
    """Lock out other sources of this name until this transaction ends."""
    await lock_key(connection, f"{tenant_id}/{name}", _LOCK_SEED)


async def lock(connection: AsyncConnection, source_id: str) -> None:
    """Lock out other registrations of this source's blocks until this transaction ends."""
    await lock_key(connection, source_id, _LOCK_SEED)


async def find(connection: AsyncConnection, tenant_id: str, source_id: str) -> Row | None:
    statement = select(Source).where(Source.id == source_id, Source.tenant_id == tenant_id)
    return one_of(await connection.execute(statement))


async def called(connection: AsyncConnection, tenant_id: str, name: str) -> Row | None:
    statement = select(Source).where(Source.name == name, Source.tenant_id == tenant_id)
    return one_of(await connection.execute(statement))


async def page(
    connection: AsyncConnection, tenant_id: str, after: tuple[Any, str] | None, size: int
) -> list[Row]:
    """Sources, newest first."""
    statement = select(Source).where(Source.tenant_id == tenant_id)
    if after is not None:
        statement = statement.where(
            (Source.created_at < after[0])
            | ((Source.created_at == after[0]) & (Source.id < after[1]))
        )
    statement = statement.order_by(Source.created_at.desc(), Source.id.desc()).limit(size)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def blocks(
    connection: AsyncConnection, source_id: str, names: Sequence[str] | None = None
) -> list[Row]:
    """The newest version of each block (of those in `names`, if given), in the order in which the
    blocks were first registered. `offered`: the version is neither deleted nor expired; `first_at`:
    when the block's first version was registered."""
    values = {"source": source_id, "names": None if names is None else list(names)}
    rows = await connection.execute(text(_BLOCKS), values)
    return [dict(row) for row in rows.mappings()]


async def versions(
    connection: AsyncConnection, source_id: str, version_ids: Sequence[str]
) -> dict[str, Row]:
    """These versions of blocks of a source, by their ids. `offered` as in `blocks`."""
    rows = await connection.execute(
        text(_VERSIONS), {"source": source_id, "ids": list(version_ids)}
    )
    return {row["id"]: dict(row) for row in rows.mappings()}


async def alone(connection: AsyncConnection, source_id: str) -> None:
    """Jobs that read this source have been accepted and committed, or are accepted after this
    transaction."""
    await connection.execute(text("SELECT source_alone(:source)"), {"source": source_id})


async def active(connection: AsyncConnection, source_id: str) -> bool:
    """Whether a job that reads this source has not ended."""
    statement = select(Job.id).where(Job.source_id == source_id, Job.state.in_(UNFINISHED))
    return (await connection.execute(statement.limit(1))).first() is not None


async def live(connection: AsyncConnection, source_id: str, *, locked: bool = False) -> list[Row]:
    """All versions of blocks whose content is there, expired or not; `locked` as an erasure locks
    them, before it takes the source's lock."""
    statement = (
        select(Dataset)
        .where(Dataset.source_id == source_id, Dataset.deleted_at.is_(None))
        .order_by(Dataset.number)
    )
    if locked:
        statement = statement.with_for_update(key_share=True)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def correct(connection: AsyncConnection, source_id: str, public: Mapping[str, Any]) -> Row:
    """Another revision of a source, of which this is the public part."""
    statement = (
        update(Source)
        .where(Source.id == source_id)
        .values(public=dict(public), revision=Source.revision + 1)
        .returning(Source)
    )
    row = one_of(await connection.execute(statement))
    assert row is not None
    return row


async def newest(connection: AsyncConnection, source_id: str, block: str) -> Row | None:
    """The newest version of a block, deleted or not."""
    statement = (
        select(Dataset)
        .where(Dataset.source_id == source_id, Dataset.block == block)
        .order_by(Dataset.version.desc())
        .limit(1)
    )
    return one_of(await connection.execute(statement))


async def accounts(connection: AsyncConnection, tenant_id: str) -> set[str]:
    """All accounts of blocks and of sources."""
    statement = select(Dataset.account_id).where(
        Dataset.tenant_id == tenant_id, Dataset.source_id.is_not(None)
    )
    found = set((await connection.execute(statement.distinct())).scalars())
    own = select(Source.account_id).where(
        Source.tenant_id == tenant_id, Source.account_id.is_not(None)
    )
    return found | {str(account) for account in (await connection.execute(own)).scalars()}


async def accounts_of(connection: AsyncConnection, source: Row) -> list[str]:
    """The accounts of a source: of all blocks that it has or had, or its own."""
    statement = select(Dataset.account_id).where(Dataset.source_id == source["id"]).distinct()
    found = set((await connection.execute(statement)).scalars())
    return sorted(found | ({source["account_id"]} if source["account_id"] is not None else set()))


async def blocks_of_accounts(
    connection: AsyncConnection, account_ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """The names of source and block, for those of these accounts that belong to one block."""
    statement = (
        select(Dataset.account_id, func.min(Source.name), func.min(Dataset.block))
        .join(Source, Source.id == Dataset.source_id)
        .where(Dataset.account_id.in_(list(account_ids)), Source.cap_of == "block")
        .group_by(Dataset.account_id)
    )
    return {
        account: (source, str(block))
        for account, source, block in await connection.execute(statement)
    }


async def of_chains(connection: AsyncConnection, tenant_id: str) -> dict[str, tuple[str, str]]:
    """Id and name of each source that has a chain, by the chain's id."""
    statement = select(Source.chain_id, Source.id, Source.name).where(
        Source.tenant_id == tenant_id, Source.chain_id.is_not(None)
    )
    return {str(chain): (one, name) for chain, one, name in await connection.execute(statement)}


async def of_job(connection: AsyncConnection, job: Mapping[str, Any]) -> list[Row]:
    """The datasets that a job reads, in its order, deleted or not: one dataset; the versions of
    blocks that its problem names, which its tamper seal covers; or none. Datasets without a row are
    left out."""
    wanted = versions_of(job)
    rows = await connection.execute(select(Dataset).where(Dataset.id.in_(wanted)))
    found = {row["id"]: dict(row) for row in rows.mappings()}
    return [found[one] for one in wanted if one in found]


def versions_of(job: Mapping[str, Any]) -> list[str]:
    """The ids of the datasets that a job's row says it reads."""
    if job["dataset_id"] is not None:
        return [str(job["dataset_id"])]
    asked = job["problem"].get("source") if isinstance(job["problem"], dict) else None
    return list(asked.get("versions") or []) if isinstance(asked, dict) else []


def are_there(job: Mapping[str, Any], data: Sequence[Row]) -> bool:
    """Whether the content of all that an accepted job reads is there, of which `of_job` is `data`.
    Not whether new jobs may use it: what expired after this one was accepted is erased once no job
    needs it."""
    return [one["id"] for one in data if one["deleted_at"] is None] == versions_of(job)


_BLOCKS = """
SELECT DISTINCT ON (first_at, d.block) d.*,
  d.deleted_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > now()) AS offered
FROM (
  SELECT id, block, version, number, account_id, public, mode, sealed_bytes, created_at, expires_at,
    deleted_at, stays, seen_at, min(created_at) OVER (PARTITION BY block) AS first_at
  FROM datasets WHERE source_id = :source
    AND (CAST(:names AS text[]) IS NULL OR block = ANY (CAST(:names AS text[])))
) AS d
ORDER BY first_at, d.block, d.version DESC
"""
_VERSIONS = """
SELECT id, block, version, number, account_id,
  deleted_at IS NULL AND (expires_at IS NULL OR expires_at > now()) AS offered
FROM datasets WHERE source_id = :source AND id = ANY (CAST(:ids AS text[]))
"""

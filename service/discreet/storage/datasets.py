"""Datasets and their sealed content."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Row, lock_key, one_of
from discreet.storage.tables import UNFINISHED, Dataset, DatasetChunk, DatasetRevision, Job

CHUNKS_AT_ONCE = 4
"""Of a content, which are in memory and on their way to the database: it stores one while the next
is sent."""


async def lock_digest(connection: AsyncConnection, value: bytes) -> None:
    """Lock out other registrations of the same content until this transaction ends."""
    key = int.from_bytes(value[:8], "big", signed=True)
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


async def of_digest(connection: AsyncConnection, tenant_id: str, value: bytes) -> list[Row]:
    """The datasets of this content: those that have it still, then those that had it, deleted
    since or corrected (`former`), since accounts outlive both. The newest of each come first."""
    rows = await connection.execute(text(_OF_DIGEST), {"tenant": tenant_id, "digest": value})
    return [dict(row) for row in rows.mappings()]


async def lock_to_correct(
    connection: AsyncConnection, tenant_id: str, dataset_id: str
) -> Row | None:
    """A dataset that is neither deleted nor expired, locked as an erasure locks it: who accepts a
    job on it has committed, or comes after this transaction."""
    statement = (
        select(Dataset)
        .where(Dataset.id == dataset_id, Dataset.tenant_id == tenant_id, _offered())
        .with_for_update(key_share=True, of=Dataset)
    )
    return one_of(await connection.execute(statement))


async def correct(
    connection: AsyncConnection,
    row: Row,
    by: str,
    chunks: Iterable[bytes] | None,
    **values: Any,
) -> Row:
    """Another revision of a locked dataset: its row with these values and, where chunks are given,
    another content. What it was stays known by its digest. Releases of simulations on what it was
    are deleted, as where it is erased: nobody asks them again."""
    former = {name: row[name] for name in ("revision", "tenant_id", "digest", "public")}
    await connection.execute(
        insert(DatasetRevision).values(dataset_id=row["id"], corrected_by=by, **former)
    )
    statement = (
        update(Dataset)
        .where(Dataset.id == row["id"])
        .values(revision=row["revision"] + 1, **values)
        .returning(Dataset)
    )
    found = one_of(await connection.execute(statement))
    assert found is not None
    if chunks is not None:
        await connection.execute(delete(DatasetChunk).where(DatasetChunk.dataset_id == row["id"]))
        await _add_chunks(connection, row["id"], chunks)
    await connection.execute(text(_FORGET_SIMULATED), {"dataset": row["id"]})
    return found


async def add(connection: AsyncConnection, chunks: Iterable[bytes], **values: Any) -> Row:
    row = one_of(await connection.execute(insert(Dataset).values(**values).returning(Dataset)))
    assert row is not None
    await _add_chunks(connection, row["id"], chunks)
    return row


async def _add_chunks(
    connection: AsyncConnection, dataset_id: str, chunks: Iterable[bytes]
) -> None:
    rows = (
        {"dataset_id": dataset_id, "index": index, "sealed": sealed}
        for index, sealed in enumerate(chunks)
    )
    while some := list(islice(rows, CHUNKS_AT_ONCE)):
        await connection.execute(insert(DatasetChunk), some)


async def find(
    connection: AsyncConnection, tenant_id: str, dataset_id: str, *, keep: bool = False
) -> Row | None:
    """A dataset that is neither deleted nor expired.

    With `keep` it cannot be deleted before this transaction ends.
    """
    statement = select(Dataset).where(
        Dataset.id == dataset_id, Dataset.tenant_id == tenant_id, _offered()
    )
    if keep:
        statement = statement.with_for_update(read=True)
    return one_of(await connection.execute(statement))


async def page(
    connection: AsyncConnection, tenant_id: str, after: tuple[Any, str] | None, size: int
) -> list[Row]:
    """Datasets that are neither deleted nor expired, newest first; blocks are listed with their
    source."""
    statement = select(Dataset).where(
        Dataset.tenant_id == tenant_id, Dataset.source_id.is_(None), _offered()
    )
    if after is not None:
        statement = statement.where(
            (Dataset.created_at < after[0])
            | ((Dataset.created_at == after[0]) & (Dataset.id < after[1]))
        )
    statement = statement.order_by(Dataset.created_at.desc(), Dataset.id.desc()).limit(size)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def lock_account(connection: AsyncConnection, account_id: str) -> None:
    """Lock out other registrations on the same account until this transaction ends."""
    await lock_key(connection, account_id)


async def publics_of_account(
    connection: AsyncConnection, account_id: str, but: str | None = None
) -> list[Row]:
    """Kind and public part of every dataset that the account has or had, but of one."""
    statement = select(Dataset.kind, Dataset.public).where(Dataset.account_id == account_id)
    if but is not None:
        statement = statement.where(Dataset.id != but)
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def has_others(connection: AsyncConnection, account_id: str, digest: bytes) -> bool:
    """Whether the account has or had a dataset with any other content, corrected ones as they
    were too."""
    now = select(Dataset.id).where(Dataset.account_id == account_id, Dataset.digest != digest)
    before = (
        select(DatasetRevision.dataset_id)
        .join(Dataset, Dataset.id == DatasetRevision.dataset_id)
        .where(Dataset.account_id == account_id, DatasetRevision.digest != digest)
    )
    return bool((await connection.execute(select(or_(now.exists(), before.exists())))).scalar())


async def held(connection: AsyncConnection, dataset_id: str | None) -> Row | None:
    """A dataset whose content is still there, for a job that was accepted in time."""
    if dataset_id is None:
        return None
    return one_of(
        await connection.execute(
            select(Dataset).where(Dataset.id == dataset_id, Dataset.deleted_at.is_(None))
        )
    )


async def seen(connection: AsyncConnection, dataset_ids: Iterable[str]) -> None:
    """Those of these contents that stay at places were found unchanged there. It waits for no row:
    whoever accepts a job holds that of its dataset, and waits for accounts."""
    stays = (
        select(Dataset.id)
        .where(Dataset.id.in_(list(dataset_ids)), Dataset.stays.is_not(None))
        .with_for_update(key_share=True, skip_locked=True)
    )
    statement = update(Dataset).where(Dataset.id.in_(stays)).values(seen_at=func.now())
    await connection.execute(statement)


async def move(connection: AsyncConnection, dataset_id: str, **columns: Any) -> bool:
    """A content that stays at a place is at another one; False if it was erased meanwhile, which
    brings nothing of it back."""
    here = and_(Dataset.id == dataset_id, Dataset.deleted_at.is_(None))
    found = await connection.execute(update(Dataset).where(here).values(**columns))
    return bool(found.rowcount)


async def set_retention(
    connection: AsyncConnection,
    dataset_id: str,
    expires_at: datetime | None,
    delete_after_job: bool,
) -> Row:
    """Keep a content that is still there until another time."""
    statement = (
        update(Dataset)
        .where(Dataset.id == dataset_id)
        .values(expires_at=expires_at, delete_after_job=delete_after_job)
        .returning(Dataset)
    )
    row = one_of(await connection.execute(statement))
    assert row is not None
    return row


async def erase(connection: AsyncConnection, tenant_id: str, dataset_id: str) -> bool:
    """Delete the content and its key; the row stays as the memory of its digest. False when there
    is no such dataset.

    Releases about private data stay with their results; those of simulations are deleted, since
    they hold the data. The caller removes an object after the commit; without the key nobody can
    read it.
    """
    here = and_(
        Dataset.id == dataset_id, Dataset.tenant_id == tenant_id, Dataset.deleted_at.is_(None)
    )
    locked = select(Dataset.id).where(here).with_for_update(key_share=True)
    if (await connection.execute(locked)).first() is None:
        return False
    # What takes long comes first: the row of a block is changed under the lock of its source,
    # which a trigger takes, and for which jobs that are accepted on other blocks wait.
    await connection.execute(delete(DatasetChunk).where(DatasetChunk.dataset_id == dataset_id))
    values = {"deleted_at": func.now(), "wrapped_key": None, "place": None}
    await connection.execute(update(Dataset).where(here).values(**values))
    await connection.execute(text(_FORGET_SIMULATED), {"dataset": dataset_id})
    return True


async def traces(connection: AsyncConnection) -> Row:
    """How long the database keeps what was erased: `checkpoint_seconds`, `archived` (its log goes
    elsewhere too), `vacuumed` (whether this role may clear away dead rows of contents)."""
    row = one_of(await connection.execute(text(_TRACES)))
    assert row is not None
    return row


_OF_DIGEST = """
SELECT known.* FROM (
  SELECT d.*, false AS former, d.created_at AS since FROM datasets AS d
    WHERE d.tenant_id = :tenant AND d.digest = :digest
  UNION ALL
  SELECT d.*, true, r.corrected_at FROM dataset_revisions AS r
    JOIN datasets AS d ON d.id = r.dataset_id
    WHERE r.tenant_id = :tenant AND r.digest = :digest AND d.digest <> r.digest
) AS known
ORDER BY former OR deleted_at IS NOT NULL, since DESC
"""
_FORGET_SIMULATED = """
DELETE FROM releases USING datasets
WHERE datasets.id = :dataset AND datasets.mode = 'simulation' AND releases.job_id IN (
  SELECT id FROM jobs WHERE dataset_id = :dataset
  UNION ALL SELECT job_id FROM job_blocks WHERE dataset_id = :dataset)
"""
_TRACES = """
SELECT extract(epoch FROM current_setting('checkpoint_timeout')::interval)::integer
         AS checkpoint_seconds,
       current_setting('archive_mode') <> 'off'
         OR EXISTS (SELECT FROM pg_replication_slots) AS archived,
       CASE WHEN current_setting('server_version_num')::integer >= 170000
            THEN has_table_privilege('dataset_chunks', 'MAINTAIN') ELSE false END AS vacuumed
"""


async def dead_contents(connection: AsyncConnection) -> bool:
    """Whether this role may vacuum contents, and there is something to clear away."""
    found = (await traces(connection))["vacuumed"]
    dead = (
        "SELECT sum(n_dead_tup) > 0 FROM pg_stat_user_tables WHERE relname IN ('datasets', "
        "'dataset_chunks')"
    )
    return bool(found and (await connection.execute(text(dead))).scalar())


async def expired(connection: AsyncConnection, most: int = 100) -> list[str]:
    """Ids of datasets whose content is to be erased and that no job needs: expired, or used by a
    job that succeeded."""
    statement = select(Dataset.id).where(_over(), ~_needed()).limit(most)
    return [str(one) for one in (await connection.execute(statement)).scalars()]


async def lock_expired(connection: AsyncConnection, dataset_id: str) -> Row | None:
    """Such a dataset, locked until this transaction ends; None if it is none any more, or a job
    that is accepted at this moment holds it."""
    statement = (
        select(Dataset)
        .where(Dataset.id == dataset_id, _over())
        .with_for_update(of=Dataset, skip_locked=True)
    )
    return one_of(await connection.execute(statement))


async def objects_of(connection: AsyncConnection, names: Iterable[str]) -> set[str]:
    """Those of these objects that belong to a dataset whose content is still there."""
    statement = select(Dataset.object_name).where(
        Dataset.object_name.in_(list(names)), Dataset.deleted_at.is_(None)
    )
    return {str(name) for name in (await connection.execute(statement)).scalars()}


async def chunks(connection: AsyncConnection, dataset_id: str) -> AsyncIterator[bytes]:
    """The sealed content in order, one chunk at a time; none when it was erased."""
    statement = (
        select(DatasetChunk.sealed)
        .where(DatasetChunk.dataset_id == dataset_id)
        .order_by(DatasetChunk.index)
    )
    # Of itself a stream has up to a thousand rows in memory, which are a gigabyte here.
    async with connection.stream(
        statement, execution_options={"yield_per": CHUNKS_AT_ONCE}
    ) as rows:
        async for row in rows:
            yield bytes(row[0])


async def chunks_between(
    connection: AsyncConnection, dataset_id: str, first: int, last: int
) -> list[bytes]:
    """The sealed chunks first..last, in order: a few, which are in memory at once."""
    statement = (
        select(DatasetChunk.sealed)
        .where(DatasetChunk.dataset_id == dataset_id, DatasetChunk.index.between(first, last))
        .order_by(DatasetChunk.index)
    )
    return [bytes(sealed) for sealed in (await connection.execute(statement)).scalars()]


def _over() -> ColumnElement[bool]:
    """True of a dataset whose content is there, and which no new job may use."""
    return and_(Dataset.deleted_at.is_(None), ~_offered())


def _needed() -> ColumnElement[bool]:
    """True of a dataset that a job which has not ended reads."""
    unfinished = Job.state.in_(UNFINISHED)
    of_it = select(Job.id).where(Job.dataset_id == Dataset.id, unfinished)
    of_block = select(Job.id).where(
        Job.tenant_id == Dataset.tenant_id,
        Job.source_id == Dataset.source_id,
        Job.versions.op("@>")(Dataset.number),
        unfinished,
    )
    return or_(of_it.exists(), of_block.exists())


def _offered() -> ColumnElement[bool]:
    """True of a dataset that new jobs may use."""
    used = select(Job.id).where(Job.dataset_id == Dataset.id, Job.state == "succeeded")
    return and_(
        Dataset.deleted_at.is_(None),
        or_(Dataset.expires_at.is_(None), Dataset.expires_at > func.now()),
        or_(~Dataset.delete_after_job, ~used.exists()),
    )


# Digests ------------------------------------------------------------------------------------------
# Keyed ones: a plain one would confirm a guess of the data.


def content_digest(digest_key: bytes, tenant_id: str, canonical: Iterable[bytes]) -> bytes:
    """32 bytes: the same for the same canonical content of the same tenant, however it was sent."""
    mac = hmac.new(digest_key, f"discreet/dataset/v1\0{tenant_id}\0".encode(), hashlib.sha256)
    for part in canonical:
        mac.update(part)
    return mac.digest()


def zone_names_digest(digest_key: bytes, tenant_id: str, names: Iterable[str]) -> bytes:
    """32 bytes: the same for the same names of zones in the same order. They are not stored, and by
    this it is known whether a network means the same by them."""
    said = json.dumps(list(names)).encode()
    head = f"discreet/zones/v1\0{tenant_id}\0".encode()
    return hmac.digest(digest_key, head + said, hashlib.sha256)

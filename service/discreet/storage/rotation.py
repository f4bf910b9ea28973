"""Rows sealed under a master key, for its rotation: they are locked, read and written again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import case, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.jobs import FINAL
from discreet.storage.result_tables import JobResult, Release
from discreet.storage.session_tables import FederatedSession
from discreet.storage.tables import (
    Dataset,
    Job,
    Key,
    Read,
    Webhook,
)

Row = dict[str, Any]


async def datasets_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    """Datasets with content whose key is under another master key than this one; locked."""
    statement = (
        select(Dataset)
        .where(Dataset.deleted_at.is_(None), Dataset.content_key_id != key_id)
        .order_by(Dataset.id)
        .limit(most)
        .with_for_update(of=Dataset)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def rewrapped_dataset(
    connection: AsyncConnection, dataset_id: str, key_id: str, wrapped: bytes
) -> None:
    """Note the new wrapped key of a dataset."""
    statement = update(Dataset).where(Dataset.id == dataset_id)
    await connection.execute(statement.values(content_key_id=key_id, wrapped_key=wrapped))


async def reads_by_others(connection: AsyncConnection, key_id: str, most: int = 100) -> list[Row]:
    statement = (
        select(Read.id, Read.content_key_id, Read.wrapped_key)
        .where(Read.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def rewrapped_read(
    connection: AsyncConnection, read_id: str, key_id: str, wrapped: bytes
) -> None:
    statement = update(Read).where(Read.id == read_id)
    await connection.execute(statement.values(content_key_id=key_id, wrapped_key=wrapped))


async def releases_by_others(
    connection: AsyncConnection, key_id: str, most: int = 1000
) -> list[Row]:
    """Releases under another master key: their own keys, and what was released where there is no
    such key."""
    sealed = case((Release.wrapped_key.is_(None), Release.sealed)).label("sealed")
    statement = (
        select(Release.job_id, Release.content_key_id, Release.wrapped_key, Release.terms, sealed)
        .where(Release.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def moved_release(
    connection: AsyncConnection, job_id: str, key_id: str, **values: bytes
) -> None:
    """Note the new `wrapped_key`, or what was `sealed` anew."""
    await connection.execute(
        update(Release).where(Release.job_id == job_id).values(content_key_id=key_id, **values)
    )


async def sessions_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    statement = (
        select(FederatedSession.job_id, FederatedSession.content_key_id, FederatedSession.sealed)
        .where(FederatedSession.sealed.is_not(None), FederatedSession.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def resealed_session(
    connection: AsyncConnection, job_id: str, key_id: str, sealed: bytes
) -> None:
    await connection.execute(
        update(FederatedSession)
        .where(FederatedSession.job_id == job_id)
        .values(content_key_id=key_id, sealed=sealed)
    )


async def webhooks_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    statement = (
        select(Webhook).where(Webhook.content_key_id != key_id).limit(most).with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def resealed_webhook(
    connection: AsyncConnection, webhook_id: str, key_id: str, sealed: bytes
) -> None:
    await connection.execute(
        update(Webhook)
        .where(Webhook.id == webhook_id)
        .values(content_key_id=key_id, sealed_secret=sealed)
    )


HOLD_SECONDS = 2
"""How long `needing` waits for writers that are under way, while others wait behind it."""


async def needing(connection: AsyncConnection, key_id: str) -> int:
    """How many rows cannot be read without this master key. Those that are being written are waited
    for, and no others come until this transaction ends; a DBAPIError (55P03) where that takes too
    long."""
    await connection.execute(text(f"SET LOCAL lock_timeout = '{HOLD_SECONDS}s'"))
    names = ", ".join(
        table.__tablename__ for table in (Dataset, FederatedSession, Read, Release, Webhook)
    )
    await connection.execute(text(f"LOCK TABLE {names} IN SHARE MODE"))
    count = 0
    for table, live in (
        (Dataset, Dataset.deleted_at.is_(None)),
        (Release, None),
        (FederatedSession, FederatedSession.sealed.is_not(None)),
        (Read, None),
        (Webhook, None),
    ):
        statement = select(func.count()).select_from(table).where(table.content_key_id == key_id)
        if live is not None:
            statement = statement.where(live)
        count += int((await connection.execute(statement)).scalar_one())
    return count


async def sealed_jobs(connection: AsyncConnection, key_id: str) -> int:
    """How many jobs that have not ended this key has sealed."""
    by_this = Job.tamper_seal.startswith(f"{key_id}:", autoescape=True)
    statement = select(func.count()).select_from(Job).where(Job.state.not_in(FINAL), by_this)
    return int((await connection.execute(statement)).scalar_one())


async def signed_results(connection: AsyncConnection, public_key: str) -> int:
    """How many certificates this signing key has signed."""
    statement = select(func.count()).where(
        JobResult.certificate["public_key"].as_string() == public_key
    )
    return int((await connection.execute(statement)).scalar_one())


async def is_read_only(connection: AsyncConnection) -> bool:
    """Whether this server is a standby, or refuses changes for another reason."""
    return (
        str(
            (
                await connection.execute(select(func.current_setting("transaction_read_only")))
            ).scalar_one()
        )
        == "on"
    )


async def keys_without_pepper(connection: AsyncConnection, known: str) -> int:
    """Living API keys that are not known to be under this pepper."""
    statement = select(func.count()).where(
        Key.revoked_at.is_(None),
        (Key.expires_at.is_(None)) | (Key.expires_at > func.now()),
        Key.pepper_id != known,
    )
    return int((await connection.execute(statement)).scalar_one())


async def open_sessions(connection: AsyncConnection, states: Sequence[str]) -> int:
    """Federated jobs in one of these states."""
    statement = (
        select(func.count())
        .select_from(FederatedSession)
        .join(Job, Job.id == FederatedSession.job_id)
        .where(Job.state.in_(states))
    )
    return int((await connection.execute(statement)).scalar_one())

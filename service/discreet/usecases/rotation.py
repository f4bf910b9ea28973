"""Rotation of keys in a running installation: what stands under an old key is moved, then the old
key can go.

Who writes under a master key does so in a `@sealing_step`, and asks `still_known` after the row was
written, in the same transaction. `retire` waits for writers that are under way and then counts
rows; those that come behind it find here that their key has gone, and nothing is left under it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, Unavailable
from discreet.storage import sealing, secrets, tamper_seals
from discreet.storage.database import SYSTEM
from discreet.storage.secrets import Kind, Secrets
from discreet.storage.sessions import OPEN
from discreet.usecases.services import Services

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class MasterKeyRetired(Unavailable):
    """The master key was retired while something was stored under it; send it again."""


def still_known(services: Services, keys: Secrets) -> None:
    """MasterKeyRetired unless the master key that `keys` seal with is there yet."""
    if keys.content_key_id not in services.secrets.content_keys:
        raise MasterKeyRetired()


def sealing_step(
    step: Callable[Arguments, Awaitable[Answer]],
) -> Callable[Arguments, Awaitable[Answer]]:
    """The step, taken anew under the key in use where the one that it had sealed with was retired
    meanwhile."""

    @wraps(step)
    async def again(*arguments: Arguments.args, **named: Arguments.kwargs) -> Answer:
        while True:
            try:
                return await step(*arguments, **named)
            except MasterKeyRetired:
                continue

    return again


async def rotate(
    services: Services, path: Path, kind: Kind, *, force: bool = False
) -> dict[str, Any]:
    """Use the staged key of this kind, or a new one; for a master key, wrap everything under it."""
    if kind == "signing" and not force:
        async with services.database.transaction(SYSTEM) as connection:
            going_on = await secrets.open_sessions(connection, OPEN)
        if going_on:
            raise Conflict(
                f"{going_on} federated sessions are open, whose agents expect the old key; wait "
                "for their end, or use --force"
            )
    await reach(services)
    used = secrets.rotate(path, kind, services.secrets_file.keys)
    moved = 0
    if kind == "content":
        try:
            moved = await rewrap(services)
        except (DBAPIError, psycopg.OperationalError) as error:
            raise Unavailable(
                f"the new master key {used} is used from now on, but the database did not let "
                "everything be moved to it; `discreet secrets rewrap` goes on with that, and the "
                "old key is needed until then"
            ) from error
    return {"kind": kind, "used": used, "moved": moved}


async def reach(services: Services) -> None:
    """Unavailable unless the database answers and takes changes: otherwise no key is written."""
    try:
        async with services.database.transaction(SYSTEM) as connection:
            read_only = await secrets.is_read_only(connection)
    except (DBAPIError, psycopg.OperationalError) as error:
        raise Unavailable("the database cannot be reached; no key was made") from error
    if read_only:
        raise Unavailable("the database takes no changes now, no key was made")


async def rewrap(services: Services) -> int:
    """Bring everything that another master key holds under the one in use; the number of rows.

    Contents are not touched: only their data keys are wrapped again. Each batch is a transaction of
    its own, so that a rotation that was interrupted is gone on with.
    """
    moved = 0
    for step in (_datasets, _reads, _releases, _sessions, _webhooks):
        while number := await step(services):
            moved += number
    return moved


async def retire(
    services: Services, path: Path, kind: Kind, key_id: str, *, force: bool = False
) -> dict[str, Any]:
    """Forget an old key. Refused while a row needs it, or while API keys would stop to count."""
    async with services.database.transaction(SYSTEM) as connection:
        if kind == "content" and (number := await _needing(connection, key_id)):
            raise Conflict(
                f"{number} rows cannot be read without this key; `discreet secrets rewrap` moves "
                "them"
            )
        if (
            kind == "jobs"
            and not force
            and (number := await secrets.sealed_jobs(connection, key_id))
        ):
            raise Conflict(
                f"{number} jobs that have not ended were sealed with this key and would fail; "
                "--force does it"
            )
        if kind == "pepper" and not force:
            waiting = await secrets.keys_without_pepper(connection, services.secrets.pepper_id)
            if waiting:
                raise Conflict(
                    f"{waiting} API keys were not used since the rotation and would stop working; "
                    "--force does it"
                )
        if (
            kind == "signing"
            and not force
            and (number := await secrets.signed_results(connection, key_id))
        ):
            raise Conflict(
                f"{number} results were certified with this key and would no longer be returned; "
                "--force does it, `discreet secrets trust` takes it back"
            )
        secrets.retire(path, kind, key_id)  # while nobody can write what would need the key
    return {"kind": kind, "retired": key_id}


async def _needing(connection: AsyncConnection, key_id: str) -> int:
    try:
        return await secrets.needing(connection, key_id)
    except DBAPIError as error:
        if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
            raise
        raise Conflict(
            "contents are being written, perhaps under this key; try again when they are stored"
        ) from None


async def _datasets(services: Services) -> int:
    keys = services.secrets
    async with services.database.transaction(SYSTEM) as connection:
        found = await secrets.datasets_by_others(connection, keys.content_key_id, most=20)
        for row in found:
            try:
                await _move(connection, keys, row)
            except sealing.SealBroken as error:
                raise sealing.SealBroken(
                    f"the content of dataset {row['id']} does not open: erase it, then `discreet "
                    "secrets rewrap`"
                ) from error
    return len(found)


async def _move(connection: AsyncConnection, keys: Secrets, row: dict[str, Any]) -> None:
    """One dataset under the master key in use."""
    wrapped = tamper_seals.wrap(keys, row, tamper_seals.unwrap(keys, row))
    await secrets.rewrapped_dataset(connection, row["id"], keys.content_key_id, wrapped)


async def _reads(services: Services) -> int:
    keys = services.secrets
    async with services.database.transaction(SYSTEM) as connection:
        found = await secrets.reads_by_others(connection, keys.content_key_id)
        for row in found:
            name, old = row["id"], row["content_key_id"]
            try:
                data_key = sealing.unwrap(keys, old, name, bytes(row["wrapped_key"]))
            except sealing.SealBroken as error:
                raise sealing.SealBroken(
                    f"the file {name} that was looked at does not open: wait until its day is "
                    "over, then `discreet secrets rewrap`"
                ) from error
            wrapped = sealing.wrap(keys, name, data_key)
            await secrets.rewrapped_read(connection, name, keys.content_key_id, wrapped)
    return len(found)


async def _releases(services: Services) -> int:
    keys = services.secrets
    async with services.database.transaction(SYSTEM) as connection:
        found = await secrets.releases_by_others(connection, keys.content_key_id)
        for row in found:
            name, old = f"release/{row['job_id']}", row["content_key_id"]
            if row["wrapped_key"] is None:
                new = {"sealed": _again(keys, old, name, row["sealed"])}
            else:
                terms = bytes(row["terms"])
                data_key = sealing.unwrap(keys, old, name, bytes(row["wrapped_key"]), terms)
                new = {"wrapped_key": sealing.wrap(keys, name, data_key, terms)}
            await secrets.moved_release(connection, row["job_id"], keys.content_key_id, **new)
    return len(found)


async def _sessions(services: Services) -> int:
    keys = services.secrets
    async with services.database.transaction(SYSTEM) as connection:
        found = await secrets.sessions_by_others(connection, keys.content_key_id)
        for row in found:
            sealed = _again(keys, row["content_key_id"], f"session/{row['job_id']}", row["sealed"])
            await secrets.resealed_session(connection, row["job_id"], keys.content_key_id, sealed)
    return len(found)


async def _webhooks(services: Services) -> int:
    keys = services.secrets
    async with services.database.transaction(SYSTEM) as connection:
        found = await secrets.webhooks_by_others(connection, keys.content_key_id)
        for row in found:
            sealed = _again(keys, row["content_key_id"], row["id"], row["sealed_secret"])
            await secrets.resealed_webhook(connection, row["id"], keys.content_key_id, sealed)
    return len(found)


def _again(keys: Secrets, key_id: str, name: str, sealed: bytes) -> bytes:
    return sealing.seal_whole(keys, name, sealing.unseal_whole(keys, key_id, name, bytes(sealed)))

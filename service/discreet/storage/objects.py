"""Contents beside the database: files or an object store, as fsspec reaches them. Only sealed bytes
come here.

An object is written before the row that names it, and removed after the row is. So a crash between
the two leaves an object without a row, whose key was never stored: nobody can read it, and the
sweep removes it.

Drivers of object stores raise errors of their own, which need be no OSError (botocore's are none),
and try again for half a minute where nobody answers. So every call of theirs goes through
`Objects._ask`: it waits `SILENT_SECONDS` and no longer, and what it raises is one of

    StorageTrouble   storage_unavailable   nobody answers, or with an error that is none of the
                                           others
                     storage_full          there is no room for more
                     storage_denied        these credentials, or this user, may not do that
    FileNotFoundError
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import fsspec
import structlog
from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import DiscreetError, Unavailable
from discreet.storage.database import Crowded, Impatience, Row, Silent, lock_key, one_of
from discreet.storage.sealing import CHUNK_BYTES, SealBroken
from discreet.storage.tables import JobObject, PublicObject

log = structlog.get_logger()

CONTENTS = re.compile(r"(?:dst|read)_[a-z0-9]+")
"""What contents are stored under: everything else in the same place is somebody else's."""

SILENT_SECONDS = 10.0
"""An object store that says nothing for so long is taken for silent."""

BLOCK_BYTES = 8 << 20
"""So much goes to an object store at once: at 0.8 MB/s it takes no longer than silence may last."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)

Answer = TypeVar("Answer")


class StorageTrouble(Unavailable):
    """The object storage does not answer."""

    code = "storage_unavailable"


class Objects:
    """Contents below one address, by their names. Its calls block, so they belong in threads."""

    def __init__(self, url: str) -> None:
        try:
            self._files, self._root = fsspec.url_to_fs(url, **_impatience(url.partition("://")[0]))
        except ImportError:
            raise Unavailable(
                "the object storage cannot be used: its driver is not installed"
            ) from None
        except Exception:  # a driver's words may repeat the URL, and so a secret in it
            raise Unavailable("the object storage cannot be used: its URL cannot be read") from None
        self._local = "file" in _protocols(self._files)
        self._impatience = Impatience("object-storage")

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Store an object, durably: when this returns it survives a power cut."""
        path = self._path(name)
        self._ask(lambda: self._files.makedirs(self._root, exist_ok=True))
        file = self._ask(
            lambda: self._files.open(
                path, "wb", **({} if self._local else {"block_size": BLOCK_BYTES})
            )
        )
        try:
            for part in parts:
                self._ask(partial(file.write, part))
            if self._local:
                self._ask(lambda: _to_disk(file))
        except BaseException:
            self._give_up(file, path)
            raise
        self._ask(file.close)
        if self._local:
            self._ask(lambda: _folder_to_disk(self._root))

    def read(self, name: str) -> Iterator[bytes]:
        """A content in parts. SealBroken if it does not exist, StorageTrouble if it cannot be
        read."""
        try:
            file = self._ask(lambda: self._files.open(self._path(name), "rb"))
            while part := self._ask(lambda: file.read(CHUNK_BYTES)):
                yield part
            self._ask(file.close)
        except FileNotFoundError as error:
            raise SealBroken("the content does not exist") from error

    def between(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes start..end-1 of a content, in parts. Errors as of `read`; fewer bytes where it
        is shorter."""
        path = self._path(name)
        try:
            for place in range(start, end, BLOCK_BYTES):
                upper = min(end, place + BLOCK_BYTES)
                yield self._ask(partial(self._files.cat_file, path, place, upper))
        except FileNotFoundError as error:
            raise SealBroken("the content does not exist") from error

    def erase(self, name: str) -> None:
        """Remove an object; a missing one is not an error."""
        with suppress(FileNotFoundError):
            self._ask(lambda: self._files.rm_file(self._path(name)))

    def older_than(self, seconds: float) -> list[str]:
        """Names of the objects that were written at least so long ago; files that no object of ours
        can be are not."""
        limit = datetime.now(UTC) - timedelta(seconds=seconds)
        try:
            return [name for name, entry in self._entries() if self._written(entry) <= limit]
        except FileNotFoundError:  # nothing was ever stored
            return []

    def _entries(self) -> list[tuple[str, dict[str, Any]]]:
        found = self._ask(lambda: self._files.ls(self._root, detail=True, refresh=True))
        files = (
            (str(entry["name"]).rpartition("/")[2], entry)
            for entry in found
            if entry["type"] == "file"
        )
        return [(name, entry) for name, entry in files if CONTENTS.fullmatch(name)]

    def _written(self, entry: dict[str, Any]) -> datetime:
        at = entry.get("mtime", entry.get("LastModified"))
        if isinstance(at, int | float):
            return datetime.fromtimestamp(at, UTC)
        if not isinstance(at, datetime):
            at = self._ask(lambda: self._files.modified(entry["name"]))
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def _give_up(self, file: Any, path: str) -> None:
        """Remove the parts of an object that was not written completely, as far as the storage
        allows; the sweep of objects without a row finds the rest."""
        steps: list[Callable[[], object]] = []
        if self._local:
            steps = [file.close, lambda: self._files.rm_file(path)]
        elif (
            discard := getattr(file, "discard", None)
        ) is not None:  # closing would finish the object
            steps = [discard]
        for step in steps:
            with suppress(DiscreetError, OSError):
                self._ask(step)

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        """What the driver answers. FileNotFoundError as it is; any other error of its is a
        StorageTrouble."""
        try:
            return call() if self._local else self._within_time(call)
        except (FileNotFoundError, DiscreetError):
            raise
        except Exception as error:
            found = _trouble(error)
            # Its name and where it is from, not its words: they may hold an address or a key of the
            # storage.
            named = f"{type(error).__module__}.{type(error).__qualname__}"
            log.warning(
                "object storage failed",
                code=found.code,
                error=named,
                errno=getattr(error, "errno", None),
            )
            raise found from error

    def _within_time(self, call: Callable[[], Answer]) -> Answer:
        try:
            return self._impatience.within(SILENT_SECONDS, call)
        except Crowded:
            raise StorageTrouble(
                "the object storage is silent, and enough calls wait for it; try again"
            ) from None
        except Silent:
            raise StorageTrouble(
                f"the object storage said nothing for {SILENT_SECONDS:g} s; try again"
            ) from None

    def _path(self, name: str) -> str:
        if not CONTENTS.fullmatch(name):
            raise ValueError("not the name of an object")
        return f"{self._root.rstrip('/')}/{name}"


def _impatience(protocol: str) -> dict[str, Any]:
    """What makes a driver give up about when we do: s3fs would let a thread wait for minutes,
    trying again 25 times. Settings of fsspec's own (`FSSPEC_S3`) win."""
    if protocol not in ("s3", "s3a"):
        return {}
    own = fsspec.config.conf.get(protocol, {}).get("config_kwargs", {})
    patience = {
        "connect_timeout": SILENT_SECONDS,
        "read_timeout": SILENT_SECONDS,
        "retries": {"total_max_attempts": 1},
    }
    return {"config_kwargs": {**patience, **own}}


def _trouble(error: Exception) -> StorageTrouble:
    number = getattr(error, "errno", None)
    if number in _FULL:
        return StorageTrouble("the object storage has no room for more", code="storage_full")
    if isinstance(error, PermissionError) or number in _DENIED:
        return StorageTrouble(
            "the object storage does not let this service in", code="storage_denied"
        )
    return StorageTrouble("the object storage does not answer, or with an error; try again")


def _to_disk(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)


# Public objects -----------------------------------------------------------------------------------
# Public objects and which jobs name them.

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

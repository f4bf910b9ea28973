"""Backups of a PostgreSQL of one's own in an object storage, and the way back to any moment:
`discreet archive …`.

    base/TIME.tar.gz    a copy of the whole server (pg_basebackup) that began at TIME
    base/TIME.json      when it began and ended, its size and SHA-256; a copy without it is none
    wal/NAME.gz         the write-ahead log since, file by file, as `archive_command` of PostgreSQL
                        hands them over
    server.json         which server all of this is of: its system identifier

A restore takes the newest copy that ended before the moment, and PostgreSQL itself replays its log
up to there, asking for each file by its `restore_command` (`archived_log`). Whoever reads the
archive has what whoever reads the database has: contents are sealed in it, the keys are not there.
The secrets file is kept apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

import psycopg
from psycopg.conninfo import make_conninfo

from discreet.errors import DiscreetError
from discreet.installation.archived_log import (
    PART_BYTES,
    BadArchive,
    claim,
    place,
    zipped,
)
from discreet.installation.binaries import Binaries
from discreet.private_files import sync_folder
from discreet.settings import CONNECT_SECONDS, Settings
from discreet.storage.database import url_parameters
from discreet.storage.objects import Objects

_BASE_OBJECT = re.compile(r"[0-9]{8}T[0-9]{6}Z\.(tar\.gz|json)")

RECOVERY = """
# Written by `discreet archive restore`: PostgreSQL replays the archive and then goes on from there.
restore_command = '{command} archive fetch "%f" "%p"{server}'
recovery_target_action = 'promote'
"""


def copy_base(settings: Settings) -> dict[str, Any]:
    """Copy the whole server into the archive while it runs; returns what `base/TIME.json` says.

    It waits until the log that the copy needs is archived, so without a working `archive_command`
    it does not end.
    """
    if settings.archive_database_url is None:
        raise DiscreetError(
            "DISCREET_ARCHIVE_DATABASE_URL is not set: a role with REPLICATION (docs/operations.md)"
        )
    objects, began = _base(settings), datetime.now(UTC).replace(microsecond=0)
    name = f"{began:%Y%m%dT%H%M%SZ}"
    password, address = _address(settings.archive_database_url)
    claim(settings, _server_at(settings.archive_database_url))
    options = (
        "--pgdata=-",
        "--format=tar",
        "--wal-method=none",
        "--checkpoint=fast",
        "--no-password",
    )
    digest, size = hashlib.sha256(), 0

    def counted(parts: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal size
        for part in parts:
            digest.update(part)
            size += len(part)
            yield part

    with subprocess.Popen(
        [Binaries.find().program("pg_basebackup"), *options, f"--dbname={address}"],
        env={"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath, **password},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        try:
            objects.write(f"{name}.tar.gz", counted(zipped(_output(program.stdout))))
        except BaseException:
            program.kill()
            raise
        said = program.stderr.read().decode(errors="replace").strip().splitlines()
    if program.returncode != 0:
        with suppress(DiscreetError):
            objects.erase(f"{name}.tar.gz")
        raise DiscreetError(
            f"pg_basebackup failed: {said[-1] if said else f'status {program.returncode}'}"
        )
    described = {
        "began": _written(began),
        "ended": _written(datetime.now(UTC)),
        "bytes": size,
        "sha256": digest.hexdigest(),
    }
    objects.write(f"{name}.json", [json.dumps(described).encode()])
    return described


def bases(settings: Settings) -> list[dict[str, Any]]:
    """What is said of each whole copy, oldest first."""
    objects, found = _base(settings), []
    for name in sorted(name for name in objects.names() if name.endswith(".json")):
        try:
            described: dict[str, Any] = json.loads(b"".join(objects.parts(name)))
            _moment(described["ended"]), str(described["sha256"])
        except (ValueError, TypeError, KeyError, FileNotFoundError):
            raise BadArchive(f"base/{name} of the archive cannot be read") from None
        found.append({**described, "name": name.removesuffix(".json")})
    return found


def restore_base(
    settings: Settings, folder: Path, at: datetime | None, command: str = "discreet"
) -> dict[str, Any]:
    """Make a data folder of PostgreSQL, which must not exist: started, the server replays the
    archive up to `at` (None: to its end) and takes changes from there on. Returns what is said of
    the copy that was taken.

    `command` is how the server's own user calls this program. BadArchive where no copy ended before
    `at`, or where the copy is not as it was written; nothing is left behind then.
    """
    if os.path.lexists(folder):
        raise DiscreetError(f"{folder} exists already")
    fitting = [one for one in bases(settings) if at is None or _moment(one["ended"]) <= at]
    if not fitting:
        raise BadArchive(
            "no copy of the server in the archive was complete before that moment"
            if at
            else "the archive holds no copy"
        )
    chosen, objects = fitting[-1], _base(settings)
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700)
        source = _Checked(objects.parts(f"{chosen['name']}.tar.gz"))
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r|gz") as archive:
                archive.extractall(draft, filter="data")
            source.drain()
        except (tarfile.TarError, EOFError, zlib.error, FileNotFoundError, OSError) as error:
            if (
                isinstance(error, OSError)
                and not isinstance(error, FileNotFoundError)
                and error.errno
            ):
                raise
            raise BadArchive(f"base/{chosen['name']}.tar.gz of the archive is damaged") from error
        if source.digest.hexdigest() != chosen["sha256"]:
            raise BadArchive(
                f"base/{chosen['name']}.tar.gz of the archive is not as it was written"
            )
        for path in draft.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        with (draft / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            server = _server_in(draft)
            option = "" if server is None else f" --server {server}"
            file.write(RECOVERY.format(command=command.replace("'", "''"), server=option))
            if at is not None:
                file.write(
                    f"recovery_target_time = '{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f+00}'\n"
                )
        (draft / "recovery.signal").touch(mode=0o600)
        draft.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise DiscreetError(f"{folder} cannot be made: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return chosen


class _Checked:
    """A file of the archive as tarfile reads it, and the digest of all that came."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self.digest = hashlib.sha256()
        self._parts, self._left = parts, b""

    def read(self, size: int) -> bytes:
        while len(self._left) < size and (part := next(self._parts, b"")):
            self.digest.update(part)
            self._left += part
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def drain(self) -> None:
        while self.read(PART_BYTES):
            pass


def _server_at(url: str) -> int:
    """The system identifier of a running server, as a role with REPLICATION asks for it."""
    try:
        with psycopg.connect(
            make_conninfo(**url_parameters(url)),
            replication="true",
            autocommit=True,
            connect_timeout=int(CONNECT_SECONDS),
        ) as connection:
            row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    except psycopg.Error as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise DiscreetError(
            f"the server gives no copy to DISCREET_ARCHIVE_DATABASE_URL: {said[-1]}"
        ) from None
    assert row is not None
    return int(row[0])


def _server_in(data: Path) -> int | None:
    """The system identifier of a data folder; None where it does not say."""
    try:
        with (data / "global/pg_control").open("rb") as file:
            (found,) = struct.unpack("=Q", file.read(8))
    except (FileNotFoundError, struct.error):
        return None
    return int(found)


def _base(settings: Settings) -> Objects:
    return place(settings, "base", _BASE_OBJECT)


def _output(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(PART_BYTES), b"")


def _address(url: str) -> tuple[dict[str, str], str]:
    """The environment with the password, which no other user may read on a command line, and the
    address without."""
    parts: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **url_parameters(url)}
    password = parts.pop("password", None)
    return {} if password is None else {"PGPASSWORD": str(password)}, make_conninfo(**parts)


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)

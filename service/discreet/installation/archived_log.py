"""The write-ahead log of a server in its archive (`discreet.installation.archive`), file by file as
PostgreSQL hands them over and asks for them again.

A server that recovers takes whatever does not fit for the end of its log, and goes on from there.
So what is of another server, or missing with more behind it, is told from an end here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from discreet.errors import DiscreetError
from discreet.settings import Settings
from discreet.storage.objects import Objects

PART_BYTES = 1 << 20
GZIP = 16 + zlib.MAX_WBITS

WAL_NAME = re.compile(r"[0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?|[0-9A-F]{8}\.history")
"""What PostgreSQL archives: segments, the last one of a timeline that ended, notes of backups,
histories."""
_WAL_OBJECT = re.compile(rf"({WAL_NAME.pattern})\.gz")
_SERVER_OBJECT = re.compile(r"server\.json")

_SEGMENT = re.compile(r"[0-9A-F]{24}(\.partial)?")
_PAGE = struct.Struct("=HHIQI4xQII")
"""The head of a segment's first page (XLogLongPageHeaderData of PostgreSQL): magic, flags,
timeline, address, remainder, system identifier, size of a segment, size of a page."""
_IS_LONG = 2


class BadArchive(DiscreetError):
    """The archive does not hold what is asked of it."""

    code = "bad_archive"


class NotArchived(BadArchive):
    """PostgreSQL asks for a file of its log that was never archived: past the end of the archive,
    that is usual."""

    code = "not_archived"


def put_wal(settings: Settings, path: Path) -> bool:
    """Archive a file of the write-ahead log; False where it was there already. When this returns,
    it is kept.

    BadArchive where the archive is another server's, or another file of this name is kept: two
    servers write into one archive, and neither may go on.
    """
    if not WAL_NAME.fullmatch(path.name):
        raise BadArchive(f"{path.name} is not a file of a write-ahead log")
    objects, name = _wal(settings), f"{path.name}.gz"
    with path.open("rb") as file:
        if _SEGMENT.fullmatch(path.name):
            claim(settings, _server_of(file.read(_PAGE.size), path.name))
            file.seek(0)
        kept = _digest_kept(objects, name)
        given = hashlib.file_digest(file, "sha256").digest()
        if kept is not None:
            if kept != given:
                raise BadArchive(
                    f"another {path.name} is archived: does a second server write to "
                    "DISCREET_ARCHIVE_URL?"
                )
            return False
        file.seek(0)
        objects.write(name, zipped(iter(lambda: file.read(PART_BYTES), b"")))
    return True


def fetch_wal(settings: Settings, name: str, target: Path, server: int | None = None) -> None:
    """Write an archived file of the log to `target`, whole or not at all; NotArchived where there
    is none and none behind it.

    BadArchive where it is damaged, of another server than that with the system identifier `server`,
    or missing between others of its timeline: PostgreSQL would take each for the end of its log.
    """
    if not WAL_NAME.fullmatch(name):
        raise NotArchived(f"{name} is not a file of a write-ahead log")
    draft = target.with_name(f"{target.name}.fetching")
    try:
        with draft.open("wb") as file:
            for part in _unzipped(_wal(settings).parts(f"{name}.gz"), name):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if server is not None and _SEGMENT.fullmatch(name):
            with draft.open("rb") as file:
                if _server_of(file.read(_PAGE.size), name) != server:
                    raise BadArchive(f"{name} of the archive is of another server")
        draft.replace(target)
    except FileNotFoundError:
        if (behind := _behind(settings, name)) is not None:
            raise BadArchive(
                f"{name} is missing from the archive, which has {behind} of the same timeline"
            ) from None
        raise NotArchived(f"{name} is not in the archive") from None
    finally:
        draft.unlink(missing_ok=True)


# Whose log it is ----------------------------------------------------------------------------------


def _server_of(head: bytes, name: str) -> int:
    """The system identifier in the head of a segment; BadArchive where it is not that of the
    segment of this name."""
    log, segment = int(name[8:16], 16), int(name[16:24], 16)
    try:
        _, flags, _, address, _, server, size, _ = _PAGE.unpack(head)
    except struct.error:
        flags = 0
    if not flags & _IS_LONG or address != (log << 32) + segment * size:
        raise BadArchive(f"{name} does not begin as this file of a write-ahead log does")
    return int(server)


def claim(settings: Settings, server: int) -> None:
    """The archive is this server's from now on; BadArchive where it is another's."""
    objects = place(settings, "", _SERVER_OBJECT)
    try:
        kept = int(json.loads(b"".join(objects.parts("server.json")))["system"])
    except FileNotFoundError:
        objects.write("server.json", [json.dumps({"system": str(server)}).encode()])
        return
    except (ValueError, TypeError, KeyError):
        raise BadArchive("server.json of the archive cannot be read") from None
    if kept != server:
        raise BadArchive(
            f"the archive is that of server {kept}, and this is {server}: give each its own "
            "DISCREET_ARCHIVE_URL"
        )


def _behind(settings: Settings, name: str) -> str | None:
    """A file of the log behind one that is missing, on its timeline; None where it is the end."""
    if not _SEGMENT.fullmatch(name):
        return None
    objects, log = _wal(settings), int(name[8:16], 16)
    places = [name[:8] + f"{one:08X}" for one in (log, log + 1)]
    found = [one.removesuffix(".gz") for place in places for one in objects.beginning(place)]
    return min(
        (one for one in found if _SEGMENT.fullmatch(one) and one[:24] > name[:24]), default=None
    )


def place(settings: Settings, folder: str, names: re.Pattern[str]) -> Objects:
    if settings.archive_url is None:
        raise DiscreetError(
            "DISCREET_ARCHIVE_URL is not set: where the archive lies (docs/operations.md)"
        )
    return Objects(f"{settings.archive_url.rstrip('/')}/{folder}", names)


def _wal(settings: Settings) -> Objects:
    return place(settings, "wal", _WAL_OBJECT)


def zipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(level=1, wbits=GZIP)
    for part in parts:
        if packed := packer.compress(part):
            yield packed
    yield packer.flush()


def _unzipped(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
    """BadArchive where it is no whole gzip."""
    unpacker = zlib.decompressobj(wbits=GZIP)
    try:
        for part in parts:
            yield unpacker.decompress(part)
    except zlib.error:
        raise BadArchive(f"{name} of the archive is damaged") from None
    if not unpacker.eof or unpacker.unused_data:
        raise BadArchive(f"{name} of the archive is damaged")


def _digest_kept(objects: Objects, name: str) -> bytes | None:
    """The digest of what is kept under this name; None where nothing is, or a part of it that a
    crash left."""
    digest = hashlib.sha256()
    try:
        for part in _unzipped(objects.parts(name), name):
            digest.update(part)
    except (FileNotFoundError, BadArchive):
        return None
    return digest.digest()

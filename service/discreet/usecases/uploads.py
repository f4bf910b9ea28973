"""Uploads on their way to a reader: sealed as they come, in a file without a name, under a key in
memory only."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import structlog

from discreet.errors import DiscreetError, Limit, PayloadTooLarge, TooManyUploads, Unavailable
from discreet.isolation.children import (
    ChildFailed,
    CpuLimit,
    Crashed,
    Limits,
    MemoryLimit,
    NotIsolated,
    NotStarted,
    Raised,
    WallLimit,
    Zygote,
)
from discreet.isolation.json_contents import json_bytes
from discreet.isolation.processes import set_aside
from discreet.isolation.reading import UPLOAD, target_bytes
from discreet.settings import Settings
from discreet.storage.sealing import ChunkCipher, SealedWriter, new_data_key
from discreet.usecases.content_sizes import ContentSizes

log = structlog.get_logger()

Format = Literal["parquet", "csv", "json", "xlsx", "omx"]
OWN_FORMS = ("xlsx", "omx")
"""Files that are read by a description only."""

FORMATS: Mapping[Format, tuple[tuple[str, ...], str]] = {
    "json": ((".json",), "application/json"),
    "csv": ((".csv", ".tsv", ".txt"), "text/csv"),
    "xlsx": (
        (".xlsx", ".xlsm"),
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    "omx": ((".omx",), "application/x-hdf5"),
}
"""Ends of names, and media types."""

CPU_SECONDS, WALL_SECONDS = 3600, 7200.0
"""The most that reading one upload may take."""
LOOK_SECONDS = 300
"""Of processor time that a look at a file may take: a million trips take 2."""
SPOOLED = 4
"""To how many times the largest content a file may grow in which the reader puts rows aside: they
come with their owners and numbers."""
ANSWER_BYTES = 1 << 28
"""Of the reader's answer, which the API holds: the public part with what is described of the
content."""


class NoRoom(Unavailable):
    """The upload cannot be kept while it is read."""

    code = "spool_unavailable"

    def __init__(self, error: OSError) -> None:
        log.error(
            "no room in the spool",
            error=errno.errorcode.get(error.errno or 0),
            path=error.filename,
        )
        why = os.strerror(error.errno or 0)
        super().__init__(
            f"the upload cannot be stored while it is read (DISCREET_SPOOL): {why}; nothing was "
            "registered"
        )


class NoReader(Unavailable):
    """The reader of uploads does not start; nothing was registered."""

    code = "reader_not_started"


class FileClosed(Exception):
    """Nobody waits for what is written any more."""


class SealedFile:
    """A file without a name: it is gone with its last descriptor, also when this process is
    killed."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.descriptor = _nameless(folder)
        except OSError as error:
            raise NoRoom(error) from error
        self._reading = -1
        self._writing = threading.Lock()

    def append(self, part: bytes) -> None:
        """FileClosed once it is closed: whoever fetches in a thread may be given up meanwhile."""
        view = memoryview(part)
        with self._writing:  # else its number could be another file's when it is written to
            if self.descriptor < 0:
                raise FileClosed
            try:
                while view:
                    view = view[os.write(self.descriptor, view) :]
            except OSError as error:
                raise NoRoom(error) from error

    def reserve(self, size: int) -> None:
        """Take so much room on the disk, whatever is written later: NoRoom if there is less. On
        file systems that set no room aside it is looked for, and not taken."""
        try:
            if not set_aside(self.descriptor, size):
                found = os.fstatvfs(self.descriptor)
                if found.f_bavail * found.f_frsize < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise NoRoom(error) from error

    def write_at(self, place: int, part: bytes) -> None:
        """Write at a place of a file that is not written in order."""
        view = memoryview(part)
        try:
            while view:
                count = os.pwrite(self.descriptor, view, place)
                view, place = view[count:], place + count
        except OSError as error:
            raise NoRoom(error) from error

    def to_read(self) -> int:
        """A descriptor of it by which nothing can be written, until it is closed. NoRoom where the
        file system opens no file without a name again."""
        if self._reading < 0:
            try:
                self._reading = os.open(
                    f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC
                )
            except OSError as error:
                raise NoRoom(error) from error
        return self._reading

    def parts(self, size: int) -> Iterator[bytes]:
        """Its bytes from the beginning, in parts of `size`."""
        offset = 0
        while part := os.pread(self.descriptor, size, offset):
            offset += len(part)
            yield part

    def close(self) -> None:
        """Once or more often."""
        with self._writing:
            for descriptor in (self.descriptor, self._reading):
                if descriptor >= 0:
                    os.close(descriptor)
            self.descriptor = self._reading = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Turns:
    """Contents that are received and registered at once in this process, counted by tenant."""

    AGAIN_SECONDS = 5

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._going_on: Counter[str] = Counter()

    @contextmanager
    def turn(self, tenant_id: str) -> Iterator[None]:
        """One of the tenant's turns, from the first byte of a content until it is registered.
        TooManyUploads."""
        if self._going_on[tenant_id] >= self._at_once:
            limit = Limit("tenant_uploads", "uploads", self._at_once, self._at_once + 1)
            raise TooManyUploads(limit, self.AGAIN_SECONDS)
        self._going_on[tenant_id] += 1
        try:
            yield
        finally:
            self._going_on[tenant_id] -= 1
            if not self._going_on[tenant_id]:
                del self._going_on[tenant_id]


class Upload:
    """A file that is being received: what is written is on disk sealed only, and never in memory as
    a whole."""

    def __init__(self, folder: Path) -> None:
        self.file = SealedFile(folder)
        self.key = new_data_key()
        self.format: Format = "parquet"
        self.parts: list[int] = []
        """The lengths of the files that follow each other in it; empty: it is one."""
        self._writer = SealedWriter(ChunkCipher(self.key, UPLOAD), self.file.append)
        self._sizes: tuple[int, int] | None = None

    @classmethod
    def kept(cls, folder: Path, key: bytes, form: Format, plain: int, sealed: int) -> Self:
        """One that was received before: its sealed bytes are to be appended to its file."""
        upload = cls(folder)
        upload.key, upload.format, upload._sizes = key, form, (plain, sealed)
        return upload

    @property
    def plain_bytes(self) -> int:
        return self._writer.plain_bytes if self._sizes is None else self._sizes[0]

    @property
    def sealed_bytes(self) -> int:
        return self._writer.sealed_bytes if self._sizes is None else self._sizes[1]

    def write(self, part: memoryview | bytes) -> None:
        self._writer.write(part)

    def end_part(self) -> None:
        """A file ends here."""
        self.parts.append(self.plain_bytes - sum(self.parts))

    def finish(self) -> None:
        self._writer.finish()

    def close(self) -> None:
        self.file.close()


def format_of(filename: str, content_type: str) -> Format:
    """What a file is, by its name or its media type: Parquet, unless they say otherwise."""
    return next(
        (
            form
            for form, (ends, media_type) in FORMATS.items()
            if filename.lower().endswith(ends) or content_type == media_type
        ),
        "parquet",
    )


def _nameless(folder: Path) -> int:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    # A file system that cannot (older overlays, NFS): the name is gone before anything is written.
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)
    return descriptor


@dataclass(frozen=True)
class Read:
    """A content as the reader left it: sealed under the data key, in a file without a name."""

    digest: bytes
    public: dict[str, Any]
    file: SealedFile
    sealed_bytes: int
    notes: Sequence[str] = ()
    """What was left out or changed, for the owner alone."""
    zone_names: bytes | None = None
    """The keyed digest of the names of its zones, in their order."""


def reading_job(
    settings: Settings,
    digest_key: bytes,
    *,
    tenant: str,
    kind: str,
    public: Any,
    mode: str,
    name: str,
    data_key: bytes,
    block: Mapping[str, str] | None,
    most_bytes: int | None,
    accept_doubts: bool = True,
    described: bool = False,
    zones: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What the reader is told of an upload (`isolation.reading`), but for the upload itself: its
    content will be sealed under `name`. `public` is the kind's model; `most_bytes` are a
    block's; `accept_doubts`: it is not asked whether the content can be right, as of one that is
    registered; `described`: it is read by its description, whole, with these names of zones."""
    sizes = ContentSizes.of(settings)
    return {
        "kind": kind,
        "public": public.model_dump(mode="json"),
        "mode": mode,
        "tenant": tenant,
        "name": name,
        "data_key": data_key.hex(),
        "digest_key": digest_key.hex(),
        "content_bytes": sizes.max_bytes(kind, public, most_bytes),
        "block": block,
        "accept_doubts": accept_doubts,
        "described": described,
        "zones": zones,
        "memory_bytes": settings.job_memory_bytes,
    }


class Reader:
    """Reads uploads in sandboxed children, at most `at_once` at a time."""

    def __init__(self, children: Zygote, at_once: int) -> None:
        self._children, self._at_once = children, at_once
        self._slots: asyncio.Semaphore | None = None

    async def read(
        self,
        upload: Upload,
        folder: Path,
        job: dict[str, Any],
        memory_bytes: int,
        *,
        logged: bool = True,
    ) -> Read:
        """The content of an upload. InvalidInput and PayloadTooLarge as the owner shall see them;
        Unavailable, with the true cause or the word that it is not known, where the upload could
        not be read.

        `job` holds kind, public, tenant, name, keys and the limit of the content (see
        `isolation.reading`). With `logged` the log says of what a reader ended, now.
        """
        limits = Limits(
            memory_bytes,
            CPU_SECONDS,
            WALL_SECONDS,
            SPOOLED * target_bytes(job["content_bytes"]),
            ANSWER_BYTES,
            json_bytes(upload.plain_bytes)
            if upload.format == "json" and not job["described"]
            else 0,
        )
        given = _given(upload) | {"upload_parts": upload.parts}
        async with self._turn():
            target = SealedFile(folder)
            try:
                with SealedFile(folder) as rows, SealedFile(folder) as runs:
                    files = (upload.file, target, rows, runs)
                    found, _ = await self._children.call(
                        "read",
                        {**job, **given},
                        b"",
                        limits,
                        tuple(file.descriptor for file in files),
                    )
                if "no_room" in found:
                    raise NoRoom(OSError(found["no_room"], ""))
                read = Read(
                    bytes.fromhex(found["digest"]),
                    found["public"],
                    target,
                    found["sealed_bytes"],
                    found["notes"],
                    bytes.fromhex(found["zone_names"]) if "zone_names" in found else None,
                )
            except ChildFailed as failure:
                target.close()
                raise _refused(failure, limits, logged) from failure
            except BaseException:
                target.close()
                raise
        return read

    async def preview(
        self, upload: Upload, job: dict[str, Any], memory_bytes: int
    ) -> dict[str, Any]:
        """What an upload would be read as (`isolation.reading.preview`). Errors as of `read`."""
        # Its child holds one of few places.
        limits = Limits(memory_bytes, LOOK_SECONDS, WALL_SECONDS, 0, ANSWER_BYTES, 0)
        found, _ = await self.call(
            "preview", {**job, **_given(upload)}, b"", limits, (upload.file.descriptor,)
        )
        return found

    async def call(
        self,
        step: str,
        arguments: dict[str, Any],
        payload: bytes | bytearray,
        limits: Limits,
        descriptors: tuple[int, ...] = (),
    ) -> tuple[dict[str, Any], bytes]:
        """What a step of the reader makes of bytes that are at hand (`Zygote.call`). Errors as of
        `read`."""
        async with self._turn():
            try:
                return await self._children.call(step, arguments, payload, limits, descriptors)
            except ChildFailed as failure:
                raise _refused(failure, limits) from failure

    def _turn(self) -> asyncio.Semaphore:
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._at_once)
        return self._slots


def _given(upload: Upload) -> dict[str, Any]:
    """What a child opens an upload with."""
    return {
        "format": upload.format,
        "upload_key": upload.key.hex(),
        "upload_bytes": upload.sealed_bytes,
    }


def _refused(failure: ChildFailed, limits: Limits, logged: bool = True) -> DiscreetError:
    """What the owner of an upload is told of a child that ended without an answer."""
    match failure:
        case MemoryLimit():
            return PayloadTooLarge(f"reading the file takes more memory than {limits.most_memory}")
        case CpuLimit():
            return PayloadTooLarge(
                f"reading the file takes longer than {limits.cpu_seconds} s of processor time"
            )
        case WallLimit():
            return PayloadTooLarge(f"reading the file takes longer than {limits.wall_seconds:g} s")
        case NotIsolated():
            return Unavailable(failure.detail, code="not_isolated")
        case NotStarted():
            return NoReader(f"the upload cannot be read: {failure.detail}; nothing was registered")
    if logged:
        log.error(
            "an upload's reader ended without an answer", cause=failure.code, detail=failure.detail
        )
    why = failure.detail if isinstance(failure, Crashed | Raised) else "why is not known"
    detail = f"the reader of the upload ended without an answer: {why}; nothing was registered"
    return Unavailable(detail, code="not_read")

"""Uploads on their way to a reader: sealed as they come, in a file without a name, under a key in memory only."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import anyio.to_thread
import structlog

from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge, Unavailable
from discreet.isolation.reading import MODULE, UPLOAD, receive, send
from discreet.storage.sealing import ChunkCipher, SealedWriter, new_data_key

log = structlog.get_logger()

Format = Literal["parquet", "csv", "json"]


class NoRoom(Unavailable):
    """The upload cannot be kept while it is read."""

    code = "spool_unavailable"

    def __init__(self, error: OSError) -> None:
        log.error("no room for an upload", error=errno.errorcode.get(error.errno or 0), path=error.filename)
        why = os.strerror(error.errno or 0)
        super().__init__(f"the upload cannot be kept while it is read (DISCREET_SPOOL): {why}; nothing was registered")


class NoReader(Unavailable):
    """The reader of uploads does not start; nothing was registered."""

    code = "reader_not_started"


class SealedFile:
    """A file without a name: it is gone with its last descriptor, also when this process is killed."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.descriptor = _nameless(folder)
        except OSError as error:
            raise NoRoom(error) from error

    def append(self, part: bytes) -> None:
        view = memoryview(part)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError as error:
            raise NoRoom(error) from error

    def parts(self, size: int) -> Iterator[bytes]:
        """Its bytes from the beginning, in parts of `size`."""
        offset = 0
        while part := os.pread(self.descriptor, size, offset):
            offset += len(part)
            yield part

    def close(self) -> None:
        """Once or more often."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Upload:
    """A file that is being received: what is written is on disk sealed only, and never in memory as a whole."""

    def __init__(self, folder: Path) -> None:
        self.file = SealedFile(folder)
        self.key = new_data_key()
        self.format: Format = "parquet"
        self._writer = SealedWriter(ChunkCipher(self.key, UPLOAD), self.file.append)

    @property
    def plain_bytes(self) -> int:
        return self._writer.plain_bytes

    @property
    def sealed_bytes(self) -> int:
        return self._writer.sealed_bytes

    def write(self, part: memoryview | bytes) -> None:
        self._writer.write(part)

    def finish(self) -> None:
        self._writer.finish()

    def close(self) -> None:
        self.file.close()


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


class Reader:
    """The reader process, started at the first upload and again when it died. At most `at_once` children."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._slots: asyncio.Semaphore | None = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def read(self, upload: Upload, folder: Path, job: dict[str, Any]) -> Read:
        """The content of an upload. InvalidInput and PayloadTooLarge as the owner shall see them.

        `job` holds kind, public, tenant, name, keys and limits (see `reading`).
        """
        if self._slots is None:
            self._slots = asyncio.Semaphore(self._at_once)
        async with self._slots:
            target = SealedFile(folder)
            try:
                found = await anyio.to_thread.run_sync(self._exchange, upload, target, job)
                if "issues" in found:
                    raise InvalidInput((FieldIssue(*issue) for issue in found["issues"]), code=found["code"])
                if "too_large" in found:
                    raise PayloadTooLarge(found["too_large"])
                if "no_room" in found:
                    raise NoRoom(OSError(found["no_room"], ""))
            except BaseException:
                target.close()
                raise
        return Read(bytes.fromhex(found["digest"]), found["public"], target, found["sealed_bytes"])

    def stop(self) -> None:
        """End the reader process."""
        with self._lock:
            self._stop()

    def _exchange(self, upload: Upload, target: SealedFile, job: dict[str, Any]) -> dict[str, Any]:
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._hand_over([theirs.fileno(), upload.file.descriptor, target.descriptor])
            upload_key, size = upload.key.hex(), upload.sealed_bytes
            try:
                send(ours, {**job, "format": upload.format, "upload_key": upload_key, "upload_bytes": size})
                return receive(ours)
            except (EOFError, OSError):
                return {"too_large": f"the file could not be read within {job['memory_bytes']} bytes of memory"}

    def _hand_over(self, descriptors: list[int]) -> None:
        with self._lock:
            for _ in range(2):
                if self._control is None or self._process is None or self._process.poll() is not None:
                    self._start()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [b"j"], descriptors)
                    return
                except OSError:
                    self._stop()
        raise NoReader()

    def _start(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair()
        # Nothing of the environment that names a database or a secret.
        kept = ("PATH", "HOME", "LANG", "TMPDIR", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYTHONPATH")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                env={**environment, **single},
                stdin=subprocess.DEVNULL,
            )
        if ours.recv(1) != b"r":
            ours.close()
            self._stop()
            raise NoReader()
        self._control = ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._control = None

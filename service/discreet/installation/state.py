"""The state folder: one owner at a time, private files, logs of bounded size.

Ownership is a kernel lock (`flock`) on the file `lock`. The kernel releases it when its process
ends, so it is never stale. The file's content only tells people who the owner is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from discreet.errors import DiscreetError, StateHeld
from discreet.private_files import write_private

LOG_BYTES = 10_000_000

FORMAT = 1
"""Version of the layout of a state folder; the database in it has a schema version of its own."""

RESTORING = "restoring"
"""A file that exists until a restore is complete."""


def claim_format(state: Path) -> None:
    """Write the layout's version into a new state folder. DiscreetError if the folder has another
    version, or a restore into it did not finish. The caller holds the folder's lock."""
    if (state / RESTORING).exists():
        raise DiscreetError(
            f"a restore into {state} did not finish: remove the folder and restore again",
            code="state_unfinished",
        )
    place = state / "format.json"
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        number, writer = int(found["format"]), str(found["discreet"])
    except FileNotFoundError:
        write_private(place, json.dumps({"format": FORMAT, "discreet": version("discreet")}))
        return
    except (ValueError, TypeError, KeyError) as error:
        raise DiscreetError(
            f"{place} cannot be read: it must name the format of the folder"
        ) from error
    if number != FORMAT:
        raise DiscreetError(
            f"the state folder {state} has format {number} of discreet {writer}; this is discreet "
            f"{version('discreet')} with format {FORMAT}: use that version, or another folder",
            code="state_version",
        )


class StateLock:
    """Single ownership of a state folder, from `acquire` to `release` or the end of the process."""

    def __init__(self, state: Path) -> None:
        self.path = state / "lock"
        self._file: int | None = None

    def acquire(self, address: str | None = None) -> None:
        """Take the lock; StateHeld, with the owner's pid and address, if another process has it."""
        if self._file is not None:
            return
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StateHeld(
                    f"the state folder {self.path.parent} is held by {self._owner()}"
                ) from None
            raise DiscreetError(f"cannot lock {self.path}: {error.strerror}") from error
        self._file = file
        self.announce(address)

    def announce(self, address: str | None) -> None:
        """Write the owner's address into the lock file, for others to read."""
        if self._file is None:
            raise RuntimeError("the lock is not held")
        text = json.dumps({"pid": os.getpid(), "address": address}).encode()
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))

    def release(self) -> None:
        # The file stays: if it were unlinked, two processes could lock two files of this name.
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _owner(self) -> str:
        for _ in range(50):  # an owner that has just started may not have written yet
            try:
                owner = json.loads(self.path.read_bytes())
            except (OSError, ValueError):
                time.sleep(0.02)
                continue
            where = f" ({owner['address']})" if owner.get("address") else ""
            return f"process {owner['pid']}{where}"
        return "another process"

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class LogFile:
    """A log that a child process appends to; above `limit` bytes it is moved to `<name>.1`.

    The child writes into the file itself, not into a pipe: it can neither block on its supervisor
    nor lose its last lines. So rotation copies and truncates the file, and may lose a line that is
    written at that very moment.
    """

    def __init__(self, path: Path, limit: int = LOG_BYTES) -> None:
        self.path = path
        self._limit = limit
        self._shown: int | None = None

    def open(self) -> int:
        """A descriptor for the child to append with; `follow` shows what is written after the first
        call."""
        file = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        if self._shown is None:
            self._shown = os.fstat(file).st_size
        return file

    def write(self, text: str) -> None:
        """Append text of the supervisor's own; errors are ignored."""
        with contextlib.suppress(OSError):
            file = self.open()
            try:
                os.write(file, text.encode())
            finally:
                os.close(file)

    def rotate(self) -> None:
        """Move the content to `<name>.1` if it is over the limit."""
        try:
            if self.path.stat().st_size <= self._limit:
                return
            old, new = (
                self.path.with_name(self.path.name + ".1"),
                self.path.with_name(self.path.name + ".new"),
            )
            shutil.copyfile(self.path, new)
            new.chmod(0o600)
            new.replace(old)
            os.truncate(self.path, 0)
            self._shown = 0
        except OSError:
            return  # a full disk must not end the supervisor

    def follow(self, out: BinaryIO) -> None:
        """Copy what was appended since the last call."""
        try:
            with self.path.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                stream.seek(self._shown if self._shown is not None and self._shown <= size else 0)
                out.write(stream.read())
                self._shown = stream.tell()
            out.flush()
        except OSError:
            return

    @property
    def last(self) -> str:
        """The last line and the path of the log, for a message of one line."""
        try:
            with self.path.open("rb") as stream:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - 4096))
                lines = stream.read().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{lines[-1] if lines else 'it said nothing'} ({self.path})"

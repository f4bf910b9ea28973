"""The checkpoints of the transparency log that this machine has seen: a file outside of the
database, which only grows.

A database that was restored, or a standby that took over without the last commits, has lost part
of what was spent and cannot know it. Who admits a job or touches data asks the database in the same
transaction for the last checkpoint in this file (`log_require` in `migrations/current/08_log.sql`).
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import DiscreetError
from discreet.private_files import private_folder, sync_folder, write_private

LARGEST_BYTES = 1 << 20
"""From here on the file begins again with its last line."""
_TAIL_BYTES = 4096
_REQUIRE = text("SELECT log_require('', :size, :root)")


@dataclass(frozen=True)
class Seen:
    """A checkpoint that was seen: size and root of the tree. Of size 0: none."""

    size: int = 0
    root: bytes = b""


class LogMemory:
    """The last checkpoint that this machine knows of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._read: tuple[tuple[int, int, int], Seen] | None = None

    @property
    def last(self) -> Seen:
        """What was seen last, by whichever process; read again only where the file has changed.
        DiscreetError when the file is there and cannot be read: what it knows must not be passed
        over."""
        try:
            found = self._path.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if self._read is None or self._read[0] != state:
                self._read = state, self._last_line(found.st_size)
            return self._read[1]
        except FileNotFoundError:
            return Seen()
        except OSError as error:
            raise DiscreetError(f"cannot read {self._path}: {error.strerror}") from error

    def remember(self, size: int, root: bytes) -> None:
        """Keep a checkpoint that the database has, on the disk before this returns; one that is
        smaller than the last is passed over."""
        with self._lock:
            if size <= self.last.size:
                return
            line = f"{size} {base64.b64encode(root).decode()}\n"
            if not self._path.exists():
                private_folder(self._path.parent)
            elif self._path.stat().st_size > LARGEST_BYTES:
                write_private(self._path, line)
                return
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size_now = os.fstat(file).st_size
                # A death in the middle of a line.
                torn = size_now > 0 and os.pread(file, 1, size_now - 1) != b"\n"
                os.write(file, b"\n" * torn + line.encode())
                os.fsync(file)
            finally:
                os.close(file)
            sync_folder(self._path.parent)

    def forget(self) -> Path | None:
        """Put the file aside, as an operator has decided; where it is then, None when there was
        none."""
        aside = self._path.with_name(f"{self._path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S}")
        try:
            self._path.rename(aside)
        except FileNotFoundError:
            return None
        return aside

    def _last_line(self, size: int) -> Seen:
        with self._path.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")[
                :-1
            ]  # behind the last line break: nothing, or a line cut off by a death
        for line in reversed(lines):
            number, _, root = line.partition(b" ")
            try:
                seen = Seen(int(number), base64.b64decode(root, validate=True))
            except (ValueError, binascii.Error):
                continue
            if len(seen.root) == 32:
                return seen
        if size:
            raise DiscreetError(
                f"{self._path} holds no checkpoint: it was changed, or is another file"
            )
        return Seen()


async def require(connection: AsyncConnection, seen: Seen) -> None:
    """A DatabaseTrouble (`ledger_rolled_back`) where the database lacks a checkpoint that was seen;
    to be asked in the transaction that writes."""
    await connection.execute(_REQUIRE, {"size": seen.size, "root": seen.root})

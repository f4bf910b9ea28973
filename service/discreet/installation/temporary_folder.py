"""A folder outside the state folder for a server's socket and programs, where the state folder's
path is too long for a socket, or the server's unprivileged user cannot reach the programs."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from discreet.errors import Unavailable
from discreet.installation.binaries import User, runs_programs
from discreet.private_files import write_private

PORT = 5432  # only names the socket file
SOCKET_PATH_BYTES = 100  # the kernel's limit is 107
NOTE = "temporary"
"""File in the state folder that names the temporary folder, so that a successor can remove it."""


class TemporaryFolder:
    """A new folder with an unpredictable name; Unavailable if no place can hold socket and
    programs."""

    def __init__(self, state: Path, user: User | None) -> None:
        self.path = self._made(user)
        self._note = state / NOTE
        write_private(self._note, str(self.path))
        self.path.chmod(0o711 if user is not None else 0o700)
        # Cleaners of temporary folders (systemd-tmpfiles) leave locked ones alone.
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    @staticmethod
    def _made(user: User | None) -> Path:
        for base in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/run", "/var/lib")):  # noqa: S108
            if not holds_sockets(base / "discreet-12345678" / "run"):
                continue
            if user is not None and not (user.enters(base) and runs_programs(base)):
                continue
            with suppress(OSError):
                return Path(tempfile.mkdtemp(prefix="discreet-", dir=base))
        raise Unavailable("no temporary folder can hold PostgreSQL's socket and programs")

    def remove(self) -> None:
        """Remove the folder with its content, and the file that names it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._note.unlink(missing_ok=True)
        os.close(self._lock)


def remove_predecessor(state: Path) -> None:
    """Remove the folder that a killed predecessor left, if this user owns it."""
    note = state / NOTE
    with suppress(OSError, ValueError):
        old = Path(note.read_text(encoding="utf-8"))
        found = old.lstat()
        if (
            old.name.startswith("discreet-")
            and stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.geteuid()
        ):
            shutil.rmtree(old, ignore_errors=True)
        note.unlink()


def holds_sockets(folder: Path) -> bool:
    """Whether a socket's path there is short enough for the kernel and has no comma, at which libpq
    splits."""
    return len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES and "," not in str(
        folder
    )

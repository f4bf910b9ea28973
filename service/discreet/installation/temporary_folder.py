"""A folder outside of the state, where a server's socket or its programs can lie when they cannot
lie in the state: because the path is too long for a socket, or closed to the unprivileged user of
the server."""

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
"""File of the state that says where the folder is, so that a successor can remove it."""


class TemporaryFolder:
    """A new folder that nobody else could have made; Unavailable where none can hold socket and
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
        """The folder with all that is in it, and the note of it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._note.unlink(missing_ok=True)
        os.close(self._lock)


def remove_predecessor(state: Path) -> None:
    """Remove the folder that a killed predecessor noted, if it is ours."""
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
    """Whether a socket's path there is short enough for the kernel, and one that libpq does not
    split (at commas)."""
    return len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES and "," not in str(
        folder
    )

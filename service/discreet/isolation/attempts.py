"""Whether the walls hold: what a process tries to reach that a child should not."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

_libc = ctypes.CDLL(None, use_errno=True)

Level = Literal["full", "partial", "none"]


LEVELS: tuple[Level, ...] = ("none", "partial", "full")


@dataclass(frozen=True)
class Isolation:
    """What a child on this machine was kept from, as tried by one. `level`: `full`, nothing was
    reached; `partial`, no network was; `none`."""

    level: Level
    reached: tuple[str, ...]
    walls: tuple[str, ...]

    @classmethod
    def of(cls, reached: Iterable[str], walls: Iterable[str]) -> Isolation:
        reached = tuple(reached)
        level: Level = "full" if not reached else "none" if "network" in reached else "partial"
        return cls(level, reached, tuple(walls))

    def suffices(self, least: Level) -> bool:
        return LEVELS.index(self.level) >= LEVELS.index(least)


def attempts(own_file: str | None = None) -> list[str]:
    """What this process can reach that a child should not: names among those of `_ATTEMPTS`, and
    `files of its user` where `own_file`, which only its user may read, can be opened."""
    found = [name for name, attempt in _ATTEMPTS.items() if attempt()]
    return [*found, "files of its user"] if own_file is not None and _opens(own_file) else found


def starts_a_shell(descriptor: int) -> None:
    """Become a shell that reports on `descriptor`; returns if that is impossible."""
    with contextlib.suppress(OSError):
        os.execv("/bin/sh", ["sh", "-c", f"echo started >&{descriptor}"])  # noqa: S606


def _reaches_network() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.settimeout(1)
            one.connect(("127.0.0.1", 9))
    except OSError as error:
        # An empty namespace has no route to anywhere; "refused" would be an answer of the machine's
        # own network.
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENETUNREACH, errno.EAFNOSUPPORT)
    return True


def _reaches_sockets() -> bool:
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError:
        return False
    return True


def _reaches_files() -> bool:
    return any(_opens(path) for path in ("/etc/passwd", "/proc/self/status", "/"))


def _reaches_programs() -> bool:
    try:
        os.execv("/nothing/at/all", ["nothing"])  # noqa: S606  there is no such program
    except OSError as error:
        return error.errno == errno.ENOENT


def _reaches_processes() -> bool:
    try:
        pid = os.fork()
    except OSError:
        return False
    if pid == 0:
        os._exit(0)
    return True


def _reaches_parent() -> bool:
    try:
        os.kill(os.getppid(), 0)
    except OSError:
        return False
    return True


def _reaches_tracing() -> bool:
    ctypes.set_errno(0)
    _libc.ptrace(2, os.getpid(), None, None)  # PTRACE_PEEKDATA of a process that is not traced
    return ctypes.get_errno() == errno.ESRCH


_ATTEMPTS: Mapping[str, Callable[[], bool]] = {
    "network": _reaches_network,
    "local sockets": _reaches_sockets,
    "files": _reaches_files,
    "other programs": _reaches_programs,
    "processes of its own": _reaches_processes,
    "signals to its parent": _reaches_parent,
    "tracing": _reaches_tracing,
}

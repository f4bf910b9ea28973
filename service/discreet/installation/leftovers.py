"""Processes of an earlier server that a killed supervisor left behind; all of them hold one
lock."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from discreet.errors import DiscreetError, Unavailable

LEFTOVER_STAGES = (
    (None, 5.0),
    (signal.SIGINT, 30.0),
    (signal.SIGQUIT, 10.0),
    (signal.SIGKILL, 10.0),
)


def claim(lock: Path, folders: tuple[Path, ...], give_up: Callable[[], bool]) -> int:
    """Take the lock that all processes of one server share; returns its descriptor.

    PostgreSQL processes that still work in one of `folders`, of which the first is the data folder,
    are stopped before. Unavailable if they cannot be stopped, or `give_up` returns true.
    """
    file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for signum, patience in LEFTOVER_STAGES:
        if signum is not None and not give_up():
            _signal_all(folders, signum)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    os.close(file)
                    raise DiscreetError(f"cannot lock {lock.parent}: {error.strerror}") from error
            if time.monotonic() > deadline or give_up():
                break
            time.sleep(0.02)
    os.close(file)
    raise Unavailable(f"an earlier PostgreSQL still runs on {folders[0]} and cannot be stopped")


def _signal_all(folders: tuple[Path, ...], signum: signal.Signals) -> None:
    """Signal the old postmaster, which passes the signal on; without a postmaster, and for SIGKILL,
    signal every process of the old server."""
    found = targets = _working_in(folders)
    postmaster = _recorded_pid(folders[0])
    if postmaster in found and signum != signal.SIGKILL:
        targets = [postmaster]
    elif signum == signal.SIGINT:
        signum = signal.SIGQUIT  # to a backend alone SIGINT only cancels a statement
    # SIGCONT as well, since a stopped process would never act on the signal.
    for pids, number in ((targets, signum), (found, signal.SIGCONT)):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _working_in(folders: tuple[Path, ...]) -> list[int]:
    """PostgreSQL processes that work in one of these folders."""
    places = set()
    for folder in folders:
        with suppress(OSError):
            places.add((folder.stat().st_dev, folder.stat().st_ino))
    found = []
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() != "postgres":
                continue
            place = os.stat(f"/proc/{pid}/cwd")
        except PermissionError:
            # In a container root may be forbidden to look; then only the recorded postmaster is
            # known to be ours.
            if pid == _recorded_pid(folders[0]):
                found.append(pid)
            continue
        except OSError:
            continue
        if (place.st_dev, place.st_ino) in places:
            found.append(pid)
    return found


def _recorded_pid(data: Path) -> int:
    try:
        return int((data / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return -1

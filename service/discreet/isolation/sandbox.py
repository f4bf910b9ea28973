"""The walls around a child, built of what the kernel offers to any process, in containers too.

    system calls   seccomp: a list of what computing needs: no socket, program, process, trace,
                   mount, key ring
    files          Landlock: code may be read, nothing may be written; without Landlock no file can
                   be opened at all
    network        an empty network namespace, below the filter
    user           65534 where the parent is root, else an unmapped user; a user namespace; no
                   capabilities
    limits         memory, CPU, files, threads; no core dump

Each wall is built if the kernel lets us; whether they hold is not assumed but tried, by `attempts`
in a child of its own when the zygote starts. Each wall also holds alone, so that a kernel without
one of them still keeps children in. Source: landlock(7). The list of system calls is in
`system_calls.py`, what is tried in `attempts.py`.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib.util
import os
import platform
import resource
import signal
import struct
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from discreet.isolation.system_calls import (
    ARCHITECTURES,
    SECCOMP,
    client_program_of,
    program_of,
)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLONE_NEWIPC = 0x08000000
NOBODY = 65534
MOST_THREADS = 64
KEPT_AT, MOST_KEPT = 3, 16
"""The first descriptor that a child keeps, and how many it may."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.syscall.restype = ctypes.c_long

_SOME_PID = 0x7ABCDEF1  # stands for the child's own in a filter made before the child is forked


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


# Landlock -----------------------------------------------------------------------------------------

# The numbers of Landlock's system calls are the same on every architecture.
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # number of rights by version of the interface
_TCP = 0b11  # bind, connect; from version 4
_CONNECT = 0b10
_SCOPES = 0b11  # abstract sockets and signals of others; from version 6


def _landlock(readable: Iterable[Path]) -> tuple[int, int]:
    """A descriptor of rules by which only `readable` can be opened, for reading, and the version of
    the interface; (-1, 0) where the kernel has none."""
    version = int(_libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
    if version < 1:
        return -1, 0
    attributes = struct.pack(
        "=QQQ",
        (1 << _FILE_RIGHTS.get(version, 16)) - 1,
        _TCP if version >= 4 else 0,
        _SCOPES if version >= 6 else 0,
    )[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = int(
        _libc.syscall(
            _LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
        )
    )
    if rules < 0:
        return -1, 0
    for path in readable:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights = _READ_FILE | _READ_FOLDER if path.is_dir() else _READ_FILE
        _libc.syscall(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    return rules, version


def code_folders() -> list[Path]:
    """The folders of Python, installed packages and their libraries, which every child may read."""
    places = [
        Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    ]
    libraries = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
    places += map(Path, libraries)
    for package in ("discreet", "discreet_client"):
        if (found := importlib.util.find_spec(package)) is not None:
            places += [Path(one) for one in found.submodule_search_locations or ()]
    return places


def keep_to(readable: Iterable[Path], port: int) -> bool:
    """Confine this process, which has one thread, for good: it opens code and `readable` alone, for
    reading, connects to this TCP port (Linux 6.7 and later) alone, has no named sockets, and starts
    no process; nobody else's memory is open to it, nor it to others. False where the kernel has
    no Landlock or no filter of system calls, where there is no list of them for this machine, or
    where there are other threads: it is not to go on then."""
    machine = ARCHITECTURES.get(platform.machine())
    if machine is None or len(os.listdir("/proc/self/task")) > 1:
        return False
    rules, version = _landlock([*code_folders(), *readable])
    if rules < 0:
        return False
    if version >= 4:
        _libc.syscall(_LANDLOCK_ADD, rules, 2, struct.pack("=QQ", _CONNECT, port), 0)
    _drop_capabilities()
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    confined: bool = _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    os.close(rules)
    return confined and _filter_calls(client_program_of(*machine))


def _filter_calls(code: bytes) -> bool:
    """Whether the kernel takes this program for all further system calls of this process."""
    program = _Program(len(code) // 8, code)
    seccomp = SECCOMP[ARCHITECTURES[platform.machine()][0]]
    # SECCOMP_SET_MODE_FILTER
    return bool(_libc.syscall(seccomp, 1, 0, ctypes.byref(program)) == 0)


# A child's way in ---------------------------------------------------------------------------------

Wall = Literal["filter", "landlock", "namespaces", "user"]
WALLS: tuple[Wall, ...] = ("filter", "landlock", "namespaces", "user")


@dataclass(frozen=True)
class Sandbox:
    """What the zygote prepares once for all its children. `walls` is fewer than all only in tests
    of the others."""

    rules: int
    """Landlock's descriptor, or -1."""
    landlock: int
    """Version of its interface, or 0."""
    filters: tuple[bytes, bytes] | None
    """Programs of the filter by whether files may be opened; None on an architecture without a
    list."""
    walls: tuple[Wall, ...]

    @classmethod
    def prepare(cls, walls: tuple[Wall, ...] = WALLS) -> Sandbox:
        """Call it when everything is imported: folders of code that appear later cannot be read."""
        rules, version = _landlock(code_folders()) if "landlock" in walls else (-1, 0)
        machine = ARCHITECTURES.get(platform.machine())
        filters = None
        if "filter" in walls and machine is not None:
            filters = (
                program_of(*machine, files=False, pid=_SOME_PID),
                program_of(*machine, files=True, pid=_SOME_PID),
            )
        return cls(rules, version, filters, walls)

    def enter(self, kept: Sequence[int], limits: Mapping[str, Any]) -> list[str]:
        """Confine this process, with the descriptors `kept` as 3, 4, … and no others; returns the
        walls that the kernel let us build.

        `limits`: `memory_bytes`, `cpu_seconds`, `file_bytes`, to which a kept file may grow
        (absent: not at all), and `growth_bytes`, the memory beyond what this process has now
        (absent or 0: up to `memory_bytes`). Only for a fresh fork: nothing of this can be undone.
        """
        os.setsid()
        os.environ.clear()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        # Out of the way first: a kept descriptor may have the number that another one is to get.
        rules = (
            -1 if self.rules < 0 else fcntl.fcntl(self.rules, fcntl.F_DUPFD, KEPT_AT + MOST_KEPT)
        )
        aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, KEPT_AT + MOST_KEPT) for descriptor in kept]
        for place, descriptor in enumerate(aside, KEPT_AT):
            os.dup2(descriptor, place)
        _close_from(KEPT_AT + len(aside), rules)
        os.chdir("/")
        built = []
        root, alone = os.geteuid() == 0, False
        if "namespaces" in self.walls:
            flags = CLONE_NEWNET | CLONE_NEWIPC
            if _libc.unshare(flags if root else flags | CLONE_NEWUSER) == 0:
                built.append("network namespace")
                alone = not root
        if "user" in self.walls:
            if root:
                built += _become_nobody()
                # The kernel counts threads by user and user namespace, and compares with the limits
                # of both sides: so the limit is set inside, and whoever else runs as nobody takes
                # no thread from this child.
                alone = "namespaces" in self.walls and _libc.unshare(CLONE_NEWUSER) == 0
            built += _drop_capabilities()
        _limit(limits)
        _limit_threads(alone)
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        # After the change of uid, which clears it.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if rules >= 0:
            if _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0:
                built.append(f"Landlock {self.landlock}")
                os.close(rules)
            else:
                os.close(rules)
                rules = -1
        if self.filters is not None:
            code = self.filters[rules >= 0].replace(
                struct.pack("=I", _SOME_PID), struct.pack("=I", os.getpid())
            )
            if _filter_calls(code):
                built.append("seccomp filter")
        return built


def _close_from(first: int, kept: int) -> None:
    end = 1 << 30
    if kept < 0:
        os.closerange(first, end)
    else:
        os.closerange(first, kept)
        os.closerange(kept + 1, end)


def _limit(limits: Mapping[str, Any]) -> None:
    memory = limits["memory_bytes"]
    if growth := limits.get("growth_bytes", 0):
        with open("/proc/self/statm") as figures:
            memory = min(memory, int(figures.read().split()[0]) * resource.getpagesize() + growth)
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_FSIZE, limits.get("file_bytes", 0)),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.getrlimit(name)
        # A second of processor time lies between SIGXCPU, which shows that the limit was met, and
        # SIGKILL.
        spare = 1 if name == resource.RLIMIT_CPU else 0
        most = value + spare if hard == resource.RLIM_INFINITY else min(value + spare, hard)
        resource.setrlimit(name, (min(value, most), most))


def _limit_threads(alone: bool) -> None:
    """Allow `MOST_THREADS` threads; processes, if there is no filter to refuse them.

    Where the process is not `alone` in a user namespace, the kernel also counts what its user runs
    elsewhere, in other containers too: the limit is then doubled until one more can start, and
    `MOST_THREADS` added.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    ceiling = 1 << 22 if hard == resource.RLIM_INFINITY else hard  # the largest number of a process
    most = min(MOST_THREADS, ceiling)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    while not alone and most < ceiling and not _forks():
        most = min(2 * most, ceiling)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    if most > MOST_THREADS:
        most = min(most + MOST_THREADS, ceiling)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _forks() -> bool:
    """Whether the limits allow one process more."""
    try:
        child = os.fork()
    except BlockingIOError:
        return False
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


def _become_nobody() -> list[str]:
    _drop_bounds()  # while root still may
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # a container whose root may not become anybody else
        return []
    return [f"user {NOBODY}"]


def _drop_capabilities() -> list[str]:
    """Drop the capabilities of this process, and those that it could get again: in a new user
    namespace it has all."""
    _drop_bounds()
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)  # _LINUX_CAPABILITY_VERSION_3
    return ["no capabilities"] if _libc.capset(header, nothing) == 0 else []


def _drop_bounds() -> None:
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

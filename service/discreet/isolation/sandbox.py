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

import contextlib
import ctypes
import errno
import fcntl
import importlib.util
import os
import platform
import resource
import signal
import socket
import struct
import sysconfig
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

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
    for package in ("discreet", "discreet_agent", "discreet_client"):
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


# Attempts -----------------------------------------------------------------------------------------
# Whether the walls hold: what a process tries to reach that a child should not.

_libc_attempts = ctypes.CDLL(None, use_errno=True)

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
    _libc_attempts.ptrace(
        2, os.getpid(), None, None
    )  # PTRACE_PEEKDATA of a process that is not traced
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


# System calls -------------------------------------------------------------------------------------
# The filter of system calls (seccomp): what computing needs, and nothing else.
#
# Sources: seccomp(2), and the tables of system calls of Linux 6.1 (asm/unistd_64.h, asm-
# generic/unistd.h).

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of the table, and AUDIT_ARCH_*."""
_CLONE_THREAD = 0x00010000
# F_DUPFD … F_SETFL and F_DUPFD_CLOEXEC, without F_SETOWN, which directs signals at processes.
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
# The numbers of a system call on (x86_64, aarch64); None where an architecture does not have it.
ALLOWED: Mapping[str, tuple[int | None, int | None]] = {
    # the socket that the child was given, and files that it has open
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "recvfrom": (45, 207),
    "sendto": (44, 206),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "getsockopt": (55, 209),
    "lseek": (8, 62),
    "close": (3, 57),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    # metadata of files; Landlock decides what can be opened
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "stat": (4, None),
    "lstat": (6, None),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    # memory; compiled kernels and extension modules are mapped as code
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "madvise": (28, 233),
    "brk": (12, 214),
    "membarrier": (324, 283),
    # this process and its threads
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "set_tid_address": (218, 96),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getgroups": (115, 158),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "exit": (60, 93),
    "exit_group": (231, 94),
    # time and randomness
    "times": (100, 153),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "getrandom": (318, 278),
    "uname": (63, 160),
    "sysinfo": (99, 179),
}


OPEN = {"open": (2, None), "openat": (257, 56)}
CLONE, CLONE3, TGKILL = (56, 220), (435, 435), (234, 131)
FCNTL, IOCTL, PRLIMIT = (72, 25), (16, 29), (302, 261)
SECCOMP = (317, 277)
RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
# A client of Dask: what it may not do, beside what Landlock forbids.
_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    # processes that could outlive it, and programs
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    # sockets of other kinds, and other ways to them
    "io_uring_setup": (425, 425),
    "pidfd_getfd": (438, 438),
    # others' memory, namespaces
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
}
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_SENDING = {"sendto": ((44, 206), 3), "sendmsg": ((46, 211), 2), "sendmmsg": ((307, 269), 3)}
"""With the number of the argument that holds flags."""
_MSG_FASTOPEN = 0x20000000
_FAMILIES = (2, 10, 16)  # AF_INET, AF_INET6, AF_NETLINK: the resolver asks for own addresses
_PROTOCOLS = (0, 6, 17)  # the usual one, TCP, UDP
_BEYOND_RAW, _BEYOND_STREAM = 0xC, 0xE  # bits that no smaller type of a socket has
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # BPF opcodes on 32-bit words


class _Filter:
    """A program of the kernel's filter, which decides on every system call of one architecture."""

    def __init__(self, column: int, architecture: int) -> None:
        self._column = column
        self._program: list[tuple[int, int, int, int]] = []
        self.say(LOAD, 4)
        self.say(EQUAL, architecture, 1, 0)
        self.say(RETURN, RET_KILL_PROCESS)
        self.say(LOAD, 0)
        if column == 0:  # the x32 calls of x86_64 have other numbers
            self.say(AT_LEAST, 0x40000000, 0, 1)
            self.say(RETURN, RET_KILL_PROCESS)

    def say(self, code: int, value: int, yes: int = 0, no: int = 0) -> None:
        self._program.append((code, yes, no, value))

    def argument(self, number: int, *, high: bool = False) -> None:
        self.say(LOAD, 16 + 8 * number + (4 if high else 0))  # struct seccomp_data, little-endian

    def refuse(self, error: int) -> None:
        self.say(RETURN, RET_ERRNO | error)

    def allow(self) -> None:
        self.say(RETURN, RET_ALLOW)

    def on(self, call: tuple[int | None, int | None], body: Callable[[], None]) -> None:
        """`body` must end in returns on every path."""
        if (number := call[self._column]) is not None:
            start = len(self._program)
            self.say(EQUAL, number)
            body()
            self._program[start] = (EQUAL, 0, len(self._program) - start - 1, number)

    def one_thread_more(self) -> None:
        self.argument(0)
        self.say(ANY_BIT, _CLONE_THREAD, 0, 1)
        self.allow()
        self.refuse(errno.EPERM)

    def threads_alone(self) -> None:
        """No process more."""
        self.on(CLONE, self.one_thread_more)
        # A filter cannot see its flags; libraries fall back to clone.
        self.on(CLONE3, lambda: self.refuse(errno.ENOSYS))

    def only(self, values: tuple[int, ...]) -> None:
        """Refuse where the loaded word is none of these; else go on."""
        for left, value in zip(range(len(values), 0, -1), values, strict=True):
            self.say(EQUAL, value, left, 0)
        self.refuse(errno.EACCES)

    def without(self, bits: int) -> None:
        """Refuse where the loaded word has one of these bits; else go on."""
        self.say(ANY_BIT, bits, 0, 1)
        self.refuse(errno.EACCES)

    def packed(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self._program)


def client_program_of(column: int, architecture: int) -> bytes:
    """The program of a client that speaks TCP and asks for names: it starts no process and no
    program, has no named sockets, and no TCP that Landlock does not see.

    Landlock decides on connect() of a TCP socket alone: MPTCP and SCTP are other protocols to it,
    and a first message with MSG_FASTOPEN connects without connect().
    """
    rules = _Filter(column, architecture)

    def new_socket() -> None:
        rules.argument(0)
        rules.only(_FAMILIES)
        rules.argument(1)
        rules.without(_BEYOND_RAW)
        rules.argument(2)
        rules.only(_PROTOCOLS)
        rules.allow()

    def new_pair() -> None:  # of datagrams it could send to any named socket
        rules.argument(1)
        rules.without(_BEYOND_STREAM)
        rules.allow()

    def sending(flags: int) -> None:
        rules.argument(flags)
        rules.without(_MSG_FASTOPEN)
        rules.allow()

    for call in _REFUSED.values():
        rules.on(call, lambda: rules.refuse(errno.EPERM))
    rules.threads_alone()
    rules.on(_SOCKET, new_socket)
    rules.on(_SOCKETPAIR, new_pair)
    for call, flags in _SENDING.values():
        rules.on(call, partial(sending, flags))
    rules.allow()
    return rules.packed()


def program_of(column: int, architecture: int, *, files: bool, pid: int) -> bytes:
    """The program that decides on every system call. `files`: whether any may be opened."""
    rules = _Filter(column, architecture)

    def own_process() -> None:
        rules.argument(0)
        rules.say(EQUAL, pid, 0, 1)
        rules.allow()
        rules.refuse(errno.EPERM)

    def plain_commands() -> None:
        rules.argument(1)
        for command in _FCNTL_COMMANDS:
            rules.say(EQUAL, command, 0, 1)
            rules.allow()
        rules.refuse(errno.EPERM)

    def reading_limits() -> None:
        for high in (False, True):
            rules.argument(2, high=high)
            rules.say(EQUAL, 0, 1, 0)
            rules.refuse(errno.EPERM)
        rules.allow()

    for call in ALLOWED.values():
        rules.on(call, rules.allow)
    for call in OPEN.values():
        rules.on(call, rules.allow if files else lambda: rules.refuse(errno.EACCES))
    rules.threads_alone()
    rules.on(TGKILL, own_process)  # abort()
    rules.on(FCNTL, plain_commands)
    # open() asks whether a file is a terminal
    rules.on(IOCTL, lambda: rules.refuse(errno.ENOTTY))
    rules.on(PRLIMIT, reading_limits)
    rules.refuse(errno.EPERM)
    return rules.packed()

"""The walls around a child, of what the kernel gives to an ordinary process, in containers too.

    system calls   seccomp: a list of what computing needs: no socket, program, process, trace, mount, key ring
    files          Landlock: code may be read, nothing may be written; without Landlock no file can be opened at all
    network        an empty network namespace, below the filter
    user           65534 where the parent is root, else one without a name; a user namespace; no capabilities
    limits         memory, CPU, files, threads; no core dump

Each wall is built if the kernel lets us; whether they hold is not assumed but tried, by `attempts` in a child of its
own when the zygote starts. Each wall also holds alone, so that a kernel without one of them still keeps children in.
Sources: landlock(7), seccomp(2), and the tables of system calls of Linux 6.1 (asm/unistd_64.h, asm-generic/unistd.h).
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

# System calls: (x86_64, aarch64); None where an architecture has no such call ----------------------------------------

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the table, AUDIT_ARCH_*
_CLONE_THREAD = 0x00010000
_FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD … F_SETFL, F_DUPFD_CLOEXEC: not F_SETOWN, which aims signals

_ALLOWED: Mapping[str, tuple[int | None, int | None]] = {
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
    # looking at files; what can be opened is Landlock's to say
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
    # time and chance
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
_OPEN = {"open": (2, None), "openat": (257, 56)}
_CLONE, _CLONE3, _TGKILL, _FCNTL, _IOCTL, _PRLIMIT = (56, 220), (435, 435), (234, 131), (72, 25), (16, 29), (302, 261)
_SECCOMP = (317, 277)

_RET_ALLOW, _RET_ERRNO, _RET_KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # BPF opcodes on 32-bit words


def _filter(column: int, architecture: int, *, files: bool, pid: int) -> bytes:
    """The program that decides on every system call. `files`: whether any may be opened."""
    program: list[tuple[int, int, int, int]] = []

    def say(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        program.append((code, yes, no, value))

    def argument(number: int, *, high: bool = False) -> None:
        say(_LOAD, 16 + 8 * number + (4 if high else 0))  # struct seccomp_data, little-endian

    def refuse(error: int) -> None:
        say(_RETURN, _RET_ERRNO | error)

    def on(call: tuple[int | None, int | None], body: Callable[[], None]) -> None:
        """`body` must end in returns on every path."""
        if (number := call[column]) is not None:
            start = len(program)
            say(_EQUAL, number)
            body()
            program[start] = (_EQUAL, 0, len(program) - start - 1, number)

    def allow() -> None:
        say(_RETURN, _RET_ALLOW)

    def one_thread_more() -> None:
        argument(0)
        say(_ANY_BIT, _CLONE_THREAD, 0, 1)
        allow()
        refuse(errno.EPERM)

    def own_process() -> None:
        argument(0)
        say(_EQUAL, pid, 0, 1)
        allow()
        refuse(errno.EPERM)

    def plain_commands() -> None:
        argument(1)
        for command in _FCNTL_COMMANDS:
            say(_EQUAL, command, 0, 1)
            allow()
        refuse(errno.EPERM)

    def reading_limits() -> None:
        for high in (False, True):
            argument(2, high=high)
            say(_EQUAL, 0, 1, 0)
            refuse(errno.EPERM)
        allow()

    say(_LOAD, 4)
    say(_EQUAL, architecture, 1, 0)
    say(_RETURN, _RET_KILL_PROCESS)
    say(_LOAD, 0)
    if column == 0:  # the x32 calls of x86_64 bear other numbers
        say(_AT_LEAST, 0x40000000, 0, 1)
        say(_RETURN, _RET_KILL_PROCESS)
    for call in _ALLOWED.values():
        on(call, allow)
    for call in _OPEN.values():
        on(call, allow if files else lambda: refuse(errno.EACCES))
    on(_CLONE, one_thread_more)
    on(_CLONE3, lambda: refuse(errno.ENOSYS))  # its flags are out of a filter's sight; libraries then take clone
    on(_TGKILL, own_process)  # abort()
    on(_FCNTL, plain_commands)
    on(_IOCTL, lambda: refuse(errno.ENOTTY))  # open() asks whether a file is a terminal
    on(_PRLIMIT, reading_limits)
    refuse(errno.EPERM)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


_SOME_PID = 0x7ABCDEF1  # stands for the child's own in a filter that is made before there is a child


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


# Landlock -------------------------------------------------------------------------------------------------------------

_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same number on every architecture
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many rights on files a version of the interface knows
_TCP = 0b11  # bind, connect; from version 4
_SCOPES = 0b11  # abstract sockets and signals of others; from version 6


def _landlock(readable: Iterable[Path]) -> tuple[int, int]:
    """A descriptor of rules by which only `readable` can be opened, for reading, and the version of the interface;
    (-1, 0) where the kernel has none."""
    version = int(_libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(1)))
    if version < 1:
        return -1, 0
    attributes = struct.pack(
        "=QQQ",
        (1 << _FILE_RIGHTS.get(version, 16)) - 1,
        _TCP if version >= 4 else 0,
        _SCOPES if version >= 6 else 0,
    )[: 24 if version >= 6 else 16 if version >= 4 else 8]
    rules = int(_libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
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
    """Where Python, installed packages and their libraries lie: what anybody may read."""
    places = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places += [Path("/lib"), Path("/lib64"), Path("/usr/lib"), Path("/usr/lib64"), Path("/etc/ld.so.cache")]
    for package in ("discreet", "discreet_client"):
        if (found := importlib.util.find_spec(package)) is not None:
            places += [Path(one) for one in found.submodule_search_locations or ()]
    return places


# A child's way in -----------------------------------------------------------------------------------------------------

Wall = Literal["filter", "landlock", "namespaces", "user"]
WALLS: tuple[Wall, ...] = ("filter", "landlock", "namespaces", "user")


@dataclass(frozen=True)
class Sandbox:
    """What the zygote prepares once for all its children. `walls` is less than all only in tests of the others."""

    rules: int
    """Landlock's descriptor, or -1."""
    landlock: int
    """Version of its interface, or 0."""
    filters: tuple[bytes, bytes] | None
    """Programs of the filter by whether files may be opened; None on an architecture without a list."""
    walls: tuple[Wall, ...]

    @classmethod
    def prepare(cls, walls: tuple[Wall, ...] = WALLS) -> Sandbox:
        """To be called when everything is imported: folders of code that appear later are not known."""
        rules, version = _landlock(code_folders()) if "landlock" in walls else (-1, 0)
        machine = ARCHITECTURES.get(platform.machine())
        filters = None
        if "filter" in walls and machine is not None:
            filters = (_filter(*machine, files=False, pid=_SOME_PID), _filter(*machine, files=True, pid=_SOME_PID))
        return cls(rules, version, filters, walls)

    def enter(self, kept: Sequence[int], limits: Mapping[str, Any]) -> list[str]:
        """Shut this process in, with the descriptors `kept` as 3, 4, … and no others; the walls that the kernel let us
        build.

        `limits`: `memory_bytes`, `cpu_seconds`, `file_bytes`, to which a kept file may grow (absent: not at all), and
        `growth_bytes`, the memory beyond what this process has now (absent or 0: up to `memory_bytes`).
        Never to be called but in a fresh fork: there is no way back.
        """
        os.setsid()
        os.environ.clear()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        # Out of the way first: a kept descriptor may stand where another one shall.
        rules = -1 if self.rules < 0 else fcntl.fcntl(self.rules, fcntl.F_DUPFD, KEPT_AT + MOST_KEPT)
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
                # The kernel counts threads by user and user namespace, and compares with the limits of both sides: so
                # the limit is set inside, and whoever else runs as nobody takes no thread from this child.
                alone = "namespaces" in self.walls and _libc.unshare(CLONE_NEWUSER) == 0
            built += _drop_capabilities()
        _limit(limits)
        _limit_threads(alone)
        _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of uid, which clears it
        if rules >= 0:
            if _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0:
                built.append(f"Landlock {self.landlock}")
                os.close(rules)
            else:
                os.close(rules)
                rules = -1
        if self.filters is not None:
            code = self.filters[rules >= 0].replace(struct.pack("=I", _SOME_PID), struct.pack("=I", os.getpid()))
            program = _Program(len(code) // 8, code)
            seccomp = _SECCOMP[ARCHITECTURES[platform.machine()][0]]
            if _libc.syscall(seccomp, 1, 0, ctypes.byref(program)) == 0:  # SECCOMP_SET_MODE_FILTER
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
        # A second of processor time between SIGXCPU, by which the end is known for what it is, and SIGKILL.
        spare = 1 if name == resource.RLIMIT_CPU else 0
        most = value + spare if hard == resource.RLIM_INFINITY else min(value + spare, hard)
        resource.setrlimit(name, (min(value, most), most))


def _limit_threads(alone: bool) -> None:
    """At most `MOST_THREADS` threads where the filter leaves these; without it, processes.

    Not `alone` in a user namespace, the kernel adds all that the user runs elsewhere, in other containers too: then the
    limit is so many above a power of two that lets one more start.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    ceiling = 1 << 22 if hard == resource.RLIM_INFINITY else hard  # the most that a kernel numbers
    most = min(MOST_THREADS, ceiling)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    while not alone and most < ceiling and not _forks():
        most = min(2 * most, ceiling)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, hard))
    if most > MOST_THREADS:
        most = min(most + MOST_THREADS, ceiling)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _forks() -> bool:
    """Whether the limits let this process have one more."""
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
    """Those of this process, and the way to new ones: a user namespace begins with all of its own."""
    _drop_bounds()
    header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)  # _LINUX_CAPABILITY_VERSION_3
    return ["no capabilities"] if _libc.capset(header, nothing) == 0 else []


def _drop_bounds() -> None:
    for capability in range(64):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


# Whether the walls hold ----------------------------------------------------------------------------------------------

Level = Literal["full", "partial", "none"]
LEVELS: tuple[Level, ...] = ("none", "partial", "full")


@dataclass(frozen=True)
class Isolation:
    """What a child on this machine was kept from, as tried by one. `level`: `full`, nothing was reached; `partial`, no
    network was; `none`."""

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
    """What this process can reach that a child should not: names among those of `_ATTEMPTS`, and `files of its user`
    where `own_file`, which only its user may read, can be opened."""
    found = [name for name, attempt in _ATTEMPTS.items() if attempt()]
    return [*found, "files of its user"] if own_file is not None and _opens(own_file) else found


def starts_a_shell(descriptor: int) -> None:
    """Become a shell that says so on `descriptor`; comes back where that cannot be."""
    with contextlib.suppress(OSError):
        os.execv("/bin/sh", ["sh", "-c", f"echo started >&{descriptor}"])  # noqa: S606


def _reaches_network() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.settimeout(1)
            one.connect(("127.0.0.1", 9))
    except OSError as error:
        # An empty namespace has no route to anywhere; "refused" would be an answer of the machine's own network.
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

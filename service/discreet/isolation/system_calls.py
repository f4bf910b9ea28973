"""The filter of system calls (seccomp): what computing needs, and nothing else.

Sources: seccomp(2), and the tables of system calls of Linux 6.1 (asm/unistd_64.h,
asm-generic/unistd.h).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping
from functools import partial

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

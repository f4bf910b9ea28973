"""The filter of system calls (seccomp): what computing needs, and nothing else.

Sources: seccomp(2), and the tables of system calls of Linux 6.1 (asm/unistd_64.h,
asm-generic/unistd.h).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping

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
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # BPF opcodes on 32-bit words


def program_of(column: int, architecture: int, *, files: bool, pid: int) -> bytes:
    """The program that decides on every system call. `files`: whether any may be opened."""
    program: list[tuple[int, int, int, int]] = []

    def say(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        program.append((code, yes, no, value))

    def argument(number: int, *, high: bool = False) -> None:
        say(LOAD, 16 + 8 * number + (4 if high else 0))  # struct seccomp_data, little-endian

    def refuse(error: int) -> None:
        say(RETURN, RET_ERRNO | error)

    def on(call: tuple[int | None, int | None], body: Callable[[], None]) -> None:
        """`body` must end in returns on every path."""
        if (number := call[column]) is not None:
            start = len(program)
            say(EQUAL, number)
            body()
            program[start] = (EQUAL, 0, len(program) - start - 1, number)

    def allow() -> None:
        say(RETURN, RET_ALLOW)

    def one_thread_more() -> None:
        argument(0)
        say(ANY_BIT, _CLONE_THREAD, 0, 1)
        allow()
        refuse(errno.EPERM)

    def own_process() -> None:
        argument(0)
        say(EQUAL, pid, 0, 1)
        allow()
        refuse(errno.EPERM)

    def plain_commands() -> None:
        argument(1)
        for command in _FCNTL_COMMANDS:
            say(EQUAL, command, 0, 1)
            allow()
        refuse(errno.EPERM)

    def reading_limits() -> None:
        for high in (False, True):
            argument(2, high=high)
            say(EQUAL, 0, 1, 0)
            refuse(errno.EPERM)
        allow()

    say(LOAD, 4)
    say(EQUAL, architecture, 1, 0)
    say(RETURN, RET_KILL_PROCESS)
    say(LOAD, 0)
    if column == 0:  # the x32 calls of x86_64 have other numbers
        say(AT_LEAST, 0x40000000, 0, 1)
        say(RETURN, RET_KILL_PROCESS)
    for call in ALLOWED.values():
        on(call, allow)
    for call in OPEN.values():
        on(call, allow if files else lambda: refuse(errno.EACCES))
    on(CLONE, one_thread_more)
    # A filter cannot see its flags; libraries fall back to clone.
    on(CLONE3, lambda: refuse(errno.ENOSYS))
    on(TGKILL, own_process)  # abort()
    on(FCNTL, plain_commands)
    on(IOCTL, lambda: refuse(errno.ENOTTY))  # open() asks whether a file is a terminal
    on(PRLIMIT, reading_limits)
    refuse(errno.EPERM)
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)

"""A kind whose release does not compute: it tries to get out, and says how far it came."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discreet import problems
from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours, Problem
from discreet.problems.contents import Content, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan, Resources
from discreet.problems.results import Result

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

PAST = "came through"


def _raw(result: int) -> str:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return PAST


def _tcp(aim: Mapping[str, Any]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(tuple(aim["tcp"]))
    return PAST


def _udp(aim: Mapping[str, Any]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(aim["word"].encode(), tuple(aim["udp"]))
    return PAST


def _unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(path)
    return PAST


def _read(path: str) -> str:
    with open(path, "rb") as file:
        file.read(1)
    return PAST


def _write(folder: str) -> str:
    with open(f"{folder}/left-by-a-child", "wb") as file:
        while True:  # the disk or the limit ends it
            file.write(bytes(1 << 20))
            file.flush()
            if file.tell() > 64 << 20:
                return PAST


def _change(path: str) -> str:
    Path(path).chmod(0o777)
    return PAST


def _program(_aim: Mapping[str, Any]) -> str:
    subprocess.run(["/bin/true"], check=True)
    return PAST


def _fork(_aim: Mapping[str, Any]) -> str:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)  # its signal, coming later, would stop a process that asked to be traced
    return PAST


def _bomb(_aim: Mapping[str, Any]) -> str:
    """Threads are allowed, some: more than the limit are not."""
    stop = threading.Event()
    many = []
    try:
        for _ in range(200):
            one = threading.Thread(target=stop.wait, daemon=True)
            one.start()
            many.append(one)
    finally:
        stop.set()
        for one in many:
            one.join()
    return PAST


def _peek(pid: int) -> str:
    """process_vm_readv of any mapped address of another process: refused before the address is
    looked at."""
    here = ctypes.create_string_buffer(8)
    vector = struct.pack("=QQ", ctypes.addressof(here), 8)
    _libc.process_vm_readv.restype = ctypes.c_ssize_t
    return _raw(_libc.process_vm_readv(pid, vector, 1, vector, 1, 0))


def _owned_signals(_aim: Mapping[str, Any]) -> str:
    import fcntl

    fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())
    return PAST


def _send_descriptor(_aim: Mapping[str, Any]) -> str:
    with socket.socket(fileno=os.dup(3)) as channel:
        socket.send_fds(channel, [b"x"], [0])
    return PAST


def _memory(_aim: Mapping[str, Any]) -> str:
    """Anonymous shared memory that others could open by /proc."""
    return _raw(_libc.memfd_create(b"x", 0))


def _worker(call: Callable[[int], object]) -> Callable[[Mapping[str, Any]], str]:
    def attempt(aim: Mapping[str, Any]) -> str:
        for pid in aim["pids"]:
            call(pid)
        return PAST

    return attempt


ATTEMPTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "tcp": _tcp,
    "udp": _udp,
    "unix": lambda aim: _unix(aim["unix"]),
    "postgres": lambda aim: _unix(aim["postgres"]),
    "abstract": lambda aim: _unix("\0" + aim["abstract"]),
    "netlink": lambda _: _raw(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).fileno()),
    "packets": lambda _: _raw(socket.socket(socket.AF_PACKET, socket.SOCK_RAW).fileno()),
    "socketpair": lambda _: _raw(socket.socketpair()[0].fileno()),
    "secrets": lambda aim: _read(aim["secrets"]),
    "owner key": lambda aim: _read(aim["owner_key"]),
    "passwd": lambda _: _read("/etc/passwd"),
    "shadow": lambda _: _read("/etc/shadow"),
    "the worker's environment": _worker(lambda pid: _read(f"/proc/{pid}/environ")),
    "the worker's memory": _worker(lambda pid: _read(f"/proc/{pid}/mem")),
    "the worker's files": _worker(lambda pid: os.listdir(f"/proc/{pid}/fd")),
    "own memory as a file": lambda _: _read("/proc/self/mem"),
    "a device": lambda _: _read("/dev/zero"),
    "the top folder": lambda _: str(os.listdir("/")) and PAST,
    "write to the temporary folder": lambda aim: _write(aim["temporary"]),
    "write to shared memory": lambda _: _write("/dev/shm"),
    "write to the code": lambda _: _write(str(Path(problems.__file__).parent)),
    "a temporary file": lambda _: _raw(tempfile.mkstemp()[0]),
    "a folder": lambda aim: os.mkdir(aim["temporary"] + "/made-by-a-child") or PAST,
    "unlink": lambda aim: os.unlink(aim["secrets"]) or PAST,
    "rename": lambda aim: os.rename(aim["secrets"], aim["secrets"] + ".gone") or PAST,
    "link": lambda aim: os.symlink("/", aim["temporary"] + "/linked-by-a-child") or PAST,
    "chmod": lambda aim: _change(aim["secrets"]),
    "a program": _program,
    "exec": lambda _: os.execv("/bin/true", ["true"]) or PAST,  # noqa: S606
    "fork": _fork,
    "many threads": _bomb,
    "ptrace": _worker(lambda pid: _raw(_libc.ptrace(16, pid, None, None))),  # PTRACE_ATTACH
    "process_vm_readv": _worker(_peek),
    "kill": _worker(lambda pid: os.kill(pid, 0)),
    "pidfd": _worker(os.pidfd_open),
    # To what they are already: where a wall is missing on purpose, the worker that tests goes on as
    # it was.
    "priority": _worker(
        lambda pid: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))
    ),
    "limits of others": _worker(lambda pid: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))),
    "own limits": lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1)) or PAST,
    "affinity": _worker(lambda pid: os.sched_setaffinity(pid, os.sched_getaffinity(0))),
    "signals by file": _owned_signals,
    "descriptors by message": _send_descriptor,
    "memfd": _memory,
    "mount": lambda aim: _raw(_libc.mount(b"none", aim["temporary"].encode(), b"tmpfs", 0, None)),
    "unshare": lambda _: _raw(_libc.unshare(0x10000000)),
    "chroot": lambda _: os.chroot("/") or PAST,
    "dumps again": lambda _: _raw(_libc.prctl(4, 1, 0, 0, 0)),
    "message queue": lambda _: _raw(_libc.msgget(0, 0o1600)),
    "shared memory": lambda _: _raw(_libc.shmget(0, mmap.PAGESIZE, 0o1600)),
    "inotify": lambda _: _raw(_libc.inotify_init1(0)),
    "a timer's signal": lambda _: str(signal.setitimer(signal.ITIMER_REAL, 1000.0)) and PAST,
    "being traced": lambda _: _raw(_libc.ptrace(0, 0, None, None)),  # would stop at its next signal
}


def attempt_all(aim: Mapping[str, Any], names: Iterable[str] = tuple(ATTEMPTS)) -> dict[str, str]:
    """What came of each attempt: PAST, or the kernel's answer."""
    found = {}
    for name in names:
        try:
            found[name] = ATTEMPTS[name](aim)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


class Hostile(Problem):
    """`aim`: what to try to reach."""

    kind: Literal["hostile"] = "hostile"
    Dataset = None
    aim: dict[str, Any] = {}  # noqa: RUF012

    @classmethod
    def example(cls) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        raise NotImplementedError

    def plan(self, public: Any, budget: Budget) -> Plan:
        return Plan.priced(
            (),
            noise=(),
            iterations={},
            resources=Resources(release_quantum_seconds=1, memory_bytes=1 << 20, steps=1),
            unit="request",
            neighbours="none",
        )

    def release(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        found = attempt_all(self.aim)
        return {name: np.frombuffer(answer.encode(), np.uint8) for name, answer in found.items()}

    def finish(self, public: Any, plan: Plan, released: Released, progress: Progress) -> Result:
        raise NotImplementedError


def register() -> None:
    problems.KINDS["hostile"] = Hostile

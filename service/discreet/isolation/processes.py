"""Child processes that never outlive their supervisor, and whose memory nobody else reads.

Linux ends them for us (PR_SET_PDEATHSIG), also when the supervisor is killed with -9. The kernel
ties the signal to the *thread* that started the child: start children from a thread that lives as
long as they should.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_MADV_DONTNEED = 4
_FALLOC_FL_KEEP_SIZE = 1
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


FORKING = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")},
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
}
"""Environment of processes that fork: forks of a process with a thread pool hang, jobs share the
cores of the machine, and memory freed in the arena of a thread is not returned to the system."""


def dies_with_parent(signum: signal.Signals) -> Callable[[], None]:
    """A `preexec_fn`: the child receives `signum` when the thread that started it is gone."""
    parent = os.getpid()
    number = int(signum)

    def prepare() -> None:
        # The parent may have died between fork and prctl; then no signal will ever come.
        if _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)

    return prepare


def ends_with_parent(signum: signal.Signals, parent: int) -> bool:
    """Let this process receive `signum` when the thread of `parent` that started it is gone; False
    if it is gone already. (The parent of an orphan is process 1, but in a container process 1 may
    be the true parent.)"""
    return bool(
        _libc.prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0) == 0 and os.getppid() == parent
    )


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Meanwhile, descendants that lose their parent become children of this process and not of
    process 1."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def plain_environment() -> dict[str, str]:
    """The environment of a process that works on data of strangers: no database address, no secrets
    file."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    return {**environment, **FORKING, "MPLBACKEND": "Agg"}


def keep_memory_private() -> None:
    """No core dump of this process, and no other process of the same user reads its memory,
    environment or files.

    Not for its children's programs: a process that executes another program is open to its user
    again.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def set_aside(descriptor: int, size: int) -> bool:
    """Take the room of so many bytes for a file, which stays as long as it is (fallocate(2)). False
    where its file system cannot. OSError where there is no room."""
    while _libc.fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, 0, size) != 0:
        number = ctypes.get_errno()
        if number in (errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return True


def title(words: Sequence[str]) -> None:
    """Overwrite the command line of this process, as others see it, with these arguments, as far as
    there is room."""
    with open("/proc/self/stat", "rb") as figures:
        fields = figures.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start, arg_end, proc(5)
    text = b"".join(word.encode() + b"\0" for word in words)[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def give_back() -> None:
    """Return to the system what was needed to start and is held without need: freed memory, and
    pages of programs and libraries, which the kernel maps again when they are used."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    give_pages_back()


def give_pages_back() -> None:
    """As `give_back`, without freed memory: children share that of the process that they were
    forked from, and trimming would copy it."""
    for start, size in list(_unchanged_pages()):
        _libc.madvise(start, size, _MADV_DONTNEED)


def _unchanged_pages() -> Iterator[tuple[int, int]]:
    """Address and size of each read-only mapping of a file none of whose pages has changed. (Pages
    that the linker changed before it made them read-only are no copy of the file.)"""
    place: tuple[int, int] | None = None
    changed = 0
    with open("/proc/self/smaps") as lines:
        for line in lines:  # not read as a whole: half a megabyte would stay with the process
            words = line.split()
            if not words[0].endswith(":"):
                start, end = (int(word, 16) for word in words[0].split("-"))
                unwritable = words[1] in {"r--p", "r-xp"}
                of_file = int(words[4]) != 0  # by its inode, since paths may have spaces
                place, changed = (start, end - start) if unwritable and of_file else None, 0
            elif words[0] in {"Anonymous:", "Swap:"}:
                changed += int(words[1])
            elif words[0] == "VmFlags:" and place is not None and changed == 0:
                yield place


class Process(Protocol):
    """A child of this process: the part of `subprocess.Popen` that ends it."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


def end(process: Process, *stages: tuple[signal.Signals, float]) -> int:
    """Signal and wait, stage by stage (signal, seconds of patience), then SIGKILL. Returns the exit
    status."""
    for signum, patience in stages:
        if process.poll() is not None:
            break
        process.send_signal(signum)
        process.send_signal(signal.SIGCONT)  # a stopped process would never act on it
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()


def is_over(process: int, seconds: float = 0.0) -> bool:
    """Whether the process of this pidfd ends within that time."""
    events = select.poll()
    events.register(process, select.POLLIN)
    return bool(events.poll(seconds * 1000))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0))

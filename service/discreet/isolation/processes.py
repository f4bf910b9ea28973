"""Child processes that never outlive their supervisor, and whose memory nobody else reads.

Linux ends them for us (PR_SET_PDEATHSIG), also when the supervisor is killed with -9. The kernel ties the signal to the
*thread* that started the child: start children from a thread that lives as long as they should.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


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
    """This process receives `signum` when the thread of `parent` that started it is gone; False when it is gone
    already. (Who has no parent any more is a child of process 1, but in a container that may be the parent itself.)"""
    return bool(_libc.prctl(_PR_SET_PDEATHSIG, int(signum), 0, 0, 0) == 0 and os.getppid() == parent)


def plain_environment() -> dict[str, str]:
    """What a process that works on data of strangers may know of the environment: no database address, no secrets
    file."""
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYTHONPATH")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    # One thread a child: forks of a process with a thread pool hang, and the machine is shared between jobs.
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "RAYON")}
    return {**environment, **single, "MPLBACKEND": "Agg"}


def keep_memory_private() -> None:
    """No core dump of this process, and no other process of the same user reads its memory, environment or files.

    Not for its children's programs: a process that executes another program is open to its user again.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def end(process: subprocess.Popen[Any], *stages: tuple[signal.Signals, float]) -> int:
    """Signal and wait, stage by stage (signal, seconds of patience), then SIGKILL. Returns the exit status."""
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

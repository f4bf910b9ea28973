"""Children that meet the fault that a file, named by FAULTS in the environment, holds when they are
forked: `STEP FAULT`, or nothing. `reading` is the step of all that read uploads.

The program of a fork server among others (`tests.templates`), or a fork server of its own.

The faults are real: the kernel ends the child by its limits, by a signal of the processor, or when
somebody kills it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np

from discreet.isolation import frames, reading, solving, zygote
from discreet.isolation.sandbox import KEPT_AT
from discreet.isolation.tasks import Step, Task
from discreet.problems import KINDS

TOO_MUCH = 3 << 30
"""More than the memory limit of these tests, and less than any machine would refuse by itself."""


@numba.njit  # type: ignore[untyped-decorator]
def _in_a_kernel(size: int) -> float:  # pragma: no cover - compiled
    values = np.ones(size)
    return float(values.sum())


def _spin() -> None:
    while True:
        pass


def _raise() -> None:
    raise RuntimeError("seventeen people live here")


def _channel() -> socket.socket:
    return socket.socket(fileno=os.dup(KEPT_AT))


FAULTS: dict[str, Callable[[], object]] = {
    "memory": lambda: bytearray(TOO_MUCH),
    "memory-numpy": lambda: np.ones(TOO_MUCH // 8),
    "memory-numba": lambda: _in_a_kernel(TOO_MUCH // 8),
    "cpu": _spin,
    "wall": lambda: time.sleep(3600),
    "segv": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "raise": _raise,
    "leave": lambda: os._exit(0),
    "flood": lambda: [frames.send(_channel(), {"progress": [1, 2]}) for _ in range(100_000)],
    "claim": lambda: frames.send(_channel(), {}, memoryview(bytes(3 << 20))),
}
_chosen = [""]


def _faulty(step: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        asked, _, fault = _chosen[0].partition(" ")
        if asked == step:
            FAULTS[fault]()
        return real(*arguments)

    return run


def choose(server: Any) -> None:
    """Read the file of the fault before every child is forked: a child can open none. `server`: the
    module that forks."""
    start, place = server._start, Path(os.environ["FAULTS"])

    def choose_and_start(*arguments: Any) -> Any:
        _chosen[0] = place.read_text() if place.exists() else ""
        return start(*arguments)

    server._start = choose_and_start


def meet_faults() -> None:
    """From now on the steps of this process meet what was chosen."""
    for kind in KINDS.values():
        for step in (
            "release",
            "part_sums",
            "release_sums",
            "release_sampled",
            "finish",
        ):
            if not hasattr(kind, step):  # only some kinds sum over parts, or sample
                continue
            setattr(kind, step, _faulty(step, getattr(kind, step)))
    reading._read = _faulty("reading", reading._read)


def warm_up() -> None:
    choose(sys.modules["__main__"])
    _in_a_kernel(1)


def _with_faults(real: Step) -> Step:
    def step(task: Task) -> None:
        meet_faults()  # in the child: other fork servers of the same image have none
        real(task)

    return step


STEPS: Mapping[str, Step] = {
    name: _with_faults(step) for name, step in {**solving.STEPS, **reading.STEPS}.items()
}


if __name__ == "__main__":
    choose(zygote)
    _in_a_kernel(1)
    meet_faults()
    zygote.main(sys.argv[1:])

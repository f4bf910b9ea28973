"""The zygote whose children meet the fault that a file names when they are forked: `STEP FAULT`, or
nothing. READING in its environment: the fault of children that read uploads.

The faults are real: the kernel ends the child by its limits, by a signal of the processor, or when
somebody kills it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

from discreet.isolation import frames, reading, zygote
from discreet.isolation.sandbox import KEPT_AT
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


def main(place: Path) -> None:
    start = zygote._start

    def choose_and_start(*arguments: Any) -> Any:
        _chosen[0] = place.read_text() if place.exists() else ""
        return start(*arguments)

    zygote._start = choose_and_start
    _in_a_kernel(1)
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
    if fault := os.environ.get("READING"):
        reading._read = lambda *_: FAULTS[fault]()
        reading.warm_up = lambda: None  # it would rehearse
    zygote.main(sys.argv[1:])


if __name__ == "__main__":
    main(Path(os.environ["FAULTS"]))

"""How the cost of a call grows with its input: by processor time, never by the clock."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")

AGAIN = 2
LINEAR = 8.0
"""What four times as much may cost: 4, a factor of log n, and the machine's noise. Quadratic cost
is 16."""


def growth(
    make: Callable[[int], Input], call: Callable[[Input], object], size: int, repeats: int = 3
) -> float:
    """Processor time of `call` on an input of 4 `size` over that on one of `size`, each the least
    of `repeats`.

    Without the collector of cycles, whose passes go by all objects of the process and come when it
    is their time. What seems too much is measured again: other work on the machine takes its
    caches, and never makes quadratic cost less.
    """
    gc.collect()
    gc.disable()
    try:
        found = _growth(make, call, size, repeats)
        for _ in range(AGAIN):
            if found >= LINEAR:
                found = min(found, _growth(make, call, size, repeats))
        return found
    finally:
        gc.enable()


def _growth(
    make: Callable[[int], Input], call: Callable[[Input], object], size: int, repeats: int
) -> float:
    least = []
    for given in (make(size), make(4 * size)):
        times = []
        for _ in range(repeats):
            began = time.thread_time()
            call(given)
            times.append(time.thread_time() - began)
        least.append(min(times))
    return least[1] / least[0]

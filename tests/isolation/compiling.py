"""A program of fork servers with a kernel that is compiled where no cache has it yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import njit

from discreet.isolation.tasks import Step, answers


@njit(cache=True)
def _doubled(number: int) -> int:
    return 2 * number


def warm_up() -> None:
    _doubled(1)
    _count({}, b"", ())


def _count(*_: Any) -> tuple[dict[str, Any], bytes]:
    """How many kernels this process has compiled, and how many it has loaded."""
    stats = _doubled.stats
    return {
        "compiled": sum(stats.cache_misses.values()),
        "loaded": sum(stats.cache_hits.values()),
    }, b""


STEPS: Mapping[str, Step] = {"count": answers(_count)}

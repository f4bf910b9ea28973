"""Blocks of trips as one set of trips with consecutive periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.problems.contents import Content

MOST_PERIODS = 100_000
PERSONS = (
    "a person's trips lie in many blocks, and nothing stored says which records of two blocks are "
    "the same person's: neither caps of blocks nor one cap of the source would bound what is told "
    "about that person. Protect trips (unit request), or register one dataset for all days"
)


def nothing(columns: int = 4) -> Content:
    """Canonical content without trips."""
    return {"trips": np.zeros((0, columns), dtype=np.int64)}


def combined(public: dict[str, Any], blocks: int, rows: int) -> dict[str, Any]:
    """The public part of this many blocks, each with at most `rows` cells: the mean of a period is
    taken over all blocks."""
    periods = public["periods"] * blocks
    if periods > MOST_PERIODS:
        says = (
            f"{blocks} blocks have {periods} periods together, at most {MOST_PERIODS} are read "
            "at once"
        )
        raise InvalidInput(says, pointer="/problem/source")
    return {**public, "periods": periods, "max_rows": rows * blocks}


def joined(periods: int, contents: Sequence[Content]) -> Content:
    """Trips by period and pair, already sorted: each block's periods follow those of the previous
    block."""
    parts = [content["trips"].copy() for content in contents]
    for number, part in enumerate(parts):
        part[:, 0] += periods * number
    return {"trips": np.concatenate(parts)}

"""Blocks of trajectories as one set of trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.contents import Content, rearranged, record_keys, record_order, starts_of
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

REPLACED = (
    "with a public number of trajectories every block would have to hold exactly as many: "
    "neighbours add_remove are needed, so leave `trajectories` out (`max_trajectories` bounds "
    "their number)"
)
UNSAID = (
    "give `off_policy`: whether rows have behaviour and target. Otherwise it follows from the "
    "content, and a block may have no records"
)
MOST_ROWS = 10**9


def not_in_blocks(public: OffPolicyPublic) -> str:
    """Why no source is made of such data; empty where one can be."""
    if public.replaced:
        return REPLACED
    return UNSAID if public.off_policy is None else ""


def nothing(public: OffPolicyPublic) -> Content:
    """Canonical content of no trajectories."""
    here, there = ("state", "next_state") if public.states is not None else ("x", "x_next")
    shape, kind = (
        ((0,), np.int32) if public.states is not None else ((0, public.features or 1), np.float64)
    )
    reals = ("reward", *(("behaviour", "target") if public.off_policy else ()))
    return {
        "start": np.zeros(1, dtype=np.int64),
        here: np.zeros(shape, dtype=kind),
        there: np.zeros(shape, dtype=kind),
        "terminal": np.zeros(0, dtype=bool),
        **{name: np.zeros(0) for name in reals},
    }


def combined(public: OffPolicyPublic, blocks: int) -> dict[str, Any]:
    """The public part of so many blocks: as many times the trajectories and transitions that one
    may have."""
    rows = public.most_rows * blocks
    if rows > MOST_ROWS:
        says = (
            f"{blocks} blocks may have {rows} transitions together, by public bounds; at most "
            f"{MOST_ROWS} are read"
        )
        raise InvalidInput(says, pointer="/problem/source")
    given = public.model_dump(mode="json", exclude_none=True)
    return {**given, "max_trajectories": public.most_trajectories * blocks, "max_rows": rows}


def keys(content: Content) -> NDArray[Any]:
    """Keys by which trajectories are in the order of `joined`."""
    columns = (content[name] for name in sorted(content) if name != "start")
    return record_keys(content["start"], columns)


def joined(contents: Sequence[Content]) -> Content:
    """Trajectories of all blocks in the one order that depends on nothing but what stands in them:
    which block one is of does not show."""
    full = [content for content in contents if content["start"][-1]]
    if len(full) < 2:
        return full[0] if full else contents[0]
    ends = np.cumsum([0, *(content["start"][-1] for content in full)])
    starts = [content["start"][1:] + end for content, end in zip(full, ends, strict=False)]
    start = np.concatenate([[0], *starts]).astype(np.int64)
    columns = {
        name: np.concatenate([content[name] for content in full])
        for name in full[0]
        if name != "start"
    }
    sequence = record_order(start, (columns[name] for name in sorted(columns)))
    content = {name: rearranged(columns.pop(name), start, sequence) for name in list(columns)}
    return {"start": starts_of(start, sequence), **content}

"""Transitions that do not fit memory, read some trajectories at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.problems.contents import (
    Columns,
    Content,
    Issues,
    UnitRows,
    in_order,
    integer_columns,
    real_column,
    starts_in,
)
from discreet.problems.contents import check_names as check_columns
from discreet.problems.off_policy_evaluation.blocks import keys
from discreet.problems.off_policy_evaluation.canonical import (
    HEADLESS,
    as_stored,
    check_number,
    check_topology,
    check_values,
    truths_of,
    vectors_of,
)
from discreet.problems.off_policy_evaluation.public import MAX_STATES, OffPolicyPublic


def columns_of(
    public: OffPolicyPublic, table: pa.Table, prefix: str, first: int = 0
) -> tuple[Columns, pa.Table]:
    """The columns of a table, or of part of one that begins at row `first`, each of a type and
    integers within bounds; and what is left of it, with `trajectory`."""
    given = set(table.column_names)
    off_policy = bool(given & {"behaviour", "target"})
    reals = ["reward", *(["behaviour", "target"] if off_policy else [])]
    integers = {"step": (0, public.horizon - 1)}
    vectors: list[str] = []
    alike = public.states == 1 and not given & {"state", "next_state"}
    if public.states is not None:
        integers |= (
            {} if alike else {"state": (0, public.states - 1), "next_state": (0, MAX_STATES)}
        )
    else:
        for name in ("x", "x_next"):
            split = [f"{name}_{axis}" for axis in range(public.features or 0)]
            vectors += [name] if name in given else split
    needed = ["trajectory", *integers, *reals, *vectors, "terminal"]
    check_columns(table, needed, ["action"], prefix)
    columns: Columns = {}
    for name in ("state", "next_state") if alike else ():
        columns[name] = np.zeros(table.num_rows, dtype=np.int32)
    # One after the other, with few bits, and taken out of the table: a column of 20 million rows is
    # 160 MB in 64 bits.
    for name, bounds in integers.items():
        part = table.select([name])
        columns |= integer_columns(part, {name: bounds}, prefix, first=first, dtype=np.int32)
        table = table.drop_columns([name])
    for name in reals:
        columns[name] = real_column(table, name, prefix, first=first).astype(np.float64, copy=False)
        table = table.drop_columns([name])
    columns["terminal"] = truths_of(table, prefix)
    if public.features is not None:
        columns |= {
            name: vectors_of(table, name, public.features, prefix, first)
            for name in ("x", "x_next")
        }
    return columns, table


class TrajectoryRows(UnitRows):
    """Reads transitions with all of a trajectory in one part."""

    owner = "trajectory"
    public: OffPolicyPublic

    def __init__(self, public: OffPolicyPublic, *, whole: bool = False) -> None:
        """If `whole`, each trajectory must begin at step 0."""
        super().__init__(public)
        self._whole = whole

    def rows(self, table: pa.Table, first: int) -> Columns:
        columns, _ = columns_of(self.public, table, self.prefix, first)
        check_values(self.public, columns, self.prefix, first)
        if self.public.topology is not None:
            issues = Issues(self.prefix, first)

            def refuse(
                bad: NDArray[np.bool_], name: str, says: str, values: NDArray[Any], place: int
            ) -> None:
                issues.where(np.pad(bad, (place, 0)), name, says, values)
                issues.check()

            check_topology(self.public, columns, refuse)
        return columns

    def part(
        self, columns: Columns, owner: NDArray[np.integer[Any]], row: NDArray[np.int64]
    ) -> Content:
        owner, step, columns, order = in_order(owner, columns.pop("step"), columns)
        row = row if order is None else row[order]
        same = owner[1:] == owner[:-1]
        for stage, (bad, says) in enumerate(
            (
                (step[1:] == step[:-1], "a step appears twice in its trajectory"),
                (columns["terminal"][:-1], "a terminal transition ends its trajectory"),
            )
        ):
            at = np.flatnonzero(same & bad) + 1
            self.issues.where(row[at], "step", says, step[at], stage)
        start = starts_in(same, owner.size)
        if self._whole:
            headless = start[:-1][step[start[:-1]] != 0]
            self.issues.where(row[headless], "step", HEADLESS, step[headless], 2)
        self.units += start.size - 1
        as_stored(columns)
        return {"start": start, **columns}

    def keys(self, content: Content) -> NDArray[Any]:
        return keys(content)

    def check(self) -> None:
        super().check()
        check_number(self.public, self.units, self.prefix)

"""The private content that is a transition matrix: checked, from JSON or from a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.contents import MAX_ISSUES, Content, integer_columns, real_column

SUM_TOLERANCE = 1e-9


def matrix_content(
    mask: NDArray[np.bool_], floor: float, rows: Sequence[Sequence[float] | NDArray[np.float64]]
) -> Content:
    """Of rows as JSON has them. mask: bool[n, n], the support; floor: the least that an entry of it
    may be."""
    prefix = "/content/transitions"
    n = len(mask)
    if len(rows) != n:
        raise InvalidInput(f"{n} rows are needed, one a state; found {len(rows)}", pointer=prefix)
    ragged = [
        FieldIssue(f"{prefix}/{row}", f"{n} entries are needed")
        for row in range(n)
        if len(rows[row]) != n
    ]
    if ragged:
        raise InvalidInput(ragged[:MAX_ISSUES])
    matrix = np.array(rows, dtype=np.float64)
    found = []
    for origin, to in np.argwhere(~mask & (matrix > 0))[:MAX_ISSUES]:
        found.append(FieldIssue(f"{prefix}/{origin}/{to}", "must be 0 outside the public support"))
    for origin, to in np.argwhere(mask & (matrix < floor))[:MAX_ISSUES]:
        found.append(FieldIssue(f"{prefix}/{origin}/{to}", f"below min_probability {floor}"))
    for origin in np.flatnonzero(np.abs(matrix.sum(axis=1) - 1) > SUM_TOLERANCE)[:MAX_ISSUES]:
        found.append(
            FieldIssue(f"{prefix}/{origin}", f"must sum to 1; sums to {matrix[origin].sum():.12g}")
        )
    if found:
        raise InvalidInput(found[:MAX_ISSUES])
    return {"transitions": matrix}


def matrix_table(mask: NDArray[np.bool_], floor: float, table: pa.Table) -> Content:
    """The same of columns `from, to, probability`."""
    n = len(mask)
    columns = integer_columns(
        table, {"from": (0, n - 1), "to": (0, n - 1)}, "/content", beside=("probability",)
    )
    probability = real_column(table, "probability", "/content")
    cells = columns["from"] * n + columns["to"]
    if np.unique(cells).size != cells.size:
        raise InvalidInput("a transition is given twice", pointer="/content")
    matrix = np.zeros((n, n))
    matrix.ravel()[cells] = probability
    if not np.isfinite(matrix).all():
        raise InvalidInput("column 'probability' must hold finite numbers", pointer="/content")
    return matrix_content(mask, floor, matrix.tolist())

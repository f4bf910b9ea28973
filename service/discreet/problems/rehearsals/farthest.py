"""The row of a quantity that is farthest off in a rehearsal, by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.base import Problem
from discreet.problems.results import properties_of


def row_names(problem: Problem, answer: dict[str, Any], field: str) -> list[str]:
    """The names of the rows of a field for people: those of the problem's public objects, or what
    the rows of its table are, such as `step 54`. A single number has one row."""
    from discreet.problems.kind_modules import module_of  # noqa: PLC0415 - it knows all kinds, this one too

    called = getattr(module_of(problem.kind, "charts"), "row_names", None)
    names = None if called is None else called(problem.model_dump(mode="json"), answer, field)
    if names:
        return list(names)
    axis = properties_of(problem.Fields).get(field, {}).get("x-table", ("row",))[0]
    rows = np.atleast_1d(np.array(answer[field])).shape[0]
    return [f"{axis.replace('_', ' ')} {place}" for place in range(rows)]


def farthest(off: NDArray[np.float64], called: list[str]) -> dict[str, Any]:
    """The name of the row that is farthest off in the middle run, if there are several:
    float64[runs, rows]."""
    if off.shape[1] < 2:
        return {"farthest": None, "farthest_error": None}
    middle = np.median(off, axis=0)
    row = int(middle.argmax())
    return {
        "farthest": called[row] if row < len(called) else f"row {row}",
        "farthest_error": float(middle[row]),
    }

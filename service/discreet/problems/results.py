"""The published result of a job, field by field, in JSON or in tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MAX_JSON_NUMBERS = 1_000_000
"""A field of more numbers is left out of the JSON and given as a table."""


@dataclass(frozen=True)
class Output:
    """One field of a result: `value` makes it for JSON, `table` for Parquet when it is of more than 1e6 numbers."""

    value: Callable[[], Any]
    numbers: int = 1
    table: Callable[[], pa.Table] | None = None

    @classmethod
    def array(cls, array: NDArray[np.float64], *names: str) -> Self:
        """An array as nested lists, or as a table of one row a number: its position on each axis, then the number.

        `names`: of the axes, and of the numbers.
        """

        def table() -> pa.Table:
            positions = [axis.ravel() for axis in np.indices(array.shape)]
            return pa.table(dict(zip(names, [*positions, array.ravel()], strict=True)))

        return cls(array.tolist, numbers=array.size, table=table)

    @property
    def is_table(self) -> bool:
        return self.table is not None and self.numbers > MAX_JSON_NUMBERS


@dataclass(frozen=True)
class Result:
    """The published result of a job, field by field."""

    outputs: dict[str, Output] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result without its large fields; `tables` names those."""
        body = {name: output.value() for name, output in self.outputs.items() if not output.is_table}
        return {**body, "tables": sorted(name for name, output in self.outputs.items() if output.is_table)}

    def tables(self, *, every: bool = False) -> dict[str, pa.Table]:
        """The large fields, or every field that can be a table."""
        return {
            name: output.table()
            for name, output in self.outputs.items()
            if output.table is not None and (every or output.is_table)
        }

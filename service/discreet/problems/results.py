"""The published result of a job, field by field, in JSON or in tables; and how a kind declares
these fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, NotRequired, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from discreet.problems.accuracy import Uncertainty

MAX_JSON_NUMBERS = 1_000_000
"""A field of more numbers is left out of the JSON and given as a table."""


class ResultFields(TypedDict):
    """The fields of a result. Kinds add their own: see `shown`."""

    tables: Annotated[
        list[str],
        Field(
            description="Fields with more than a million numbers: left out here and given as "
            "Parquet"
        ),
    ]


class Combined(TypedDict):
    """What combining several releases of the same sums gained."""

    releases: Annotated[
        int,
        Field(
            description="How many were combined, weighted by the inverse variance of their noise"
        ),
    ]
    standard_deviation: Annotated[
        float,
        Field(description="Standard deviation of the noise on each of their sums, as combined"),
    ]
    least_alone: Annotated[float, Field(description="The same for the most accurate of them alone")]


class NoisedFields(ResultFields):
    """The fields of a result of what was noised."""

    uncertainty: NotRequired[
        Annotated[
            Uncertainty,
            Field(description="How far the noise may have moved the numbers of this result"),
        ]
    ]


class SummedFields(NoisedFields):
    """The fields of a result of sums that were noised: those of several releases are combined."""

    combined: NotRequired[
        Annotated[Combined, Field(description="For several releases: what combining them gained")]
    ]


def shown(
    description: str,
    *,
    unit: str | None = None,
    title: str | None = None,
    table: tuple[str, ...] = (),
) -> Any:
    """What is published of a field of a result, in `Annotated`: a sentence, its unit, its name for
    people.

    `table`: the columns that it has as a table, where it can be one; it is then NotRequired, as a
    field that only some results have. Of an array they are its positions on each axis, then the
    number.
    """
    said: dict[str, Any] = {"x-unit": unit} if unit else {}
    if table:
        said["x-table"] = list(table)
    return Field(title=title, description=description, json_schema_extra=said or None)


@cache
def properties_of(fields: Any) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field of a kind's `Fields`."""
    properties: dict[str, dict[str, Any]] = TypeAdapter(fields).json_schema()["properties"]
    return properties


def in_words(name: str, fields: Any) -> str:
    """The name of a field of a result inside a sentence: the title in the kind's `Fields`."""
    known = {} if fields is None else properties_of(fields)
    plain = name.replace("_", " ")
    title = str(known.get(name, {}).get("title", plain))
    return (
        plain if title == plain.title() else title
    )  # a title that nobody gave is the name in capitals


@dataclass(frozen=True)
class Output:
    """One field of a result: `value` makes it for JSON, `table` for Parquet when it is of more than
    1e6 numbers."""

    value: Callable[[], Any]
    numbers: int = 1
    table: Callable[[], pa.Table] | None = None

    @classmethod
    def of(cls, value: Any, *names: str) -> Output:
        """A value as an output: an array as `array` has it."""
        if isinstance(value, np.ndarray):
            return cls.array(value, *names)
        return value if isinstance(value, Output) else cls(lambda: value)

    @classmethod
    def array(cls, array: NDArray[np.float64], *names: str) -> Self:
        """An array as nested lists, or as a table of one row a number: its position on each axis,
        then the number.

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

    @classmethod
    def of(cls, fields: Any, values: Mapping[str, Any]) -> Self:
        """The fields that a kind declared, by name: an array, which may be a table; an `Output`; or
        anything small."""
        declared = properties_of(fields)
        return cls(
            {
                name: Output.of(value, *declared[name].get("x-table", ()))
                for name, value in values.items()
            }
        )

    def beside(self, name: str, value: Any) -> Self:
        """This result with one more field."""
        return type(self)({**self.outputs, name: Output.of(value)})

    def to_json(self) -> dict[str, Any]:
        """The result without its large fields; `tables` names those."""
        body = {
            name: output.value() for name, output in self.outputs.items() if not output.is_table
        }
        return {
            **body,
            "tables": sorted(name for name, output in self.outputs.items() if output.is_table),
        }

    def tables(self, *, every: bool = False) -> dict[str, pa.Table]:
        """The large fields, or every field that can be a table."""
        return {
            name: output.table()
            for name, output in self.outputs.items()
            if output.table is not None and (every or output.is_table)
        }

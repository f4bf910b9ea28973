"""The published result of a job, field by field, in JSON or in tables; and how a kind declares
these fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from discreet_client import intervals
from discreet_client.intervals import Stated

# Accuracy -----------------------------------------------------------------------------------------
# How good an answer is: intervals of what was released, and what to expect of them before anything
# is.
#
# Neither needs data: the distributions of all noise are public, so the effect of privacy follows
# from the released outputs (`Uncertainty`) or, before there are any, from public figures
# (`Expected`). Neither costs anything.

LEVEL = 0.9
"""Of the intervals of results."""

INTERVALS: Any = Field(
    default=True, description="Whether the result says how far the noise may have moved its numbers"
)
"""Of the problem field `uncertainty`, which is a `Flag`; without it `finish` takes no longer than
its solver."""


IntervalKind = Literal["noise", "noise_and_bins", "confidence"]
"""As `discreet_client.intervals.KINDS` names them."""
NOISE: IntervalKind = "noise"
CONFIDENCE: IntervalKind = "confidence"


class Interval(TypedDict):
    """Two numbers, or two arrays of the field's shape; null where nothing can be said."""

    lower: Any
    upper: Any


class Uncertainty(TypedDict):
    """How far the noise may have moved a result, from what was released and the public distribution
    of the noise."""

    level: Annotated[
        float,
        Field(description="Probability with which an interval holds the number that it is of"),
    ]
    values: Annotated[
        dict[str, Interval],
        Field(
            description="By field of the result; a field without an entry has no honest interval"
        ),
    ]
    kinds: Annotated[
        dict[str, IntervalKind],
        Field(
            description="By field of `values`, what its intervals allow for. `noise`: the noise "
            "alone (noise interval, NI). `noise_and_bins`: the noise, and where readings lie in "
            "the bins of their states. `confidence`: the noise, and who is in the data (confidence "
            "interval, CI)"
        ),
    ]
    noise_dominates: Annotated[
        dict[str, bool | list[bool]],
        Field(description="By field: whether it, or each of its rows, is mostly noise"),
    ]
    mostly_noise: Annotated[
        bool, Field(description="Whether the answer as a whole is mostly noise")
    ]


@dataclass(frozen=True)
class Expected:
    """How far privacy is expected to move one quantity of a result, by public figures."""

    quantity: str
    """A field of the result; for what a field says of a part of it, `field.part`."""
    within: float
    """Half the width of the requested interval; infinite where the answer would be mostly noise."""
    unit: str
    """The unit as it follows a number: `in trips a period`."""
    sentence: str
    """For people, in the units of the field: ± what, of how much, and what that is good for."""
    size: float | None = None
    """About how large the quantity is, in public figures; per cent are of this. None: not known
    without the data."""
    lacks: str = ""
    """The missing public figure, as a clause, without which no accuracy is promised at any
    epsilon."""
    margin: float = 1.0
    """How many times `within` is counted where an accuracy is promised: noise moves the answers of
    some data, of which public figures do not tell, much more, and a promise counts these too."""

    took: tuple[float, float] | None = None
    """Between what parts of the epsilon that is given for an accuracy the smallest that would do
    was, of eight truths in ten (`make bench ARGS=inverse`); None where the width is known
    exactly."""
    interval: float | None = None
    """Half the width that the result's interval will have, where it is made to hold more than the
    errors that are expected; None: `within`."""

    @property
    def promised(self) -> float:
        """Half the width that holds as often as requested, over the possible data."""
        return self.margin * self.within


# Results ------------------------------------------------------------------------------------------

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


# Headlines ----------------------------------------------------------------------------------------
# Sentences that answer what was asked: how kinds make theirs, each a number with its interval and
# what that lets one say. `answers.py` finds those of a result.

ORDER = 10
"""The larger end of an interval in parts of the smaller, up to which the order of magnitude is
told."""
NO_SIGN = "Sign undetermined."
NOT_FROM_ZERO = "Not distinguishable from 0."
NONZERO = "Nonzero; size uncertain."
NO_INTERVAL = "No interval available."
LONGEST = 120
"""Characters of a sentence."""
SHOWN = 0.01
"""In parts of an interval's width: what is nearer to 0 than that is written as 0."""
SIZES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


@dataclass(frozen=True)
class Headline:
    """A sentence: `figure`, a number with its interval, between the words before and after it."""

    before: str
    figure: str = ""
    after: str = ""
    unit: str = ""
    """What the figure is measured in, as the contract says it."""
    good_for: str = ""
    """What the interval lets one say; empty where no noise was added, or there is no figure."""

    @property
    def text(self) -> str:
        return f"{self.before}{self.figure}{self.after}"


def headline(
    fields: Any,
    result: Mapping[str, Any],
    name: str,
    before: str,
    after: str = "",
    kind: str = "",
    between: str = "",
) -> Headline:
    """A sentence about one number of the result. `fields`: those of the kind, which say its unit;
    the rest as in `figure`."""
    unit = properties_of(fields).get(name, {}).get("x-unit", "")
    shown = figure(result, name, kind, between)
    return Headline(before, shown, after, unit, good_for(result, name))


def figure(result: Mapping[str, Any], name: str, kind: str = "", between: str = "") -> str:
    """A number of the result with its interval, large ones in millions: `7.48 million (90 % NI:
    7.30–7.60)`. `between`: what the number is of, before the interval; `kind`: of the interval, if
    not the one that the result states."""
    value, said = result[name], _stated(result, name)
    lower, upper = (None, None) if said is None else (said.lower, said.upper)
    level, noise = (LEVEL, False) if said is None else (said.level, said.all_noise)
    size, word = next(((size, word) for size, word in SIZES if abs(value) >= size), (1, ""))
    between = f"{word and ' '}{word}{between}"
    if word:
        value, lower, upper = (None if one is None else one / size for one in (value, lower, upper))
    if lower is None or upper is None:
        noted = " (mostly noise)" if noise else ""
        return f"{intervals.plain(value, 4)}{between}{noted}"
    kind = kind or intervals.kind_of(result, name)
    return intervals.with_interval(
        value, lower, upper, level, noise=noise, kind=kind, between=between
    )


def good_for(result: Mapping[str, Any], name: str) -> str:
    """What a number's interval lets one say of it."""
    said = _stated(result, name)
    if said is None:
        return NO_INTERVAL if result.get("uncertainty") else ""
    lower, upper = said.lower, said.upper
    if lower is None or upper is None:
        return NO_INTERVAL
    return good_for_ends(result[name], lower, upper)


def good_for_ends(value: float, lower: float, upper: float) -> str:
    """What two ends let one say of a number between them."""
    if lower < 0 < upper:
        return NO_SIGN
    near, far = sorted((abs(lower), abs(upper)))
    if lower <= 0 <= upper or near < SHOWN * (upper - lower):
        return NOT_FROM_ZERO
    # Of the interval's middle where the number lies near the end that is nearer to 0: ± 130 % would
    # deny the sign.
    part = (upper - lower) / 2 / max(abs(value), (near + far) / 2)
    if far <= ORDER * near:
        return f"±{intervals.plain(100 * part)} % ({intervals.percent(LEVEL)})."
    return NONZERO


def only_noise(result: Mapping[str, Any], name: str) -> tuple[int, int]:
    """How many rows of a field are only noise, and of how many."""
    said = _stated(result, name)
    return (0, 0) if said is None else (len(said.rows_of_noise), said.rows)


def counted(count: int, noun: str) -> str:
    """`1 link`, `2 links`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _stated(result: Mapping[str, Any], name: str) -> Stated | None:
    return next((one for one in intervals.stated(result) if one.name == name), None)

"""How good an answer is: intervals of what was released, and what to expect of them before anything
is.

Neither needs data: the distributions of all noise are public, so the effect of privacy follows
from the released outputs (`Uncertainty`) or, before there are any, from public figures
(`Expected`). Neither costs anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

LEVEL = 0.9
"""Of the intervals of results."""

INTERVALS: Any = Field(
    default=True, description="Whether the result says how far the noise may have moved its numbers"
)
"""Of the problem field `uncertainty`, which is a `Flag`; without it `finish` takes no longer than
its solver."""


class Interval(TypedDict):
    """Two numbers, or two arrays of the field's shape; null where nothing can be said."""

    lower: Any
    upper: Any


class Uncertainty(TypedDict):
    """How far the noise may have moved a result, from what was released and the public distribution
    of the noise."""

    level: Annotated[
        float,
        Field(description="Probability with which an interval holds what it would be unnoised"),
    ]
    values: Annotated[
        dict[str, Interval],
        Field(
            description="By field of the result; a field without an entry has no honest interval"
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

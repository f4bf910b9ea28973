"""Field types that several kinds share: exact privacy figures, counts, ids."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from discreet.intake.field_issues import FieldError
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, delta_units, epsilon_units, rho_units
from discreet_client.names import unseen

PRESETS = {"strict": Decimal("0.1"), "usual": Decimal(1), "loose": Decimal(4)}
"""Epsilons in words."""
LARGEST_AUTO_DELTA_EXPONENT, UNCOUNTED_AUTO_DELTA_EXPONENT = 6, 9
PER_CENT = r"^\d{1,9}(\.\d{1,9})? ?%$"
MAX_EPSILON = 1000
MAX_RHO = 1000
LEAST_CLIP = 1e-9
EPSILON_DECIMALS = len(str(EPSILON_UNIT)) - 1
DELTA_DECIMALS = len(str(DELTA_UNIT)) - 1


class Frozen(BaseModel):
    """A value: frozen, no unknown fields, no NaN and no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _all_seen(name: str) -> str:
    hidden = unseen(name)
    if hidden is not None:
        raise ValueError(
            f"the character U+{ord(hidden):04X} is invisible: everybody must be able to read this "
            "text"
        )
    return name


Seen = AfterValidator(_all_seen)
"""Of every name and text of people's making that others are shown: datasets, keys, zones, links."""


def _exact(value: Any) -> Decimal:
    """The decimal that was written, from a JSON number; text keeps digits that a float would
    lose."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number is needed, in JSON without quotes")
    try:
        number = Decimal(getattr(value, "text", repr(value)))
    except InvalidOperation:
        raise ValueError("a finite number is needed") from None
    # The exponent is looked at before any arithmetic: 1e999999999 must not become an integer of a
    # billion digits.
    if not number.is_finite() or number.adjusted() > 30:
        raise ValueError("a finite number is needed")
    return number


def _at_most(decimals: int) -> BeforeValidator:
    def check(value: Any) -> Decimal:
        number = _exact(value)
        # By its digits: arithmetic would round them, and make 1e-999999999 nothing.
        _, digits, exponent = number.as_tuple()
        written = "".join(map(str, digits))
        zeros = len(written) - len(written.rstrip("0"))
        if number and isinstance(exponent, int) and -exponent - zeros > decimals:
            raise ValueError(f"at most {decimals} decimals")
        return number

    return BeforeValidator(check)


_AS_FLOAT = PlainSerializer(float, return_type=float, when_used="json")

Epsilon = Annotated[
    Decimal,
    Gt(0),
    Le(MAX_EPSILON),
    _at_most(EPSILON_DECIMALS),
    _AS_FLOAT,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_EPSILON}),
]
Delta = Annotated[
    Decimal,
    Ge(0),
    Lt(1),
    _at_most(DELTA_DECIMALS),
    _AS_FLOAT,
    WithJsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1}),
]
Rho = Annotated[
    Decimal,
    Gt(0),
    Le(MAX_RHO),
    _at_most(DELTA_DECIMALS),
    _AS_FLOAT,
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_RHO}),
]
Real = Annotated[float, Field(strict=True)]
"""A JSON number: not a text that looks like one, and not `true`."""


def at_least(least: float, why: str) -> AfterValidator:
    """A bound that older contracts do not have."""

    def check(value: float) -> float:
        if value < least:
            raise ValueError(f"at least {least:g}: {why}")
        return value

    return AfterValidator(check)


CLIP = at_least(LEAST_CLIP, "squares of smaller vectors are 0 in doubles")
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Ge(0), Le(10**9), Field(strict=True)]
Positive = Annotated[int, Ge(1), Le(10**9), Field(strict=True)]


def auto_delta(units: int | None) -> Decimal:
    """The delta of `"auto"`, from the public number of the units whom it protects, or the public
    bound on it: the largest power of ten that is at most 1e-6 and a thousandth of one in `units`;
    1e-9 where neither is public.

    With a probability of at most delta a release may fail somebody altogether. So of a thousand
    releases less than one is expected to fail anybody, however many units there are.
    """
    if units is None:
        return Decimal(1).scaleb(-UNCOUNTED_AUTO_DELTA_EXPONENT)
    return Decimal(1).scaleb(-max(LARGEST_AUTO_DELTA_EXPONENT, 3 + len(str(units - 1))))


def _auto_or_figure(value: Any) -> Any:
    if value is None:
        raise ValueError('a number or "auto" is needed')
    return None if value == "auto" else value


def _within(value: Any) -> Any:
    is_number = (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
    )
    if is_number or (
        isinstance(value, str) and re.fullmatch(PER_CENT, value, re.ASCII) and value.strip("0. %")
    ):
        return value
    raise ValueError(
        "a number above 0 in the unit of the quantity is needed, or a text such as `5%`"
    )


class Accuracy(Frozen):
    """A requested accuracy, instead of what may be spent."""

    quantity: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="One of the quantities that the kind predicts before a release; absent: the "
        "first of them",
    )
    within: Annotated[
        float | str,
        BeforeValidator(_within),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0},
                    {"type": "string", "pattern": PER_CENT},
                ]
            }
        ),
    ] = Field(
        description="Half the width of the interval: in the unit of the quantity, or text such as "
        "`5%` of its size"
    )
    around: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="A job with a release about data of the same public shape: the accuracy is "
        "then predicted for data as it released them; absent: predicted from public figures alone",
    )
    confidence: Real = Field(
        default=0.9,
        ge=0.5,
        le=0.999,
        description="Probability with which the noise should stay within it",
    )

    @property
    def part(self) -> float | None:
        """The fraction of the quantity's size, if `within` is in per cent."""
        return float(self.within.rstrip(" %")) / 100 if isinstance(self.within, str) else None


class Privacy(Frozen):
    """The privacy budget of one job: in figures, which are read as exact decimals, or in other
    words."""

    epsilon: Epsilon | None = Field(
        default=None, description="Privacy loss bound; at most 9 decimals"
    )
    rho: Rho | None = Field(
        default=None,
        description="Instead of epsilon: the parameter of zero-concentrated DP, with a delta; the "
        "mechanism is then the one with least noise at this rho, and the most such jobs fit under "
        "a cap",
    )
    preset: Literal["strict", "usual", "loose"] | None = Field(
        default=None,
        description="Instead of epsilon: 0.1, 1 or 4, with delta `auto` unless another is given",
    )
    accuracy: Accuracy | None = Field(
        default=None,
        description="Instead of epsilon, in plans: the smallest epsilon with which the answer is "
        "expected to be this accurate; delta is `auto` unless another is given",
    )
    delta: Annotated[
        Delta | None,
        BeforeValidator(_auto_or_figure),
        WithJsonSchema(
            {"anyOf": [{"type": "number", "minimum": 0, "exclusiveMaximum": 1}, {"const": "auto"}]}
        ),
    ] = Field(
        default=Decimal(0),
        description="Probability of exceeding it; at most 18 decimals. `auto`: the largest power "
        "of ten that is at most 1e-6 and 1 / (1000 units), where their number or a bound on it is "
        "public, else 1e-9; a mechanism that needs none is charged 0",
    )
    unit: str | None = Field(default=None, description="If given, must name the dataset's own unit")

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        if (
            sum(one is not None for one in (self.epsilon, self.rho, self.preset, self.accuracy))
            != 1
        ):
            raise ValueError("exactly one of epsilon, rho, preset and accuracy is needed")
        if self.rho is not None and self.delta == 0:
            raise FieldError("delta", "rho needs a delta above 0")
        if self.epsilon is None and self.rho is None and "delta" not in self.model_fields_set:
            object.__setattr__(self, "delta", None)
        return self

    @property
    def in_figures(self) -> bool:
        """Whether epsilon or rho, and delta, are numbers already."""
        return self.delta is not None and self.preset is None and self.accuracy is None

    def settled(self, units: int | None) -> Self:
        """The same with its preset, and delta `auto`, as figures. `units`: as for `auto_delta`."""
        figures = {
            "epsilon": self.epsilon if self.preset is None else PRESETS[self.preset],
            "preset": None,
            "delta": auto_delta(units) if self.delta is None else self.delta,
        }
        return self.model_copy(update=figures)

    @property
    def budget(self) -> Budget:
        """Of a privacy in figures."""
        return Budget(
            epsilon=epsilon_units(self.epsilon or 0, rounding="down"),
            delta=delta_units(self.delta or 0, rounding="down"),
            rho=None if self.rho is None else rho_units(self.rho, rounding="down"),
        )


class Budget(Frozen):
    """A privacy budget in integer units: epsilon in 1e-9, delta and rho in 1e-18.

    With a rho the mechanism of least noise at equal rho is chosen; `Problem.plan_within` keeps it.
    """

    epsilon: int
    delta: int
    rho: int | None = None

"""Field types that several kinds share: exact privacy figures, counts, ids."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Self

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

from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, delta_units, epsilon_units, rho_units

MAX_EPSILON = 1000
MAX_RHO = 1000
LEAST_CLIP = 1e-9
EPSILON_DECIMALS = len(str(EPSILON_UNIT)) - 1
DELTA_DECIMALS = len(str(DELTA_UNIT)) - 1


class Frozen(BaseModel):
    """A value: frozen, no unknown fields, no NaN and no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _exact(value: Any) -> Decimal:
    """The decimal that was written, from a JSON number; text keeps digits that a float would lose."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a JSON number is needed")
    try:
        number = Decimal(getattr(value, "text", repr(value)))
    except InvalidOperation:
        raise ValueError("a finite number is needed") from None
    # The exponent is looked at before any arithmetic: 1e999999999 must not become an integer of a billion digits.
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
    """A bound that the contract of before does not have."""

    def check(value: float) -> float:
        if value < least:
            raise ValueError(f"at least {least:g}: {why}")
        return value

    return AfterValidator(check)


CLIP = at_least(LEAST_CLIP, "squares of smaller vectors are 0 in doubles")
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Ge(0), Le(10**9), Field(strict=True)]
Positive = Annotated[int, Ge(1), Le(10**9), Field(strict=True)]


class Privacy(Frozen):
    """The privacy budget of one job, read as exact decimals."""

    epsilon: Epsilon | None = Field(default=None, description="Privacy loss; at most 9 decimals")
    rho: Rho | None = Field(
        default=None,
        description="Instead of epsilon: what zero-concentrated DP counts, with a delta; the mechanism is then the one "
        "of least noise at this rho, of which most jobs fit under a cap",
    )
    delta: Delta = Field(default=Decimal(0), description="Probability of exceeding it; at most 18 decimals")
    unit: str | None = Field(default=None, description="Must name the dataset's own unit when given")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("either epsilon or rho is needed, and not both")
        if self.rho is not None and self.delta == 0:
            raise ValueError("rho needs a delta above 0")
        return self

    @property
    def budget(self) -> Budget:
        return Budget(
            epsilon=epsilon_units(self.epsilon or 0, rounding="down"),
            delta=delta_units(self.delta, rounding="down"),
            rho=None if self.rho is None else rho_units(self.rho, rounding="down"),
        )


class Budget(Frozen):
    """A privacy budget in integer units: epsilon in 1e-9, delta and rho in 1e-18.

    With a rho the mechanism of least noise at equal rho is chosen; `Problem.plan_within` keeps it.
    """

    epsilon: int
    delta: int
    rho: int | None = None

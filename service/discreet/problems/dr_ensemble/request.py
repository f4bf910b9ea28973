"""What a problem of demand response asks: its fields, and what follows from them alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from discreet.intake.items import InPieces
from discreet.problems.dr_ensemble.limits import LoadLimits
from discreet.problems.dr_ensemble.public import MAX_STATES
from discreet.problems.numbers import CLIP, Count, Flag, Real
from discreet.problems.results import INTERVALS
from discreet.problems.reuse import ProblemOnData

Numbers = Annotated[tuple[Real, ...], InPieces()]
Spread = Annotated[tuple[Annotated[Real, Field(ge=0, le=1)], ...], InPieces(max_length=MAX_STATES)]


class DrEnsembleRequest(ProblemOnData):
    """The fields of `DrEnsemble`, for the files that it is made of."""

    kind: Literal["dr_ensemble"]
    power: Annotated[tuple[Real, ...], InPieces(min_length=2, max_length=MAX_STATES)] | None = (
        Field(
            default=None,
            description="Power of each state. Absent: the middles of the bins between the public "
            "`edges` of the dataset",
        )
    )
    price: Annotated[tuple[Real, ...], InPieces(min_length=2, max_length=100_000)] | None = Field(
        default=None,
        description="Money per unit of power in each step; the utility is then minus price times "
        "power. A price per kWh is multiplied by the hours of a step: 0.30 per kWh is 0.075 per "
        "kW in steps of a quarter of an hour. `discreet convert prices` makes it from a file of "
        "day-ahead prices",
    )
    utility: Annotated[tuple[Numbers, ...], InPieces(min_length=2, max_length=100_000)] | None = (
        Field(default=None, description="Money for each step and state, instead of `price`")
    )
    discomfort_weight: Annotated[
        Real,
        Field(
            gt=0,
            le=1e12,
            description="Cost of moving loads against their habits, in the money of `price` or "
            "`utility`: the larger, the less they are moved",
        ),
    ]
    initial: Spread | Literal["released"] = Field(
        description="Distribution of the loads over the states at step 0, chosen without looking "
        "at the data; or `released`, the distribution of their time in the release",
        examples=["released"],
    )
    first_step: Count = Field(
        default=0,
        description="The step of the day at step 0, if the dataset has a `day`: with 48 steps a "
        "day, 36 is six in the evening",
    )
    limits: LoadLimits | None = Field(
        default=None,
        description="Limits on the expected load: the best policy that keeps them is found",
    )
    event: Annotated[tuple[tuple[Count, Count], ...], InPieces(max_length=1000)] | None = Field(
        default=None,
        description="Steps that the answer compares with all others, with and without control: "
        "[[first, end], …], each from `first` to before `end`. Absent: the expensive ones, if the "
        "price has two levels",
    )
    method: Literal["auto", "counts", "dirichlet"] = "auto"
    policy: Literal["exact", "taylor", "digamma", "average"] = "exact"
    concentration: Annotated[Real, Field(gt=0, le=1e12)] | None = Field(
        default=None,
        description="k of the last three policies; absent: the Dirichlet mechanism's own",
    )
    samples: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = Field(
        default=None, description="Draws of the average policy; absent: its closed form"
    )
    clip: Annotated[Real, Field(gt=0, le=1), CLIP] | Literal["auto"] | None = Field(
        default=None,
        description="Public bound on the l2 norm of a participant's histogram: less noise, some "
        "bias. `auto` takes the bound with the least expected error, by public figures",
    )
    prior: Annotated[Real, Field(ge=0, le=1e6)] = Field(
        default=0.0,
        description="Added to each parameter of a Dirichlet draw; lets small epsilons be met",
    )

    uncertainty: Flag = INTERVALS

    @property
    def horizon(self) -> int:
        """T, the number of steps."""
        return len(self.utility if self.utility is not None else self.price or ())

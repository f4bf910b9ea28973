"""What is published of an ensemble."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems import descriptions
from discreet.problems.dr_ensemble.day import Day
from discreet.problems.dr_ensemble.meters import Meters
from discreet.problems.numbers import Count, Frozen, Positive, Real
from discreet_client.meters import MeterRule

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_STATES = 2000
UNDECLARED_ROWS = 500_000
"""Rows of a private content whose owner declares no bound: releases take the time of so many."""
MAX_FIGURE = 1e12
"""Of power, price and utility: the costs of a whole horizon stay finite numbers."""
Probability = Annotated[Real, Field(gt=0, lt=1)]


class DrEnsemblePublic(Frozen):
    """What is published of an ensemble. With `row_change` its content is a transition matrix, else
    trajectories."""

    unit: Literal["participant", "row"] = Field(
        description="What the noise hides: one participant, or one row of the matrix"
    )
    states: Annotated[int, Field(strict=True, ge=2, le=MAX_STATES)]
    support: Literal["all"] | Annotated[list[tuple[Count, Count]], InPieces()] = Field(
        default="all",
        description="Transitions [from, to] that are possible; all others have probability 0",
    )
    min_probability: Probability | None = Field(
        default=None, description="Floor of the transitions in the support"
    )
    row_change: Probability | None = Field(
        default=None,
        description="l1 distance h of neighbouring rows: two entries move by at most h/2",
    )
    participants: Annotated[int, Field(strict=True, ge=2, le=10**9)] | None = Field(
        default=None,
        description="If given, it is public and neighbours replace one participant; otherwise "
        "neighbours add or remove one",
    )
    steps: Annotated[int, Field(strict=True, ge=2, le=10**6)] | None = Field(
        default=None,
        description="The number of states of every trajectory, if it is the same for all and "
        "public: 96 for a day of quarter-hours",
    )

    max_rows: Positive | None = Field(
        default=None,
        description="Public bound on the states of all trajectories together, chosen without "
        "looking at them: releases take the time of so many. Absent: the larger of "
        f"{UNDECLARED_ROWS:,} and ten for each public participant",
    )
    edges: Annotated[tuple[Real, ...], InPieces(min_length=3, max_length=MAX_STATES + 1)] | None = (
        Field(
            default=None,
            description="Increasing power in kW, chosen without looking at the data: state s is "
            "edges[s] <= kW < edges[s + 1]. Its power is the middle unless a problem gives one",
        )
    )
    meters: Meters | None = Field(
        default=None,
        description="How readings of meters become states, by `edges`; without it the content "
        "holds states",
    )
    day: Day | None = Field(
        default=None,
        description="Blocks of hours with transition matrices of their own, at the same noise. "
        "Absent: one matrix for all hours, by which an uncontrolled load goes to its mean and "
        "stays there. It cannot be added once something was spent on the data",
    )

    reader: descriptions.Rules = None
    columns: descriptions.Names = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.row_change is None and self.unit == "row":
            raise FieldError("row_change", "the unit row needs row_change")
        if self.row_change is not None:
            if self.min_probability is None:
                says = (
                    "row_change needs min_probability: the noise of a row rests on its least entry"
                )
                raise FieldError("min_probability", says)
            if self.row_change >= 2 * self.min_probability:
                raise FieldError("row_change", "must be less than twice min_probability")
            if self.participants is not None or self.steps is not None or self.max_rows is not None:
                says = (
                    "belongs to a transition matrix; participants, steps and max_rows belong to "
                    "trajectories"
                )
                raise FieldError("row_change", says)
        if self.day is not None:
            self.day.check(
                self.states,
                MAX_STATES,
                self.steps,
                of_matrix=self.row_change is not None,
                of_meters=self.meters is not None,
            )
        if self.edges is not None:
            if len(self.edges) != self.states + 1:
                says = f"{self.states} states need {self.states + 1} edges; found {len(self.edges)}"
                raise FieldError("edges", says)
            if max(map(abs, self.edges)) > MAX_FIGURE or any(
                low >= high for low, high in pairwise(self.edges)
            ):
                raise FieldError("edges", f"must increase, and be at most {MAX_FIGURE:g} large")
            if self.row_change is not None:
                raise FieldError(
                    "edges", "belong to trajectories; row_change belongs to a transition matrix"
                )
        if self.meters is not None:
            if self.edges is None:
                raise FieldError("edges", "needed with meters, to turn power into states")
            if self.meters.gaps == "end" and self.steps is not None:
                says = (
                    "a trajectory that ends before a gap has not public.steps states: "
                    "leave_out, or no steps"
                )
                raise FieldError("meters/gaps", says)
        if isinstance(self.support, list):
            if any(state >= self.states for pair in self.support for state in pair):
                raise FieldError("support", f"states must be 0 to {self.states - 1}")
            if len(set(self.support)) != len(self.support):
                raise FieldError("support", "a transition is given twice")
            if len({origin for origin, _ in self.support}) != self.states:
                raise FieldError("support", "every state needs a transition")
        widest = int(self.mask().sum(axis=1).max())
        if self.min_probability is not None and self.min_probability * widest > 1:
            raise FieldError(
                "min_probability", f"times the {widest} transitions of a state it exceeds 1"
            )
        return self

    @property
    def most_rows(self) -> int:
        """How many states of trajectories there may be, from public figures."""
        most = self.max_rows or max(UNDECLARED_ROWS, 10 * (self.participants or 0))
        return self.participants * self.steps if self.participants and self.steps else most

    @property
    def middles(self) -> Floats | None:
        """float64[n]: the power in the middle of each state's bin; None where states are no
        bins."""
        return (
            None
            if self.edges is None
            else (np.array(self.edges[1:]) + np.array(self.edges[:-1])) / 2
        )

    @property
    def blocks(self) -> int:
        """How many transition matrices there are."""
        return 1 if self.day is None else len(self.day.blocks)

    @property
    def cells(self) -> int:
        """How many transitions are counted: those of the support, in each block."""
        return self.blocks * int(self.mask().sum())

    @property
    def matrix(self) -> str:
        """The field of a result that has the released transitions."""
        return "transitions" if self.day is None else "block_transitions"

    @property
    def shares(self) -> Floats:
        """float64[blocks]: the part of the moves that falls into each block."""
        return np.ones(1) if self.day is None else self.day.shares(self.steps)

    def widths(self) -> Ints:
        """int64[blocks · n]: how many transitions leave each state, in each block."""
        return np.tile(self.mask().sum(axis=1), self.blocks)

    def rule(self) -> MeterRule:
        """The rule by which readings become states."""
        return MeterRule.of(self.model_dump(include={"edges", "steps", "meters"}))

    def mask(self) -> NDArray[np.bool_]:
        """bool[n, n]: the support."""
        if self.support == "all":
            return np.ones((self.states, self.states), dtype=bool)
        mask = np.zeros((self.states, self.states), dtype=bool)
        pairs = np.array(self.support)
        mask[pairs[:, 0], pairs[:, 1]] = True
        return mask

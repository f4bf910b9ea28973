"""The fields of a multi-agent problem, and what follows from them alone."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.federation import FederatedProblem
from discreet.problems.multi_agent.dataset import (
    MAX_CHARACTERS_TOGETHER,
    MAX_CONSTRAINTS,
    LongText,
)
from discreet.problems.numbers import Flag, Frozen, Real
from discreet.problems.results import INTERVALS
from discreet.problems.reuse import ProblemOnData
from discreet.solvers.saddle import saddle_point

MAX_STEPS = 1_000_000
MAX_ROUNDS = 100_000


class StepSchedule(Frozen):
    """gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, 0 < c2 < c1, c1 + c2 < 1 (eqs 7 and 8), and the
    number of steps."""

    gamma: Annotated[Real, Field(gt=0, le=1e6)]
    alpha: Annotated[Real, Field(gt=0, le=1e6)]
    c1: Annotated[Real, Field(gt=0, lt=1)]
    c2: Annotated[Real, Field(gt=0, lt=1)]
    iterations: Annotated[int, Field(strict=True, ge=1, le=MAX_STEPS)]

    @model_validator(mode="after")
    def _converges(self) -> Self:
        self.solver_form()
        return self

    def solver_form(self) -> saddle_point.Schedule:
        return saddle_point.Schedule(self.gamma, self.alpha, self.c1, self.c2)


class MultiAgentRequest(FederatedProblem, ProblemOnData):
    """The fields of `MultiAgent`, for its modules."""

    kind: Literal["multi_agent"]
    constraints: Annotated[
        tuple[LongText, ...], InPieces(min_length=1, max_length=MAX_CONSTRAINTS)
    ] = Field(
        description="Expressions in the names of agents or of their coordinates, convex, meant <= 0"
    )
    schedule: StepSchedule
    uncertainty: Flag = INTERVALS

    @property
    def needs_data(self) -> bool:
        return self.protocol == "job"

    @model_validator(mode="after")
    def _texts_are_short(self) -> Self:
        count = sum(map(len, self.constraints))
        if count > MAX_CHARACTERS_TOGETHER:
            says = f"{count} characters together; at most {MAX_CHARACTERS_TOGETHER}"
            raise FieldError("constraints", says)
        return self

    @model_validator(mode="after")
    def _rounds_are_few(self) -> Self:
        if self.protocol == "federated" and self.schedule.iterations > MAX_ROUNDS:
            raise FieldError(
                "schedule/iterations",
                f"at most {MAX_ROUNDS} with protocol `federated`: each is a round",
            )
        return self

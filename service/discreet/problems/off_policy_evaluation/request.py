"""What a problem of off-policy evaluation asks: its fields, and what follows from them alone."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from discreet.intake.items import InPieces
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import LEAST_PROBABILITY
from discreet.problems.numbers import CLIP, Flag, Real, at_least
from discreet.problems.off_policy_evaluation.features import AnyFeatures, TabularFeatures
from discreet.problems.off_policy_evaluation.gradients import MAX_STEPS
from discreet.problems.off_policy_evaluation.method import DEFAULT_MAX_IMPORTANCE, Asked, Method
from discreet.problems.off_policy_evaluation.methods import methods_named
from discreet.problems.off_policy_evaluation.public import MAX_STATES, OffPolicyPublic
from discreet.problems.results import INTERVALS
from discreet.problems.sources import ProblemOnBlocks
from discreet.solvers.evaluation.value_features import Tabular

WEIGHING = "importance_sampling"
WEIGHING_ALL = (WEIGHING, "per_decision")
"""Methods that fit no value function."""
FITTED_ONLY = ("initial", "clip", "steps", "step_size", "sampling", "regularization")
"""What a request names that asks for a value function."""

Reals = Annotated[tuple[Real, ...], InPieces()]


class OffPolicyRequest(ProblemOnBlocks):
    """The fields of `OffPolicyEvaluation`, for the files that it is made of."""

    kind: Literal["off_policy_evaluation"]
    features: AnyFeatures | None = Field(
        default=None,
        description="Features of the value function; absent: tabular. importance_sampling uses "
        "none",
    )
    discount: Annotated[Real, Field(ge=0, le=1)] = Field(
        description="Weight of a reward one step later relative to one now; 1 if its time does "
        "not matter (only importance_sampling and per_decision: methods that fit a value function "
        "need less)",
        examples=[1, 0.9],
    )
    method: Literal[
        "auto",
        "importance_sampling",
        "per_decision",
        "moments",
        "minibatch",
        "gradient",
        "constant",
        "dp_lsw",
        "dp_lsl",
    ] = "auto"
    clip: Annotated[Real, Field(gt=0, le=1e9), CLIP] | Literal["auto"] | None = Field(
        default=None,
        description="Public bound on the l2 norm of what one trajectory adds; absent or `auto`: "
        "from public bounds",
    )
    steps: Annotated[int, Field(strict=True, ge=1, le=MAX_STEPS)] | None = None
    step_size: Annotated[Real, Field(gt=0, le=1e6)] | None = None
    sampling: (
        Annotated[
            Real,
            Field(gt=0, le=1),
            at_least(LEAST_PROBABILITY, "53 random bits do not tell smaller ones apart"),
        ]
        | None
    ) = Field(
        default=None,
        description="Probability with which a trajectory takes part in a step of `minibatch`",
    )
    max_importance: Annotated[Real, Field(gt=0, le=1e6)] | Literal["auto"] | None = Field(
        default=None,
        description=f"Public cap on importance ratios; {DEFAULT_MAX_IMPORTANCE:g} when not given; "
        "`auto`: of least expected error by public figures, shown in the plan's advice. With "
        "importance_sampling it caps the weights of whole trajectories, with per_decision those "
        "of steps, and absent means `auto`",
    )
    return_bounds: tuple[Real, Real] | None = Field(
        default=None,
        description="The least and the most that all rewards of one person add up to, known "
        "without the data: 0 and 1 if somebody is well at the end or not. Noise is in proportion "
        "to the range; values beyond it count as the nearer end. Absent: what the bounds on a "
        "reward allow (importance_sampling)",
    )
    estimand: Literal["sum", "mean_per_visit"] = Field(
        default="sum",
        description="What a policy is worth: the sum of a person's rewards, or `mean_per_visit`, "
        "their mean over that person's visits, which lies in the range of one reward "
        "(importance_sampling, with discount 1)",
    )
    rule_visits: Annotated[int, Field(strict=True, ge=1, le=10**6)] | None = Field(
        default=None,
        description="The target policy decides in so many visits from the first on, and people are "
        "then treated as before; absent: in all of them. Of fewer visits weights are smaller and "
        "intervals shorter (importance_sampling)",
        examples=[1, 3],
    )
    regularization: Annotated[Real, Field(ge=0, le=1e12)] | None = Field(
        default=None,
        description="Ridge of `moments` in units of one trajectory; penalty of `dp_lsl`, absent: "
        "the public number of trajectories",
    )
    initial: (
        Literal["released"]
        | Annotated[Reals | Annotated[tuple[Reals, ...], InPieces()], Field(max_length=MAX_STATES)]
        | None
    ) = Field(
        default=None,
        description="An assumption, which must not come from the data: a distribution over the "
        "states, or equally likely initial states x; `released`: the states as often as they were "
        "visited according to the release",
    )
    uncertainty: Flag = INTERVALS

    @property
    def fitted_features(self) -> AnyFeatures:
        return self.features or TabularFeatures(type="tabular")

    @property
    def tabular(self) -> bool:
        return isinstance(self.fitted_features, TabularFeatures)

    def weighs(self, public: OffPolicyPublic) -> bool:
        """Whether no value function is asked for, and so no features are looked at."""
        if self.method != "auto":
            return self.method in WEIGHING_ALL
        return bool(public.off_policy) and all(getattr(self, name) is None for name in FITTED_ONLY)

    def method_for(self, public: OffPolicyPublic, name: str, cap: float | None = None) -> Method:
        """`cap`: what the plan chose for `max_importance`."""
        (method,) = methods_named(name, self.tabular)
        asked = math.inf if method.chooses_cap else DEFAULT_MAX_IMPORTANCE
        if isinstance(self.max_importance, float):
            asked = self.max_importance
        features = self.fitted_features.solver_form(public) if method.fitted else Tabular(1)
        return method(self.asked(), features, (cap or asked) if public.off_policy else 1.0, public)

    def asked(self) -> Asked:
        clip = self.clip if isinstance(self.clip, float) else None
        cap = self.max_importance if isinstance(self.max_importance, float) else None
        names = (
            "discount",
            "initial",
            "steps",
            "step_size",
            "sampling",
            "regularization",
            "return_bounds",
            "estimand",
            "rule_visits",
        )
        return Asked(clip=clip, max_importance=cap, **{name: getattr(self, name) for name in names})

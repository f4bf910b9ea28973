"""What a problem of off-policy evaluation asks: its fields, and what follows from them alone."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from discreet.intake.items import InPieces
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import LEAST_PROBABILITY
from discreet.problems.accuracy import INTERVALS
from discreet.problems.numbers import CLIP, Flag, Real, at_least
from discreet.problems.off_policy_evaluation.features import AnyFeatures, TabularFeatures
from discreet.problems.off_policy_evaluation.gradients import MAX_STEPS
from discreet.problems.off_policy_evaluation.method import DEFAULT_MAX_IMPORTANCE, Asked, Method
from discreet.problems.off_policy_evaluation.methods import methods_named
from discreet.problems.off_policy_evaluation.public import MAX_STATES, OffPolicyPublic
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
        description="Of the value function, tabular when not given; importance_sampling reads none",
    )
    discount: Annotated[Real, Field(ge=0, le=1)] = Field(
        description="What a reward one step later counts against one now; 1 where it is all the "
        "same when it comes (importance_sampling alone: methods that fit a value function need "
        "less)",
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
        description="Public bound on the l2 norm of what one trajectory adds; not given or `auto`: "
        "by public bounds",
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
        "`auto`: of least expected error by public figures, shown in the plan's advice. Of "
        "importance_sampling on the weights of whole trajectories, of per_decision on those of "
        "steps, `auto` when not given",
    )
    return_bounds: tuple[Real, Real] | None = Field(
        default=None,
        description="What all rewards of one person add up to at least and at most, known without "
        "the data: 0 and 1 where somebody is well at the end or not. Noise is in proportion to "
        "the range; what is beyond counts as the nearer end. Not given: what the bound on a "
        "reward allows, up and down (importance_sampling)",
    )
    regularization: Annotated[Real, Field(ge=0, le=1e12)] | None = Field(
        default=None,
        description="Ridge of `moments` in units of one trajectory; `dp_lsl`'s penalty, the public "
        "number of them",
    )
    initial: (
        Literal["released"]
        | Annotated[Reals | Annotated[tuple[Reals, ...], InPieces()], Field(max_length=MAX_STATES)]
        | None
    ) = Field(
        default=None,
        description="An assumption, which must not come from the data: a distribution over the "
        "states, or initial states x that are equally likely; `released`: the states as often as "
        "the release says that they were visited",
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
        asked = (
            self.max_importance
            if isinstance(self.max_importance, float)
            else DEFAULT_MAX_IMPORTANCE
        )
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
        )
        return Asked(clip=clip, max_importance=cap, **{name: getattr(self, name) for name in names})

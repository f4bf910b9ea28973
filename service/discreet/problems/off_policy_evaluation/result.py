"""The fields of an off-policy evaluation's result."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from discreet.problems.results import SummedFields, shown

REWARD = "the unit of rewards"


class Range(TypedDict):
    """Two ends."""

    lower: float
    upper: float


class OffPolicyEvaluationResult(SummedFields, total=False):
    """The values of two policies over the people in the data, or a linear value function of the
    target policy."""

    weights: Annotated[
        list[float],
        shown("Theta, one number per feature", unit=REWARD, table=("feature", "weight")),
    ]
    values: Annotated[
        list[float],
        shown(
            "The value of each state; only for tabular features",
            unit=REWARD,
            table=("state", "value"),
        ),
    ]
    target_policy: Annotated[
        str, shown("What the target policy does, if the dataset's owner has described it")
    ]
    policy_value: Annotated[
        float,
        shown(
            "Of the target policy: over the people in the data, estimated with clipped weights "
            "(importance_sampling; its interval is without clips), or the mean of the value "
            "function over `initial`, where it is given",
            unit=REWARD,
            title="Value of the policy",
        ),
    ]
    behaviour_value: Annotated[
        float,
        shown(
            "Value of the policy that was followed, over the people in the data "
            "(importance_sampling)",
            unit=REWARD,
        ),
    ]
    difference: Annotated[
        float,
        shown(
            "policy_value - behaviour_value, for the same people (importance_sampling)", unit=REWARD
        ),
    ]
    effective_size: Annotated[
        float,
        shown(
            "Effective sample size: so many trajectories of equal weight would be as "
            "informative (importance_sampling)"
        ),
    ]
    largest_weight: Annotated[
        float, shown("The value at which weights of trajectories are clipped (importance_sampling)")
    ]
    clipped_mass: Annotated[
        float, shown("How much of the weights, whose mean is 1, was cut off (importance_sampling)")
    ]
    true_value: Annotated[
        Range,
        shown(
            "Bounds on the value of the target policy without clipping, with 90 % confidence, "
            "whatever was cut off (importance_sampling)",
            unit=REWARD,
        ),
    ]
    clipped_value: Annotated[
        Range,
        shown(
            "The interval of 90 % of the value of the target policy with clipped weights, which "
            "the true value may lie outside of; where any may be cut off (importance_sampling)",
            unit=REWARD,
        ),
    ]
    clipped_difference: Annotated[
        Range,
        shown(
            "The same of the difference (importance_sampling)",
            unit=REWARD,
        ),
    ]
    doubt: Annotated[
        str,
        shown(
            "A warning if the mean of the weights is impossible for correct probabilities, with "
            "that mean (importance_sampling)"
        ),
    ]
    covers: Annotated[
        str, shown("What the interval of policy_value covers, as a sentence (importance_sampling)")
    ]

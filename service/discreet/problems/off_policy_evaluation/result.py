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
        list[float], shown("Theta, one number a feature", unit=REWARD, table=("feature", "weight"))
    ]
    values: Annotated[
        list[float],
        shown(
            "The value of each state, of tabular features", unit=REWARD, table=("state", "value")
        ),
    ]
    target_policy: Annotated[
        str, shown("What the target policy does, where the dataset's owner has said it")
    ]
    policy_value: Annotated[
        float,
        shown(
            "Of the target policy: over the people in the data, with clipped weights "
            "(importance_sampling), or the mean of the value function over `initial`, where it is "
            "given",
            unit=REWARD,
            title="Value of the policy",
        ),
    ]
    behaviour_value: Annotated[
        float,
        shown(
            "Of the policy that was followed, over the people in the data (importance_sampling)",
            unit=REWARD,
        ),
    ]
    difference: Annotated[
        float,
        shown(
            "policy_value - behaviour_value, of the same people (importance_sampling)", unit=REWARD
        ),
    ]
    effective_size: Annotated[
        float, shown("As many trajectories of equal weight would say as much (importance_sampling)")
    ]
    largest_weight: Annotated[
        float, shown("Where weights of trajectories are clipped (importance_sampling)")
    ]
    clipped_mass: Annotated[
        float, shown("How much of the weights, whose mean is 1, was cut off (importance_sampling)")
    ]
    true_value: Annotated[
        Range,
        shown(
            "Between what the value of the target policy without clips lies with 90 %, whatever "
            "was cut off (importance_sampling)",
            unit=REWARD,
        ),
    ]
    doubt: Annotated[
        str,
        shown(
            "Where the mean of the weights cannot be that of true probabilities: which it is "
            "(importance_sampling)"
        ),
    ]
    covers: Annotated[
        str, shown("What the interval of policy_value holds, in words (importance_sampling)")
    ]

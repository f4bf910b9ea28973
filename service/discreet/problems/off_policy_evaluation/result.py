"""The fields of an off-policy evaluation's result."""

from __future__ import annotations

from typing import Annotated

from discreet.problems.results import SummedFields, shown

REWARD = "the unit of rewards"


class OffPolicyEvaluationResult(SummedFields, total=False):
    """A linear value function of the target policy."""

    weights: Annotated[list[float], shown("Theta, one number a feature", unit=REWARD, table=("feature", "weight"))]
    values: Annotated[
        list[float], shown("The value of each state, of tabular features", unit=REWARD, table=("state", "value"))
    ]
    policy_value: Annotated[
        float,
        shown("The mean value over `initial`, where it is given", unit=REWARD, title="Value of the policy"),
    ]

from typing import Literal

OffPolicyEvaluationMethod = Literal["auto", "dp_lsl", "dp_lsw", "gradient", "minibatch", "moments"]

OFF_POLICY_EVALUATION_METHOD_VALUES: set[OffPolicyEvaluationMethod] = {
    "auto",
    "dp_lsl",
    "dp_lsw",
    "gradient",
    "minibatch",
    "moments",
}


def check_off_policy_evaluation_method(value: str) -> OffPolicyEvaluationMethod:
    if value in OFF_POLICY_EVALUATION_METHOD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OFF_POLICY_EVALUATION_METHOD_VALUES!r}")

from typing import Literal

OffPolicyDatasetMode = Literal["private", "simulation"]

OFF_POLICY_DATASET_MODE_VALUES: set[OffPolicyDatasetMode] = {
    "private",
    "simulation",
}


def check_off_policy_dataset_mode(value: str) -> OffPolicyDatasetMode:
    if value in OFF_POLICY_DATASET_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OFF_POLICY_DATASET_MODE_VALUES!r}")

from typing import Literal

MultiAgentDatasetMode = Literal["private", "simulation"]

MULTI_AGENT_DATASET_MODE_VALUES: set[MultiAgentDatasetMode] = {
    "private",
    "simulation",
}


def check_multi_agent_dataset_mode(value: str) -> MultiAgentDatasetMode:
    if value in MULTI_AGENT_DATASET_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MULTI_AGENT_DATASET_MODE_VALUES!r}")

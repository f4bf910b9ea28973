from typing import Literal

RoutingDatasetMode = Literal["private", "simulation"]

ROUTING_DATASET_MODE_VALUES: set[RoutingDatasetMode] = {
    "private",
    "simulation",
}


def check_routing_dataset_mode(value: str) -> RoutingDatasetMode:
    if value in ROUTING_DATASET_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ROUTING_DATASET_MODE_VALUES!r}")

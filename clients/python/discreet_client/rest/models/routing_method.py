from typing import Literal

RoutingMethod = Literal["auto", "counts", "gradient"]

ROUTING_METHOD_VALUES: set[RoutingMethod] = {
    "auto",
    "counts",
    "gradient",
}


def check_routing_method(value: str) -> RoutingMethod:
    if value in ROUTING_METHOD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ROUTING_METHOD_VALUES!r}")

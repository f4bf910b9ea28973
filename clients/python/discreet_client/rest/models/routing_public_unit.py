from typing import Literal

RoutingPublicUnit = Literal["person", "request"]

ROUTING_PUBLIC_UNIT_VALUES: set[RoutingPublicUnit] = {
    "person",
    "request",
}


def check_routing_public_unit(value: str) -> RoutingPublicUnit:
    if value in ROUTING_PUBLIC_UNIT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ROUTING_PUBLIC_UNIT_VALUES!r}")

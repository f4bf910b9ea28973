from typing import Literal

RoutingObjective = Literal["system_optimum", "user_equilibrium"]

ROUTING_OBJECTIVE_VALUES: set[RoutingObjective] = {
    "system_optimum",
    "user_equilibrium",
}


def check_routing_objective(value: str) -> RoutingObjective:
    if value in ROUTING_OBJECTIVE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ROUTING_OBJECTIVE_VALUES!r}")

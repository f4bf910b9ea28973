from typing import Literal

OffPolicyPublicNeighboursType0 = Literal["add_remove", "replace"]

OFF_POLICY_PUBLIC_NEIGHBOURS_TYPE_0_VALUES: set[OffPolicyPublicNeighboursType0] = {
    "add_remove",
    "replace",
}


def check_off_policy_public_neighbours_type_0(value: str) -> OffPolicyPublicNeighboursType0:
    if value in OFF_POLICY_PUBLIC_NEIGHBOURS_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {OFF_POLICY_PUBLIC_NEIGHBOURS_TYPE_0_VALUES!r}")

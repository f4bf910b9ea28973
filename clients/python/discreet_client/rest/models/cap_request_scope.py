from typing import Literal

CapRequestScope = Literal["principal", "tenant"]

CAP_REQUEST_SCOPE_VALUES: set[CapRequestScope] = {
    "principal",
    "tenant",
}


def check_cap_request_scope(value: str) -> CapRequestScope:
    if value in CAP_REQUEST_SCOPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CAP_REQUEST_SCOPE_VALUES!r}")

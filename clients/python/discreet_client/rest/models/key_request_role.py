from typing import Literal

KeyRequestRole = Literal["analyst", "auditor", "operator", "owner"]

KEY_REQUEST_ROLE_VALUES: set[KeyRequestRole] = {
    "analyst",
    "auditor",
    "operator",
    "owner",
}


def check_key_request_role(value: str) -> KeyRequestRole:
    if value in KEY_REQUEST_ROLE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {KEY_REQUEST_ROLE_VALUES!r}")

from typing import Literal

KeyEntryRole = Literal["analyst", "auditor", "operator", "owner"]

KEY_ENTRY_ROLE_VALUES: set[KeyEntryRole] = {
    "analyst",
    "auditor",
    "operator",
    "owner",
}


def check_key_entry_role(value: str) -> KeyEntryRole:
    if value in KEY_ENTRY_ROLE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {KEY_ENTRY_ROLE_VALUES!r}")

from typing import Literal

KeyAnswerRole = Literal["analyst", "auditor", "operator", "owner"]

KEY_ANSWER_ROLE_VALUES: set[KeyAnswerRole] = {
    "analyst",
    "auditor",
    "operator",
    "owner",
}


def check_key_answer_role(value: str) -> KeyAnswerRole:
    if value in KEY_ANSWER_ROLE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {KEY_ANSWER_ROLE_VALUES!r}")

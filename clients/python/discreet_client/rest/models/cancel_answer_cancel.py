from typing import Literal

CancelAnswerCancel = Literal["done", "requested", "too_late"]

CANCEL_ANSWER_CANCEL_VALUES: set[CancelAnswerCancel] = {
    "done",
    "requested",
    "too_late",
}


def check_cancel_answer_cancel(value: str) -> CancelAnswerCancel:
    if value in CANCEL_ANSWER_CANCEL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CANCEL_ANSWER_CANCEL_VALUES!r}")

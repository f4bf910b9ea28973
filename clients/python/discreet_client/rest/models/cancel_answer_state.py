from typing import Literal

CancelAnswerState = Literal["awaiting_agents", "cancelled", "failed", "queued", "running", "succeeded"]

CANCEL_ANSWER_STATE_VALUES: set[CancelAnswerState] = {
    "awaiting_agents",
    "cancelled",
    "failed",
    "queued",
    "running",
    "succeeded",
}


def check_cancel_answer_state(value: str) -> CancelAnswerState:
    if value in CANCEL_ANSWER_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CANCEL_ANSWER_STATE_VALUES!r}")

from typing import Literal

SessionAnswerState = Literal["awaiting_agents", "cancelled", "failed", "queued", "running", "succeeded"]

SESSION_ANSWER_STATE_VALUES: set[SessionAnswerState] = {
    "awaiting_agents",
    "cancelled",
    "failed",
    "queued",
    "running",
    "succeeded",
}


def check_session_answer_state(value: str) -> SessionAnswerState:
    if value in SESSION_ANSWER_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {SESSION_ANSWER_STATE_VALUES!r}")

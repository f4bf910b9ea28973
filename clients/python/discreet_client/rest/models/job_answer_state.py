from typing import Literal

JobAnswerState = Literal["awaiting_agents", "cancelled", "failed", "queued", "running", "succeeded"]

JOB_ANSWER_STATE_VALUES: set[JobAnswerState] = {
    "awaiting_agents",
    "cancelled",
    "failed",
    "queued",
    "running",
    "succeeded",
}


def check_job_answer_state(value: str) -> JobAnswerState:
    if value in JOB_ANSWER_STATE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {JOB_ANSWER_STATE_VALUES!r}")

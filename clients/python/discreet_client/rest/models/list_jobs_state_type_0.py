from typing import Literal

ListJobsStateType0 = Literal["awaiting_agents", "cancelled", "failed", "queued", "running", "succeeded"]

LIST_JOBS_STATE_TYPE_0_VALUES: set[ListJobsStateType0] = {
    "awaiting_agents",
    "cancelled",
    "failed",
    "queued",
    "running",
    "succeeded",
}


def check_list_jobs_state_type_0(value: str) -> ListJobsStateType0:
    if value in LIST_JOBS_STATE_TYPE_0_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {LIST_JOBS_STATE_TYPE_0_VALUES!r}")

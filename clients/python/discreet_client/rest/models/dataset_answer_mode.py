from typing import Literal

DatasetAnswerMode = Literal["private", "simulation"]

DATASET_ANSWER_MODE_VALUES: set[DatasetAnswerMode] = {
    "private",
    "simulation",
}


def check_dataset_answer_mode(value: str) -> DatasetAnswerMode:
    if value in DATASET_ANSWER_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DATASET_ANSWER_MODE_VALUES!r}")

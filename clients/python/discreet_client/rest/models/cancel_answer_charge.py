from typing import Literal

CancelAnswerCharge = Literal["full", "none", "undecided"]

CANCEL_ANSWER_CHARGE_VALUES: set[CancelAnswerCharge] = {
    "full",
    "none",
    "undecided",
}


def check_cancel_answer_charge(value: str) -> CancelAnswerCharge:
    if value in CANCEL_ANSWER_CHARGE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CANCEL_ANSWER_CHARGE_VALUES!r}")

from typing import Literal

CoupledQpMode = Literal["private", "simulation"]

COUPLED_QP_MODE_VALUES: set[CoupledQpMode] = {
    "private",
    "simulation",
}


def check_coupled_qp_mode(value: str) -> CoupledQpMode:
    if value in COUPLED_QP_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {COUPLED_QP_MODE_VALUES!r}")

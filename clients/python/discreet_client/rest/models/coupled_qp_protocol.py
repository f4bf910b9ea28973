from typing import Literal

CoupledQpProtocol = Literal["federated", "job"]

COUPLED_QP_PROTOCOL_VALUES: set[CoupledQpProtocol] = {
    "federated",
    "job",
}


def check_coupled_qp_protocol(value: str) -> CoupledQpProtocol:
    if value in COUPLED_QP_PROTOCOL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {COUPLED_QP_PROTOCOL_VALUES!r}")

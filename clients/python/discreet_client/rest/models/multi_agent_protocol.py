from typing import Literal

MultiAgentProtocol = Literal["federated", "job"]

MULTI_AGENT_PROTOCOL_VALUES: set[MultiAgentProtocol] = {
    "federated",
    "job",
}


def check_multi_agent_protocol(value: str) -> MultiAgentProtocol:
    if value in MULTI_AGENT_PROTOCOL_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {MULTI_AGENT_PROTOCOL_VALUES!r}")

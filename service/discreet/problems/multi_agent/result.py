"""The fields of a multi-agent coordination's result."""

from __future__ import annotations

from typing import Annotated, Required

from typing_extensions import TypedDict

from discreet.problems.results import NoisedFields, shown


class MultiplierPoint(TypedDict):
    """The multipliers after one step."""

    step: int
    multipliers: list[float]


class NoisyGradient(TypedDict):
    """A noised derivative of a constraint with respect to an agent's state."""

    constraint: int
    agent: str
    value: float


class Agreement(TypedDict):
    """What agents signed about all broadcasts:
    `discreet_client.federation.history.unsigned_of_result`."""

    history: str
    signatures: dict[str, str]


class MultiAgentResult(NoisedFields, total=False):
    """Functions of only the noised outputs."""

    multipliers: Annotated[
        list[float],
        shown("Of each constraint, after the last step", table=("constraint", "multiplier")),
    ]
    average_multipliers: Annotated[
        list[float],
        shown("Averaged over the second half of the steps", table=("constraint", "multiplier")),
    ]
    multiplier_path: Required[
        Annotated[list[MultiplierPoint], shown("Multipliers at up to 100 public steps")]
    ]
    noisy_values: Annotated[
        list[float],
        shown(
            "Noised values of the constraints, averaged over the second half",
            table=("constraint", "value"),
        ),
    ]
    noisy_gradients: Required[
        Annotated[
            list[NoisyGradient],
            shown("Noised derivatives of the constraints, averaged over the second half"),
        ]
    ]
    agreement: Annotated[
        Agreement,
        shown("How the chain of all broadcasts ends, and who signed it; of protocol federated"),
    ]
    survivors: Annotated[
        list[str],
        shown(
            "Who was in the sum of each step, a bitmap in hexadecimal whose first bit is the "
            "roster's first agent; of protocol federated with masks"
        ),
    ]
    state: Annotated[
        dict[str, float], shown("State of each agent after the last step; only for simulations")
    ]
    average_state: Annotated[
        dict[str, float], shown("Averaged over the second half of the steps; only for simulations")
    ]
    state_path: Annotated[
        list[list[float]],
        shown(
            "States at the steps of `multiplier_path`, by agent; only for simulations",
            table=("point", "agent", "state"),
        ),
    ]

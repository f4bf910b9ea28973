"""The fields of a coupled quadratic program's result."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from discreet.problems.results import ResultFields, shown


class CoupledQpResult(ResultFields, total=False):
    """For a session only rounds, transcript and evidence; each agent finds its own optimum
    itself."""

    rounds: Required[
        Annotated[
            int,
            shown(
                "Rounds of the sums that were opened; 0 with protocol mpc, which opens none",
                title="Rounds",
            ),
        ]
    ]
    transcript: Required[
        Annotated[
            str, shown("Hash of all broadcasts, hexadecimal", title="Digest of the transcript")
        ]
    ]
    evidence: Annotated[
        dict[str, Any], shown("The roster and the agents' signatures; of protocol federated")
    ]
    status: Annotated[
        Literal["converged", "iteration_limit", "infeasible"],
        shown(
            "`converged`: within `tolerance` of what agents use at the end, x is the best that "
            "they can do and keeps the constraints; of agents apart all of them have signed it. "
            "`iteration_limit`: that is not so, or, of protocol mpc, its bounds are too wide to "
            "tell; x is no optimum. `infeasible`: of protocol mpc, nothing that the agents can "
            "do keeps the limit in every hour",
            title="Status",
        ),
    ]
    x: Annotated[list[list[float]], shown("The optimum, one list an agent; of protocol job")]
    multipliers: Annotated[
        list[float],
        shown("Of the constraints; of protocol job", table=("constraint", "multiplier")),
    ]
    objective: Annotated[float, shown("The joint cost at `x`; of protocol job", title="Objective")]
    violation: Annotated[
        float,
        shown(
            "Largest entry of the constraints above zero; of protocol job",
            title="Largest violated constraint",
        ),
    ]
    violations: Annotated[
        list[float],
        shown(
            "By how much each constraint is above zero, in its own unit; of protocol job",
            table=("constraint", "violation"),
        ),
    ]
    bytes_sent: Annotated[
        int,
        shown(
            "By an agent, at most; of protocol job", unit="bytes", title="Bytes sent by an agent"
        ),
    ]


def status_of(settled: Any) -> dict[str, str]:
    """Whether the sums settled, as a field; no field if agents were not asked."""
    return {} if settled is None else {"status": "converged" if settled else "iteration_limit"}

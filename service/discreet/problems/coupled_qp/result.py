"""The fields of a coupled quadratic program's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Required

from discreet.problems.results import Headline, ResultFields, counted, headline, shown
from discreet_client import intervals


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


# Headline -----------------------------------------------------------------------------------------
# The answer of a coupled quadratic program: its total cost, or whether the agents have converged.


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The total cost if the server knows it; otherwise whether the agents have converged."""
    if problem.get("protocol") == "mpc":
        return [_on_shares(result)]
    rounds = counted(result["rounds"], "round")
    if "objective" in result:
        return [headline(CoupledQpResult, result, "objective", "Total cost: ", f" ({rounds})")]
    if intervals.is_not_converged(result):
        return [Headline("Not converged after ", rounds, "; not optimal")]
    if result.get("status") == "converged":
        optimum = "the regularized optimum" if problem.get("method") == "rpds" else "the optimum"
        after = f"; each agent holds its part of {optimum} if all followed the protocol"
        return [Headline("Converged in ", rounds, after)]
    return [Headline("", rounds, " completed; convergence not checked")]


def _on_shares(result: Mapping[str, Any]) -> Headline:
    if result.get("status") == "iteration_limit":
        return Headline(
            "Not optimal: outside the tolerance; needs more steps, closer bounds, or a limit that "
            "can be kept"
        )
    if result.get("status") == "infeasible":
        return Headline("Infeasible: the limit cannot be kept in every hour; not optimal")
    if "objective" in result:
        return headline(CoupledQpResult, result, "objective", "Total cost: ")
    if result.get("status") == "converged":
        return Headline(
            "Computed on secret shares; each agent holds its part of the optimum if none changed "
            "its program"
        )
    return Headline("Computed on secret shares; distance from the optimum not checked")

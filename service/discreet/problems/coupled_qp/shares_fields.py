"""The fields of a problem that is computed on secret shares, and the terms that follow."""

from __future__ import annotations

from typing import Annotated, Protocol

from pydantic import Field

from discreet.errors import InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.problems.contents import Mode
from discreet.problems.coupled_qp.data import (
    AgentData,
    Encryption,
    FederatedAgents,
    OperatorData,
)
from discreet.problems.federation import FederationTerms
from discreet.problems.numbers import Frozen, Real
from discreet_agent.mpc.terms import MOST_ITERATIONS, Terms

PROTOCOL_NAME = "mpc"

Bound = Annotated[Real, Field(gt=0)]


class ShareBounds(Frozen):
    """Public bounds that determine the number of bits. An agent whose data exceed one does not take
    part."""

    reach: Bound = Field(
        description="Of an agent's part of an hour's sum, in absolute value, anywhere in its box"
    )
    price: Bound = Field(
        description="Of its marginal cost of that, in absolute value, anywhere in its box"
    )
    least_curvature: Bound = Field(
        description="Of its cost of that: twice the square of A_q over that of A_g or A_u. With "
        "`iterations` of the eigenvalues of `2 A_q'A_q` over the squares of A_g or A_u"
    )
    most_curvature: Bound
    iterations: Annotated[int, Field(ge=1, le=MOST_ITERATIONS)] | None = Field(
        default=None,
        description="Steps of ADMM, for agents whose costs couple their hours or who have budgets. "
        "Null: costs are a sum over hours, and the optimum is found exactly, which is faster",
    )
    typical_curvature: Bound | None = Field(
        default=None,
        description="Only with `iterations`: the curvature that step sizes follow from. It changes "
        "how many steps are needed, and nothing else; null: near the least",
    )


class Shared(Protocol):
    """The fields of the kind that are used here."""

    @property
    def operator(self) -> OperatorData: ...

    @property
    def agents(self) -> tuple[AgentData, ...] | FederatedAgents: ...

    @property
    def mode(self) -> Mode: ...

    @property
    def protocol(self) -> str: ...

    @property
    def encryption(self) -> Encryption: ...

    @property
    def mpc(self) -> ShareBounds | None: ...

    @property
    def tolerance(self) -> float | None: ...

    @property
    def federation(self) -> FederationTerms | None: ...

    @property
    def terms(self) -> FederationTerms | None: ...

    @property
    def model_fields_set(self) -> set[str]: ...


def check_fields(problem: Shared) -> bool:
    """Whether a problem uses this protocol. FieldError for a field that does not belong to it, or
    is missing."""
    if problem.protocol != PROTOCOL_NAME:
        if problem.mpc is not None:
            raise FieldError("mpc", "only protocol `mpc` has these bounds")
        return False
    if problem.mpc is None:
        raise FieldError("mpc", "protocol `mpc` needs it: public bounds of the agents' data")
    # Compared by value: a stored problem names all its fields.
    for name in ("method", "steps", "noise", "exposure"):
        if getattr(problem, name) is not None:
            raise FieldError(name, "not with protocol `mpc`: it has no steps, and opens no sums")
    if problem.encryption != Encryption(colluding=problem.encryption.colluding):
        raise FieldError(
            "encryption",
            "protocol `mpc` has only `colluding`: the number of agents that may collude",
        )
    if isinstance(problem.agents, FederatedAgents):
        if problem.agents.reach is not None:
            raise FieldError("agents/reach", "not with protocol `mpc`: `mpc` has its own bounds")
    else:
        for place, agent in enumerate(problem.agents):
            if agent.polytope is not None:
                says = "not with protocol `mpc`: an agent's set is a box, and a budget within it"
                raise FieldError(f"agents/{place}/polytope", says)
            if agent.budget is not None and problem.mpc.iterations is None:
                says = "couples the agent's hours, which takes ADMM: give `mpc.iterations`"
                raise FieldError(f"agents/{place}/budget", says)
            if any(term.kind != "quadratic" for term in agent.terms):
                says = "not with protocol `mpc`: it computes on costs that are quadratic alone"
                raise FieldError(f"agents/{place}/terms", says)
    return True


def terms_of(problem: Shared, count: int, coupled: int, limited: int) -> Terms:
    """InvalidInput with the field that is at fault."""
    bounds = problem.mpc
    assert bounds is not None
    if coupled and limited and coupled != limited:
        raise InvalidInput(
            f"cost and limit must be of the same sums, one per hour; there are {coupled} and "
            f"{limited}",
            pointer="/problem/operator/d",
        )
    terms = Terms(
        agents=count,
        hours=coupled or limited,
        threshold=problem.encryption.colluding,
        computing=min(2 * problem.encryption.colluding + 1, count),
        coupled=coupled > 0,
        limited=limited > 0,
        **bounds.model_dump(),
        tolerance=problem.tolerance,
    )
    try:
        terms.check()
    except ValueError as error:
        named, _, says = str(error).partition(": ")
        places = {"agents": "agents", "threshold": "encryption/colluding", "tolerance": "tolerance"}
        in_bounds = named in ShareBounds.model_fields
        where = f"mpc/{named}" if in_bounds else places.get(named, "operator")
        raise InvalidInput(says, pointer=f"/problem/{where}") from None
    if terms.iterations is not None:
        largest = max((abs(entry) for entry in problem.operator.c), default=0.0) / terms.reach
        if largest > terms.cost_bound:
            # Without budgets such a c only says that everybody is at a bound; with them it says in
            # which hours.
            raise InvalidInput(
                f"c must not be longer than {terms.cost_bound * terms.reach:g} in an hour, agents "
                "times reach and price in all, for the bits that the bounds give",
                pointer="/problem/operator/c",
            )
    return terms

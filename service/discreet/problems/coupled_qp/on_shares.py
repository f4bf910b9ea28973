"""`protocol: mpc`: the agents compute on secret shares among themselves, and each x is opened only
to its agent.

No sum is opened, so that no sum reveals the others' data to an agent, however few they are. The
server takes no part in the computation: it tells the agents who takes part, distributes the
operator's c and d (one summand to each agent, sealed to its key; any n - 1 of the n summands reveal
nothing), and stores what the agents sign. The computation is `discreet_client.mpc`; problems
consist of hours that agents share: one variable per hour, costs that are a sum over hours, and the
same sums in the joint cost and the limit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from pydantic import Field

from discreet.errors import InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Mode, Progress, Released
from discreet.problems.coupled_qp import checks
from discreet.problems.coupled_qp.data import (
    AgentData,
    Encryption,
    FederatedAgents,
    OperatorData,
    part_of,
)
from discreet.problems.coupled_qp.result import CoupledQpResult
from discreet.problems.coupled_qp.shares_answers import figures_of, responses_of, status_of
from discreet.problems.coupled_qp.shares_cost import bytes_of, comparisons, seconds_of
from discreet.problems.coupled_qp.shares_session import SharesSession
from discreet.problems.federation import ROUNDS_ARE_SEEN, FederationTerms, Member, Session
from discreet.problems.numbers import Budget, Frozen, Real
from discreet.problems.plans import Exposure, Plan, Resources
from discreet.problems.results import Output, Result
from discreet_client.mpc import evidence, member, prices
from discreet_client.mpc.terms import PROTOCOL, Terms

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

PROTOCOL_NAME = "mpc"
FAILURES = {
    "computation_broken": "the agents' computation on shares broke off: one could not be reached, "
    "left, or was not who the roster says; nothing was opened to anybody, or to some agents their "
    "own x alone"
}
ANSWER_BYTES = 4096

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
        description="Of its cost of that: twice the square of A_q over that of A_g or A_u"
    )
    most_curvature: Bound


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


def instead(
    way: Callable[Concatenate[Any, P], R],
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Decorator of a method: with `protocol: mpc`, `way` is called instead."""

    def chosen(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def call(problem: S, /, *args: P.args, **named: P.kwargs) -> R:
            shared = getattr(problem, "protocol", None) == PROTOCOL_NAME
            return way(problem, *args, **named) if shared else method(problem, *args, **named)

        return call

    return chosen


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
            for name in ("budget", "polytope"):
                if getattr(agent, name) is not None:
                    says = "not with protocol `mpc`: its problems are of hours that no sum couples"
                    raise FieldError(f"agents/{place}/{name}", says)
            if any(term.kind != "quadratic" for term in agent.terms):
                says = "not with protocol `mpc`: it computes on costs that are quadratic alone"
                raise FieldError(f"agents/{place}/terms", says)
    return True


# Planning


def plan(problem: Shared, public: None, budget: Budget) -> Plan:
    """The plan of a simulation: the same computation in the clear."""
    agents = problem.agents
    if isinstance(agents, FederatedAgents):
        raise InvalidInput(
            "agents that keep their data need a session: give `federation`, its terms",
            pointer="/problem/federation",
        )
    if problem.mode != "simulation":
        raise InvalidInput(
            "with the agents' data in the request all of them are at the server: declare them "
            "public with mode `simulation`, or give {count, coupled, constraints} and "
            "`federation`",
            pointer="/problem/mode",
        )
    rows = len(problem.operator.c) + len(problem.operator.d)
    checks.check_own_time(agents)
    checks.check_shapes(problem.operator, agents, rows * len(agents))
    terms = _terms(problem, len(agents), len(problem.operator.c), len(problem.operator.d))
    responses_of(terms, agents)
    return _plan(problem, terms)


def plan_federation(problem: Shared, agents: Sequence[Member], budget: Budget) -> Plan:
    """The same with and without the roster; with it, certificates are the agents' own."""
    public, terms_of_session = problem.agents, problem.federation
    assert terms_of_session is not None
    if not isinstance(public, FederatedAgents):
        says = "with `federation` agents keep their data: give {count, coupled, constraints}"
        raise InvalidInput(says, pointer="/problem/agents")
    if terms_of_session.agents != public.count or terms_of_session.least != public.count:
        says = (
            f"all {public.count} agents compute: federation.agents is that number, without a "
            "smaller quorum"
        )
        raise InvalidInput(says, pointer="/problem/federation/agents")
    if terms_of_session.on_missing != "abort":
        raise InvalidInput(
            "a missing agent ends the computation: on_missing must be `abort`",
            pointer="/problem/federation/on_missing",
        )
    checks.check_rows(problem.operator, public)
    terms = _terms(problem, public.count, public.coupled, public.constraints)
    made = _plan(problem, terms)
    needed = 2 * seconds_of(terms)
    if terms_of_session.round_seconds < needed:
        says = (
            f"the computation takes about {needed / 2:.0f} s on a slow machine: give "
            f"{needed:.0f} at least"
        )
        raise InvalidInput(says, pointer="/problem/federation/round_seconds")
    if agents:
        try:
            member.places([(one.key, one.announcement) for one in agents])
        except ValueError as error:
            raise InvalidInput(str(error), pointer="/agents") from None
    return made


def _terms(problem: Shared, count: int, coupled: int, limited: int) -> Terms:
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
        coupled=coupled > 0,
        limited=limited > 0,
        **bounds.model_dump(),
        tolerance=problem.tolerance if limited else None,
    )
    try:
        terms.check()
    except ValueError as error:
        named, _, says = str(error).partition(": ")
        places = {"agents": "agents", "threshold": "encryption/colluding", "tolerance": "tolerance"}
        in_bounds = named in ShareBounds.model_fields
        where = f"mpc/{named}" if in_bounds else places.get(named, "operator")
        raise InvalidInput(says, pointer=f"/problem/{where}") from None
    return terms


MESSAGE_ROUNDS = 80
"""Number of sequential message rounds, as measured by delaying messages; each costs the network's
latency once."""


def _plan(problem: Shared, terms: Terms) -> Plan:
    count = terms.agents
    session = problem.terms is not None
    seconds, sent = seconds_of(terms), bytes_of(terms)
    opened = evidence.reveals(terms)["agents"]
    protects = (
        f"each agent's data from the server and from up to {terms.threshold} colluding agents, by "
        f"secret shares ({evidence.SECURITY}); what is opened to an agent is its own x"
    )
    return Plan.priced(
        [],
        noise=(),
        iterations={"comparisons": comparisons(terms)},
        resources=Resources(release_quantum_seconds=0.5, memory_bytes=1 << 28, steps=1),
        unit="agent",
        neighbours=protects,
        exposure=Exposure(
            agents=count,
            rounds=0,
            sums=0,
            sentence=f"no sum is opened; opened is to {opened}; {terms.threshold + 1} agents that "
            "pool their shares find out everything, and one that changes its program may",
        )
        if session
        else None,
        assumptions=(
            *evidence.assumptions(terms),
            "the owner signs the right roster",
            *(
                [ROUNDS_ARE_SEEN]
                if session
                else ["nothing was hidden: a simulation computes in the clear"]
            ),
        ),
        advice=(
            f"threshold {terms.threshold} of {count}; {terms.bits} bits a number, "
            f"{terms.fraction_bits} of them behind the point; {comparisons(terms)} comparisons in "
            f"about {MESSAGE_ROUNDS} rounds of messages between agents",
            f"about {seconds:.0f} s where all agents share two slow cores, and as many network "
            f"delays as rounds; each agent sends about {sent / 1e6:.1f} MB",
            f"opened: to {opened}",
        ),
        parameters={
            "protocol": PROTOCOL,
            "agents": count,
            "coupled": terms.hours if terms.coupled else 0,
            "constraints": terms.hours if terms.limited else 0,
            "shares": terms.fields,
        },
    )


def check_announcement(announced: Any) -> None:
    """InvalidInput for an agent that has not announced its address and a certificate of its own."""
    try:
        member.check_announcement(announced)
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def answer_bytes(problem: Shared, plan: Plan, agents: int) -> int:
    return ANSWER_BYTES


def open_session(problem: Shared, plan: Plan, agents: Sequence[Member]) -> Session:
    terms = Terms.read(plan.parameters["shares"])
    return SharesSession(terms, agents, figures_of(terms, problem.operator))


def release(problem: Shared, public: None, plan: Plan, content: Content, noise: Noise) -> Released:
    """The computation in the clear, on data that are declared public, with c and d as in the
    shares."""
    agents = problem.agents
    assert not isinstance(agents, FederatedAgents)
    terms = Terms.read(plan.parameters["shares"])
    responses = responses_of(terms, agents)
    rows = np.stack([one.rows for one in responses], axis=2)  # [6, hours, agents]
    figures = (
        np.array(figures_of(terms, problem.operator)).reshape(-1, terms.hours)
        / 2.0**terms.fraction_bits
    )
    found = prices.optimum(
        terms,
        prices.Responses(*rows),
        figures[0] if terms.coupled else None,
        figures[-1] if terms.limited else None,
        prices.FloatArithmetic(),
    )
    x = [one.x_of(found.quantities[:, place]) for place, one in enumerate(responses)]
    return {
        "x": np.concatenate(x),
        **({} if found.kept is None else {"kept": np.asarray(found.kept)}),
    }


def finish(
    problem: Shared, public: None, plan: Plan, released: Released, progress: Progress
) -> Result:
    progress(plan.resources.steps, plan.resources.steps)
    if problem.terms is not None:
        section = json.loads(released["evidence"].tobytes())
        told = {"rounds": 0, "transcript": section["transcript"], "evidence": section}
        return Result.of(CoupledQpResult, told | status_of(section.get("settled")))
    agents = problem.agents
    assert not isinstance(agents, FederatedAgents)
    parts = [part_of(agent) for agent in agents]
    x = np.split(released["x"], np.cumsum([part.A_u.shape[1] for part in parts])[:-1])
    coupled = sum(
        (part.A_u @ one for part, one in zip(parts, x, strict=True)), np.array(problem.operator.c)
    )
    excess = sum(
        (part.A_g @ one for part, one in zip(parts, x, strict=True)), np.array(problem.operator.d)
    )
    cost = sum(part.cost.value(one) for part, one in zip(parts, x, strict=True))
    kept = released.get("kept")
    return Result.of(
        CoupledQpResult,
        {
            **status_of(None if kept is None else bool(kept.item())),
            "x": Output(lambda: [one.tolist() for one in x], numbers=released["x"].size),
            "objective": float(coupled @ coupled) / 2 + cost,
            "violation": float(np.max(excess, initial=0.0)),
            "rounds": 0,
            "transcript": hashlib.sha256().hexdigest(),
        },
    )


def evidence_of(problem: Shared, plan: Plan, result: bytes) -> dict[str, Any] | None:
    """The section `cryptographic`; for a simulation that of a session, without signatures."""
    if problem.terms is not None:
        return dict(json.loads(result)["evidence"])
    terms = Terms.read(plan.parameters["shares"])
    section = evidence.evidence(terms, [], b"", None, {})
    return {name: value for name, value in section.items() if name not in ("members", "signatures")}

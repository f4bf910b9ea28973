"""`protocol: mpc`: the agents compute on secret shares among themselves, and each x is opened only
to its agent.

No sum is opened, so that no sum reveals the others' data to an agent, however few they are. The
server takes no part in the computation: it tells the agents who takes part, distributes the
operator's c and d (one summand to each agent, sealed to its key; any n - 1 of the n summands reveal
nothing), and stores what the agents sign. The computation is `discreet_agent.mpc`; problems
consist of hours that agents share: one variable per hour, and the same sums in the joint cost and
the limit. Costs are a sum over hours, or with `mpc.iterations` any quadratic ones, and an agent's
hours may have a budget.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Progress, Released
from discreet.problems.coupled_qp import checks
from discreet.problems.coupled_qp.data import (
    FederatedAgents,
    part_of,
)
from discreet.problems.coupled_qp.result import CoupledQpResult
from discreet.problems.coupled_qp.shares_answers import (
    figures_of,
    in_the_clear,
    inputs_of,
    status_of,
)
from discreet.problems.coupled_qp.shares_cost import (
    bytes_of,
    comparisons,
    message_rounds,
    seconds_of,
)
from discreet.problems.coupled_qp.shares_fields import PROTOCOL_NAME, Shared, terms_of
from discreet.problems.coupled_qp.shares_session import SharesSession
from discreet.problems.federation import ROUNDS_ARE_SEEN, Member, Session
from discreet.problems.numbers import Budget
from discreet.problems.plans import Exposure, Plan, Resources
from discreet.problems.results import Output, Result
from discreet_agent.mpc import evidence, member
from discreet_agent.mpc.prices import verdict_of
from discreet_agent.mpc.terms import PROTOCOL, Terms

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

FAILURES = {
    "computation_broken": "the agents' computation on shares broke off: one could not be reached, "
    "left, or was not who the roster says; nothing was opened to anybody, or to some agents their "
    "own x alone"
}
ANSWER_BYTES = 4096


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
    terms = terms_of(problem, len(agents), len(problem.operator.c), len(problem.operator.d))
    inputs_of(terms, agents)
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
    terms = terms_of(problem, public.count, public.coupled, public.constraints)
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


def _plan(problem: Shared, terms: Terms) -> Plan:
    count = terms.agents
    session = problem.terms is not None
    seconds, sent = seconds_of(terms), bytes_of(terms)
    opened = evidence.reveals(terms)["agents"]
    protects = (
        f"each agent's data from the server and from up to {terms.threshold} colluding agents "
        f"{'of those that compute, and all others, ' if terms.parties < count else ''}by "
        f"secret shares ({evidence.SECURITY}); what is opened to an agent is its own x"
    )
    return Plan.priced(
        [],
        noise=(),
        iterations={
            "comparisons": comparisons(terms),
            **({} if terms.iterations is None else {"steps": terms.iterations}),
        },
        resources=Resources(release_quantum_seconds=0.5, memory_bytes=1 << 28, steps=1),
        unit="agent",
        neighbours=protects,
        exposure=Exposure(
            agents=count,
            rounds=0,
            sums=0,
            sentence=f"no sum is opened; opened is to {opened}; {terms.threshold + 1} of the "
            f"{terms.parties} agents that compute find out everything if they pool their shares, "
            "and one that changes its program may",
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
            f"threshold {terms.threshold} of {terms.parties} agents that compute"
            + (
                f" for all {count}, the first on the roster, by fingerprint"
                if terms.parties < count
                else ""
            )
            + f"; {terms.bits} bits a number, "
            f"{terms.fraction_bits} of them behind the point; {comparisons(terms)} comparisons in "
            f"about {message_rounds(terms)} rounds of messages between agents",
            *(
                []
                if terms.iterations is None
                else [
                    f"{terms.iterations} steps of ADMM, whatever the data: whether they are enough "
                    "is known at the end"
                ]
            ),
            f"about {seconds:.0f} s where all agents share two slow cores, and as many network "
            f"delays as rounds; each agent that computes sends about {sent / 1e6:.1f} MB",
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
    inputs = inputs_of(terms, agents)
    figures = (
        np.array(figures_of(terms, problem.operator)).reshape(-1, terms.hours)
        / 2.0**terms.fraction_bits
    )
    cost = figures[0] if terms.coupled else None
    limit = figures[-1] if terms.limited else None
    quantities, kept = in_the_clear(terms, [one.rows for one in inputs], cost, limit)
    x = [one.x_of(own) for one, own in zip(inputs, quantities, strict=True)]
    return {
        "x": np.concatenate(x),
        **({} if kept is None else {"kept": np.asarray(kept)}),
    }


def finish(
    problem: Shared, public: None, plan: Plan, released: Released, progress: Progress
) -> Result:
    progress(plan.resources.steps, plan.resources.steps)
    if problem.terms is not None:
        section = json.loads(released["evidence"].tobytes())
        told = {"rounds": 0, "transcript": section["transcript"], "evidence": section}
        return Result.of(
            CoupledQpResult, told | status_of(Terms.read(section["terms"]), section.get("settled"))
        )
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
            **status_of(
                Terms.read(plan.parameters["shares"]),
                None if kept is None else verdict_of(kept.item()),
            ),
            "x": Output(lambda: [one.tolist() for one in x], numbers=released["x"].size),
            "objective": float(coupled @ coupled) / 2 + cost,
            "violation": float(np.max(excess, initial=0.0)),
            "violations": np.maximum(excess, 0.0),
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

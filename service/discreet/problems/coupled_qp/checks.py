"""Checks of a coupled problem before it is planned: counts, shapes, steps, and feasibility."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.contents import MAX_ISSUES
from discreet.problems.coupled_qp.data import (
    MAX_DIMENSION,
    AgentData,
    Encryption,
    FederatedAgents,
    Floats,
    OperatorData,
    QpSteps,
    agent_cost,
    set_of,
    sides_of,
)
from discreet.solvers.saddle.feasibility import broken
from discreet.solvers.saddle.spds import Part, step_sizes
from discreet_agent.cost_terms import MOST_NUMBERS, BadTerm
from discreet_agent.updates import Steps

FEWEST_AGENTS = 3
MAX_AGENTS = 1000
MAX_COEFFICIENTS = 20_000_000
MAX_SECONDS = 600
"""The most estimated seconds of a run in one process."""
MAX_PLAN_SECONDS = 20
"""The most estimated seconds for checking the agents' polytopes and terms."""


def refuse_few(count: int) -> None:
    """From three agents, below which a sum reveals the other's part, to the most that a job
    takes."""
    if count < FEWEST_AGENTS:
        raise InvalidInput(
            f"{count} agents: with fewer than three, a sum reveals the other agent's value",
            pointer="/problem/agents",
        )
    if count > MAX_AGENTS:
        raise InvalidInput(f"at most {MAX_AGENTS} agents, not {count}", pointer="/problem/agents")


def check_shapes(operator: OperatorData, agents: Sequence[AgentData], coefficients: int) -> None:
    """Dimensions that disagree, each with its location."""
    rows = {
        "A_u": (len(operator.c), "entries of operator.c"),
        "A_g": (len(operator.d), "entries of operator.d"),
    }
    dimension = len(operator.c) + len(operator.d)
    if not 1 <= dimension <= MAX_DIMENSION:
        raise InvalidInput(
            f"c and d have 1 to {MAX_DIMENSION} entries together, not {dimension}",
            pointer="/problem/operator",
        )
    found: list[FieldIssue] = []
    for place, agent in enumerate(agents):
        where, k = f"/problem/agents/{place}", len(agent.a_l)
        for name, (needed, of) in rows.items():
            given = len(getattr(agent, name))
            if given != needed:
                found.append(
                    FieldIssue(f"{where}/{name}", f"{given} rows, but there are {needed} {of}")
                )
        broad = [
            FieldIssue(
                f"{where}/{name}/{row}",
                f"{len(entries)} columns, but a_l has {k} entries, one a variable",
            )
            for name, matrix in agent.matrices
            for row, entries in enumerate(matrix)
            if len(entries) != k
        ]
        found += broad
        sides = {name: getattr(agent, name) for name in ("lower", "upper")}
        ragged = [
            name for name, side in sides.items() if isinstance(side, tuple) and len(side) != k
        ]
        for name in ragged:
            found.append(
                FieldIssue(f"{where}/{name}", f"{len(sides[name])} entries for {k} variables")
            )
        if not ragged:
            low, high = sides_of(agent)
            for entry in np.flatnonzero(low > high):
                says = f"lower {low[entry]:g} is above upper {high[entry]:g}"
                found.append(
                    FieldIssue(
                        f"{where}/lower/{entry}"
                        if isinstance(agent.lower, tuple)
                        else f"{where}/lower",
                        says,
                    )
                )
            if not broad and not np.any(low > high):
                found += _own_issues(agent, where)
    if found:
        raise InvalidInput(found[:MAX_ISSUES])
    if coefficients > MAX_COEFFICIENTS:
        says = f"{coefficients} coefficients; at most {MAX_COEFFICIENTS}"
        raise InvalidInput(says, pointer="/problem/agents")


def _own_issues(agent: AgentData, where: str) -> list[FieldIssue]:
    """The errors in an agent's set and the terms of its cost, if its box is valid."""
    if agent.budget is None and agent.polytope is None and not agent.terms:
        return []
    try:
        domain = set_of(agent)
    except ValueError as error:
        field = "budget" if agent.polytope is None else "polytope"
        return [FieldIssue(f"{where}/{field}", str(error))]
    try:
        agent_cost(agent).check(domain)
    except BadTerm as error:
        return [FieldIssue(f"{where}/terms/{error.place}", error.says)]
    except ValueError as error:
        return [FieldIssue(f"{where}/terms", str(error))]
    return []


def check_rows(operator: OperatorData, public: FederatedAgents) -> None:
    """Check the operator's data of a federated job against the dimensions of the agents' sums."""
    for name, given, rows in (
        ("c", len(operator.c), public.coupled),
        ("d", len(operator.d), public.constraints),
    ):
        if given != rows:
            says = f"{given} entries, but the agents' matrices have {rows} rows"
            raise InvalidInput(says, pointer=f"/problem/operator/{name}")
    dimension = len(operator.c) + len(operator.d)
    if not 1 <= dimension <= MAX_DIMENSION:
        says = f"c and d have 1 to {MAX_DIMENSION} entries together, not {dimension}"
        raise InvalidInput(says, pointer="/problem/operator")


def check_steps(steps: QpSteps, count: int) -> None:
    """Both steps or none, and one for each agent if they are listed."""
    if (steps.primal is None) != (steps.dual is None):
        raise InvalidInput(
            "primal and dual steps must be given together or not at all", pointer="/problem/steps"
        )
    if isinstance(steps.primal, tuple) and len(steps.primal) != count:
        says = f"{len(steps.primal)} step sizes for {count} agents"
        raise InvalidInput(says, pointer="/problem/steps/primal")


def check_feasible(
    operator: OperatorData, parts: Sequence[Part], agents: Sequence[AgentData]
) -> None:
    """InvalidInput where no x in the agents' sets satisfies `Σ A_g x + d <= 0`."""
    if not operator.d:
        return
    sides = [sides_of(agent) for agent in agents]
    totals, limits = _own_rows(parts)
    found = broken(
        np.hstack([part.A_g for part in parts]),
        np.asarray(operator.d),
        np.concatenate([low for low, _ in sides]),
        np.concatenate([high for _, high in sides]),
        totals,
        limits,
    )
    if found is not None:
        raise InvalidInput(
            "no x that the agents' boxes, budgets and polytopes allow satisfies all coupling "
            f"constraints: one is violated by at least {found.excess:.3g}",
            pointer=f"/problem/operator/d/{found.row}",
        )


def _own_rows(parts: Sequence[Part]) -> tuple[Floats, Floats]:
    """`totals x <= limits` of the agents' budgets and polytopes, float64[r, k] and float64[r]."""
    columns = sum(part.A_g.shape[1] for part in parts)
    totals, limits, at = [np.zeros((0, columns))], [np.zeros(0)], 0
    for part in parts:
        R, least, most = part.domain.rows
        k = part.A_g.shape[1]
        for sign, bound in ((1.0, most), (-1.0, -least)):
            kept = np.isfinite(bound)
            rows = np.zeros((int(kept.sum()), columns))
            rows[:, at : at + k] = sign * R[kept] if kept.any() else 0.0
            totals.append(rows)
            limits.append(bound[kept])
        at += k
    return np.vstack(totals), np.concatenate(limits)


def steps_of(steps: QpSteps, parts: Sequence[Part]) -> list[Steps]:
    """Each agent's steps."""
    if steps.primal is None or steps.dual is None:
        try:
            derived = step_sizes(parts, regularization=steps.regularization)
        except ValueError as error:
            raise InvalidInput(str(error), pointer="/problem/steps") from None
        return [derived] * len(parts)
    primal = steps.primal if isinstance(steps.primal, tuple) else [steps.primal] * len(parts)
    return [Steps(alpha, steps.dual, steps.shrink, steps.regularization) for alpha in primal]


def _seconds_of(
    encryption: Encryption, agents: int, dimension: int, coefficients: int, iterations: int
) -> float:
    """An upper estimate of a run in one process, from measurements on one core of 2024."""
    setup, each = 6e-4 * agents**2, 6e-5 * agents**2 + 1e-8 * coefficients
    each += 1.5e-8 * agents**2 * dimension  # streams
    if encryption.scheme == "paillier":
        size = encryption.key_bits / 2048
        slots = max((encryption.key_bits - 66) // encryption.slot_bits, 1)
        setup += 2 * size**4
        each += agents * math.ceil(dimension / slots) * 6e-3 * size**3
    return setup + each * iterations


def own_seconds(agents: Sequence[AgentData]) -> float:
    """An upper estimate of the seconds in which the agents with polytopes or terms respond once,
    one after the other, from measurements on one core."""
    numbers = [len(agent.a_l) + agent.own_rows for agent in agents if agent.terms or agent.polytope]
    return sum(1e-2 + 3e-4 * n + 1.2e-8 * n**3 for n in numbers)


def check_own_time(agents: Sequence[AgentData]) -> None:
    """At most `MOST_NUMBERS` in one of them, and `MAX_PLAN_SECONDS` for checking all."""
    large = [
        FieldIssue(
            f"/problem/agents/{place}/{'terms' if agent.terms else 'polytope'}",
            f"an agent's variables and the rows of its terms and polytope are {numbers}; at most "
            f"{MOST_NUMBERS}",
        )
        for place, agent in enumerate(agents)
        if agent.solved_rows and (numbers := len(agent.a_l) + agent.solved_rows) > MOST_NUMBERS
    ]
    if large:
        raise InvalidInput(large[:MAX_ISSUES])
    if (seconds := own_seconds(agents)) > MAX_PLAN_SECONDS:
        raise InvalidInput(
            f"the agents' polytopes and terms take about {seconds:.0f} s to look at, and at most "
            f"{MAX_PLAN_SECONDS} are given: fewer agents, variables or rows",
            pointer="/problem/agents",
        )


def check_time(
    encryption: Encryption,
    agents: int,
    dimension: int,
    coefficients: int,
    iterations: int,
    own: float = 0.0,
) -> None:
    """At most `MAX_SECONDS` estimated in one process; `own`: seconds of the agents' responses in a
    round."""
    seconds = _seconds_of(encryption, agents, dimension, coefficients, iterations)
    seconds += own * iterations
    if seconds > MAX_SECONDS:
        raise InvalidInput(
            f"this takes about {seconds:.0f} s in one process, and at most {MAX_SECONDS} are "
            "given: fewer iterations or agents, a smaller key, or scheme masking",
            pointer="/problem/steps/iterations",
        )

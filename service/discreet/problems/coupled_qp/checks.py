"""What a coupled problem must be before it is planned: counts, shapes, steps, and a point that
satisfies it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.columns import MAX_ISSUES
from discreet.problems.coupled_qp.data import (
    MAX_DIMENSION,
    AgentData,
    Encryption,
    FederatedAgents,
    Floats,
    OperatorData,
    QpSteps,
    set_of,
    sides_of,
)
from discreet.solvers.saddle.spds import Part, step_sizes
from discreet_client.updates import Steps

FEWEST_AGENTS = 3
MAX_AGENTS = 1000
MAX_COEFFICIENTS = 20_000_000
FEASIBILITY_TOLERANCE = 1e-9
MAX_SECONDS = 600
"""Of a run in one process, as estimated."""


def refuse_few(count: int) -> None:
    """Between three agents, of whose sum nobody knows the other's part, and the most that a job
    takes."""
    if count < FEWEST_AGENTS:
        raise InvalidInput(
            f"{count} agents: with fewer than three a sum shows the other's value",
            pointer="/problem/agents",
        )
    if count > MAX_AGENTS:
        raise InvalidInput(f"at most {MAX_AGENTS} agents, not {count}", pointer="/problem/agents")


def check_shapes(operator: OperatorData, agents: Sequence[AgentData], coefficients: int) -> None:
    """Dimensions that disagree, each with its place."""
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
        for name in ("A_u", "A_g", "A_q"):
            for row, entries in enumerate(getattr(agent, name)):
                if len(entries) != k:
                    says = f"{len(entries)} columns, but a_l has {k} entries, one a variable"
                    found.append(FieldIssue(f"{where}/{name}/{row}", says))
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
            if agent.budget is not None and not np.any(low > high):
                try:
                    set_of(agent)
                except ValueError as error:
                    found.append(FieldIssue(f"{where}/budget", str(error)))
    if found:
        raise InvalidInput(found[:MAX_ISSUES])
    if coefficients > MAX_COEFFICIENTS:
        says = f"{coefficients} coefficients; at most {MAX_COEFFICIENTS}"
        raise InvalidInput(says, pointer="/problem/agents")


def check_rows(operator: OperatorData, public: FederatedAgents) -> None:
    """What the operator of a federated job holds against the dimensions of what the agents sum."""
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
    """Both steps or none, and one an agent where they are listed."""
    if (steps.primal is None) != (steps.dual is None):
        raise InvalidInput(
            "primal and dual steps are given together or not at all", pointer="/problem/steps"
        )
    if isinstance(steps.primal, tuple) and len(steps.primal) != count:
        says = f"{len(steps.primal)} step sizes for {count} agents"
        raise InvalidInput(says, pointer="/problem/steps/primal")


def check_feasible(
    operator: OperatorData, parts: Sequence[Part], agents: Sequence[AgentData]
) -> None:
    """`min t, Σ A_g x + d <= t` over the agents' sets (a linear program): t > 0 says that no x
    satisfies the coupling."""
    rows = len(operator.d)
    if rows == 0:
        return
    A = np.hstack([part.A_g for part in parts])
    sides = [(low, high) for agent in agents for low, high in zip(*sides_of(agent), strict=True)]
    from scipy.optimize import linprog  # noqa: PLC0415 - 8 MB, for who registers such data
    from scipy.sparse import csr_array, vstack  # noqa: PLC0415

    couplings = np.hstack([A, -np.ones((rows, 1))])
    totals, limits = _budget_rows(parts, agents)
    answer = linprog(
        np.append(np.zeros(A.shape[1]), 1.0),
        A_ub=couplings if not limits.size else vstack([csr_array(couplings), csr_array(totals)]),  # type: ignore[arg-type]
        b_ub=np.concatenate([-np.asarray(operator.d), limits]),
        bounds=[*sides, (0, None)],
    )
    excess = 0.0 if answer.x is None else float(answer.x[-1])
    if excess > FEASIBILITY_TOLERANCE * max(1.0, float(np.max(np.abs(operator.d)))):
        raise InvalidInput(
            "no x that the agents' boxes and budgets allow satisfies all coupling constraints: "
            f"one is violated by at least {excess:.3g}",
            pointer="/problem/operator/d",
        )


def _budget_rows(parts: Sequence[Part], agents: Sequence[AgentData]) -> tuple[Floats, Floats]:
    """`totals x <= limits` for the agents with a budget, float64[2 b, k + 1] and float64[2 b]; the
    last column is of t."""
    ends = np.cumsum([part.A_g.shape[1] for part in parts])
    totals, limits = [], []
    for agent, end in zip(agents, ends, strict=True):
        if agent.budget is not None:
            row = np.zeros(int(ends[-1]) + 1)
            row[end - len(agent.a_l) : end] = 1.0
            totals += [row, -row]
            limits += [agent.budget.upper, -agent.budget.lower]
    return np.array(totals).reshape(-1, int(ends[-1]) + 1), np.array(limits)


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


def check_time(
    encryption: Encryption, agents: int, dimension: int, coefficients: int, iterations: int
) -> None:
    """At most `MAX_SECONDS` in one process, as estimated."""
    seconds = _seconds_of(encryption, agents, dimension, coefficients, iterations)
    if seconds > MAX_SECONDS:
        raise InvalidInput(
            f"this takes about {seconds:.0f} s in one process, and at most {MAX_SECONDS} are "
            "given: fewer iterations or agents, a smaller key, or scheme masking",
            pointer="/problem/steps/iterations",
        )

"""The answer of a computation on secret shares, as figures and fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.coupled_qp.data import AgentData, OperatorData, part_of
from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc import over_time, prices
from discreet_agent.mpc.inputs import input_of
from discreet_agent.mpc.own_programs import OwnProgram, columns
from discreet_agent.mpc.responses import Response
from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]


def figures_of(terms: Terms, operator: OperatorData) -> list[int]:
    """c and d in units of the reach, as fixed-point numbers."""
    figures: list[int] = []
    for asked, values, bound in (
        (terms.coupled, operator.c, terms.cost_bound),
        (terms.limited, operator.d, terms.limit_bound),
    ):
        if asked:
            scaled = np.clip(np.array(values, dtype=np.float64) / terms.reach, -bound, bound)
            figures += [round(value * 2**terms.fraction_bits) for value in scaled.tolist()]
    return figures


def inputs_of(terms: Terms, agents: Sequence[AgentData]) -> list[Response | OwnProgram]:
    """InvalidInput that names an agent whose data exceed the bounds."""
    found: list[Response | OwnProgram] = []
    for place, agent in enumerate(agents):
        part = part_of(agent)
        assert isinstance(part.domain, Box | BudgetedBox)
        assert isinstance(part.cost, QuadraticCost)
        try:
            found.append(input_of(terms, part.A_u, part.A_g, part.cost, part.domain))
        except ValueError as error:
            raise InvalidInput(str(error), pointer=f"/problem/agents/{place}") from None
    return found


def in_the_clear(
    terms: Terms, rows: Sequence[Floats], cost: Floats | None, limit: Floats | None
) -> tuple[list[Floats], Floats | None]:
    """The quantities of each agent, and what all would be told, computed on floats. `cost`
    and `limit`: c and d in units of reach."""
    if terms.iterations is None:
        found = prices.optimum(
            terms,
            prices.Responses(*np.stack(rows, axis=2)),  # [6, hours, agents]
            cost,
            limit,
            prices.FloatArithmetic(),
        )
        return list(found.quantities.T), found.kept
    stacked, part = np.stack(rows), columns(terms.hours)
    single = {name: stacked[:, :, place.start] for name, place in part.items()}
    programs = over_time.Programs(
        stacked[:, :, part["matrix"]],
        single["base"],
        single["lower"],
        single["upper"],
        single["centre"][:, : terms.hours],
    )
    computation = over_time.OverTime(terms, programs, cost, limit, prices.FloatArithmetic())
    state = computation.start()
    for _ in range(terms.iterations):
        state = computation.step(state)
    plans = computation.finish(state)
    return list(plans.quantities), plans.settled


def status_of(terms: Terms, kept: bool | None) -> dict[str, str]:
    """What was opened (`prices.verdict_of`), as a field. Over time it says whether the steps have
    settled, and nobody knows whether more of them would have, or the limit cannot be kept."""
    if not terms.asks:
        return {}
    if kept is None:
        return {"status": "iteration_limit"}
    missed = "infeasible" if terms.iterations is None else "iteration_limit"
    return {"status": "converged" if kept else missed}

"""The answer of a computation on secret shares, as figures and fields."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet.errors import InvalidInput
from discreet.problems.coupled_qp.data import AgentData, OperatorData, part_of
from discreet.solvers.saddle.spds import Part
from discreet_client.convex_sets import Box
from discreet_client.costs import QuadraticCost
from discreet_client.mpc.responses import Response, response
from discreet_client.mpc.terms import Terms


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


def responses_of(terms: Terms, agents: Sequence[AgentData]) -> list[Response]:
    """InvalidInput that names an agent whose data exceed the bounds."""
    found = []
    for place, agent in enumerate(agents):
        try:
            found.append(_response(terms, part_of(agent)))
        except ValueError as error:
            raise InvalidInput(str(error), pointer=f"/problem/agents/{place}") from None
    return found


def _response(terms: Terms, part: Part) -> Response:
    assert isinstance(part.domain, Box)
    assert isinstance(part.cost, QuadraticCost)
    return response(terms, part.A_u, part.A_g, part.cost, part.domain)


def status_of(kept: bool | None) -> dict[str, str]:
    """Whether the limit is kept, as a field; the computation itself always reaches the optimum."""
    return {} if kept is None else {"status": "converged" if kept else "infeasible"}

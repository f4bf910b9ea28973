"""An agent's input to a computation on shares, of the kind that the terms ask for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc.own_programs import OwnProgram, own_program
from discreet_agent.mpc.responses import Response, response
from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]


def input_of(
    terms: Terms, A_u: Floats, A_g: Floats, cost: QuadraticCost, own: Box | BudgetedBox
) -> Response | OwnProgram:
    """ValueError, which says what does not fit the terms."""
    if terms.iterations is not None:
        return own_program(terms, A_u, A_g, cost, own)
    if isinstance(own, BudgetedBox):
        raise ValueError(
            "a budget couples the hours, and these terms have no iterations: every hour is solved "
            "by itself"
        )
    return response(terms, A_u, A_g, cost, own)

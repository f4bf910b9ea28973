"""The example of Hale and Egerstedt 2015: its objectives and constraints, and its saddle point."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.saddle.convexity import prove_convex, to_cvxpy, variables
from discreet_agent.expressions import Expression, parse

Floats = NDArray[np.float64]
cp: Any = cvxpy  # its atoms are not typed
NAMES = tuple(f"x{i}" for i in range(1, 8))

OBJECTIVES = {
    "x1": "(x1 - 9)^2 + x1",
    "x2": "(x2 + 4)^4",
    "x3": "(x3 - 1)^8",
    "x4": "x4^2 + (x4 + 6)",
    "x5": "(x5 + 3)^6",
    "x6": "(x6 - 7)^2",
    "x7": "(x7 - 5)^2",
}

CONSTRAINTS = (
    "x1 + x2 + x3 - 3",
    "x5^2 + 1/12*x6^4 + 1/12*x7^4 - 20",
    "x3^2 + x4 + x6 - 1",
    "x6^2 + x7^2 - 5",
)
BOX = dict.fromkeys(NAMES, (-10.0, 10.0))
RADII = np.ones(7)


def constraints() -> list[Expression]:
    """The four of eq. (33), each proven convex."""
    parsed = [parse(text, NAMES) for text in CONSTRAINTS]
    for constraint in parsed:
        prove_convex(constraint, BOX)
    return parsed


def objectives() -> dict[str, Expression]:
    """The agents' own terms of eq. (36)."""
    return {name: parse(text, [name]) for name, text in OBJECTIVES.items()}


def saddle(terms: dict[str, Expression] | None = None) -> tuple[Floats, Floats]:
    """The saddle point of the paper's objectives, or of `terms`, by CVXPY: states [7] and
    multipliers [4]."""
    known = variables(BOX)
    rows = [to_cvxpy(constraint, known, BOX) <= 0 for constraint in constraints()]
    inside = [
        bound
        for name, (low, high) in BOX.items()
        for bound in (known[name] >= low, known[name] <= high)
    ]
    total = sum(to_cvxpy(term, known, BOX) for term in (terms or objectives()).values())
    cp.Problem(cp.Minimize(total), rows + inside).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10
    )
    mu = np.array([float(row.dual_value) for row in rows])
    x = np.array([float(known[name].value) for name in NAMES])
    mu[mu < 1e-8] = 0.0
    if terms is None:
        # mu_2 = 0 leaves (x5 + 3)^6 alone, which is too flat for a conic solver, and for the paper:
        # -2.863.
        x[4] = -3.0
    return x, mu

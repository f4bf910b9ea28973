"""Whether joint constraints can be kept at all, in any unit of rows and variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-7
"""The largest excess of a row, as a fraction of its terms `|A| |x| + |d|`, that counts as
rounding."""
SWEEPS = 20
"""Sweeps of Ruiz's equilibration."""
PRECISION = 1e-10
"""The tolerance of HiGHS, of the equilibrated program."""


class Broken(NamedTuple):
    """The row of A that nothing keeps, and by how much it is exceeded at least, in its own unit."""

    row: int
    excess: float


def broken(
    A: Floats,
    d: Floats,
    lower: Floats,
    upper: Floats,
    R: Floats | None = None,
    limits: Floats | None = None,
) -> Broken | None:
    """None if some x with `lower <= x <= upper` and `R x <= limits` keeps `A x + d <= 0`.

    A float64[m, k], d float64[m], R float64[r, k], limits float64[r]; bounds may be infinite. A
    linear program minimizes the largest excess of rows that are equilibrated with their variables
    (Ruiz 2001), so that no unit decides.
    """
    if d.size == 0:
        return None
    from scipy.optimize import linprog  # noqa: PLC0415 - 8 MB, for who registers such data
    from scipy.sparse import csr_array  # noqa: PLC0415

    R = np.zeros((0, A.shape[1])) if R is None else R
    limits = np.zeros(0) if limits is None else limits
    rows, columns = _equilibrated(np.vstack([A, R]), np.concatenate([d, limits]))
    m = d.size
    excess = np.concatenate([-np.ones(m), np.zeros(limits.size)])[:, None]
    scaled = np.hstack([np.vstack([A, R]) * rows[:, None] * columns, excess])
    answer = linprog(  # type: ignore[call-overload]
        np.append(np.zeros(A.shape[1]), 1.0),
        A_ub=csr_array(scaled),
        b_ub=np.concatenate([-d * rows[:m], limits * rows[m:]]),
        bounds=[*zip(lower / columns, upper / columns, strict=True), (0, None)],
        options={
            "primal_feasibility_tolerance": PRECISION,
            "dual_feasibility_tolerance": PRECISION,
        },
    )
    if answer.x is None:
        return None
    x = np.clip(answer.x[:-1] * columns, lower, upper)
    over = A @ x + d
    terms = np.abs(A) @ np.abs(x) + np.abs(d)
    shares = np.divide(over, terms, out=np.zeros_like(over), where=terms > 0)
    row = int(np.argmax(shares))
    return Broken(row, float(over[row])) if shares[row] > ROUNDING else None


def _equilibrated(A: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Factors of the rows of (A, d) and of the columns of A that bring the largest entries of all
    to about 1. The column of d keeps its own, since it multiplies no variable."""
    rows, columns = np.ones(A.shape[0]), np.ones(A.shape[1])
    magnitude, own = np.abs(A), np.abs(np.where(np.isfinite(d), d, 0.0))
    for _ in range(SWEEPS):
        scaled = magnitude * rows[:, None] * columns
        largest = np.maximum(np.max(scaled, axis=1, initial=0.0), own * rows)
        rows = rows / np.sqrt(np.where(largest > 0, largest, 1.0))
        largest = np.max(scaled, axis=0, initial=0.0)
        columns = columns / np.sqrt(np.where(largest > 0, largest, 1.0))
    return rows, columns

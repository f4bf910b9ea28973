"""How far each released output of a step moves with each agent: a sparse matrix of
sensitivities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Moves:
    """K_oj in coordinate format: output `row` moves by at most `bound` times the l2 distance that
    agent `column` moves.

    Rows: the values of the constraints, then the nonzero derivatives, by coordinate, then
    constraint, as in `saddle_point.noised_outputs`. `size`: the number of rows.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    bound: NDArray[np.float64]
    size: int

"""How far each released output of a step moves with each agent: sensitivities that are mostly
zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Moves:
    """K_oj in coordinates: output `row` moves by at most `bound` times what agent `column` moves in
    l2.

    Rows: the values of the constraints, then the derivatives that are not zero, by coordinate, then
    constraint; as `saddle_point.noised_outputs` has them. `size`: how many rows there are.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    bound: NDArray[np.float64]
    size: int

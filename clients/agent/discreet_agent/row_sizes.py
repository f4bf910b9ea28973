"""The yardstick of a joint row: what the agents themselves put into it.

A residual of a row is small or large beside `Σ |A_i| |x_i - near_i|`, where near_i is the point of
agent i's box nearest to zero: what a fixed load takes, or the operator's own figure, moves with
nobody's decision and hides no error. It is in the row's own unit and does not depend on how wide
boxes are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST = 2.0**-24
"""A row's size is at least this fraction of the operator's figure in it: what is far below cannot
be told from rounding."""


def own_sizes(A: Floats, x: Floats, lower: Floats, upper: Floats) -> Floats:
    """One agent's part of the sizes of its rows, float64[m]. A float64[m, k], x float64[k]."""
    near = np.minimum(np.maximum(0.0, lower), upper)
    sizes: Floats = np.abs(A) @ np.abs(x - near)
    return sizes

"""Euclidean projection on a scaled simplex (Held, Wolfe, Crowder 1974; Duchi et al. 2008)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument


def project(vector: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The point of {x >= 0, sum x = total} closest to `vector`, which may have any shape; O(n log
    n).

    It is `max(vector - threshold, 0)` with the unique threshold that gives the sum. Raises
    InvalidArgument if `total` is negative or not finite, or if an empty vector is to have a
    positive sum.
    """
    if not (np.isfinite(total) and total >= 0):
        raise InvalidArgument(f"no nonnegative vector has the sum {total}")
    if total == 0 or vector.size == 0:
        if total > 0:
            raise InvalidArgument("the sum of an empty vector is 0")
        return np.zeros(vector.shape)
    # A common shift changes nothing; with the largest entry at 0 the partial sums stay small.
    values = np.asarray(vector, dtype=np.float64) - np.max(vector)
    descending = -np.sort(-values, axis=None)
    thresholds = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    threshold = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    projected: NDArray[np.float64] = np.maximum(values - threshold, 0.0)
    projected *= total / projected.sum()  # the last rounding
    return projected

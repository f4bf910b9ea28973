"""Nonnegative means under noise of a known deviation, most of them perhaps 0: how much to subtract
from each observation.

SureShrink (Donoho & Johnstone 1995, "Adapting to unknown smoothness via wavelet shrinkage"),
one-sided: it takes the soft threshold with the least unbiased risk estimate, computed from the
observations themselves.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def shrink(observed: Floats, deviation: float) -> Floats:
    """`max(observed - t, 0)`, where t in [0, deviation sqrt(2 ln n)] has the least estimated risk;
    n numbers, any shape."""
    threshold, _ = least_risk(observed, deviation)
    return np.maximum(observed - threshold, 0.0)


def least_risk(observed: Floats, deviation: float) -> tuple[float, float]:
    """The threshold and its risk estimate.

    Stein (1981): for x = mean + N(0, deviation²), the sum of squared errors of (x - t)_+ is
    estimated without bias by

        sum_i [ min(x_i, t)² - deviation² + 2 deviation² 1(x_i > t) ].

    Between two observations this grows with t², so its minimum is at 0 or at an observation.
    """
    x = np.sort(np.ravel(observed))
    n = x.size
    most = deviation * math.sqrt(2 * math.log(max(n, 2)))
    candidates = np.concatenate([[0.0], x[(x > 0) & (x <= most)]])
    at_most = np.searchsorted(x, candidates, side="right")
    squares = np.concatenate([[0.0], np.cumsum(x**2)])
    risks = squares[at_most] + (n - at_most) * (candidates**2 + 2 * deviation**2) - n * deviation**2
    best = int(np.argmin(risks))
    return float(candidates[best]), float(risks[best])

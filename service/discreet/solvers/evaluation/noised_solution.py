"""How far noise on stacked statistics moves the weights that are computed from them, to first
order.

error_of_solution(A, b, C, theta, ridge, deviation, reward_bound) -> (root, ratio)
"""

from __future__ import annotations

import math

import numpy as np

from discreet.solvers.evaluation.least_squares_temporal_difference import SINGULAR
from discreet.solvers.evaluation.temporal_difference import Floats


def error_of_solution(
    A: Floats,
    b: Floats,
    C: Floats,
    theta: Floats,
    ridge: float,
    deviation: float,
    reward_bound: float,
) -> tuple[Floats, float]:
    """`root` float64[d, k], where root root' is the covariance of theta, and a figure that says
    whether it can be trusted.

    Each entry of A, of b/reward_bound and of C's upper triangle has noise of this deviation. With M
    = A'C^-1 A + ridge, G = M^-1 A'C^-1 and q = C^-1 (b - A theta),

        d theta = G (db - dA theta - dC q) + M^-1 dA' q.

    `ratio`: deviation sqrt(d) over the least singular value of A. If it is not small, A may be
    mostly noise, and the first order is meaningless.
    """
    weight, basis = np.linalg.eigh((C + C.T) / 2)
    largest = float(weight[-1]) if weight[-1] > 0 else 1.0
    inverse = (basis / np.maximum(weight, max(ridge, SINGULAR * largest))) @ basis.T
    square = np.linalg.pinv(A.T @ inverse @ A + ridge * np.eye(len(b)), hermitian=True)
    gain, left = square @ A.T @ inverse, inverse @ (b - A @ theta)
    moved, turned = gain @ left, square @ theta
    both = float(theta @ theta) + reward_bound**2 + float(left @ left)
    # Noise of C: an entry off the diagonal counts twice, one on it once.
    spread = both * gain @ gain.T + np.outer(moved, moved) - (gain * left**2) @ gain.T
    spread += (
        float(left @ left) * square @ square - np.outer(moved, turned) - np.outer(turned, moved)
    )
    size, axes = np.linalg.eigh((spread + spread.T) / 2)
    root = deviation * axes * np.sqrt(np.maximum(size, 0.0))
    least = float(np.linalg.svd(A, compute_uv=False)[-1])
    return root, deviation * math.sqrt(len(b)) / max(least, 1e-300)

"""What is known of sums of counts, and draws of the counts that are moved to meet it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_CONDITIONED = 2_000_000
"""Numbers of the cells' weights in what is known, of all draws that are moved together to meet
it."""
REPAIRS = 8
"""Rounds in which what was cut off at 0 is made up for."""


@dataclass(frozen=True)
class Known:
    """What is known of linear functions of the counts: `weights` @ counts is `target`, up to a
    normal error.

    weights: float64[k, cells]; target, deviation: float64[k]; a deviation of 0 for what is known
    exactly.
    """

    weights: Floats
    target: Floats
    deviation: Floats


def conditioned(
    counts: Floats, variance: Floats, known: Known, rng: np.random.Generator | None
) -> Floats:
    """Draws moved to meet what is known, each cell that is not 0 as far as it is uncertain
    (conditioning by kriging).

    Without `rng` the counts are means, and so is what comes of them.
    """
    target = np.broadcast_to(known.target, (len(counts), known.target.size))
    if rng is not None:
        target = target + known.deviation * rng.standard_normal(target.shape)
    some = max(1, MOST_CONDITIONED // known.weights.size)
    parts = [slice(first, first + some) for first in range(0, len(counts), some)]
    return np.concatenate([_met(counts[part], variance, known, target[part]) for part in parts])


def _met(counts: Floats, variance: Floats, known: Known, target: Floats) -> Floats:
    """`conditioned` of a few draws, each with its own target: float64[draws, cells]."""
    A = known.weights
    spread = np.where(counts > 0, variance, 0.0)[:, None] * A
    covariance = np.matmul(spread, A.T)
    # Where all counts of a draw are 0 nothing can be moved: there the ridge alone is left, far
    # below a count.
    ridge = (
        1e-9
        * (np.trace(covariance, axis1=1, axis2=2)[:, None, None] + 1e-3)
        * np.eye(target.shape[-1])
    )
    missing = np.linalg.solve(
        covariance + np.diag(known.deviation**2) + ridge, (target - counts @ A.T)[..., None]
    )
    counts = counts + np.matmul(missing.mT, spread)[:, 0]
    met = counts @ A.T
    counts = np.maximum(counts, 0.0)
    for _ in range(REPAIRS):  # what was cut at 0 is made up for elsewhere
        missing = np.linalg.solve(covariance + ridge, (met - counts @ A.T)[..., None])
        counts = np.maximum(counts + np.matmul(missing.mT, spread)[:, 0], 0.0)
    return counts

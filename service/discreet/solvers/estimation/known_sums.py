"""Known sums of counts, and draws of the counts conditioned on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_CONDITIONED = 2_000_000
"""The most numbers, draws times weights of cells, of the draws that are conditioned together."""
REPAIRS = 8
"""Rounds that compensate for cutting off at 0."""


@dataclass(frozen=True)
class Known:
    """Known linear functions of the counts: `weights` @ counts is `target`, up to a normal error.

    weights: float64[k, cells]; target, deviation: float64[k]; a deviation of 0 for an exactly known
    value.
    """

    weights: Floats
    target: Floats
    deviation: Floats


def conditioned(
    counts: Floats, variance: Floats, known: Known, rng: np.random.Generator | None
) -> Floats:
    """Draws conditioned on what is known, each cell that is not 0 in proportion to its variance
    (conditioning by kriging).

    Without `rng` the counts are means, and so is the result.
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
    # If all counts of a draw are 0, nothing can be adjusted: only the ridge is left, far below a
    # count.
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
    for _ in range(REPAIRS):  # what was cut off at 0 is compensated elsewhere
        missing = np.linalg.solve(covariance + ridge, (met - counts @ A.T)[..., None])
        counts = np.maximum(counts + np.matmul(missing.mT, spread)[:, 0], 0.0)
    return counts

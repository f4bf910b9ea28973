"""The steps of agents of multi-agent problems through a cloud (Hale & Egerstedt 2015), and the step
sizes that agents and cloud share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def tikhonov_sizes(k: int, gamma: float, alpha: float, c1: float, c2: float) -> tuple[float, float]:
    """gamma_k = gamma k^-c1 and alpha_k = alpha k^-c2 of step k = 1, 2, … (eq. 7)."""
    return gamma * math.exp(-c1 * math.log(k)), alpha * math.exp(-c2 * math.log(k))


def agent_step(
    state: float,
    slope: float,
    gradient: Sequence[float],
    multipliers: Sequence[float],
    gamma: float,
    alpha: float,
    lower: float,
    upper: float,
) -> float:
    """An agent's next state, eq. (15), from its own slope f_i'(x_i), and dG/dx_i (`gradient`) and
    mu (`multipliers`) from the cloud. In plain Python."""
    pull = slope
    for entry, multiplier in zip(gradient, multipliers, strict=True):
        pull += entry * multiplier
    return min(max(state - gamma * (pull + alpha * state), lower), upper)


def vector_step(
    state: Floats, slope: Floats, gradient: Floats, multipliers: Floats, gamma: float, alpha: float
) -> Floats:
    """`agent_step` for a vector state, float64[d], before its projection onto the agent's set.
    `slope`: float64[d]; `gradient`: float64[m, d]."""
    moved: Floats = state - gamma * (slope + multipliers @ gradient + alpha * state)
    return moved

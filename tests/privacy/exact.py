"""Closed forms that curves are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawPair


def dirichlet_renyi(order: float, p: Sequence[float], q: Sequence[float]) -> float:
    """D_a(Dir(p) || Dir(q)) = [lnB(a p + (1-a) q) - a lnB(p) - (1-a) lnB(q)]/(a-1); inf where B
    does not exist."""

    def log_beta(x: NDArray[np.float64]) -> float:
        return float(np.sum(gammaln(x)) - gammaln(np.sum(x)))

    first, second = np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64)
    between = order * first + (1 - order) * second
    if np.any(between <= 0):
        return math.inf
    return (log_beta(between) - order * log_beta(first) - (1 - order) * log_beta(second)) / (
        order - 1
    )


def one_draw_delta(epsilon: float, q: float, sigma: float) -> float:
    """H of one step of `OneDrawPair` at epsilon >= 0 in the paper's terms: unit clip, noise sigma,
    distance 2."""
    p, tail = OneDrawPair(q, 2 / sigma).tails(np.array([epsilon]))
    return float(p[0] - math.exp(epsilon) * tail[0])

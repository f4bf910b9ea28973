"""Values of states by draws of what the noised histograms may have been: post-processing of a release.

Each draw of visits (`count_posterior.draw_counts`) and of rewards given these is a Markov reward process that fits, and
is solved as it is: no threshold, no pseudo-count, no shrinkage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from discreet.solvers.evaluation.temporal_difference import Floats, Ints

Kind = Literal["laplace", "gaussian"]

SHARES = (np.arange(10) + 0.5) / 10
"""Of states without any rewards: what w may be, as likely one as another."""
WIDTHS = np.array([1, 1 / 4, 1 / 16])
ODDS, LEAST = 300.0, 1e-300
"""Logarithms beyond, and numbers below, make no difference any more."""
ROOM = 4_000_000
"""Numbers of the matrices that are solved at once."""


def draw_rewards(noisy: Floats, bounds: Floats, scale: float, kind: Kind, rng: np.random.Generator) -> Floats:
    """Draws float64[draws, states] of sums of rewards in ±`bounds` float64[draws, states], given the noised ones
    float64[states].

    Before, a sum is 0 with a probability w, which all states share and which is unknown; else as likely one number as
    another within one of `WIDTHS` of its bounds, each of these as likely as the others. `scale`: of the noise, of
    `gaussian` its deviation.
    """
    widths = bounds * WIDTHS[:, None, None]
    logs = _log_mean(noisy, widths, scale, kind)
    zero = -np.abs(noisy / scale) if kind == "laplace" else -((noisy / scale) ** 2) / 2
    best = logs.max(axis=0)
    parts = np.exp(logs - best).cumsum(axis=0)
    width = (parts < rng.random(bounds.shape) * parts[-1]).sum(axis=0)
    drawn = _draw(noisy, np.take_along_axis(widths, width[None], axis=0)[0], scale, kind, rng)
    # The odds against 0, were both as likely before.
    odds = np.exp(np.clip(best - zero, -ODDS, ODDS)) * parts[-1] / len(WIDTHS)
    evidence = np.log(SHARES + (1 - SHARES) * odds[:, :, None]).sum(axis=1)
    weight = np.exp(evidence - evidence.max(axis=1, keepdims=True)).cumsum(axis=1)
    share = SHARES[(weight < rng.random((len(weight), 1)) * weight[:, -1:]).sum(axis=1)][:, None]
    return np.where(rng.random(drawn.shape) * (share + (1 - share) * odds) < share, 0.0, drawn)


def _log_mean(middle: Floats, bounds: Floats, scale: float, kind: Kind) -> Floats:
    """Of exp(-|x - middle|/scale), or exp(-(x - middle)²/(2 scale²)), over x in ±bounds the logarithm of the mean."""
    length = np.maximum(2 * bounds / scale, LEAST)
    if kind == "laplace":
        nearest = np.clip(middle, -bounds, bounds)
        both = -np.expm1(-(nearest + bounds) / scale) - np.expm1(-(bounds - nearest) / scale)
        mean = np.log(np.maximum(both, LEAST)) - np.abs(middle - nearest) / scale
    else:
        above, below = (log_ndtr((end - np.abs(middle)) / scale) for end in (bounds, -bounds))
        mean = above + np.log(np.maximum(-np.expm1(below - above), LEAST)) + 0.5 * math.log(2 * math.pi)
    return np.asarray(mean - np.log(length))


def _draw(middle: Floats, bounds: Floats, scale: float, kind: Kind, rng: np.random.Generator) -> Floats:
    """Draws of that noise about `middle`, truncated to ±bounds."""
    side, place = rng.random((2, *bounds.shape))
    if kind == "laplace":
        nearest = np.clip(middle, -bounds, bounds)
        left, right = -np.expm1(-(nearest + bounds) / scale), -np.expm1(-(bounds - nearest) / scale)
        lower = side * (left + right) < left
        away = -scale * np.log1p(-place * np.where(lower, left, right))
        return np.asarray(np.clip(nearest + np.where(lower, -away, away), -bounds, bounds))
    # Turned so that most of the interval lies below the middle: logarithms keep their digits there.
    above, below = (log_ndtr((end - np.abs(middle)) / scale) for end in (bounds, -bounds))
    drawn = np.abs(middle) + scale * ndtri_exp(above + np.log(place + (1 - place) * np.exp(below - above)))
    return np.asarray(np.where(middle < 0, -1.0, 1.0) * np.clip(drawn, -bounds, bounds))


def batches(draws: int, states: int) -> int:
    """In how many parts so many draws are solved."""
    return math.ceil(draws / _together(states))


def _together(states: int) -> int:
    return max(1, ROOM // (states * (states + 1)))


def draw_values(
    counts: Floats,
    cells: Ints,
    states: int,
    discount: float,
    *,
    rewards: Floats,
    reward_bound: float,
    progress: Callable[[int], None] = lambda batch: None,
) -> Floats:
    """The values float64[draws, states] of the processes of `counts` float64[draws, K] of the cells int64[K, 2].

    rewards: float64[draws, states], sums in parts of `reward_bound` by state; or float64[K], the public reward of each
    cell. A state without counts has the value 0. `progress` is called with 1, 2, … `batches`.
    """
    draws, (origin, target) = len(counts), cells.T
    values = np.empty((draws, states))
    many = _together(states)
    for first in range(0, draws, many):
        some = counts[first : first + many]
        onward = np.zeros((len(some), states, states + 1))
        onward[:, origin, target] = some
        visits = onward.sum(axis=2)
        known = np.where(visits > 0, visits, 1.0)
        if rewards.ndim == 1:
            worth = np.zeros((states, states + 1))
            worth[origin, target] = rewards
            gained = np.einsum("dst,st->ds", onward, worth)
        else:
            gained = reward_bound * rewards[first : first + many]
        A = np.eye(states) - discount * onward[:, :, :states] / known[:, :, None]
        values[first : first + many] = np.linalg.solve(A, (gained / known)[:, :, None])[:, :, 0]
        progress(first // many + 1)
    return values

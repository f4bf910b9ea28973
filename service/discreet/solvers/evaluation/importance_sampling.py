"""Weighted importance sampling of whole trajectories, or of single steps, by sums that one
trajectory moves by a bounded amount.

    weighted_sums(transitions, discount, bounds, largest_weight) -> int64[7]
    per_decision_sums(transitions, discount, bounds, largest_weight, horizon) -> int64[7]

A trajectory has the weight w, the product of its ratios, clipped at W, and the discounted return G,
clipped to [a, b]. With

    u = min(w, W) / W,    g = (G - a) / (b - a),    both within [0, 1],

it adds `unit` times

    (u g², 2 u g (1 - g), u (1 - g)², v g², 2 v g (1 - g), v (1 - g)², c u²),    v = 1 - u.

The first six are nonnegative and sum to 1, since (g + (1 - g))² = 1 = u + v. The sums of u, u g, u
(g - t)², g and (g - t)² follow from them: the values of both policies, their sampling errors, and
the number of trajectories. The behaviour policy's value is free of charge: without it the last
three would be one entry, 1 - u, with the same noise.

For single steps (Precup, Sutton & Singh 2000) a reward r_t is weighted by the ratios up to its
step. With w_t their product, u_t and v_t as above, g_t = (r_t - a) / (b - a) of public bounds of
one reward, and shares s_t = discount^t / (1 + discount + ...) of all steps to the horizon,

    u = sum s_t u_t,    u g = sum s_t u_t g_t,    v g' = sum s_t v_t g_t,

it adds the same with g' in the last three of the six: u + v = 1 and both g lie within [0, 1], so
the sensitivity is the same too. After its end the rewards are 0 and w_t stays. Every E[w_t] is 1,
so the sums of u g and of u have one expected ratio for all steps together: one denominator instead
of one per step, among which the noise would be shared.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions

UNIT = 1 << 24
"""Counts of one whole trajectory; rounding loses less than 6e-8 of a trajectory in an entry."""
SQUARES = 0.1
"""The weight c of u²: its error matters less than those of the others."""
SQUARE_UNIT = int(SQUARES * UNIT)
ENTRIES, MASSES = 7, 6


def weighted_sums(
    transitions: Transitions, *, discount: float, bounds: tuple[float, float], largest_weight: float
) -> Ints:
    """The sums over trajectories, int64[7]. `bounds`: public, of discounted returns; only ratios
    and rewards of `transitions` are read. Ratios are not clipped individually, only their product
    is.

    Sensitivity, exactly and in integers: a trajectory adds nonnegative integers of which the first
    six sum to at most UNIT, and the last is at most SQUARE_UNIT. Added or removed: l1 <= UNIT +
    SQUARE_UNIT and l2 <= (UNIT² + SQUARE_UNIT²)^(1/2). Replaced: the difference of the first six
    has l1 <= 2 UNIT and l2 <= 2^(1/2) UNIT (no entry is negative), that of the last is at most
    SQUARE_UNIT. Proof: integers q in [0, UNIT] stand for u and h for g; q and UNIT - q are each
    split in two and these in two again, by floors of products whose sum does not exceed what is
    split.

    A weight that is not a number counts as u = 0, a return that is not as g = 1/2.
    """
    low, high = bounds
    sums = np.zeros(ENTRIES, dtype=np.int64)
    _add(
        transitions.trajectory_start,
        transitions.reward,
        transitions.ratio,
        float(discount),
        float(low),
        float(high),
        math.log(largest_weight),
        UNIT,
        SQUARE_UNIT,
        sums,
    )
    return sums


def per_decision_sums(
    transitions: Transitions,
    *,
    discount: float,
    bounds: tuple[float, float],
    largest_weight: float,
    horizon: int,
) -> Ints:
    """The sums over trajectories with weights of single steps, int64[7]. `bounds`: public, of one
    reward, and contain 0 because steps after the end have no reward; `horizon`: the number of steps
    that have shares.

    Sensitivity as in `weighted_sums`, by the same proof: a third integer stands for g'. A weight
    that is not a number counts as u_t = 0, a reward that is not as g_t = 1/2.
    """
    low, high = bounds
    sums = np.zeros(ENTRIES, dtype=np.int64)
    _add_steps(
        transitions.trajectory_start,
        transitions.reward,
        transitions.ratio,
        float(discount),
        float(low),
        float(high),
        math.log(largest_weight),
        horizon,
        UNIT,
        SQUARE_UNIT,
        sums,
    )
    return sums


@numba.njit(cache=True, nogil=True)
def _add(
    start: Ints,
    reward: Floats,
    ratio: Floats,
    discount: float,
    low: float,
    high: float,
    most: float,
    unit: int,
    square: int,
    sums: NDArray[np.int64],
) -> None:
    for trajectory in range(start.size - 1):
        weight, gain, factor = 0.0, 0.0, 1.0
        for t in range(start[trajectory], start[trajectory + 1]):
            weight += math.log(ratio[t]) if ratio[t] != 0.0 else -math.inf
            gain += factor * reward[t]
            factor *= discount
        q, h = 0, unit // 2
        if weight >= most:
            q = unit
        elif weight > -math.inf:  # neither it nor one that is not a number
            q = min(int(math.exp(weight - most) * unit + 0.5), unit)
        if not math.isnan(gain):
            part = min(max((gain - low) / (high - low), 0.0), 1.0)
            h = min(int(part * unit + 0.5), unit)
        _split(q, h, h, unit, square, sums)


@numba.njit(cache=True, nogil=True)
def _add_steps(
    start: Ints,
    reward: Floats,
    ratio: Floats,
    discount: float,
    low: float,
    high: float,
    most: float,
    horizon: int,
    unit: int,
    square: int,
    sums: NDArray[np.int64],
) -> None:
    steps, factor = 0.0, 1.0
    for _ in range(horizon):
        steps += factor
        factor *= discount
    nothing = (0.0 - low) / (high - low)
    for trajectory in range(start.size - 1):
        weight, share, rest = 0.0, 1.0 / steps, 1.0
        kept, mine, gain, clipped = 0.0, 0.0, 0.0, 0.0
        for t in range(start[trajectory], start[trajectory + 1]):
            weight += math.log(ratio[t]) if ratio[t] != 0.0 else -math.inf
            clipped = 0.0
            if weight >= most:
                clipped = 1.0
            elif weight > -math.inf:  # neither it nor one that is not a number
                clipped = math.exp(weight - most)
            part = 0.5
            if not math.isnan(reward[t]):
                part = min(max((reward[t] - low) / (high - low), 0.0), 1.0)
            kept += share * clipped
            mine += share * clipped * part
            gain += share * part
            rest -= share
            share *= discount
        rest = max(rest, 0.0)  # for the steps after its end
        kept += rest * clipped
        mine += rest * clipped * nothing
        gain += rest * nothing
        q = min(int(kept * unit + 0.5), unit)
        g = _counts(mine, kept, unit)
        _split(q, g, _counts(gain - mine, 1.0 - kept, unit), unit, square, sums)


@numba.njit(cache=True, nogil=True)
def _counts(part: float, whole: float, unit: int) -> int:
    """part / whole, both nonnegative up to rounding, as an integer from 0 to `unit`."""
    if not whole > 0.0:
        return 0
    return int(min(max(part / whole, 0.0), 1.0) * unit + 0.5)


@numba.njit(cache=True, nogil=True)
def _split(q: int, g: int, other: int, unit: int, square: int, sums: NDArray[np.int64]) -> None:
    """Adds one trajectory: q and `unit` - q, split by `g` and by `other`, each from 0 to `unit`."""
    for half in range(2):
        whole, h = (q, g) if half == 0 else (unit - q, other)
        upper = whole * h // unit
        lower = whole - upper
        sums[3 * half] += upper * h // unit
        sums[3 * half + 1] += upper * (unit - h) // unit + lower * h // unit
        sums[3 * half + 2] += lower * (unit - h) // unit
    sums[6] += square * q // unit * q // unit

"""Behaviour probabilities that cannot be those by which people were treated.

Given all that came before, the ratio target / behaviour of the action that is taken has mean 1 if
`behaviour` is its probability: so the sum of (ratio - 1) over the rows, of each trajectory up to
the first that the target policy would never take, is a martingale M. For every such martingale

    P(|M| >= x, [M] + <M> <= y) <= 2 exp(-x² / (2 y))

(Bercu and Touati 2008), whatever the ratios: [M] is the sum of (ratio - 1)², and <M> that of its
expectations, which for two actions follow from each row, (target - behaviour)² / (behaviour (1 -
behaviour)); for more it is at least that, and may be much more: if an action of probability .01
that the target always takes was drawn by none of 50 people, no row tells how large its ratio would
have been, and right probabilities are doubted about half of the time. Per trajectory M is how far
the mean of the weights drifts from 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue
from discreet.problems.contents import Content
from discreet.problems.off_policy_evaluation.public import Floats
from discreet_client.intervals import plain

CHANCE = 1e-5
"""With which right probabilities are doubted at most, if there are two actions; nothing
bounds it for more."""
FAR = 0.1
"""For each trajectory: probabilities with two digits move the sum less."""


class Sums(NamedTuple):
    """Over the rows that count: their number, that of trajectories, M, and [M] + <M>."""

    rows: float
    trajectories: float
    drift: float
    spread: float


def sums_of(content: Content) -> Floats:
    """`Sums` of canonical content as float64[4]; those of parts add up."""
    start, behaviour, target = content["start"], content["behaviour"], content["target"]
    never = target == 0
    before = np.cumsum(never) - never
    first = np.repeat(before[start[:-1]], np.diff(start))
    alive: NDArray[np.bool_] = before == first
    b, t = behaviour[alive], target[alive]
    apart = t / b - 1.0
    other = np.maximum(1.0 - b, np.finfo(np.float64).tiny)
    expected = np.where(b < 1.0, (t - b) ** 2 / (b * other), 0.0)
    with np.errstate(over="ignore"):
        spread = float((apart**2 + expected).sum())
    return np.array([b.size, start.size - 1, apart.sum(), spread])


def issues(sums: Floats) -> list[FieldIssue]:
    """Why the probabilities cannot be right; nothing where chance explains it."""
    found = Sums(*sums.tolist())
    allowed = math.sqrt(2 * math.log(2 / CHANCE) * found.spread)
    if not found.trajectories or not math.isfinite(allowed):
        return []
    if abs(found.drift) <= max(allowed, FAR * found.trajectories):
        return []
    mean, around = 1 + found.drift / found.rows, allowed / found.rows
    return [
        FieldIssue(
            "/content/behaviour",
            "target / behaviour has mean 1 if behaviour is the probability of the action taken; "
            f"found {plain(mean, 3)} in {found.rows:,.0f} rows (chance: 1 ± {plain(around)}, if "
            "there are two actions; of more, rare ones may be why). Does it hold P(one fixed "
            "action) in all rows, or a target that goes by what was measured later? Correct the "
            "file, or insist with `accept_doubts`",
        )
    ]

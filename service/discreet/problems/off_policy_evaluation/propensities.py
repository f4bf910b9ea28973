"""Behaviour probabilities that cannot be those by which people were treated.

Given all that came before a row, for any number of actions, with b(a) and t(a) the probabilities
that the row says of the action a that was taken, and sums over all actions a:

    target / behaviour    has mean sum b(a) t(a) / b(a) = 1
    1[b > 1/2] / b        has mean sum over b(a) > 1/2 of b(a) / b(a) <= 1: at most one action has
                          more than half

So with X either of them, a gambler who stakes the part λ of what they have on X - 1 in each row has

    W(λ) = product of (1 + λ (X - 1))

which begins at 1, and whose mean never grows. It never falls below 0 for 0 <= λ < 1, as X >= 0, nor
for λ < 0 where X <= M and -λ <= 1 / (M - 1): downwards there is a bet on the ratio where the public
`max_ratio` bounds it, which registration has checked. (Without one nothing is known downwards: an
action that the target always takes, of probability .01, may be drawn by none of 50 people.) The
mean E of W over fixed bets, λ of both signs and both X, is such a wealth too, and by Markov's
inequality

    P(E >= 1 / ALPHA) <= ALPHA

(Ville 1939; Shafer 2021, "Testing by betting"). It holds for each trajectory up to the first row
that the target policy would never take, since what the bets are is known before the rows are.
Whoever is right is doubted with at most this chance, whatever the number of actions, the ratios and
the trajectories.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue
from discreet.problems.contents import Content
from discreet.problems.off_policy_evaluation.public import Floats
from discreet_client.intervals import plain

ALPHA = 1e-6
"""With which right probabilities are doubted at most."""
STAKES: Floats = np.float64(2.0) ** -np.arange(1.0, 9.0)
"""Parts of the largest bet: a drift of d in a deviation of s is found soonest by some d / s²."""
LARGEST = 1e12
"""Of a ratio: what is beyond counts as this, by which no mean grows."""
NARROW = 1.001
"""The least M: a max_ratio of 1 says that all ratios are 1."""
FAR = 0.1
"""For each trajectory: probabilities with two digits move the sums of X - 1 less."""


def sums_of(content: Content, max_ratio: float | None) -> Floats:
    """Over the rows that count, as float64: their number, that of trajectories, and of b > 1/2; the
    sums of target / behaviour - 1 and of 1[b > 1/2] / b - 1; and of log (1 + λ (X - 1)) for bets
    upwards on the ratio, downwards on it, and on what is likely. Those of parts add up."""
    start, behaviour, target = content["start"], content["behaviour"], content["target"]
    never = target == 0
    before = np.cumsum(never) - never
    first = np.repeat(before[start[:-1]], np.diff(start))
    alive: NDArray[np.bool_] = before == first
    b, t = behaviour[alive], target[alive]
    with np.errstate(over="ignore"):
        ratio = np.minimum(t / b, LARGEST) - 1.0
        likely = np.where(b > 0.5, 1.0 / b, 0.0) - 1.0
    down = 0.0 if max_ratio is None else -1.0 / (max(max_ratio, NARROW) - 1.0)
    wealth = [
        np.log1p(stake * limit * apart).sum()
        for limit, apart in ((1.0, ratio), (down, ratio), (1.0, likely))
        for stake in STAKES
    ]
    counts = [b.size, start.size - 1, np.count_nonzero(b > 0.5)]
    return np.array([*counts, ratio.sum(), likely.sum(), *wealth])


def issues(sums: Floats) -> list[FieldIssue]:
    """Why the probabilities cannot be right; nothing where chance explains it."""
    rows, trajectories, common, drift, excess = sums[:5].tolist()
    wealth = sums[5:].reshape(3, STAKES.size)
    # The mean of all bets is no less than the share of these.
    sure = np.logaddexp.reduce(wealth, axis=1) - math.log(wealth.size) >= -math.log(ALPHA)
    far = FAR * trajectories
    if (sure[0] and drift > far) or (sure[1] and drift < -far):
        found = f"found {plain(1 + drift / rows, 3)} in {rows:,.0f} rows"
    elif sure[2] and excess > far:
        found = f"it is above 1/2 in {common:,.0f} of {rows:,.0f} rows, more often than it says"
    else:
        return []
    return [
        FieldIssue(
            "/content/behaviour",
            "target / behaviour has mean 1 if behaviour is the probability of the action taken; "
            f"{found} (by chance in one of a million sets at most). Does it hold P(one fixed "
            "action) in all rows, or a target that goes by what was measured later? Correct the "
            "file, or insist with `accept_doubts`",
        )
    ]

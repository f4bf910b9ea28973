"""Prices of coupled quadratic programs from opened sums, for `method: auto`, which has no step
sizes to tune.

The dual of `min ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)`, `x_i` in X_i, `Σ A_g,i x_i + d <= 0`, in prices
`y = (y_u, lambda >= 0)` is concave with gradient `S - K y`, where S = (Σ A_u x + c, Σ A_g x + d) at
the agents' best responses to y, and K is the identity on u and zero on g. Its curvature is K, which
everybody knows, plus that of the agents, which a BFGS matrix B learns from the sums: a structured
quasi-Newton method (Dennis, Martinez, Tapia 1989), whose steps minimize the model over lambda >= 0.
The first B is diagonal, a fraction of the slopes in the agents' first sum.

All agents compute the same prices from the same sums, and stop at the same sum, by
`arithmetic.SAME`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet_client.arithmetic import SAME, box_minimum

Floats = NDArray[np.float64]

FIRST = 0.85
"""The fraction of the slopes in the first B: they are upper bounds, which boxes make too large."""
LEARNED_FROM = 2
"""The first moves of the prices that B does not learn from, since the agents' haze distorts
them."""
SHRINK = 0.1
"""The factor on the curvature in a direction in which the sums did not fall."""
REACH = 1.3
"""A move is at most this multiple of the longest of the last `RECENT`, in the metric of the first
B."""
RECENT = 3
SMALLEST = 1e-9
"""The least diagonal entry of the first B, as a fraction of its largest."""
TURN = 0.5
"""Centres move when at most this fraction of the gap lies between sums and prices, and the rest in
regrets."""
TURNS_FROM = 8
"""The sums after which regrets contain no haze."""
GAP = 1e-6
"""A run ends when the gap is at most this fraction of the largest, …"""
BROKEN = 1e-5
"""… and constraints are violated by at most this fraction of the largest entry of a sum."""


class Prices:
    """The prices that follow from the opened sums, float64[m + 1]: the couplings, then the sum of
    the agents' regrets.

    The first `coupled` entries of a sum are of the objective, the others of the constraints.
    `resolution` is the largest rounding error of an entry of a sum.
    """

    def __init__(self, coupled: int, couplings: int, resolution: float = 0.0) -> None:
        self.coupled, self._resolution = coupled, resolution
        self.sums: list[Floats] = []
        """All opened sums, in order."""
        self.asked = np.zeros(couplings)
        """The prices that the next sum answers."""
        self.answered = self.asked
        """The prices that the last sum answered."""
        self.ended = self.turn = False
        """`turn`: the prices are solved for the agents' proximal centres, which are to move now."""
        self.gap = self.largest_gap = self.violation = math.inf
        self.largest = 0.0
        """The largest magnitude of an entry of any sum."""
        self._own = np.diag((np.arange(couplings) < coupled).astype(np.float64))
        self._lower = np.where(np.arange(couplings) < coupled, -np.inf, 0.0)
        self._first = np.zeros((0, 0))
        self.learned = self._first
        """B, float64[m, m]: how the agents' sums fall with the prices."""
        self._base: tuple[Floats, Floats, Floats] | None = None
        """The best prices so far, their sum, and the negated gradient of the dual there."""
        self._failed = 0
        self._moves: list[float] = []

    def follow(self, sums: Floats) -> None:
        """Take the next sum; the first is of the slopes, without regrets. Sets `asked`, or `ended`.

        Sums that lead to overflow, and negative regrets, end the run as not settled. Either takes a
        party that lies.
        """
        self.sums.append(sums)
        try:
            with np.errstate(all="ignore"):
                self._follow(sums)
        except (OverflowError, ValueError):  # raised by math.fsum
            self._give_up()
        if not np.all(np.isfinite(self.asked)):
            self._give_up()

    def _give_up(self) -> None:
        self.asked, self.gap, self.ended = self.answered, math.inf, True

    def _follow(self, sums: Floats) -> None:
        if len(self.sums) == 1:
            slopes = FIRST * np.maximum(sums[:-1], 0.0)
            largest = float(np.max(slopes, initial=0.0)) or 1.0
            self._first = self.learned = np.diag(np.maximum(slopes, SMALLEST * largest))
            return
        self.answered, opened, regret = self.asked, sums[:-1], float(sums[-1])
        if regret < -self._resolution:  # an agent lies: no answer is better than the best one
            self._give_up()
            return
        self._judge(opened, regret)
        if self.ended:
            return
        if self.turn:
            self._base, self._failed = None, 0
        self._learn(opened)
        self._ask()

    def _judge(self, opened: Floats, regret: float) -> None:
        """Compute the duality gap, which the agents' regrets make exact, and the violation of the
        constraints, and decide whether the run ends."""
        u, g, prices = opened[: self.coupled], opened[self.coupled :], self.asked
        apart = u - prices[: self.coupled]
        between = SAME.dot(apart, apart) / 2 + SAME.dot(prices[self.coupled :], np.abs(g))
        self.gap = between + max(regret, 0.0)  # negative by rounding only
        self.turn = len(self.sums) > TURNS_FROM and between <= TURN * self.gap
        self.violation = float(np.max(g, initial=0.0))
        first = len(self.sums) == 2
        self.largest_gap = self.gap if first else max(self.largest_gap, self.gap)
        self.largest = max(self.largest, float(np.max(np.abs(opened), initial=0.0)))
        rounding = self._resolution * (1 + math.fsum(np.abs(prices).tolist()))
        self.ended = (
            math.isfinite(self.gap)
            and self.gap <= max(GAP * self.largest_gap, rounding)
            and self.violation <= max(BROKEN * self.largest, self._resolution)
        )

    def _learn(self, opened: Floats) -> None:
        """Update B from the last move of the prices, and decide whether the next one begins at its
        end."""
        slope = SAME.times(self._own, self.asked) - opened
        if self._base is None:
            self._base = self.asked, opened, slope
            return
        prices, before, slope_before = self._base
        move, fall = self.asked - prices, before - opened
        self._moves = [*self._moves, self._length(move)][-RECENT:]
        if len(self.sums) > LEARNED_FROM + 2:
            along = SAME.times(self.learned, move)
            curved, fell = SAME.dot(move, along), SAME.dot(move, fall)
            if curved > 0 and fell > 1e-10 * curved:
                self.learned = self.learned + _outer(fall) / fell - _outer(along) / curved
            elif curved > 0:
                self.learned = self.learned - (1 - SHRINK) * _outer(along) / curved
        if SAME.dot(slope_before + slope, move) <= 0 or self._failed >= 2:
            self._base, self._failed = (self.asked, opened, slope), 0
        else:
            self._failed += 1

    def _ask(self) -> None:
        assert self._base is not None
        prices, _, slope = self._base
        curvature = self.learned if self._failed < 2 else self._first * 2.0 ** (self._failed - 1)
        model = curvature + self._own
        linear = slope - SAME.times(model, prices)
        asked = box_minimum(model, linear, self._lower, np.full(prices.size, np.inf), prices, SAME)
        move = asked - prices
        length = self._length(move)
        if self._moves and length > (most := REACH * max(self._moves)) > 0:
            asked = prices + move * (most / length)
        self.asked = asked

    def _length(self, move: Floats) -> float:
        """In the metric of the first B."""
        return math.sqrt(max(SAME.dot(move, SAME.times(self._first, move)), 0.0))


def _outer(vector: Floats) -> Floats:
    outer: Floats = vector[:, None] * vector[None, :]
    return outer

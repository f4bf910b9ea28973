"""An agent's answers to prices, for `method: auto`: the point of its box that is best at a price, told in a haze.

An exact best response depends on nothing but the price. At a price that two jobs have in common, zero say, the same
agents answer the same, and the sum of a job less that of the same job without one of them is that one's answer. So
what an agent contributes, w, starts at a point of its box that it draws for itself, and goes toward the best response
by shares that it draws for itself, one for each variable and round: `w += share (best - w)`, share uniform in `[1 -
2^-k, 1]` in answer k = 0, 1, … Of the start a part of at most 2^-(k(k-1)/2) is left after k answers: the haze is thick
in the first sums and gone in the last, where the method must be exact.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.arithmetic import box_minimum
from discreet_client.updates import Box, QuadraticCost

Floats = NDArray[np.float64]
Uniform = Callable[[int], Floats]

THINNING = 0.5
"""The haze of an answer, in parts of that of the one before."""
BLUR = 2.0
"""An agent's slopes are told times a private factor between 1/BLUR and BLUR."""
FLAT = 1e-3
"""A cost whose least curvature is below this part of its largest is flat in that direction."""
PULL = 0.2
"""Curvature that a flat cost is lent, in parts of the largest price that its agent minds over the width of its box."""


def system_uniform(size: int) -> Floats:
    """float64[size] uniform in [0, 1), from the operating system."""
    words = np.frombuffer(secrets.token_bytes(8 * size), dtype="<u8")
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


class Responder:
    """One agent: A float64[m, k] of all its couplings, its cost and its box, whose sides are finite.

    A cost that is flat in some direction has no single best point, and answers that jump. Its agent answers with the
    best point of `f + pull/2 |x - centre|²` instead, and moves the centre to where it is when all agents do
    (`recentre`): a proximal method of multipliers (Rockafellar 1976).

    `bound` is the largest magnitude that a slot holds: what could be larger because of the data, slopes and regrets, is
    cut off there, so that no overflow depends on data. `uniform` draws the haze, which `haze=False` leaves out, for
    attacks to show what it is for. Raises ValueError when the box has not two ends.
    """

    def __init__(
        self,
        A: Floats,
        cost: QuadraticCost,
        box: Box,
        bound: float,
        uniform: Uniform = system_uniform,
        *,
        haze: bool = True,
    ) -> None:
        size = cost.a_l.size
        self._lower, self._upper = (
            np.array(np.broadcast_to(np.asarray(side, dtype=np.float64), (size,))) for side in (box.lower, box.upper)
        )
        if not (np.all(np.isfinite(self._lower)) and np.all(np.isfinite(self._upper))):
            raise ValueError("method auto needs boxes with two ends")
        self._A, self._cost, self._bound, self._uniform = A, cost, bound, uniform
        self._haze = 1.0 if haze else 0.0
        self._curvature: Floats = 2 * cost.A_q.T @ cost.A_q
        self._pull = self._needed_pull()
        self._H: Floats = self._curvature + self._pull * np.eye(size)
        self.x: Floats = self._lower + (self._upper - self._lower) * uniform(size)
        """What this agent contributes: at the end its optimum."""
        self._best = self._centre = self.x

    def _needed_pull(self) -> float:
        """Zero for a cost that is strongly convex."""
        curvatures = np.linalg.eigvalsh(self._curvature)
        width = float(np.max(self._upper - self._lower)) or 1.0
        largest = max(float(curvatures[-1]), 0.0)
        pull = PULL * max(float(np.max(np.abs(self._cost.a_l))) / width, largest * FLAT) or 1.0
        flat = curvatures[0] < FLAT * max(largest, pull)
        return pull if flat else 0.0

    def recentre(self) -> None:
        """Let a flat cost pull toward where the agent is now; nothing where it is strongly convex."""
        self._centre = self.x

    def slopes(self) -> Floats:
        """How much this agent's part of each sum falls with the sum's own price, at most: the diagonal of `A H^-1 A'`,
        float64[m], times a private factor. The factor hides in how it starts how steep this agent's cost is."""
        exact = np.sum(self._A * np.linalg.solve(self._H, self._A.T).T, axis=1)
        factor = BLUR ** (2 * self._uniform(1)[0] - 1) if self._haze else 1.0
        slopes: Floats = np.clip(exact * factor, 0.0, self._bound)
        return slopes

    def answer(self, prices: Floats) -> Floats:
        """float64[m + 1]: A x for this agent's next x, and its regret: how much more x costs at these prices (float64[
        m]) than what is best at them."""
        p = self._cost.a_l + self._A.T @ prices
        linear = p - self._pull * self._centre
        self._best = box_minimum(self._H, linear, self._lower, self._upper, self._best)
        share = 1 - self._haze * self._uniform(self.x.size)
        self._haze *= THINNING
        self.x = np.clip(self.x + share * (self._best - self.x), self._lower, self._upper)
        return np.append(self._A @ self.x, min(max(self._regret(p), 0.0), self._bound))

    def _regret(self, p: Floats) -> float:
        """`f(x) - f(best)` at the prices that p holds, from differences alone; of a flat cost a bound above it, by the
        slope at x (Frank, Wolfe 1956)."""
        if self._pull:
            slope = self._curvature @ self.x + p
            return float(np.sum(np.maximum(slope * (self.x - self._lower), slope * (self.x - self._upper))))
        apart = self.x - self._best
        return float(apart @ (self._H @ apart)) / 2 + float(apart @ (self._H @ self._best + p))

    def state(self) -> dict[str, Any]:
        """For another process, as JSON. Private: x is in it."""
        points = {"x": self.x.tolist(), "best": self._best.tolist(), "centre": self._centre.tolist()}
        return {**points, "haze": self._haze}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.x, self._best, self._centre = (np.array(state[name]) for name in ("x", "best", "centre"))
        self._haze = state["haze"]

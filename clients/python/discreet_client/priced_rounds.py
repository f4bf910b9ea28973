"""`method: auto` as the optimizer of a secure sum: prices from opened sums, and an agent's answers
to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.best_responses import Responder
from discreet_client.prices import Prices

Floats = NDArray[np.float64]

MOST_ROUNDS = 80
"""The most sums that are opened unless the owner says otherwise; examples take 10 to 20, random
instances up to 60, costs with flat directions more."""
MOST_COUPLINGS = 512
"""The most couplings, since an agent keeps matrices with so many rows and columns."""


class PricedRounds:
    """An agent as the `Update` of a secure sum of m + 1 entries: first the slopes, then answers to
    prices, until the sums show that the optimum is reached, or for `most` sums. The operator's c
    and d are in all sums but the first. Agents in one process may share `prices`, since all compute
    the same."""

    def __init__(self, responder: Responder, prices: Prices, most: int) -> None:
        self.responder, self.prices, self.most = responder, prices, most
        self.done = 0
        """The number of sums that were opened."""

    def __call__(self, sums: Floats | None) -> Floats | None:
        """The next contribution, or None at the end."""
        if sums is None:
            return np.append(self.responder.slopes(), 0.0)
        self.done += 1
        if len(self.prices.sums) < self.done:  # else another agent of this process passed them on
            self.prices.follow(sums)
        if self.prices.ended or self.done == self.most:
            return None
        if self.prices.turn:
            self.responder.recentre()
        return self.responder.answer(self.prices.asked)

    @property
    def x(self) -> Floats:
        """This agent's last point: its optimum if the sums have settled."""
        return self.responder.x

    @property
    def multipliers(self) -> Floats:
        """The multipliers of the constraints, which are their prices."""
        return self.prices.answered[self.prices.coupled :]

    @property
    def opened(self) -> int:
        """The number of sums."""
        return self.done

    @property
    def violations(self) -> Floats:
        """By how much the last sum exceeds each constraint, float64[m_g], in its unit."""
        prices = self.prices
        return np.maximum(prices.sums[-1][prices.coupled : -1], 0.0)

    @property
    def moving(self) -> float:
        """The duality gap as a fraction of the largest of the run; infinite before there is one."""
        prices = self.prices
        if math.isinf(prices.gap):
            return math.inf
        return prices.gap / prices.largest_gap if prices.largest_gap > 0 else 0.0

    @property
    def violation(self) -> float:
        """The largest violation of a constraint in the last sum, as a fraction of the largest entry
        of any sum."""
        prices = self.prices
        if prices.violation <= 0:
            return 0.0
        return prices.violation / prices.largest if prices.largest > 0 else math.inf

    def settled(self, tolerance: float) -> bool:
        """Whether the gap and the violation are within the tolerance."""
        return max(self.moving, self.violation) <= tolerance

    @property
    def why(self) -> str:
        """The sentence that says why the sums have not settled."""
        return (
            f"after {self.done} rounds the duality gap is still {self.moving:.2g} of the largest, "
            f"and the constraints are broken by {self.violation:.2g} of the largest sum: x is no "
            "optimum. It takes more iterations, or constraints that can be satisfied"
        )

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process, which computes the prices again from
        the sums."""
        return {
            "responder": self.responder.state(),
            "sums": [one.tolist() for one in self.prices.sums],
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        self.responder.resume(state["responder"])
        for sums in state["sums"]:
            self.prices.follow(np.array(sums))
        self.done = len(state["sums"])

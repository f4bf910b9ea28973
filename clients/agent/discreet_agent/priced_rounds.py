"""`method: auto` as the optimizer of a secure sum: prices from opened sums, and an agent's answers
to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.best_responses import Responder
from discreet_agent.prices import END, Due, Prices, code, packed

Floats = NDArray[np.float64]

MOST_ROUNDS = 80
"""The most sums that are opened unless the owner says otherwise; examples take 10 to 20, random
instances up to 60, costs with flat directions more."""
MOST_COUPLINGS = 512
"""The most couplings, since an agent keeps matrices with so many rows and columns."""


class PricedRounds:
    """An agent as the `Update` of a secure sum of m + 1 entries: figures that set the scales, then
    answers to prices, until the sums show that the optimum is reached, or for `most` sums. Agents
    in one process may share `prices`, since all compute the same."""

    def __init__(self, responder: Responder, prices: Prices, most: int) -> None:
        self.responder, self.prices, self.most = responder, prices, most
        self.done = 0
        """The number of sums that were opened."""

    def __call__(self, sums: Floats | None) -> Floats | None:
        """The next contribution, or None at the end."""
        if sums is not None:
            self.done += 1
            if len(self.prices.sums) < self.done:  # else another agent of this process has
                self.prices.follow(sums, last=self.done == self.most - 1)
            if self.prices.ended or self.done == self.most:
                return None
            if self.prices.turn:
                self.responder.recentre()
        return self._contribution()

    @property
    def alone(self) -> bool:
        """Whether the sum of the last contribution is to be of the agents alone, without the
        operator's part."""
        return self.prices.due is not Due.ANSWERS

    def natural(self, entry: int, value: float) -> float:
        """A value of an entry of the sums in the unit of the problem."""
        return math.ldexp(value, -int(self.prices.exponents[entry]))

    def _contribution(self) -> Floats:
        prices, apart = self.prices, 0.0
        if prices.due is Due.SPREAD:
            slopes = np.ldexp(self.responder.slopes(), 2 * prices.exponents)
            rows = np.array([packed(code(float(one))) for one in slopes]) * prices.grid
        elif prices.due is Due.SLOPES:
            powers = 2 * prices.exponents + prices.slope_exponents
            rows = self._seen(np.ldexp(self.responder.slopes(), powers))
        elif prices.due is Due.SIZES:
            rows = self._seen(np.ldexp(self.responder.sizes() / 2, prices.exponents))
        else:
            answer, apart = self.responder.answer(prices.asked)
            rows = np.ldexp(answer, prices.exponents)
        # Honest answers fit; slopes may not, beside those of a liar, and no run is to end by what
        # an agent's data are.
        rows = np.clip(rows, -prices.bound, prices.bound)
        return np.append(rows, apart * prices.bound)

    def _seen(self, figures: Floats) -> Floats:
        """What is not zero is at least a step of the grid."""
        return np.where(figures > 0, np.maximum(figures, self.prices.grid), figures)

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
        """How far the agents are from their own best points, beside these."""
        return self.prices.apart

    @property
    def violation(self) -> float:
        """The largest residual of a row as a fraction of its size; infinite before sizes were
        summed."""
        return float(np.max(self.prices.shares(), initial=0.0))

    def settled(self, tolerance: float) -> bool:
        """Whether the run has ended by itself within the tolerance that its prices know."""
        return self.prices.settled and tolerance >= self.prices.tolerance

    @property
    def why(self) -> str:
        """The sentence that says why the sums have not settled; empty if they have."""
        prices = self.prices
        if prices.settled:
            return ""
        begin = f"after {self.done} rounds x is no optimum: "
        if prices.lied:
            return (
                begin + "the sums of the last one are none that honest agents make, so no agent "
                "went on from them"
            )
        if prices.sizes is None or not prices.sized:
            return (
                begin + "the agents' sums had not come near one, so that nobody has asked how "
                "large they are at it. It takes more iterations"
            )
        shares, grids = prices.shares(), prices.grids()
        if not grids[row := int(np.argmax(grids))] <= prices.tolerance:
            return (
                begin + f"row {row} is rounded by {grids[row]:.2g} of what the agents put into it: "
                "its reach is too large for the slots"
            )
        if not shares[row := int(np.argmax(shares))] <= END * prices.tolerance:
            return (
                begin + f"row {row} is off by {shares[row]:.2g} of what the agents put into it. It "
                "takes more iterations, or constraints that can be satisfied"
            )
        return (
            begin + f"the agents are still {prices.apart:.2g} away from their own best points. It "
            "takes more iterations"
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
        for place, sums in enumerate(state["sums"], 1):
            self.prices.follow(np.array(sums), last=place == self.most - 1)
        self.done = len(state["sums"])

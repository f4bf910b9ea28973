"""What one lying agent finds out from opened sums: the attack behind a table of
docs/opened-sums.md.

    python -m discreet.problems.coupled_qp.attacks [AGENTS …]

The agents are standard ones (`discreet_client.updates.Participant`) with one variable: private
need, curvature and cap. The attacker is one of them, knows the signed steps and coefficients and
sees the opened sums, as every agent does; it may send any value. It drives all others to zero,
where the response to one step at a price p is the sum of `alpha max(g - p, 0)`, g = 2 curvature
need: a piecewise linear curve with one kink per agent. It resolves the kinks from the highest g
down; a second step at the same price reveals curvatures. Masks and encryption do not prevent this:
it reads sums that are meant to be read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet_client.convex_sets import Box
from discreet_client.costs import QuadraticCost
from discreet_client.updates import Participant, Steps

Floats = NDArray[np.float64]
Found = list[tuple[float, float]]
GRID = 2.0**-32
FAR = np.array([1e6, -1e6])
"""A contribution that drives every agent to the lower end of its box, and keeps the multiplier of
the limit at zero."""
NEEDS, CURVATURES, CAPS = (4.0, 9.0), (0.5, 1.5), (3.7, 7.4)
HIGHEST_PRICE = 2 * NEEDS[1] * CURVATURES[1]
"""Above this price no agent responds: 2 curvature need."""
ROUNDS = (10, 20, 40, 100, 200)
SAME = 1e-5
"""Prices and sums closer than this count as equal."""


class Others:
    """The honest agents: `count` of them, seeded, stacked into one participant, which makes the
    steps of all."""

    def __init__(self, count: int, seed: int, primal: float = 0.1) -> None:
        random = np.random.RandomState(seed)
        self.need, self.curvature = (
            random.uniform(*NEEDS, count),
            random.uniform(*CURVATURES, count),
        )
        cap = random.choice(CAPS, count)
        self.primal, self.weight = primal, float(np.sqrt(0.1 / (count + 1)))
        cost = QuadraticCost(np.diag(np.sqrt(self.curvature)), -2 * self.curvature * self.need)
        rows = np.ones((1, count))
        box = Box(np.zeros(count), cap)
        self._stacked = Participant(
            self.weight * rows, rows / (count + 1), cost, box, Steps(primal, 0.05)
        )
        self._stacked.x = random.uniform(0, cap)  # at points that nobody else knows
        self._operator = np.array([self.weight * (count + 1), -2.2])

    def play(self, own: Floats) -> Floats:
        """One round: the sum that is opened when the attacker contributes `own`."""
        opened: Floats = (
            np.round((self._stacked.contribution() + own + self._operator) / GRID) * GRID
        )
        self._stacked.update(opened)
        return opened

    def true_of(self, found: Found) -> int:
        """How many of these (g, curvature) belong to an agent: its need within 1 %, its curvature
        within 5 %."""
        pairs = [(g / (2 * curvature), curvature) for g, curvature in found if curvature > 0]
        return sum(
            bool(
                np.any(
                    (abs(need / self.need - 1) < 0.01) & (abs(steep / self.curvature - 1) < 0.05)
                )
            )
            for need, steep in pairs
        )


class OutOfRounds(Exception):
    """No more sums are opened."""


class Peeler:
    """The attacker. It uses only rounds of `others` and public values: steps and coefficients."""

    def __init__(self, others: Others, rounds: int) -> None:
        self._others, self._left = others, rounds
        self._found: list[float] = []
        self._sums: dict[float, float] = {}
        self._seconds: dict[float, tuple[float, float]] = {}

    def attack(self) -> Found:
        """(g, curvature) of the agents it has found."""
        try:
            self._send(FAR)
            self._idle = self._send(FAR)[0]  # all others at zero: the operator's own entry
            self._peel()
        except OutOfRounds:
            pass
        return list(zip(self._found, self._curvatures(), strict=True))

    def _send(self, own: Floats) -> Floats:
        if self._left == 0:
            raise OutOfRounds
        self._left -= 1
        return self._others.play(own) - own

    def _probe(self, price: float, twice: bool) -> None:
        """The others' responses to a price, from zero: their sum after one step, and with `twice`
        after another one."""
        weight = self._others.weight
        if self._left < 2 + twice:
            raise OutOfRounds
        offer = np.array([price / weight - self._idle, FAR[1]])
        self._send(offer)
        first = (self._send(offer if twice else FAR)[0] - self._idle) / weight
        self._sums[price] = first / self._others.primal
        if twice:  # their own response has raised the price
            second = (self._send(FAR)[0] - self._idle) / weight
            self._seconds[price] = second / self._others.primal, price + first * weight**2

    def _rest(self, price: float) -> float:
        """The response at a price of the agents that are not found yet."""
        return self._sums[price] - sum(max(g - price, 0) for g in self._found)

    def _peel(self) -> None:
        high = HIGHEST_PRICE
        while high > SAME:
            below = [price for price in self._sums if price < high]
            high = min([high, *(price for price in below if self._rest(price) < SAME)])
            answered = [price for price in below if price < high and self._rest(price) >= SAME]
            if not answered:
                steps = -np.diff([HIGHEST_PRICE, *self._found])
                gap = float(np.median(steps)) if steps.size > 1 else high / 2
                self._probe(max(high - 1.5 * gap, high / 2), twice=False)
                continue
            low = max(answered)
            rest = self._rest(low)
            if low + rest > high + SAME:  # several respond there: go to where about one does
                several = max(2 * rest / (high - low), 1.5)
                self._probe(high - (high - low) * min(1.2 / several, 0.6), twice=False)
                continue
            middle = low + rest / 2
            if high - low < SAME or middle in self._sums:
                return
            self._probe(middle, twice=True)
            if abs(self._rest(middle) - rest / 2) < SAME:  # a single agent responds linearly
                self._found.append(low + rest)

    def _curvatures(self) -> Floats:
        """By least squares from second steps, which are linear in curvatures if all agents that
        respond are known."""
        g, primal = np.array(self._found), self._others.primal
        if not g.size:
            return g
        lowest = g[0] - min(CAPS) / (2 * primal)  # below it an agent may be at its cap
        known = [
            price for price in self._seconds if lowest < price < g[0] and self._rest(price) < SAME
        ]
        if not known:
            return np.zeros(g.size)
        answers = np.array([np.maximum(g - price, 0) for price in known])
        seconds, prices = np.array([self._seconds[price] for price in known]).T
        flat = np.array(
            [
                np.sum((2 * g - price - after)[g > price])
                for price, after in zip(known, prices, strict=True)
            ]
        )
        found: Floats = np.linalg.lstsq(2 * primal * answers, flat - seconds, rcond=None)[0]
        return found


def figures(agents: int, rounds: int, seeds: int) -> tuple[float, float]:
    """Over this many seeds: how often any agent is found, and the mean share of the other agents
    that are."""
    counts = []
    for seed in range(seeds):
        others = Others(agents - 1, seed)
        counts.append(others.true_of(Peeler(others, rounds).attack()))
    found = np.array(counts)
    return float(np.mean(found > 0)), float(np.mean(found)) / (agents - 1)


def main(sizes: Sequence[int]) -> None:
    """The table, as Markdown: chance that any agent is found / mean share of the others that
    are."""
    print("| agents |", " | ".join(f"{rounds} rounds" for rounds in ROUNDS), "|")
    print("|---" * (len(ROUNDS) + 1) + "|")
    for agents in sizes:
        row = [figures(agents, rounds, 40 if agents < 100 else 20) for rounds in ROUNDS]
        print(
            f"| {agents} |",
            " | ".join(f"{some:.2f}/{share:.2f}" for some, share in row),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [3, 5, 8, 20, 50, 100, 200, 500])

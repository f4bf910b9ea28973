"""What the same job run again without one agent shows of that agent, with `method: auto`: behind a table of
docs/security.md.

    python -m discreet.problems.coupled_qp.run_again [AGENTS …]

An attacker sees the sums of two jobs: one of all agents, one of all but the last. It only listens: prices, sums and
slopes are opened to every agent. From the differences it estimates what the last agent would take if nothing had a
price (its wish), how steep its cost is, and what it took in the end. Masks and encryption hide nothing of this. The
agents are the stock ones, with their haze or, to show what that is for, without.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.problems.coupled_qp.attacks import CAPS, CURVATURES, GRID, NEEDS
from discreet_client.arithmetic import box_minimum
from discreet_client.best_responses import Responder
from discreet_client.priced_rounds import MOST_ROUNDS, PricedRounds
from discreet_client.prices import Prices
from discreet_client.updates import Box, QuadraticCost

Floats = NDArray[np.float64]
WEAR = 0.05
LIMIT = 2.2
"""Of each hour, for each agent."""


@dataclass(frozen=True)
class Private:
    """One agent: A of its couplings (valley and limit of each hour), its cost and its box."""

    A: Floats
    cost: QuadraticCost
    box: Box

    def best(self, prices: Floats) -> Floats:
        """What it would add to the sums at these prices, exactly."""
        H, low = 2 * self.cost.A_q.T @ self.cost.A_q, np.asarray(self.box.lower)
        p = self.cost.a_l + self.A.T @ prices
        taken: Floats = self.A @ box_minimum(H, p, low, np.asarray(self.box.upper), low)
        return taken

    @property
    def slopes(self) -> Floats:
        H = 2 * self.cost.A_q.T @ self.cost.A_q
        found: Floats = np.diag(self.A @ np.linalg.solve(H, self.A.T))
        return found


def crowd(count: int, hours: int, seed: int) -> tuple[list[Private], Floats]:
    """Seeded agents with a need over all hours, and the operator's part of a sum."""
    random = np.random.RandomState(seed)
    weight, agents = np.sqrt(0.1 / count), []
    for _ in range(count):
        need, curvature = (
            random.uniform(*NEEDS) * hours / 3 if hours > 1 else random.uniform(*NEEDS),
            random.uniform(*CURVATURES),
        )
        A_q = np.vstack([np.full(hours, np.sqrt(curvature)), np.sqrt(WEAR) * np.eye(hours)])
        A = np.vstack([weight * np.eye(hours), np.eye(hours) / count])
        cost = QuadraticCost(A_q, np.full(hours, -2 * curvature * need))
        agents.append(Private(A, cost, Box(np.zeros(hours), np.full(hours, random.choice(CAPS)))))
    baseline = 1 + 0.5 * np.cos(2 * np.pi * np.arange(hours) / hours)
    return agents, np.concatenate([weight * count * baseline, np.full(hours, -LIMIT)])


class Opened(NamedTuple):
    """What every agent sees of one job."""

    slopes: Floats
    first: Floats
    """Answers to prices zero."""
    last: Floats
    prices: Floats
    """Which the last sums answer."""
    learned: Floats
    """How the sums fall with prices, as everybody's quasi-Newton matrix has it at the end."""


def play(agents: Sequence[Private], own: Floats, seed: int, *, haze: bool) -> Opened:
    """One job of stock agents."""
    random, m = np.random.default_rng(seed), own.size
    prices = Prices(m // 2, m, (len(agents) + 1) * GRID / 2)
    rounds = [
        PricedRounds(Responder(one.A, one.cost, one.box, 2.0**28, random.random, haze=haze), prices, MOST_ROUNDS)
        for one in agents
    ]
    sums: Floats | None = None
    while (told := [one(sums) for one in rounds])[0] is not None:
        total = np.sum([np.rint(one / GRID) * GRID for one in told if one is not None], axis=0)
        sums = total if sums is None else total + np.append(own, 0.0)
    opened = prices.sums
    return Opened(opened[0][:m], opened[1][:m], opened[-1][:m], prices.answered, prices.learned)


class Errors(NamedTuple):
    """Relative errors of what is estimated of the agent that is left out, in what it adds to the sums."""

    wish: float
    """From the first sums of both jobs."""
    wish_from_last: float
    """From the last sums, prolonged to prices zero by what was learned of the slopes."""
    wish_by_guess: float
    """Its wish taken for the mean wish of the others, without any second job."""
    steepness: float
    """From the first, opened slopes."""
    use: float
    """What it would take at the last prices: from the last sums, corrected by what was learned of the slopes."""


def errors(count: int, hours: int, seed: int, *, haze: bool) -> Errors:
    """Of one pair of jobs."""
    agents, own = crowd(count, hours, seed)
    left, nothing = agents[-1], np.zeros(own.size)
    whole = play(agents, own, 2 * seed, haze=haze)
    less = play(agents[:-1], own, 2 * seed + 1, haze=haze)
    wish, use = left.best(nothing), left.best(whole.prices)

    def off(estimate: Floats, truth: Floats) -> float:
        return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))

    at_zero = [run.last + run.learned @ run.prices for run in (whole, less)]
    here = less.last - less.learned @ (whole.prices - less.prices)
    return Errors(
        off(whole.first - less.first, wish),
        off(at_zero[0] - at_zero[1], wish),
        off(np.mean([one.best(nothing) for one in agents[:-1]], axis=0), wish),
        off(whole.slopes - less.slopes, left.slopes),
        off(whole.last - here, use) if np.any(use) else np.nan,
    )


def figures(count: int, hours: int, seeds: int, *, haze: bool) -> Errors:
    """Medians over seeds."""
    found = [errors(count, hours, seed, haze=haze) for seed in range(seeds)]
    return Errors(*(float(one) for one in np.nanmedian(np.array(found), axis=0)))


def main(sizes: Sequence[int]) -> None:
    """The table, as Markdown: relative errors without haze and with it."""
    print("| agents | hours |", " | ".join(name.replace("_", " ") for name in Errors._fields), "|")
    print("|---" * (len(Errors._fields) + 2) + "|")
    for count in sizes:
        for hours in (1, 8):
            plain, hazy = (figures(count, hours, 40, haze=haze) for haze in (False, True))
            row = [f"{one:.2g} / {other:.2g}" for one, other in zip(plain, hazy, strict=True)]
            print(f"| {count} | {hours} |", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [4, 8, 20, 50])

"""What running the same job again without one agent reveals about it, with `method: auto`: the
attack behind a table of docs/opened-sums.md.

    python -m discreet.problems.coupled_qp.run_again [AGENTS …]

An attacker sees the sums of two jobs: one of all agents, one without the last. It is passive:
prices, sums and slopes are opened to every agent. From the differences it estimates what the last
agent would take if prices were zero (its wish), how steep its cost is, and what it took at the end.
Masks and encryption do not prevent this. The agents are the standard ones, with their haze or, to
show its effect, without.

A table for agents whose costs have a kink at their wish shows that the last sums of one pair reveal
it. Two more show what many pairs reveal: of the same jobs (`repeated`), where the constant part of
the agents' haze remains, and of jobs in which the operator chooses other figures each time
(`by_prices`), where nothing hides what an agent takes at the end.
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
from discreet_client.best_responses import Own, Responder, own_haze
from discreet_client.convex_sets import Box
from discreet_client.cost_terms import PiecewiseLinear
from discreet_client.costs import ConvexCost, QuadraticCost
from discreet_client.packing import box_bound
from discreet_client.priced_rounds import MOST_ROUNDS, PricedRounds
from discreet_client.prices import Due, Prices, exponent

Floats = NDArray[np.float64]
BOUND = 2.0**20
"""The most that an entry of a contribution may be, in the units of the sums."""
WEAR = 0.05
LIMIT = 2.2
"""The joint limit of each hour, per agent."""


@dataclass(frozen=True)
class Private:
    """One agent: A of its couplings (valley and limit of each hour), its cost and its box."""

    A: Floats
    cost: QuadraticCost | ConvexCost
    box: Box

    def best(self, prices: Floats) -> Floats:
        """Its exact contribution to the sums at these prices; its cost is quadratic."""
        assert isinstance(self.cost, QuadraticCost)
        H, low = self.cost.curvature, np.asarray(self.box.lower)
        p = self.cost.a_l + self.A.T @ prices
        taken: Floats = self.A @ box_minimum(H, p, low, np.asarray(self.box.upper), low)
        return taken

    @property
    def slopes(self) -> Floats:
        assert isinstance(self.cost, QuadraticCost)
        H = self.cost.curvature
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
    """The prices to which the last sums respond."""
    learned: Floats
    """The slope of the sums in prices, by the quasi-Newton matrix that all agents have at the
    end."""


def kept_draws(agents: Sequence[Private]) -> list[Own]:
    """The part of each agent's haze that is the same in all jobs of these agents. Keys are their
    places."""
    keys = [place.to_bytes(32, "big") for place in range(len(agents))]
    return [own_haze(key, one.cost, one.box, keys) for key, one in zip(keys, agents, strict=True)]


def play(agents: Sequence[Private], own: Floats, seed: int, *, haze: bool) -> Opened:
    """One job of standard agents."""
    random, m = np.random.default_rng(seed), own.size
    figures = np.exp2(np.ceil(np.log2(np.maximum(np.abs(own), GRID))))
    exponents = [exponent(BOUND, one) for one in _largest(agents, figures)]
    prices = Prices(m // 2, figures, BOUND, GRID, len(agents), exponents)
    rounds = [
        PricedRounds(
            Responder(one.A, one.cost, one.box, m // 2, figures, random.random, kept, haze=haze),
            prices,
            MOST_ROUNDS,
        )
        for one, kept in zip(agents, kept_draws(agents), strict=True)
    ]
    sums: Floats | None = None
    slopes, answers = np.zeros(m), []
    while True:
        due = prices.due
        told = [one(sums) for one in rounds]
        if prices.sums and due is Due.SLOPES:
            powers = 2 * prices.exponents + prices.slope_exponents
            slopes = np.ldexp(prices.sums[-1][:m], -powers)
        elif prices.sums and due is Due.ANSWERS:
            answers.append(np.ldexp(prices.sums[-1][:m], -prices.exponents))
        if told[0] is None:
            break
        total = np.sum([np.rint(one / GRID) * GRID for one in told if one is not None], axis=0)
        part = np.append(np.ldexp(own, prices.exponents), 0.0)
        sums = total if rounds[0].alone else total + part
    return Opened(slopes, answers[0], answers[-1], prices.answered, prices.curvature)


def _largest(agents: Sequence[Private], figures: Floats) -> Floats:
    """Of each row what an agent can reach, or the operator's figure."""
    reach = [box_bound(one.A, *one.box.sides) for one in agents]
    found: Floats = np.max([*reach, figures], axis=0)
    return found


class Errors(NamedTuple):
    """Relative errors of the estimates of the left-out agent's contributions to the sums."""

    wish: float
    """From the first sums of both jobs."""
    wish_from_last: float
    """From the last sums, extrapolated to prices zero by the learned slopes."""
    wish_by_guess: float
    """The mean wish of the others as a guess of its wish, without a second job."""
    steepness: float
    """From the first, opened slopes."""
    use: float
    """What it would take at the last prices: from the last sums, corrected by the learned
    slopes."""


def errors(count: int, hours: int, seed: int, *, haze: bool) -> Errors:
    """The errors of one pair of jobs."""
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


def repeated(count: int, hours: int, seed: int, pairs: int, *, kept: bool) -> float:
    """Relative error of the wish by the mean of the first sums of this many pairs of jobs, all of
    the same agents and data, if the attacker knows the box; with the agents' constant part of the
    haze or, to show its effect, without.
    """
    agents, own = crowd(count, hours, seed)
    left, nothing, random = agents[-1], np.zeros(own.size), np.random.default_rng(seed)
    wish = left.best(nothing)

    def first(those: Sequence[Private], draws: Sequence[Own | None]) -> Floats:
        figures = np.exp2(np.ceil(np.log2(np.abs(own))))
        told = [
            Responder(
                one.A, one.cost, one.box, nothing.size // 2, figures, random.random, draw
            ).answer(nothing)[0]
            for one, draw in zip(those, draws, strict=True)
        ]
        total: Floats = np.sum(told, axis=0)
        return total

    groups = [
        (those, kept_draws(those) if kept else [None] * len(those))
        for those in (agents, agents[:-1])
    ]
    apart = np.mean([first(*groups[0]) - first(*groups[1]) for _ in range(pairs)], axis=0)
    middle = left.A @ ((np.asarray(left.box.lower) + np.asarray(left.box.upper)) / 2)
    # Half of a response is the start, whose mean is the middle of the box, and half is the optimum.
    return float(np.linalg.norm(2 * apart - middle - wish) / np.linalg.norm(wish))


def kinked_crowd(count: int, seed: int) -> tuple[list[Private], Floats]:
    """Agents of one hour with the cost `steepness |x - need|`, and the operator's part of a sum.
    Their costs have a kink at their needs."""
    random, weight, agents = np.random.RandomState(seed), np.sqrt(0.1 / count), []
    for _ in range(count):
        need, steepness = random.uniform(1.0, 3.5), random.uniform(5.0, 15.0)
        kink = PiecewiseLinear(np.array([[1.0], [-1.0]]), np.array([need, -need]), steepness)
        cost = ConvexCost(QuadraticCost(np.zeros((0, 1)), np.zeros(1)), (kink,))
        box = Box(np.zeros(1), np.full(1, random.choice(CAPS)))
        agents.append(Private(np.array([[weight], [1 / count]]), cost, box))
    return agents, np.array([weight * count, -9.0])


def wish_at_a_kink(count: int, seed: int) -> tuple[float, float]:
    """Relative errors of the last agent's need, by the last sums of a pair of jobs and by the mean
    need of the others, which is a guess without a second job."""
    agents, own = kinked_crowd(count, seed)
    whole, less = (
        play(those, own, 2 * seed + place, haze=True)
        for place, those in enumerate((agents, agents[:-1]))
    )
    needs = [float(term.b[0]) for one in agents for term in one.cost.terms]  # type: ignore[union-attr]
    found = float((whole.last - less.last)[0] / agents[-1].A[0, 0])
    return abs(found / needs[-1] - 1), abs(float(np.mean(needs[:-1])) / needs[-1] - 1)


class Taken(NamedTuple):
    """Errors of estimates of what an agent takes, relative to its cap, over the prices of the
    jobs."""

    worst: float
    median: float


def by_prices(count: int, seed: int, pairs: int) -> Taken:
    """The errors for pairs of jobs of one hour, whose operator chooses another c each time, so that
    they end at prices from zero to where no agent takes anything. Only last sums are used, which
    have no haze."""
    agents, _ = crowd(count, 1, seed)
    left, weight = agents[-1], float(agents[-1].A[0, 0])

    def ends(those: Sequence[Private], begin: int) -> tuple[Floats, Floats]:
        found = []
        for place, c in enumerate(np.linspace(-1.2 * count * weight, 6 / weight, pairs)):
            run = play(those, np.array([c, -1e3]), begin + place, haze=True)
            found.append((run.prices[0], (run.last[0] - c) / weight))
        prices, taken = np.array(sorted(found)).T
        return prices, taken

    prices, whole = ends(agents, 0)
    others = np.interp(prices, *ends(agents[:-1], pairs))
    truth = [left.best(np.array([price, 0.0]))[0] / weight for price in prices]
    off = np.abs(whole - others - truth) / float(np.max(left.box.upper))
    return Taken(float(np.max(off)), float(np.median(off)))


def tables(sizes: Sequence[int]) -> None:
    """What many pairs reveal, as Markdown."""
    numbers = (1, 10, 100)
    print("| agents | haze |", " | ".join(f"{pairs} pairs" for pairs in numbers), "|")
    for count in sizes:
        for kept in (False, True):
            row = [
                np.median([repeated(count, 1, seed, pairs, kept=kept) for seed in range(12)])
                for pairs in numbers
            ]
            name = "kept" if kept else "anew"
            print(f"| {count} | {name} |", " | ".join(f"{one:.2g}" for one in row), "|", flush=True)
    print("| agents | wish at a kink, last sums | guessed |")
    for count in sizes:
        off = np.median([wish_at_a_kink(count, seed) for seed in range(12)], axis=0)
        print(f"| {count} |", " | ".join(f"{one:.2g}" for one in off), "|", flush=True)
    print("| agents | other prices: pairs | worst | median |")
    for count in sizes:
        for pairs in (4, 8):
            off = np.median([by_prices(count, seed, pairs) for seed in range(6)], axis=0)
            print(
                f"| {count} | {pairs} |", " | ".join(f"{one:.2g}" for one in off), "|", flush=True
            )


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
    sizes = [int(size) for size in sys.argv[1:]] or [4, 8, 20, 50]
    main(sizes)
    tables(sizes)

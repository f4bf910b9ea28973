"""Jobs that wait for shares of blocks, against first come first served: with the service's own
decisions (`discreet.privacy.scheduling`) on a simulated clock.

A block comes each day. Jobs come at random and read the newest days, one to thirty of them; prices
and numbers of days are heavy-tailed (bounded Pareto), so that who knows the future would grant
about 1.3 and 1.5 times as many jobs as first come first served at 4 and 8 times the capacity.
Counted are the jobs that come in a window in the middle, and what is granted of the window's
blocks: before it the order settles, after it what is held for others is lent. Nothing here reads a
clock or data; equal seeds give equal figures on every machine.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.privacy import scheduling
from discreet.privacy.scheduling import DAY, WHOLE, BlockBudget, Granted, Request, Rule, Waits

CAP = 10**9
"""Of each block, in units of the one column that the simulation has."""
LIMITS = ({"rho": CAP},)
SMALLEST, LARGEST, MOST_DAYS, TAIL = 0.001, 0.3, 30, 0.3
"""Prices in caps, blocks of a job, and the exponent of both."""
DAYS, WINDOW = 120, (30, 90)
ANALYSTS = 10
LENT_DAYS, WAIT_DAYS = 28, 3
SEEDS, LOADS = 10, (2, 4, 8)
FLOOD, FLOOD_SEEDS = 0.98, 3
"""The part of jobs that one analyst sends, and how many times the seeds: few are of others."""


@dataclass(frozen=True, slots=True)
class Job:
    """A demand: so much of each of the newest days."""

    at: int
    analyst: str
    price: int
    days: int

    @property
    def blocks(self) -> list[str]:
        """The days that it reads."""
        today = self.at // DAY
        return [str(day) for day in range(max(0, today - self.days + 1), today + 1)]


@dataclass
class Outcome:
    """What came of the jobs of a run."""

    granted: list[Job] = field(default_factory=list)
    at_once: int = 0
    waited: list[tuple[int, int]] = field(default_factory=list)
    """When each that waited came, and when it was decided."""
    blocks: dict[str, BlockBudget] = field(default_factory=dict)

    def jobs(self) -> int:
        """Granted, of those that came in the window."""
        return sum(_inside(one.at // DAY) for one in self.granted)

    def area(self) -> float:
        """Granted, of the blocks of the window."""
        spent = (one.totals.get("rho", 0) for day, one in self.blocks.items() if _inside(int(day)))
        return sum(spent) / CAP


def _inside(day: int) -> bool:
    return WINDOW[0] <= day < WINDOW[1]


def workload(
    seed: int, load: float, flood: float = 0.0, smallest: float = SMALLEST, days: int = DAYS
) -> list[Job]:
    """Jobs in the order in which they come: `load` times what the blocks have. `flood`: the part of
    them that is the first analyst's; else all analysts ask alike."""
    draws = random.Random(f"scheduling/{seed}/{load}")
    jobs: list[Job] = []
    demanded = 0.0
    while demanded < load * days:
        price = _pareto(draws, smallest, 1 / ANALYSTS if flood else LARGEST)
        job = Job(
            at=int(draws.random() * days * DAY),
            analyst=_analyst(draws, flood),
            price=int(price * CAP),
            days=int(_pareto(draws, 1, MOST_DAYS + 1)),
        )
        demanded += price * len(job.blocks)
        jobs.append(job)
    return sorted(jobs, key=lambda one: one.at)


def _analyst(draws: random.Random, flood: float) -> str:
    if flood and draws.random() < flood:
        return "0"
    return str(draws.randrange(1 if flood else 0, ANALYSTS))


def _pareto(draws: random.Random, low: float, high: float) -> float:
    least, most = low**-TAIL, high**-TAIL
    return float((least - draws.random() * (least - most)) ** (-1 / TAIL))


def shares(lent_days: int = LENT_DAYS) -> Rule:
    """Equal shares."""
    return Rule({str(one): WHOLE // ANALYSTS for one in range(ANALYSTS)}, lent_days * DAY)


def first_come(jobs: Sequence[Job]) -> Outcome:
    """What first come first served makes of them: whoever fits is granted, at once or never."""
    return simulate(jobs, Rule({}, 1), 0)


def simulate(jobs: Sequence[Job], rule: Rule, wait_days: float) -> Outcome:
    """What the service makes of them. Every job is decided when it comes; those that wait at their
    next try, which is in time."""
    days = 1 + max((one.at for one in jobs), default=0) // DAY
    outcome = Outcome(blocks={str(day): BlockBudget(day * DAY, LIMITS) for day in range(days)})
    blocks = outcome.blocks
    waiting: dict[str, tuple[Job, Request, int]] = {}
    tries: list[int] = []

    def decide_waiting(now: int) -> None:
        queue = [(request, at) for _, request, at in waiting.values()]
        for request, decision in scheduling.decide_due(queue, blocks, rule, now):
            job = waiting[request.id][0]
            if isinstance(decision, Waits):
                waiting[request.id] = (job, request, decision.not_before)
                heapq.heappush(tries, decision.not_before)
                continue
            if isinstance(decision, Granted):
                outcome.granted.append(job)
            outcome.waited.append((job.at, now))
            del waiting[request.id]

    for number, job in enumerate(jobs):
        while tries and tries[0] <= job.at:
            now = heapq.heappop(tries)
            decide_waiting(now)
        price = {"rho": job.price}
        size = scheduling.area(price, [LIMITS] * len(job.blocks))
        request = Request(
            id=f"{number:06}",
            analyst=job.analyst,
            price=price,
            blocks=job.blocks,
            until=job.at + int(wait_days * DAY),
            key=scheduling.order_key(job.at, size),
        )
        queue = [other for _, other, _ in waiting.values()]
        decision = scheduling.decide_new(request, queue, blocks, rule, job.at)
        if isinstance(decision, Waits):
            waiting[request.id] = (job, request, decision.not_before)
            heapq.heappush(tries, decision.not_before)
            continue
        outcome.at_once += 1
        if isinstance(decision, Granted):
            outcome.granted.append(job)
            for name in request.blocks:
                blocks[name].spend(request.analyst, price)
    while waiting:
        decide_waiting(heapq.heappop(tries))
    return outcome


def overspent(outcome: Outcome) -> bool:
    """Whether any block has granted more than its cap, by its jobs one by one."""
    sums: dict[str, int] = {}
    for job in outcome.granted:
        for name in job.blocks:
            sums[name] = sums.get(name, 0) + job.price
    return any(total > CAP for total in sums.values())


def served(jobs: Sequence[Job], outcome: Outcome) -> dict[str, tuple[float, float]]:
    """Of each analyst but the flooding one: what was granted of the window's blocks, and the
    smaller of demand and share of each."""
    share = CAP // ANALYSTS
    asked, got = _by_block(jobs), _by_block(outcome.granted)
    found: dict[str, tuple[float, float]] = {}
    for (analyst, day), demand in asked.items():
        if analyst != "0" and _inside(int(day)):
            before = found.get(analyst, (0.0, 0.0))
            found[analyst] = (
                before[0] + got.get((analyst, day), 0) / CAP,
                before[1] + min(demand, share) / CAP,
            )
    return found


def _by_block(jobs: Sequence[Job]) -> Mapping[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = {}
    for job in jobs:
        for name in job.blocks:
            sums[job.analyst, name] = sums.get((job.analyst, name), 0) + job.price
    return sums


def knows_the_future(jobs: Sequence[Job]) -> int:
    """How many of the window's jobs who sees all of them in advance would grant, smallest first."""
    spent: dict[str, int] = {}
    granted = 0
    for job in sorted(jobs, key=lambda one: one.price * len(one.blocks)):
        blocks = job.blocks
        if all(spent.get(name, 0) + job.price <= CAP for name in blocks):
            for name in blocks:
                spent[name] = spent.get(name, 0) + job.price
            granted += _inside(job.at // DAY)
    return granted


def compared(
    seeds: int, load: float, rule: Rule, wait_days: float, smallest: float = SMALLEST
) -> dict[str, Any]:
    """Means over seeds: jobs and area as multiples of first come first served, the part that was
    decided at once. AssertionError where a block was overspent or a wait was too long."""
    ratios, areas, once, best = [], [], [], []
    for seed in range(seeds):
        jobs = workload(seed, load, smallest=smallest)
        before, after = first_come(jobs), simulate(jobs, rule, wait_days)
        assert not overspent(before)
        assert not overspent(after)
        assert all(end - begin <= wait_days * DAY for begin, end in after.waited)
        ratios.append(after.jobs() / before.jobs())
        best.append(knows_the_future(jobs) / before.jobs())
        areas.append(after.area() / before.area())
        once.append(after.at_once / len(jobs))
    return {
        "jobs": statistics.mean(ratios),
        "fewest": min(ratios),
        "area": statistics.mean(areas),
        "once": statistics.mean(once),
        "best": statistics.mean(best),
    }


def flooded(seeds: int, load: float, rule: Rule, wait_days: float) -> dict[str, float]:
    """Of each analyst but the flooding one, the granted part of the smaller of demand and share,
    block by block, over all seeds together. No job is larger than a share here."""
    sums: dict[str, tuple[float, float]] = {}
    for seed in range(seeds):
        jobs = workload(seed, load, FLOOD)
        for analyst, (got, due) in served(jobs, simulate(jobs, rule, wait_days)).items():
            before = sums.get(analyst, (0.0, 0.0))
            sums[analyst] = (before[0] + got, before[1] + due)
    return {analyst: got / due for analyst, (got, due) in sorted(sums.items())}


def run(
    seeds: int = SEEDS,
    lent_days: int = LENT_DAYS,
    wait_days: float = WAIT_DAYS,
    smallest: float = SMALLEST,
) -> list[dict[str, Any]]:
    """A row for each load, and one for the flood."""
    rule = shares(lent_days)
    rows = []
    for load in LOADS:
        found = compared(seeds, load, rule, wait_days, smallest)
        rows.append(
            {
                "benchmark": f"jobs granted at load {load}, shares lent over {lent_days} days",
                "ours": found["jobs"],
                "unit": "times first come first served",
                "note": f"{found['fewest']:.2f} the fewest of {seeds} seeds; area "
                f"{found['area']:.2f}; decided at once {100 * found['once']:.0f} %; who knows the "
                f"future {found['best']:.2f}",
            }
        )
    for held, name in ((rule, "with shares"), (Rule({}, 1), "without")):
        parts = flooded(FLOOD_SEEDS * seeds, LOADS[-1], held, wait_days)
        rows.append(
            {
                "benchmark": f"one analyst sends {100 * FLOOD:.0f} % of jobs, {name}",
                "ours": min(parts.values()),
                "unit": "of demand or share",
                "note": f"least of the others over {FLOOD_SEEDS * seeds} seeds; all: "
                + ", ".join(f"{part:.2f}" for part in parts.values()),
            }
        )
    return rows


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--lent", type=int, default=LENT_DAYS, help="days over which is lent")
    parser.add_argument("--wait", type=float, default=WAIT_DAYS, help="days that a job may wait")
    parser.add_argument("--smallest", type=float, default=SMALLEST, help="price, in caps")
    given = parser.parse_args()
    for row in run(given.seeds, given.lent, given.wait, given.smallest):
        print(f"{row['benchmark']}: {row['ours']:.3f} {row['unit']} ({row['note']})")


if __name__ == "__main__":
    main()

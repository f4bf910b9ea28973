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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.privacy import scheduling
from discreet.privacy.scheduling import DAY, WHOLE, BlockBudget, Granted, Request, Rule, Waits

CAP = 10**9
"""Of each block, in units of the one column that the simulation has."""
LIMITS = ({"rho": CAP},)
SMALLEST, LARGEST, MOST_DAYS, TAIL = 0.003, 0.3, 30, 0.3
"""Prices in caps, blocks of a job, and the exponent of both."""
DAYS, WINDOW = 120, (30, 90)
ANALYSTS = 10
LENT_DAYS, WAIT_DAYS = 28, 3
SEEDS = 10
FLOOD = 0.98


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


def workload(seed: int, load: float, flood: float = 0.0, days: int = DAYS) -> list[Job]:
    """Jobs in the order in which they come: `load` times what the blocks have. `flood`: the part of
    them that is the first analyst's; else all analysts ask alike."""
    draws = random.Random(f"scheduling/{seed}/{load}")
    jobs: list[Job] = []
    demanded = 0.0
    while demanded < load * days:
        price = _pareto(draws, SMALLEST, 1 / ANALYSTS if flood else LARGEST)
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--lent", type=int, default=LENT_DAYS, help="days over which is lent")
    parser.add_argument("--wait", type=float, default=WAIT_DAYS, help="days that a job may wait")
    given = parser.parse_args()
    for row in run(given.seeds, given.lent, given.wait):
        print(row["benchmark"], row["ours"], row["note"])


def run(
    seeds: int = SEEDS, lent_days: int = LENT_DAYS, wait_days: float = WAIT_DAYS
) -> list[dict[str, Any]]:
    rows = []
    rule = shares(lent_days)
    for load in (2, 4, 8):
        ratios, areas, once, late = [], [], [], 0
        for seed in range(seeds):
            jobs = workload(seed, load)
            before, after = first_come(jobs), simulate(jobs, rule, wait_days)
            assert not overspent(before) and not overspent(after)
            ratios.append(after.jobs() / before.jobs())
            areas.append(after.area() / before.area())
            once.append(after.at_once / len(jobs))
            late += sum(end - begin > wait_days * DAY for begin, end in after.waited)
        rows.append(
            dict(
                benchmark=f"load {load}",
                ours=f"{sum(ratios) / seeds:.3f} ({min(ratios):.2f}-{max(ratios):.2f})",
                note=f"area {sum(areas) / seeds:.3f} once {sum(once) / seeds:.3f} late {late}",
            )
        )
    sums: dict[str, list[float]] = {}
    for load in (8,):
        for seed in range(seeds):
            jobs = workload(seed, load, FLOOD)
            for analyst, (got, due) in served(jobs, simulate(jobs, rule, wait_days)).items():
                both = sums.setdefault(analyst, [0.0, 0.0])
                both[0] += got
                both[1] += due
    rows.append(
        dict(
            benchmark="flood",
            ours=" ".join(f"{a}: {g / d:.3f}" for a, (g, d) in sorted(sums.items())),
            note="",
        )
    )
    return rows


if __name__ == "__main__":
    main()

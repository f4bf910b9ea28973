"""Seconds, bytes and accuracy of computations over time on secret shares (`protocol: mpc` with
`mpc.iterations`): `make bench ARGS=shares`, minutes; `python -m benchmarks.shares AGENTS STEPS
[THRESHOLD]` for one number of agents, of whom 1 or THRESHOLD may collude. With 0 STEPS the exact
computation of random agents whose hours are not coupled, with a cost and a limit.

Vehicles as in `examples/ev_charging.py`, whose night has 24 steps of half an hour and whose missing
energy is not a cost but forbidden: a budget. All parties run on this machine, on loopback. `error`
is of the joint cost against Clarabel's, `violation` of the limit in units of the reach.
"""

from __future__ import annotations

import resource
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet_agent.mpc import party
from discreet_agent.mpc.own_programs import OwnProgram
from discreet_agent.mpc.responses import Response
from tests.clients.mpc.over_time import OverTime
from tests.clients.mpc.parties import Instance, Parties

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "ev_charging.py"))
STEPS_AN_HOUR = 2
SIZES = {3: 30, 5: 30, 10: 30}
"""Steps of ADMM, by number of agents."""
SECONDS = 30.0
"""What three to ten agents were to take on two free cores."""


def run() -> list[dict[str, Any]]:
    rows = []
    for count, steps in SIZES.items():
        found = measured(vehicles(count, steps))
        rows.append(
            {
                "benchmark": f"vehicles on shares, 24 hours with budgets, {count} agents, "
                f"{steps} steps: processor time of all parties / 2",
                "ours": found["processor"] / 2,
                "unit": "s",
                "peer": "asked",
                "peer_value": SECONDS,
                "ratio": found["processor"] / 2 / SECONDS,
                **found,
            }
        )
    return rows


def vehicles(count: int, steps: int) -> OverTime:
    """Kilowatts in half an hour; the energy of a vehicle is a budget."""
    random = np.random.RandomState(EXAMPLE["SEED"])
    hours = EXAMPLE["HOURS"] * STEPS_AN_HOUR
    share = np.sqrt(EXAMPLE["VALLEY"] / count)
    load = np.repeat(EXAMPLE["BASELINE_KW"], STEPS_AN_HOUR)
    place = np.arange(hours) // STEPS_AN_HOUR
    upper, budgets = [], []
    for _ in range(count):
        arrives, leaves = random.randint(0, 4), random.randint(9, EXAMPLE["HOURS"] + 1)
        need, rate = random.uniform(4, 9), random.choice([3.7, 7.4])
        upper.append(np.where((arrives <= place) & (place < leaves), rate, 0.0))
        budgets.append((need * STEPS_AN_HOUR, need * STEPS_AN_HOUR))
    return OverTime(
        A_q=np.tile(EXAMPLE["WEAR"] ** 0.5 * np.eye(hours), (count, 1, 1)),
        slope=np.zeros((count, hours)),
        lower=np.zeros((count, hours)),
        upper=np.array(upper),
        budgets=list(budgets),
        effect=np.full(count, share),
        cost=share * count * load,
        limit=(load - EXAMPLE["LIMIT_KW"]) * count * share,
        iterations=steps,
    )


def uncoupled(count: int) -> Instance:
    """Agents of 24 hours with boxes and costs of their own, all of which count."""
    instance = Instance.draw(EXAMPLE["SEED"], count, 24)
    instance.effect = np.ones_like(instance.effect)
    lowest, highest = instance.lower.sum(axis=0), instance.upper.sum(axis=0)
    instance.limit = -(lowest + 0.4 * (highest - lowest))
    return instance


def measured(instance: OverTime | Instance) -> dict[str, Any]:
    best = instance.objective(instance.by_clarabel())
    before = _processor()
    parties = Parties(instance, seconds=3600.0)
    parties.start()
    answers = parties.answers()
    done = [one for one in answers if isinstance(one, party.Computed)]
    if len(done) < len(answers):
        raise RuntimeError(f"a party has broken off: {answers}")
    owns: Sequence[Response | OwnProgram] = instance.responses()
    x = np.stack([own.x_of(one.quantities) for own, one in zip(owns, done, strict=True)])
    return {
        "bits": instance.terms.bits,
        "fraction": instance.terms.fraction_bits,
        "processor": _processor() - before,
        "clock": max(one.seconds for one in done),
        "megabytes": max(one.sent_bytes for one in done) / 1e6,
        "error": (instance.objective(x) - best) / abs(best),
        "violation": instance.violation(x) / instance.terms.reach,
        "settled": done[0].kept,
    }


def _processor() -> float:
    """Seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    agents, iterations, *threshold = map(int, sys.argv[1:])
    asked = vehicles(agents, iterations) if iterations else uncoupled(agents)
    asked.threshold = threshold[0] if threshold else 1
    print(measured(asked))

"""How often intervals of what closing a road changes hold, of 90 %: `python -m
benchmarks.coverage_closing [TRUTHS]`.

So many made-up towns (60) at each of five prices, each with a demand of its own (Sioux Falls' table
or a grid's, every pair times a lognormal factor, then Poisson), one street closed both ways, either
objective and either law, and one release each: what the true demand says without noise is what the
interval has to hold. Nothing is kept of a run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.coverage import Case, Pooled
from benchmarks.coverage_routing import EPSILONS, PERIODS, TRIPS, network_body, trips_content
from benchmarks.curves import grid
from discreet.problems.numbers import Privacy
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.reproduce.networks import sioux_falls

TRUTHS = 60
SPREAD = 0.5
"""Of the logarithm of a pair's factor."""
LAWS = ({"type": "bpr"}, {"type": "affine"})
OBJECTIVES = ("user_equilibrium", "system_optimum")
OF_CLOSING = ("total_travel_time_change", "link_flow_changes")


def cases(truths: int) -> Iterator[Case]:
    """Every truth at every price, told of together by law and price."""
    city, table = sioux_falls()
    apart = ~np.eye(25, dtype=bool)
    for number in range(truths):
        rng = np.random.RandomState(2000 + number)
        network, means = (
            (city, table) if number % 2 else (grid(5), rng.lognormal(0, SPREAD, (25, 25)) * apart)
        )
        means = means * rng.lognormal(0, SPREAD, means.shape)
        total = rng.poisson(TRIPS * means / means.sum())
        public = RoutingPublic(
            unit="request", zones=network.zones, periods=PERIODS, period_minutes=60
        )
        factor = TRIPS / PERIODS / (table.sum() if network is city else 20_000)
        body = network_body(network, factor)
        closed = rng.randint(network.tail.size)
        back = np.flatnonzero(
            (network.tail == network.head[closed]) & (network.head == network.tail[closed])
        )
        law, objective = LAWS[number // 2 % 2], OBJECTIVES[number // 4 % 2]
        problem = Routing.model_validate(
            {
                "kind": "routing",
                "dataset": "dst_x",
                "network": body,
                "latency": law,
                "objective": objective,
                "closed_links": [closed, *back.tolist()],
            }
        )
        for epsilon in EPSILONS:
            plan = problem.plan(
                public, Privacy.model_validate({"epsilon": epsilon, "delta": 0}).budget
            )
            content, told = trips_content(total, None), f"a road closed, {law['type']}"
            yield Case(
                "routing", "counts", told, epsilon, problem, public, plan, content, part=number
            )


def main(truths: int) -> None:
    """A line for each price and quantity."""
    found: dict[tuple[str, float], Pooled] = {}
    for case in cases(truths):
        found.setdefault((case.truth, case.epsilon), Pooled()).add(case, 1)
    for pooled in sorted(
        found.values(), key=lambda one: (one.start["truth"], -one.start["epsilon"])
    ):
        for row in pooled.rows():
            if row["quantity"] in (*OF_CLOSING, "total_travel_time"):
                width = (
                    "" if math.isnan(row["width"]) else f", width {row['width']:.2g} of the value"
                )
                print(
                    f"{row['truth']}, epsilon {row['epsilon']:g}, {row['quantity']}: "
                    f"{row['coverage']:.3f} of {row['releases']} truths{width}; {row['none']:.0%} "
                    f"without; {row['noise']:.0%} called noise",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TRUTHS)

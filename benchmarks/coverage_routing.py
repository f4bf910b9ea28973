"""Routing, for `benchmarks.coverage`: two networks, full and sparse demands, both objectives, trips
and persons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import Case
from benchmarks.curves import grid
from discreet.problems.numbers import Privacy
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.reproduce.networks import sioux_falls
from discreet.solvers.traffic.traffic_assignment import Network

EPSILONS = (0.005, 0.025, 0.1, 0.5, 2)
PERIODS = 5
TRIPS = 36_060
"""Of all periods: the mean noise of 552 pairs adds up to 3.1, .61, .15, .03 and .008 of them at
these epsilons."""
Ints = NDArray[np.int64]


def cases() -> Iterator[Case]:
    """Every truth at every epsilon."""
    city, table = sioux_falls()
    rng = np.random.RandomState(18)  # the same in every version of numpy (NEP 19)
    apart = ~np.eye(24, dtype=bool)
    sparse = (
        np.where(rng.random_sample(table.shape) < 0.3, rng.lognormal(0, 1.5, table.shape), 0.0)
        * apart
    )
    shaken = grid(5)
    even = rng.lognormal(0, 0.5, (25, 25)) * ~np.eye(25, dtype=bool)
    bpr = {"latency": {"type": "bpr"}}
    truths: tuple[tuple[str, Network, Any, dict[str, Any]], ...] = (
        ("Sioux Falls, table", city, table, {}),
        (
            "Sioux Falls, table, BPR equilibrium",
            city,
            table,
            {**bpr, "objective": "user_equilibrium"},
        ),
        ("Sioux Falls, 3 of 10 pairs", city, sparse, {}),
        ("Sioux Falls, 3 of 10 pairs, BPR", city, sparse, bpr),
        ("grid, lognormal", shaken, even, bpr),
        ("Sioux Falls, table, persons of 10 trips", city, table, {"max_trips_per_person": 10}),
    )
    for name, network, means, fields in truths:
        persons = fields.get("max_trips_per_person")
        trips = TRIPS * (persons or 1)
        total = rng.poisson(trips * means / means.sum())
        public = RoutingPublic(
            unit="person" if persons else "request",
            zones=network.zones,
            periods=PERIODS,
            period_minutes=60,
            max_total=math.ceil(trips / PERIODS / 1000) * 1000,
        )
        # As full as with the table's own trips of an hour, whatever the number of trips.
        factor = trips / PERIODS / table.sum() if network is city else trips / PERIODS / 20_000
        problem = Routing.model_validate(
            {
                "kind": "routing",
                "dataset": "dst_x",
                "network": network_body(network, factor),
                **fields,
            }
        )
        for epsilon in EPSILONS:
            budget = Privacy.model_validate(
                {"epsilon": epsilon, "delta": 1e-6 if persons else 0}
            ).budget
            plan = problem.plan(public, budget)
            yield Case(
                "routing",
                "counts",
                name,
                epsilon,
                problem,
                public,
                plan,
                trips_content(total, persons),
            )


def network_body(network: Network, factor: float) -> dict[str, Any]:
    ends = zip(
        network.tail.tolist(),
        network.head.tolist(),
        network.free_flow_time,
        network.capacity,
        strict=True,
    )
    return {
        "nodes": network.nodes,
        "links": [
            {
                "tail": tail + 1,
                "head": head + 1,
                "free_flow_time": float(time),
                "capacity": float(capacity * factor),
            }
            for tail, head, time, capacity in ends
        ],
    }


def trips_content(total: Ints, clip: int | None) -> dict[str, Ints]:
    """All trips, evenly over the periods; of persons with up to `clip` trips of one pair each: none
    is cut."""
    period, origin, destination = np.indices((PERIODS, *total.shape)).reshape(3, -1)
    counts = (total // PERIODS)[origin, destination] + (
        period < (total % PERIODS)[origin, destination]
    )
    trips = np.stack([period, origin + 1, destination + 1, counts], axis=1)[counts > 0]
    if clip is None:
        return {"trips": trips}
    many = -(-trips[:, 3] // clip)
    persons = np.repeat(trips, many, axis=0)
    persons[:, 3] = clip
    persons[np.cumsum(many) - 1, 3] = trips[:, 3] - clip * (many - 1)
    return {"trips": persons, "person_start": np.arange(len(persons) + 1)}

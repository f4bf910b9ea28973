"""How cost grows: assignment and projection with the network, LS-MDP with states, off-policy
evaluation with trajectories, coupled QP with agents.

CPU seconds of one thread, the best of three. Draws `docs/pictures/scaling-curves.png`, where
parallel to the dashed line means that cost grows as the size does. On request: `make bench
ARGS=curves`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linearly_solvable_mdp import GAMMA, dense
from discreet.figures.curves import Curve, draw_curves
from discreet.reproduce.xie_settings import chain_setting
from discreet.solvers.control.linearly_solvable_mdp import solve
from discreet.solvers.saddle.spds import Part
from discreet.solvers.saddle.spds import solve as descend
from discreet.solvers.traffic.traffic_assignment import Latency, Network, assign
from discreet.solvers.traffic.unit_flow_projection import UnitFlows
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.updates import Steps

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "scaling-curves.png"
RUNS = 3


def run() -> list[dict[str, Any]]:
    """One row a size, in the form of `benchmarks.__main__`; and the picture."""
    rows, curves = [], []
    for name, unit, cases in (
        ("assignment of a grid to gap 1e-6", "links", _assignments()),
        ("projection on unit flows", "pairs x links", _projections()),
        ("LS-MDP, 96 steps", "states", _control()),
        ("off-policy plan, release and finish", "trajectories", _evaluation()),
        ("coupled QP in plaintext, 200 steps", "agents", _coupled()),
    ):
        measured = [(size, _seconds(work)) for size, work in cases]
        rows += [
            {
                "benchmark": f"{name}: {size:,} {unit}",
                "ours": seconds,
                "unit": "s",
                "note": f"{seconds / size:.2g} s each",
            }
            for size, seconds in measured
        ]
        sizes, times = zip(*measured, strict=True)
        curves.append(Curve(f"{name} ({unit})", sizes, times))
    line = np.array([1e2, 1e6])
    draw_curves(
        [*curves, Curve("as the size", line, 1e-6 * line, dashed=True)],
        PICTURE,
        x="size",
        y="CPU s",
        scale="loglog",
    )
    return rows


def _seconds(work: Callable[[], Any]) -> float:
    work()
    found = []
    for _ in range(RUNS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return max(min(found), 1e-6)


def grid(side: int) -> Network:
    """side² crossings, all zones, streets in both directions."""
    node = np.arange(side * side).reshape(side, side)
    ends = np.concatenate(
        [
            np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], 1),
            np.stack([node[:-1].ravel(), node[1:].ravel()], 1),
        ]
    )
    tail, head = np.concatenate([ends, ends[:, ::-1]]).T
    rng = np.random.default_rng(side)
    return Network(
        side**2,
        side**2,
        0,
        tail,
        head,
        rng.uniform(1, 2, tail.size),
        rng.uniform(50, 150, tail.size),
    )


def _assignments() -> Iterator[tuple[int, Callable[[], Any]]]:
    for side in (5, 8, 12, 16):
        network = grid(side)
        demand = np.random.default_rng(1).poisson(200 / side**2, (side**2, side**2)).astype(float)
        yield (
            network.tail.size,
            lambda network=network, demand=demand: assign(  # type: ignore[misc]
                network, Latency(0.15, 4.0), demand, "user_equilibrium", gap=1e-6
            ),
        )


def _projections() -> Iterator[tuple[int, Callable[[], Any]]]:
    for side in (3, 5, 7, 9):
        flows = UnitFlows.of_pairs(grid(side))
        points = 0.1 * np.random.default_rng(2).normal(size=(flows.pairs, flows.tail.size))
        yield points.size, lambda flows=flows, points=points: flows.project(points)  # type: ignore[misc]


def _control() -> Iterator[tuple[int, Callable[[], Any]]]:
    for states in (100, 300, 1000, 2000):
        P, U = dense(states, 96)
        yield states, lambda P=P, U=U: solve(P, U, GAMMA)  # type: ignore[misc]


def _evaluation() -> Iterator[tuple[int, Callable[[], Any]]]:
    for m in (1_000, 10_000, 100_000):
        setting = chain_setting(m)
        yield m, lambda setting=setting: setting.errors(1)  # type: ignore[misc]


def _coupled() -> Iterator[tuple[int, Callable[[], Any]]]:
    for agents in (10, 30, 100, 300):
        one = np.eye(1)
        parts = [
            Part(one, one, QuadraticCost(one, np.array([-1.0 - k % 3])), Box(0, 5))
            for k in range(agents)
        ]
        steps = Steps(0.4 / agents, 0.2 / agents)
        limit = np.array([-float(agents)])
        yield (
            agents,
            lambda parts=parts, steps=steps, limit=limit: descend(  # type: ignore[misc]
                parts, np.zeros(1), limit, steps=steps, iterations=200
            ),
        )

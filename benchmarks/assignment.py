"""Traffic assignment against a conic solver and against the field's own package, and on a network
of Chicago's size.

Times are CPU seconds of one thread: ours the best of several runs, a peer's of one. Every solver's
relative gap is recomputed here from its link flows, with SciPy's Dijkstra; ours is run to the gap
that the peer has reached.

The city is run by several threads too, in wall time, each once; beside the field's package a
smaller one, whose whole size is for the patient: `python -m benchmarks.assignment --city 150`.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from discreet.reproduce.networks import sioux_falls
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    Objective,
    assign,
)

Floats = NDArray[np.float64]
AFFINE, BPR = Latency(1.0, 1.0), Latency(0.15, 4.0)
RUNS = 7
CITY, SMALLER_CITY = 150, 60
"""Crossings along a side of the city, and of the one in which every run has the peer beside us."""


def run() -> list[dict[str, Any]]:
    """One row a comparison, in the form of `benchmarks.__main__`."""
    network, demand = sioux_falls()
    rows = []
    cases: tuple[tuple[str, Latency, Objective], ...] = (
        ("system optimum, affine", AFFINE, "system_optimum"),
        ("user equilibrium, BPR", BPR, "user_equilibrium"),
    )
    for name, latency, objective in cases:
        flows, seconds, inside = by_clarabel(network, latency, demand, objective)
        reached = relative_gap(network, latency, demand, flows, objective)
        rows.append(
            compared(
                f"Sioux Falls, {name}, to the peer's gap",
                network,
                latency,
                demand,
                objective,
                max(reached, 1e-10),
                "CVXPY + Clarabel by origin",
                seconds,
                f"peer's gap {reached:.1e}, {inside:.3g} s of it inside Clarabel",
            )
        )
    # aequilibrae wants links that take time: a thousandth of a minute, in this comparison for both.
    for name, (roads, trips), gap in (
        ("Sioux Falls", (network, demand), 1e-6),
        ("Chicago size", chicago_size(least_time=1e-3), 1e-4),
    ):
        flows, used = by_aequilibrae(roads, BPR, trips, gap)
        reached = relative_gap(roads, BPR, trips, flows, "user_equilibrium")
        rows.append(
            compared(
                f"{name}, user equilibrium, BPR, to gap {gap:.0e}",
                roads,
                BPR,
                trips,
                "user_equilibrium",
                gap,
                "aequilibrae BFW",
                used.cpu,
                f"peer's gap {reached:.1e}",
            )
        )
    objectives: tuple[Objective, ...] = ("user_equilibrium", "system_optimum")
    rows += [in_child(objective, gap) for objective in objectives for gap in (1e-6, 4e-9)]
    return rows + by_threads() + city_beside_aequilibrae(SMALLER_CITY)


def main() -> None:
    """Only this benchmark, as a table; of a city alone where one is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assignment")
    parser.add_argument(
        "--city", type=int, metavar="SIDE", help="only a city of so many crossings a side"
    )
    side = parser.parse_args().city
    table = Table("benchmark", "ours", "peer", "ratio", "note")
    for row in run() if side is None else city_beside_aequilibrae(side):
        peer = f"{row['peer_value']:.4g} {row['unit']} ({row['peer']})" if row.get("peer") else ""
        ratio = f"{row['ratio']:.3g}" if row.get("ratio") is not None else ""
        table.add_row(
            row["benchmark"], f"{row['ours']:.4g} {row['unit']}", peer, ratio, row["note"]
        )
    Console(width=180).print(table)


# Instances ----------------------------------------------------------------------------------------


def chicago_size(seed: int = 1933, least_time: float = 0.0) -> tuple[Network, Floats]:
    """A random city as large as the field's Chicago sketch network: 933 nodes, 2950 links, 387
    zones, 93,135 pairs.

    A shaken grid of 21 x 26 crossings with some diagonals and fast roads, to which 387 zones are
    tied by links that take `least_time` minutes; trips fall off with distance. Flow over capacity
    is .54 in the mean and over 2 at most.
    """
    rng = np.random.default_rng(seed)
    rows, columns, zones, pairs, trips = 21, 26, 387, 93_135, 630_000.0
    crossings = rows * columns
    grid = np.arange(crossings).reshape(rows, columns)
    diagonals = np.stack([grid[:-1, :-1].ravel(), grid[1:, 1:].ravel()], axis=1)
    streets = np.concatenate(
        [
            np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1),
            np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1),
            rng.permutation(diagonals)[:43],
        ]
    )
    place = np.stack(np.divmod(np.arange(crossings), columns), axis=1) + rng.uniform(
        -0.3, 0.3, (crossings, 2)
    )
    access = rng.permutation(crossings)[:zones]
    fast = rng.random(len(streets)) < 0.15
    length = np.linalg.norm(place[streets[:, 0]] - place[streets[:, 1]], axis=1)
    minutes = length * np.where(fast, 1.5, 3.0) * rng.uniform(0.9, 1.2, len(streets))
    capacity = np.where(fast, 6000.0, 1800.0) * rng.integers(1, 4, len(streets))
    here, there = streets.T + zones
    centroid = np.arange(zones)
    network = Network(
        zones + crossings,
        zones,
        zones,
        np.concatenate([here, there, centroid, access + zones]),
        np.concatenate([there, here, access + zones, centroid]),
        np.concatenate([minutes, minutes, np.full(2 * zones, least_time)]),
        np.concatenate([capacity, capacity, np.full(2 * zones, 1e5)]),
    )
    apart = np.linalg.norm(place[access][:, None] - place[access], axis=2)
    demand = np.outer(rng.lognormal(size=zones), rng.lognormal(size=zones)) * np.exp(-apart / 4)
    np.fill_diagonal(demand, 0)
    demand[demand < np.sort(demand, axis=None)[-pairs]] = 0
    return network, demand * (trips / demand.sum())


def city_size(side: int = CITY, seed: int = 2026) -> tuple[Network, Floats]:
    """A random city: a shaken grid of side x side crossings, of which every tenth street is twice
    as fast and four times as wide. Zones are crossings like others that trips lead through; most
    trips are near. At 150: 22,500 nodes, 89,400 links, a million pairs of 1,001 zones, 800,000
    trips; zones and trips are in proportion to the area."""
    rng = np.random.default_rng(seed)
    area = (side / CITY) ** 2
    zones, trips = round(1001 * area), 800_000 * area
    pairs = round(1_000_000 * zones * (zones - 1) / (1001 * 1000))
    number = rng.permutation(side * side)  # of each crossing: the first are zones
    grid = number.reshape(side, side)
    streets = np.concatenate(
        [
            np.stack([grid[:, :-1].ravel(), grid[:, 1:].ravel()], axis=1),
            np.stack([grid[:-1].ravel(), grid[1:].ravel()], axis=1),
        ]
    )
    row, column = np.divmod(np.argsort(number), side)
    place = np.stack([row, column], axis=1) + rng.uniform(-0.3, 0.3, (side * side, 2))
    one, other = streets.T
    fast = ((row[one] == row[other]) & (row[one] % 10 == 5)) | (
        (column[one] == column[other]) & (column[one] % 10 == 5)
    )
    length = np.linalg.norm(place[one] - place[other], axis=1)
    minutes = length * np.where(fast, 0.5, 1.0) * rng.uniform(0.9, 1.2, len(streets))
    capacity = np.where(fast, 4000.0, 1000.0) * rng.integers(1, 4, len(streets))
    both = np.concatenate
    network = Network(
        side * side,
        zones,
        0,
        both([one, other]),
        both([other, one]),
        both([minutes] * 2),
        both([capacity] * 2),
    )
    apart = np.linalg.norm(place[:zones, None] - place[None, :zones], axis=2)
    demand = np.outer(rng.lognormal(size=zones), rng.lognormal(size=zones)) * np.exp(-apart / 25)
    np.fill_diagonal(demand, 0)
    demand[demand < np.sort(demand, axis=None)[-pairs]] = 0
    return network, demand * (trips / demand.sum())


# Measuring ----------------------------------------------------------------------------------------


class Seconds(NamedTuple):
    """Of a clock on the wall, and of the CPU in all threads of this process."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        return cls(time.perf_counter(), time.process_time())

    def since(self) -> Seconds:
        wall, cpu = self.now()
        return Seconds(wall - self.wall, cpu - self.cpu)


def compared(
    name: str,
    network: Network,
    latency: Latency,
    demand: Floats,
    objective: Objective,
    gap: float,
    peer: str,
    peer_seconds: float,
    note: str,
) -> dict[str, Any]:
    """A row with our best time to `gap`, whose certificate is checked."""
    seconds, found = best(lambda: assign(network, latency, demand, objective, gap=gap), RUNS)
    assert found.status == "converged"
    assert relative_gap(network, latency, demand, found.link_flows, objective) <= gap + 1e-12
    return {
        "benchmark": f"assignment: {name}",
        "ours": seconds,
        "unit": "s",
        "peer": peer,
        "peer_value": peer_seconds,
        "ratio": seconds / peer_seconds,
        "note": f"{peer_seconds / seconds:,.0f} times faster; {note}, ours "
        f"{found.relative_gap:.1e}",
    }


def best(work: Callable[[], Assignment], runs: int) -> tuple[float, Assignment]:
    """The shortest CPU time of `runs` runs after a first one, which may compile."""
    work()
    seconds = []
    for _ in range(runs):
        begun = time.process_time()
        found = work()
        seconds.append(time.process_time() - begun)
    return min(seconds), found


def in_child(objective: Objective, gap: float) -> dict[str, Any]:
    """A row of the Chicago-size network, in a process of its own so that its memory can be told."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, memory, iterations, reached = pool.apply(chicago_run, (objective, gap))
    name = objective.replace("_", " ")
    return {
        "benchmark": f"assignment: Chicago size, {name}, BPR, to gap {gap:.0e}",
        "ours": seconds,
        "unit": "s",
        "note": f"{iterations} iterations, gap {reached:.1e}, peak memory of the whole process "
        f"{memory:.0f} MiB",
    }


def by_threads() -> list[dict[str, Any]]:
    """City size to gap 1e-4 by one thread and by two, whose flows are the same bits: wall time,
    each once."""
    roads, trips = chicago_size()
    assign(roads, BPR, trips, "user_equilibrium", gap=1e-2, threads=2)  # compiles
    network, demand = city_size()
    seconds, flows, gaps = [], [], []
    for threads in (1, 2):
        begun = time.perf_counter()
        found = assign(network, BPR, demand, "user_equilibrium", gap=1e-4, threads=threads)
        seconds.append(time.perf_counter() - begun)
        flows.append(found.link_flows)
        gaps.append(found.relative_gap)
    assert np.array_equal(flows[0], flows[1])
    assert gaps[0] == gaps[1] <= 1e-4
    full = flows[0] / network.capacity
    note = (
        f"{network.nodes:,} nodes, {network.tail.size:,} links, {np.count_nonzero(demand):,} "
        f"pairs, gap {gaps[0]:.1e}"
    )
    note += (
        f", {found.iterations} iterations; flow over capacity {np.quantile(full, 0.9):.2f} on "
        "one link in ten"
    )
    return [
        {
            "benchmark": "assignment: city size, user equilibrium, BPR, to gap 1e-04",
            "ours": seconds[0],
            "unit": "s",
            "note": note,
        },
        {
            "benchmark": "assignment: city size by two threads, the same flows",
            "ours": seconds[1],
            "unit": "s",
            "peer": "one thread",
            "peer_value": seconds[0],
            "ratio": seconds[1] / seconds[0],
            "note": f"{seconds[0] / seconds[1]:.2f} times faster on {os.cpu_count()} cores; wall "
            "time, each once",
        },
    ]


def city_beside_aequilibrae(side: int, gap: float = 1e-4) -> list[dict[str, Any]]:
    """Both to `gap` in a city of this side, by one thread and by all cores: wall time, each once.

    A row for each number of threads, with both gaps as they are recomputed here and how far apart
    the flows are: the largest difference in parts of the largest flow, and the sum of all in parts
    of the sum.
    """
    roads, trips = chicago_size(least_time=1e-3)
    assign(roads, BPR, trips, "user_equilibrium", gap=1e-2, threads=2)  # compiles
    network, demand = city_size(side)
    rows, ours = [], []
    for threads in sorted({1, os.cpu_count() or 1}):
        begun = Seconds.now()
        found = assign(network, BPR, demand, "user_equilibrium", gap=gap, threads=threads)
        seconds = begun.since()
        flows, peer_seconds = by_aequilibrae(network, BPR, demand, gap, threads=threads)
        ours.append(found.link_flows)
        assert np.array_equal(ours[0], found.link_flows)
        reached, peer_reached = (
            relative_gap(network, BPR, demand, each, "user_equilibrium")
            for each in (found.link_flows, flows)
        )
        assert reached <= gap + 1e-12
        apart = np.abs(found.link_flows - flows)
        rows.append(
            {
                "benchmark": f"assignment: city of {side} x {side} crossings, user equilibrium, "
                f"BPR, to gap {gap:.0e}, threads: {threads}",
                "ours": seconds.wall,
                "unit": "s",
                "peer": "aequilibrae BFW",
                "peer_value": peer_seconds.wall,
                "ratio": seconds.wall / peer_seconds.wall,
                "note": f"{network.nodes:,} nodes, {network.tail.size:,} links, "
                f"{np.count_nonzero(demand):,} pairs; wall time, each once, on {os.cpu_count()} "
                f"cores; CPU {seconds.cpu:.3g} s beside {peer_seconds.cpu:.3g} s; gaps recomputed "
                f"{reached:.1e} beside {peer_reached:.1e}; flows apart by "
                f"{apart.max() / flows.max():.1e} of the largest, {apart.sum() / flows.sum():.1e} "
                "of the sum",
            }
        )
    return rows


def chicago_run(objective: Objective, gap: float) -> tuple[float, float, int, float]:
    """CPU seconds (best of two), peak MiB of the process, iterations and recomputed gap."""
    network, demand = chicago_size()
    seconds, found = best(lambda: assign(network, BPR, demand, objective, gap=gap), 2)
    # The resource usage of a child begins at its parent's; the high-water mark of the memory map is
    # its own.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = int(status["VmHWM"].split()[0]) / 1024
    return (
        seconds,
        memory,
        found.iterations,
        relative_gap(network, BPR, demand, found.link_flows, objective),
    )


def relative_gap(
    network: Network, latency: Latency, demand: Floats, flows: Floats, objective: Objective
) -> float:
    """`(sum_a c_a y_a - sum_w d_w u_w) / sum_a c_a y_a`, for any solver's link flows."""
    factor = latency.coefficient * (latency.power + 1 if objective == "system_optimum" else 1)
    cost = network.free_flow_time * (1 + factor * (flows / network.capacity) ** latency.power)
    # SciPy knows no centroids: their links lead to copies of them, which no link leaves. Its graphs
    # have no parallel links either, nor has any network here.
    head = np.where(
        network.head < network.first_through_node, network.head + network.nodes, network.head
    )
    graph = csr_array((cost, (network.tail, head)), shape=(2 * network.nodes, 2 * network.nodes))
    target = np.arange(network.zones)
    target[: network.first_through_node] += network.nodes
    least = dijkstra(graph, indices=np.arange(network.zones))[:, target]
    np.fill_diagonal(least, 0)
    spent = float(np.sum(cost * flows))
    return (spent - float(np.sum(least * demand))) / spent


# Peers --------------------------------------------------------------------------------------------


def by_clarabel(
    network: Network, latency: Latency, demand: Floats, objective: Objective
) -> tuple[Floats, float, float]:
    """Link flows, CPU seconds, seconds inside Clarabel. One commodity an origin: the smallest model
    by link flows."""
    import cvxpy as cp

    nodes, links, zones = network.nodes, network.tail.size, network.zones
    each = np.arange(links)
    incidence = csr_array(
        (
            np.repeat([1.0, -1.0], links),
            (np.concatenate([network.tail, network.head]), np.tile(each, 2)),
        ),
        shape=(nodes, links),
    )
    sent = np.zeros((nodes, zones))
    sent[:zones] = np.diag(demand.sum(axis=1)) - demand.T
    share = 1.0 if objective == "system_optimum" else 1 / (latency.power + 1)
    # In units of the mean demand of a zone: interior-point methods want figures near one.
    unit = float(demand.sum()) / zones
    scale = (
        share
        * latency.coefficient
        * network.free_flow_time
        * (unit / network.capacity) ** latency.power
    )
    begun = time.process_time()
    flows = cp.Variable((links, zones), nonneg=True)
    total = cp.sum(flows, axis=1)
    spent = network.free_flow_time @ total + cp.sum(
        cp.multiply(scale, cp.power(total, latency.power + 1))
    )
    problem = cp.Problem(cp.Minimize(spent), [incidence @ flows == sent / unit])
    problem.solve(solver=cp.CLARABEL)
    seconds = time.process_time() - begun
    return np.asarray(total.value) * unit, seconds, float(problem.solver_stats.solve_time)


def by_aequilibrae(
    network: Network,
    latency: Latency,
    demand: Floats,
    gap: float,
    threads: int = 1,
) -> tuple[Floats, Seconds]:
    """Link flows and seconds of the bi-conjugate Frank–Wolfe algorithm, its graph and matrix in
    memory."""
    import pandas as pd

    os.environ["AEQ_SHOW_PROGRESS"] = "FALSE"  # read when it is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from aequilibrae.matrix import AequilibraeMatrix
        from aequilibrae.paths import Graph, TrafficAssignment, TrafficClass
    logging.getLogger("aequilibrae").setLevel(logging.ERROR)
    count, zones = network.tail.size, np.arange(1, network.zones + 1)
    graph = Graph()
    graph.network = pd.DataFrame(
        {
            "link_id": np.arange(1, count + 1),
            "a_node": network.tail + 1,
            "b_node": network.head + 1,
            "direction": np.ones(count, dtype=int),
            "free_flow_time": network.free_flow_time,
            "capacity": network.capacity,
            "b": np.full(count, latency.coefficient),
            "power": np.full(count, latency.power),
        }
    )
    graph.mode = "c"
    graph.prepare_graph(zones)
    graph.set_graph("free_flow_time")
    graph.set_skimming(["free_flow_time"])
    graph.set_blocked_centroid_flows(network.first_through_node > 0)
    matrix = AequilibraeMatrix()
    matrix.create_empty(zones=network.zones, matrix_names=["trips"], memory_only=True)
    matrix.index[:] = zones
    matrix.matrix["trips"][:, :] = demand
    matrix.computational_view(["trips"])
    problem = TrafficAssignment()
    problem.set_classes([TrafficClass("car", graph, matrix)])
    problem.set_vdf("BPR")
    problem.set_vdf_parameters({"alpha": "b", "beta": "power"})
    problem.set_capacity_field("capacity")
    problem.set_time_field("free_flow_time")
    problem.set_algorithm("bfw")
    problem.set_cores(threads)
    problem.max_iter = 100_000
    problem.rgap_target = gap
    begun = Seconds.now()
    problem.execute()
    seconds = begun.since()
    return problem.results()["trips_ab"].to_numpy(), seconds


if __name__ == "__main__":
    main()

"""Traffic assignment against vectors, closed forms, enumeration, a conic solver and an independent
certificate."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from discreet.solvers.traffic import path_flows
from discreet.solvers.traffic.traffic_assignment import (
    Assignment,
    Latency,
    Network,
    Objective,
    Policy,
    assign,
    link_flows_of,
    total_travel_time,
    unreachable_pairs,
)
from tests.conftest import first_of

Floats = NDArray[np.float64]
AFFINE, BPR = Latency(1.0, 1.0), Latency(0.15, 4.0)
OBJECTIVES: tuple[Objective, ...] = ("system_optimum", "user_equilibrium")
EXAMPLES = Path(__file__).parents[2] / "examples"


# Instances ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sioux_falls() -> tuple[Network, Floats]:
    figures = json.loads(
        (Path(__file__).parents[2] / "service/discreet/reproduce/sioux_falls.json").read_text()
    )
    tail, head, time, capacity = np.array(figures["links"], dtype=float).T
    network = Network(
        24, 24, 0, tail.astype(np.int64) - 1, head.astype(np.int64) - 1, time, capacity
    )
    return network, np.array(figures["trips"], dtype=float)


def network_of(
    nodes: int, zones: int, links: list[tuple[int, int, float, float]], through: int = 0
) -> Network:
    tail, head, time, capacity = zip(*links, strict=True)
    return Network(
        nodes, zones, through, np.array(tail), np.array(head), np.array(time), np.array(capacity)
    )


def random_network(
    rng: np.random.Generator, nodes: int, zones: int, centroids: bool, steep: float = 0.7
) -> Network:
    """Streets that join all nodes but centroids in a ring and at random; every centroid has a way
    in and a way out."""
    first = zones if centroids else 0
    streets = rng.permutation(np.arange(first, nodes))
    tail, head = [*streets], [*np.roll(streets, 1)]
    for _ in range(2 * nodes):
        tail.append(rng.choice(streets))
        head.append(rng.choice(streets))
    for centroid in range(first):
        for street in rng.choice(streets, 2):
            tail += [centroid, street]
            head += [street, centroid]
    time = rng.lognormal(0, 0.7, len(tail)) * (rng.random(len(tail)) > 0.1)
    return Network(
        nodes,
        zones,
        first,
        np.array(tail),
        np.array(head),
        time,
        rng.lognormal(0, steep, len(tail)),
    )


@st.composite
def instances(draw: st.DrawFn) -> tuple[Network, Latency, Floats, Objective]:
    """Networks with parallel links, loops, free links and centroids, demands over six orders of
    magnitude."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    zones = draw(st.integers(2, 7))
    network = random_network(rng, zones + draw(st.integers(2, 12)), zones, draw(st.booleans()))
    demand = 10.0 ** rng.uniform(-3, 3, (zones, zones)) * (
        rng.random((zones, zones)) < draw(st.sampled_from([0.3, 1]))
    )
    demand *= draw(st.sampled_from([0.01, 1.0])) / max(demand.mean(), 1e-9)
    power = draw(st.sampled_from([0.0, 1.0, 1.5, 4.0, 5.0]))
    latency = Latency(draw(st.sampled_from([0.0, 0.15, 1.0])), power)
    if draw(st.booleans()):
        latency = own_latencies(rng, network.tail.size)
    return network, latency, demand, draw(st.sampled_from(OBJECTIVES))


def own_latencies(rng: np.random.Generator, links: int) -> Latency:
    """Each link's own figures, constants and free links among them."""
    power = rng.choice([0.0, 1.0, 1.5, 2.5, 4.0], links)
    return Latency(
        rng.choice([0.0, 0.15, 1.0, 3.0], links),
        power,
        rng.exponential(0.5, links) * (rng.random(links) > 0.5),
    )


# Independent oracles ------------------------------------------------------------------------------


def link_costs(network: Network, latency: Latency, flows: Floats, objective: Objective) -> Floats:
    """Travel times, or the derivatives of what the flows spend in all, by a complex step: exact,
    and no formula."""

    def time(y: Any) -> Any:
        times = network.free_flow_time * (
            1 + latency.coefficient * (y / network.capacity) ** latency.power
        )
        return times + latency.fixed_cost

    if objective == "user_equilibrium":
        return np.asarray(time(flows))
    step = 1e-30
    moved = flows + 1j * step
    return np.asarray((moved * time(moved)).imag / step)


def shortest(network: Network, cost: Floats) -> Floats:
    """Costs of shortest paths [zones, zones] by SciPy, with every centroid split in a source and a
    sink."""
    sink = np.arange(network.nodes)
    sink[: network.first_through_node] += network.nodes
    graph: dict[tuple[int, int], float] = {}
    for tail, head, price in zip(
        network.tail.tolist(), sink[network.head].tolist(), cost.tolist(), strict=True
    ):
        graph[tail, head] = min(price, graph.get((tail, head), np.inf))
    rows, columns = zip(*graph, strict=True)
    size = 2 * network.nodes
    matrix = coo_array((list(graph.values()), (rows, columns)), shape=(size, size)).tocsr()
    found = dijkstra(matrix, indices=np.arange(network.zones))[:, sink[: network.zones]]
    np.fill_diagonal(found, 0.0)
    return found


def gap_of(
    network: Network, latency: Latency, demand: Floats, flows: Floats, objective: Objective
) -> float:
    """The relative gap by its definition."""
    cost = link_costs(network, latency, flows, objective)
    spent = float(cost @ flows)
    least = float((np.where(np.eye(network.zones), 0.0, demand) * shortest(network, cost)).sum())
    return (spent - least) / spent if spent > 0 else 0.0


def objective_value(network: Network, latency: Latency, flows: Any, objective: Objective) -> float:
    """What an assignment minimizes: total travel time or Beckmann's integral."""
    power = latency.power
    share = 1.0 if objective == "system_optimum" else 1 / (power + 1)
    load = (flows / network.capacity) ** power
    times = network.free_flow_time * (1 + share * latency.coefficient * load) + latency.fixed_cost
    return float(np.sum(flows * times))


def conic_optimum(
    network: Network, latency: Latency, demand: Floats, objective: Objective
) -> float:
    """The same minimum by CVXPY and Clarabel: one commodity an origin, link flows [origin,
    link]."""
    incidence = np.zeros((network.nodes, network.tail.size))
    np.add.at(incidence, (network.tail, np.arange(network.tail.size)), 1.0)
    np.add.at(incidence, (network.head, np.arange(network.tail.size)), -1.0)
    flows = cp.Variable((network.zones, network.tail.size), nonneg=True)
    constraints = []
    for origin in range(network.zones):
        sent = np.zeros(network.nodes)
        sent[: network.zones] = -demand[origin]
        sent[origin] = demand[origin].sum() - demand[origin, origin]
        constraints.append(incidence @ flows[origin] == sent)
        barred = (network.tail < network.first_through_node) & (network.tail != origin)
        constraints.append(flows[origin][np.flatnonzero(barred)] == 0)
    total = cp.sum(flows, axis=0)
    share = 1.0 if objective == "system_optimum" else 1 / (latency.power + 1)
    scale = share * latency.coefficient * network.free_flow_time / network.capacity**latency.power
    steep = cp.sum(cp.multiply(scale, cp.power(total, latency.power + 1)))
    problem = cp.Problem(cp.Minimize(network.free_flow_time @ total + steep), constraints)
    return float(
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    )


def simple_paths(network: Network, origin: int, destination: int) -> Iterator[list[int]]:
    """All paths without a repeated node, as lists of links."""

    def onward(node: int, visited: set[int], links: list[int]) -> Iterator[list[int]]:
        if node == destination:
            yield links
            return
        if node < network.first_through_node and node != origin:
            return
        for link in np.flatnonzero(network.tail == node).tolist():
            head = int(network.head[link])
            if head not in visited:
                yield from onward(head, visited | {head}, [*links, link])

    yield from onward(origin, {origin}, [])


def paths_of(policy: Policy, pair: int) -> list[tuple[list[int], float]]:
    chosen = range(policy.pair_start[pair], policy.pair_start[pair + 1])
    return [
        (
            policy.links[policy.path_start[k] : policy.path_start[k + 1]].tolist(),
            float(policy.share[k]),
        )
        for k in chosen
    ]


def check_policy(network: Network, demand: Floats, found: Assignment) -> None:
    """Every pair of distinct zones once, by origin; shares that sum to one, on simple paths between
    its zones."""
    policy = found.paths
    pairs = [(i, j) for i in range(network.zones) for j in range(network.zones) if i != j]
    assert list(zip(policy.origin.tolist(), policy.destination.tolist(), strict=True)) == pairs
    for pair, (origin, destination) in enumerate(pairs):
        paths = paths_of(policy, pair)
        assert sum(share for _, share in paths) == pytest.approx(1, abs=1e-14)
        assert all(share >= 1e-12 for _, share in paths)
        assert len({tuple(links) for links, _ in paths}) == len(paths)
        if demand[origin, destination] == 0:
            assert len(paths) == 1
        for links, _ in paths:
            nodes = [origin, *network.head[links].tolist()]
            assert nodes[-1] == destination
            assert network.tail[links].tolist() == nodes[:-1]
            assert len(set(nodes)) == len(nodes)
            assert all(node >= network.first_through_node for node in nodes[1:-1])


# Vectors and closed forms -------------------------------------------------------------------------


def test_system_optimum_of_sioux_falls(sioux_falls: tuple[Network, Floats]) -> None:
    network, demand = sioux_falls
    found = assign(network, AFFINE, demand, "system_optimum")
    assert found.status == "converged"
    assert found.relative_gap <= 1e-10
    assert found.total_travel_time == pytest.approx(8233524.9704747, rel=1e-8)
    fine = assign(network, AFFINE, demand, "system_optimum", gap=1e-13)
    by_ends = dict(
        zip(zip(network.tail + 1, network.head + 1, strict=True), fine.link_flows, strict=True)
    )
    expected = {
        (1, 2): 6716.826141,
        (1, 3): 9423.731166,
        (2, 6): 6516.826141,
        (10, 15): 18642.259827,
        (24, 21): 12128.719556,
    }
    for ends, flow in expected.items():
        assert by_ends[ends] == pytest.approx(flow, rel=1e-8)


@pytest.mark.parametrize(
    ("latency", "objective", "value"),
    [
        (AFFINE, "user_equilibrium", 8254743.604132065),
        (BPR, "system_optimum", 7194256.052893),
    ],
)
def test_total_travel_times_of_sioux_falls(
    sioux_falls: tuple[Network, Floats], latency: Latency, objective: Objective, value: float
) -> None:
    found = assign(*sioux_falls[:1], latency, sioux_falls[1], objective)
    assert found.relative_gap <= 1e-10
    assert found.total_travel_time == pytest.approx(value, rel=1e-8)


def test_bpr_equilibrium_of_sioux_falls(sioux_falls: tuple[Network, Floats]) -> None:
    network, demand = sioux_falls
    found = assign(network, BPR, demand, "user_equilibrium")
    assert found.relative_gap <= 1e-10
    beckmann = objective_value(network, BPR, found.link_flows, "user_equilibrium")
    assert beckmann == pytest.approx(4231335.28710744, rel=1e-8)


def test_two_parallel_links_share_by_the_closed_form() -> None:
    network = network_of(2, 2, [(0, 1, 10.0, 40.0), (0, 1, 15.0, 60.0), (1, 0, 1.0, 1.0)])
    demand = np.array([[0.0, 100.0], [0.0, 0.0]])
    # 10 (1 + s y/40) = 15 (1 + s (100 - y)/60) with s = 1 at equilibrium, 2 at the optimum
    for objective, s in (("user_equilibrium", 1.0), ("system_optimum", 2.0)):
        first = (5 + 25 * s) / (0.5 * s)
        found = assign(network, AFFINE, demand, objective)  # type: ignore[arg-type]
        assert found.link_flows == pytest.approx([first, 100 - first, 0], rel=1e-12)


def test_pigou() -> None:
    """One link takes an hour whatever its flow, the other as long as it has flow: anarchy costs 4/3
    (Pigou 1920)."""
    tiny = 1e-9
    network = network_of(2, 2, [(0, 1, 1.0, 1e12), (0, 1, tiny, tiny), (1, 0, 1.0, 1.0)])
    demand = np.array([[0.0, 1.0], [0.0, 0.0]])
    selfish = assign(network, AFFINE, demand, "user_equilibrium")
    optimal = assign(network, AFFINE, demand, "system_optimum")
    assert selfish.link_flows[:2] == pytest.approx([0, 1], abs=1e-6)
    assert optimal.link_flows[:2] == pytest.approx([0.5, 0.5], abs=1e-6)
    assert selfish.total_travel_time / optimal.total_travel_time == pytest.approx(4 / 3, rel=1e-6)


def test_braess() -> None:
    """A new link between the two middle nodes makes everybody's way longer, 65 to 80 (Braess
    1968)."""
    tiny, wide = 1e-9, 1e15
    links = [
        (0, 2, tiny, 100 * tiny),
        (2, 1, 45.0, wide),
        (0, 3, 45.0, wide),
        (3, 1, tiny, 100 * tiny),
        (1, 0, 1.0, wide),
    ]
    demand = np.array([[0.0, 4000.0], [0.0, 0.0]])
    without = assign(network_of(4, 2, links), AFFINE, demand, "user_equilibrium")
    assert without.total_travel_time / 4000 == pytest.approx(65, rel=1e-6)
    shortcut = assign(
        network_of(4, 2, [*links, (2, 3, 0.0, wide)]), AFFINE, demand, "user_equilibrium"
    )
    assert shortcut.total_travel_time / 4000 == pytest.approx(80, rel=1e-6)


# Independent solvers ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("latency", [AFFINE, BPR], ids=["affine", "bpr"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_reaches_the_minimum_that_a_conic_solver_finds(
    seed: int, latency: Latency, objective: Objective
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 9, 4, centroids=seed % 2 == 1)
    demand = rng.exponential(0.5, (4, 4))
    found = assign(network, latency, demand, objective)
    assert found.status == "converged"
    value = objective_value(network, latency, found.link_flows, objective)
    assert value == pytest.approx(conic_optimum(network, latency, demand, objective), rel=1e-7)


@pytest.mark.parametrize("own", [False, True], ids=["one latency", "each its own"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_reaches_the_minimum_over_all_enumerated_paths(
    seed: int, objective: Objective, own: bool
) -> None:
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng, 5, 2, centroids=seed % 2 == 1)
    demand = np.array([[0.0, 2.0], [1.0, 0.0]])
    latency = Latency(0.8, 2.5)  # a power that neither kernel's shortcut nor cone serves
    if own:
        latency = own_latencies(rng, network.tail.size)
    columns, owner = [], []
    for pair, ends in enumerate([(0, 1), (1, 0)]):
        for links in simple_paths(network, *ends):
            columns.append(np.bincount(links, minlength=network.tail.size))
            owner.append(pair)
    loads, owners = np.array(columns, dtype=float), np.array(owner)
    sums = np.array([owners == 0, owners == 1], dtype=float)
    trips = np.array([2.0, 1.0])
    reference = minimize(
        lambda x: objective_value(network, latency, np.maximum(x @ loads, 0), objective),
        sums.T @ (trips / sums.sum(axis=1)),
        bounds=[(0, None)] * len(columns),
        constraints={"type": "eq", "fun": lambda x: sums @ x - trips, "jac": lambda _: sums},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    found = assign(network, latency, demand, objective)
    value = objective_value(network, latency, found.link_flows, objective)
    if objective == "system_optimum":
        assert found.total_travel_time == pytest.approx(value, rel=1e-12)
    assert value <= reference.fun * (1 + 1e-9)
    assert reference.fun == pytest.approx(value, rel=1e-5)


# Properties ---------------------------------------------------------------------------------------


@settings(max_examples=120, derandomize=True)
@given(instances())
def test_flows_and_policy_and_certificate_hold_together(
    instance: tuple[Network, Latency, Floats, Objective],
) -> None:
    network, latency, demand, objective = instance
    found = assign(network, latency, demand, objective)
    flows = found.link_flows
    assert found.status == "converged"
    check_policy(network, np.where(np.eye(network.zones), 0, demand), found)
    assert link_flows_of(found.paths, demand) == pytest.approx(
        flows, rel=1e-9, abs=1e-12 * demand.sum()
    )
    balance = np.bincount(network.tail, flows, network.nodes) - np.bincount(
        network.head, flows, network.nodes
    )
    assert balance[: network.zones] == pytest.approx(
        demand.sum(axis=1) - demand.sum(axis=0), abs=1e-9 * demand.sum()
    )
    assert balance[network.zones :] == pytest.approx(0, abs=1e-9 * demand.sum())
    assert (flows >= 0).all()
    assert total_travel_time(network, latency, flows) == found.total_travel_time
    assert gap_of(network, latency, demand, flows, objective) == pytest.approx(
        found.relative_gap, abs=1e-12
    )
    assert 0 <= found.relative_gap <= 1e-10
    # Pairs without demand take a shortest path at the final costs.
    cost = link_costs(network, latency, flows, objective)
    least = shortest(network, cost)
    for pair, (origin, destination) in enumerate(
        zip(found.paths.origin, found.paths.destination, strict=True)
    ):
        if demand[origin, destination] == 0:
            [(links, share)] = paths_of(found.paths, pair)
            assert share == 1
            assert cost[links].sum() == pytest.approx(
                least[origin, destination], rel=1e-12, abs=1e-300
            )


@settings(max_examples=25, derandomize=True)
@given(instances(), st.randoms(use_true_random=False))
def test_numbering_of_links_and_zones_does_not_matter(
    instance: tuple[Network, Latency, Floats, Objective], random: Any
) -> None:
    network, latency, demand, objective = instance
    order = random.sample(range(network.tail.size), network.tail.size)
    zones = np.array(random.sample(range(network.zones), network.zones))  # new number of each zone
    numbers = np.concatenate([zones, np.arange(network.zones, network.nodes)])
    renumbered = Network(
        network.nodes,
        network.zones,
        network.first_through_node,
        numbers[network.tail[order]],
        numbers[network.head[order]],
        network.free_flow_time[order],
        network.capacity[order],
    )
    moved = np.empty_like(demand)
    moved[np.ix_(zones, zones)] = demand
    ordered = latency
    if isinstance(latency.power, np.ndarray):
        ordered = Latency(
            latency.coefficient[order], latency.power[order], latency.fixed_cost[order]
        )
    one = assign(network, latency, demand, objective)
    other = assign(renumbered, ordered, moved, objective)
    value = objective_value(network, latency, one.link_flows, objective)
    assert objective_value(renumbered, ordered, other.link_flows, objective) == pytest.approx(
        value, rel=1e-9
    )
    # Strictly convex where time grows with the flow from its first trip on: there flows are unique.
    steep = np.broadcast_to((latency.coefficient > 0) & (latency.power == 1), network.tail.shape)
    paid = (steep & (network.free_flow_time > 0.01))[order]
    if paid.any():
        assert other.link_flows[paid] == pytest.approx(
            one.link_flows[order][paid], rel=1e-2, abs=1e-3 * demand.sum()
        )


def test_is_deterministic(sioux_falls: tuple[Network, Floats]) -> None:
    network, demand = sioux_falls
    one, other = (assign(network, BPR, demand, "user_equilibrium") for _ in range(2))
    assert one.link_flows.tobytes() == other.link_flows.tobytes()
    assert one.paths.links.tobytes() == other.paths.links.tobytes()
    assert one.paths.share.tobytes() == other.paths.share.tobytes()


# Hard cases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", first_of(["system_optimum", "user_equilibrium"]))
def test_threads_change_no_bit(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of flows, paths, gap and progress; and the work is done by others than this thread."""
    rng = np.random.default_rng(5)
    network = random_network(rng, 40, 25, centroids=True)
    demand = rng.lognormal(size=(25, 25)) * (rng.random((25, 25)) < 0.7)
    workers: set[int] = set()
    priced = path_flows._price

    def watched(*given: Any) -> Any:
        workers.add(threading.get_ident())
        return priced(*given)

    def found(many: int) -> tuple[Assignment, list[int]]:
        steps: list[int] = []
        workers.clear()
        one = assign(
            network,
            BPR,
            demand,
            objective,
            threads=many,
            progress=lambda step, _: steps.append(step),
        )
        return one, steps

    monkeypatch.setattr(path_flows, "_price", watched)
    (alone, steps), own = found(1), set(workers)
    assert own == {threading.get_ident()}
    assert alone.iterations > 2
    for threads in (2, 3, 40):
        (together, other), theirs = found(threads), set(workers)
        assert theirs
        assert not theirs & own
        assert (alone.relative_gap, alone.iterations, steps) == (
            together.relative_gap,
            together.iterations,
            other,
        )
        np.testing.assert_array_equal(alone.link_flows, together.link_flows)
        for name in ("pair_start", "share", "path_start", "links"):
            np.testing.assert_array_equal(getattr(alone.paths, name), getattr(together.paths, name))


def test_no_demand_gives_shortest_paths_at_free_flow(sioux_falls: tuple[Network, Floats]) -> None:
    network, _ = sioux_falls
    found = assign(network, BPR, np.diag(np.full(24, 7.0)), "system_optimum")
    assert (found.status, found.relative_gap, found.total_travel_time) == ("converged", 0, 0)
    assert not found.link_flows.any()
    check_policy(network, np.zeros((24, 24)), found)
    least = shortest(network, network.free_flow_time)
    for pair, ends in enumerate(zip(found.paths.origin, found.paths.destination, strict=True)):
        assert network.free_flow_time[paths_of(found.paths, pair)[0][0]].sum() == least[ends]


@pytest.mark.parametrize("latency", [AFFINE, BPR], ids=["affine", "bpr"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", ["noise", "six orders", "congested", "one pair"])
def test_unusual_demands_of_sioux_falls(
    sioux_falls: tuple[Network, Floats], latency: Latency, objective: Objective, kind: str
) -> None:
    network, trips = sioux_falls
    rng = np.random.default_rng(5)
    demand = {
        "noise": np.maximum(trips + rng.laplace(0, 200, trips.shape), 1e-3),
        "six orders": 10.0 ** rng.uniform(-3, 3, trips.shape),
        "congested": 20 * trips,
        "one pair": np.where(np.arange(576).reshape(24, 24) == 12, 50_000.0, 0.0),
    }[kind]
    found = assign(network, latency, demand, objective)
    assert found.status == "converged"
    assert gap_of(network, latency, demand, found.link_flows, objective) <= 2e-10
    check_policy(network, np.where(np.eye(24), 0, demand), found)


@pytest.mark.parametrize("seed", range(40))
def test_steep_links_do_not_stall_it(seed: int) -> None:
    """Capacities over four orders of magnitude, flows far above them: single moves creep, Newton
    steps are needed."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 12, 4, centroids=False, steep=1.5)
    demand = rng.exponential(3.0, (4, 4))
    found = assign(network, Latency(1.0, 4.0), demand, "user_equilibrium")
    assert found.status == "converged"
    assert gap_of(network, Latency(1.0, 4.0), demand, found.link_flows, "user_equilibrium") <= 2e-10


def test_centroids_are_not_passed_through() -> None:
    links = [
        (0, 1, 1.0, 9.0),
        (1, 2, 1.0, 9.0),
        (0, 3, 5.0, 9.0),
        (3, 2, 5.0, 9.0),
        (2, 0, 1.0, 9.0),
        (1, 0, 1.0, 9.0),
    ]
    demand = np.array([[0, 0, 1.0], [0, 0, 0], [0, 0, 0]])
    passed = assign(
        network_of(4, 3, [*links, (2, 1, 1.0, 9.0)]), AFFINE, demand, "user_equilibrium"
    )
    assert passed.link_flows.tolist() == [1, 1, 0, 0, 0, 0, 0]
    around = assign(
        network_of(4, 3, [*links, (2, 1, 1.0, 9.0)], through=3), AFFINE, demand, "user_equilibrium"
    )
    assert around.link_flows.tolist() == [0, 0, 1, 1, 0, 0, 0]


def test_free_links_and_parallel_ones() -> None:
    network = network_of(
        3,
        2,
        [(0, 2, 0.0, 1.0), (0, 2, 3.0, 1.0), (2, 1, 1.0, 1.0), (2, 1, 1.0, 1.0), (1, 0, 0.0, 1.0)],
    )
    found = assign(network, BPR, np.array([[0, 6.0], [2.0, 0]]), "system_optimum")
    assert found.link_flows == pytest.approx([6, 0, 3, 3, 2], rel=1e-6)


def test_pairs_that_no_path_joins() -> None:
    network = network_of(3, 3, [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 1, 1.0, 1.0)])
    assert list(unreachable_pairs(network)) == [(0, 2), (1, 2)]
    served = assign(
        network, AFFINE, np.array([[0, 1.0, 0], [0, 0, 0], [1.0, 0, 0]]), "user_equilibrium"
    )
    assert np.diff(served.paths.pair_start).tolist() == [1, 0, 1, 0, 1, 1]
    with pytest.raises(ValueError, match="from zone 1 to zone 2"):
        assign(network, AFFINE, np.array([[0, 0, 0], [0, 0, 1.0], [0, 0, 0]]), "user_equilibrium")


@pytest.mark.parametrize("zones", [0, 1])
def test_networks_without_pairs(zones: int) -> None:
    network = network_of(2, zones, [(0, 1, 1.0, 1.0)])
    found = assign(network, AFFINE, np.ones((zones, zones)), "system_optimum")
    assert (found.status, found.paths.origin.size, found.link_flows.tolist()) == (
        "converged",
        0,
        [0.0],
    )
    assert list(unreachable_pairs(network)) == []


def test_iteration_limit_leaves_a_feasible_assignment(sioux_falls: tuple[Network, Floats]) -> None:
    network, demand = sioux_falls
    steps: list[tuple[int, int]] = []
    found = assign(
        network,
        BPR,
        demand,
        "user_equilibrium",
        max_iterations=2,
        progress=lambda *step: steps.append(step),
    )
    assert (found.status, found.iterations) == ("iteration_limit", 2)
    assert steps == [(1, 2), (2, 2)]
    assert found.relative_gap > 1e-10
    assert gap_of(network, BPR, demand, found.link_flows, "user_equilibrium") == pytest.approx(
        found.relative_gap
    )
    check_policy(network, demand, found)
    assert link_flows_of(found.paths, demand) == pytest.approx(found.link_flows, rel=1e-12)


def test_a_policy_carries_another_demand(sioux_falls: tuple[Network, Floats]) -> None:
    network, demand = sioux_falls
    policy = assign(network, AFFINE, demand, "system_optimum").paths
    other = np.random.default_rng(3).uniform(0, 100, demand.shape)
    expected = np.zeros(network.tail.size)
    for pair, ends in enumerate(zip(policy.origin, policy.destination, strict=True)):
        for links, share in paths_of(policy, pair):
            expected[links] += share * other[ends]
    assert link_flows_of(policy, other) == pytest.approx(expected, rel=1e-12)


def test_arrays_that_do_not_fit_are_refused() -> None:
    one = np.ones(1)
    with pytest.raises(ValueError, match="one entry for each link"):
        Network(2, 2, 0, np.array([0]), np.array([1]), one, np.ones(2))
    with pytest.raises(ValueError, match=r"links join nodes 0\.\.1"):
        Network(2, 2, 0, np.array([0]), np.array([2]), one, one)
    with pytest.raises(ValueError, match="3 zones do not fit"):
        Network(2, 3, 0, np.array([0]), np.array([1]), one, one)
    network = Network(2, 2, 0, np.array([0, 1]), np.array([1, 0]), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="2 zones"):
        assign(network, AFFINE, np.ones((3, 3)), "system_optimum")
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite and nonnegative"):
            assign(network, AFFINE, np.full((2, 2), wrong), "system_optimum")
    for latency in ((-1.0, 1.0), (np.nan, 1.0), (1.0, 0.5), (1.0, -1.0), (1.0, np.inf)):
        with pytest.raises(ValueError, match="of a latency"):
            Latency(*latency)
        with pytest.raises(ValueError, match="of a latency"):
            Latency(np.array([1.0, latency[0]]), np.array([1.0, latency[1]]))
    with pytest.raises(ValueError, match="fixed cost of a latency"):
        Latency(1.0, 1.0, np.array([0.0, -1.0]))

"""Several classes of users on one network, against an independent convex program and closed
forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from discreet.solvers.errors import InvalidArgument, NoSolution
from discreet.solvers.traffic.traffic_assignment import (
    Latency,
    Network,
    Objective,
    assign,
    link_flows_of,
)
from discreet.solvers.traffic.user_classes import (
    UserClasses,
    assign_classes,
    derivative_of_classes,
    flows_by_class,
    pair_times,
    policies_by_class,
    total_time,
)

TAIL = np.array([0, 0, 2, 3, 2, 3, 1, 1, 2])
HEAD = np.array([2, 3, 1, 1, 3, 2, 0, 2, 0])
NETWORK = Network(
    nodes=4,
    zones=2,
    first_through_node=0,
    tail=TAIL,
    head=HEAD,
    free_flow_time=np.array([4.0, 9.0, 6.0, 3.0, 1.0, 1.0, 12.0, 5.0, 5.0]),
    capacity=np.array([30.0, 40.0, 35.0, 30.0, 20.0, 20.0, 50.0, 30.0, 30.0]),
)
TOLLED = Latency(
    0.6, np.array([4.0, 1, 4, 1, 1, 2, 4, 4, 4]), np.array([0, 0, 7, 0, 0, 0, 4, 0, 1.5])
)
DEMAND = np.array([[[0, 50.0], [20, 0]], [[0, 22.0], [9, 0]]])


def classes(weight: Any = (1.0, 0.2), pce: Any = (1.0, 1.0)) -> UserClasses:
    return UserClasses(np.array(weight, dtype=float), np.array(pce, dtype=float))


def program(kinds: UserClasses, objective: Objective) -> tuple[Any, float]:
    """Link flows in PCE and the least value of the program, by flows of each class from each
    origin (no paths), by SciPy."""
    links, incidence = TAIL.size, np.zeros((4, TAIL.size))
    np.add.at(incidence, (TAIL, np.arange(links)), 1.0)
    np.add.at(incidence, (HEAD, np.arange(links)), -1.0)
    blocks = [(c, o) for c in range(2) for o in range(2)]
    rows, needed = np.zeros((4 * len(blocks), links * len(blocks))), []
    for place, (c, o) in enumerate(blocks):
        rows[4 * place : 4 * place + 4, links * place : links * (place + 1)] = incidence
        trips = kinds.pce[c] * DEMAND[c, o, 1 - o]
        needed += [trips if node == o else -trips if node == 1 - o else 0.0 for node in range(4)]
    power, b = np.asarray(TOLLED.power), float(np.asarray(TOLLED.coefficient))
    fixed = np.concatenate([kinds.weight[c] * np.asarray(TOLLED.fixed_cost) for c, _ in blocks])
    over = 1.0 if objective == "system_optimum" else power + 1

    def value(z: Any) -> Any:
        v = z.reshape(len(blocks), links).sum(axis=0)
        ratio = np.maximum(v, 0.0) / NETWORK.capacity
        grown = NETWORK.free_flow_time * v * (1 + b * ratio**power / over)
        slope = NETWORK.free_flow_time * (1 + b * ratio**power * (power + 1) / over)
        return grown.sum() + fixed @ z, np.tile(slope, len(blocks)) + fixed

    independent = np.concatenate([4 * place + np.arange(3) for place in range(len(blocks))])
    found = minimize(
        lambda z: (value(z)[0] / 1e3, value(z)[1] / 1e3),
        np.full(rows.shape[1], 10.0),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * rows.shape[1],
        constraints=[
            {
                "type": "eq",
                "fun": lambda z: rows[independent] @ z - np.array(needed)[independent],
                "jac": lambda _: rows[independent],
            }
        ],
        options={"maxiter": 2000, "ftol": 1e-15},
    )
    assert LinearConstraint(rows, needed, needed).residual(found.x)[0].min() > -1e-6
    return found.x.reshape(len(blocks), links).sum(axis=0), float(value(found.x)[0])


def beckmann(kinds: UserClasses, objective: Objective, solution: Any) -> float:
    v = solution.link_flows
    power, b = np.asarray(TOLLED.power), float(np.asarray(TOLLED.coefficient))
    over = 1.0 if objective == "system_optimum" else power + 1
    grown = NETWORK.free_flow_time * v * (1 + b * (v / NETWORK.capacity) ** power / over)
    own = kinds.pce[:, None] * flows_by_class(solution.paths, DEMAND)
    return float(grown.sum() + np.sum(kinds.weight @ own * TOLLED.fixed_cost))


@pytest.mark.parametrize(
    ("objective", "pce"),
    [("user_equilibrium", (1, 1)), ("user_equilibrium", (1, 2.5)), ("system_optimum", (1, 1))],
)
def test_flows_and_value_are_those_of_the_convex_program(objective: Objective, pce: Any) -> None:
    kinds = classes(pce=pce)
    found = assign_classes(NETWORK, TOLLED, kinds, DEMAND, objective, gap=1e-11)
    flows, least = program(kinds, objective)
    assert found.status == "converged"
    np.testing.assert_allclose(found.link_flows, flows, atol=2e-2)
    value = beckmann(kinds, objective, found)
    assert value == pytest.approx(least, rel=1e-6)
    assert value <= least * (1 + 1e-9)
    own = flows_by_class(found.paths, DEMAND)
    np.testing.assert_allclose(kinds.pce @ own, found.link_flows, atol=1e-9)
    # The dear road is not taken alike: what a class weighs decides.
    assert own[0, 2] / 50 < own[1, 2] / 22 - 0.1


@pytest.mark.parametrize("pce", [(1, 1), (1, 2.5)])
def test_nobody_has_a_cheaper_way_by_their_own_weight(pce: Any) -> None:
    """The gap, from the paths themselves."""
    kinds = classes(pce=pce)
    found = assign_classes(NETWORK, TOLLED, kinds, DEMAND, "user_equilibrium", gap=1e-11)
    bare = Latency(TOLLED.coefficient, TOLLED.power).times(NETWORK, found.link_flows)
    excess = spent = 0.0
    for c, policy in enumerate(policies_by_class(found.paths, 2)):
        cost = bare + kinds.weight[c] * np.asarray(TOLLED.fixed_cost)
        for pair in range(2):
            paths = range(policy.pair_start[pair], policy.pair_start[pair + 1])
            prices = [
                cost[policy.links[policy.path_start[k] : policy.path_start[k + 1]]].sum()
                for k in paths
            ]
            shares = policy.share[paths.start : paths.stop]
            trips = kinds.pce[c] * DEMAND[c][~np.eye(2, dtype=bool)][pair]
            ways = [min(shortest(cost, o)[1 - o] for o in [int(policy.origin[pair])])]
            excess += trips * (shares @ prices - ways[0])
            spent += trips * (shares @ prices)
    assert abs(excess) <= 1e-9 * spent
    assert found.relative_gap == pytest.approx(excess / spent, abs=1e-12)


def shortest(cost: Any, origin: int) -> Any:
    """Bellman and Ford."""
    distance = np.full(4, np.inf)
    distance[origin] = 0.0
    for _ in range(4):
        for link in range(TAIL.size):
            distance[HEAD[link]] = min(distance[HEAD[link]], distance[TAIL[link]] + cost[link])
    return distance


@pytest.mark.parametrize("objective", ["user_equilibrium", "system_optimum"])
def test_classes_that_weigh_alike_are_one(objective: Objective) -> None:
    found = assign_classes(NETWORK, TOLLED, classes((1, 1)), DEMAND, objective)
    one = assign(NETWORK, TOLLED, DEMAND.sum(axis=0), objective)
    np.testing.assert_allclose(found.link_flows, one.link_flows, atol=1e-4)
    assert found.total_travel_time == pytest.approx(one.total_travel_time, rel=1e-8)


@pytest.mark.parametrize(
    ("objective", "pce"),
    [("user_equilibrium", (1, 1)), ("user_equilibrium", (1.5, 2.5)), ("system_optimum", (2, 2))],
)
def test_the_derivative_is_that_of_differences(objective: Objective, pce: Any) -> None:
    kinds = classes(pce=pce)

    def at(demand: Any) -> Any:
        return assign_classes(NETWORK, TOLLED, kinds, demand, objective, gap=1e-13)

    here = at(DEMAND)
    slopes = derivative_of_classes(NETWORK, TOLLED, kinds, objective, here, DEMAND)
    apart = ~np.eye(2, dtype=bool)
    assert slopes.total is not None
    rows = slopes.flow_rows(np.arange(TAIL.size))
    np.testing.assert_allclose(slopes.flow_norms(), np.linalg.norm(rows, axis=1), atol=1e-8)
    for place in range(4):
        step = np.zeros(4)
        step[place] = 1e-3
        moved = np.zeros((2, 2, 2))
        moved[:, apart] = step.reshape(2, 2)
        more, less = at(DEMAND + moved), at(DEMAND - moved)
        change = (more.total_travel_time - less.total_travel_time) / 2e-3
        assert slopes.total[place] == pytest.approx(change, rel=1e-4)
        flows = (more.link_flows - less.link_flows) / 2e-3
        np.testing.assert_allclose(rows[:, place], flows, atol=2e-4)
        np.testing.assert_allclose(slopes.flows(step), rows @ step, atol=1e-10)


def test_total_time_and_times_of_pairs_are_of_trips_by_their_own_weights() -> None:
    kinds = classes(pce=(1, 2.5))
    found = assign_classes(NETWORK, TOLLED, kinds, DEMAND, "user_equilibrium")
    own = flows_by_class(found.paths, DEMAND)
    bare = Latency(TOLLED.coefficient, TOLLED.power).times(NETWORK, found.link_flows)
    wanted = float((own * (bare + np.outer(kinds.weight, np.asarray(TOLLED.fixed_cost)))).sum())
    assert found.total_travel_time == pytest.approx(wanted)
    assert total_time(NETWORK, TOLLED, kinds, own) == pytest.approx(wanted)
    apart = ~np.eye(2, dtype=bool)
    times = pair_times(NETWORK, TOLLED, kinds, found)
    assert float(np.sum(times * DEMAND[:, apart])) == pytest.approx(wanted)


def test_a_class_without_trips_has_its_cheapest_ways() -> None:
    demand = DEMAND * [[[1.0]], [[0.0]]]
    found = assign_classes(NETWORK, TOLLED, classes(), demand, "user_equilibrium")
    lone = assign(NETWORK, TOLLED, demand[0], "user_equilibrium")
    np.testing.assert_allclose(found.link_flows, lone.link_flows, atol=1e-6)
    trucks = policies_by_class(found.paths, 2)[1]
    assert np.diff(trucks.pair_start).tolist() == [1, 1]
    assert link_flows_of(trucks, DEMAND[1]).sum() > 0
    nothing = assign_classes(NETWORK, TOLLED, classes(), 0 * DEMAND, "user_equilibrium")
    assert (nothing.relative_gap, nothing.total_travel_time) == (0.0, 0.0)


def test_what_has_no_convex_program_or_no_path_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="different PCE is not convex"):
        assign_classes(NETWORK, TOLLED, classes(pce=(1, 2)), DEMAND, "system_optimum")
    with pytest.raises(InvalidArgument, match="shape"):
        assign_classes(NETWORK, TOLLED, classes(), DEMAND[0], "user_equilibrium")
    with pytest.raises(InvalidArgument, match="nonnegative"):
        assign_classes(NETWORK, TOLLED, classes(), -DEMAND, "user_equilibrium")
    cut = Network(4, 2, 0, TAIL[:6], HEAD[:6], NETWORK.free_flow_time[:6], NETWORK.capacity[:6])
    with pytest.raises(NoSolution, match="from zone 1 to zone 0"):
        assign_classes(cut, Latency(0.15, 4), classes(), DEMAND, "user_equilibrium")

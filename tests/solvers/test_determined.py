"""Which link flows differ among optimal assignments, beside the range of each flow over all optima
by linear programs, in flows by origin, without paths."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array, kron, vstack

from discreet.solvers.traffic.determined import open_links
from discreet.solvers.traffic.traffic_assignment import Latency, Network, assign, costs_of
from discreet.solvers.traffic.user_classes import UserClasses, assign_classes

Objective = Literal["system_optimum", "user_equilibrium"]


def net(ends: list[tuple[int, int]], zones: int, times: Any, first: int = 0) -> Network:
    tail, head = np.array(ends).T
    nodes = int(max(tail.max(), head.max())) + 1
    ones = np.ones(len(ends))
    return Network(nodes, zones, first, tail, head, np.array(times, dtype=float), 10 * ones)


def ranges(
    network: Network, latency: Latency, objective: Objective, flows: Any, demand: Any
) -> np.ndarray:
    """Of each link's flow over all optima: flows by origin that carry the demand, with the flows of
    links of rising cost, which are the same in all, and the least cost of the others."""
    costs = costs_of(network, latency, objective)
    links, zones, nodes = network.tail.size, network.zones, network.nodes
    ones, every = np.ones(links), np.arange(links)
    balance = csr_array((ones, (network.tail, every)), shape=(nodes, links)) - csr_array(
        (ones, (network.head, every)), shape=(nodes, links)
    )
    kept, out = [], np.zeros((zones, nodes))
    for origin in range(zones):
        out[origin, :zones] = -demand[origin]
        out[origin, origin] = demand[origin].sum() - demand[origin, origin]
    each, together = kron(np.eye(zones), balance), kron(np.ones((1, zones)), np.eye(links))
    rising = np.flatnonzero(costs.scale > 0)
    together = csr_array(together)
    equal = vstack([each, together[rising]]).tocsr()
    right = np.concatenate([out.ravel(), flows[rising]])
    flat = np.where(costs.scale > 0, 0.0, costs.free)
    least = csr_array(together.T @ flat[:, None]).T
    bound = float(flat @ flows) * (1 + 1e-9) + 1e-9
    # What is known to rounding only: the flows of links of rising cost.
    slack = np.zeros(len(right))
    slack[out.size :] = 1e-6
    matrix = vstack([equal, -equal, least]).tocsr()
    limit = np.concatenate([right + slack, slack - right, [bound + 1e-5]])
    for link in np.flatnonzero(costs.scale == 0):
        row = together[[link]].toarray().ravel()
        ends = [linprog(s * row, A_ub=matrix, b_ub=limit).fun for s in (1.0, -1.0)]
        kept.append((link, -ends[1] - ends[0]))
    found = np.zeros(links)
    for link, width in kept:
        found[link] = width
    return found


def city(seed: int) -> tuple[Network, Latency, Any]:
    """A grid of three by three in both directions, of which most links have a constant cost of 1,
    so that many ways are equally long."""
    rng = np.random.default_rng(seed)
    places = [(x, y) for x in range(3) for y in range(3)]
    order = rng.permutation(len(places))
    number = {place: int(rank) for place, rank in zip(places, order, strict=True)}
    ends = []
    for x, y in places:
        for other in ((x + 1, y), (x, y + 1)):
            if other in number:
                ends += [(number[x, y], number[other]), (number[other], number[x, y])]
    network = net(ends, 4, np.ones(len(ends)))
    rising = rng.random(len(ends)) < rng.choice([0.05, 0.2, 0.4])
    latency = Latency(np.where(rising, 0.5, 0.0), np.where(rising, rng.choice([1.0, 4.0]), 0.0))
    demand = rng.uniform(1, 20, (4, 4)) * (rng.random((4, 4)) < 0.6)
    np.fill_diagonal(demand, 0)
    return network, latency, demand


@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_open_links_are_those_whose_flow_has_a_range(objective: Objective) -> None:
    """On sixteen random cities; never is a link called determined that is not."""
    opened = agreed = links = 0
    for seed in range(8):
        network, latency, demand = city(seed)
        solution = assign(network, latency, demand, objective)
        assert solution.relative_gap <= 1e-10
        width = ranges(network, latency, objective, solution.link_flows, demand)
        truly, found = width > 1e-2, open_links(network, latency, objective, solution, demand)
        assert not (truly & ~found).any(), (seed, np.flatnonzero(truly & ~found))
        opened, links = opened + int(truly.sum()), links + truly.size
        agreed += int((truly == found).sum())
    assert opened > 15
    assert agreed > 0.97 * links


def test_ways_that_cost_nothing_are_equal_however_many_links_they_have() -> None:
    """0 to 1 directly or by 2 and 3, on links without time, and on by a road of rising cost."""
    network = net([(0, 4), (0, 2), (2, 3), (3, 4), (4, 1)], 2, [0, 0, 0, 0, 1])
    latency = Latency(np.array([0.0, 0, 0, 0, 1]), np.array([0.0, 0, 0, 0, 1]))
    demand = np.array([[0.0, 30], [0, 0]])
    solution = assign(network, latency, demand, "user_equilibrium")
    found = open_links(network, latency, "user_equilibrium", solution, demand)
    assert found.tolist() == [True, True, True, True, False]


def test_two_equal_ways_of_constant_cost_are_open_and_a_rising_one_is_not() -> None:
    """0 to 1 by node 2 or 3, each way twice as long as the direct road when that is empty."""
    network = net([(0, 2), (2, 1), (0, 3), (3, 1), (0, 1)], 2, [1, 1, 1, 1, 1])
    demand = np.array([[0.0, 30], [0, 0]])
    flat, rising = np.array([0.0, 0, 0, 0, 1]), np.array([0.0, 0, 0, 0, 1])
    latency = Latency(flat, rising)
    solution = assign(network, latency, demand, "user_equilibrium")
    found = open_links(network, latency, "user_equilibrium", solution, demand)
    assert found.tolist() == [True, True, True, True, False]
    assert solution.link_flows[4] == pytest.approx(10)
    longer = net([(0, 2), (2, 1), (0, 3), (3, 1), (0, 1)], 2, [1, 1, 1, 1.01, 1])
    solution = assign(longer, latency, demand, "user_equilibrium")
    assert not open_links(longer, latency, "user_equilibrium", solution, demand).any()
    everywhere = Latency(0.15, 4.0)
    solution = assign(network, everywhere, demand, "user_equilibrium")
    assert not open_links(network, everywhere, "user_equilibrium", solution, demand).any()


def test_two_origins_may_change_places() -> None:
    """From 0 and from 1 to 2, by node 3 or 4, behind which the roads fill: how many take either is
    determined, and not from where."""
    ends = [(0, 3), (0, 4), (1, 3), (1, 4), (3, 2), (4, 2)]
    network = net(ends, 3, [1, 1, 1, 1, 5, 5])
    latency = Latency(np.array([0.0, 0, 0, 0, 1, 1]), np.array([0.0, 0, 0, 0, 1, 1]))
    demand = np.zeros((3, 3))
    demand[:2, 2] = 20
    solution = assign(network, latency, demand, "user_equilibrium")
    found = open_links(network, latency, "user_equilibrium", solution, demand)
    assert found.tolist() == [True] * 4 + [False] * 2
    demand[1] = 0
    solution = assign(network, latency, demand, "user_equilibrium")
    assert not open_links(network, latency, "user_equilibrium", solution, demand).any()


def test_parallel_links_centroids_and_links_without_cost() -> None:
    """No way leads through a zone, and roads that cost nothing are roads."""
    ends = [(0, 2), (0, 2), (2, 0), (2, 1), (1, 2)]
    network = net(ends, 2, [0, 0, 0, 3, 3], first=2)
    latency = Latency(0.0, 0.0)
    demand = np.array([[0.0, 5], [7, 0]])
    solution = assign(network, latency, demand, "system_optimum")
    found = open_links(network, latency, "system_optimum", solution, demand)
    assert found.tolist() == [True, True, False, False, False]


def test_classes_of_users_have_shortest_ways_of_their_own() -> None:
    """A toll that cars mind and trucks do not: two equal ways of the cars, of which the trucks take
    the one with the toll."""
    network = net([(0, 1), (0, 1)], 2, [2, 1])
    latency = Latency(0.0, 0.0, np.array([0.0, 1.0]))
    classes = UserClasses(np.array([1.0, 0.0]), np.array([1.0, 2.0]))
    demand = np.zeros((2, 2, 2))
    for cars, trucks, expected in ((5, 5, True), (0, 5, False)):
        demand[:, 0, 1] = cars, trucks
        solution = assign_classes(network, latency, classes, demand, "user_equilibrium")
        found = open_links(network, latency, "user_equilibrium", solution, demand, classes)
        assert found.all() == found.any() == expected

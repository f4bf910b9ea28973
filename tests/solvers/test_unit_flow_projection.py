"""Projection on unit flows: against exact enumeration, a conic solver and the reference vectors;
paths of flows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.solvers.traffic.traffic_assignment import Network
from discreet.solvers.traffic.unit_flow_projection import UnitFlows

VECTORS = json.loads((Path(__file__).parent / "unit_flow_vectors.json").read_text())
SIOUX_FALLS = json.loads(
    (Path(__file__).parents[2] / "service/discreet/reproduce/sioux_falls.json").read_text()
)


def network_of(
    links: Any, nodes: int, *, zones: int | None = None, first_through_node: int = 0
) -> Network:
    tail, head = np.array(links, dtype=np.int64).reshape(-1, 2).T
    ones = np.ones(len(tail))
    return Network(
        nodes, nodes if zones is None else zones, first_through_node, tail, head, ones, ones
    )


def sioux_falls() -> Network:
    links = np.array(SIOUX_FALLS["links"])
    return network_of(links[:, :2].astype(int) - 1, 24)


def pair_of(network: Network, origin: int, destination: int, upper: float = 1.0) -> UnitFlows:
    return UnitFlows.of_pairs(
        network, origin=np.array([origin]), destination=np.array([destination]), upper=upper
    )


def violation(flows: UnitFlows, flow: Any) -> float:
    balance = np.zeros((flows.pairs, flows.nodes))
    for link, (tail, head) in enumerate(zip(flows.tail, flows.head, strict=True)):
        balance[:, tail] += flow[:, link]
        balance[:, head] -= flow[:, link]
    balance[np.arange(flows.pairs), flows.origin] -= 1
    balance[np.arange(flows.pairs), flows.destination] += 1
    return float(np.abs(balance).max())


@pytest.mark.parametrize("case", VECTORS["cases"], ids=str)
def test_reference_vectors(case: dict[str, list[float]]) -> None:
    flows = pair_of(
        network_of(VECTORS["links"], 4), VECTORS["origin"], VECTORS["destination"], upper=np.inf
    )
    assert flows.project(np.array([case["v"]], dtype=float)).flow[0] == pytest.approx(
        case["x"], abs=2e-10
    )


def by_enumeration(incidence: Any, needed: Any, point: Any) -> Any:
    """The projection on {N x = b, 0 <= x <= 1}, by trying every set of links at 0, at 1 and
    between."""
    best, distance = None, np.inf
    for state in itertools.product((0, 1, 2), repeat=len(point)):
        x = np.array(state, dtype=float)
        free = x == 2
        x[free] = 0.0
        if free.any():
            part = incidence[:, free]
            x[free] = point[free] + np.linalg.pinv(part) @ (
                needed - incidence @ x - part @ point[free]
            )
        if np.abs(incidence @ x - needed).max() > 1e-9 or x.min() < -1e-9 or x.max() > 1 + 1e-9:
            continue
        if (reached := float(np.sum((x - point) ** 2))) < distance - 1e-13:
            best, distance = x, reached
    return best


@settings(max_examples=60)
@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
    st.sampled_from([0.1, 1.0, 30.0]),
    st.integers(0, 2**32 - 1),
)
def test_exact_on_tiny_graphs(
    nodes: int, links: list[tuple[int, int]], scale: float, seed: int
) -> None:
    """Any multigraph, links from a node to itself left out: the projection, or a refusal where
    there is none."""
    links = [link for link in links if max(link) < nodes and link[0] != link[1]]
    assume(links)
    network = network_of(links, nodes)
    point = np.random.default_rng(seed).normal(size=len(links)) * scale
    incidence = np.zeros((nodes, len(links)))
    incidence[network.tail, range(len(links))] += 1
    incidence[network.head, range(len(links))] -= 1
    needed = np.eye(nodes)[0] - np.eye(nodes)[1]
    exact = by_enumeration(incidence, needed, point)
    flows = pair_of(network, 0, 1)
    if exact is None:
        with pytest.raises(ValueError, match="no unit flow from node 0 to node 1"):
            flows.project(point[None])
    else:
        assert flows.project(point[None]).flow[0] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("scale", [0.1, 1.0, 1e2, 1e5, 1e9])
def test_all_pairs_at_every_scale_to_the_residual(scale: float) -> None:
    flows = UnitFlows.of_pairs(sioux_falls())
    near = flows.project(np.random.default_rng(3).normal(size=(flows.pairs, 76)) * scale)
    assert near.residual.max() <= 1e-10
    assert violation(flows, near.flow) <= 2e-10
    assert near.flow.min() >= 0
    assert near.flow.max() <= 1


def test_nearest_by_a_conic_solver() -> None:
    network = sioux_falls()
    flows = UnitFlows.of_pairs(
        network, origin=np.array([0, 5, 23]), destination=np.array([19, 2, 0])
    )
    points = np.random.default_rng(4).normal(size=(3, 76))
    found = flows.project(points)
    incidence = np.zeros((24, 76))
    incidence[network.tail, range(76)] += 1
    incidence[network.head, range(76)] -= 1
    for pair in range(3):
        x = cvxpy.Variable(76)
        needed = np.eye(24)[flows.origin[pair]] - np.eye(24)[flows.destination[pair]]
        cvxpy.Problem(
            cvxpy.Minimize(cvxpy.sum_squares(x - points[pair])),
            [incidence @ x == needed, x >= 0, x <= 1],
        ).solve(solver="CLARABEL")
        assert found.flow[pair] == pytest.approx(x.value, abs=1e-5)


def test_where_it_starts_does_not_matter_and_a_projection_is_its_own() -> None:
    flows = UnitFlows.of_pairs(sioux_falls())
    points = np.random.default_rng(5).normal(size=(flows.pairs, 76))
    first = flows.project(points, tolerance=1e-12)
    again = flows.project(
        points, np.random.default_rng(6).normal(size=(flows.pairs, 24)) * 5, tolerance=1e-12
    )
    assert np.abs(first.flow - again.flow).max() <= flows.error_bound(1e-12)
    assert np.abs(flows.project(first.flow).flow - first.flow).max() <= flows.error_bound(1e-10)


def test_the_error_bound_covers_a_loose_tolerance() -> None:
    flows = UnitFlows.of_pairs(sioux_falls())
    points = np.random.default_rng(7).normal(size=(flows.pairs, 76))
    exact = flows.project(points, tolerance=1e-12).flow
    for tolerance in (1e-2, 1e-4, 1e-6):
        error = float(np.linalg.norm(flows.project(points, tolerance=tolerance).flow - exact))
        assert 0 < error <= flows.error_bound(tolerance)


def test_paths_do_not_pass_centroids() -> None:
    """1 - 0 - 2 is short, but 0 is a centroid."""
    network = network_of(
        [(1, 0), (0, 2), (1, 3), (3, 2), (0, 1), (2, 0), (2, 3), (3, 1)],
        4,
        zones=3,
        first_through_node=1,
    )
    flows = UnitFlows.of_pairs(network)
    flow = flows.project(np.zeros((flows.pairs, 8))).flow
    for pair, ends in enumerate(zip(flows.origin, flows.destination, strict=True)):
        if 0 not in ends:
            assert flow[pair, [0, 1, 4, 5]] == pytest.approx(0)


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_paths_carry_the_flow_but_for_its_circles(seed: int, scale: float) -> None:
    network = sioux_falls()
    flows = UnitFlows.of_pairs(network)
    flow = flows.project(np.random.default_rng(seed).normal(size=(flows.pairs, 76)) * scale).flow
    policy = flows.policy(flow)
    assert np.all(np.diff(policy.pair_start) >= 1)
    assert np.add.reduceat(policy.share, policy.pair_start[:-1]) == pytest.approx(1)
    for path in range(len(policy.share)):
        links = policy.links[policy.path_start[path] : policy.path_start[path + 1]]
        assert np.array_equal(network.head[links[:-1]], network.tail[links[1:]])
        assert len(set(network.tail[links])) == len(links)
    carried = flows.of_policy(policy)
    assert violation(flows, carried) <= 1e-9
    circles = flow - carried
    assert circles.min() >= -1e-6  # what is left out is flow of its own


def test_a_routing_of_paths_comes_back() -> None:
    flows = UnitFlows.of_pairs(sioux_falls())
    shortest = flows.cheapest(np.random.default_rng(8).random(76))
    assert violation(flows, shortest) == 0
    policy = flows.policy(shortest)
    assert len(policy.share) == flows.pairs
    assert np.array_equal(flows.of_policy(policy), shortest)


def test_a_thin_flow_still_gives_a_path() -> None:
    """Where rounding has broken a flow off, the pair gets a shortest path."""
    flows = pair_of(network_of([(0, 1), (1, 2), (0, 2)], 3), 0, 2)
    policy = flows.policy(np.array([[0.3, 0.0, 0.0]]))
    assert policy.links.tolist() == [2]

"""The derivative of an assignment in its demand, against closed forms and differences of
assignments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from discreet.reproduce.networks import sioux_falls
from discreet.solvers.traffic.sensitivity import _moves, derivative
from discreet.solvers.traffic.traffic_assignment import Latency, Network, Objective, assign

AFFINE, BPR = Latency(1.0, 1.0), Latency(0.15, 4.0)
OWN = Latency(
    np.tile([0.15, 1.0], 38), np.tile([4.0, 1.0, 1.0, 2.0], 19), np.tile([0.0, 0.0, 3.0], 26)[:76]
)


@pytest.mark.parametrize("latency", [AFFINE, BPR, OWN])
@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_the_derivative_is_what_differences_tend_to(objective: Objective, latency: Latency) -> None:
    network, demand = sioux_falls()
    apart = ~np.eye(24, dtype=bool)
    middle = assign(network, latency, demand, objective, gap=1e-12)
    found = derivative(network, latency, objective, middle)
    rng = np.random.default_rng(3)
    for _ in range(3):
        change = np.zeros_like(demand)
        change[apart] = 1e-5 * demand[apart] * rng.standard_normal(apart.sum())
        up, down = (
            assign(network, latency, demand + sign * change, objective, gap=1e-12)
            for sign in (1, -1)
        )
        flows = (up.link_flows - down.link_flows) / 2
        assert found.flows(change[apart]) == pytest.approx(flows, abs=2e-3 * np.abs(flows).max())
        assert found.total is not None
        total = (up.total_travel_time - down.total_travel_time) / 2
        assert found.total @ change[apart] == pytest.approx(total, rel=2e-3)


def test_norms_are_those_of_the_rows() -> None:
    network, demand = sioux_falls()
    found = derivative(
        network, AFFINE, "system_optimum", assign(network, AFFINE, demand, "system_optimum")
    )
    rows = np.stack([found.flows(one) for one in np.eye(552)], axis=1)
    assert found.flow_norms() == pytest.approx(np.linalg.norm(rows, axis=1))


def test_two_routes_share_one_more_trip_by_their_slopes() -> None:
    """Times 1 + y/2 and 2 + y of parallel links: of one more trip two thirds take the first, in
    closed form; the link back is a way of its own. At the equilibrium of 5 trips 4 take the first,
    and both take 3."""
    network = Network(2, 2, 0, [0, 0, 1], [1, 1, 0], [1.0, 2.0, 1.0], [2.0, 2.0, 1.0])  # type: ignore[arg-type]
    demand = np.array([[0.0, 5.0], [0.0, 0.0]])
    for objective, total in (("user_equilibrium", 3 + 5 / 3), ("system_optimum", None)):
        solution = assign(network, AFFINE, demand, objective, gap=1e-12)  # type: ignore[arg-type]
        found = derivative(network, AFFINE, objective, solution)  # type: ignore[arg-type]
        assert found.flows(np.array([1.0, 0.0])) == pytest.approx([2 / 3, 1 / 3, 0], abs=1e-6)
        assert found.flows(np.array([0.0, 1.0])) == pytest.approx([0, 0, 1], abs=1e-6)
        assert found.total is not None
        if total is not None:
            assert found.total == pytest.approx([total, 1])
        alone = derivative(network, AFFINE, objective, solution, links=False)  # type: ignore[arg-type]
        assert (
            alone.total is None if total is not None else alone.total == pytest.approx(found.total)
        )


def test_nobody_travels() -> None:
    network, _ = sioux_falls()
    solution = assign(network, BPR, np.zeros((24, 24)), "user_equilibrium")
    found = derivative(network, BPR, "user_equilibrium", solution)
    assert found.total is not None
    one = np.eye(552)[0]
    assert found.flows(one).sum() > 0
    assert found.total[0] == pytest.approx(found.flows(one) @ network.free_flow_time)


@pytest.mark.parametrize("columns", [0, 1, 9, 60])
def test_many_equal_and_dependent_detours_are_as_few_independent_ones(columns: int) -> None:
    """`M = I - V (V'DV)^+ V'D` with NumPy's pseudoinverse, of fewer detours than links and of more,
    all of them several times, in both directions, and made of seven."""
    rng = np.random.default_rng(columns)
    some = rng.integers(-1, 2, (7, 20))
    picked = rng.integers(0, 7, columns)
    detours = np.concatenate([one := some[picked], -one[: columns // 2]]).astype(float)
    if columns == 60:  # more different ones than links
        detours = np.unique(np.clip(detours[:, None] + some, -1, 1).reshape(-1, 20), axis=0)
        assert len(detours) > 40
    slope = rng.uniform(0.1, 3, 20)
    left, right = _moves(csr_array(detours), slope)
    V, D = detours.T, np.diag(slope)
    expected = V @ np.linalg.pinv(V.T @ D @ V, hermitian=True) @ V.T @ D
    assert left @ right.toarray() == pytest.approx(expected, abs=1e-6)
    assert left.shape[1] == (20 if columns == 60 else np.linalg.matrix_rank(V))

"""Assignment in blocks of origins against the assignment in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from discreet.solvers.traffic.block_assignment import Block, Part, assign_in_blocks
from discreet.solvers.traffic.traffic_assignment import (
    Latency,
    Network,
    Objective,
    assign,
    elsewhere,
    link_flows_of,
)
from tests.solvers.test_traffic_assignment import random_network, sioux_falls

__all__ = ["sioux_falls"]

AFFINE, BPR = Latency(1.0, 1.0), Latency(0.15, 4.0)


class Here:
    """All blocks in this process, one after the other."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []

    def open(self, parts: Sequence[Part]) -> None:
        self._blocks = [Block(part) for part in parts]

    def each(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(block, method)(*arguments) for block in self._blocks]


@pytest.mark.parametrize(
    ("latency", "objective"),
    [(AFFINE, "system_optimum"), (BPR, "system_optimum"), (BPR, "user_equilibrium")],
)
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_sioux_falls_in_blocks(
    sioux_falls: tuple[Network, np.ndarray], latency: Latency, objective: Objective, blocks: int
) -> None:
    network, demand = sioux_falls
    whole = assign(network, latency, demand, objective, gap=1e-12)
    found = assign_in_blocks(Here(), blocks, network, latency, demand, objective)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-8
    assert np.abs(found.link_flows - whole.link_flows).max() <= 1e-5 * whole.link_flows.max()
    assert found.total_travel_time == pytest.approx(whole.total_travel_time, rel=1e-6)
    np.testing.assert_allclose(link_flows_of(found.paths, demand), found.link_flows, rtol=1e-9)
    assert found.paths.pair_start.size == whole.paths.pair_start.size
    assert np.diff(found.paths.pair_start).min() >= 1
    sums = np.add.reduceat(found.paths.share, found.paths.pair_start[:-1])
    np.testing.assert_allclose(sums, 1, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_random_networks_in_blocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 30, 9, centroids=seed % 2 == 0, steep=0.1)
    demand = rng.exponential(2, (9, 9)) * (rng.random((9, 9)) < 0.7)  # some pairs have none
    # Affine: such networks are so full that blocks creep to a hundred-thousandth under a latency of
    # the fourth power.
    found = assign_in_blocks(Here(), 4, network, AFFINE, demand, "user_equilibrium", gap=1e-5)
    whole = assign(network, AFFINE, demand, "user_equilibrium", gap=1e-12)
    assert found.relative_gap <= 1e-5
    assert found.total_travel_time == pytest.approx(whole.total_travel_time, rel=1e-3)
    np.testing.assert_allclose(
        link_flows_of(found.paths, demand), found.link_flows, rtol=1e-9, atol=1e-9
    )


def test_what_assign_refuses_and_unusual_sizes(sioux_falls: tuple[Network, np.ndarray]) -> None:
    network, demand = sioux_falls
    alone = Network(2, 2, 0, np.array([0]), np.array([1]), np.ones(1), np.ones(1))
    both = np.array([[0.0, 1.0], [1.0, 0.0]])
    for blocks in (1, 2):
        with pytest.raises(ValueError, match="no path leads from zone 1 to zone 0"):
            assign_in_blocks(Here(), blocks, alone, AFFINE, both, "system_optimum")
    nobody = assign_in_blocks(Here(), 3, network, BPR, 0 * demand, "system_optimum")
    assert nobody.relative_gap == 0
    assert nobody.link_flows.max() == 0
    one = assign_in_blocks(
        Here(), 3, Network(1, 1, 0, *[np.empty(0)] * 4), BPR, np.zeros((1, 1)), "system_optimum"
    )
    assert one.paths.pair_start.tolist() == [0]
    most = assign_in_blocks(Here(), 100, network, BPR, demand, "system_optimum", max_iterations=3)
    assert (most.status, most.iterations) == ("iteration_limit", 3)
    np.testing.assert_allclose(link_flows_of(most.paths, demand), most.link_flows, rtol=1e-9)


def test_assign_goes_where_it_is_told(sioux_falls: tuple[Network, np.ndarray]) -> None:
    network, demand = sioux_falls
    calls = []

    def other(*arguments: object, **more: object) -> object:
        calls.append((arguments, more))
        return "done"

    token = elsewhere.set(other)  # type: ignore[arg-type]
    try:
        assert assign(network, BPR, demand, "system_optimum", gap=1e-5) == "done"
    finally:
        elsewhere.reset(token)
    assert calls[0][1] == {"gap": 1e-5, "max_iterations": 500, "progress": None}
    assert assign(network, BPR, demand, "system_optimum", gap=1e-5).status == "converged"

"""Method auto answers the same in any unit: a few of what `python -m benchmarks.units` runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import units


@pytest.mark.parametrize("seed", [5])
def test_an_instance_settles_at_its_optimum_in_any_unit(seed: int) -> None:
    """Before, boxes a thousand times wider were `converged` more than a hundredth off, and other
    units of variables never."""
    done = []
    for name, best, run in units.variants(seed):
        agents = units.play(run, seed)
        assert agents[0].settled(1e-3), (name, agents[0].why)
        assert agents[0].why == ""
        assert units.off(run, agents, best) <= 1e-4, name
        done.append(agents[0].done)
    assert max(done) <= min(done) + 10


@pytest.mark.parametrize("seed", [3])
def test_linear_costs_settle_where_they_are_right_or_not_at_all(seed: int) -> None:
    one = units.random_instance(seed, curvature=0.0)
    agents = units.play(one, seed, most=60)
    if agents[0].settled(1e-3):
        best = one.optimum()
        cost = [
            sum(float(a @ x) for a, x in zip(one.a_l, xs, strict=True))
            + float(np.sum((np.hstack(one.A_u) @ np.concatenate(xs) + one.c) ** 2)) / 2
            for xs in ([agent.x for agent in agents], best)
        ]
        assert cost[0] == pytest.approx(cost[1], rel=1e-3)
    else:
        assert "x is no optimum" in agents[0].why

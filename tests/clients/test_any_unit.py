"""Method auto answers the same in any unit: a few of what `python -m benchmarks.units` runs."""

from __future__ import annotations

from dataclasses import replace

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


@pytest.mark.parametrize("slack", [1e6, 1e9])
def test_a_limit_kept_with_room_says_nothing_of_how_large_x_is(slack: float) -> None:
    """Two that want 3 and 4 of what a third makes, below a limit a million times higher: right is
    2/3, 5/3 and 7/3. Windows by that limit hid errors of the haze, and those of the other row."""
    half = np.full((1, 1), 1.0)
    wants, makes = (np.array([[sign], [1.0]]) for sign in (1.0, -1.0))
    one = units.Instance(
        A_u=[np.zeros((0, 1))] * 3,
        A_g=[wants, wants, makes],
        A_q=[half] * 3,
        a_l=[np.array([-2.0 * wish]) for wish in (3, 4, 1e-3)],
        lower=[np.zeros(1)] * 3,
        upper=[np.full(1, slack)] * 3,
        c=np.zeros(0),
        d=np.array([0.0, -4 * slack]),
        units=[np.ones(1)] * 3,
    )
    agents = units.play(one, 0)
    assert agents[0].settled(1e-3), agents[0].why
    assert [float(agent.x[0]) for agent in agents] == pytest.approx([0.667, 1.667, 2.334], abs=1e-3)
    alone = units.play(replace(one, A_g=[wants] * 3), 0)
    loose = units.play(replace(one, A_g=[np.ones((1, 1))] * 3, d=one.d[1:]), 0)
    assert loose[0].settled(1e-3), loose[0].why
    assert [float(agent.x[0]) for agent in loose] == pytest.approx([3, 4, 1e-3], abs=1e-3)
    # Where nobody can have anything of the first row, all are at 0.
    if alone[0].settled(1e-3):
        assert [float(agent.x[0]) for agent in alone] == pytest.approx([0, 0, 0], abs=1e-3)

"""Signals against plain code: what loads that follow them do, pay and save; and the guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control import signals

Floats = Any
MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]])


def chains(worlds: int, seed: int) -> Floats:
    """float64[worlds, 4, 4] on a sparse support."""
    found = np.random.default_rng(seed).dirichlet(np.ones(4), (worlds, 4)) * MASK
    return found / found.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("scale", [1.0, 4000.0])
@pytest.mark.parametrize("blocks", [False, True])
def test_what_follows_is_what_the_policy_of_each_load_does(scale: float, blocks: bool) -> None:
    """By `follower`, `propagate` and `evaluate`; signals that underflow at 4000 included."""
    rng, T, gamma = np.random.default_rng(8), 7, 0.7
    worlds = np.stack([chains(3, 1), chains(3, 2)], axis=1) if blocks else chains(3, 1)
    at = np.array([0, 1, 1, 0, 1, 0]) if blocks else None
    utility, power = scale * rng.normal(size=(T, 4)), rng.random(4)
    starts = rng.dirichlet(np.ones(4), 3)
    optimal = signals.cost_to_go(worlds, utility, gamma, at=at)
    every = np.array([*optimal, scale * rng.normal(size=(T, 4)), np.zeros((T, 4))])
    saved = signals.savings(worlds, every, utility, gamma, starts, at=at)
    costs = signals.costs(worlds, every, utility, gamma, at=at, steps=True)
    for place, signal in enumerate(every):
        found = signals.followed(worlds, signal, utility, gamma, starts, power, at=at)
        for world, (P, start) in enumerate(zip(worlds, starts, strict=True)):
            policy = signals.follower(P, signal, gamma, at=at)
            value = lsmdp.evaluate(policy, P, utility, gamma, at=at)
            alone = lsmdp.propagate(start, P, T, at=at)
            load = lsmdp.propagate(start, policy, T) @ power
            assert found.expected_power[world] == pytest.approx(load, rel=1e-9)
            assert found.default_power[world] == pytest.approx(alone @ power, rel=1e-9)
            assert found.cost_to_go[world] == pytest.approx(-value[0], rel=1e-9, abs=1e-9)
            assert costs[world, place] == pytest.approx(-value, rel=1e-9, abs=1e-9)
            saving = -(alone * utility).sum() + start @ value[0]
            tolerance = 1e-9 * scale
            assert found.saving[world] == pytest.approx(saving, rel=1e-6, abs=tolerance)
            assert saved[world, place] == pytest.approx(saving, rel=1e-6, abs=tolerance)
    assert (saved[:, -1] == 0).all()  # no control saves nothing, not a rounding
    # Nothing saves more than a load's own cost to go; it is the policy of the linear problem.
    own = saved[np.arange(3), np.arange(3)]
    assert (own[:, None] >= saved - 1e-9 * scale).all()
    if not blocks:
        best = lsmdp.solve(worlds[0], utility, gamma)
        followed = signals.follower(worlds[0], optimal[0], gamma)
        assert followed.transitions == pytest.approx(best.transitions, abs=1e-9)


def test_ordering_probabilities_costs_what_the_evaluation_says() -> None:
    rng, T, gamma = np.random.default_rng(3), 6, 0.5
    worlds = np.stack([chains(4, 5), chains(4, 6)], axis=1)
    at, utility = np.array([0, 1, 0, 1, 1]), rng.normal(size=(T, 4))
    start = rng.dirichlet(np.ones(4))
    policy = lsmdp.solve(worlds[0], utility, gamma, at=at)
    (first, rest) = signals.ordered([worlds[:1], worlds[1:]], policy, utility, gamma, start, at=at)
    for P, saved in zip(worlds, [*first, *rest], strict=True):
        value = lsmdp.evaluate(policy, P, utility, gamma, at=at)[0]
        alone = lsmdp.propagate(start, P, T, at=at)
        assert saved == pytest.approx(start @ value - (alone * utility).sum(), rel=1e-9)
    never = np.eye(4)[None, None].repeat(
        2, axis=1
    )  # moves that loads never make cost, but finitely
    assert -1e4 < signals.ordered([never], policy, utility, gamma, start, at=at)[0][0] < 0


def test_a_signal_comonotone_with_the_cost_without_control_never_loses() -> None:
    """The guarantee of the module's docstring, over 1,000 random chains, costs of any sign and
    signals from a part to all of the differences of D; without the condition some lose."""
    rng, lost = np.random.default_rng(42), 0
    for trial in range(1000):
        n, T = int(rng.integers(2, 7)), int(rng.integers(2, 9))
        gamma = float(np.exp(rng.uniform(-3, 2)))
        P = rng.dirichlet(np.full(n, rng.uniform(0.1, 2)), n)[None]
        utility = rng.normal(size=(T, n))
        alone = signals.without_control(P, utility)[0]
        order = np.argsort(alone, axis=1)
        # Differences between states next to each other in the order of D, each cut by its own part.
        gaps = np.diff(np.take_along_axis(alone, order, axis=1), axis=1)
        cut = np.cumsum(gaps * rng.random(gaps.shape), axis=1)
        signal = np.zeros((T, n))
        np.put_along_axis(signal, order, np.pad(cut, ((0, 0), (1, 0))), axis=1)
        start = np.eye(n)[trial % n]
        saved = signals.savings(P, signal[None], utility, gamma, start)[0, 0]
        assert saved >= -1e-12
        other = signals.savings(P, 3 * signal[None, :, ::-1], utility, gamma, start)[0, 0]
        lost += other < -1e-9
    assert lost > 300


def test_loads_with_a_matrix_each_save_by_one_signal_where_no_policy_does() -> None:
    """200 households whose habits differ follow the cost to go of their mean matrix; the policy of
    it, noiseless, costs most of them more than no control."""
    rng, T, gamma = np.random.default_rng(5), 48, 0.2
    near = np.exp(-np.abs(np.subtract.outer(np.arange(5), np.arange(5))) / 1.5)
    near *= [0.5, 0.25, 0.15, 0.07, 0.03]
    near /= near.sum(axis=1, keepdims=True)
    stay = rng.uniform(0.3, 0.9, 200)[:, None, None]
    own = rng.dirichlet(20 * near[0], (200, 5))
    each = stay * np.eye(5) + (1 - stay) * own
    power = np.array([0.15, 0.55, 1.2, 2.3, 4.5])
    price = np.where((np.arange(T) >= 34) & (np.arange(T) < 42), 0.1, 0.05)
    utility, start = -np.outer(price, power), np.array([0.5, 0.25, 0.15, 0.07, 0.03])
    common = each.mean(axis=0)
    signal = signals.cost_to_go(common[None], utility, gamma)
    saved = signals.savings(each, signal, utility, gamma, start)[:, 0]
    best = signals.savings(common[None], signal, utility, gamma, start)[0, 0]
    assert saved.min() > 0
    assert saved.mean() > 0.7 * best
    (ordered,) = signals.ordered([each], lsmdp.solve(common, utility, gamma), utility, gamma, start)
    assert np.mean(ordered < 0) > 0.5

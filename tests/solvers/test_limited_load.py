"""Policies within limits on the expected load, against convex programmes in flows and linear
ones."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.limited_load import Limits, least_changes, least_loads, priced
from discreet.solvers.errors import InvalidArgument

Floats = np.ndarray[Any, np.dtype[np.float64]]
N, T, GAMMA = 4, 7, 0.8
POWER = np.array([0.0, 1.0, 2.5, 4.0])


def chain(seed: int, blocks: int = 1) -> tuple[Floats, Floats, Floats]:
    """Transitions of neighbours alone, float64[blocks, n, n], a utility and a start."""
    rng = np.random.default_rng(seed)
    near = np.abs(np.subtract.outer(np.arange(N), np.arange(N))) <= 1
    P = rng.gamma(0.7, size=(blocks, N, N)) * near + 0.02 * near
    return (
        P / P.sum(axis=2, keepdims=True),
        -np.outer(rng.uniform(0, 0.6, T), POWER),
        rng.dirichlet(np.ones(N)),
    )


def everywhere(feeder: float = np.inf, ramp: float = np.inf) -> Limits:
    return Limits(np.full(T, feeder), np.full(T - 1, ramp))


def best_flows(
    P: Floats, at: Any, U: Floats, start: Floats, limits: Limits
) -> tuple[float, Floats]:
    """The value and the load of the best policy within the limits: an exponential-cone programme in
    flows."""
    flows = [cp.Variable((N, N), nonneg=True) for _ in range(T - 1)]
    spread = [start, *(cp.sum(flow, axis=0) for flow in flows)]
    rules = [cp.sum(flow, axis=1) == mass for flow, mass in zip(flows, spread, strict=False)]
    value = sum(U[t] @ spread[t] for t in range(T))
    for t, flow in enumerate(flows):
        matrix = P[at[t]]
        rules.append(cp.multiply(flow, matrix == 0) == 0)
        for b, a in zip(*np.nonzero(matrix), strict=True):
            value -= GAMMA * cp.rel_entr(flow[b, a], spread[t][b] * matrix[b, a])
    load = [POWER @ mass for mass in spread]
    rules += [load[t] <= limits.feeder[t] for t in range(1, T) if np.isfinite(limits.feeder[t])]
    for t in np.flatnonzero(np.isfinite(limits.ramp)):
        rules += [load[t + 1] - load[t] <= limits.ramp[t], load[t] - load[t + 1] <= limits.ramp[t]]
    problem = cp.Problem(cp.Maximize(value), rules)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert problem.status == cp.OPTIMAL
    return float(problem.value), np.array([float(getattr(one, "value", one)) for one in load])


def answer(
    P: Floats, at: Any, U: Floats, start: Floats, limits: Limits
) -> tuple[float, Floats, Floats]:
    """Ours: the value under the true utility, the load, and the price."""
    price, _ = priced(P, U, GAMMA, start, POWER, limits, at=at)
    policy = lsmdp.solve(P, U - np.outer(price, POWER), GAMMA, at=at)
    load = lsmdp.expected_power(lsmdp.propagate(start, policy, T), POWER)
    return float(start @ lsmdp.evaluate(policy, P, U, GAMMA, at=at)[0]), load, price


@pytest.mark.parametrize("seed", range(4))
def test_the_policy_is_the_best_one_within_the_limits(seed: int) -> None:
    at = np.array([0, 0, 1, 1, 0, 1])
    P, U, start = chain(seed, 2)
    free = lsmdp.expected_power(lsmdp.propagate(start, lsmdp.solve(P, U, GAMMA, at=at), T), POWER)
    bound = (0.8 * free.max() + 0.2 * free.min(), 0.5 * np.abs(np.diff(free)).max())
    binding = 0
    for feeder, ramp in ((bound[0], np.inf), (np.inf, bound[1]), bound):
        limits = everywhere(feeder, ramp)
        if (least_loads(np.any(P > 0, axis=0), start, POWER, T) > limits.feeder).any():
            limits.feeder[:2] = np.inf
        exact, wanted = best_flows(P, at, U, start, limits)
        value, load, price = answer(P, at, U, start, limits)
        assert not any(one.any() for one in limits.excess(load, 4.0))
        assert value == pytest.approx(exact, abs=2e-6)
        assert load == pytest.approx(wanted, abs=1e-4)
        binding += bool(np.abs(price).max() > 1e-3)
    assert binding >= 2  # else nothing was limited


def test_limits_that_bind_nowhere_change_nothing() -> None:
    P, U, start = chain(7)
    price, multipliers = priced(P[0], U, GAMMA, start, POWER, everywhere(10.0, 10.0))
    assert not price.any()
    assert not multipliers.any()
    assert not priced(P[0], U, GAMMA, start, POWER, everywhere())[0].any()


def test_the_price_is_what_a_little_more_of_the_limit_is_worth() -> None:
    P, U, start = chain(2)
    at = np.zeros(T - 1, dtype=np.int64)
    free = answer(P, at, U, start, everywhere())[1]
    step = 1 + int(np.argmax(free[1:]))
    limits, more = everywhere(), everywhere()
    limits.feeder[step], more.feeder[step] = 0.9 * free[step], 0.9 * free[step] + 1e-4
    value, _, price = answer(P, at, U, start, limits)
    assert price[step] == pytest.approx((answer(P, at, U, start, more)[0] - value) / 1e-4, rel=1e-3)
    assert np.count_nonzero(price) == 1


def test_limits_that_cannot_be_kept_are_exceeded_least() -> None:
    P, U, _ = chain(3)
    at, start = np.zeros(T - 1, dtype=np.int64), np.array([0.0, 0.0, 0.0, 1.0])
    limits = everywhere(1.0)
    load = answer(P, at, U, start, limits)[1]
    least = least_loads(P[0] > 0, start, POWER, T)
    assert least.tolist() == [4, 2.5, 1, 0, 0, 0, 0]
    over, faster = limits.excess(load, 4.0)
    assert np.flatnonzero(over > 0.01).tolist() == [0, 1]
    assert load[:3] == pytest.approx(
        least[:3], abs=0.01
    )  # as little as can be, at a price that is as much as can be
    assert not faster.any()


def test_of_limits_against_each_other_the_least_excess_is_that_of_a_linear_programme() -> None:
    """A start at full power, a feeder below it and a slow ramp: one has to give."""
    P, U, _ = chain(5)
    at, start = np.zeros(T - 1, dtype=np.int64), np.array([0.0, 0.0, 0.0, 1.0])
    limits = everywhere(2.0, 0.5)
    load = answer(P, at, U, start, limits)[1]
    over, faster = limits.excess(load, 4.0)
    assert over[1:].sum() + faster.sum() == pytest.approx(
        _least_excess(P[0] > 0, start, limits), rel=0.01
    )


def _least_excess(mask: Any, start: Floats, limits: Limits) -> float:
    """Of the sum over all limits but that of step 0, by any flows on the support."""
    cells = np.argwhere(mask)
    flows, slack = (T - 1) * len(cells), (T - 1) + (T - 1)
    equal, right = [], []
    for t, state in itertools.product(range(T - 1), range(N)):
        row = np.zeros(flows + slack)
        row[t * len(cells) + np.flatnonzero(cells[:, 0] == state)] = 1
        if t:
            row[(t - 1) * len(cells) + np.flatnonzero(cells[:, 1] == state)] = -1
        equal.append(row)
        right.append(0.0 if t else start[state])
    loads = np.zeros((T, flows + slack))
    for t in range(1, T):
        loads[t, (t - 1) * len(cells) : t * len(cells)] = POWER[cells[:, 1]]
    below, most = [], []
    for t in range(1, T):
        row = loads[t].copy()
        row[flows + t - 1] = -1
        below.append(row)
        most.append(limits.feeder[t])
        for sign in (1, -1):
            row = sign * (loads[t] - loads[t - 1])
            row[flows + T - 2 + t] = -1
            below.append(row)
            most.append(limits.ramp[t - 1] + (sign * float(start @ POWER) if t == 1 else 0.0))
    cost = np.concatenate([np.zeros(flows), np.ones(slack)])
    found = linprog(cost, A_ub=np.array(below), b_ub=most, A_eq=np.array(equal), b_eq=right)
    assert found.status == 0
    return float(found.fun)


def test_least_loads_and_changes_are_those_of_all_ways() -> None:
    rng = np.random.default_rng(4)
    for _ in range(5):
        mask = rng.random((N, N)) < 0.5
        mask[np.arange(N), rng.integers(0, N, N)] = True
        start = rng.dirichlet(np.ones(N))
        loads, changes = least_loads(mask, start, POWER, 5), least_changes(mask, start, POWER, 5)
        ways = {state: [[state]] for state in range(N)}
        for _ in range(4):
            ways = {
                state: [[*way, to] for way in all_of for to in np.flatnonzero(mask[way[-1]])]
                for state, all_of in ways.items()
            }
        for step in range(5):
            least = sum(start[b] * min(POWER[way[step]] for way in ways[b]) for b in range(N))
            assert loads[step] == pytest.approx(least)
        for step in range(4):
            low, high = (
                sum(
                    start[b] * end(POWER[way[step + 1]] - POWER[way[step]] for way in ways[b])
                    for b in range(N)
                )
                for end in (min, max)
            )
            assert changes[step] == pytest.approx(max(low, -high, 0.0))


def test_utilities_that_underflow_change_no_limit() -> None:
    """At a discomfort of nothing beside the price, sums of desirabilities underflow, and rows are
    summed in logarithms."""
    P, U, start = chain(1)
    at, limits = np.zeros(T - 1, dtype=np.int64), everywhere(np.inf, 0.6)
    steep = 2e3 * U
    price, _ = priced(P, steep, GAMMA, start, POWER, limits, at=at)
    policy = lsmdp.solve(P, steep - np.outer(price, POWER), GAMMA, at=at)
    load = lsmdp.expected_power(lsmdp.propagate(start, policy, T), POWER)
    assert np.abs(np.diff(load)).max() == pytest.approx(0.6, abs=1e-3)


def test_a_guess_nearby_finds_the_same() -> None:
    P, U, start = chain(2)
    limits = everywhere(1.6, 0.4)
    limits.feeder[:2] = np.inf
    price, multipliers = priced(P[0], U, GAMMA, start, POWER, limits)
    again, _ = priced(P[0], U, GAMMA, start, POWER, limits, guess=0.9 * multipliers + 0.01)
    assert again == pytest.approx(price, abs=1e-4)


def test_limits_of_another_horizon_are_refused() -> None:
    P, U, start = chain(0)
    with pytest.raises(InvalidArgument, match="of a horizon of 7"):
        priced(P[0], U, GAMMA, start, POWER, Limits(np.ones(3), np.ones(2)))

"""Convex costs and polytopes of an agent: minima and projections against CVXPY, linear programs and
the conditions of optimality; what has no bounded slope is refused."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, linprog

from discreet_agent.best_responses import Responder, own_haze
from discreet_agent.convex_sets import Box, BudgetedBox, ConvexSet, Polytope
from discreet_agent.cost_terms import (
    MOST_NUMBERS,
    BadTerm,
    Entropy,
    LogBarrier,
    PiecewiseLinear,
    Power,
    Term,
)
from discreet_agent.costs import ConvexCost, QuadraticCost, cost_of
from tests.solvers.test_spds import cost_by_cvxpy

Floats = NDArray[np.float64]
POWERS = (1.05, 1.5, 1.9, 2.0, 2.5, 4.0)


def box(random: np.random.Generator, size: int) -> tuple[Floats, Floats, Floats]:
    """Both sides, and a point between."""
    lower = random.uniform(-2, 0, size)
    upper = lower + random.uniform(0.1, 3, size)
    return lower, upper, lower + (upper - lower) * random.random(size)


def polytope(random: np.random.Generator, size: int, budget: bool = False) -> Polytope:
    lower, upper, inside = box(random, size)
    pinned = random.random(size) < 0.1
    upper[pinned] = lower[pinned]
    inside = np.clip(inside, lower, upper)
    A = random.normal(size=(int(random.integers(1, 8)), size))
    b = A @ inside + random.uniform(0, 0.3, len(A)) * (random.random(len(A)) > 0.3)
    total = float(inside.sum())
    return Polytope.within(lower, upper, A, b, (total, total) if budget else None)


def a_term(random: np.random.Generator, kind: str, domain: ConvexSet, inside: Floats) -> Term:
    A = random.normal(size=(int(random.integers(1, 4)), inside.size))
    weight, (lower, upper) = float(random.uniform(0.1, 3)), domain.sides
    near = 10.0 ** random.uniform(-4, 0, len(A))
    if kind == "power":
        b = A @ inside + random.normal(size=len(A)) * (random.random() > 0.3)
        return Power(A, b, weight, float(random.choice(POWERS)))
    if kind == "piecewise_linear":
        return PiecewiseLinear(A, A @ inside + random.normal(size=len(A)), weight)
    if kind == "log_barrier":
        return LogBarrier(A, np.maximum(A * lower, A * upper).sum(axis=1) + near, weight)
    return Entropy(A, np.minimum(A * lower, A * upper).sum(axis=1) - near, weight)


# Sets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_projection_on_a_polytope_is_exact(seed: int) -> None:
    """`(v - y)·(z - y) <= 0` for all z of the set says that y is the projection of v (a linear
    program finds the worst z), for points far away, near and on the boundary."""
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 9))
    domain = polytope(random, size, budget=seed % 3 == 0)
    A = np.vstack([domain.R, -domain.R])
    b = np.concatenate([domain.most, -domain.least])
    A, b = A[np.isfinite(b)], b[np.isfinite(b)]
    middle = domain.project((domain.lower + domain.upper) / 2)
    for v in (3 * random.normal(size=size), middle, 1e4 * random.normal(size=size)):
        y = domain.project(v)
        assert np.all((domain.lower <= y) & (y <= domain.upper))
        assert float(np.max(A @ y - b)) < 1e-9
        worst = linprog(
            y - v, A_ub=A, b_ub=b, bounds=list(zip(domain.lower, domain.upper, strict=True))
        )
        assert float((v - y) @ (worst.x - y)) < 1e-9 * max(1.0, float(np.abs(v - y).max()))


def test_a_polytope_that_is_a_budget_projects_as_the_budget_does() -> None:
    random = np.random.default_rng(5)
    lower, upper, inside = box(random, 6)
    total = float(inside.sum())
    budget = BudgetedBox(lower, upper, total, total + 0.1)
    same = Polytope.within(lower, upper, np.zeros((0, 6)), np.zeros(0), (total, total + 0.1))
    H = np.diag(random.uniform(0.5, 2, 6))
    for _ in range(5):
        v = 3 * random.normal(size=6)
        np.testing.assert_allclose(same.project(v), budget.project(v), atol=1e-9)
        found, start = budget.minimum(H, v, inside), inside
        np.testing.assert_allclose(same.minimum(H, v, start), found, atol=1e-9)


def test_empty_and_shapeless_polytopes_are_refused() -> None:
    lower, upper, one = np.zeros(2), np.ones(2), np.ones((1, 2))
    cases: list[tuple[tuple[Any, ...], str]] = [
        (
            (lower, upper, one, np.array([-1.0])),
            "no point in the box: the nearest one violates row 0 by 1",
        ),
        ((lower, upper, np.vstack([one, -one]), np.array([1.0, -1.1])), "no point in the box"),
        ((lower, upper, one, np.array([0.5]), (0.6, 1.0)), "no point in the box"),
        ((lower, upper, np.ones((1, 3)), np.ones(1)), "2 columns"),
        ((lower, upper, one, np.ones(2)), "one limit a row"),
        ((lower, upper, one, np.array([np.nan])), "limits of a polytope"),
        ((lower, upper, one * 1e13, np.ones(1)), "numbers up to 1e\\+12"),
        ((lower, upper * np.inf, one, np.ones(1)), "a box needs finite bounds"),
        ((upper, lower, one, np.ones(1)), "a box needs finite bounds"),
        ((lower, upper, np.ones((600, 2)), np.ones(600)), f"at most {MOST_NUMBERS}"),
    ]
    for arguments, says in cases:
        with pytest.raises(ValueError, match=says):
            Polytope.within(*arguments)
    edge = Polytope.within(lower, upper, np.vstack([one, -one]), np.array([1.0, -1.0]))
    assert edge.project(np.array([2.0, 0.0])) == pytest.approx([1.0, 0.0], abs=1e-12)
    huge = Polytope.within(lower, upper, 1e12 * one, np.array([1e12]))
    tiny = Polytope.within(lower, upper, 1e-200 * one, np.array([1e-200]))
    for same in (huge, tiny):
        assert same.project(np.array([2.0, 1.0])) == pytest.approx([1.0, 0.0], abs=1e-9)
    nothing = Polytope.within(lower, upper, np.zeros((1, 2)), np.zeros(1))
    assert nothing.project(np.array([2.0, 0.5])) == pytest.approx([1.0, 0.5], abs=1e-12)
    assert huge.project(np.array([1e300, 1e300])) == pytest.approx([0.5, 0.5], abs=1e-6)


# Costs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_best_point_at_prices_against_cvxpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 9))
    lower, upper, inside = box(random, size)
    total = float(inside.sum())
    A = random.normal(size=(3, size))
    domain = (
        Box(lower, upper),
        BudgetedBox(lower, upper, total, total + 0.1 * (seed % 2)),
        Polytope.within(lower, upper, A, A @ inside + random.uniform(0, 0.3, 3)),
    )[seed % 3]
    kinds = random.choice(["power", "piecewise_linear", "log_barrier", "entropy"], 2)
    terms = tuple(a_term(random, kind, domain, inside) for kind in kinds)
    A_q = random.normal(size=(int(random.integers(0, size + 1)), size))
    cost = ConvexCost(QuadraticCost(A_q, 3 * random.normal(size=size)), terms)
    cost.check(domain)
    prices = random.normal(size=size)
    x = cost.minimum(domain, prices, np.zeros(prices.size), inside, inside)
    v, (R, least, most) = cp.Variable(size), domain.rows
    kept = [v >= lower, v <= upper]
    kept += [row @ v <= end for row, end in zip(R, most, strict=True)]
    kept += [row @ v >= end for row, end in zip(R, least, strict=True) if np.isfinite(end)]
    problem = cp.Problem(cp.Minimize(cost_by_cvxpy(cost, v) + prices @ v), kept)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    assert cost.value(x) + prices @ x <= problem.value + 1e-8 * max(1.0, abs(problem.value))
    assert np.all((lower <= x) & (x <= upper))
    assert np.max(np.concatenate([R @ x - most, least - R @ x]), initial=-1) < 1e-9


@pytest.mark.parametrize("kind", ["power", "log_barrier", "entropy"])
def test_slopes_and_curvatures_are_those_of_the_values(kind: str) -> None:
    """By differences; and the bounds over the box hold at its points."""
    random = np.random.default_rng(11)
    for _ in range(10):
        lower, upper, inside = box(random, 3)
        term = a_term(random, kind, Box(lower, upper), inside)
        if term.kinked:
            continue
        for place in range(3):
            x = lower + (upper - lower) * random.uniform(0.3, 0.7, 3)
            by_differences = approx_fprime(x, term.value, 1e-7)
            np.testing.assert_allclose(term.gradient(x), by_differences, rtol=1e-3, atol=1e-4)
            along = approx_fprime(x, lambda at: term.gradient(at)[place], 1e-7)  # noqa: B023
            np.testing.assert_allclose(term.curvature(x)[place], along, rtol=1e-3, atol=1e-3)
            bends = [term.with_bends(one) for one in term.bends(*term.span(lower, upper))]
            for larger, smaller in (
                (term.curvature(x), bends[0]),
                (bends[1], term.curvature(x)),
            ):
                scale = float(np.abs(larger).max())
                assert np.linalg.eigvalsh(larger - smaller)[0] > -1e-9 * scale
            assert np.all(np.abs(term.gradient(x)) <= term.steepest(lower, upper) * (1 + 1e-9))


def test_a_matrix_of_quadratic_costs_is_not_diagonal_of_necessity() -> None:
    P = np.array([[2.0, 1.0], [1.0, 0.5]])  # of rank one
    cost = cost_of(np.zeros((0, 2)), np.ones(2), [{"kind": "quadratic", "P": P.tolist()}])
    assert isinstance(cost, QuadraticCost)
    for x in np.random.default_rng(0).normal(size=(5, 2)):
        assert cost.value(x) == pytest.approx(x @ P @ x / 2 + x.sum())
        np.testing.assert_allclose(cost.gradient(x), P @ x + 1)


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ({"kind": "quadratic", "P": [[1, 2], [2, 1]]}, "least eigenvalue is -1: the cost is not"),
        ({"kind": "quadratic", "P": [[1, 2], [0, 1]]}, "P must be symmetric"),
        ({"kind": "quadratic", "P": [[1]]}, "P must be 2 by 2"),
        (
            {"kind": "quadratic", "P": [[1, 0], [0, 1]], "weight": 2},
            "it needs P and no other field",
        ),
        ({"kind": "power", "power": 1}, "above 1 and at most 10, not 1"),
        ({"kind": "power", "power": 11}, "above 1 and at most 10"),
        ({"kind": "power", "weight": -1}, "the weight must be positive, not -1"),
        ({"kind": "power", "weight": math.nan}, "the weight must be positive"),
        ({"kind": "power", "b": [1, 2, 3]}, "term 0"),
        ({"kind": "power", "A": [[1]]}, "A needs 2 columns"),
        ({"kind": "power", "A": []}, "A needs 2 columns"),
        ({"kind": "power", "A": [[1, math.inf]]}, "numbers between -1e\\+12 and 1e\\+12"),
        ({"kind": "power", "weight": 1e13}, "reaches 2e\\+13 in the box"),
        ({"kind": "entropy"}, "row 0 A x - b comes to 0 in the box, and the slope of u log u"),
        ({"kind": "entropy", "b": -1e-8}, "has no bound at 0: raise lower, or lower b"),
        ({"kind": "log_barrier", "b": 1}, "row 0 the box reaches the barrier, where its slope"),
        ({"kind": "log_barrier", "A": [[1, 1]], "b": 1.5}, "A x comes to 2, and b, 1.5, must be"),
        ({"kind": "hinge"}, "one of quadratic, power, piecewise_linear, log_barrier, entropy"),
        ({"kind": "entropy", "power": 2}, "it has no field power"),
        ({"A": [[1, 1]]}, "not None"),
    ],
)
def test_what_is_not_convex_or_has_no_bounded_slope_is_refused(
    term: dict[str, Any], says: str
) -> None:
    with pytest.raises(BadTerm, match=says) as refused:
        cost_of(np.zeros((0, 2)), np.zeros(2), [term]).check(Box(np.zeros(2), np.ones(2)))
    assert refused.value.place == 0


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_numbers_that_cannot_be_reckoned_with_are_refused_of_any_cost(number: float) -> None:
    """The slope of a finite number may be none; in a session the agent would leave there."""
    domain = Box(np.zeros(2), np.ones(2))
    terms: list[list[dict[str, Any]]] = [[], [{"kind": "power"}]]
    for given in terms:
        for A_q, a_l in ((np.full((1, 2), number), np.zeros(2)), (np.eye(2), np.full(2, number))):
            with pytest.raises(ValueError, match="A_q and a_l must hold numbers between"):
                cost_of(A_q, a_l, given).check(domain)


def test_boxes_without_ends_and_too_many_rows_are_refused() -> None:
    cost = cost_of(np.zeros((0, 2)), np.zeros(2), [{"kind": "power"}])
    with pytest.raises(ValueError, match="boxes with finite bounds"):
        cost.check(Box(np.zeros(2), np.full(2, np.inf)))
    many = cost_of(np.zeros((0, 2)), np.zeros(2), [{"kind": "power", "A": [[1, 1]] * 600}])
    with pytest.raises(ValueError, match=f"are 602; at most {MOST_NUMBERS}"):
        many.check(Box(np.zeros(2), np.ones(2)))
    several = cost_of(np.zeros((0, 2)), np.zeros(2), [{"kind": "power"}] * 17)
    with pytest.raises(ValueError, match="17 terms; at most 16"):
        several.check(Box(np.zeros(2), np.ones(2)))


# Answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["power", "piecewise_linear", "log_barrier", "entropy"])
def test_answers_come_to_the_best_point_and_say_how_far_they_are(kind: str) -> None:
    random = np.random.default_rng(4)
    lower, upper, inside = box(random, 3)
    domain = Box(lower, upper)
    term = a_term(random, kind, domain, inside)
    cost = ConvexCost(QuadraticCost(np.eye(3), random.normal(size=3)), (term,))
    A = random.normal(size=(2, 3))
    responder = Responder(A, cost, domain, 1, np.zeros(2))
    prices = random.normal(size=2)
    p = A.T @ prices
    best = cost.minimum(domain, p, np.zeros(3), inside, inside)
    least = cost.value(best) + p @ best
    regrets, apart = [], 1.0
    for _ in range(30):
        _, apart = responder.answer(prices)
        regrets.append(cost.value(responder.x) + p @ responder.x - least)
        responder.recentre()
    assert apart < 1e-6
    assert regrets[0] > 1e-3
    assert regrets[-1] < 1e-9
    np.testing.assert_allclose(responder.x, best, atol=1e-4)
    # Slopes bound how much answers fall with a price of their own.
    further = cost.minimum(domain, p + A[0], np.zeros(3), best, best)
    plain = Responder(A, cost, domain, 1, np.zeros(2), haze=False)
    assert A[0] @ (best - further) <= plain.slopes()[0] + 1e-7


def test_the_haze_follows_from_all_of_a_cost() -> None:
    """By the same haze two jobs, in the second of which one agent has another term, would differ by
    that agent's answer alone."""
    domain, plain = Box(np.zeros(2), np.ones(2)), np.zeros((0, 2))
    terms: list[list[dict[str, Any]]] = [
        [],
        [{"kind": "power", "power": 3}],
        [{"kind": "power", "power": 4}],
        [{"kind": "power", "power": 3, "weight": 2}],
        [{"kind": "entropy", "b": -1}],
        [{"kind": "log_barrier", "b": 2}],
        [{"kind": "log_barrier", "b": 3}],
    ]
    drawn = {
        own_haze(bytes(32), cost_of(plain, np.ones(2), one), domain, [])(0, 4).tobytes()
        for one in terms
    }
    assert len(drawn) == len(terms)
    inside = Polytope.within(np.zeros(2), np.ones(2), np.ones((1, 2)), np.ones(1))
    other = own_haze(bytes(32), cost_of(plain, np.ones(2), []), inside, [])(0, 4).tobytes()
    assert other not in drawn

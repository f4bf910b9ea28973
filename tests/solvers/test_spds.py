"""SPDS against the paper's example, CVXPY and the optimality conditions."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.solvers.saddle.spds import Part, Solution, solve, step_sizes
from discreet_client.convex_sets import Box, BudgetedBox
from discreet_client.cost_terms import Entropy, LogBarrier, PiecewiseLinear, Power
from discreet_client.costs import ConvexCost, Cost, QuadraticCost
from discreet_client.updates import Participant, Steps
from tests.conftest import first_of

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[2]
# vectors.json of the project, entry "huo": the optimum that the paper prints, with two more digits
# (eq. 21, Table I).
OPTIMUM = ((0, 0.52579), (0.43472, 0.06214), (0.10164, 0))
MULTIPLIERS = (0, 1.99372)
OBJECTIVE = 2.02364
TOLERANCE = 5e-5


def rows(*entries: Any) -> Floats:
    return np.array(entries, dtype=float)


def paper() -> tuple[list[Part], Floats, Floats]:
    """Huo & Liu, section V-A."""
    A_u = rows([-0.2, 0], [1, -0.5]), rows([0, -2], [0, -10]), rows([1, 0], [0, 1])
    A_g = rows([0, 1], [1, -1]), rows([0, 1], [-1, 1]), rows([0, 0], [-1, 1])
    A_q = rows([1, 0], [1, 1]), rows([0, 1], [1, 1]), rows([-1, 1], [-2, 1])
    a_l = rows(1, 1), rows(1, 0), rows(0, 1)
    parts = [
        Part(u, g, QuadraticCost(q, a), Box(0, 1))
        for u, g, q, a in zip(A_u, A_g, A_q, a_l, strict=True)
    ]
    return parts, rows(1, 1), rows(-1, 1)


def distance(one: Solution, other: Solution) -> float:
    """The largest difference of a variable or a multiplier."""
    apart = np.concatenate([*one.x, one.multipliers]) - np.concatenate(
        [*other.x, other.multipliers]
    )
    return float(np.max(np.abs(apart)))


def cost_by_cvxpy(cost: Cost, v: cp.Variable) -> cp.Expression:
    """The cost in CVXPY's own functions."""
    if isinstance(cost, ConvexCost):
        total = cost_by_cvxpy(cost.quadratic, v)
        for term in cost.terms:
            u = term.A @ v - term.b
            if isinstance(term, Power):
                total += term.weight * cp.sum(cp.power(cp.abs(u), term.power, approx=False))
            elif isinstance(term, PiecewiseLinear):
                total += term.weight * cp.max(u)
            elif isinstance(term, LogBarrier):
                total -= term.weight * cp.sum(cp.log(-u))
            else:
                assert isinstance(term, Entropy)
                total -= term.weight * cp.sum(cp.entr(u))
        return total
    assert isinstance(cost, QuadraticCost)
    squares = cp.sum_squares(cost.A_q @ v) if len(cost.A_q) else 0
    return squares + cost.a_l @ v


def by_cvxpy(parts: list[Part], c: Floats, d: Floats) -> tuple[Floats, float]:
    """All x behind one another, and the objective."""
    x = [cp.Variable(part.A_u.shape[1]) for part in parts]
    cost = cp.sum_squares(sum(part.A_u @ v for part, v in zip(parts, x, strict=True)) + c) / 2
    constraints = [sum(part.A_g @ v for part, v in zip(parts, x, strict=True)) + d <= 0]
    for part, v in zip(parts, x, strict=True):
        cost += cost_by_cvxpy(part.cost, v)
        low, high = part.domain.sides
        constraints += [v >= low, v <= high]
        for row, least, most in zip(*part.domain.rows, strict=True):
            constraints += [row @ v >= least] if np.isfinite(least) else []
            constraints += [row @ v <= most] if np.isfinite(most) else []
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return np.concatenate([v.value for v in x]), float(problem.value)


# The paper's example ------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [Steps(0.016, 0.8), Steps(0.016, 0.8, 0.99), None])
def test_the_example_reaches_its_optimum(steps: Steps | None) -> None:
    solution = solve(*paper(), steps=steps, iterations=5000)
    np.testing.assert_allclose(np.array(solution.x), OPTIMUM, atol=TOLERANCE)
    np.testing.assert_allclose(solution.multipliers, MULTIPLIERS, atol=TOLERANCE)
    assert solution.objective == pytest.approx(OBJECTIVE, abs=TOLERANCE)
    assert solution.violation < 1e-9


@pytest.mark.parametrize(
    ("steps", "needed"),
    [
        # Counted from zero, so one more update has been made. The paper says about 200 for the
        # first without saying of which error.
        ([Steps(0.016, 0.8)] * 3, 456),
        ([Steps(alpha, 0.8, 0.99) for alpha in (0.1, 0.016, 0.1)], 116),
    ],
)
def test_iterations_that_the_example_needs(steps: list[Steps], needed: int) -> None:
    optimum = solve(*paper(), iterations=4000)
    errors = [
        distance(solve(*paper(), steps=steps, iterations=k), optimum) for k in (needed, needed + 1)
    ]
    assert errors[0] > 1e-3 > errors[1]
    if needed > 200:
        assert distance(solve(*paper(), steps=steps, iterations=200), optimum) > 2e-3


def test_precision_sweep_of_figure_3() -> None:
    """Two, four and nine decimals: the gap to the exact iterates falls with the resolution, as in
    Figure 3."""
    exact = solve(*paper(), steps=Steps(0.016, 0.8), iterations=200)
    gaps = [
        distance(
            solve(*paper(), steps=Steps(0.016, 0.8), iterations=200, resolution=10.0**-digits),
            exact,
        )
        for digits in (2, 4, 9)
    ]
    assert gaps[0] > 1e-3
    assert gaps[1] < gaps[0] / 10
    assert gaps[2] < 1e-7 < gaps[1]


# Random instances ---------------------------------------------------------------------------------


def instance(seed: int, kinds: tuple[str, ...]) -> tuple[list[Part], Floats, Floats]:
    """A feasible problem: d leaves room around a point of the sets."""
    rng = np.random.default_rng(seed)
    m_u, m_g = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    parts, used = [], np.zeros(m_g)
    for kind in kinds:
        size = int(rng.integers(1, 5))
        domain: Box | BudgetedBox
        lower = rng.uniform(-1, 0.5, size)
        upper = lower + rng.uniform(0.2, 1.5, size)
        if kind == "box":
            domain = Box(lower, upper)
        else:
            share = float(rng.uniform(0.1, 0.9))
            total = float((lower + share * (upper - lower)).sum())
            domain = BudgetedBox(lower, upper, total, total + 0.3 * (kind == "range"))
        A_q = np.vstack([rng.normal(size=(size, size)), 0.7 * np.eye(size)])
        cost = QuadraticCost(A_q, rng.normal(size=size))
        part = Part(rng.normal(size=(m_u, size)), rng.normal(size=(m_g, size)), cost, domain)
        used += part.A_g @ domain.project(rng.normal(size=size))
        parts.append(part)
    return parts, rng.normal(size=m_u), -used - rng.uniform(0, 0.2, m_g)


@pytest.mark.parametrize("seed", first_of(range(12), 4))
def test_random_instances_against_cvxpy(seed: int) -> None:
    kinds = tuple(np.random.default_rng(seed).choice(["box", "sum", "range"], size=3 + seed % 4))
    parts, c, d = instance(seed, kinds)
    solution = solve(parts, c, d, iterations=60_000, threshold=1e-13)
    x, objective = by_cvxpy(parts, c, d)
    assert solution.iterations < 60_000
    assert solution.objective == pytest.approx(objective, rel=1e-6, abs=1e-6)
    assert solution.violation < 1e-7
    np.testing.assert_allclose(np.concatenate(solution.x), x, atol=2e-5)


def test_regularization_moves_the_answer_by_its_order() -> None:
    """Tikhonov terms make a cost that is not strongly convex solvable; the answer differs by O(ε)
    and tends to the optimum.
    """
    parts, c, d = paper()
    flat = [
        Part(p.A_u, p.A_g, QuadraticCost(np.zeros((1, 2)), p.cost.a_l), p.domain) for p in parts
    ]
    with pytest.raises(ValueError, match="not strongly convex"):
        step_sizes(flat)
    _, objective = by_cvxpy(flat, c, d)
    gaps = []
    for epsilon in (0.2, 0.05):
        steps = step_sizes(flat, regularization=epsilon)
        found = solve(flat, c, d, steps=steps, iterations=40_000, threshold=1e-9)
        gaps.append(abs(found.objective - objective))
    assert gaps[1] < gaps[0] / 2
    assert gaps[1] < 0.1


LOW, HIGH = np.array([-1.0, 0.2, 0.0]), np.array([2.0, 0.5, 3.0])
SETS = (
    Box(LOW, np.inf),
    Box(LOW, HIGH),
    BudgetedBox(LOW, HIGH, 1.7, 1.7),
    BudgetedBox(LOW, HIGH, -0.5, 1.0),
    BudgetedBox(LOW, HIGH, -0.8, -0.8),
    BudgetedBox(LOW, HIGH, 5.5, 9.0),
)
"""The last two have one point alone, up to rounding."""


def within(domain: Box | BudgetedBox, rng: np.random.Generator) -> Floats:
    return domain.project(rng.normal(scale=3, size=3))


@pytest.mark.parametrize("domain", SETS, ids=str)
def test_projections_are_the_closest_points(domain: Box | BudgetedBox) -> None:
    """`(x - P(x))·(y - P(x)) <= 0` for every y of the set, P(x) in the set."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        x, y = rng.normal(scale=3, size=3), within(domain, rng)
        projected = domain.project(x)
        np.testing.assert_allclose(domain.project(projected), projected, atol=1e-12)
        assert (x - projected) @ (y - projected) <= 1e-9
        assert np.all(projected >= domain.sides[0])
        assert np.all(projected <= domain.sides[1])
        if isinstance(domain, BudgetedBox):
            total = projected.sum()
            assert domain.least_sum - 1e-12 <= total <= domain.most_sum + 1e-12


@pytest.mark.parametrize("domain", SETS[1:], ids=str)
def test_minima_over_sets_are_below_what_is_near_them(domain: Box | BudgetedBox) -> None:
    """The gradient at the minimum points into the set."""
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e-3, 1e3):
        for _ in range(20):
            root = rng.normal(size=(3, 3))
            H, p = scale * (root.T @ root + 0.05 * np.eye(3)), scale * rng.normal(scale=3, size=3)
            best = domain.minimum(H, p, within(domain, rng))
            slope = H @ best + p
            np.testing.assert_allclose(domain.project(best), best, atol=1e-9)
            for _ in range(20):
                other = within(domain, rng)
                assert slope @ (other - best) >= -1e-8 * scale


def test_the_shrunken_step_keeps_optima_of_boxes_away_from_zero() -> None:
    """`min (x-1)²` over 2 <= x <= 3 is at 2, also with tau < 1: shrinking is toward the box, not
    out of it."""
    part = Part(np.zeros((1, 1)), np.zeros((1, 1)), QuadraticCost(np.eye(1), rows(-2)), Box(2, 3))
    solution = solve([part], np.zeros(1), -np.ones(1), steps=Steps(0.1, 0.1, 0.9), iterations=200)
    assert solution.x[0] == pytest.approx(2, abs=1e-12)


# The example of the feeder ------------------------------------------------------------------------


def feeder(vehicles: int) -> tuple[list[Part], Floats, Floats, Steps]:
    specification = importlib.util.spec_from_file_location(
        "ev_charging", ROOT / "examples" / "ev_charging.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    problem = json.loads(json.dumps(module.job(vehicles)))["problem"]
    parts = [
        Part(
            np.array(agent["A_u"]),
            np.array(agent["A_g"]),
            QuadraticCost(np.array(agent["A_q"]), np.array(agent["a_l"])),
            Box(np.array(agent["lower"]), np.array(agent["upper"])),
        )
        for agent in problem["agents"]
    ]
    steps = problem["steps"]
    chosen = Steps(steps["primal"], steps["dual"], steps["shrink"])
    return parts, np.array(problem["operator"]["c"]), np.array(problem["operator"]["d"]), chosen


@pytest.mark.parametrize("vehicles", first_of([3, 30, 100], 2))
def test_charging_on_a_feeder(vehicles: int) -> None:
    parts, c, d, steps = feeder(vehicles)
    solution = solve(parts, c, d, steps=steps, iterations=1000)
    x, objective = by_cvxpy(parts, c, d)
    # Constants that F leaves out dwarf it: the difference is compared with the energy cost of a kWh
    # per vehicle.
    assert abs(solution.objective - objective) < 1e-4 * vehicles
    assert solution.violation < 1e-4
    assert np.max(np.abs(np.concatenate(solution.x) - x)) < 1e-2
    assert solution.multipliers.max() > 0.01 * vehicles / 100, "the limit binds"


# Bad input ----------------------------------------------------------------------------------------


def test_bad_input_is_refused() -> None:
    parts, c, d = paper()
    with pytest.raises(ValueError, match="has agents"):
        solve([], c, d, iterations=1)
    with pytest.raises(ValueError, match="one row for each entry"):
        solve(parts, np.ones(3), d, iterations=1)
    with pytest.raises(ValueError, match="step sizes"):
        solve(parts, c, d, steps=[Steps(1, 1)], iterations=1)
    with pytest.raises(ValueError, match="share the dual step"):
        solve(parts, c, d, steps=[Steps(1, 1), Steps(1, 2), Steps(1, 1)], iterations=1)
    with pytest.raises(ValueError, match="positive"):
        Steps(0, 1)
    with pytest.raises(ValueError, match="shrink"):
        Steps(1, 1, 1.1)
    with pytest.raises(ValueError, match="one column for each variable"):
        Participant(
            np.eye(2), np.eye(2), QuadraticCost(np.eye(3), np.ones(3)), Box(0, 1), Steps(1, 1)
        )
    half = BudgetedBox(np.zeros(2), np.ones(2), 1, 1)
    cost = QuadraticCost(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match="within a budget or polytope"):
        Participant(np.eye(2), np.eye(2), cost, half, Steps(1, 1, 0.9))
    with pytest.raises(ValueError, match="lower <= upper"):
        Box(1, 0)
    for upper, least, most, says in (
        (np.inf, 1, 1, "finite bounds"),
        (1.0, 2.5, 3, "sums from 0 to 2"),
        (1.0, -2, -1, "sums from 0 to 2"),
        (1.0, 1.5, 1, "not 1.5 and 1"),
        (-1.0, 0, 0, "lower <= upper"),
        (1.0, math.nan, 1, "not nan and 1"),
    ):
        with pytest.raises(ValueError, match=says):
            BudgetedBox(np.zeros(2), np.full(2, upper), least, most)


def test_an_infeasible_coupling_shows_in_the_violation() -> None:
    """No x makes `Σ A_g x + d <= 0`: the run ends as planned, and says what is violated."""
    parts, c, _ = paper()
    solution = solve(parts, c, np.array([5.0, 5.0]), iterations=2000)
    assert solution.violation > 1

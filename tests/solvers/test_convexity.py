"""Proofs, intervals, Lipschitz constants and the split of noise, against sampling, enumeration,
CVXPY and vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from discreet.solvers.saddle.convexity import (
    NoSlaterPoint,
    NotConvex,
    NotLipschitz,
    jacobian_norm_bound,
    norm_bound,
    prove_convex,
    sensitivities,
    slater_point,
    tightened_box,
    to_cvxpy,
    variables,
)
from discreet.solvers.saddle.expression_programs import compiled, evaluate
from discreet.solvers.saddle.intervals import Box, Interval, Work, bounds, value_bounds
from discreet.solvers.saddle.noise_split import equal_split, joint_distance, split
from discreet.solvers.saddle.suprema import supremum
from discreet_agent.expressions import Expression, derivative, parse

Floats = NDArray[np.float64]

VECTORS = json.loads((Path(__file__).parents[1] / "privacy" / "vectors.json").read_text())["hale"]
HALE = (
    "x1 + x2 + x3 - 3",
    "x5^2 + 1/12*x6^4 + x7^4/12 - 20",
    "x3^2 + x4 + x6 - 1",
    "x6^2 + x7^2 - 5",
)
SEVEN = tuple(f"x{i}" for i in range(1, 8))
WIDE: Box = dict.fromkeys(SEVEN, (-10.0, 10.0))
NAMES = ("x", "y")
BOX: Box = {"x": (-2.0, 3.0), "y": (0.5, 4.0)}


def values(expression: Expression, points: Floats, names: Sequence[str] = NAMES) -> Floats:
    program = compiled([expression], names)
    return np.array([evaluate(program, point)[0] for point in points])


def sampled(box: Box, count: int, seed: int = 0) -> Floats:
    """Points of the box, its corners among them."""
    low, high = np.array(list(box.values())).T
    points = np.random.default_rng(seed).uniform(low, high, (count, len(low)))
    corners = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(len(low), -1).T
    return np.concatenate([points, corners[:256]])


# Convexity ----------------------------------------------------------------------------------------

ATOMS = (
    "x", "y", "x^2", "x^4", "abs(x - 1)", "exp(y - x)", "-log(y)", "-sqrt(y)", "1/y", "y^3",
    "(x + 2)^3", "y^1.5", "x*x", "x^2/y", "(x - 4)^-2", "x*y", "x^3", "log(y)", "-x^2", "y^-0.5",
    "-(y - 5)^3", "1/(x - 4)",
)  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    """Sums, multiples and functions of atoms, convex or not."""
    terms = draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3))
    text = " + ".join(
        f"{draw(st.sampled_from(['', '2*', '0.5*', '-1*', '']))}({term})" for term in terms
    )
    shape = draw(
        st.sampled_from(
            ["{}", "{}", "exp({})", "abs({})", "({})^2", "({})^4", "-({})", "log({})", "({})/3"]
        )
    )
    return parse(shape.format(text), NAMES)


@settings(max_examples=150, deadline=None)
@given(expressions(), st.integers(0, 1000))
def test_what_is_proven_convex_is_convex(expression: Expression, seed: int) -> None:
    proven = True
    try:
        prove_convex(expression, BOX)
    except NotConvex:
        proven = False
    assume(proven)
    points = sampled(BOX, 60, seed)
    a, b = points[:30], points[-30:]
    at_a, at_b, middle = (
        values(expression, a),
        values(expression, b),
        values(expression, (a + b) / 2),
    )
    assert not np.isnan([at_a, at_b, middle]).any()
    finite = np.isfinite(at_a + at_b)  # exp of an exp overflows
    room = 1e-9 * (1 + abs(at_a) + abs(at_b))
    assert (middle <= at_a / 2 + at_b / 2 + room)[finite].all()


@pytest.mark.parametrize("text", HALE)
def test_constraints_of_the_paper_are_proven(text: str) -> None:
    assert prove_convex(parse(text, SEVEN), WIDE) is None


@pytest.mark.parametrize(
    "text",
    [
        "3*x^2 + 2*abs(x) - 5*y",
        "(x - 2*y + 1)^4",
        "(x + 2)^3",
        "-(x - 3)^3",
        "exp(x^2 - y)",
        "-log(y) - sqrt(y)",
        "1/y + y^-0.5",
        "x^2/y",
        "(x^2 + 1)^2",
        "x*x*x*x",
        "(abs(x) + y)^3",
        "1/(x - 4)^2 - 3",
        "-1/(x - 4)",
        "y^1.5",
        "x^2*(3/4)",
    ],
)
def test_convex_texts(text: str) -> None:
    assert prove_convex(parse(text, NAMES), BOX) is None


@pytest.mark.parametrize(
    ("text", "term", "word"),
    [
        ("y + x^3", "x^3", "both signs"),
        ("x^2 + x*y", "x*y", "both vary"),
        ("x^2 - y^2", "-y^2", "concave"),
        ("x^2 + log(y)", "log(y)", "concave"),
        ("sqrt(y) - 3", "sqrt(y)", "concave"),
        ("exp(y) + (x^2 - 1)^2", "(x^2 - 1)^2", "neither"),
        ("exp(-x^2)", "exp(-x^2)", "neither"),
        ("log(x)", "log(x)", "not defined"),
        ("1/x", "1/x", "not defined"),
        ("1/(x^2 + x*0)", "1/(x^2 + x*0)", "not defined"),
        ("x^0.5", "x^0.5", "not defined"),
        ("-sqrt(x)", "sqrt(x)", "not defined"),
        ("x^2 + 2*x*y + y^2", "2*x*y", "both vary"),
        ("x/y", "x/y", "both vary"),
        ("(exp(1) - exp(1))*x^3", "exp(1) - exp(1)", "sign"),
        ("1e-9^64*x^2", "1e-09^64", "sign"),
        ("y*log(0)", "log(0)", "no finite value"),
    ],
)
def test_refused_terms(text: str, term: str, word: str) -> None:
    with pytest.raises(NotConvex, match=word) as refused:
        prove_convex(parse(text, NAMES), BOX)
    assert refused.value.term == term
    assert refused.value.position is not None


def test_slater_points() -> None:
    constraints = [parse(text, SEVEN) for text in HALE]
    found = slater_point(constraints, WIDE)
    point = [found.point[name] for name in SEVEN]
    assert found.margin >= 1
    assert all(
        value <= -found.margin + 1e-9 for value in evaluate(compiled(constraints, SEVEN), point)
    )
    for texts in (["x^2"], ["x + 1", "1 - x"], ["x^2 + 1"], ["5 - x"]):
        with pytest.raises(NoSlaterPoint):
            slater_point([parse(text, NAMES) for text in texts], BOX)


def test_tightened_box_keeps_every_feasible_point() -> None:
    constraints = [parse(text, SEVEN) for text in HALE]
    tight = tightened_box(constraints, WIDE)
    rng = np.random.default_rng(3)
    for _ in range(20):
        known = variables(WIDE)
        rows = [to_cvxpy(constraint, known, WIDE) <= 0 for constraint in constraints]
        rows += [bound for name in SEVEN for bound in (known[name] >= -10, known[name] <= 10)]
        direction = rng.normal(size=7) * (rng.random(7) < 0.5) + 1e-6
        cp.Problem(
            cp.Maximize(sum(w * known[name] for w, name in zip(direction, SEVEN, strict=True))),
            rows,
        ).solve(solver=cp.CLARABEL)
        for name, (low, high) in tight.items():
            assert low - 1e-6 <= float(known[name].value) <= high + 1e-6
    # |x6|, |x7| <= sqrt 5, |x5| <= sqrt 20 by the constraints; a twentieth of the width to spare.
    assert tight["x6"] == pytest.approx((-1.1 * 5**0.5, 1.1 * 5**0.5), rel=1e-4)
    assert tight["x5"] == pytest.approx((-1.1 * 20**0.5, 1.1 * 20**0.5), rel=1e-4)
    assert tight["x1"] == (-10, 10)


# Intervals ----------------------------------------------------------------------------------------

WILD = (*ATOMS, "sqrt(x + "
                "2)", "exp(x*y) - "
                      "y/x", "abs(x)*abs(y - 1) - x*y", "(x - y)^3*(x + 1)", "x^-3", "log(x + y)",
        "exp(-x^2)*y", "y^2.5*x", "0*x + y", "1/(x*x + 1)", "-(x - 1)^2*(y - 2)^2 + x")  # fmt: skip


@pytest.mark.parametrize("text", WILD)
def test_intervals_contain_exact_values(text: str) -> None:
    """Of narrow boxes too, where only outward rounding keeps the exact value (50 digits) inside."""
    expression = parse(text, NAMES)
    meaning = text.replace("^", "**")
    rng = np.random.default_rng(5)
    for width in (0.0, 1e-12, 1e-3, 0.5):
        low = np.array([rng.uniform(-2, 2.4, 40), rng.uniform(0.5, 3.4, 40)])
        box = {name: Interval(low[i], low[i] + width) for i, name in enumerate(NAMES)}
        found = bounds(expression, box)
        for n in range(40):
            with mpmath.workdps(50):
                x, y = (
                    mpmath.mpf(box[name].low[n])
                    + mpmath.mpf(rng.random())
                    * (mpmath.mpf(box[name].high[n]) - mpmath.mpf(box[name].low[n]))
                    for name in NAMES
                )
                scope = {
                    "x": x,
                    "y": y,
                    "exp": mpmath.exp,
                    "log": mpmath.log,
                    "sqrt": mpmath.sqrt,
                    "abs": abs,
                }
                exact: Any = eval(meaning, {"__builtins__": {}}, scope)  # noqa: S307 - an oracle for fixed texts
                if mpmath.im(exact) == 0:
                    assert found.low[n] <= exact <= found.high[n]


def test_intervals_are_unbounded_outside_the_domain() -> None:
    for text in ("log(x)", "sqrt(x)", "1/x", "x^-2", "x^0.5"):
        low, high = value_bounds(parse(text, NAMES), BOX)
        assert high == math.inf
        if text in ("log(x)", "sqrt(x)", "1/x"):
            assert low == -math.inf


@pytest.mark.parametrize(
    "text", [text for text in WILD if text not in ("exp(x*y) - y/x", "x^-3", "log(x + y)")]
)
def test_suprema_are_never_below_and_hardly_above(text: str) -> None:
    expression = parse(text, NAMES)
    found = supremum(expression, BOX)
    assert values(expression, sampled(BOX, 3000)).max() <= found.upper
    at_point = values(
        expression, np.array([[found.point.get(name, BOX[name][0]) for name in NAMES]])
    )[0]
    assert found.lower <= at_point * (1 + 1e-12) + 1e-12
    assert found.upper - found.lower <= max(1e-7 * abs(found.lower), 1e-12) * (1 + 1e-9)


def test_suprema_of_known_functions() -> None:
    for text, exact in [
        ("x*y - x^2 - y^2 + x + y + 1", 2.0),
        ("exp(-(x - 1)^2)*2", 2.0),
        ("-(x^2 + y^2 - 9)^2", 0.0),
        ("y*(4 - y)", 4.0),
        ("7", 7.0),
    ]:
        found = supremum(parse(text, NAMES), BOX)
        assert found.lower - 1e-12 <= exact <= found.upper
        assert found.upper == pytest.approx(exact, rel=1e-7, abs=1e-7)


def test_too_few_boxes_stay_certified() -> None:
    expression = parse("exp(x)*y - abs(x - 1)*y^2 + x*y", NAMES)
    fine, coarse = supremum(expression, BOX), supremum(expression, BOX, most_boxes=3)
    assert coarse.upper >= fine.upper - 1e-9
    assert fine.upper - fine.lower <= 1e-7 * abs(fine.lower)


@pytest.mark.parametrize("ends", [(0.0, math.inf), (-math.inf, 0.0), (1.0, 0.0), (math.nan, 1.0)])
def test_boxes_must_be_bounded(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="not finite"):
        supremum(parse("x", NAMES), {"x": ends})


# Lipschitz constants ------------------------------------------------------------------------------


def test_constants_of_the_paper() -> None:
    constraints = [parse(text, SEVEN) for text in HALE]
    found = sensitivities(constraints, SEVEN, WIDE)
    assert found.gradients[5, 5] == pytest.approx(VECTORS["K6"], abs=1e-6)
    assert np.diag(found.gradients)[[0, 1, 2, 3, 4]].tolist() == pytest.approx(
        [0, 0, 2, 0, 2], abs=1e-9
    )
    assert found.values.max() == pytest.approx(VECTORS["max_column_norm"], abs=1e-6)
    assert jacobian_norm_bound(constraints, SEVEN, WIDE) == pytest.approx(
        VECTORS["max_jacobian_norm"], abs=1e-6
    )
    # Separable constraints: no agent moves another one's gradient.
    assert np.count_nonzero(found.gradients - np.diag(np.diag(found.gradients))) == 0
    assert found.value_entries[1, 5] == pytest.approx(1000 / 3, rel=1e-7)
    assert found.gradient_entries[:, 5, 5].tolist() == pytest.approx([0, 100, 0, 2], rel=1e-7)


def test_constants_are_never_below_finite_differences() -> None:
    """Whole Lipschitz quotients, also between far points, of coupled and transcendental
    constraints."""
    constraints = [
        parse(text, NAMES)
        for text in ("exp(x - y)", "(x + 2*y)^4/10", "x^2/y - 3*y", "-log(y) + x")
    ]
    found = sensitivities(constraints, NAMES, BOX)
    slopes = [[derivative(g, name) for name in NAMES] for g in constraints]
    program = compiled([*constraints, *(slope for row in slopes for slope in row)], NAMES)
    points = sampled(BOX, 400, 1)
    rng = np.random.default_rng(2)
    tight = np.zeros(2)
    for point in points:
        for j, name in enumerate(NAMES):
            other = point.copy()
            other[j] = (
                rng.uniform(*BOX[name])
                if rng.random() < 0.5
                else np.clip(point[j] + 1e-6, *BOX[name])
            )
            if (move := abs(other[j] - point[j])) < 1e-7:
                continue
            change = abs(evaluate(program, other) - evaluate(program, point)) / move
            jacobian = change[4:].reshape(4, 2)
            room = 1e-6
            assert np.linalg.norm(change[:4]) <= found.values[j] * (1 + room)
            assert (change[:4] <= found.value_entries[:, j] * (1 + room) + room).all()
            assert (
                np.linalg.norm(jacobian, axis=0) <= found.gradients[:, j] * (1 + room) + room
            ).all()
            assert (jacobian <= found.gradient_entries[:, :, j] * (1 + room) + room).all()
            tight[j] = max(tight[j], np.linalg.norm(change[:4]) / found.values[j])
    assert (tight > 0.8).all()


def test_constants_come_within_a_millionth_of_the_supremum() -> None:
    """Column norms of a coupled constraint against a fine grid; the suprema sit at corners and
    inside."""
    constraints = [parse(text, NAMES) for text in ("exp(x - y)", "-3*exp(-(x - 0.7)^2)", "y*x")]
    grid = np.array(np.meshgrid(np.linspace(-2, 3, 2001), np.linspace(0.5, 4, 8))).reshape(2, -1)
    x, y = grid
    columns = np.array(
        [
            np.sqrt(
                np.exp(2 * (x - y)) + (6 * (x - 0.7) * np.exp(-((x - 0.7) ** 2))) ** 2 + y**2
            ).max(),
            np.sqrt(np.exp(2 * (x - y)) + x**2).max(),
        ]
    )
    found = sensitivities(constraints, NAMES, BOX).values
    assert (found >= columns).all()
    assert found == pytest.approx(columns, rel=1e-6)


@pytest.mark.parametrize("text", ["abs(x)", "sqrt(x + 2)", "(x + 2)^1.5", "1/x", "-log(y - 0.5)"])
def test_gradients_without_a_lipschitz_constant_are_refused(text: str) -> None:
    with pytest.raises(NotLipschitz, match="has no bounded"):
        sensitivities([parse(text, NAMES)], NAMES, BOX)


def test_abs_has_a_gradient_where_its_argument_keeps_its_sign() -> None:
    found = sensitivities([parse("abs(y + 1) + abs(x - 4)", NAMES)], NAMES, BOX)
    assert found.values == pytest.approx([1.0, 1.0], rel=1e-12)
    assert not found.gradients.any()
    assert norm_bound([], BOX) == 0.0


# Splitting noise ----------------------------------------------------------------------------------


@st.composite
def instances(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, float]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p, n = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    moves = 10.0 ** rng.uniform(-2, 2, (p, n)) * (
        rng.random((p, n)) < draw(st.sampled_from([0.4, 1.0]))
    )
    return rng.uniform(0.2, 3, n), moves, 10.0 ** rng.uniform(-1, 1, p), float(rng.uniform(0.1, 3))


@settings(max_examples=60, deadline=None)
@given(instances())
def test_split_is_optimal_and_within_its_distance(
    instance: tuple[Floats, Floats, Floats, float],
) -> None:
    radii, moves, weights, mu = instance
    assume(moves.any())
    found = split(radii, moves, weights, mu)
    square = (
        (moves * radii) ** 2 / np.where(found.scales > 0, found.scales, np.inf)[:, None] ** 2
    ).sum(axis=0)
    assert square.max() == pytest.approx(mu**2, rel=1e-9)
    assert joint_distance(radii, moves, found.scales) <= mu
    assert (found.scales > 0).tolist() == moves.any(axis=1).tolist()
    assert found.least_cost <= found.cost <= found.least_cost * (1 + 1e-6)
    assert found.cost == pytest.approx(float(weights @ found.scales**2))
    equal = equal_split(radii, moves, mu)
    assert joint_distance(radii, moves, equal) <= mu
    assert found.cost <= weights @ equal**2 * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_split_against_a_conic_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    moves, radii, weights = (
        rng.uniform(0.1, 3, (6, 4)),
        rng.uniform(0.5, 2, 4),
        rng.uniform(0.5, 2, 6),
    )
    v = cp.Variable(6, nonneg=True)
    problem = cp.Problem(
        cp.Minimize(weights @ cp.inv_pos(v)), [((moves * radii) ** 2).T @ v <= 0.64]
    )
    problem.solve(solver=cp.CLARABEL)
    assert split(radii, moves, weights, 0.8).cost == pytest.approx(problem.value, rel=1e-5)


def test_split_for_one_agent_is_in_closed_form() -> None:
    moves, weights = np.array([[1.0], [100.0], [0.0], [4.0]]), np.array([1.0, 4.0, 1.0, 0.25])
    found = split([2.0], moves, weights, 0.5)
    assert found.cost == pytest.approx((2 * (1 + 200 + 2)) ** 2 / 0.25, rel=1e-8)
    assert found.scales[2] == 0


def test_per_output_calibration_is_caught() -> None:
    """Eight outputs that one agent moves fully, each at (ln 3, .05) by the paper's kappa: .34 for
    all, not .05."""
    epsilon, kappa = math.log(3), VECTORS["kappa_0.05_ln3"]
    moves = np.ones((8, 1))
    mu = joint_distance([1.0], moves, np.full(8, kappa))
    assert mu == pytest.approx(math.sqrt(8) / kappa)
    delta = norm.cdf(mu / 2 - epsilon / mu) - 3 * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(0.34, abs=0.005)
    analytic = 1 / VECTORS["analytic_0.05_ln3"]
    sound = joint_distance([1.0], moves, equal_split([1.0], moves, analytic))
    assert norm.cdf(sound / 2 - epsilon / sound) - 3 * norm.cdf(
        -sound / 2 - epsilon / sound
    ) == pytest.approx(0.05)


def test_figures_that_make_no_sense() -> None:
    ok = np.ones((2, 3))
    for arguments, word in [
        (([1.0, 1.0], ok, [1.0, 1.0]), "outputs by agents"),
        (([1.0, 1.0, -1.0], ok, [1.0, 1.0]), "nonnegative"),
        (([1.0] * 3, ok, [1.0]), "one nonnegative scale"),
        (([1.0] * 3, ok * math.inf, [1.0, 1.0]), "finite"),
    ]:
        with pytest.raises(ValueError, match=word):
            joint_distance(*arguments)
    assert joint_distance([1.0] * 3, ok, [0.0, 1.0]) == math.inf
    assert joint_distance([0.0] * 3, ok, [0.0, 1.0]) == 0.0
    with pytest.raises(ValueError, match="positive weight"):
        split([1.0] * 3, ok, [1.0, 0.0], 1.0)
    with pytest.raises(ValueError, match="mu must be positive"):
        equal_split([1.0] * 3, ok, 0.0)


def test_suprema_share_their_work_and_stay_certified() -> None:
    """Nothing left: each looks at one box, and what it says is still above the supremum."""
    expression = parse("(x - y)^4 - 3*(x - y)^2 + x*y", NAMES)
    exact = supremum(expression, BOX)
    none_left = supremum(expression, BOX, together=Work(0))
    assert none_left.upper > exact.upper * (1 + 1e-3)
    pool = Work(10**9)
    assert supremum(expression, BOX, together=pool) == exact
    assert pool.left < 10**9


def test_a_constraint_that_couples_a_hundred_agents_at_once_is_no_bomb() -> None:
    """Its 5,050 second derivatives took half an hour of somebody's request; now they are refused
    after a second."""
    names = tuple(f"x{i}" for i in range(100))
    dense = parse("exp(" + "+".join(f"{name}/50" for name in names) + ") - 9", names)
    with pytest.raises(NotLipschitz, match="couples too many agents"):
        sensitivities([dense], names, dict.fromkeys(names, (0.5, 2.0)))
    sparse = parse("+".join(f"{name}^4" for name in names), names)
    found = sensitivities([sparse], names, dict.fromkeys(names, (0.5, 2.0)))
    assert np.diag(found.gradients) == pytest.approx(np.full(100, 12 * 2.0**2), rel=1e-6)

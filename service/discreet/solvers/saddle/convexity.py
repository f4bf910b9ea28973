"""Proofs that constraints are convex over a box, points strictly inside them, and the box that they
imply.

    prove_convex(expression, box)      -> None or NotConvex with the offending term
    slater_point(constraints, box)     -> SlaterPoint or NoSlaterPoint
    tightened_box(constraints, box)    -> box

The proof is disciplined convex programming (Grant, Boyd & Ye 2006), as CVXPY applies it:
sufficient, not necessary. What CVXPY assumes about its atoms' domains (1/x is convex "for positive
x") is first certified over the box by interval arithmetic, and signs that follow from the box are
passed to CVXPY: u^3 is convex where u >= 0.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import NoSolution
from discreet.solvers.saddle import expression_programs
from discreet.solvers.saddle.intervals import Box, Interval, Work, bounds, value_bounds
from discreet.solvers.saddle.moves import Moves
from discreet.solvers.saddle.saddle_point import SaddleProblem
from discreet.solvers.saddle.suprema import supremum
from discreet_agent.expressions import (
    ZERO,
    Call,
    Expression,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Variable,
    add,
    derivative,
    gradient,
    negate,
    power,
)

MARGIN = 1e-6
"""A Slater point leaves at least this much room below zero, so that it is one in exact
arithmetic."""

WIDENING = 0.05
"""Fraction of its width by which a tightened bound is moved outwards again: far more than the conic
solver's tolerance."""


@cache
def _cvxpy() -> Any:
    """CVXPY, whose atoms are not typed. It is loaded on first use because it takes 20 MB and few
    processes prove convexity.

    It would load scipy.stats, which takes four fifths of the time and as much memory again, for one
    function of an atom of quantum states. So that function loads it when it is called.
    """

    def entropy(*arguments: Any, **named: Any) -> Any:
        from scipy.stats import entropy  # noqa: PLC0415

        return entropy(*arguments, **named)

    late = ModuleType("scipy.stats")
    late.entropy = entropy  # type: ignore[attr-defined]
    put = sys.modules.setdefault("scipy.stats", late)
    try:
        import cvxpy  # noqa: PLC0415
    finally:
        if put is late:
            del sys.modules["scipy.stats"]
    return cvxpy


class NotConvex(NoSolution):
    """No proof of convexity. `term`: the smallest part that prevents one, as text; `position`: its
    position in the expression."""

    def __init__(self, sentence: str, term: Expression) -> None:
        super().__init__(sentence)
        self.term, self.position = str(term), term.position


class NoSlaterPoint(NoSolution):
    """No point of the box is strictly inside all constraints, as far as the conic solver can
    tell."""


@dataclass(frozen=True)
class SlaterPoint:
    """A point of the box with every constraint <= -margin, certified by interval arithmetic."""

    point: Mapping[str, float]
    margin: float


def prove_convex(expression: Expression, box: Box) -> None:
    """Return if `expression` is convex over `box` by the rules of DCP; otherwise raise NotConvex.

    Raises NotConvex also if the expression is not defined on the whole box. Polynomials that are
    convex but are not written as sums of convex terms have no proof: (x + y)^2 has one, x^2 + 2*x*y
    + y^2 has none.
    """
    node = to_cvxpy(expression, variables(box), box)
    if node.is_convex():
        return
    term = _not_convex(expression, box)
    raise NotConvex(f"{_quoted(term)} is concave: a convex expression is needed here", term)


def _not_convex(expression: Expression, box: Box) -> Expression:
    """The term of a sum that is DCP but not convex which prevents convexity."""
    if isinstance(expression, Sum):
        for term in expression.terms:
            if not to_cvxpy(term, variables(box), box).is_convex():
                return _not_convex(term, box)
    return expression


def variables(box: Box) -> dict[str, Any]:
    """A CVXPY variable for each name, with the sign that follows from the box."""
    return {
        name: _cvxpy().Variable(name=name, nonneg=low >= 0, nonpos=high <= 0 and low < 0)
        for name, (low, high) in box.items()
    }


def to_cvxpy(expression: Expression, known: Mapping[str, Any], box: Box) -> Any:
    """The CVXPY expression that equals `expression` on `box`; `known` has a CVXPY variable or
    expression for each name.

    Raises NotConvex if a part is neither convex nor concave by the rules of DCP, or is not defined
    on the whole box. Curvatures hold only on the box; an optimization must have the box among its
    constraints.
    """

    def of(node: Expression) -> Any:
        if not node.names and not isinstance(node, Number):
            return _cvxpy().Constant(_constant(node))
        built = rule(node)
        if not (built.is_convex() or built.is_concave()):
            raise NotConvex(
                f"{_quoted(node)} is neither convex nor concave by the rules of DCP", node
            )
        return built

    def rule(node: Expression) -> Any:
        match node:
            case Number():
                return _cvxpy().Constant(node.value)
            case Variable():
                return known[node.name]
            case Sum():
                return total(node)
            case Negation():
                return -of(node.argument)
            case Product():
                return product(node)
            case Quotient():
                return quotient(node)
            case Power():
                return power(node, node.base, node.exponent)
            case Call():
                return call(node)
        raise TypeError(type(node).__name__)

    def total(node: Sum) -> Any:
        built = [of(term) for term in node.terms]
        curved = [part.is_convex() for part in built if not part.is_affine()]
        if any(curved) and not all(curved):
            odd = next(
                term
                for term, part in zip(node.terms, built, strict=True)
                if not part.is_affine() and not part.is_convex()
            )
            raise NotConvex(
                f"{_quoted(odd)} is concave, and other terms of its sum are convex", odd
            )
        return _cvxpy().sum(_cvxpy().hstack(built))

    def product(node: Product) -> Any:
        factors = [factor for factor in node.factors if factor.names]
        constants = [_constant(factor) for factor in node.factors if not factor.names]
        number = math.prod(constants)
        if not math.isfinite(number) or (number == 0 and 0 not in constants):
            raise NotConvex(f"the constant of {_quoted(node)} is out of range", node)
        if len(factors) > 1 and all(factor == factors[0] for factor in factors):
            return number * power(node, factors[0], float(len(factors)))
        if len(factors) > 1:
            raise NotConvex(
                f"{_quoted(node)} multiplies expressions that both vary: DCP has no rule for it",
                node,
            )
        return number * of(factors[0])

    def quotient(node: Quotient) -> Any:
        above, below = node.numerator, node.denominator
        if not below.names:
            return of(above) / _constant(below)
        if not above.names:
            inverted = (below.base, -below.exponent) if isinstance(below, Power) else (below, -1.0)
            return _constant(above) * power(node, *inverted)
        if isinstance(above, Power) and above.exponent == 2 and value_bounds(below, box)[0] > 0:
            bottom, top = of(below), of(above.base)
            if top.is_affine() and bottom.is_concave():
                return _cvxpy().quad_over_lin(top, bottom)
        raise NotConvex(
            f"{_quoted(node)} divides expressions that both vary: DCP has no rule for it", node
        )

    def power(node: Expression, base: Expression, exponent: float) -> Any:
        if exponent in (0.0, 1.0):
            return of(base) if exponent else _cvxpy().Constant(1.0)
        low, high = value_bounds(base, box)
        whole = exponent == int(exponent)
        if exponent < 0 and not (low > 0 or (high < 0 and whole)):
            raise NotConvex(
                f"{_quoted(node)} is not defined where {_quoted(base)} is 0 or below", node
            )
        if not whole and low < 0:
            raise NotConvex(
                f"{_quoted(node)} is not defined where {_quoted(base)} is negative", node
            )
        inner, sign = of(base), 1.0
        even = whole and int(exponent) % 2 == 0
        if high <= 0 and whole and low < 0:
            # u^p = ± (-u)^p: from here on the base is not negative.
            inner, sign, low = -inner, 1.0 if even else -1.0, -high
        if low < 0 and not even:
            raise NotConvex(
                f"{_quoted(node)} is neither convex nor concave: {_quoted(base)} takes both signs "
                "over the box",
                node,
            )
        if low >= 0 and inner.is_convex() and not inner.is_nonneg() and exponent > 1:
            inner = _cvxpy().pos(inner)  # equal on the box, and now known not to be negative
        return sign * _cvxpy().power(inner, int(exponent) if whole else exponent)

    def call(node: Call) -> Any:
        low, _ = value_bounds(node.argument, box)
        if node.function == "log" and not low > 0:
            raise NotConvex(
                f"{_quoted(node)} is not defined where {_quoted(node.argument)} is 0 or below", node
            )
        if node.function == "sqrt" and not low >= 0:
            raise NotConvex(
                f"{_quoted(node)} is not defined where {_quoted(node.argument)} is negative", node
            )
        atoms = {
            "exp": _cvxpy().exp,
            "log": _cvxpy().log,
            "sqrt": _cvxpy().sqrt,
            "abs": _cvxpy().abs,
        }
        return atoms[node.function](of(node.argument))

    return of(expression)


def _constant(node: Expression) -> float:
    """The value of a part without variables, or one of the same sign: curvature depends only on the
    sign."""
    low, high = value_bounds(node, {})
    if not (math.isfinite(low) and math.isfinite(high)):
        raise NotConvex(f"{_quoted(node)} has no finite value", node)
    if low <= 0 <= high and low != high:
        raise NotConvex(f"{_quoted(node)} is too close to zero for its sign to be certain", node)
    return node.value if isinstance(node, Number) else 0.5 * (low + high)


def _quoted(node: Expression) -> str:
    text = str(node)
    return f"'{text}'" if len(text) <= 80 else f"'{text[:77]}...'"


# Points and boxes ---------------------------------------------------------------------------------


def slater_point(constraints: Sequence[Expression], box: Box) -> SlaterPoint:
    """A point of `box` where every constraint is below zero: by 1 or more if the box has such a
    point.

    The constraints have been proven convex. Raises NoSlaterPoint if the conic solver finds none
    with a margin of MARGIN; the certificate of the returned point does not depend on that solver.
    """
    known = variables(box)
    slack = _cvxpy().Variable()
    rows = [to_cvxpy(constraint, known, box) <= slack for constraint in constraints]
    _solve(_cvxpy().Problem(_cvxpy().Minimize(slack), [*rows, *_inside(known, box), slack >= -1]))
    if any(variable.value is None for variable in known.values()):
        raise NoSlaterPoint("the solver found no point strictly inside the constraints")
    point = {name: float(np.clip(known[name].value, *box[name])) for name in box}
    at_point = {name: (value, value) for name, value in point.items()}
    margin = -max(
        (value_bounds(constraint, at_point)[1] for constraint in constraints), default=-1.0
    )
    if not margin >= MARGIN:
        raise NoSlaterPoint(
            "no point of the box is strictly inside all constraints: the best one leaves a largest "
            f"value of {-margin:.3g}, and the multipliers would have no bound"
        )
    return SlaterPoint(point, margin)


def tightened_box(constraints: Sequence[Expression], box: Box) -> dict[str, tuple[float, float]]:
    """A box within `box` that contains every point satisfying the constraints, widened by WIDENING
    of its width.

    Projecting on it instead of on `box` changes neither the solution nor its multipliers: a saddle
    point of the Lagrangian over `box` lies inside and is one over the smaller box. Lipschitz
    constants, and with them the noise, decrease. It is a function of public expressions only. A
    conic solver finds the least and the greatest value of each variable; if it fails, the old bound
    stays.
    """
    known = variables(box)
    inside = [to_cvxpy(constraint, known, box) <= 0 for constraint in constraints] + _inside(
        known, box
    )
    used = frozenset().union(*(constraint.names for constraint in constraints))
    direction = _cvxpy().Parameter(len(box))  # one problem, compiled once
    problem = _cvxpy().Problem(
        _cvxpy().Minimize(direction @ _cvxpy().hstack(list(known.values()))), inside
    )
    tight = {}
    for place, (name, (low, high)) in enumerate(box.items()):
        ends = [low, high]
        for end, sign in enumerate((1.0, -1.0)):
            direction.value = sign * (np.arange(len(box)) == place)
            if name in used and _solve(problem) == "optimal":
                ends[end] = float(known[name].value)
        room = WIDENING * max(ends[1] - ends[0], 1e-3 * (high - low))
        tight[name] = (max(low, ends[0] - room), min(high, ends[1] + room))
    return tight


def _inside(known: Mapping[str, Any], box: Box) -> list[Any]:
    return [
        bound
        for name, (low, high) in box.items()
        for bound in (known[name] >= low, known[name] <= high)
    ]


def _solve(problem: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # an inaccurate solution is a status, which the callers check
        try:
            problem.solve(solver=_cvxpy().CLARABEL)
        except _cvxpy().SolverError:
            return "failed"
    return str(problem.status)


# Lipschitz ----------------------------------------------------------------------------------------
# Certified Lipschitz constants of constraints and of their gradients over a box.
#
# sensitivities(constraints, names, box) -> Sensitivities
#
# The figures that joint calibration needs (Hale & Egerstedt 2015, Section III, extended to joint
# noise): how far each released output moves when one agent's state moves by 1. All are upper
# bounds, by interval arithmetic with branch and bound; if that converges, they are within 1e-7 of
# the supremum.

Floats = NDArray[np.float64]


MOST_TOGETHER = 50_000_000
"""Boxes times nodes that all suprema of one problem together may evaluate beyond their first
boxes."""

MOST_DERIVED = 500_000
"""Nodes of the second derivatives times the variables in each: the cost of one evaluation of each
supremum."""


class NotLipschitz(NoSolution):
    """A constraint, or its gradient, has no finite Lipschitz constant over the box, or none was
    found within the work allowed."""


@dataclass(frozen=True)
class Sensitivities:
    """Suprema over a box, for m constraints g and n variables x; upper bounds.

    Whole vectors, as the paper groups them. `values[j]` = sup ||dg/dx_j||_2, float64[n].
    `gradients[i, j]` = sup ||d²g/dx_i dx_j||_2, float64[n, n]: the Lipschitz constant of the vector
    dg/dx_i in x_j.

    Single entries. `value_entries[k, j]` = sup |dg_k/dx_j|, float64[m, n]. `gradient_entries[k, i,
    j]` = sup |d²g_k/dx_i dx_j|, float64[m, n, n]. Zero exactly where the derivative is identically
    zero.
    """

    values: Floats
    gradients: Floats
    value_entries: Floats
    gradient_entries: Floats


def sensitivities(
    constraints: Sequence[Expression], names: Sequence[str], box: Box
) -> Sensitivities:
    """All of `Sensitivities` for `constraints` over `box`.

    Raises NotLipschitz, naming constraint and variables, if a figure is not finite: for abs where
    its argument is 0, sqrt at 0, or intervals that stay infinite for the number of boxes that a
    supremum may evaluate.
    """
    m, n = len(constraints), len(names)
    first = [[derivative(g, name) for name in names] for g in constraints]
    second: dict[tuple[int, int, int], Expression] = {}
    derived = 0
    places = [(k, i, j) for k in range(m) for i in range(n) for j in range(i, n)]
    for k, i, j in places:
        second[k, i, j] = derivative(first[k][i], names[j])
        derived += second[k, i, j].size * len(second[k, i, j].names)
        if derived > MOST_DERIVED:
            raise NotLipschitz(
                f"'{str(constraints[k])[:80]}' couples too many agents at once: its second "
                "derivatives are too large to be bounded; sums of terms in few agents each are "
                "cheaper"
            )
    together = Work(MOST_TOGETHER)
    value_entries = np.zeros((m, n))
    gradient_entries = np.zeros((m, n, n))
    for k, g in enumerate(constraints):
        for j in range(n):
            value_entries[k, j] = _checked(norm_bound([first[k][j]], box, together), g, names[j])
        for i in range(n):
            for j in range(i, n):
                bound = _checked(
                    norm_bound([second[k, i, j]], box, together), g, names[i], names[j]
                )
                gradient_entries[k, i, j] = gradient_entries[k, j, i] = bound
    values = np.array(
        [
            _column([first[k][j] for k in range(m)], value_entries[:, j], box, together)
            for j in range(n)
        ]
    )
    gradients = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            vector = [second[k, i, j] for k in range(m)]
            gradients[i, j] = gradients[j, i] = _column(
                vector, gradient_entries[:, i, j], box, together
            )
    return Sensitivities(values, gradients, value_entries, gradient_entries)


def _column(vector: Sequence[Expression], entries: Floats, box: Box, together: Work) -> float:
    """A bound of the vector's norm, at most the norm of its entries' bounds: those need fewer boxes
    to become tight."""
    apart = math.hypot(*entries.tolist()) * (1 + 1e-15 * (8 + len(entries)))
    if np.count_nonzero(entries) <= 1 or not any(part.names for part in vector):
        return apart
    return min(apart, norm_bound(vector, box, together))


def norm_bound(vector: Sequence[Expression], box: Box, together: Work | None = None) -> float:
    """An upper bound of sup ||vector||_2 over `box`; infinite where there is none."""
    parts = [part for part in vector if part != ZERO]
    if not parts:
        return 0.0
    if len(parts) == 1:
        # The absolute value itself rather than its square: a square could overflow, and a root must
        # be rounded.
        (part,) = parts
        up = supremum(part, box, together=together).upper
        down = supremum(negate(part), box, together=together).upper
        return max(up, down, 0.0)
    square = supremum(add(*(power(part, 2.0) for part in parts)), box, together=together).upper
    return _root_up(square)


def jacobian_norm_bound(constraints: Sequence[Expression], names: Sequence[str], box: Box) -> float:
    """An upper bound of sup ||dg/dx||_2, the spectral norm: the paper's K_g, which joint
    calibration does not need.

    The norm of a matrix is at most that of its entries' suprema M; for any v > 0, ||M||² <= max_i
    (M'M v)_i / v_i (Collatz 1942, Wielandt 1950), here for an approximate Perron vector. It is
    tight if one point attains all suprema.
    """
    entries = np.array(
        [[norm_bound([derivative(g, name)], box) for name in names] for g in constraints]
    )
    square = entries.T @ entries
    vector = np.ones(len(names))
    for _ in range(1000):
        image = square @ vector
        top = image.max()
        if not 0 < top < math.inf:
            return math.sqrt(top) if top == 0 else math.inf
        vector = image / top + 1e-9
    return float(
        np.sqrt((square @ vector / vector).max()) * (1 + 1e-12 * (len(names) + len(constraints)))
    )


def _root_up(square: float) -> float:
    return (
        math.nextafter(math.sqrt(max(square, 0.0)), math.inf) if math.isfinite(square) else math.inf
    )


def _checked(bound: float, constraint: Expression, *names: str) -> float:
    if math.isfinite(bound):
        return bound
    what = (
        f"derivative in {names[0]}"
        if len(names) == 1
        else f"second derivative in {names[0]} and {names[1]}"
    )
    raise NotLipschitz(
        f"'{constraint}' has no bounded {what} over the box: a release of it could not be made "
        "private"
    )


# Many agents --------------------------------------------------------------------------------------
# The functions of `convexity` and `lipschitz` for constraints that are long sums over thousands of
# coordinates.
#
# prove_convex_sum(expression, box)           -> None or NotConvex
#     strict_point(problem, constraints)          -> float64[n], or NoSlaterPoint
#     shaved_box(constraints, box)                -> box
#     moved_by(constraints, names, box, agent_of) -> Moves: how far each output of a step moves with
#                                                    each agent
#
# All work term by term and entry by entry: the cost grows with the nonzero entries of the Jacobian
# and the Hessians, not with the square of the number of agents. Results are certified by interval
# arithmetic as there.

MOST_ENTRIES = 20_000
"""The most nonzero entries of the Jacobian and the Hessians together: the supremum of each is
certified."""
MOST_IN_A_TERM = 1_000_000
"""The most nodes of the terms times the variables in each."""
SLICES = 64
"""Number of slices of a range, each tested for whether a constraint can hold on it."""
STEPS = 2_000
"""Steps of the search for a point strictly inside."""


class TooManyEntries(NoSolution):
    """Constraints couple more coordinates than are certified."""


def terms_of(expression: Expression) -> tuple[Expression, ...]:
    """The terms of a sum; of another expression itself."""
    return expression.terms if isinstance(expression, Sum) else (expression,)


def affine(term: Expression) -> bool:
    """Whether a term has the form of a number, a variable or a multiple of one."""
    match term:
        case Number() | Variable():
            return True
        case Negation():
            return affine(term.argument)
        case Product():
            return sum(not isinstance(factor, Number) for factor in term.factors) <= 1 and all(
                affine(factor) for factor in term.factors
            )
    return False


def plainly_convex(term: Expression) -> bool:
    """Whether a term has the form of an affine expression, or of an even power of one times
    nonnegative numbers: then it is convex everywhere."""
    factors = term.factors if isinstance(term, Product) else (term,)
    numbers = [factor.value for factor in factors if isinstance(factor, Number)]
    others = [factor for factor in factors if not isinstance(factor, Number)]
    if len(others) == 1 and isinstance(others[0], Power):
        base, exponent = others[0].base, others[0].exponent
        even = exponent >= 2 and exponent == int(exponent) and int(exponent) % 2 == 0
        return (
            even and min(numbers, default=0.0) >= 0 and all(affine(part) for part in terms_of(base))
        )
    return affine(term)


def prove_convex_sum(expression: Expression, box: Box) -> None:
    """As `prove_convex`: a sum is convex by the rules of DCP if its terms are."""
    if sum(term.size * len(term.names) for term in terms_of(expression)) > MOST_IN_A_TERM:
        raise TooManyEntries(
            "a term has too many variables at once; sums of terms in few variables each are cheaper"
        )
    for term in terms_of(expression):
        if not plainly_convex(term):
            prove_convex(term, {name: box[name] for name in term.names})


def strict_point(problem: SaddleProblem, constraints: Sequence[Expression]) -> Floats:
    """States that agents may have and that satisfy every constraint with MARGIN.

    Each step projects on all linearized constraints with too little margin at once, averaging each
    coordinate over the constraints that contain it (component averaging: Censor, Gordon & Gordon
    2001), and then on the agents' sets. The point is certified by interval arithmetic.
    NoSlaterPoint if STEPS such steps do not suffice, which does not prove that there is none.
    """
    n, m = len(problem.names), problem.constraints
    x = problem.projected(0.5 * (problem.lower + problem.upper))
    room: Floats | None = None
    for step in range(STEPS):
        found = expression_programs.evaluate(problem.program, x)
        values, slopes = found[n : n + m], found[n + m :]
        if not np.isfinite(found[n:]).all():
            break
        if values.max() <= -2 * MARGIN and _certified(x, problem.names, constraints):
            return x
        if room is None:
            reach = np.bincount(
                problem.constraint,
                np.abs(slopes) * (problem.upper - problem.lower)[problem.agent],
                m,
            )
            room = np.maximum(1e-2 * reach, 4 * MARGIN)
        elif step % 200 == 0:
            room = np.maximum(0.1 * room, 4 * MARGIN)
        short = np.maximum(values + room, 0.0)
        square = np.bincount(problem.constraint, slopes * slopes, m)
        pull = np.divide(short, square, out=np.zeros(m), where=square > 0)
        used = pull[problem.constraint] > 0
        times = np.maximum(np.bincount(problem.agent[used], minlength=n), 1)
        x = problem.projected(
            x - np.bincount(problem.agent, slopes * pull[problem.constraint], n) / times
        )
    raise NoSlaterPoint(
        "no point strictly inside all constraints was found: multipliers would have no bound "
        "without"
    )


def _certified(x: Floats, names: Sequence[str], constraints: Sequence[Expression]) -> bool:
    point = {name: (value, value) for name, value in zip(names, x.tolist(), strict=True)}
    return all(value_bounds(constraint, point)[1] <= -MARGIN for constraint in constraints)


def shaved_box(constraints: Sequence[Expression], box: Box) -> dict[str, tuple[float, float]]:
    """A box within `box` that contains every point satisfying the constraints, with a margin.

    The range of each coordinate in a nonlinear term of a constraint is divided into SLICES parts.
    Those at the ends on which the constraint's interval is above 0 are removed, except the last of
    them. So no bound of the result excludes a point that the constraints allow: the saddle point
    and its multipliers stay, and Lipschitz constants decrease.
    """
    tight = dict(box)
    for constraint in constraints:
        terms = terms_of(constraint)
        whole = {
            name: Interval(np.array([tight[name][0]]), np.array([tight[name][1]]))
            for name in constraint.names
        }
        lows = [float(bounds(term, whole).low[0]) for term in terms]
        total = math.fsum(lows) if all(map(math.isfinite, lows)) else -math.inf
        if not math.isfinite(total):
            continue
        places: dict[str, list[int]] = {}
        for place, term in enumerate(terms):
            for name in term.names:
                places.setdefault(name, []).append(place)
        slack = 1e-12 * math.fsum(map(abs, lows))
        for name, own in places.items():
            low, high = tight[name]
            if all(affine(terms[place]) for place in own) or not high > low:
                continue
            edges = np.linspace(low, high, SLICES + 1)
            sliced = dict(whole) | {name: Interval(edges[:-1], edges[1:])}
            least = sum((bounds(terms[place], sliced).low for place in own), np.zeros(SLICES))
            possible = np.flatnonzero(
                ~(total - math.fsum(lows[place] for place in own) + least - slack > 0)
            )
            if possible.size:
                first, last = max(int(possible[0]) - 1, 0), min(int(possible[-1]) + 2, SLICES)
                tight[name] = float(edges[first]), float(edges[last])
    return tight


# How far outputs move -----------------------------------------------------------------------------


def moved_by(
    constraints: Sequence[Expression], names: Sequence[str], box: Box, agent_of: Sequence[int]
) -> Moves:
    """Upper bounds over `box` of how far each output moves with each agent's whole vector of
    coordinates, in l2.

    For an output o and the block of coordinates x_j of agent j: |o(x) - o(x')| <= sup ||do/dx_j||_2
    ||x_j - x'_j||_2 if x, x' differ only in that block, by the mean value theorem on the segment
    between them, which is in the box; and the norm is at most that of the entries' suprema. Raises
    NotLipschitz as `sensitivities` does, and TooManyEntries.
    """
    place = {name: position for position, name in enumerate(names)}
    firsts = [gradient(g) for g in constraints]
    entries = sum(map(len, firsts)) + sum(
        len(slope.names) for first in firsts for slope in first.values()
    )
    if entries > MOST_ENTRIES:
        raise TooManyEntries(
            f"the constraints have {entries} derivatives and second derivatives that are not zero, "
            f"more than {MOST_ENTRIES}"
        )
    together = Work(MOST_TOGETHER)
    rows: list[tuple[Expression, list[tuple[str, Expression]]]] = [
        (g, sorted(first.items(), key=lambda one: place[one[0]]))
        for g, first in zip(constraints, firsts, strict=True)
    ]
    by_place = (
        (place[name], k, slope) for k, first in enumerate(firsts) for name, slope in first.items()
    )
    ordered = sorted(by_place, key=lambda one: one[:2])
    rows += [(constraints[k], sorted(gradient(slope).items())) for _, k, slope in ordered]
    found: list[tuple[int, int, float]] = []
    for row, (g, slopes) in enumerate(rows):
        squares: dict[int, list[float]] = {}
        for name, slope in slopes:
            # An affine slope attains its extremes at corners of the box: no search is needed.
            plain = affine(slope)
            bound = (
                max(map(abs, value_bounds(slope, box)))
                if plain
                else norm_bound([slope], box, together)
            )
            if not math.isfinite(bound):
                raise NotLipschitz(
                    f"'{str(g)[:80]}' has no bounded derivatives in {name}: a release of it could "
                    "not be made private"
                )
            squares.setdefault(agent_of[place[name]], []).append(bound)
        for agent, of_agent in sorted(squares.items()):
            bound = (
                of_agent[0]
                if len(of_agent) == 1
                else math.hypot(*of_agent) * (1 + 1e-15 * (8 + len(of_agent)))
            )
            found.append((row, agent, bound))
    return Moves(
        np.array([row for row, *_ in found], dtype=np.int64),
        np.array([agent for _, agent, _ in found], dtype=np.int64),
        np.array([bound for *_, bound in found], dtype=np.float64),
        len(rows),
    )

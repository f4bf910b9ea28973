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

from discreet.solvers.errors import NoSolution
from discreet.solvers.saddle.intervals import Box, value_bounds
from discreet_client.expressions import (
    Call,
    Expression,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Variable,
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

"""Rounding errors of compiled programs, against the same expressions in 60 digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.solvers.saddle.expression_programs import compiled, evaluate
from discreet.solvers.saddle.rounding import rounding_errors
from discreet_agent.expressions import (
    Call,
    Expression,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    parse,
)

BOX = {"x": (0.5, 3.0), "y": (-2.0, 2.0)}
NAMES = tuple(BOX)

ATOMS = st.sampled_from(
    ["x", "y", "3", "0.1", "1e6", "1e-7", "(x + 1e5)", "(y - 1e4)", "exp(y)", "log(x)", "sqrt(x)"]
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda part: f"({' '.join(part)})"),
        inner.map(lambda part: f"({part})^2"),
        inner.map(lambda part: f"({part})/(x + 0.3)"),
        inner.map(lambda part: f"exp(1e-6*{part})"),
        inner.map(lambda part: f"sqrt(1 + ({part})^2)"),
        inner.map(lambda part: f"(2 + ({part})^2)^1.5"),
    ),
    max_leaves=6,
)


def exact(node: Expression, point: dict[str, float]) -> mpmath.mpf:
    """The value of the expression with its numbers as the doubles that they are."""

    def of(part: Expression) -> mpmath.mpf:
        match part:
            case Number():
                return mpmath.mpf(part.value)
            case Sum():
                return mpmath.fsum(map(of, part.terms))
            case Product():
                return mpmath.fprod(map(of, part.factors))
            case Quotient():
                return of(part.numerator) / of(part.denominator)
            case Negation():
                return -of(part.argument)
            case Power():
                return mpmath.power(of(part.base), mpmath.mpf(part.exponent))
            case Call():
                return {"exp": mpmath.exp, "log": mpmath.log, "sqrt": mpmath.sqrt, "abs": abs}[
                    part.function
                ](of(part.argument))
        return mpmath.mpf(point[part.name])  # type: ignore[attr-defined]

    return of(node)


@given(EXPRESSIONS, st.floats(*BOX["x"]), st.floats(*BOX["y"]))
@settings(max_examples=200)
def test_no_value_is_further_off_than_its_bound(text: str, x: float, y: float) -> None:
    expression = parse(text, NAMES)
    program = compiled([expression], NAMES)
    (error,), (size,) = rounding_errors(program, BOX)
    with mpmath.workdps(60):
        if not expression.names:
            assert error == size == 0
        elif math.isfinite(error):
            found = float(evaluate(program, [x, y])[0])
            assert abs(mpmath.mpf(found) - exact(expression, {"x": x, "y": y})) <= error
            assert abs(found) <= size


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("x", 0.0, 0.0),
        ("x + y", 0.0, 1e-15),
        ("1e-9*x + 5e-9 - 1e8", 7e-9, 3e-8),  # half a unit in the last place of 1e8 is 7.45e-9
        ("(x + 1e8) - 1e8", 7e-9, 3e-8),
        ("sqrt(x - 0.5)", math.inf, math.inf),
        ("1/(x - 0.5)", math.inf, math.inf),
        ("exp(1000*x)", math.inf, math.inf),
    ],
)
def test_bounds_are_near_what_they_bound(text: str, least: float, most: float) -> None:
    (error,), _ = rounding_errors(compiled([parse(text, NAMES)], NAMES), BOX)
    assert least <= error <= most


def test_a_number_that_no_variable_enters_has_no_error() -> None:
    errors, sizes = rounding_errors(compiled([parse("1e12 + 0.1 - 1e12", NAMES)], NAMES), BOX)
    assert np.array_equal(errors, [0])
    assert np.array_equal(sizes, [0])

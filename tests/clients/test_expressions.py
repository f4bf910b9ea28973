"""The grammar against a table and texts made together with their meaning; derivatives and programs
against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.solvers.saddle.expression_programs import compiled, evaluate
from discreet_agent.expressions import (
    FUNCTIONS,
    MAX_DEPTH,
    MAX_NODES,
    ZERO,
    Expression,
    ExpressionError,
    derivative,
    parse,
)
from discreet_agent.expressions import value as value_at

NAMES = ("x", "y", "z_1")
Meaning = Callable[[Any, Any, Any], Any]


def value(expression: Expression, *point: float) -> float:
    return float(evaluate(compiled([expression], NAMES), point)[0])


# Texts with their meaning -------------------------------------------------------------------------


@st.composite
def _numbers(draw: st.DrawFn) -> tuple[str, Meaning]:
    text = draw(st.sampled_from(["0.5", "2", "3.", ".25", "1e-3", "12.5E+1", "7"]))
    return text, lambda *_: mpmath.mpf(float(text))


_leaves = st.one_of(
    _numbers(),
    *(st.just((name, lambda *point, i=i: point[i])) for i, name in enumerate(NAMES)),
)


def _grown(inner: st.SearchStrategy[tuple[str, Meaning]]) -> st.SearchStrategy[tuple[str, Meaning]]:
    """Texts whose every operation is in parentheses, so that the meaning rests on no rule of
    precedence."""
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
    }

    @st.composite
    def binary(draw: st.DrawFn) -> tuple[str, Meaning]:
        sign = draw(st.sampled_from(sorted(operations)))
        (left, f), (right, g) = draw(inner), draw(inner)
        return f"({left} {sign} {right})", lambda *point: operations[sign](f(*point), g(*point))

    @st.composite
    def power(draw: st.DrawFn) -> tuple[str, Meaning]:
        base, f = draw(inner)
        exponent = draw(st.sampled_from([-3, -1, 2, 3, 4, 7]))
        return f"(({base})^{exponent})", lambda *point: f(*point) ** exponent

    @st.composite
    def function(draw: st.DrawFn) -> tuple[str, Meaning]:
        name = draw(st.sampled_from(FUNCTIONS))
        argument, f = draw(inner)
        call = {"exp": mpmath.exp, "log": mpmath.log, "sqrt": mpmath.sqrt, "abs": abs}[name]

        def meaning(*point: Any) -> Any:
            inside = f(*point)
            if name in ("log", "sqrt") and not inside > 0:
                raise ZeroDivisionError  # outside the domain, or where the derivative ends
            return call(inside)

        return f"{name}({argument})", meaning

    @st.composite
    def negative(draw: st.DrawFn) -> tuple[str, Meaning]:
        text, f = draw(inner)
        return f"(-{text})", lambda *point: -f(*point)

    return st.one_of(binary(), binary(), power(), function(), negative())


texts = st.recursive(_leaves, _grown, max_leaves=8)
points = st.tuples(*[st.floats(0.25, 3.0)] * 3)


def reference(meaning: Meaning, point: tuple[float, ...]) -> Any:
    """The value in 60 digits; discards points outside the domain, and where doubles could not
    tell."""
    with mpmath.workdps(60):
        try:
            exact = meaning(*map(mpmath.mpf, point))
        except ZeroDivisionError:
            assume(False)
        assume(mpmath.im(exact) == 0 and mpmath.isfinite(exact))
        exact = mpmath.re(exact)
        assume(abs(exact) < 1e8)
        return exact


# Tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2*3", 7.0),
        ("2*3 + 1", 7.0),
        ("10 - 3 - 2", 5.0),
        ("24/4/3", 2.0),
        ("24/4*3", 18.0),
        ("2^3^2", 512.0),
        ("-2^2", -4.0),
        ("(-2)^2", 4.0),
        ("2^-1", 0.5),
        ("2*-3", -6.0),
        ("--3", 3.0),
        ("1 - -1", 2.0),
        ("8^(1/3)", 2.0),
        ("4^0.5*3", 6.0),
        ("5^0", 1.0),
        ("-x^2", -9.0),
        ("1 - x*y", -11.0),
        ("-x*y + 1", -11.0),
        ("x^2/y", 2.25),
        ("exp(log(x) + 0)", 3.0),
        ("abs(x - y)*sqrt(16)", 4.0),
        (".5e1+\tz_1\n", 10.0),
    ],
)
def test_precedence(text: str, expected: float) -> None:
    assert value(parse(text, NAMES), 3.0, 4.0, 5.0) == pytest.approx(expected, rel=1e-15)


@settings(max_examples=200, deadline=None)
@given(texts, points)
def test_meaning_of_texts(made: tuple[str, Meaning], point: tuple[float, ...]) -> None:
    text, meaning = made
    expression = parse(text, NAMES)
    exact = reference(meaning, point)
    perturbed = [reference(meaning, tuple(x * (1 + s * 1e-9) for x in point)) for s in (-1, 1)]
    # What the value moves when the point moves by 1e-9 of itself says how well it can be computed.
    room = float(max(abs(p - exact) for p in perturbed)) + 1e-12 * (1 + abs(float(exact)))
    assume(room < 1e-6 * (1 + abs(float(exact))))
    assert abs(value(expression, *point) - float(exact)) <= room


@settings(max_examples=200, deadline=None)
@given(texts)
def test_a_printed_tree_parses_to_itself(made: tuple[str, Meaning]) -> None:
    tree = parse(made[0], NAMES)
    assert parse(str(tree), NAMES) == tree
    assert str(parse(str(tree), NAMES)) == str(tree)


@settings(max_examples=150, deadline=None)
@given(texts, points, st.integers(0, 2))
def test_derivatives(made: tuple[str, Meaning], point: tuple[float, ...], position: int) -> None:
    text, meaning = made
    slope = derivative(parse(text, NAMES), NAMES[position])
    reference(meaning, point)
    with mpmath.workdps(60):
        exact_point = [mpmath.mpf(x) for x in point]

        def along(h: Any) -> Any:
            return meaning(*(x + h * (i == position) for i, x in enumerate(exact_point)))

        step = mpmath.mpf(10) ** -15
        try:
            two_sided = (along(step) - along(-step)) / (2 * step)
            one_sided = (along(step) - along(0)) / step
        except ZeroDivisionError:
            assume(False)
        assume(mpmath.im(two_sided) == 0 and abs(two_sided) < 1e6)
        assume(abs(two_sided - one_sided) < 1e-9)  # no kink of abs here, no pole nearby
    expected = float(mpmath.re(two_sided))
    found = value(slope, *point)
    assume(math.isfinite(found))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_derivatives_are_simplified() -> None:
    for text, expected in [
        ("3*x + y", "3"),
        ("x^2", "2*x"),
        ("x^4/12 - 20", "4*x^3/12"),
        ("(y + 3)^6", "0"),
        ("x*y", "y"),
        ("exp(2*x)", "2*exp(2*x)"),
        ("log(x)", "1/x"),
        ("abs(x - 1)", "sign(x - 1)"),
    ]:
        assert str(derivative(parse(text, NAMES), "x")) == expected
    assert derivative(derivative(parse("x^2/2 + y*x", NAMES), "x"), "x") == parse("1", NAMES)
    assert derivative(parse("y + 1", NAMES), "x") is ZERO


@pytest.mark.parametrize(
    ("text", "position", "word"),
    [
        ("", 0, "ends"),
        ("x + ", 4, "ends"),
        ("x + * y", 4, "'*' stands"),
        ("x y", 2, "does not continue"),
        ("(x + 1", 0, "never closed"),
        ("x + 1)", 5, "does not continue"),
        ("x + width", 4, "neither an agent nor a function"),
        ("x ** 2", 3, "'*' stands"),
        ("exp x", 4, "parentheses"),
        ("x^y", 2, "must be a number"),
        ("x^65", 2, "beyond"),
        ("x^(1/0)", 2, "no finite value"),
        ("x^(-1)^0.5", 2, "no finite value"),
        ("x^exp(1)", 2, "numbers"),
        ("1e13*x", 0, "larger"),
        ("1e999", 0, "larger"),
        ("x + é", 4, "not part of the grammar"),
        ("x.real", 1, "not part of the grammar"),
        ("x[0]", 1, "not part of the grammar"),
        ("__import__('os')", 0, "neither"),
        ("lambda: 1", 6, "not part of the grammar"),
        ("import os", 0, "neither"),
        ("sign(x)", 0, "neither"),
        ("٣ + x", 0, "not part of the grammar"),
    ],
)
def test_refused_texts(text: str, position: int, word: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse(text, NAMES)
    assert word in refused.value.sentence
    assert refused.value.position == position
    assert str(refused.value).endswith(f"at character {position + 1}")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "(" * 200 + "x" + ")" * 200,
        "-" * 9_999 + "x",
        "exp(" * 200 + "x" + ")" * 200,
        "x" + "/x" * 4_000,
        "x" + "+x" * 4_000,
        "x^" * 4_000 + "x",
        "x^9^9^9^9",
        "x^(((((9^64)^64)^64)^64)^64)",
        "9" * 10_000,
        "x" * 10_001,
        "1+" * 100_000 + "1",
    ],
)
def test_bombs_are_refused(text: str) -> None:
    """At once: one that is not takes all time or all memory, and the suite's own limit ends it."""
    with pytest.raises(ExpressionError):
        parse(text, NAMES)


def test_limits_leave_room() -> None:
    deep = "(" * (MAX_DEPTH - 1) + "x" + ")" * (MAX_DEPTH - 1)
    assert str(parse(deep, NAMES)) == "x"
    wide = " + ".join(["x*y"] * ((MAX_NODES - 1) // 3))
    assert value(parse(wide, NAMES), 1.0, 2.0, 0.0) == 2.0 * ((MAX_NODES - 1) // 3)


def test_derivatives_cannot_explode() -> None:
    product = parse("*".join(["exp(x)"] * 600), NAMES)
    with pytest.raises(ExpressionError, match="too large"):
        derivative(product, "x")


def test_numbers_of_a_product_are_no_bomb() -> None:
    """Exact fractions of a thousand bits each, multiplied 90 times over: minutes, until their
    number was bounded."""
    product = parse("*".join(["1e-300"] * 900 + ["x"] * 90), NAMES)
    assert derivative(product, "x").names == {"x"}
    few = derivative(parse("0.5*" * 16 + "x*x", NAMES), "x")
    assert value(few, 3.0, 0.0, 0.0) == 2 * 3.0 * 0.5**16


@pytest.mark.parametrize("name", ["exp", "sign", "2x", "x y", "", "x-1", "é", "a" * 65])
def test_names_that_cannot_be_agents(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        parse("1", [name])


def test_programs_share_and_give_all_outputs() -> None:
    texts_ = ["x^2 + y", "x^4", "(x^2 + y)*3", "x^2 + y"]
    program = compiled([parse(text, NAMES) for text in texts_], NAMES)
    assert evaluate(program, [2.0, 5.0, 0.0]).tolist() == [9.0, 16.0, 27.0, 9.0]
    assert len(program.code) == 4  # x², + y, its square, three times the sum
    constant = compiled(
        [parse(text, NAMES) for text in ("1/12*x", "2*3 - 4 + x", "1/(2 - 2) + y", "0/(0*z_1)")],
        NAMES,
    )
    assert evaluate(constant, [3.0, 1.0, 0.0])[:3].tolist() == [3 * (1 / 12), 5.0, np.inf]
    assert (constant.fixed, len(constant.code)) == (
        4,
        9,
    )  # 1/12, 2*3 - 4, 2 - 2 and 1 over it are done once
    outside = compiled(
        [parse(text, NAMES) for text in ("log(x)", "sqrt(x)", "x^0.5", "1/y")], NAMES
    )
    values = evaluate(outside, [-1.0, 0.0, 0.0])
    assert np.isnan(values[:3]).all()
    assert values[3] == np.inf


@pytest.mark.parametrize(
    ("text", "x", "expected"),
    [
        ("2*x^3 - x/4 + 1", 2.0, 16.5),
        ("exp(x) * sqrt(x) + abs(-x)", 1.0, math.e + 1),
        ("log(x)", -1.0, math.nan),
        ("1/x", 0.0, math.nan),
        ("exp(x)^9", 800.0, math.nan),
    ],
)
def test_values_at_a_point(text: str, x: float, expected: float) -> None:
    found = value_at(parse(text, ["x"]), {"x": x})
    assert found == pytest.approx(expected, nan_ok=True)


def test_values_of_derivatives_are_slopes() -> None:
    text = "(x - 1)^4 + exp(0.5*x) + abs(x)"
    expression = parse(text, ["x"])
    slope = derivative(expression, "x")
    for x in (-2.0, 0.5, 3.0):
        numeric = (
            value_at(expression, {"x": x + 1e-6}) - value_at(expression, {"x": x - 1e-6})
        ) / 2e-6
        assert value_at(slope, {"x": x}) == pytest.approx(numeric, rel=1e-6)

"""Expressions of agents' objectives and constraints: a small grammar of our own, and derivatives.

    parse("x5^2 + x6^4/12 - 20", ["x5", "x6"]) -> Expression
    derivative(expression, "x6")               -> Expression
    value(expression, {"x5": 1.0, "x6": 2.0})  -> float

    sum     = product, { ("+" | "-"), product } ;
    product = unary, { ("*" | "/"), unary } ;
    unary   = "-", unary | power ;
    power   = atom, [ "^", unary ] ;         (* x^2^3 = x^(2^3); the exponent is a number *)
    atom    = number | name | function, "(", sum, ")" | "(", sum, ")" ;

Functions are exp, log (natural), sqrt and abs. Python's own parser and evaluator are not involved,
and the result consists of the nodes below alone. Length, depth, nodes, numbers and exponents are
bounded, so that no text can exhaust time or memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

MAX_LENGTH = 10_000
"""Characters of a text."""
MAX_NODES = 2_000
MAX_DEPTH = 40
"""Levels of parentheses, signs, exponents and functions in a text, and of its tree."""
MAX_EXPONENT = 64.0
MAX_NUMBER = 1e12
MAX_DERIVED_NODES = 100_000
"""Nodes of a derivative, counted as a tree."""

MAX_COMBINED = 16
"""The most numbers of one product that are multiplied exactly: each lengthens the fraction."""

FUNCTIONS = ("exp", "log", "sqrt", "abs")
DERIVED = ("sign", "jump")
"""Functions of derivatives of abs, which are not in the grammar. sign(0) = 0; jump, its derivative,
is 0 but counts as unbounded at 0."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[-+*/^()]))",
    re.ASCII,
)


class ExpressionError(ValueError):
    """A text is not an expression, or is too large. `position`: the 0-based character, or None."""

    def __init__(self, sentence: str, position: int | None = None) -> None:
        super().__init__(
            sentence if position is None else f"{sentence}, at character {position + 1}"
        )
        self.sentence, self.position = sentence, position


# The tree -----------------------------------------------------------------------------------------

_SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(1, 6)


@dataclass(frozen=True)
class Expression:
    """A node. Immutable; equal when the trees are equal. `str` gives a text from which `parse`
    makes an equal tree.

    `position`: the character of the text where the node begins, None for derived nodes; equality
    ignores it.
    """

    position: int | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def children(self) -> tuple[Expression, ...]:
        """The nodes right below."""
        return ()

    @cached_property
    def size(self) -> int:
        """Nodes of the tree."""
        return 1 + sum(child.size for child in self.children)

    @cached_property
    def depth(self) -> int:
        """Levels of the tree."""
        return 1 + max((child.depth for child in self.children), default=0)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the variables in it."""
        return frozenset().union(*(child.names for child in self.children))

    def __str__(self) -> str:
        return _text(self)[0]


@dataclass(frozen=True)
class Number(Expression):
    """A finite double."""

    value: float


@dataclass(frozen=True)
class Variable(Expression):
    """An agent's state, by the agent's name."""

    name: str

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset((self.name,))


@dataclass(frozen=True)
class Sum(Expression):
    """Two terms or more; a difference is a sum with a negation."""

    terms: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.terms


@dataclass(frozen=True)
class Product(Expression):
    """Two factors or more."""

    factors: tuple[Expression, ...]

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.factors


@dataclass(frozen=True)
class Quotient(Expression):
    """numerator / denominator."""

    numerator: Expression
    denominator: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return self.numerator, self.denominator


@dataclass(frozen=True)
class Negation(Expression):
    """-argument."""

    argument: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)


@dataclass(frozen=True)
class Power(Expression):
    """base ^ exponent, the exponent a number."""

    base: Expression
    exponent: float

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.base,)


@dataclass(frozen=True)
class Call(Expression):
    """function(argument), the function one of `FUNCTIONS` or `DERIVED`."""

    function: str
    argument: Expression

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.argument,)


def _text(node: Expression) -> tuple[str, int]:
    """The text and the precedence of its outermost operator."""

    def inner(child: Expression, least: int) -> str:
        text, level = _text(child)
        return text if level >= least else f"({text})"

    match node:
        case Number():
            return number_text(node.value), _ATOM if node.value >= 0 else _UNARY
        case Variable():
            return node.name, _ATOM
        case Sum():
            text = inner(node.terms[0], _PRODUCT)
            for term in node.terms[1:]:
                if isinstance(term, Negation):
                    text += f" - {inner(term.argument, _PRODUCT)}"
                elif isinstance(term, Number) and term.value < 0:
                    text += f" - {number_text(-term.value)}"
                else:
                    text += f" + {inner(term, _PRODUCT)}"
            return text, _SUM
        case Product():
            # A quotient in front needs no parentheses: a/b*c is (a/b)*c.
            first = inner(
                node.factors[0], _PRODUCT if isinstance(node.factors[0], Quotient) else _UNARY
            )
            return "*".join(
                [first, *(inner(factor, _UNARY) for factor in node.factors[1:])]
            ), _PRODUCT
        case Quotient():
            return f"{inner(node.numerator, _PRODUCT)}/{inner(node.denominator, _UNARY)}", _PRODUCT
        case Negation():
            return f"-{inner(node.argument, _UNARY)}", _UNARY
        case Power():
            return f"{inner(node.base, _ATOM)}^{number_text(node.exponent)}", _POWER
        case Call():
            return f"{node.function}({_text(node.argument)[0]})", _ATOM
    raise TypeError(type(node).__name__)


def number_text(value: float) -> str:
    """The shortest text of a double, integers without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


# Parsing ------------------------------------------------------------------------------------------


def parse(
    text: str,
    names: Iterable[str],
    *,
    most_characters: int = MAX_LENGTH,
    most_nodes: int = MAX_NODES,
) -> Expression:
    """The tree of `text`, whose variables are among `names`.

    Raises ExpressionError, with the position, for a text that the grammar or a limit does not
    allow; ValueError for names that cannot stand in an expression.
    """
    known = frozenset(names)
    for name in known:
        if not NAME.fullmatch(name) or name in FUNCTIONS or name in DERIVED:
            raise ValueError(f"{name!r} cannot be the name of an agent in an expression")
    if len(text) > most_characters:
        says = f"the expression has {len(text)} characters, more than {most_characters}"
        raise ExpressionError(says, most_characters)
    parser = _Parser(text, known)
    root = parser.sum()
    kind, token, position = parser.token
    if kind != "end":
        raise ExpressionError(f"{token!r} does not continue the expression", position)
    if root.size > most_nodes:
        raise ExpressionError(f"the expression has {root.size} nodes, more than {most_nodes}", 0)
    return root


class _Parser:
    """Recursive descent, one token ahead; a method for each rule of the grammar."""

    def __init__(self, text: str, names: frozenset[str]) -> None:
        self.text, self.names = text, names
        self.after, self.level = 0, 0
        self.token = self.next()

    def next(self) -> tuple[str, str, int]:
        """The next token: its kind, its text and where it begins."""
        match = _TOKEN.match(self.text, self.after)
        if match is None:
            rest = self.text[self.after :]
            position = self.after + len(rest) - len(rest.lstrip())
            if position == len(self.text):
                return "end", "", position
            raise ExpressionError(
                f"the character {self.text[position]!r} is not part of the grammar", position
            )
        self.after = match.end()
        kind = match.lastgroup or ""
        return kind, match[kind], match.start(kind)

    def take(self, *signs: str) -> str | None:
        """Step over the token when it is one of `signs`."""
        kind, token, _ = self.token
        if kind != "sign" or token not in signs:
            return None
        self.token = self.next()
        return token

    def checked(self, node: Expression) -> Expression:
        if node.depth > MAX_DEPTH:
            raise ExpressionError(
                f"the expression is nested more than {MAX_DEPTH} levels deep", node.position
            )
        return node

    def sum(self) -> Expression:
        start = self.token[2]
        terms = [self.product()]
        while sign := self.take("+", "-"):
            term = self.product()
            terms.append(term if sign == "+" else self.negated(term, term.position))
        return terms[0] if len(terms) == 1 else self.checked(Sum(tuple(terms), position=start))

    def product(self) -> Expression:
        start = self.token[2]
        factors = [self.unary()]

        def whole() -> Expression:
            if len(factors) == 1:
                return factors[0]
            return self.checked(Product(tuple(factors), position=start))

        while sign := self.take("*", "/"):
            factor = self.unary()
            if sign == "*":
                factors.append(factor)
            else:
                factors = [self.checked(Quotient(whole(), factor, position=start))]
        return whole()

    def unary(self) -> Expression:
        start = self.token[2]
        self.level += 1
        if self.level > MAX_DEPTH:
            raise ExpressionError(
                f"the expression is nested more than {MAX_DEPTH} levels deep", start
            )
        node = self.negated(self.unary(), start) if self.take("-") else self.power()
        self.level -= 1
        return node

    def negated(self, node: Expression, position: int | None) -> Expression:
        if isinstance(node, Number):
            return Number(-node.value, position=position)
        return self.checked(Negation(node, position=position))

    def power(self) -> Expression:
        base = self.atom()
        if not self.take("^"):
            return base
        start = self.token[2]
        exponent = self.unary()
        if exponent.names:
            raise ExpressionError(
                "an exponent must be a number; write exp(y*log(x)) for x^y", start
            )
        value = _constant(exponent, start)
        if abs(value) > MAX_EXPONENT:
            raise ExpressionError(
                f"the exponent {number_text(value)} is beyond ±{number_text(MAX_EXPONENT)}", start
            )
        return self.checked(Power(base, value, position=base.position))

    def atom(self) -> Expression:
        kind, token, position = self.token
        if kind == "number":
            value = float(token)
            if value > MAX_NUMBER:
                raise ExpressionError(
                    f"the number {token[:40]} is larger than {MAX_NUMBER:g}", position
                )
            self.token = self.next()
            return Number(value, position=position)
        if kind == "name":
            self.token = self.next()
            if token in FUNCTIONS:
                if not self.take("("):
                    raise ExpressionError(
                        f"the function {token} needs its argument in parentheses", self.token[2]
                    )
                return self.checked(Call(token, self.closed(position), position=position))
            if token not in self.names:
                raise ExpressionError(
                    f"{token[:64]!r} is neither an agent nor a function", position
                )
            return Variable(token, position=position)
        if self.take("("):
            return self.closed(position)
        found = "the expression ends" if kind == "end" else f"{token!r} stands"
        raise ExpressionError(
            f"{found} where a number, a name or a parenthesis is needed", position
        )

    def closed(self, opened: int) -> Expression:
        node = self.sum()
        if not self.take(")"):
            raise ExpressionError("the parenthesis is never closed", opened)
        return node


def _constant(node: Expression, position: int) -> float:
    """The value of an exponent: a number, or arithmetic of numbers, in doubles, so that a tower of
    powers overflows instead of growing."""

    def value(part: Expression) -> float:
        match part:
            case Number():
                return part.value
            case Sum():
                return sum(map(value, part.terms))
            case Negation():
                return -value(part.argument)
            case Product():
                return math.prod(map(value, part.factors))
            case Quotient():
                return value(part.numerator) / value(part.denominator)
            case Power():
                return math.pow(value(part.base), part.exponent)
        raise ExpressionError("an exponent is a number, or + - * / ^ of numbers", position)

    try:
        exponent = value(node)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        exponent = math.nan
    if not math.isfinite(exponent):
        raise ExpressionError("the exponent has no finite value", position)
    return exponent


def value(expression: Expression, point: Mapping[str, float]) -> float:
    """The value at a point in doubles; NaN where the expression is not defined. For an agent's own
    objective, one point at a time."""

    def of(node: Expression) -> float:
        match node:
            case Number():
                return node.value
            case Variable():
                return point[node.name]
            case Sum():
                return sum(map(of, node.terms))
            case Product():
                return math.prod(map(of, node.factors))
            case Quotient():
                return of(node.numerator) / of(node.denominator)
            case Negation():
                return -of(node.argument)
            case Power():
                return math.pow(of(node.base), node.exponent)
            case Call():
                return _CALLS[node.function](of(node.argument))
        raise TypeError(f"no expression: {node!r}")

    try:
        return of(expression)
    except (ZeroDivisionError, OverflowError, ValueError):
        return math.nan


_CALLS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "abs": abs,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "jump": lambda x: 0.0,
}


# Derivatives --------------------------------------------------------------------------------------

ZERO, ONE = Number(0.0), Number(1.0)


def derivative(expression: Expression, name: str) -> Expression:
    """The partial derivative in the variable `name`, simplified.

    Numbers are combined only where the exact result is a double, so bounds on the tree are bounds
    on the derivative. Raises ExpressionError if a part of the result has more than
    MAX_DERIVED_NODES nodes.
    """
    known: dict[int, Expression] = {}

    def of(node: Expression) -> Expression:
        if name not in node.names:
            return ZERO
        if id(node) not in known:
            known[id(node)] = rule(node)
            if known[id(node)].size > MAX_DERIVED_NODES:
                raise ExpressionError(
                    "the derivative of the expression is too large", expression.position
                )
        return known[id(node)]

    def rule(node: Expression) -> Expression:
        match node:
            case Variable():
                return ONE
            case Sum():
                return add(*map(of, node.terms))
            case Negation():
                return negate(of(node.argument))
            case Product():
                factors = node.factors
                return add(
                    *(
                        multiply(*factors[:i], of(factor), *factors[i + 1 :])
                        for i, factor in enumerate(factors)
                    )
                )
            case Quotient():
                above, below = node.numerator, node.denominator
                if name not in below.names:
                    return divide(of(above), below)
                change = add(multiply(of(above), below), negate(multiply(above, of(below))))
                return divide(change, power(below, 2.0))
            case Power():
                return multiply(_slope_of_power(node), of(node.base))
            case Call():
                return multiply(_slope_of_call(node), of(node.argument))
        raise TypeError(type(node).__name__)

    return of(expression)


def gradient(expression: Expression) -> dict[str, Expression]:
    """The partial derivatives by variable, as `derivative` gives them, without those that are 0.

    In a sum only the terms that contain a variable are differentiated by it, so the cost of a long
    sum of terms in few variables grows with the terms, not with variables times terms.
    """
    if not isinstance(expression, Sum):
        parts = dict.fromkeys(expression.names, expression)
    else:
        terms: dict[str, list[Expression]] = {}
        for term in expression.terms:
            for name in term.names:
                terms.setdefault(name, []).append(term)
        parts = {
            name: found[0] if len(found) == 1 else Sum(tuple(found))
            for name, found in terms.items()
        }
    found = {name: derivative(part, name) for name, part in sorted(parts.items())}
    return {name: slope for name, slope in found.items() if slope != ZERO}


def _slope_of_power(node: Power) -> Expression:
    lower = _double(Fraction(node.exponent) - 1)
    if lower is None:
        return divide(multiply(Number(node.exponent), node), node.base)
    return multiply(Number(node.exponent), power(node.base, lower))


def _slope_of_call(node: Call) -> Expression:
    argument = node.argument
    slopes: dict[str, Callable[[], Expression]] = {
        "exp": lambda: node,
        "log": lambda: divide(ONE, argument),
        "sqrt": lambda: divide(Number(0.5), node),
        "abs": lambda: Call("sign", argument),
        "sign": lambda: Call("jump", argument),
        "jump": lambda: node,
    }
    return slopes[node.function]()


def _double(value: Fraction) -> float | None:
    """`value` as a double, or None if it is not exactly one."""
    try:
        near = float(value)
    except OverflowError:
        return None
    return near if Fraction(near) == value else None


def add(*terms: Expression) -> Expression:
    """The sum, without nested sums and zeros, with numbers last."""
    parts: list[Expression] = []
    numbers: list[Number] = []
    for term in terms:
        for part in term.terms if isinstance(term, Sum) else (term,):
            if isinstance(part, Number):
                numbers.append(part)
            else:
                parts.append(part)
    total = _double(sum((Fraction(number.value) for number in numbers), Fraction(0)))
    parts += numbers if total is None else [Number(total)] if total else []
    return Sum(tuple(parts)) if len(parts) > 1 else parts[0] if parts else ZERO


def multiply(*factors: Expression) -> Expression:
    """The product, without nested products and ones; the numbers are in front, as one number if
    their product is exactly a double."""
    parts: list[Expression] = []
    numbers: list[Number] = []
    sign = 1
    for factor in factors:
        if isinstance(factor, Negation):
            sign, factor = -sign, factor.argument  # noqa: PLW2901
        for part in factor.factors if isinstance(factor, Product) else (factor,):
            if isinstance(part, Number):
                numbers.append(part)
            else:
                parts.append(part)
    if any(number.value == 0 for number in numbers):
        return ZERO
    coefficient = None
    if len(numbers) <= MAX_COMBINED:
        exact = Fraction(sign)
        for number in numbers:
            exact *= Fraction(number.value)
        coefficient = _double(exact)
    if coefficient is None:
        parts = [*numbers, *parts]
    elif abs(coefficient) != 1 or not parts:
        parts = [Number(coefficient), *parts]
        sign = 1
    else:
        sign = int(coefficient)
    product = Product(tuple(parts)) if len(parts) > 1 else parts[0]
    return product if sign > 0 else Negation(product)


def divide(above: Expression, below: Expression) -> Expression:
    """The quotient; numbers are divided where the result is exactly a double."""
    if above == ZERO or below == ONE:
        return above
    if isinstance(above, Negation):
        return negate(divide(above.argument, below))
    if isinstance(below, Number) and below.value != 0:
        front = above.factors[0] if isinstance(above, Product) else above
        if isinstance(front, Number):
            ratio = _double(Fraction(front.value) / Fraction(below.value))
            if ratio is not None:
                return multiply(
                    Number(ratio), *(above.factors[1:] if isinstance(above, Product) else ())
                )
    return Quotient(above, below)


def negate(node: Expression) -> Expression:
    """The negative."""
    return multiply(Number(-1.0), node)


def power(base: Expression, exponent: float) -> Expression:
    """base ^ exponent; 1 for exponent 0, and the base itself for exponent 1."""
    if exponent == 0:
        return ONE
    return base if exponent == 1 else Power(base, exponent)

"""Expressions as flat programs for one small interpreter in numba.

    compiled(expressions, names) -> Program  # equal parts are computed once, across all expressions
    evaluate(program, point)     -> values   # float64[outputs]
    run(code, operands, registers)           # the kernel, for other kernels

A register holds a variable, a constant or a result; instruction i works on the registers that
operands[i] names and fills register `first + i`. Natural powers become multiplications, and + - *
all become one instruction, a*b + c, so that there is no branch to mispredict. Nothing is generated
and compiled at run time: a forked child needs no compiler, and the interpreter costs about a
nanosecond per instruction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet_agent.expressions import (
    Call,
    Expression,
    ExpressionError,
    Negation,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Variable,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.uint8]
Words = NDArray[np.uint64]

MULTIPLY_ADD, DIVIDE, POWER, EXP, LOG, SQRT, ABS, SIGN = range(8)
_CALLS = {"exp": EXP, "log": LOG, "sqrt": SQRT, "abs": ABS, "sign": SIGN}

MAX_INSTRUCTIONS = 200_000

# An instruction is one word, so that one load suffices beside those of registers: its operands a, b
# and c from the lowest bit on, and OTHER, the highest bit, where it is not MULTIPLY_ADD.
_BITS = np.uint64(21)
_OPERAND = np.uint64((1 << 21) - 1)
_OTHER = np.uint64(1 << 63)


@dataclass(frozen=True)
class Program:
    """Straight-line code for some expressions of the variables `names`.

    `code`: uint8[instructions], `operands`: uint64[instructions], three registers in a word each.
    `fixed`: the number of instructions, the first ones, whose operands do not depend on variables.
    `registers`: float64, the variables (any values), the constants, then one register for each
    instruction, with results for the fixed ones; the first constant is 0. `outputs`:
    int64[expressions], the registers of their values.
    """

    names: tuple[str, ...]
    code: Codes
    operands: Words
    fixed: int
    registers: Floats
    outputs: Ints

    @property
    def operand_registers(self) -> Ints:
        """int64[instructions, 3]: the registers that each instruction works on."""
        shifts = np.arange(3, dtype=np.uint64) * _BITS
        return (self.operands[:, None] >> shifts & _OPERAND).astype(np.int64)

    @property
    def running(self) -> tuple[Codes, Words]:
        """Code and operands of the instructions to run at every point."""
        return self.code[self.fixed :], self.operands[self.fixed :]


def compiled(
    expressions: Sequence[Expression],
    names: Sequence[str],
    most_instructions: int = MAX_INSTRUCTIONS,
) -> Program:
    """The program that computes all `expressions`, whose variables are among `names`, in this
    order.

    Raises ExpressionError for more than `most_instructions`, KeyError for a variable that is not
    among `names`.
    """
    variables = {name: position for position, name in enumerate(names)}
    constants: dict[float, int] = {}
    numbered: dict[tuple[int, int, int, int], int] = {}
    seen: dict[int, int] = {}

    # Until the number of constants is known, variables are numbered from 0, constants -1, -2, …,
    # results from len(names).
    def constant(value: float) -> int:
        return -1 - constants.setdefault(value, len(constants))

    zero, one, minus_one = constant(0.0), constant(1.0), constant(-1.0)

    def emit(code: int, a: int, b: int = zero, c: int = zero) -> int:
        if code == MULTIPLY_ADD and a > b:
            a, b = b, a
        key = code, a, b, c
        if key not in numbered:
            if len(numbered) == most_instructions:
                raise ExpressionError("the expressions and their derivatives are too large")
            numbered[key] = len(names) + len(numbered)
        return numbered[key]

    def natural(base: int, exponent: int) -> int:
        """Squarings, shared between the powers of one base."""
        if exponent == 1:
            return base
        half = natural(base, exponent // 2)
        square = emit(MULTIPLY_ADD, half, half)
        return emit(MULTIPLY_ADD, square, base) if exponent % 2 else square

    def added(total: int, term: Expression) -> int:
        """total + term, as one instruction where the term is a product of two numbers or
        variables."""
        if isinstance(term, Negation):
            return emit(MULTIPLY_ADD, register(term.argument), minus_one, total)
        if isinstance(term, Product):
            *front, last = term.factors
            return emit(MULTIPLY_ADD, product(front), register(last), total)
        return emit(MULTIPLY_ADD, register(term), one, total)

    def product(factors: Sequence[Expression]) -> int:
        result = register(factors[0])
        for factor in factors[1:]:
            result = emit(MULTIPLY_ADD, result, register(factor))
        return result

    def register(node: Expression) -> int:
        if id(node) not in seen:
            seen[id(node)] = placed(node)
        return seen[id(node)]

    def placed(node: Expression) -> int:
        match node:
            case Number():
                return constant(node.value)
            case Variable():
                return variables[node.name]
            case Sum():
                # A product in second place absorbs the first term: 2*x + 1.
                terms = sorted(
                    node.terms[:2], key=lambda term: isinstance(term, Product | Negation)
                )
                total = register(terms[0])
                for term in (*terms[1:], *node.terms[2:]):
                    total = added(total, term)
                return total
            case Product():
                return product(node.factors)
            case Quotient():
                return emit(DIVIDE, register(node.numerator), register(node.denominator))
            case Negation():
                return emit(MULTIPLY_ADD, register(node.argument), minus_one)
            case Power():
                base, exponent = register(node.base), node.exponent
                if exponent == 0:
                    return constant(1.0)
                if exponent != int(exponent):
                    return emit(POWER, base, constant(exponent))
                result = natural(base, abs(int(exponent)))
                return result if exponent > 0 else emit(DIVIDE, constant(1.0), result)
            case Call():
                if node.function == "jump":
                    return constant(0.0)
                return emit(_CALLS[node.function], register(node.argument))
        raise TypeError(type(node).__name__)

    outputs = [register(expression) for expression in expressions]
    first = len(names) + len(constants)
    if first + len(numbered) > _OPERAND:
        raise ExpressionError("the expressions and their derivatives are too large")

    # Instructions that depend only on constants come first.
    still: set[int] = set()
    for key, place in numbered.items():
        if all(part < 0 or part in still for part in key[1:]):
            still.add(place)
    keys = sorted(numbered, key=lambda key: numbered[key] not in still)
    moved = {numbered[key]: first + position for position, key in enumerate(keys)}

    def final(place: int) -> int:
        if place < 0:
            return len(names) - 1 - place
        return place if place < len(names) else moved[place]

    code = np.array([key[0] for key in keys], dtype=np.uint8)
    parts = np.array(
        [[final(place) for place in key[1:]] for key in keys], dtype=np.uint64
    ).reshape(-1, 3)
    operands = parts[:, 0] | parts[:, 1] << _BITS | parts[:, 2] << 2 * _BITS
    operands[code != MULTIPLY_ADD] |= _OTHER
    registers = np.zeros(first + len(numbered))
    registers[len(names) : first] = list(constants)
    fixed = len(still)
    if fixed:
        run(code[:fixed], operands[:fixed], registers[: first + fixed])
    return Program(
        tuple(names),
        code,
        operands,
        fixed,
        registers,
        np.array([final(place) for place in outputs], np.int64),
    )


def evaluate(program: Program, point: ArrayLike) -> Floats:
    """The values of the program's expressions at `point` (float64[names]); NaN or infinity outside
    their domains."""
    registers = program.registers.copy()
    registers[: len(program.names)] = point
    run(*program.running, registers)
    return registers[program.outputs]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run(code: Codes, operands: Words, registers: Floats) -> None:
    """Fill the last registers, those of the results, in order. a*b + c is rounded twice, as in the
    expression.

    Indices are unsigned, which saves a check for negative ones.
    """
    i, count, one = np.uint64(0), np.uint64(operands.size), np.uint64(1)
    first = np.uint64(registers.size) - count
    while i < count:
        while i < count and operands[i] < _OTHER:
            word = operands[i]
            product = registers[word & _OPERAND] * registers[(word >> _BITS) & _OPERAND]
            registers[first + i] = product + registers[word >> (_BITS + _BITS)]
            i += one
        while i < count and operands[i] >= _OTHER:
            word = operands[i]
            registers[first + i] = _result(
                code[i], registers[word & _OPERAND], registers[(word >> _BITS) & _OPERAND]
            )
            i += one


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _result(operation: int, a: float, b: float) -> float:
    """The result of an operation other than MULTIPLY_ADD."""
    if operation == DIVIDE:
        return a / b
    if operation == POWER:
        return math.pow(a, b)
    if operation == EXP:
        return math.exp(a)
    if operation == LOG:
        return math.log(a) if a > 0.0 else (-np.inf if a == 0.0 else np.nan)
    if operation == SQRT:
        return math.sqrt(a) if a >= 0.0 else np.nan
    if operation == ABS:
        return abs(a)
    return (1.0 if a > 0.0 else 0.0) - (1.0 if a < 0.0 else 0.0)

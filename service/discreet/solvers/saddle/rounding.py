"""How far the results of a compiled program may be from the exact values of its expressions.

    rounding_errors(program, box) -> (errors, sizes), float64[outputs] each

Forward error analysis (Higham 2002, "Accuracy and Stability of Numerical Algorithms", Chapter 3)
over a box: for every register an interval that contains its exact value, and a bound of the error
of the computed value. An expression whose terms are far larger than its variation moves in jumps:
`1e-9*x + 5e-9 - 1e8` in doubles is a step function of x with steps of 1.5e-8, whatever its
derivative. Noise that is calibrated by a bound of the derivative must cover these errors too.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.saddle.expression_programs import (
    ABS,
    DIVIDE,
    EXP,
    LOG,
    MULTIPLY_ADD,
    POWER,
    SIGN,
    SQRT,
    Program,
)
from discreet.solvers.saddle.intervals import LIBRARY_ULPS, Box

Floats = NDArray[np.float64]

UNIT = 2.0**-53
"""A computed sum, product, quotient or root is the exact value times 1 + e, |e| <= UNIT, unless it
is tiny."""
TINY = 2.0**-1074
LIBRARY = 2 * LIBRARY_ULPS * UNIT
SAFE = 1 + 1e-9
"""Allowance for rounding in this analysis itself."""

_Bound = tuple[float, float, float]
"""low, high: the exact value lies between them. error: a bound of the error of the computed
value."""


def rounding_errors(program: Program, box: Box) -> tuple[Floats, Floats]:
    """For each output the largest distance between the value that `run` computes and the exact
    value, and the largest absolute value of either, over all points of `box`.

    Both are 0 for an output that depends on no variable: it is the same number at every point. They
    are infinite where nothing is certain, such as for a root or a quotient whose argument may be as
    close to 0 as its own error.
    """
    first = program.registers.size - program.code.size
    variables = len(program.names)
    known: list[_Bound] = [(box[name][0], box[name][1], 0.0) for name in program.names]
    known += [(value, value, 0.0) for value in program.registers[variables:first].tolist()]
    moves = [True] * variables + [False] * (first - variables)
    for code, operands in zip(
        program.code.tolist(), program.operand_registers.tolist(), strict=True
    ):
        a, b, c = (known[place] for place in operands)
        known.append(_rule(code, a, b, c))
        used = (
            operands
            if code == MULTIPLY_ADD
            else operands[:2]
            if code in (DIVIDE, POWER)
            else operands[:1]
        )
        moves.append(any(moves[place] for place in used))
    found = [
        known[place] if moves[place] else (0.0, 0.0, 0.0) for place in program.outputs.tolist()
    ]
    errors = np.array([error for *_, error in found], dtype=np.float64)
    return errors, errors + np.array([_size(bound) for bound in found], dtype=np.float64)


_NOTHING_CERTAIN: _Bound = (-math.inf, math.inf, math.inf)


def _rule(code: int, a: _Bound, b: _Bound, c: _Bound) -> _Bound:
    """The error of an operation on three registers, as `expression_programs.run` does it."""
    if not all(map(math.isfinite, (*a, *b, *c))):
        return _NOTHING_CERTAIN
    try:
        low, high, error = _multiply_add(a, b, c) if code == MULTIPLY_ADD else _function(code, a, b)
    except (ValueError, ArithmeticError):  # outside the domain, or beyond doubles
        return _NOTHING_CERTAIN
    wide = LIBRARY * max(abs(low), abs(high)) + TINY  # the ends were computed in floating point
    bound = low - wide, high + wide, error * SAFE + TINY
    return bound if all(map(math.isfinite, bound)) else _NOTHING_CERTAIN


def _size(bound: _Bound) -> float:
    return max(abs(bound[0]), abs(bound[1]))


def _multiply_add(a: _Bound, b: _Bound, c: _Bound) -> _Bound:
    corners = [x * y for x in a[:2] for y in b[:2]]
    product = _size(a) * _size(b)
    error = _size(a) * b[2] + _size(b) * a[2] + a[2] * b[2]
    if not any(_is(one, value) for one in (a, b) for value in (0.0, 1.0, -1.0)):
        error += UNIT * (product + error)
    # Large terms may cancel to a small sum: its ends have an uncertainty proportional to the terms.
    wide = 4 * UNIT * (product + _size(c))
    low, high = min(corners) + c[0] - wide, max(corners) + c[1] + wide
    error += c[2]
    if not _is(c, 0.0):
        error += UNIT * (max(abs(low), abs(high)) + error)
    return low, high, error


def _is(bound: _Bound, value: float) -> bool:
    return bound == (value, value, 0.0)


def _function(code: int, a: _Bound, b: _Bound) -> _Bound:
    low, high, error = a
    if code == DIVIDE:
        least = min(abs(b[0]), abs(b[1])) - b[2]
        if b[0] <= 0 <= b[1] or least <= 0:
            raise ValueError
        corners = [x / y for x in a[:2] for y in b[:2]]
        size = max(map(abs, corners))
        moved = (error + size * b[2]) / least
        return min(corners), max(corners), moved + UNIT * (size + moved)
    if code == ABS:
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return least, _size(a), error
    if code == SIGN:
        apart = low > error or high < -error or error == 0
        return float(np.sign(low)), float(np.sign(high)), 0.0 if apart else 2.0
    if code == EXP:
        top = math.exp(high + error)
        return math.exp(low), math.exp(high), top * (error + LIBRARY)
    if low - error < 0 or (low - error == 0 and code == LOG):
        # for log, sqrt and real powers: the computed argument may lie outside the domain
        raise ValueError
    if code == LOG:
        ends = math.log(low), math.log(high)
        return *ends, error / (low - error) + LIBRARY * (
            max(map(abs, ends)) + error / (low - error)
        )
    exponent = 0.5 if code == SQRT else b[0]
    ends = low**exponent, high**exponent
    slopes = (
        [0.0]
        if error == 0
        else [abs(exponent) * x ** (exponent - 1) for x in (low - error, high + error)]
    )
    moved = max(slopes) * error
    return min(ends), max(ends), moved + LIBRARY * (max(ends) + moved)

"""Prices of coupled quadratic programs from opened sums, for `method: auto`, which has no step
sizes to tune.

The dual of `min ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)`, `x_i` in X_i, `Σ A_g,i x_i + d <= 0`, in prices
`y = (y_u, lambda >= 0)` is concave with gradient `S - K y`, where S = (Σ A_u x + c, Σ A_g x + d) at
the agents' best responses to y, and K is the identity on u and zero on g. Its curvature is K, which
everybody knows, plus that of the agents, which a BFGS matrix B learns from the sums: a structured
quasi-Newton method (Dennis, Martinez, Tapia 1989), whose steps minimize the model over lambda >= 0.
The first B is diagonal, a fraction of the slopes in the agents' first sums.

**No unit decides anything.** Each row j travels times `2^k_j`, so that what an agent can reach in
it just fits a slot, and its price is reckoned in the unit in which the first `B + K` has diagonal
1. A run ends when every row's residual is small beside that row's own size at the answer
(`discreet_agent.row_sizes`), which the agents sum once near the end, and every agent is at its
own best point.

All agents compute the same prices from the same sums, and stop at the same sum, by
`arithmetic.SAME`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.arithmetic import SAME, box_minimum
from discreet_agent.row_sizes import LEAST

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FIRST = 0.85
"""The fraction of the slopes in the first B: they are upper bounds, which boxes make too large."""
LEARNED_FROM = 2
"""The first moves of the prices that B does not learn from, since the agents' haze distorts
them."""
SHRINK = 0.1
"""The factor on the curvature in a direction in which the sums did not fall."""
REACH = 1.3
"""A move is at most this multiple of the longest of the last `RECENT`, in the metric of the first
B."""
RECENT = 3
TURN = 1.0
"""Centres move when the rows' residuals, beside the prices, are at most this fraction of what the
agents are away from their own best points."""
TURNS_FROM = 7
"""The answers after which these contain no haze."""
END, OWN_END = 0.03, 0.01
"""A run ends when every row's residual is at most this fraction of the tolerance times its size,
and the agents are at most that fraction of the tolerance away from their own best points: x is then
about a tenth of the tolerance off, or less."""
USUAL = 1e-3
"""The tolerance where the owner asks for no verdict."""
NEAR, OWN_NEAR = 1e-2, 1e-3
"""Sizes are summed when the same are at most these."""
STALE = 1e-2
"""Sizes hold as long as no row moves by more than this fraction of them."""

# Magnitudes that nobody knows: a code of seven bits an agent and row, 1 + floor(log4 …) + 63.
STEP, LEAST_CODE, MOST_CODE, MIDDLE = 2, 1, 127, 64
COUNT_BITS, CODE_BITS = 10, 17
MOST_AGENTS = 1000
"""Codes of more agents would not fit into one entry."""
ABOVE = 36
"""An exponent leaves room for so many bits above the geometric mean of the agents' figures."""
LARGEST_EXPONENT = 200


class Due(Enum):
    """What the next sum is of. The operator's part is in the sums of answers alone."""

    SPREAD = "spread"
    SLOPES = "slopes"
    ANSWERS = "answers"
    SIZES = "sizes"


def exponent(bound: float, figure: float) -> int:
    """The largest k with `figure 2^k <= bound`, a power of two; 0 for a figure of 0."""
    if not figure > 0:
        return 0
    mantissa, power = math.frexp(figure)  # 0.5 <= mantissa < 1
    found = math.frexp(bound)[1] - 1 - power + (mantissa == 0.5)
    return max(-LARGEST_EXPONENT, min(LARGEST_EXPONENT, found))


def code(figure: float) -> int:
    """The magnitude of a positive figure, from above: `figure <= 4^(code - MIDDLE)` up to the ends
    of its range; 0 of zero."""
    if not figure > 0:
        return 0
    mantissa, power = math.frexp(figure)
    power -= mantissa == 0.5
    return max(LEAST_CODE, min(MOST_CODE, MIDDLE - (-power // STEP)))


def packed(magnitude: int) -> int:
    """Count, code and its square in one integer; such integers of up to MOST_AGENTS agents add up
    to the sums of all three, below 2^51."""
    counted = 1 if magnitude else 0
    return counted | magnitude << COUNT_BITS | magnitude**2 << (COUNT_BITS + CODE_BITS)


def highest(total: int) -> int | None:
    """From the sum of packed codes: a bound, as a power of two, of every agent's figure (Samuelson
    1968: no number exceeds `mean + deviation √(n - 1)`), but ABOVE bits over their mean at most;
    None where all are zero."""
    total = max(total, 0)
    count = total & ((1 << COUNT_BITS) - 1)
    once = total >> COUNT_BITS & ((1 << CODE_BITS) - 1)
    twice = total >> (COUNT_BITS + CODE_BITS)
    if not count:
        return None
    spread = math.isqrt(max((count - 1) * (count * twice - once**2), 0))
    above = -(-(spread + 1) // count) if spread else 0
    return STEP * (-(-once // count) + min(above, ABOVE // STEP) - MIDDLE)


def signed_rows(parameters: Mapping[str, Any]) -> tuple[Integers, Floats]:
    """What the owner has signed of each row: the exponents of the powers of two by which it is
    multiplied, int64[m], and a power of two not below the operator's figure, float64[m]. ValueError
    for anything else."""
    try:
        rows = parameters["rows"]
        exponents = np.array(rows["exponents"], dtype=np.int64)
        figures = np.array(rows["figures"], dtype=np.float64)
        count = parameters["coupled"] + parameters["constraints"]
        sound = rows.keys() == {"exponents", "figures"} and exponents.shape == (count,)
        sound = sound and bool(np.all(np.abs(exponents) <= LARGEST_EXPONENT))
        sound = sound and figures.shape == (count,) and bool(np.all(figures >= 0))
        sound = sound and bool(np.all(np.isfinite(figures)))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        sound = False
    if not sound:
        raise ValueError("the owner has signed no units of the rows that method auto could read")
    return exponents, figures


class Prices:
    """The prices that follow from the opened sums, float64[m + 1] each: the rows, then how far the
    agents are from their own best points.

    The first `coupled` rows are of the objective, the others of the constraints. `figures`
    float64[m]: powers of two not below |c| and |d|, 0 of 0. `bound`, a power of two: the most that
    an entry of a contribution may be, and `grid` the step of its numbers. `exponents`
    int64[m]: row j travels times `2^k_j`.
    """

    def __init__(
        self,
        coupled: int,
        figures: Floats,
        bound: float,
        grid: float,
        agents: int,
        exponents: Sequence[int] | Integers,
        tolerance: float | None = None,
    ) -> None:
        m = figures.size
        self.coupled, self.bound, self.grid = coupled, bound, grid
        self.tolerance = USUAL if tolerance is None else tolerance
        self._rounding = (agents + 1) * grid / 2
        self._is_coupled = np.arange(m) < coupled
        self._lower = np.where(self._is_coupled, -np.inf, 0.0)
        self.sums: list[Floats] = []
        """All opened sums, in order."""
        self.due = Due.SPREAD
        """What the next sum is of."""
        self.exponents = np.array(exponents, dtype=np.int64)
        self.slope_exponents = np.zeros(m, dtype=np.int64)
        """Slopes are sent times these powers of two."""
        self._least = LEAST * np.ldexp(figures, self.exponents)
        self.asked = np.zeros(m)
        """The prices that the next answers are to, float64[m], of the rows in their own units."""
        self.answered = self.asked
        """The prices that the last answers were to."""
        self.ended = self.turn = self.lied = False
        """`turn`: the prices are solved for the agents' proximal centres, which are to move now.
        `lied`: the sums are none of honest agents."""
        self.residuals: Floats = np.full(m, np.inf)
        """Of each row in the last answers, in the units of the sums."""
        self.apart = math.inf
        """How far the agents are from their own best points: the root of the sum of squares."""
        self.sizes: Floats | None = None
        """Of each row, in the units of the sums."""
        self.answers = 0
        self._units = np.ones(m)
        self._own = self._first = np.zeros((0, 0))
        self.learned = self._first
        """B, float64[m, m], in the units of the prices z."""
        self._z, self._z_answered = np.zeros(m), np.zeros(m)
        self._opened = np.zeros(m)
        self._sized_at = np.zeros(m)
        self._fresh = self._turned = False
        self._base: tuple[Floats, Floats, Floats] | None = None
        """The best prices so far, their sum, and the negated gradient of the dual there."""
        self._failed = 0
        self._moves: list[float] = []

    # What the rounds see

    def follow(self, sums: Floats, last: bool = False) -> None:
        """Take the next sum. Sets `due` and `asked`, or `ended`. `last`: one more sum at most is
        opened.

        Sums that lead to overflow, and distances below zero, end the run as not settled. Either
        takes a party that lies.
        """
        self.sums.append(sums)
        self.turn = False
        try:
            with np.errstate(all="ignore"):
                self._follow(sums, last)
        except (OverflowError, ValueError):  # raised by math.fsum
            self._give_up()
        if not np.all(np.isfinite(self.asked)):
            self._give_up()

    def shares(self) -> Floats:
        """The residuals of the rows as fractions of their sizes, float64[m]."""
        if self.sizes is None:
            return np.full(self.residuals.size, np.inf)
        return _ratios(self.residuals, self.sizes)

    def grids(self) -> Floats:
        """The rounding of the sums as a fraction of the sizes of the rows, float64[m]; 0 of limits
        that are kept with room, and of rows in which nobody has anything."""
        if self.sizes is None:
            return np.full(self.residuals.size, np.inf)
        idle = (self.sizes == 0) | (
            ~self._is_coupled & (self._z_answered == 0) & (self._opened < -self._rounding)
        )
        return np.where(idle, 0.0, _ratios(np.full(idle.size, self._rounding), self.sizes))

    @property
    def curvature(self) -> Floats:
        """B in the problem's own units, float64[m, m]: how the agents' sums fall with prices."""
        unit = np.ldexp(self._units, self.exponents)
        found: Floats = self.learned / np.outer(unit, unit)
        return found

    @property
    def sized(self) -> bool:
        """Whether there are sizes that hold for the last answers."""
        if self.sizes is None or not self._fresh:
            return False
        moved = np.abs(self._opened - self._sized_at)
        return bool(np.all(moved <= STALE * self.sizes))

    @property
    def settled(self) -> bool:
        """Whether the run has ended by itself, with sizes that the sums are fine enough for."""
        sized = self.ended and not self.lied
        return sized and bool(np.all(self.grids() <= self.tolerance))

    # What follows from a sum

    def _give_up(self) -> None:
        self.asked, self.ended, self.lied = self.answered, True, True

    def _follow(self, sums: Floats, last: bool) -> None:
        rows = sums[:-1]
        if self.due is Due.SPREAD:
            spread = [highest(int(one / self.grid)) for one in rows]
            powers = [0 if one is None else exponent(self.bound, 2.0**one) for one in spread]
            self.slope_exponents = np.array(powers, dtype=np.int64)
            self.due = Due.SLOPES
        elif self.due is Due.SLOPES:
            self._begin(np.ldexp(np.maximum(rows, 0.0), -self.slope_exponents))
            self.due = Due.ANSWERS
        elif self.due is Due.ANSWERS:
            self._answer(rows, float(sums[-1]) / self.bound, last)
        else:
            self._size(rows)

    def _begin(self, slopes: Floats) -> None:
        """The first B and the unit of each price, in which the first `B + K` has diagonal 1."""
        own = np.where(self._is_coupled, np.ldexp(1.0, 2 * self.exponents), 0.0)
        # A limit that nobody moves: its price stays, whatever it is reckoned in.
        slopes = np.where((slopes > 0) | self._is_coupled, FIRST * slopes, self.bound**2)
        self._units = 1 / np.sqrt(slopes + own)
        self._first = self.learned = np.diag(self._units * slopes * self._units)
        self._own = np.diag(self._units * own * self._units)

    def _answer(self, opened: Floats, apart: float, last: bool) -> None:
        self.answers += 1
        self._fresh = self._fresh and not self._turned  # from other centres, x is another
        self.answered, self._z_answered, self._opened = self.asked, self._z, opened
        if apart < -self._rounding / self.bound:  # an agent lies: none is better than its best
            self._give_up()
            return
        self.apart = math.sqrt(max(apart, 0.0))  # negative by rounding only
        expected = np.where(
            self._is_coupled, np.ldexp(self._z * self._units, 2 * self.exponents), 0.0
        )
        priced = self._is_coupled | (self._z > 0)
        self.residuals = np.where(priced, np.abs(opened - expected), np.maximum(opened, 0.0))
        near = self._near()
        if self._ends():
            if self.sized:
                self.ended = True
            else:
                self.due = Due.SIZES
        elif last or (self.sizes is None and near <= NEAR and apart <= OWN_NEAR):
            self.due = Due.SIZES if not self.sized else Due.ANSWERS
        if self.ended:
            return
        rows = self._beside_prices()
        self.turn = self._turned = self.answers > TURNS_FROM and rows <= TURN * self.apart
        if self.turn:
            self._base, self._failed = None, 0
            self._moves = []  # the next may be as long as it wants
        self._learn(self._units * opened)
        self._ask()

    def _near(self) -> float:
        """The largest residual of a row as a fraction of its size, or before there are sizes beside
        the prices."""
        if self.sizes is not None:
            return float(np.max(self.shares(), initial=0.0))
        return self._beside_prices()

    def _beside_prices(self) -> float:
        """The largest residual of a row as a fraction of the largest price, in their units."""
        largest = float(np.max(np.abs(self._z), initial=0.0))
        residual = float(np.max(self._units * self.residuals, initial=0.0))
        return residual / largest if largest > 0 else math.inf if residual > 0 else 0.0

    def _ends(self) -> bool:
        return self.apart <= OWN_END * self.tolerance and self._near() <= END * self.tolerance

    def _size(self, rows: Floats) -> None:
        self.sizes = np.maximum(2 * rows, self._least)
        self._sized_at, self._fresh = self._opened, True
        self.due = Due.ANSWERS
        self.ended = self._ends()

    def _learn(self, opened: Floats) -> None:
        """Update B from the last move of the prices, and decide whether the next one begins at its
        end. All in the units of the prices."""
        slope = SAME.times(self._own, self._z) - opened
        if self._base is None:
            self._base = self._z, opened, slope
        else:
            prices, before, slope_before = self._base
            move, fall = self._z - prices, before - opened
            self._moves = [*self._moves, self._length(move)][-RECENT:]
            if self.answers > LEARNED_FROM + 1:
                along = SAME.times(self.learned, move)
                curved, fell = SAME.dot(move, along), SAME.dot(move, fall)
                if curved > 0 and fell > 1e-10 * curved:
                    self.learned = self.learned + _outer(fall) / fell - _outer(along) / curved
                elif curved > 0:
                    self.learned = self.learned - (1 - SHRINK) * _outer(along) / curved
            if SAME.dot(slope_before + slope, move) <= 0 or self._failed >= 2:
                self._base, self._failed = (self._z, opened, slope), 0
            else:
                self._failed += 1

    def _ask(self) -> None:
        assert self._base is not None
        prices, _, slope = self._base
        curvature = self.learned if self._failed < 2 else self._first * 2.0 ** (self._failed - 1)
        model = curvature + self._own
        linear = slope - SAME.times(model, prices)
        asked = box_minimum(model, linear, self._lower, np.full(prices.size, np.inf), prices, SAME)
        move = asked - prices
        length = self._length(move)
        if self._moves and length > (most := REACH * max(self._moves)) > 0:
            asked = prices + move * (most / length)
        self._z = asked
        self.asked = np.ldexp(asked * self._units, self.exponents)

    def _length(self, move: Floats) -> float:
        """In the metric of the first B."""
        return math.sqrt(max(SAME.dot(move, SAME.times(self._first, move)), 0.0))


def _ratios(parts: Floats, wholes: Floats) -> Floats:
    """0 of 0 of anything, infinite of more than 0 of 0."""
    with np.errstate(all="ignore"):
        found: Floats = np.where(parts == 0, 0.0, parts / wholes)
    return found


def _outer(vector: Floats) -> Floats:
    outer: Floats = vector[:, None] * vector[None, :]
    return outer

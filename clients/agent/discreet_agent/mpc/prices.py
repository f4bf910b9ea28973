"""The joint optimum of agents that are coupled by one sum per hour: one price per hour, computed
without iterations.

`min Σ_h w/2 (s_h + c_h)² + Σ_i f_i,h(z_i,h)`, `s_h = Σ_i z_i,h`, `s_h + d_h <= 0`, `l <= z <= u`,
and f_i,h quadratic. At a price y of the hour an agent's best response z_i(y) is `u_i` up to the
price `high_i`, `l_i` from `low_i` on, and `q_i - p_i y` in between (`high_i <= low_i`): it falls
with the price, and so does the sum S(y). The optimal price is the least y with `y >= w (S(y) + c)`
and `S(y) + d <= 0`; it is the multiplier of the sum, including that of the limit.

S is linear between its 2n breakpoints, the prices `high_i` and `low_i` (`turns` below). S at each
breakpoint follows from comparisons of the breakpoints with each other; one more comparison then
tells whether the optimal price lies above it. This shows which agents are at a bound, and leaves
one linear equation. All hours and agents are computed side by side, and no step depends on the
data, as arithmetic on secret shares requires. An hour takes `2n(n - 1)` comparisons and about `4n`
more; each step of a first-order method takes 2n, and cannot stop early, since nobody sees the
numbers.

The arithmetic is an argument: NumPy's floats, or secret shares (`engine`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]
Numbers = Any
"""Floats, or an array of secret-shared numbers: both add, subtract and multiply, also by floats,
and are indexed alike."""

PRICE_ERROR = 8.0
"""A price is wrong by less, in units of the last place."""
PRICES, QUANTITIES = 2.0, None
"""Bounds on the differences that are compared: two prices differ by at most 2; quantities have no
bound."""


class Arithmetic(Protocol):
    """The operations on numbers beyond adding and multiplying."""

    def below_zero(self, value: Numbers, spread: float | None) -> Numbers:
        """1 where a number is negative, 0 elsewhere. `spread` bounds the absolute values; None: no
        bound."""
        ...

    def scaled(self, value: Numbers, factor: float) -> Numbers:
        """Numbers times a public positive factor, however small, up to a rounding of the result:
        times a float they would lose what the factor loses as a fixed-point number."""
        ...

    def stack(self, parts: list[Numbers], axis: int) -> Numbers: ...

    def matmul(self, left: Numbers, right: Numbers) -> Numbers:
        """Product of stacked matrices; `left` holds whole numbers."""
        ...

    def whole(self, value: Floats) -> Numbers:
        """Public whole numbers as Numbers."""
        ...


@dataclass(frozen=True)
class Responses:
    """The agents' best responses to a price (see the module), in units of reach and price; each
    field is [hours, agents]."""

    high: Numbers
    low: Numbers
    lower: Numbers
    upper: Numbers
    base: Numbers
    """q_i."""
    fall: Numbers
    """p_i."""


@dataclass(frozen=True)
class Optimum:
    """`quantities` [hours, agents]; `kept` [1]: see `verdict_of`; None if nobody asked."""

    quantities: Numbers
    kept: Numbers


class FloatArithmetic:
    """Arithmetic in the clear."""

    def below_zero(self, value: Floats, spread: float | None) -> Floats:
        return np.asarray(value < 0, dtype=np.float64)

    def scaled(self, value: Floats, factor: float) -> Floats:
        return value * factor

    def stack(self, parts: list[Floats], axis: int) -> Floats:
        return np.concatenate(parts, axis=axis)

    def matmul(self, left: Floats, right: Floats) -> Floats:
        return left @ right

    def whole(self, value: Floats) -> Floats:
        return value


def optimum(
    terms: Terms,
    agents: Responses,
    cost: Numbers | None,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Optimum:
    """The optimum. `cost` and `limit`: c and d in units of reach, [hours]; None if `terms` have
    none."""
    hours, count = terms.hours, terms.agents
    turns = arithmetic.stack(
        [agents.high, agents.low], 1
    )  # [hours, 2n]: first the n prices `high`, then the n prices `low`
    at_bounds = _at_bounds(turns, count, arithmetic)  # [hours, 2n, 2n]

    # S at each breakpoint: all responses as between their own breakpoints, corrected for agents
    # that are at a bound there.
    upper, lower = agents.upper - agents.base, agents.lower - agents.base
    corrections = arithmetic.stack(
        [
            arithmetic.stack([upper, lower], 1).reshape(hours, 2 * count, 1),
            arithmetic.stack([agents.fall, agents.fall], 1).reshape(hours, 2 * count, 1),
        ],
        2,
    )
    corrected = arithmetic.matmul(at_bounds, corrections)  # [hours, 2n, 2]
    level = agents.base.sum(axis=1).reshape(hours, 1) + corrected[:, :, 0]
    slope = agents.fall.sum(axis=1).reshape(hours, 1) - corrected[:, :, 1]
    sums = level - turns * slope

    below = _optimum_lies_above(terms, turns, sums, cost, limit, arithmetic)  # [hours, 2n]
    passed_high, passed_low = below[:, :count], below[:, count:]
    inside = passed_high - passed_low
    # (1 - passed_high) u + passed_low l + inside q: factors that are whole numbers need no
    # truncation.
    levels = agents.upper - passed_high * upper + passed_low * lower
    falls = inside * agents.fall
    price = _price(terms, levels.sum(axis=1), falls.sum(axis=1), cost, limit, arithmetic)
    # Whole numbers last: at a bound nothing is truncated, so that bounds of zero are exact.
    below_upper = agents.fall * price.reshape(hours, 1)
    quantities = levels - passed_high * below_upper + passed_low * below_upper

    kept = None
    if terms.tolerance is not None:
        kept = _kept(terms, terms.tolerance, quantities, falls.sum(axis=1), limit, arithmetic)
    return Optimum(quantities, kept)


def verdict_of(kept: float) -> bool | None:
    """What the opened number says: whether the optimum is within the tolerance and keeps the limit;
    False: nothing that agents can do keeps it in every hour; None: the bounds of the terms are too
    wide for numbers of these bits to tell."""
    return (False, True, None)[round(kept)]


def used(quantities: Numbers, arithmetic: Arithmetic) -> Numbers:
    """The magnitude of each quantity: what a tolerance is a share of."""
    return quantities - arithmetic.below_zero(quantities, 2 * PRICES) * quantities * 2


def _kept(
    terms: Terms,
    tolerance: float,
    quantities: Numbers,
    fall: Numbers,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    """The number that `verdict_of` reads, [1]. An hour's sum may be wrong by the rounding of its
    price times `fall`, and by those of the quantities and of what follows here, unless nothing is
    used. Half of the tolerance is for that, half for the excess; a limit that is exceeded by more
    than both cannot be kept."""
    place = 2.0**-terms.fraction_bits
    size = used(quantities, arithmetic).sum(axis=1)
    some = arithmetic.below_zero(0 - size, QUANTITIES)
    error = arithmetic.scaled(fall, PRICE_ERROR * place) + (4 * terms.agents + 8) * place
    allowed = arithmetic.scaled(size, tolerance / 2)
    hours = terms.hours
    room, enough = [some * (allowed - error)], []
    if limit is not None:
        excess = quantities.sum(axis=1) + limit
        room.append(some * (allowed + error) - excess)
        enough.append(allowed + 2 * error - excess)
    short = arithmetic.below_zero(arithmetic.stack(room + enough, 0), QUANTITIES)

    def any_of(hourly: Numbers, count: int) -> Numbers:
        return 1 - arithmetic.below_zero(hourly.reshape(1, count).sum(axis=1) - 0.5, QUANTITIES)

    told = len(room) * hours
    untold = any_of(short[:told], told)
    if limit is None:
        return 1 + untold
    broken = any_of(short[told:], hours)
    return 1 + untold - broken - untold * broken


def _at_bounds(turns: Numbers, count: int, arithmetic: Arithmetic) -> Numbers:
    """[hours, 2n, 2n]: at the price of each breakpoint (rows), which agents are at their upper
    bounds (the first n columns), and which at their lower ones. At its own breakpoint an agent
    counts as at the bound, where both formulas give the same response."""
    whole = 2 * count
    first, second = np.triu_indices(whole, 1)
    own = second - first == count  # an agent's two breakpoints, whose order is known
    first, second = first[~own], second[~own]
    pairs = first.size
    # Columns: for each pair whether the first lies below the second; for each whether it does not;
    # 0; 1.
    compared = arithmetic.below_zero(turns[:, first] - turns[:, second], PRICES)
    hours = turns.shape[0]
    known = arithmetic.whole(np.tile([0.0, 1.0], (hours, 1)))
    table = arithmetic.stack([compared, 1 - compared, known], 1)
    zero, one = 2 * pairs, 2 * pairs + 1
    # not_below[j, k]: the column that tells whether turn j does not lie below turn k.
    not_below = np.full((whole, whole), one)
    not_below[first, second] = pairs + np.arange(pairs)
    not_below[second, first] = np.arange(pairs)
    agents = np.arange(count)
    not_below[agents, agents + count] = zero
    # At the upper bound: `high` is not below the price. At the lower one: the price is not below
    # `low`.
    columns = np.concatenate([not_below[:count].T, not_below[:, count:]], axis=1)
    return table[:, columns.reshape(-1)].reshape(hours, whole, whole)


def _optimum_lies_above(
    terms: Terms,
    turns: Numbers,
    sums: Numbers,
    cost: Numbers | None,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    """[hours, 2n]: 1 where the optimal price is above a breakpoint: at that price the sum exceeds
    its limit, or its marginal cost exceeds the price."""
    hours = terms.hours
    reasons = []
    if limit is not None:
        reasons.append(-(sums + limit.reshape(hours, 1)))
    if cost is not None:
        reasons.append(turns - arithmetic.scaled(sums + cost.reshape(hours, 1), terms.weight))
    elif limit is not None:  # the multiplier of a limit is not negative
        reasons.append(turns)
    said = arithmetic.below_zero(arithmetic.stack(reasons, 1), QUANTITIES)
    width = 2 * terms.agents
    if len(reasons) == 1:
        return said
    one, other = said[:, :width], said[:, width:]
    return one + other - one * other


def _price(
    terms: Terms,
    level: Numbers,
    fall: Numbers,
    cost: Numbers | None,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    """The optimal price of each hour, [hours], from `S(y) = level - fall y` around it; any price
    within [-1, 1] if no agent is between its breakpoints, since it would move none."""
    hours, most = terms.hours, terms.agents * terms.steepest
    prices = []
    if cost is not None:
        largest = 1 + terms.weight * most
        divisor = 1 + arithmetic.scaled(fall, terms.weight)
        inverse, scale = _inverse(divisor, 1.0, largest, terms.fraction_bits, arithmetic)
        prices.append(arithmetic.scaled(level + cost, terms.weight * scale) * inverse)
    else:
        prices.append(arithmetic.whole(np.zeros(hours)))
    if limit is not None:
        # Where no agent responds to the price, avoid a division by zero.
        idle = arithmetic.below_zero(fall - terms.gentlest / 2, QUANTITIES)
        divisor = fall + terms.gentlest * idle
        inverse, scale = _inverse(
            divisor, terms.gentlest / 2, most, terms.fraction_bits, arithmetic
        )
        needed = arithmetic.scaled((level + limit) * inverse, scale)
        less = arithmetic.below_zero(prices[0] - needed, QUANTITIES)
        prices.append(prices[0] + less * (needed - prices[0]))
    price = prices[-1]
    beyond = arithmetic.below_zero(arithmetic.stack([price + 1, 1 - price], 0), QUANTITIES)
    under, over = beyond[:hours], beyond[hours:]
    return price - under * (price + 1) + over * (1 - price)


def _inverse(
    value: Numbers, least: float, most: float, fraction_bits: int, arithmetic: Arithmetic
) -> tuple[Numbers, float]:
    """(x, scale) with `x scale = 1 / value` for values of [least, most], by Newton's method.

    The scale centres x on 1 in its logarithm, where fixed-point numbers lose least. The error `e =
    1 - x value scale` is squared by each step and begins below (most - least)/(most + least).
    """
    scale = 1 / math.sqrt(least * most)
    start = 2 * math.sqrt(least * most) / (least + most)
    error = (most - least) / (most + least)
    wanted = (fraction_bits + 2) * math.log(2)
    steps = 1 if error == 0 else max(1, math.ceil(math.log2(wanted / -math.log(error))))
    scaled = arithmetic.scaled(value, scale)
    found = start * 2 - scaled * start**2
    for _ in range(steps - 1):
        found = found * (2 - scaled * found)
    return found, scale

"""The joint optimum of agents whose own costs and sets couple their hours, by a fixed number of
steps of ADMM in which nothing is opened.

`min Σ_i f_i(y_i) + g(Σ_i y_i)` with y_i in agent i's box and, within it, its sum over the hours in
a budget; f_i is quadratic and couples any hours, `g(s) = w/2 |s + c|²` with the penalty of
`terms.MOST_PRICE` for what `s + d` exceeds zero by, which is exact while prices of the limit stay
below it. Each agent's y has a copy in its box, one of its sum in the budget (scaled, see
`own_programs`), and one whose sums over agents g applies to; `K y` are all three. With the step
sizes ρ of the terms one step is (Eckstein and Bertsekas 1992, relaxed Douglas-Rachford splitting):

    z = prox_g(t)               a clip for each number, and one price for each hour
    K y = B_i (2 z - t) + b_i   argmin f_i(y) + ρ/2 |K y - (2 z - t)|², B_i and b_i the agent's own
    t += RELAXATION (K y - z)

Agents input B_i and b_i, so that no matrix is inverted on shares and a cost of any shape takes the
same steps as every other. All is relative to a point of the agent's own set, its centre, so that t
begins at zero. The map is nonexpansive in the norm of ρ and has a fixed point, which bounds every
number on the way (`Terms.largest_copy`), whatever the data: bits follow from that.

The price of an hour is a closed form: the copies t whose sum is S move by the same amount m/n, with
`m = min(S + d, k (S + c) + p)` but at least `k (S + c)`; `k = n w/(ρ + n w)`, and p the penalty's
part.

The arithmetic is an argument, as for `prices`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet_client.mpc.prices import QUANTITIES, Arithmetic, Numbers
from discreet_client.mpc.terms import OPENED_BITS, RELAXATION, Terms

MOVED = 1 / 16
"""A computation has settled if no number moved in the last step by more than this share of the
tolerance."""


@dataclass(frozen=True)
class Programs:
    """The agents' inputs (`own_programs`), in units of reach and price, all relative to their
    centres."""

    matrix: Numbers
    """RELAXATION B: [agents, hours + 1, 2 hours + 1]. Columns: box, budget, sums."""
    base: Numbers
    """RELAXATION b: [agents, hours + 1]."""
    lower: Numbers
    """[agents, hours + 1], the last of the budget."""
    upper: Numbers
    centre: Numbers
    """[agents, hours]."""


@dataclass(frozen=True)
class Plans:
    """`quantities` [agents, hours], relative to the centres; `settled` [1]: 1 if the last step
    moved nothing by more than the tolerance allows and the limit is kept, else 0; None if nobody
    asked."""

    quantities: Numbers
    settled: Numbers


def optimum_over_time(
    terms: Terms,
    agents: Programs,
    cost: Numbers | None,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Plans:
    """The copies in the boxes after `terms.iterations` steps, rounded to OPENED_BITS. `cost` and
    `limit`: c and d in units of reach, [hours]; None if `terms` have none."""
    count, hours = terms.agents, terms.hours
    centres = agents.centre.sum(axis=0)
    cost = None if cost is None else cost + centres
    limit = None if limit is None else limit + centres
    own = arithmetic.whole(np.zeros((count, hours + 1)))
    shared = arithmetic.whole(np.zeros((count, hours)))
    moves: list[Numbers] = []
    for step in range(terms.iterations or 0):
        inside = _inside(terms, own, agents, arithmetic) if step else own
        shift = _shift(terms, shared.sum(axis=0), cost, limit, arithmetic) * (1 / count)
        reflected = arithmetic.stack(
            [2 * inside - own, shared - (2 * shift).reshape(1, hours)], 1
        ).reshape(count, 2 * hours + 1, 1)
        responses = (
            arithmetic.matmul(agents.matrix, reflected).reshape(count, hours + 1) + agents.base
        )
        moves = [
            responses - RELAXATION * inside,
            responses[:, :hours] - RELAXATION * (shared - shift.reshape(1, hours)),
        ]
        own, shared = own + moves[0], shared + moves[1]
    found = _inside(terms, own, agents, arithmetic)[:, :hours]
    settled = (
        None
        if terms.tolerance is None
        else _settled(terms, terms.tolerance, moves, found.sum(axis=0), limit, arithmetic)
    )
    dropped = 1 << (terms.fraction_bits - OPENED_BITS)
    return Plans(found * (1 / dropped) * dropped, settled)


def _inside(terms: Terms, copies: Numbers, agents: Programs, arithmetic: Arithmetic) -> Numbers:
    """Copies in boxes and budgets: two comparisons each."""
    count = terms.agents
    room = arithmetic.stack([copies - agents.lower, agents.upper - copies], 0)
    beyond = arithmetic.below_zero(room, 2 * terms.largest_copy) * room
    return copies - beyond[:count] + beyond[count:]


def _shift(
    terms: Terms,
    sums: Numbers,
    cost: Numbers | None,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    """How much the copies of an hour fall in all, [hours]: the price, divided by its step size and
    times n."""
    hours = terms.hours
    least = (
        arithmetic.whole(np.zeros(hours))
        if cost is None
        else (sums + cost) * (terms.agents * terms.weight / terms.stiffness)
    )
    if limit is None:
        return least
    needed = sums + limit - least
    most = terms.agents * terms.largest_penalty / terms.stiffness
    room = arithmetic.stack([needed, most - needed], 0)
    beyond = arithmetic.below_zero(room, QUANTITIES) * room
    return least + needed - beyond[:hours] + beyond[hours:]


def _settled(
    terms: Terms,
    tolerance: float,
    moves: list[Numbers],
    sums: Numbers,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    count, hours = terms.agents, terms.hours
    moved = arithmetic.stack(moves, 1).reshape(count * (2 * hours + 1))
    room = [moved + tolerance * MOVED, tolerance * MOVED - moved]
    if limit is not None:
        room.append(tolerance * count - (sums + limit))
    passed = arithmetic.below_zero(arithmetic.stack(room, 0), QUANTITIES)
    return arithmetic.below_zero(passed.reshape(1, -1).sum(axis=1) - 0.5, QUANTITIES)

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

import math
from dataclasses import dataclass

import numpy as np

from discreet_agent.mpc.prices import QUANTITIES, Arithmetic, Numbers, used
from discreet_agent.mpc.terms import OPENED_BITS, RELAXATION, Terms


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
    moved nothing by more than the tolerance allows (`Terms.settled_moves`) and each hour exceeds
    its limit by at most the tolerance's share of what agents use in it, else 0; None if nobody
    asked."""

    quantities: Numbers
    settled: Numbers


@dataclass(frozen=True)
class State:
    """All copies t, and their last moves: of boxes and budgets [agents, hours + 1], of sums
    [agents, hours]."""

    own: Numbers
    shared: Numbers
    moves: tuple[Numbers, ...] = ()


class OverTime:
    """The computation, a step at a time. `cost` and `limit`: c and d in units of reach, [hours];
    None if `terms` have none."""

    def __init__(
        self,
        terms: Terms,
        agents: Programs,
        cost: Numbers | None,
        limit: Numbers | None,
        arithmetic: Arithmetic,
    ) -> None:
        centres = agents.centre.sum(axis=0)
        self._terms, self._agents, self._arithmetic = terms, agents, arithmetic
        self._cost = None if cost is None else cost + centres
        self._limit = None if limit is None else limit + centres

    def start(self) -> State:
        """All copies at the agents' centres."""
        count, hours = self._terms.agents, self._terms.hours
        return State(
            self._arithmetic.whole(np.zeros((count, hours + 1))),
            self._arithmetic.whole(np.zeros((count, hours))),
        )

    def step(self, state: State) -> State:
        """One step; the centres are inside every box and budget, so the first needs no clip."""
        terms, agents, arithmetic = self._terms, self._agents, self._arithmetic
        count, hours = terms.agents, terms.hours
        own, shared = state.own, state.shared
        inside = _inside(terms, own, agents, arithmetic) if state.moves else own
        fall = _shift(terms, shared.sum(axis=0), self._cost, self._limit, arithmetic) * (1 / count)
        fall = fall.reshape(1, hours)
        reflected = arithmetic.stack([2 * inside - own, shared - 2 * fall], 1)
        responses = agents.base + arithmetic.matmul(
            agents.matrix, reflected.reshape(count, 2 * hours + 1, 1)
        ).reshape(count, hours + 1)
        moves = (
            responses - inside * RELAXATION,
            responses[:, :hours] - (shared - fall) * RELAXATION,
        )
        return State(own + moves[0], shared + moves[1], moves)

    def finish(self, state: State) -> Plans:
        """The copies in the boxes, rounded to OPENED_BITS."""
        terms, arithmetic = self._terms, self._arithmetic
        found = _inside(terms, state.own, self._agents, arithmetic)[:, : terms.hours]
        settled = None
        if terms.tolerance is not None:
            settled = _settled(
                terms, terms.tolerance, state.moves, found, self._agents, self._limit, arithmetic
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
        else arithmetic.scaled(sums + cost, terms.agents * terms.weight / terms.stiffness)
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
    moves: tuple[Numbers, ...],
    found: Numbers,
    agents: Programs,
    limit: Numbers | None,
    arithmetic: Arithmetic,
) -> Numbers:
    """Moves are compared with what the agent uses in an hour and what the average agent does, half
    each: nobody who uses nothing has to stand stiller than roundings."""
    count, hours = terms.agents, terms.hours
    size = used(found + agents.centre, arithmetic)
    own = size.sum(axis=1)
    mean = own.reshape(1, count).sum(axis=1)
    parts = moves[0][:, :hours], moves[0][:, hours:], moves[1]
    room = []
    for moved, most in zip(parts, terms.settled_moves(tolerance), strict=True):
        each = arithmetic.scaled(own, most / (2 * hours))
        each = (each + arithmetic.scaled(mean, most / (2 * hours * count))).reshape(count, 1)
        flat = math.prod(moved.shape)
        room += [(moved + each).reshape(flat), (each - moved).reshape(flat)]
    if limit is not None:
        allowed = arithmetic.scaled(size.sum(axis=0), tolerance)
        room.append(allowed - (found.sum(axis=0) + limit))
    passed = arithmetic.below_zero(arithmetic.stack(room, 0), QUANTITIES)
    return arithmetic.below_zero(passed.reshape(1, -1).sum(axis=1) - 0.5, QUANTITIES)

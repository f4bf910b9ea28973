"""Whether `method: auto` comes to the same answer in any unit: `python -m benchmarks.units [FIRST
LAST]`, random instances as they are and with rows, variables, money and boxes changed by powers of
ten, base loads, and rows permuted, repeated and added; against Clarabel in natural units.

All agents run in this process in the clear, on the grid of the encrypted run. `x off`: of the
runs that say `converged`, the largest error in parts of the largest |x|. tests/clients runs a few
of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from discreet.problems.coupled_qp import problem as bounds
from discreet.problems.coupled_qp.data import OperatorData
from discreet_agent.best_responses import Responder
from discreet_agent.convex_sets import Box
from discreet_agent.costs import QuadraticCost
from discreet_agent.packing import box_bound
from discreet_agent.priced_rounds import MOST_ROUNDS, PricedRounds
from discreet_agent.prices import Prices

Floats = NDArray[np.float64]
FRACTION_BITS = 32
GRID = 2.0**-FRACTION_BITS
BOUND = 2.0**25


@dataclass(frozen=True)
class Instance:
    """One problem: lists have an entry an agent. `units`: what each variable is multiplied by."""

    A_u: list[Floats]
    A_g: list[Floats]
    A_q: list[Floats]
    a_l: list[Floats]
    lower: list[Floats]
    upper: list[Floats]
    c: Floats
    d: Floats
    units: list[Floats]

    def optimum(self) -> list[Floats]:
        """By Clarabel, as closely as it comes."""
        x = [cp.Variable(one.size) for one in self.a_l]
        cost, constraints = 0.0, []
        if self.c.size:
            cost += cp.sum_squares(cp.hstack(x) @ np.hstack(self.A_u).T + self.c) / 2
        if self.d.size:
            constraints.append(cp.hstack(x) @ np.hstack(self.A_g).T + self.d <= 0)
        parts = zip(x, self.A_q, self.a_l, self.lower, self.upper, strict=True)
        for one, A_q, a_l, lower, upper in parts:
            cost += cp.sum_squares(A_q @ one) + a_l @ one
            constraints += [one >= lower, one <= upper]
        problem = cp.Problem(cp.Minimize(cost), constraints)
        for tolerance in (1e-12, 1e-10, 1e-8):
            limits = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
            try:
                problem.solve(solver=cp.CLARABEL, **limits)
            except cp.SolverError:
                continue
            break
        return [np.array(one.value) for one in x]


def random_instance(seed: int, curvature: float = 1.5) -> Instance:
    """3 to 20 agents with 1 to 6 variables and 1 to 32 rows, feasible; costs are strongly convex,
    or with `curvature` 0 linear."""
    random = np.random.default_rng(seed)
    count, rows = int(random.integers(3, 21)), int(random.integers(1, 33))
    coupled = int(random.integers(0, rows + 1))
    made = Instance([], [], [], [], [], [], np.zeros(0), np.zeros(0), [])
    used = np.zeros(rows - coupled)
    for _ in range(count):
        k = int(random.integers(1, 7))
        made.A_u.append(random.normal(size=(coupled, k)) / 2)
        made.A_g.append(random.normal(size=(rows - coupled, k)) / 2)
        root = random.normal(size=(k, k)) / 4 + curvature * np.eye(k)
        made.A_q.append(root if curvature else np.zeros((0, k)))
        made.a_l.append(3 * random.normal(size=k))
        made.lower.append(-random.uniform(0, 2, k))
        made.upper.append(random.uniform(0.5, 2, k))
        made.units.append(np.ones(k))
        used += made.A_g[-1] @ random.uniform(made.lower[-1], made.upper[-1])
    return replace(made, c=random.normal(size=coupled), d=-used - 0.1)


def scaled(
    one: Instance,
    rows: Floats | float = 1.0,
    variables: Sequence[Floats] | None = None,
    money: float = 1.0,
    wider: float = 1.0,
) -> Instance:
    """The same in other units: of the constraints, of each variable, of the cost. `wider` boxes
    are another problem, with the same optimum where no bound of the box is active."""
    v = list(variables or one.units)
    root, rows = np.sqrt(money), np.broadcast_to(rows, one.d.shape)
    return Instance(
        [root * A / unit for A, unit in zip(one.A_u, v, strict=True)],
        [rows[:, None] * A / unit for A, unit in zip(one.A_g, v, strict=True)],
        [root * A / unit for A, unit in zip(one.A_q, v, strict=True)],
        [money * a / unit for a, unit in zip(one.a_l, v, strict=True)],
        [wider * side * unit for side, unit in zip(one.lower, v, strict=True)],
        [wider * side * unit for side, unit in zip(one.upper, v, strict=True)],
        root * one.c,
        rows * one.d,
        v,
    )


def with_rows(one: Instance, order: Sequence[int], slack: float) -> Instance:
    """Constraints in another order or several times, and one that is kept with room."""
    return replace(
        one,
        A_g=[np.vstack([A[order], np.ones((1, A.shape[1]))]) for A in one.A_g],
        d=np.append(one.d[order], -slack),
    )


def with_base(one: Instance, load: float) -> Instance:
    """An agent more, whose one variable is fixed at `load` and counts in all constraints."""
    rows = one.d.size
    return replace(
        one,
        A_u=[*one.A_u, np.zeros((one.c.size, 1))],
        A_g=[*one.A_g, np.ones((rows, 1))],
        A_q=[*one.A_q, np.ones((1, 1))],
        a_l=[*one.a_l, np.zeros(1)],
        lower=[*one.lower, np.array([load])],
        upper=[*one.upper, np.array([load])],
        d=one.d - load,
        units=[*one.units, np.ones(1)],
    )


def variants(seed: int) -> Iterator[tuple[str, list[Floats], Instance]]:
    """Name, the optimum in natural units, and what is run."""
    one, random = random_instance(seed), np.random.default_rng(seed + 1000)
    rows = 10 ** random.uniform(-9, 9, one.d.size)
    variables = [10 ** random.uniform(-9, 9, a.size) for a in one.a_l]
    best = one.optimum()
    yield "as is", best, one
    yield "rows by 1e±9", best, scaled(one, rows=rows)
    yield "variables by 1e±9", best, scaled(one, variables=variables)
    yield "money by 1e-9", best, scaled(one, money=1e-9)
    yield "money by 1e9", best, scaled(one, money=1e9)
    for wider in (1e3, 1e6):
        wide = scaled(one, wider=wider)
        best_in_wide = wide.optimum()
        yield f"boxes {wider:g} times wider", best_in_wide, wide
    yield "all of these", best_in_wide, scaled(one, rows, variables, 1e-9, 1e6)
    if one.d.size:
        order = [*random.permutation(one.d.size), *random.integers(0, one.d.size, 2)]
        most = float(np.sum(np.maximum(*map(np.abs, map(np.concatenate, (one.lower, one.upper))))))
        yield "rows permuted, repeated, added", best, with_rows(one, order, 2 * most)
        load = 1e4 * float(np.max(np.abs(np.concatenate(best))))
        yield "a base load of 1e4 uses", [*best, np.array([load])], with_base(one, load)


def play(one: Instance, seed: int, most: int = MOST_ROUNDS) -> list[PricedRounds]:
    """All agents to their end."""
    random, count = np.random.default_rng(seed), len(one.a_l)
    own = np.concatenate([one.c, one.d])
    A = [np.vstack(pair) for pair in zip(one.A_u, one.A_g, strict=True)]
    reach = np.max(
        [box_bound(*three) for three in zip(A, one.lower, one.upper, strict=True)], axis=0
    )
    operator = OperatorData(c=tuple(one.c), d=tuple(one.d))
    units = bounds.units_of(operator, reach.tolist(), BOUND)
    figures = np.array(units.figures)
    prices = Prices(one.c.size, figures, BOUND, GRID, count, units.exponents)
    agents = [
        PricedRounds(
            Responder(
                rows, QuadraticCost(A_q, a_l), Box(low, high), one.c.size, figures, random.random
            ),
            prices,
            most,
        )
        for rows, A_q, a_l, low, high in zip(A, one.A_q, one.a_l, one.lower, one.upper, strict=True)
    ]
    part, sums = np.append(np.rint(np.ldexp(own, units.exponents) / GRID) * GRID, 0.0), None
    while (told := [agent(sums) for agent in agents])[0] is not None:
        total = np.sum([np.rint(sent / GRID) * GRID for sent in told if sent is not None], axis=0)
        sums = total if agents[0].alone else total + part
    return agents


def off(one: Instance, agents: Sequence[PricedRounds], best: Sequence[Floats]) -> float:
    """The largest error in natural units, in parts of the largest |x| of who has a choice."""
    free = [np.any(high > low) for low, high in zip(one.lower, one.upper, strict=True)]
    largest = max(float(np.max(np.abs(x))) for x, able in zip(best, free, strict=True) if able)
    found = [agent.x / unit for agent, unit in zip(agents, one.units, strict=True)]
    return max(
        float(np.max(np.abs(got - x))) / largest
        for got, x, able in zip(found, best, free, strict=True)
        if able
    )


def main(first: int, last: int) -> None:
    rows: dict[str, list[tuple[bool, float, int]]] = {}
    for seed in range(first, last):
        for name, best, run in variants(seed):
            agents = play(run, seed)
            found = agents[0].settled(1e-3), off(run, agents, best), agents[0].done
            rows.setdefault(name, []).append(found)
    print(
        "| changed | converged | of these x off by more than 1e-4 | worst | rounds, median | most |"
    )
    print("|---|---|---|---|---|---|")
    for name, runs in rows.items():
        errors = [error for settled, error, _ in runs if settled]
        rounds = [done for _, _, done in runs]
        print(
            f"| {name} | {len(errors)}/{len(runs)} | {sum(e > 1e-4 for e in errors)} | "
            f"{max(errors, default=0.0):.1e} | {np.median(rounds):g} | {max(rounds)} |",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3] or (0, 30)))

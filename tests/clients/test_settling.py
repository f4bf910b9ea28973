"""What agents that make short steps say at the end: never that they have settled over a wrong
point, whatever the units, the boxes and the other rows are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.solvers.saddle.spds import Part, step_sizes
from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.cost_terms import PiecewiseLinear
from discreet_agent.costs import ConvexCost, QuadraticCost
from discreet_agent.settling import Asked, Certificate, Own
from discreet_agent.updates import Participant, Rounds, Steps

Floats = NDArray[np.float64]
FRACTION = 32
TOLERANCE = 1e-3


@dataclass
class Instance:
    """Agents' A_u, A_g, A_q, a_l, lower, upper; c and d."""

    agents: list[list[Floats]]
    c: Floats
    d: Floats

    @classmethod
    def draw(cls, seed: int) -> Instance:
        rng = np.random.default_rng(seed)
        n, m_u, m_g = (int(rng.integers(low, high)) for low, high in ((3, 7), (1, 4), (1, 4)))
        agents, used = [], np.zeros(m_g)
        for _ in range(n):
            k = int(rng.integers(1, 4))
            A_u, A_g, A_q = (rng.normal(size=(rows, k)) / 2 for rows in (m_u, m_g, k))
            lower, upper = -rng.uniform(0, 2, k), rng.uniform(0.5, 2, k)
            used += A_g @ rng.uniform(lower, upper)
            agents.append(
                [A_u, A_g, A_q / 2 + 1.5 * np.eye(k), 3 * rng.normal(size=k), lower, upper]
            )
        return cls(agents, rng.normal(size=m_u), -used - 0.1)

    def scaled(self, x: float = 1, row: float = 1, money: float = 1, width: float = 1) -> Instance:
        """The same in other units of x, of constraints and of money, and in wider boxes."""
        root = np.sqrt(money)
        agents = [
            [
                *(A_u * root / x, A_g * row / x, A_q * root / x, a_l * money / x),
                *(lower * x * width, upper * x * width),
            ]
            for A_u, A_g, A_q, a_l, lower, upper in self.agents
        ]
        return Instance(agents, self.c * root, self.d * row)

    @property
    def parts(self) -> list[Part]:
        return [
            Part(A_u, A_g, QuadraticCost(A_q, a_l), Box(lower, upper))
            for A_u, A_g, A_q, a_l, lower, upper in self.agents
        ]

    def optimum(self) -> Floats:
        xs = [cp.Variable(one[3].size) for one in self.agents]
        both = list(zip(self.agents, xs, strict=True))
        goal = cp.sum_squares(sum(one[0] @ x for one, x in both) + self.c) / 2
        goal += sum(cp.sum_squares(one[2] @ x) + one[3] @ x for one, x in both)
        limits = [sum(one[1] @ x for one, x in both) + self.d <= 0]
        limits += [side for one, x in both for side in (x >= one[4], x <= one[5])]
        precise = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
        cp.Problem(cp.Minimize(goal), limits).solve(solver=cp.CLARABEL, **precise)
        return np.concatenate([x.value for x in xs])

    def run(self, iterations: int, steps: Steps | None = None) -> tuple[list[Rounds], Floats]:
        """Agents from random points of their boxes, over sums on the grid; and all x."""
        n, rng = len(self.agents), np.random.default_rng(0)
        asked = Asked(TOLERANCE, n, 2.0**27, (n + 1) * 2.0 ** -(FRACTION + 1))
        steps = steps or step_sizes(self.parts)
        made = []
        for part in self.parts:
            made.append(
                Rounds(
                    Participant(part.A_u, part.A_g, part.cost, part.domain, steps),
                    iterations,
                    asked,
                )
            )
            made[-1].participant.x = rng.uniform(*part.domain.sides)
        own, sums, opened = np.concatenate([self.c, self.d]), None, 0
        while True:
            sent = [one(sums) for one in made]
            if any(one is None for one in sent):
                break
            sums = sum(on_grid(one) for one in sent if one is not None)
            sums = sums + on_grid(own) * (opened < iterations)
            opened += 1
        assert all(one is None for one in sent)
        assert len({one.settled(TOLERANCE) for one in made}) == 1, "all say the same"
        return made, np.concatenate([one.x for one in made])


def on_grid(values: Floats) -> Floats:
    return np.ldexp(np.rint(np.ldexp(values, FRACTION)), -FRACTION)


def chargers(
    upper: float = 5.0, unit: float = 1.0, big: float = 0.0, wishes: tuple[float, ...] = (2, 3, 4)
) -> Instance:
    """Three that want 2, 3 and 4 under a limit of 3: right is 0, 1, 2."""
    A_u = [[0.3], [1e-6 if big else 0.3]]
    agents = [
        [
            np.array(one)
            for one in (A_u, [[1.0]], [[1.0]], [-2.0 * wish * unit], [0.0], [upper * unit])
        ]
        for wish in wishes
    ]
    return Instance(agents, np.array([0.0, big]), np.array([-3.0 * unit]))


CASES = {
    "plain": chargers(),
    "box to 1e4": chargers(1e4),
    "box to 1e6": chargers(1e6),
    "another row with 1e5": chargers(big=1e5),
    "unit 1e-4": chargers(unit=1e-4),
    "unit 1e-6": chargers(unit=1e-6),
}


@pytest.mark.parametrize("regularization", [0.0, 1e-5], ids=["spds", "rpds"])
@pytest.mark.parametrize("name", CASES)
def test_whatever_the_box_the_unit_and_other_rows_are(name: str, regularization: float) -> None:
    """From 10 to 300 rounds: settled at 0, 1, 2 alone. The yardsticks of before, the longest move
    and the largest sum of the run, said so at 0, 0, 0 in wide boxes."""
    instance = CASES[name]
    steps = replace(step_sizes(instance.parts), regularization=regularization)
    unit = -float(instance.d[0]) / 3
    said = []
    for iterations in (10, 40, 300):
        made, x = instance.run(iterations, steps)
        said.append(made[0].settled(TOLERANCE))
        assert said[-1] == (made[0].why == "")
        if said[-1]:
            assert x / unit == pytest.approx([0, 1, 2], abs=3e-3)
            assert made[0].violations == pytest.approx([0], abs=3e-3 * unit)
    # From a random point of a wide box prices rise so far that x is 0 for thousands of rounds.
    assert said[-1] == (not name.startswith("box"))
    assert not said[0]


@pytest.mark.parametrize("seed", range(6))
def test_random_instances_in_any_unit_and_box(seed: int) -> None:
    """The same verdict in all units, and wherever it is that they have settled x is that of
    Clarabel within what the tolerance allows."""
    instance, verdicts = Instance.draw(seed), set()
    best = instance.optimum()
    for change in (
        {},
        {"x": 1e3},
        {"x": 1e-3},
        {"row": 1e3},
        {"row": 1e-3},
        {"money": 1e4},
        {"money": 1e-4},
    ):
        made, x = instance.scaled(**change).run(150)
        verdicts.add(made[0].settled(TOLERANCE))
        if made[0].settled(TOLERANCE):
            unit = change.get("x", 1.0)
            assert x / unit == pytest.approx(best, abs=5 * TOLERANCE * np.abs(best).max())
    assert len(verdicts) == 1
    wide = instance.scaled(width=1e3)
    best = wide.optimum()
    for iterations in (30, 150):
        made, x = wide.run(iterations)
        if made[0].settled(TOLERANCE):
            assert x == pytest.approx(best, abs=5 * TOLERANCE * np.abs(best).max())


@pytest.mark.parametrize(
    ("iterations", "steps"),
    [
        (1000, Steps(1e-7, 1e-7)),
        (1001, Steps(0.9, 5.0)),
        (12, Steps(1e-3, 1e-3)),
        (1, Steps(0.1, 0.1)),
    ],
    ids=["creeps", "swings", "short", "one"],
)
def test_steps_that_creep_or_swing_have_not_settled(iterations: int, steps: Steps) -> None:
    made, _ = chargers().run(iterations, steps)
    assert not made[0].settled(TOLERANCE)
    assert "agents have not reached the best point" in made[0].why


def test_a_limit_that_nobody_can_keep_is_why() -> None:
    instance = chargers()
    instance.d = np.array([0.5])
    made, x = instance.run(4000)
    assert x == pytest.approx([0, 0, 0], abs=1e-6)
    assert not made[0].settled(TOLERANCE)
    assert "constraint 0 is exceeded by 0.5" in made[0].why
    assert made[0].violations == pytest.approx([0.5])


def test_what_is_below_the_grid_is_not_called_settled() -> None:
    """Sums of 1e-11 are one step of the grid: whatever they are, nobody can see them."""
    made, _ = chargers(unit=1e-11).run(300)
    assert not made[0].settled(TOLERANCE)


def test_why_names_the_row_that_is_below_the_grid() -> None:
    end = certificate(1.0, votes=3)
    assert end.sizes is not None
    end.sizes[0] = 1e-7
    sums, prices = np.array([0.0, -1.0]), np.zeros(1)
    assert "row 0 is too small for the grid of the sums: agents put 1e-07 into it" in end.why(
        sums, prices
    )


def test_sizes_that_nobody_can_have_ask_for_no_more_steps() -> None:
    made, _ = chargers().run(20)
    end = made[0]._end
    assert end is not None
    assert end.sizes is not None
    end.sizes[-1] = -1.0
    assert made[0].why.startswith("after 20 steps nobody can say whether x is the optimum")
    assert "more iterations" not in made[0].why


def certificate(size: float, votes: int = 0, ceiling: float | None = None) -> Certificate:
    asked = Asked(TOLERANCE, 3, 8.0, 2.0**-31, None if ceiling is None else np.array([ceiling] * 2))
    end = Certificate(asked, 1)
    end.follow(np.array([1.0, size]))
    end.follow(np.array([8.0 * votes, 0.0]))
    return end


@pytest.mark.parametrize(
    ("excess", "price", "size", "settled"),
    [
        (-5.0, 0.0, 1.0, True),
        (-5.0, 0.1, 1.0, False),  # its price still falls
        (0.9e-3, 0.1, 1.0, True),
        (0.9e-3, 0.1, 0.8, False),
        (-0.9e-3, 0.1, 0.8, False),
        (0.0, 0.1, 0.0, True),  # nobody uses it
        (1e-3, 0.0, 0.0, False),
        (1e-9, 0.0, 1e-7, False),  # nobody can see the difference
        (0.0, 0.0, -1.0, False),  # no honest agent has a size below zero
    ],
)
def test_a_row_is_compared_with_what_agents_use_of_it(
    excess: float, price: float, size: float, settled: bool
) -> None:
    sums, prices = np.array([1e9, excess]), np.array([price])
    end = certificate(size)
    assert end.settled(sums, prices) is settled
    assert (end.why(sums, prices) == "") is settled
    assert not certificate(size, votes=1).settled(sums, prices)


def test_sizes_beyond_the_signed_bounds_say_nothing() -> None:
    """Of three agents that reach 2 each a size of 7 is a lie, which would allow any violation."""
    sums, prices = np.array([0.0, 6e-3]), np.array([0.0])
    assert certificate(7.0).settled(sums, prices)
    lied = certificate(7.0, ceiling=6.0)
    assert not lied.settled(sums, prices)
    assert "cannot be those of agents that follow the protocol" in lied.why(sums, prices)


def has_settled(own: Own, x: list[float], sums: list[float], price: float) -> bool:
    asked = Asked(TOLERANCE, 3, 8.0, 0.0)
    sizes, moved = np.array([6.0, 6.0]), np.zeros(len(x))
    return own.has_settled(asked, sizes, np.array(sums), np.array([price]), np.array(x), moved)


def test_an_agents_vote() -> None:
    """Of `x² - 4x` at a price of 1: 1.5, in a box however wide, in a budget, with a kink."""
    cost, rows = QuadraticCost(np.eye(1), np.array([-4.0])), np.ones((1, 1))
    for upper in (2.0, 1e9):
        own = Own(rows, rows, cost, Box(np.zeros(1), np.full(1, upper)), 0.0)
        assert has_settled(own, [1.5], [0.0, 0.0], 1.0)
        assert has_settled(own, [1.5015], [0.0, 0.0], 1.0)
        assert not has_settled(own, [1.51], [0.0, 0.0], 1.0)
        assert not has_settled(own, [0.0], [0.0, 0.0], 1.0)
    both = QuadraticCost(np.eye(2), np.array([-4.0, -4.0]))
    budget = BudgetedBox(np.zeros(2), np.full(2, 9.0), 1.0, 1.0)
    own = Own(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), both, budget, 0.0)
    assert has_settled(own, [0.25, 0.75], [0.0, 0.0], 1.0)
    assert not has_settled(own, [0.3, 0.7], [0.0, 0.0], 1.0)
    kink = ConvexCost(
        cost, (PiecewiseLinear(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), 9.0),)
    )
    own = Own(rows, rows, kink, Box(np.zeros(1), np.full(1, 5.0)), 0.0)
    assert has_settled(own, [1.0], [0.0, 0.0], 1.0)
    assert not has_settled(own, [1.5], [0.0, 0.0], 1.0)


def test_a_cost_without_curvature_is_settled_by_its_sums_alone() -> None:
    """A cost of `-x` and |x + u|²/2: at u = 1 with any x inside, and not a thousandth beside."""
    rows = np.ones((1, 1))
    own = Own(rows, 0 * rows, QuadraticCost(np.zeros((0, 1)), -np.ones(1)), Box(-9.0, 9.0), 0.0)
    assert has_settled(own, [2.0], [1.0, 0.0], 0.0)
    assert not has_settled(own, [2.0], [1.001, 0.0], 0.0)
    linear = Own(0 * rows, rows, QuadraticCost(np.zeros((0, 1)), -np.ones(1)), Box(0.0, 9.0), 0.0)
    assert has_settled(linear, [9.0], [0.0, 0.0], 0.5)
    assert not has_settled(linear, [8.0], [0.0, 0.0], 0.5)


def test_what_is_fixed_hides_no_error() -> None:
    """The three chargers with 1e5 more each that nobody can do without: after two rounds, 6 above a
    limit of 3, they were settled."""
    load = 1e5
    instance = chargers()
    for one in instance.agents:
        one[0] = 0 * one[0]
        one[3], one[4], one[5] = one[3] - 2 * load, one[4] + load, one[5] + load
    instance.c, instance.d = np.zeros(2), instance.d - 3 * load
    for iterations in (2, 5, 40):
        made, x = instance.run(iterations)
        assert made[0].settled(TOLERANCE) == (iterations == 40)
    assert x - load == pytest.approx([0, 1, 2], abs=3e-3)

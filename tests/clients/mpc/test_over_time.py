"""Hours that agents couple: ADMM in the fixed-point arithmetic of shares, against an interior point
method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc import evidence
from discreet_agent.mpc.inputs import input_of
from discreet_agent.mpc.own_programs import columns, own_program
from discreet_agent.mpc.prices import FloatArithmetic
from discreet_agent.mpc.terms import Terms
from tests.clients.mpc.over_time import Fixed, FixedPointArithmetic, OverTime, plans_of


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_of_random_instances_with_the_bits_of_shares(seed: int) -> None:
    """Truncated products, and no number beyond the bits that the terms give, or beyond the fewer
    ones of its comparison."""
    instance = OverTime.draw(seed, 3 + seed % 3, 6)
    arithmetic = FixedPointArithmetic(instance.terms)
    x, settled = instance.computed(arithmetic)
    best = instance.objective(instance.by_clarabel())
    assert instance.objective(x) == pytest.approx(best, abs=1e-4 * abs(best))
    assert instance.violation(x) <= 1e-4 * instance.terms.reach
    assert instance.keeps(x)
    assert settled
    assert 0 < arithmetic.largest_compared < 2.0**Fixed.bits
    most = instance.terms.masked_values
    assert 0.8 * most < Fixed.masked <= most
    assert f"up to {most}" in evidence.assumptions(instance.terms)[-1]


def test_fewer_bits_would_not_do() -> None:
    """Nine fraction bits fewer lose the accuracy; whole bits fewer than the numbers have
    overflow."""
    instance = OverTime.draw(8, 5, 6)
    best = instance.objective(instance.by_clarabel())
    x, _ = instance.computed(FixedPointArithmetic(instance.terms, fewer=9))
    assert abs(instance.objective(x) - best) > 1e-4 * abs(best)
    arithmetic = FixedPointArithmetic(instance.terms)
    Fixed.bits = instance.terms.fraction_bits + 2
    with pytest.raises(OverflowError):
        instance.computed(arithmetic)


def test_a_limit_that_cannot_be_kept_overflows_nothing() -> None:
    """Its price grows with every step up to the bound of the terms, and no further."""
    instance = OverTime.draw(0, 3, 4)
    assert instance.limit is not None
    instance.limit += 3 * instance.terms.reach
    instance.iterations = 400
    x, settled = instance.computed(FixedPointArithmetic(instance.terms))
    assert settled is False
    assert instance.keeps(x)


@pytest.mark.parametrize(("agents", "threshold"), [(3, 1), (5, 2)])
def test_roundings_move_less_than_is_told_from_them(agents: int, threshold: int) -> None:
    """Once nothing but roundings moves, with masks of three and of ten parts."""
    instance = OverTime.draw(4, agents, 4)
    instance.threshold, instance.iterations = threshold, 180
    instance.typical = instance.usual_curvature
    terms, arithmetic = instance.terms, FixedPointArithmetic(instance.terms)
    moves: list[Any] = []
    plans_of(terms, instance.programs(), instance.cost, instance.limit, arithmetic, moves)
    largest = [max(float(np.abs(np.asarray(one)).max()) for one in step) for step in moves]
    assert largest[0] > 100 * terms.noise
    assert 1 <= max(largest[-20:]) < terms.noise


@pytest.mark.parametrize("wide", [1.0, 100.0])
def test_what_has_settled_is_compared_with_what_agents_use(wide: float) -> None:
    """A reach a hundred times too wide, of which an excess of ten times all use was a thousandth:
    with every number of steps, called settled at the optimum alone. In the clear, where no rounding
    hides anything."""
    said = 0
    for seed in range(8):
        instance = OverTime.draw(seed, 3 + seed % 3, 4)
        best = instance.by_clarabel()
        terms = replace(instance.terms, reach=instance.terms.reach * wide)
        for steps in (10, 30, 100):
            taken = replace(terms, iterations=steps)
            programs = instance.programs(taken)
            found = plans_of(taken, programs, instance.cost, instance.limit, FloatArithmetic())
            x = np.stack(
                [one.x_of(own) for one, own in zip(programs, found.quantities, strict=True)]
            )
            if found.settled[0] > 0.5:
                said += 1
                assert x == pytest.approx(best, abs=1e-3 * float(np.abs(best).max()))
    assert said >= 6


def test_steps_that_were_too_few_are_told() -> None:
    instance = OverTime.draw(17, 5, 6)
    instance.iterations = 10
    assert instance.computed()[1] is False
    instance.tolerance = None
    assert instance.computed()[1] is None


@pytest.mark.parametrize("typical", [1000.0, None])
def test_small_moves_of_large_steps_are_not_called_settled(typical: float | None) -> None:
    """One agent's box is a thousandth of the others', with a curvature that is as much larger. With
    step sizes for it alone the others creep towards the optimum, by moves far below `tolerance`."""
    upper = np.array([[1e-3, 1e-3], [1.0, 1.0], [1.0, 1.0]])
    instance = OverTime(
        A_q=np.sqrt([1000.0, 0.01, 0.01])[:, None, None] * np.eye(2) / np.sqrt(2),
        slope=np.array([[-0.5, -0.5], [-0.5, -0.4], [-0.45, -0.5]]),
        lower=0 * upper,
        upper=upper,
        budgets=[None, None, None],
        effect=np.ones(3),
        cost=np.full(2, -1.0),
        limit=None,
        iterations=100,
        typical=typical,
    )
    x, settled = instance.computed(FixedPointArithmetic(instance.terms))
    best = instance.objective(instance.by_clarabel())
    near = abs(instance.objective(x) - best) < 1e-4 * abs(best)
    assert near == settled == (typical is None)


def test_quantities_that_are_small_beside_c() -> None:
    """As exact as others: a step moves sums by c times a factor that is small, too."""
    instance, small = OverTime.draw(0, 3, 4), 1e-5
    assert instance.limit is not None
    instance.lower, instance.upper = instance.lower * small, instance.upper * small
    instance.limit, instance.A_q = instance.limit * small, instance.A_q / np.sqrt(small)
    instance.budgets = [
        None if one is None else (one[0] * small, one[1] * small) for one in instance.budgets
    ]
    instance.iterations, instance.typical = 20, instance.usual_curvature
    assert instance.terms.weight < 1e-5
    x, _ = instance.computed(FixedPointArithmetic(instance.terms))
    clear, _ = instance.computed()
    assert x == pytest.approx(clear, abs=1e-5 * instance.terms.reach)


def test_what_semi_honest_excludes() -> None:
    """An agent without any width, whose x is the same whatever the others do, reads the hours'
    prices from it if its program inputs a matrix that is no inverse, and wider bounds."""
    hours, part = 4, columns(4)

    def opened(seed: int, lies: bool) -> NDArray[np.float64]:
        instance, others = OverTime.draw(0, 3, hours), OverTime.draw(seed, 3, hours)
        instance.slope[1:], instance.upper[0] = others.slope[1:], instance.lower[0]
        instance.budgets[0] = None
        terms = replace(instance.terms, price=40.0)
        mine, *rest = instance.programs(terms)
        rows = mine.rows.copy()
        rows[:, part["matrix"]] = np.eye(hours + 1, 2 * hours + 1, hours + 1) / 4
        rows[:, part["base"]], rows[:, part["lower"]], rows[:, part["upper"]] = 0.0, -1.0, 1.0
        if lies:
            mine = replace(mine, rows=rows)
        found = plans_of(terms, [mine, *rest], instance.cost, instance.limit, FloatArithmetic())
        return np.asarray(found.quantities[0])

    assert np.array_equal(opened(0, lies=False), opened(4, lies=False))
    assert np.all(np.abs(opened(0, lies=True) - opened(4, lies=True)) > 2.0**-16)


def test_an_agent_without_a_budget_has_the_shape_of_one_with_it() -> None:
    """Nobody sees in inputs or messages who has a budget."""
    instance = OverTime.draw(0, 3, 4)
    assert [one is None for one in instance.budgets] == [False, False, True]
    assert {one.rows.shape for one in instance.programs()} == {(5, 13)}


TERMS = Terms(3, 2, 1, False, True, 10.0, 20.0, 0.5, 2.0, 1e-3, 30)
EYE, NONE = np.eye(2), np.zeros((0, 2))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"upper": [11.0, 5.0]}, "reach 11, beyond the signed reach 10"),
        ({"a_l": [-30.0, 0.0]}, "beyond the signed price 20"),
        ({"A_q": np.eye(2) / 9}, "below the signed least_curvature 0.5"),
        ({"A_q": np.array([[0.6, 0.0], [0.0, 0.6], [0.7, 0.7]])}, "signed most_curvature 2"),
        ({"A_g": np.ones((2, 2))}, "A_g must be a diagonal matrix of 2 rows"),
        ({"A_g": np.diag([1.0, 0.0])}, "every variable must enter its hour's sum"),
        ({"A_g": np.diag([1.0, 0.5]), "budget": (1.0, 2.0)}, "with the same factor"),
        ({"a_l": [0.0, 0.0, 0.0]}, "one variable per hour is needed, 2 of them; a_l has 3"),
        ({"upper": [np.inf, 5.0]}, "needs a lower and an upper bound"),
    ],
)
def test_data_that_do_not_fit_the_terms(changes: dict[str, Any], says: str) -> None:
    data: dict[str, Any] = {
        "A_q": np.eye(2) * 0.6,
        "a_l": [-3.0, -3.0],
        "upper": [5.0, 5.0],
        "A_g": EYE,
        **changes,
    }
    upper = np.array(data["upper"])
    own = BudgetedBox(0 * upper, upper, *data["budget"]) if "budget" in data else Box(0.0, upper)
    A_q = np.resize(data["A_q"], (len(data["A_q"]), len(data["a_l"])))
    with pytest.raises(ValueError, match=says):
        own_program(TERMS, NONE, data["A_g"], QuadraticCost(A_q, np.array(data["a_l"])), own)


def test_budgets_need_iterations() -> None:
    exact = Terms(3, 2, 1, False, True, 10.0, 20.0, 0.5, 2.0)
    own = BudgetedBox(np.zeros(2), np.full(2, 5.0), 1.0, 2.0)
    with pytest.raises(ValueError, match="these terms have no iterations"):
        input_of(exact, NONE, EYE, QuadraticCost(0.6 * EYE, np.zeros(2)), own)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"iterations": 0}, "iterations"),
        ({"iterations": 501}, "iterations"),
        ({"typical_curvature": 3.0}, "typical_curvature"),
        ({"iterations": None, "typical_curvature": 1.0}, "typical_curvature"),
        ({"tolerance": 1e-6}, "tolerance"),
        ({"most_curvature": 1e4, "typical_curvature": 1e3}, "tolerance"),
        ({"reach": 1e300}, "most_curvature"),
        ({"reach": 1e-300}, "most_curvature"),
        ({"least_curvature": 1e-300, "iterations": None}, "most_curvature"),
    ],
)
def test_terms_that_cannot_be(changes: dict[str, Any], field: str) -> None:
    known = {name: getattr(TERMS, name) for name in Terms.__dataclass_fields__}
    with pytest.raises(ValueError, match=f"^{field}: "):
        Terms(**(known | changes)).check()


def test_terms_are_read_as_they_were_written() -> None:
    assert Terms.read(TERMS.fields) == TERMS
    exact = Terms(3, 2, 1, False, True, 10.0, 20.0, 0.5, 2.0)
    assert "iterations" not in exact.fields  # certificates of sessions before there were any

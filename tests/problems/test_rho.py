"""Budgets in rho: what a plan costs never exceeds them, and the mechanism is the one of which most
jobs fit."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy import calibration, units
from discreet.privacy.filters import Cap, admits
from discreet.privacy.mechanisms.gaussian import gaussian_delta
from discreet.privacy.units import EPSILON_UNIT, RHO_UNIT, Price
from discreet.problems import KINDS
from discreet.problems.base import RHO_TOLERANCE, Problem, read_example
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import Plan
from discreet.problems.routing.public import RoutingPublic

DELTA = Decimal("1e-6")


@pytest.mark.parametrize("rho", ["0.001", "0.02", "1.0"])
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.Dataset is not None])
def test_a_plan_keeps_its_rho_and_hardly_less(name: str, rho: str) -> None:
    problem, dataset, _ = read_example(KINDS[name])
    assert dataset is not None
    budget = Privacy(rho=Decimal(rho), delta=DELTA).budget
    plan = problem.plan_within(dataset.public, budget)
    assert sum((event.price() for event in plan.events), Price.zero()) == plan.total
    assert budget.rho is not None
    assert budget.rho * (1 - RHO_TOLERANCE) <= plan.total.rho <= budget.rho
    # mu² = 2 rho is a Gaussian's; on the unit grid its curve may lie lower, and never above what
    # any rho implies.
    epsilon = plan.total.epsilon / EPSILON_UNIT
    assert gaussian_delta(epsilon, math.sqrt(2 * float(rho))) == pytest.approx(
        1e-6, rel=0.05 if epsilon < 1 else 2
    )
    assert plan.total.epsilon <= units.epsilon_units_from_rho(budget.rho, budget.delta)


@pytest.mark.parametrize(
    ("steps", "sampling", "rho"), [(200, 0.1, "0.01"), (10**6, 1e-3, "0.0001")]
)
def test_noisy_steps_keep_it_too_and_few_plans_are_made(
    steps: int, sampling: float, rho: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of a million steps takes transforms of a million points: what is searched for is found
    in a few."""
    kind = KINDS["off_policy_evaluation"]
    problem, dataset, _ = read_example(kind)
    assert dataset is not None
    problem = problem.model_copy(
        update={"method": "minibatch", "steps": steps, "sampling": sampling}
    )
    made, plan = [], kind.plan

    def counted(self: Problem, public: Any, budget: Budget) -> Plan:
        made.append(budget)
        return plan(self, public, budget)

    monkeypatch.setattr(kind, "plan", counted)
    found = problem.plan_within(dataset.public, Privacy(rho=Decimal(rho), delta=DELTA).budget)
    assert float(rho) * (1 - RHO_TOLERANCE) <= found.total.rho / RHO_UNIT <= float(rho)
    assert len(made) <= 4


def test_many_jobs_of_one_rho_have_less_noise_than_of_the_epsilon_that_costs_as_much() -> None:
    """500 trips, 100 jobs under (1, 1e-6): the filter counts rho, of which a Gaussian needs half as
    much."""
    problem, _, _ = read_example(KINDS["routing"])
    problem = problem.model_copy(update={"max_trips_per_person": 500})
    public = RoutingPublic(unit="person", zones=2, periods=30, period_minutes=60)
    cap = Cap(EPSILON_UNIT, 10**12)
    rho = units.largest_rho(cap.epsilon, cap.delta // 4) // 100
    gaussian = problem.plan_within(public, Budget(epsilon=0, delta=10**9, rho=rho))
    laplace = problem.plan(public, Budget(epsilon=math.isqrt(2 * rho), delta=10**9))
    assert gaussian.noise[0].standard_deviation == pytest.approx(24_018, rel=1e-3)
    assert laplace.noise[0].standard_deviation == pytest.approx(33_966, rel=1e-3)
    total, fitted = Price.zero(), 0
    while admits(total.columns(), gaussian.total, cap):
        total, fitted = total + gaussian.total, fitted + 1
    assert fitted == 100


@pytest.mark.parametrize("sensitivity", [1.0, 3.0, 20.0])
def test_what_a_gaussian_of_a_rho_is_charged_is_its_own_curve(sensitivity: float) -> None:
    event = calibration.least_variance(
        sensitivity, sensitivity, 0, 10**12, neighbours="x", rho=RHO_UNIT // 10
    )
    assert event.mechanism == "discrete_gaussian"
    assert event.price().rho <= RHO_UNIT // 10
    epsilon = event.price().epsilon / EPSILON_UNIT
    assert event.delta(epsilon) <= 1e-6 < event.delta(epsilon - 2e-9)
    with pytest.raises(ValueError, match="too small"):
        event.model_copy(update={"charged_epsilon": event.charged_epsilon - 2}).price()


@pytest.mark.parametrize(
    "values", [{}, {"epsilon": 1, "rho": 1, "delta": 1e-6}, {"rho": 1}, {"rho": 0, "delta": 1e-6}]
)
def test_a_budget_says_epsilon_or_rho(values: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Privacy.model_validate(values)


def test_a_rho_that_no_noise_keeps_is_refused_by_its_name() -> None:
    problem, dataset, _ = read_example(KINDS["off_policy_evaluation"])
    assert dataset is not None
    with pytest.raises((InvalidInput, ValueError)) as refused:
        problem.plan_within(dataset.public, Budget(epsilon=0, delta=10**12, rho=1))
    assert isinstance(refused.value, InvalidInput)
    assert {issue.pointer for issue in refused.value.issues} == {"/privacy/rho"}

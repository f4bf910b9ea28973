"""The filters, on integers, against dp_accounting and the definitions."""

from __future__ import annotations

import dp_accounting
import pytest
from dp_accounting.rdp import compute_epsilon
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import capacity
from discreet.privacy import units as zcdp
from discreet.privacy.calibration import gaussian
from discreet.privacy.filters import (
    FILTERS,
    Basic,
    Cap,
    Zcdp,
    admits,
    holds,
    largest_epsilon,
    spent,
)
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT, Price

CAPS = st.builds(
    Cap,
    st.integers(min_value=1, max_value=100 * EPSILON_UNIT),
    st.one_of(st.just(0), st.integers(min_value=1, max_value=DELTA_UNIT // 2)),
)


def test_the_sixth_five_thousandth_of_three_hundredths_is_admitted_exactly() -> None:
    cap, price, total = Cap(30_000_000, 0), Price.pure(5_000_000), Price.zero()
    for _ in range(6):
        assert admits(total.columns(), price, cap) == ["basic"]
        total = total + price
    assert admits(total.columns(), price, cap) == []
    assert largest_epsilon(total.columns(), cap) == 0


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"), [(0.005, 1e-5, 0.375261236), (0.03, 1e-5, 0.990046998)]
)
def test_the_conversion_is_the_reference_one(rho: float, delta: float, epsilon: float) -> None:
    units = zcdp.epsilon_units_from_rho(round(rho * RHO_UNIT), round(delta * DELTA_UNIT))
    assert units / EPSILON_UNIT == pytest.approx(epsilon, rel=1e-8)


@given(
    st.floats(min_value=-8, max_value=1).map(lambda x: 10**x),
    st.floats(min_value=-15, max_value=-1).map(lambda x: 10**x),
)
def test_the_conversion_is_the_best_order_of_dp_accounting(rho: float, delta: float) -> None:
    rho_units, delta_units = round(rho * RHO_UNIT), round(delta * DELTA_UNIT)
    ours = zcdp.epsilon_units_from_rho(rho_units, delta_units) / EPSILON_UNIT
    accountant = dp_accounting.rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(rho_units / RHO_UNIT))
    grid = accountant.get_epsilon(
        delta_units / DELTA_UNIT
    )  # its orders are a grid, ours is the best of all
    assert ours <= grid + 2e-9
    near = [1.01 + 0.0005 * 1.01**n for n in range(1500)]
    fine, _ = compute_epsilon(
        near, [order * rho_units / RHO_UNIT for order in near], delta_units / DELTA_UNIT
    )
    assert ours <= fine + 2e-9
    if fine > 0 and near[-1] > 2 * (1 + (2 * 35 / rho) ** 0.5):
        assert ours == pytest.approx(fine, rel=1e-4, abs=1e-8)


@given(CAPS.filter(lambda cap: cap.delta >= 4))
def test_the_zcdp_budget_is_the_largest_rho(cap: Cap) -> None:
    budget = Zcdp().budget(cap)
    assert budget is not None
    share = cap.delta // 4
    assert budget["delta_z"] == share
    assert zcdp.epsilon_units_from_rho(budget["rho"], share) <= cap.epsilon
    assert zcdp.epsilon_units_from_rho(budget["rho"] + 1, share) > cap.epsilon or budget["rho"] == 0
    if budget["rho"] == 0:
        assert zcdp.epsilon_units_from_rho(1, share) > cap.epsilon


def test_budgets_of_the_two_filters() -> None:
    cap = Cap(10**9, 10**13)
    assert Basic().budget(cap) == {"epsilon": 10**9, "delta": 5 * 10**12}
    zcdp_budget = Zcdp().budget(cap)
    assert zcdp_budget is not None
    assert zcdp_budget["rho"] == zcdp.largest_rho(10**9, 25 * 10**11)
    assert Basic().budget(Cap(10**9, 0)) == {"epsilon": 10**9, "delta": 0}
    assert Zcdp().budget(Cap(10**9, 0)) is None
    assert Zcdp().budget(Cap(10**9, 3)) is None


@given(CAPS, st.integers(0, 60 * EPSILON_UNIT), st.integers(0, DELTA_UNIT // 4), st.booleans())
def test_the_largest_request_passes_and_one_more_does_not(
    cap: Cap, used: int, delta: int, pure: bool
) -> None:
    total = Price.pure(used).columns()
    asked = 0 if pure else min(delta, cap.delta // 4)
    for one in FILTERS:
        largest = one.largest_epsilon(total, cap, asked)
        if largest > 0:
            price = Price.approximate(largest, asked) if asked else Price.pure(largest)
            assert holds(one, total, price, cap)
        more = Price.approximate(largest + 1, asked) if asked else Price.pure(largest + 1)
        assert not holds(one, total, more, cap)
    best = largest_epsilon(total, cap, asked)
    assert best == max(one.largest_epsilon(total, cap, asked) for one in FILTERS)


@given(CAPS, st.lists(st.integers(1, 20 * EPSILON_UNIT), max_size=12))
def test_what_a_filter_admitted_it_certifies_within_the_cap(cap: Cap, requests: list[int]) -> None:
    total = Price.zero()
    for epsilon in requests:
        price = Price.pure(epsilon)
        if admits(total.columns(), price, cap):
            total = total + price
    for one in FILTERS:
        if holds(one, total.columns(), Price.zero(), cap):
            figure = one.spent(total.columns(), cap)
            assert figure is not None
            assert figure[0] <= cap.epsilon
            assert figure[1] <= cap.delta // 2
    assert spent(total.columns(), cap)[0] <= max(cap.epsilon, total.epsilon)


def test_nothing_spent_is_nothing() -> None:
    cap = Cap(10**9, 10**13)
    assert spent(Price.zero().columns(), cap) == (0, 0)
    assert spent({}, cap) == (0, 0)


def test_many_small_gaussians_pass_where_basic_composition_has_long_ended() -> None:
    cap = Cap(10**9, 10**13)
    price = gaussian(1.0, 50_000_000, 10**11, dimension=1, neighbours="a vector").price()
    total, admitted = Price.zero(), 0
    while admits(total.columns(), price, cap):
        total, admitted = total + price, admitted + 1
    assert admitted > 150  # basic composition ends at 20
    assert not holds(Basic(), total.columns(), Price.zero(), cap)
    certified = spent(total.columns(), cap)
    assert certified[0] <= cap.epsilon


def test_a_cap_is_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        Cap(-1, 0)


def test_the_conversion_needs_a_delta() -> None:
    with pytest.raises(ValueError, match="delta > 0"):
        zcdp.epsilon_units_from_rho(1, 0)
    with pytest.raises(ValueError, match="delta > 0"):
        zcdp.largest_rho(1, 0)


@pytest.mark.parametrize(("delta", "seen"), [(10**15, 1), (10**13, 1), (1, 0)])
def test_huge_epsilons_do_not_overflow(delta: int, seen: int) -> None:
    assert zcdp.largest_rho(10**18, delta) > seen
    assert zcdp.epsilon_units_from_rho(10**30, delta) > 10**20


def test_as_many_typical_jobs_fit_as_the_table_says() -> None:
    """The table of `make bench ARGS=capacity`, job by job through the filters; none has fewer than
    before."""
    found = list(capacity.jobs())
    assert {job.kind for job in found} == {
        "routing",
        "dr_ensemble",
        "off_policy_evaluation",
        "multi_agent",
    }
    for job in found:
        for cap in capacity.CAPS:
            most = capacity.fitting(job.after, cap)
            assert most >= capacity.fitting(job.before, cap)
            one = job.after.columns()
            total = {name: most * units for name, units in one.items()}
            assert not admits(total, job.after, cap)
            assert admits(
                {name: units - one[name] for name, units in total.items()}, job.after, cap
            )
    strict, loose = (
        {job.what: capacity.fitting(job.after, cap) for job in found} for cap in capacity.CAPS
    )
    assert [most for what, most in strict.items() if what.startswith("counts")] == [10, 10, 211, 10]
    assert [most for what, most in loose.items() if what.startswith("counts")] == [79, 79, 1586, 79]
    assert [most for what, most in strict.items() if not what.startswith("counts")] == [
        10,
        133,
        111,
        111,
        113,
        123,
        111,
    ]

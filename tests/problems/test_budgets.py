"""Budgets in other words: presets, a delta by rule, and the smallest epsilon for an accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT
from discreet.problems import KINDS, inverse
from discreet.problems.base import read_example
from discreet.problems.budgets import budgeted
from discreet.problems.contents import Profile
from discreet.problems.dr_ensemble import result as dr_advice
from discreet.problems.numbers import PRESETS, Accuracy, Privacy, auto_delta
from discreet.problems.off_policy_evaluation import expectation, weighting
from discreet.problems.plans import Plan
from discreet.problems.results import Expected
from discreet.problems.routing import result as routing_advice
from discreet.problems.routing.problem import Routing

PRICED = [name for name, kind in KINDS.items() if kind.Dataset is not None]


@given(st.integers(1, 10**14))
def test_an_automatic_delta_fails_nobody_in_a_thousand_releases(units: int) -> None:
    delta = auto_delta(units)
    assert delta <= Decimal("1e-6")
    assert delta * units <= Decimal("1e-3")
    assert delta * 10 > Decimal("1e-6") or delta * 10 * units > Decimal(
        "1e-3"
    )  # the largest power of ten
    assert delta * DELTA_UNIT == int(delta * DELTA_UNIT)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", PRICED)
def test_a_preset_is_the_plan_of_its_figures(kind: str, preset: str) -> None:
    problem, dataset, _ = read_example(KINDS[kind])
    assert dataset is not None
    made = budgeted(problem, dataset.public, Privacy.model_validate({"preset": preset}))
    assert made.in_other_words
    assert made.figures["epsilon"] == float(PRESETS[preset])
    delta = auto_delta(problem.units(dataset.public)) if made.plan.total.delta else Decimal(0)
    assert made.figures["delta"] == float(delta)
    same = budgeted(problem, dataset.public, Privacy(epsilon=PRESETS[preset], delta=delta))
    assert not same.in_other_words
    assert made.plan.events == same.plan.events
    assert made.plan.total == same.plan.total
    odds = math.exp(float(PRESETS[preset]))
    meaning, chosen = made.plan.advice[:2]
    assert meaning.startswith(f"{preset} is epsilon {PRESETS[preset]}: whoever finds")
    assert made.plan.neighbours in meaning
    assert float(meaning.rpartition("at most ")[2].partition(" %")[0]) == pytest.approx(
        100 * odds / (1 + odds), abs=0.1
    )
    assert chosen.startswith(
        "no delta is needed" if delta == 0 else f"delta {float(delta):g} was chosen"
    )


@pytest.mark.parametrize(
    ("epsilon", "begins", "sure"),
    [
        (5, None, ""),
        (6, "hardly any protection", "at most 99.76 %"),
        (10, "hardly any", "at most 99.9955 %"),
        (19, "no protection", "may be all but"),
    ],
)
def test_plans_that_protect_nobody_say_so(epsilon: int, begins: str | None, sure: str) -> None:
    problem, dataset, _ = read_example(KINDS["routing"])
    assert dataset is not None
    first = budgeted(problem, dataset.public, Privacy(epsilon=Decimal(epsilon))).plan.advice[0]
    if begins is None:
        assert "protection" not in first
    else:
        assert first.startswith(f"epsilon {epsilon} is {begins}")
        assert f"{sure} sure afterwards" in first  # 99.7527, 99.99546: an upper bound


def test_a_delta_by_rule_with_an_epsilon_or_a_rho() -> None:
    problem, dataset, _ = read_example(KINDS["multi_agent"])
    assert dataset is not None
    made = budgeted(
        problem, dataset.public, Privacy.model_validate({"epsilon": 2, "delta": "auto"})
    )
    assert made.figures == {"epsilon": 2.0, "delta": 1e-6}
    assert "at most 1 / (1,000 x 2 units)" in made.plan.advice[0]
    of_rho = budgeted(
        problem, dataset.public, Privacy.model_validate({"rho": 0.01, "delta": "auto"})
    )
    assert of_rho.plan.total.rho <= 10**16
    assert of_rho.budget.delta == 10**12


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"preset": "usual", "epsilon": 1},
        {"preset": "usual", "accuracy": {"within": 1}},
        {"preset": "wild"},
        {"epsilon": 1, "delta": "automatic"},
        {"epsilon": 1, "delta": None},
        *(
            {"accuracy": {"within": within}}
            for within in (0, -1, True, "5", "0%", "0.0 %", "five%", [1], None)
        ),
        *({"accuracy": {"within": within}} for within in ("5%\n", "٥%")),
        {"accuracy": {"within": 1, "confidence": 1.0}},
        {"accuracy": {"within": 1, "confidence": 0.1}},
    ],
)
def test_what_says_no_budget_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Privacy.model_validate(said)


def test_a_refusal_of_a_preset_names_it() -> None:
    problem, dataset, _ = read_example(KINDS["multi_agent"])
    assert dataset is not None
    tiny = problem.model_copy(
        update={"schedule": problem.schedule.model_copy(update={"iterations": 10**6})}
    )  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput) as refused:
        budgeted(tiny, dataset.public, Privacy.model_validate({"preset": "strict", "delta": 0}))
    assert {one.pointer for one in refused.value.issues} == {"/privacy/delta"}  # which was said


# The inverse --------------------------------------------------------------------------------------

WIDTHS: dict[str, Callable[[float], float]] = {
    "as noise": lambda epsilon: 30 / epsilon,
    "as steps": lambda epsilon: 3000 / epsilon**2,
    "slowly": lambda epsilon: 300 / math.sqrt(epsilon),
    "with a floor": lambda epsilon: 1 + 12 / epsilon,
    "useless below a bound": lambda epsilon: math.inf if epsilon < 0.7 else 30 / epsilon,
    "by a jump": lambda epsilon: 100.0 if epsilon < 7.123 else 1e-6,
}


class Told(Routing):
    """Routing of which a test knows how near it is; `plans`: epsilons that were tried, and the one
    taken."""

    plans: Any
    width: Any

    def draft(self, public: Any, budget: Any) -> Plan:
        self.plans.append(budget.epsilon / EPSILON_UNIT)
        return super().draft(public, budget)

    def expected(
        self, public: Any, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        within = self.width(plan.total.epsilon / EPSILON_UNIT)
        return (
            Expected("total_travel_time", within, "minutes", f"± {within:.3g} minutes", size=200.0),
            Expected("demand", 2 * within, "trips", f"± {2 * within:.3g} trips"),
        )


def told(width: Callable[[float], float]) -> tuple[Told, Any]:
    problem, dataset, _ = read_example(KINDS["routing"])
    assert dataset is not None
    return Told.model_construct(**{**dict(problem), "plans": [], "width": width}), dataset.public


def asked(**accuracy: Any) -> Privacy:
    return Privacy.model_validate({"accuracy": accuracy})


@pytest.mark.parametrize("within", [0.5, 2.0, 5.0, 29.0, "5%", "0.75 %"])
@pytest.mark.parametrize("law", WIDTHS)
def test_the_inverse_is_the_smallest_epsilon(law: str, within: float | str) -> None:
    width = WIDTHS[law]
    problem, public = told(width)
    near = within if isinstance(within, float) else float(within.rstrip(" %")) * 2
    if width(1000) > near:
        with pytest.raises(
            InvalidInput, match=r"no epsilon up to 1000 .* with epsilon [0-9.]+: ±"
        ) as refused:
            budgeted(problem, public, asked(within=within))
        assert refused.value.issues[0].pointer == "/privacy/accuracy/within"
        return
    made = budgeted(problem, public, asked(within=within))
    epsilon = made.figures["epsilon"]
    assert width(epsilon) <= near
    assert width(epsilon / 1.005001) > near
    assert len(f"{epsilon:g}".replace(".", "").strip("0")) <= inverse.DIGITS
    assert len(problem.plans) <= inverse.MOST_PLANS + 1
    if law in ("as noise", "as steps", "slowly"):
        assert len(problem.plans) <= 9
    assert made.plan.advice[0].startswith(
        f"epsilon {epsilon:g} is about the smallest with which total_travel_time is"
    )
    assert made.plan.total.epsilon == made.budget.epsilon


def test_the_inverse_of_a_named_quantity() -> None:
    problem, public = told(WIDTHS["as noise"])
    assert budgeted(problem, public, asked(within=6.0, quantity="demand")).figures[
        "epsilon"
    ] == pytest.approx(10, 5e-3)
    for said, says, where in (
        (
            {"within": "5%", "quantity": "demand"},
            "not known without the data: give a number, trips",
            "within",
        ),
        (
            {"within": 5, "quantity": "link_flows"},
            "before a release: total_travel_time, demand",
            "quantity",
        ),
    ):
        with pytest.raises(InvalidInput, match=says) as refused:
            budgeted(problem, public, asked(**said))
        assert refused.value.issues[0].pointer == f"/privacy/accuracy/{where}"


def test_a_promise_counts_data_that_public_figures_do_not_foretell() -> None:
    """And says what simulated data needed; what is told exactly promises no more."""
    problem, public = told(WIDTHS["as noise"])
    usual = budgeted(problem, public, asked(within=6.0))
    assert "Eight of ten" not in usual.plan.advice[0]
    wide = Expected(
        "total_travel_time", 0.0, "minutes", "", size=200.0, margin=2.0, took=(0.25, 1.5)
    )
    plain = problem.expected

    def told_of(*given: Any) -> tuple[Expected, ...]:
        return (replace(wide, within=plain(*given)[0].within),)

    object.__setattr__(problem, "expected", told_of)
    made = budgeted(problem, public, asked(within=6.0))
    assert made.figures["epsilon"] == pytest.approx(2 * usual.figures["epsilon"], 1e-2)
    says = made.plan.advice[0]
    assert "within ± 5.99 with 90 %" in says
    assert "Eight of ten simulated data needed between 2.5 and 15: public figures" in says


SOURCES = ("public figures", "an earlier release", "an earlier release of like data")


def measured() -> Iterator[tuple[str, list[str]]]:
    """Kind and cells of each row of the page that `make bench ARGS=inverse` writes."""
    for section in (
        (Path(__file__).parents[2] / "benchmarks" / "INVERSE.md").read_text().split("\n## ")[1:]
    ):
        for line in section.splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            if line.startswith("| ") and cells[2] in SOURCES:
                yield section.split("\n", 1)[0], cells


def test_what_simulated_data_needed_is_what_was_measured() -> None:
    """`Expected.took` of each kind, and that nothing is promised more often than it is kept."""
    tables = {
        ("dr_ensemble", "counts"): dr_advice.TOOK,
        ("routing", "counts"): routing_advice.TOOK,
        ("off_policy_evaluation", "moments"): expectation.TOOK,
        ("off_policy_evaluation", "importance"): {False: weighting.TOOK},
    }
    compared = set()
    for kind, (method, quantity, source, _, _, _, chance, _, spread) in measured():
        assert float(chance) > 0.01, (kind, quantity, source)
        table = tables.get((kind, method), {}).get(source != "public figures", {})
        if quantity in table and quantity != "block_transitions":  # one truth alone has blocks
            low, high = map(float, spread.split(" to "))
            assert table[quantity] == pytest.approx((low, high), abs=0.005), (
                kind,
                method,
                quantity,
                source,
            )
            compared.add((kind, method, source != "public figures", quantity))
    assert compared == {
        (*of, around, quantity)
        for of, table in tables.items()
        for around, quantities in table.items()
        for quantity in quantities
        if quantity != "block_transitions"
    }


def test_a_part_of_next_to_nothing_is_refused_as_one_that_no_epsilon_reaches() -> None:
    """Also one that is 0 in doubles."""
    problem, public = told(WIDTHS["as noise"])
    tiny = Expected("total_travel_time", 1.0, "minutes", "± 1 minute", size=5e-324)
    object.__setattr__(problem, "expected", lambda *_: (tiny,))
    with pytest.raises(InvalidInput, match="no epsilon up to 1000") as refused:
        budgeted(problem, public, asked(within="0.000000001%"))
    assert refused.value.issues[0].pointer == "/privacy/accuracy/within"


def test_a_kind_that_tells_of_nothing_says_so() -> None:
    problem, public = told(WIDTHS["as noise"])
    silent = Routing.model_construct(
        **{name: getattr(problem, name) for name in Routing.model_fields}
    )
    object.__setattr__(silent, "expected", lambda *_: ())
    with pytest.raises(InvalidInput, match="routing cannot predict"):
        budgeted(silent, public, asked(within=5))


@pytest.mark.parametrize(
    ("kind", "figure"), [("off_policy_evaluation", "trajectories"), ("dr_ensemble", "participants")]
)
def test_what_is_not_public_and_would_tell_is_named(kind: str, figure: str) -> None:
    problem, dataset, _ = read_example(KINDS[kind])
    assert dataset is not None
    public = dataset.public.model_copy(update={figure: None})
    with pytest.raises(
        InvalidInput, match=f"does not publish how many .*{figure}.* Ask for an epsilon.* --units N"
    ) as refused:
        budgeted(problem, public, asked(within=0.1))
    assert refused.value.issues[0].pointer == "/privacy/accuracy"


def test_an_accuracy_is_written_and_kept_in_figures() -> None:
    assert Accuracy(within="2.5 %").part == 0.025
    assert Accuracy(within=2.5).part is None

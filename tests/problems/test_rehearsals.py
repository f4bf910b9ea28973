"""Rehearsals: data of every public shape, a ladder whose errors fall, refusals in words."""

from __future__ import annotations

import colorsys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.figures.style import ON_DARK
from discreet.privacy.units import EPSILON_UNIT, Price
from discreet.problems import DATASETS, KINDS
from discreet.problems.answers import headlines_of
from discreet.problems.base import read_example
from discreet.problems.budgets import budgeted
from discreet.problems.contents import canonical_bytes
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.rehearsals import job as rehearsals
from discreet.problems.rehearsals.charts import charts_of
from discreet.problems.rehearsals.job import Rehearsal, row_names

NOTHING = Budget(epsilon=0, delta=0)


def publics(kind: str) -> list[Any]:
    """Public parts of the example and of every form that uploads have, and some with bounds."""
    dataset = DATASETS[kind]
    known = [dataset.read_public(public) for public, _ in dataset.sample_tables()]
    example = read_example(KINDS[kind])[1]
    assert example is not None
    more: dict[str, list[dict[str, Any]]] = {
        "routing": [{"max_total": 50, "max_pair": 30}, {"max_total": 1}],
        "dr_ensemble": [{"participants": 7, "steps": 5}],
        "off_policy_evaluation": [
            {"trajectories": 12},
            {"off_policy": True, "max_trajectories": 9},
        ],
    }
    return [
        *known,
        example.public,
        *(example.public.model_copy(update=one) for one in more.get(kind, [])),
    ]


@pytest.mark.parametrize("classes", [None, ("car", "truck")])
def test_made_up_persons_keep_to_the_most_trips_of_one(classes: tuple[str, ...] | None) -> None:
    public = DATASETS["routing"].read_public(
        {"unit": "person", "zones": 4, "periods": 5, "period_minutes": 60, "max_person": 4}
    )
    synthesis = KINDS["routing"].synthesis
    assert synthesis is not None
    public = public.model_copy(update={"user_classes": classes})
    for units in (None, 40):
        content = synthesis.content(
            DATASETS["routing"], public, np.random.default_rng(units), units
        )
        before = np.concatenate([[0], np.cumsum(content["trips"][:, 3])])
        trips = np.diff(before[content["person_start"]])
        assert trips.max() == 4


@pytest.mark.parametrize("kind", DATASETS)
def test_made_up_data_are_such_as_registration_takes(kind: str) -> None:
    dataset, synthesis = DATASETS[kind], KINDS[kind].synthesis
    assert synthesis is not None
    for public in publics(kind):
        for seed, units in ((0, None), (1, None), (2, 5)):
            most = dataset.most_units(public)
            wanted = units if units is None or most is None else min(units, most)
            if (most is not None and getattr(public, "participants", None)) or getattr(
                public, "trajectories", None
            ):
                wanted = None  # their number is public
            assert synthesis.issues(dataset, public, wanted) == []
            content = synthesis.content(dataset, public, np.random.default_rng(seed), wanted)
            dataset.check_sizes(public, content, "private")
            again = synthesis.content(dataset, public, np.random.default_rng(seed), wanted)
            assert list(canonical_bytes(again)) == list(canonical_bytes(content))
            assert (
                max(len(array) for array in content.values())
                <= synthesis.rows(public, wanted or most) + 1
            )


def rehearsed(
    kind: str, *, public: Any = None, problem: Any = None, **more: Any
) -> tuple[Rehearsal, dict[str, Any]]:
    example, dataset, _ = read_example(KINDS[kind])
    assert dataset is not None
    asked = Rehearsal(
        problem={**example.model_dump(mode="json"), **(problem or {})},
        public={**dataset.public.model_dump(mode="json"), **(public or {})},
        **more,
    )
    plan = asked.plan(None, NOTHING)
    assert plan.total == Price.zero()
    seen: list[tuple[int, int]] = []
    result = asked.finish(None, plan, {}, lambda step, total: seen.append((step, total)))
    assert seen[-1] == (plan.resources.steps, plan.resources.steps)
    return asked, result.to_json()


def test_its_own_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsals, "MOST_RUNS", 1)
    asked = Rehearsal.model_validate(Rehearsal.example()["problem"])
    result = asked.finish(None, asked.plan(None, NOTHING), {}, lambda step, total: None).to_json()
    assert {row["epsilon"] for row in result["rows"]} == {float(one) for one in rehearsals.LADDER}
    farthest = {
        row["quantity"]: (row["farthest"], row["farthest_error"] or 0) for row in result["rows"]
    }
    assert farthest["total_travel_time"] == (None, 0)  # a single number
    assert "→" in farthest["link_flows"][0]
    assert farthest["demand"][0].startswith("zone ")
    largest = next(row for row in result["rows"] if row["quantity"] == "demand")
    assert largest["farthest_error"] >= largest["error"]


def test_rows_without_names_of_their_own_are_called_by_what_they_are() -> None:
    load, _, _ = read_example(KINDS["dr_ensemble"])
    assert row_names(load, {"expected_power": [1.0, 2.0]}, "expected_power") == ["step 0", "step 1"]
    assert row_names(load, {"saving": 0.5}, "saving") == ["row 0"]
    routing, _, _ = read_example(KINDS["routing"])
    classes = {"user_classes": ["Pkw", "Lkw"], "demand_by_class": [[[1.0]], [[2.0]]]}
    assert row_names(routing, classes, "demand_by_class") == ["Pkw", "Lkw"]


def test_methods_stand_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that apply, compared with one answer: that of the problem as it was asked, at epsilon
    1000."""
    monkeypatch.setattr(rehearsals, "MOST_RUNS", 3)
    asked, result = rehearsed("off_policy_evaluation", epsilons=[6])
    rows = {row["method"]: row for row in result["rows"] if row["quantity"] == "policy_value"}
    assert rows.keys() == {"moments", "minibatch", "dp_lsw"}
    assert len({row["size"] for row in rows.values()}) == 1
    assert {one["method"] for one in result["refused"]} >= {"gradient", "dp_lsl"}
    charts = {chart.title: chart for chart in charts_of(asked.model_dump(mode="json"), {}, result)}
    assert {line["name"] for line in charts["Error of value of the policy"].figure["data"]} >= {
        "moments",
        "minibatch",
        "dp lsw",
    }


def test_a_row_is_the_same_whatever_else_is_on_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsals, "MOST_RUNS", 2)
    _, ladder = rehearsed("off_policy_evaluation", epsilons=[1, 3])
    _, alone = rehearsed("off_policy_evaluation", epsilons=[3])
    assert [row for row in ladder["rows"] if row["epsilon"] == 3] == alone["rows"]


def test_methods_have_colours_of_their_own_and_what_tells_nothing_says_so() -> None:
    """An answer of 0 is as good as the last method's; the first has one interval, at one
    epsilon."""
    row = {
        "quantity": "value",
        "delta": 0.0,
        "size": 2.0,
        "error_of_nine_in_ten": 1.0,
        "mostly_noise": 0.0,
        "runs": 3,
    }
    rows = [
        {**row, "method": method, "epsilon": epsilon, "error": error, "half_width": width}
        for method, epsilon, error, width in (
            *(("moments", 1, 0.5, None), ("moments", 3, 0.1, 0.2)),
            *(("minibatch", 1, 0.6, None), ("minibatch", 3, 0.3, None)),
            *(("dp_lsw", 1, 2.4, None), ("dp_lsw", 3, 1.9, None)),
        )
    ]
    for one in rows:
        one["no_better_than_zero"] = one["method"] == "dp_lsw"
    (chart,) = charts_of({}, {}, {"rows": rows})
    lines = {line["name"]: line["line"] for line in chart.figure["data"]}
    assert (
        len({lines[name]["color"] for name in ("moments", "minibatch", "dp lsw", "answering 0")})
        == 4
    )
    # One hue each: the blue of the first is not next to another blue, on a light page or a dark
    # one.
    hues = [
        colorsys.rgb_to_hsv(*bytes.fromhex(one["color"][1:]))[0]
        for one in lines.values()
        if one["width"] == 2
    ]
    dark = [ON_DARK[one["color"]] for one in lines.values() if one["width"] == 2]
    hues_on_dark = [colorsys.rgb_to_hsv(*bytes.fromhex(colour[1:]))[0] for colour in dark]
    for found in (hues, hues_on_dark):
        apart = [
            min(abs(one - other), 1 - abs(one - other))
            for one in set(found)
            for other in set(found)
            if one < other
        ]
        assert min(apart) > 0.1
    assert "One mark alone: moments gave intervals at epsilon 3 and at no other." in chart.caption
    assert [("no better than 0" in line[6]) for line in chart.table.rows] == [False] * 4 + [
        True
    ] * 2


def test_an_error_as_large_as_what_is_sought_is_named() -> None:
    said = {"method": "m", "epsilon": 1.0, "delta": 0.0}
    for answer, named in ((0.0, True), (1.0, False), (2.0, False), (5.0, True)):
        (row,) = rehearsals._rows(
            said, ["value"], {"value": 2.0}, [{"value": answer}], lambda _: None
        )
        assert row["no_better_than_zero"] is named, answer


@pytest.mark.parametrize("kind", sorted(kind for kind in KINDS if KINDS[kind].main_fields))
def test_what_matters_is_a_field_of_the_result_and_comes_first(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(rehearsals, "MOST_RUNS", 1)
    matters = KINDS[kind].main_fields
    assert set(matters) <= KINDS[kind].Fields.__annotations__.keys()
    _, result = rehearsed(kind, epsilons=[2])
    assert result["rows"][0]["quantity"] == matters[0]


def test_errors_fall_with_epsilon() -> None:
    asked, result = rehearsed("routing", epsilons=[0.5, 50])
    by_cell = {(row["method"], row["quantity"], row["epsilon"]): row for row in result["rows"]}
    for quantity in ("link_flows", "demand", "total_travel_time"):
        low, high = by_cell["counts", quantity, 0.5], by_cell["counts", quantity, 50]
        assert 0 <= high["error"] < low["error"] / 10
        assert low["error"] <= low["error_of_nine_in_ten"]
        assert low["half_width"] > high["half_width"]
        assert low["runs"] == rehearsals.MOST_RUNS
    charts = charts_of(asked.model_dump(mode="json"), {}, result)
    assert [chart.title for chart in charts][:2] == [
        "Error of total travel time of a period",
        "Error of link flows",
    ]
    assert "total travel time" in headlines_of({"kind": "rehearsal"}, result)[0].text
    assert {line["name"] for line in charts[0].figure["data"]} >= {"counts", "counts, interval ±"}
    assert len(charts[0].table.rows) == len(
        [row for row in result["rows"] if row["quantity"] == "total_travel_time"]
    )


def test_what_no_plan_can_be_made_of_is_named_and_the_rest_is_rehearsed() -> None:
    _, result = rehearsed("dr_ensemble", epsilons=[1, 2])
    assert {row["method"] for row in result["rows"]} == {"counts"}
    (refused,) = result["refused"]
    assert (refused["method"], refused["epsilons"]) == ("dirichlet", [1, 2])
    assert "trajectories" in refused["why"]


def test_a_saving_is_compared_with_what_following_achieves() -> None:
    """The saving at epsilon 1000 is the most that can be; that of a noisy signal is less."""
    _, result = rehearsed("dr_ensemble", epsilons=[0.5])
    names = {row["quantity"] for row in result["rows"]}
    assert "saving" in names
    assert not any(name.startswith(("achieved", "true", "cost_of")) for name in names)
    answer = {"saving": 3.0, "achieved_saving": 2.5, "tables": []}
    said = {"method": "counts", "epsilon": 1.0, "delta": 0.0}
    (row,) = rehearsals._rows(said, ["saving"], {"saving": 4.0}, [answer], lambda name: ["row 0"])
    assert (row["error"], row["size"]) == (0.5, 4.0)


def test_the_time_of_a_rehearsal_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell has one run; what follows waits for time that there is not."""
    monkeypatch.setattr(rehearsals, "SECONDS", -1.0)
    _, result = rehearsed("routing", epsilons=[1, 2])
    assert {row["runs"] for row in result["rows"]} == {1}


@pytest.mark.parametrize(
    ("kind", "public", "more", "says"),
    [
        (
            "off_policy_evaluation",
            {},
            {"of_units": 10**6},
            "about 5,000,000 rows, and at most 300,000",
        ),
        ("dr_ensemble", {"participants": 10**6, "steps": 96}, {}, "about 96,000,000 rows"),
        (
            "routing",
            {"periods": 100_000, "unit": "person"},
            {},
            "say fewer units, or rehearse a smaller public shape",
        ),
        ("off_policy_evaluation", {"max_trajectories": 10}, {"of_units": 11}, "has at most 10"),
        (
            "off_policy_evaluation",
            {"trajectories": 10},
            {"of_units": 9},
            "has 10: to rehearse another number",
        ),
    ],
)
def test_what_is_too_large_is_refused_in_words(
    kind: str, public: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        rehearsed(kind, public=public, **more)
    assert refused.value.issues[0].pointer == "/units"


def test_a_kind_without_datasets_is_refused() -> None:
    with pytest.raises(InvalidInput, match="coupled_qp has no datasets"):
        Rehearsal(problem={"kind": "coupled_qp"}, public={}).plan(None, NOTHING)


@pytest.mark.parametrize("kind", DATASETS)
def test_an_example_fits_every_public_part(kind: str) -> None:
    """A plan is made of it, and another one where half is left to spend: each spends what it says,
    and no more."""
    planned = 0
    for public in publics(kind):
        body = KINDS[kind].example_for(public)
        problem = KINDS[kind].model_validate({**body["problem"], "dataset": "example"})
        if getattr(public, "zones", 2) > 1:  # trips within one zone use no link
            for part in (1, Fraction(1, 2)):
                epsilon = float(part * Fraction(str(body["privacy"]["epsilon"])))
                made = budgeted(
                    problem, public, Privacy.model_validate({**body["privacy"], "epsilon": epsilon})
                )
                assert 0.9 * made.budget.epsilon < made.plan.total.epsilon <= made.budget.epsilon
                assert made.budget.epsilon == round(epsilon * EPSILON_UNIT)
                assert made.plan.total.delta <= made.budget.delta
                planned += 1
    assert planned >= 2

"""Feeder and ramp limits, and events beside their baseline: asked of a release, answered, told and
drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.charts import draw_result, result_charts
from discreet.problems.dr_ensemble.clock import hours_of, windows
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.result import headlines
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.problems.results import LONGEST

PEOPLE, STEPS, STATES = 400, 13, 4
PUBLIC: dict[str, Any] = {
    "unit": "participant",
    "states": STATES,
    "participants": PEOPLE,
    "steps": STEPS,
    "edges": [0, 1, 2, 4, 6],
    "meters": {"start": "2026-01-12T00:00:00+01:00", "interval_seconds": 1800},
}
FIELDS: dict[str, Any] = {
    "kind": "dr_ensemble",
    "dataset": "limits",
    "price": [0.1] * 4 + [0.5] * 3 + [0.1] * 5,
    "discomfort_weight": 1.0,
    "initial": [0.1, 0.2, 0.4, 0.3],
}
HORIZON = len(FIELDS["price"])


def loads(seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    states = rng.integers(0, STATES, (PEOPLE, STEPS))
    for step in range(1, STEPS):
        stays = rng.random(PEOPLE) < 0.6
        states[stays, step] = states[stays, step - 1]
    return states.tolist()


ROWS = loads()


def asked(
    public: Any = PUBLIC, epsilon: float = 4, **fields: Any
) -> tuple[DrEnsemble, Any, Plan, Any]:
    problem, part = (
        DrEnsemble.model_validate({**FIELDS, **fields}),
        DrEnsemblePublic.model_validate(public),
    )
    content = DrEnsembleDataset.read_rows(part, DrEnsembleContent(trajectories=ROWS))
    return problem, part, problem.plan(part, Budget(epsilon=round(epsilon * 1e9), delta=0)), content


def finished(simulated: bool = False, **fields: Any) -> dict[str, Any]:
    problem, public, plan, content = asked(**fields)
    released = problem.release(public, plan, content, Noise.seeded(5))
    if simulated:
        released |= problem.diagnose(public, plan, content, Noise.seeded(5))
    return problem.finish(public, plan, released, lambda *step: None).to_json()


FREE = finished()
MOST = 1.0 * PEOPLE
LIMITS = {"of": "all", "feeder": [None] * 4 + [MOST] * 8, "ramp": 0.6 * PEOPLE}
LIMITED = finished(limits=LIMITS)


def test_a_policy_keeps_what_a_feeder_bears_and_says_what_that_costs() -> None:
    result = LIMITED
    load, told = np.array(result["expected_power"]), result["limits"]
    assert told["kept"]
    assert (PEOPLE * load[4:] <= MOST + 1e-3).all()
    assert (PEOPLE * np.abs(np.diff(load)) <= LIMITS["ramp"] + 1e-3).all()
    assert not (
        PEOPLE * np.abs(np.diff(FREE["expected_power"])) <= LIMITS["ramp"]
    ).all()  # else nothing was asked
    assert result["transitions"] == FREE["transitions"]
    assert result["default_power"] == FREE["default_power"]
    assert told["cost"] > 0
    assert max(map(abs, told["price"])) > 0
    assert told["feeder"] == [None] * 4 + [1.0] * 8
    assert told["ramp"] == pytest.approx(0.6)
    assert f"the load of all {PEOPLE} stays within its limits" in told["says"]
    assert "changes by at most 240 kW a step" in told["says"]
    # Loads that move by themselves stray from their expectation: at most half the range of power,
    # each.
    assert 0 < told["strays"] <= np.sqrt(PEOPLE) * (5 - 0.5) / 2


def test_the_policy_of_a_limited_answer_leads_to_its_load() -> None:
    result = LIMITED
    spread, power = np.array(FIELDS["initial"]), np.array(result["states"]["power"])
    for step, moves in enumerate(np.array(result["policy"])):
        assert spread @ power == pytest.approx(result["expected_power"][step])
        assert moves.sum(axis=1) == pytest.approx(np.ones(STATES))
        spread = spread @ moves
    assert spread @ power == pytest.approx(result["expected_power"][-1])


def test_intervals_hold_the_answer_of_a_limited_problem() -> None:
    result = LIMITED
    ends = result["uncertainty"]["values"]
    for name in (
        "expected_power",
        "default_power",
        "saving",
        "cost_to_go",
        "event_saving",
        "rebound",
    ):
        low, high, value = (
            np.array(one) for one in (ends[name]["lower"], ends[name]["upper"], result[name])
        )
        assert (low <= value + 1e-9).all()
        assert (value <= high + 1e-9).all()
        assert (high > low).any()
    # Loads that follow the signal keep the limits as far as the released transitions are right.
    assert (PEOPLE * np.array(ends["expected_power"]["upper"])[4:] > MOST).any()


def test_limits_of_each_load_are_those_of_all_divided() -> None:
    each = {"of": "each", "feeder": [None] * 4 + [1.0] * 8, "ramp": 0.6}
    one, other = finished(limits=each, uncertainty=False), LIMITED
    assert one["expected_power"] == pytest.approx(other["expected_power"])
    assert "the load of each stays" in one["limits"]["says"]


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (
            {"of": "all", "feeder": 800},
            r"at step 0 the load of all 400 is .* kW \(limit 800 kW.*\). "
            "`initial` puts loads there .* null leaves a step out",
        ),
        (
            {"of": "each", "feeder": [9] + [0.2] * 11},
            "at step 1 the load of each is .* .limit 0.2 kW.* The least",
        ),
        (
            {"of": "each", "feeder": [9] + [1] * 11, "ramp": 0.05},
            "could be reached there, but not with the other",
        ),
    ],
)
def test_limits_that_cannot_be_kept_are_said_first(limits: Any, says: str) -> None:
    result = finished(limits=limits, uncertainty=False)
    assert not result["limits"]["kept"]
    found = headlines(FIELDS, result)
    assert f"{found[0].text}. {found[1].text}" == result["limits"]["says"]
    assert re.search(says, result["limits"]["says"])
    assert max(len(one.text) for one in found[:2]) <= LONGEST


def test_plans_tell_of_limits_that_nobody_keeps() -> None:
    advice = asked(limits={"of": "all", "feeder": 800})[2].advice
    assert any(
        "no policy keeps the limits: at step 0 the load of all 400 is at least 1,220 kW" in one
        for one in advice
    )
    assert not any("no policy" in one for one in asked(limits=LIMITS)[2].advice)
    assert any("without `limits`" in one for one in asked(limits=LIMITS)[2].advice)


def test_a_ramp_that_the_support_forbids_is_told_before() -> None:
    public = {**PUBLIC, "support": [[state, (state + 1) % STATES] for state in range(STATES)]}
    problem = DrEnsemble.model_validate({**FIELDS, "limits": {"of": "each", "ramp": 0.1}})
    part = DrEnsemblePublic.model_validate(public)
    advice = problem.plan(part, Budget(epsilon=10**9, delta=0)).advice
    assert any("from step 0 to 1 the load of each changes by at least" in one for one in advice)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"limits": {"of": "all", "feeder": [1, 2]}}, "/problem/limits/feeder"),
        ({"limits": {"of": "all", "feeder": 1e40}}, "/problem/limits"),
        (
            {"limits": {"of": "each", "ramp": 1}, "policy": "taylor", "concentration": 9},
            "/problem/limits",
        ),
        ({"event": [[3, 3]]}, "/problem/event/0"),
        ({"event": [[0, 2], [9, 13]]}, "/problem/event/1"),
    ],
)
def test_what_is_no_limit_and_no_event_is_refused_by_its_field(fields: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asked(**fields)
    assert [one.pointer for one in refused.value.issues] == [pointer]


def test_limits_of_all_need_a_public_number() -> None:
    public = {name: one for name, one in PUBLIC.items() if name != "participants"}
    with pytest.raises(InvalidInput, match="participants"):
        asked(public=public, limits={"of": "all", "ramp": 3})


def test_simulations_compare_with_the_best_within_the_limits() -> None:
    result = finished(simulated=True, limits=LIMITS, uncertainty=False)
    assert "cost_of_privacy" not in result
    true = np.array(result["true_expected_power"])
    assert (PEOPLE * true[4:] <= MOST + 1e-3).all()
    assert result["achieved_saving"] > 0
    free = finished(simulated=True)
    assert result["true_saving"] < free["true_saving"]
    assert free["achieved_saving"] == pytest.approx(
        free["true_saving"] - FIELDS["initial"] @ np.array(free["cost_of_privacy"])[0]
    )


def test_an_event_is_compared_with_its_baseline_by_hand() -> None:
    for event, steps in ((None, [4, 5, 6]), ([[2, 4], [8, 9]], [2, 3, 8])):
        result = finished(event=event)
        less = 0.5 * (
            np.array(result["default_power"]) - np.array(result["expected_power"])
        )  # half an hour each
        assert result["event"] == steps
        assert result["event_saving"] == pytest.approx(less[steps].sum())
        assert result["rebound"] == pytest.approx(-np.delete(less, steps).sum())
    flat = finished(price=[0.2] * HORIZON)
    assert not {"event", "event_saving", "rebound"} & flat.keys()
    steep = finished(price=[0.1 * step for step in range(HORIZON)])
    assert "event" not in steep


def test_the_headline_tells_the_event_with_its_hours() -> None:
    texts = [one.text for one in headlines(FIELDS, FREE)]
    (told,) = [one for one in texts if one.startswith("During the event (steps 4 to 6) each meter")]
    assert " kWh less (90 % NI with bins: " in told
    (other,) = [one for one in texts if one.startswith("Outside the event each meter uses ")]
    assert "90 % NI with bins: " in other
    public = {**PUBLIC, "day": {"steps": 48, "blocks": [0, 24]}}
    by_clock = [
        one.text
        for one in headlines({**FIELDS, "first_step": 30}, finished(public=public, first_step=30))
    ]
    assert any("During the event (17:00 to 18:30)" in one for one in by_clock)


WEEK = {**PUBLIC, "day": {"steps": 336, "blocks": [0, 240]}}
"""From Monday on: five working days and a weekend, of steps of half an hour."""


def test_weeks_read_by_their_days(tmp_path: Path) -> None:
    problem = {**FIELDS, "first_step": 240 - 6}
    result = finished(public=WEEK, first_step=240 - 6)
    assert result["states"]["day_begins_on"] == "Monday"
    charts = {one.name: one for one in result_charts(problem, {}, result)}
    frames = [frame["name"] for frame in charts["transitions"].figure["frames"]]
    assert frames == ["Mon 00:00 to Sat 00:00", "Sat 00:00 to Mon 00:00"]
    axis = charts["load"].figure["layout"]["xaxis"]
    assert axis["ticktext"][0] == "Fri 21:00"
    assert "time of week" in axis["title"]["text"]
    assert any("Fri 23:00 to Sat 00:30" in one.text for one in headlines(problem, result))
    draw_result(problem, result, tmp_path / "week.svg")
    assert "Fri 21:00" in (tmp_path / "week.svg").read_text()
    # Blocks that begin again after three days have no weekdays: they are counted.
    three = {**WEEK, "day": {"steps": 144, "blocks": [0, 96]}}
    states = finished(public=three)["states"]
    assert "day_begins_on" not in states
    assert hours_of(FIELDS, states, [50, 51]) == "day 2, 01:00 to day 2, 02:00"


def test_the_load_chart_shows_the_limit_and_the_event(tmp_path: Path) -> None:
    result = LIMITED
    (chart,) = [one for one in result_charts(FIELDS, {}, result) if one.name == "load"]
    (limit,) = [one for one in chart.figure["data"] if one["name"] == "limit"]
    assert limit["y"] == [None] * 4 + [1.0] * 8
    assert result["limits"]["says"] in chart.caption
    (shape,) = chart.figure["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == (4, 7)
    assert "limit" in chart.table.columns
    draw_result(FIELDS, result, tmp_path / "load.svg")
    assert "limit" in (tmp_path / "load.svg").read_text()
    (free,) = [one for one in result_charts(FIELDS, {}, FREE) if one.name == "load"]
    assert not [one for one in free.figure["data"] if one["name"] == "limit"]


def test_windows_of_steps() -> None:
    assert windows([]) == []
    assert windows([0, 1, 2, 5, 7, 8]) == [(0, 3), (5, 6), (7, 9)]
    assert hours_of({}, {}, [0, 2, 4, 6, 8]) == "step 0, step 2, step 4 and 2 more times"

"""Blocks of hours attacked: sums and norms by plain loops, controls by a plain programme, and what
is large or odd."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pydantic import ValidationError

from discreet.intake.field_issues import FieldError
from discreet.privacy.noise import Noise
from discreet.problems.charts import charts_module
from discreet.problems.dr_ensemble import charts
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.day import Day
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.result import expectations
from discreet.problems.numbers import Budget

Rows = list[list[int]]


def block(step: int, day: dict[str, Any]) -> int:
    """By plain code."""
    return max(place for place, begin in enumerate(day["blocks"]) if begin <= step % day["steps"])


def plain_sums(
    rows: Rows, states: int, day: dict[str, Any], grid: int, clip: float | None
) -> list[int]:
    """Of a support of all transitions."""
    sums = [0] * (len(day["blocks"]) * states**2)
    for row in rows:
        counted = [0] * len(sums)
        for step, (before, after) in enumerate(itertools.pairwise(row)):
            counted[(block(step, day) * states + before) * states + after] += 1
        length = math.sqrt(sum(count**2 for count in counted)) / (len(row) - 1)
        for cell, count in enumerate(counted):
            shorter = 1.0 if clip is None else min(1.0, clip / length)
            sums[cell] += math.floor(count * grid * shorter / (len(row) - 1) + 1e-9)
    return sums


def random_day(rng: np.random.Generator, most: int = 9) -> dict[str, Any]:
    steps = int(rng.integers(2, most))
    blocks = int(rng.integers(2, steps + 1))
    return {
        "steps": steps,
        "blocks": [0, *sorted(rng.choice(np.arange(1, steps), blocks - 1, replace=False).tolist())],
    }


def asked(states: int, **fields: Any) -> DrEnsemble:
    """The power of a state is its number."""
    power = [float(state) for state in range(states)]
    given = {"kind": "dr_ensemble", "dataset": "day", "power": power, "price": [1.0, 2.0, 1.0]}
    return DrEnsemble.model_validate(
        {**given, "discomfort_weight": 1.0, "initial": "released", **fields}
    )


def part(states: int, **fields: Any) -> DrEnsemblePublic:
    return DrEnsemblePublic.model_validate({"unit": "participant", "states": states, **fields})


@pytest.mark.parametrize("clip", [None, 1.0, 0.7, 0.2, "auto"])
@pytest.mark.parametrize("delta", [0, 10**13])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("length", [None, 2, 11])
def test_sums_and_what_a_neighbour_moves(
    clip: Any, delta: int, known: bool, length: int | None
) -> None:
    """Neighbours drawn at random; the largest move is met exactly by a load that never leaves a
    cell."""
    rng = np.random.default_rng(7)
    for _ in range(12):
        states, day = int(rng.integers(2, 5)), random_day(rng)
        sizes = [length or int(rng.integers(2, 30)) for _ in range(4)]
        rows = [rng.integers(0, states, size).tolist() for size in sizes]
        if rng.random() < 0.4:
            rows[0], rows[3] = [0] * sizes[0], [states - 1] * sizes[3]
        public = part(states, day=day, participants=3 if known else None, steps=length)
        problem = asked(states, clip=clip)
        plan = problem.plan(public, Budget(epsilon=10**9, delta=delta))
        bound, grid, (event,) = plan.parameters["clip"], plan.parameters["grid"], plan.events
        moved = np.zeros(public.cells)
        for sign, chosen in ((1, rows[:3]), (-1, rows[1:] if known else rows[1:3])):
            content = DrEnsembleDataset.read_rows(public, DrEnsembleContent(trajectories=chosen))
            sums = problem.diagnose(public, plan, content, Noise.seeded(0))["true_counts"]
            off = 0 if bound is None else 2 * len(chosen)  # of the rounding of a root
            assert np.abs(sums - plain_sums(chosen, states, day, grid, bound)).max() <= off
            moved += sign * sums
        norm = np.abs(moved).sum() if "laplace" in event.noise else np.linalg.norm(moved)
        assert norm <= event.sensitivity


@pytest.mark.parametrize("gaps", ["leave_out", "refuse"])
def test_readings_over_midnight_and_a_change_of_clocks(gaps: str) -> None:
    """Steps are counted from the start in hours that all have one length, whatever clocks show; who
    lacks a period that is not carried over counts for nothing, and moves the sums by nothing."""
    rng = np.random.default_rng(11)
    start, hours, day = (
        datetime(2026, 3, 28, 20, tzinfo=timezone(timedelta(hours=1))),
        30,
        [0, 5, 19],
    )
    rows, power = [], []
    for person in range(12):
        states, last, lacking = [], 0, 0
        for hour in range(hours):
            if gaps == "leave_out" and hour and rng.random() < 0.06:
                lacking += 1
                if lacking > 1:  # of `carry`
                    break
                states.append(last)
                continue
            last, lacking = int(rng.integers(0, 3)), 0
            states.append(last)
            at = start + timedelta(hours=hour, minutes=int(rng.integers(0, 60)))
            shown = at.astimezone(ZoneInfo("Europe/Berlin"))  # summer time from 3 o'clock on
            power.append(
                {"participant": f"house {person}", "time": shown.isoformat(), "kw": last + 0.5}
            )
        if len(states) == hours:
            rows.append(states)
    rng.shuffle(power)
    assert len(rows) == 12 if gaps == "refuse" else 2 <= len(rows) < 12
    meters = {"start": start.isoformat(), "interval_seconds": 3600, "gaps": gaps, "carry": 1}
    edges = {"edges": [0, 1, 2, 3], "meters": meters, "participants": 12, "steps": hours}
    public = part(3, day={"steps": 24, "blocks": day}, **edges)
    problem = asked(3)
    plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
    content = DrEnsembleDataset.read_rows(
        public, DrEnsembleContent.model_validate({"power": power})
    )
    sums = problem.diagnose(public, plan, content, Noise.seeded(0))["true_counts"]
    assert sums.tolist() == plain_sums(rows, 3, {"steps": 24, "blocks": day}, hours - 1, None)


def test_a_day_from_its_middle_over_several_days() -> None:
    """Policy, costs, loads and saving of released matrices, by dynamic programming over
    probabilities."""
    rng = np.random.default_rng(5)
    for trial in range(12):
        states, day = int(rng.integers(2, 5)), random_day(rng, 8)
        horizon, first = int(rng.integers(2, 3 * day["steps"])), int(rng.integers(day["steps"]))
        gamma, utility = float(rng.choice([0.3, 1, 10])), rng.normal(size=(horizon, states))
        initial, power = rng.dirichlet(np.ones(states)), rng.random(states)
        fields = {
            "utility": utility.tolist(),
            "price": None,
            "power": power.tolist(),
            "initial": initial.tolist(),
        }
        problem = asked(states, **fields, discomfort_weight=gamma, first_step=first)
        public = part(states, day=day, participants=20, steps=17)
        plan = problem.plan(public, Budget(epsilon=5 * 10**9, delta=0))
        rows = rng.integers(0, states, (20, 17)).tolist()
        content = DrEnsembleDataset.read_rows(public, DrEnsembleContent(trajectories=rows))
        released = problem.release(public, plan, content, Noise.seeded(trial))
        result = problem.finish(public, plan, released, lambda *step: None).to_json()
        matrices = [
            np.array(result["block_transitions"][block(first + step, day)])
            for step in range(horizon)
        ]
        best, value = utility[-1], utility[-1]
        policy, followed = list[Any](), list[Any]()
        for step in range(horizon - 2, -1, -1):
            for ahead, found in ((best, policy), (-np.array(result["signal"][step + 1]), followed)):
                weights = matrices[step] * np.exp((ahead - ahead.max()) / gamma)
                found.insert(0, weights / weights.sum(axis=1, keepdims=True))

            values = []
            for moves, later in ((policy[0], best), (followed[0], value)):
                some = moves > 0
                ratio = np.where(some, moves, 1) / np.where(some, matrices[step], 1)
                gain = moves * (later - gamma * np.log(ratio))
                values.append(utility[step] + gain.sum(axis=1))
            best, value = values
        assert np.array(result["policy"]) == pytest.approx(np.array(policy), abs=1e-9)
        assert result["cost_to_go"] == pytest.approx(-value, rel=1e-9, abs=1e-9)
        alone, led = [initial], [initial]
        for step in range(horizon - 1):
            alone.append(alone[-1] @ matrices[step])
            led.append(led[-1] @ followed[step])
        assert result["default_power"] == pytest.approx(np.array(alone) @ power, rel=1e-9)
        assert result["expected_power"] == pytest.approx(np.array(led) @ power, rel=1e-9)


def test_shares_of_blocks_are_those_of_counting_steps() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        day = random_day(rng, 30)
        steps = None if rng.random() < 0.2 else int(rng.integers(2, 90))
        blocks = [block(step, day) for step in range(day["steps"] if steps is None else steps - 1)]
        counted = [blocks.count(one) / len(blocks) for one in range(len(day["blocks"]))]
        assert Day.model_validate(day).shares(steps) == pytest.approx(counted)


def test_a_long_horizon_of_a_small_support_makes_no_matrix_for_each_step() -> None:
    """Moves of every step at once were 1.6 GB here, where the plan had said 0.4 GB: a job failed
    that was paid for."""
    states, steps = 300, 2001
    near = [
        [state, to]
        for state in range(states)
        for to in (state - 1, state, state + 1)
        if 0 <= to < states
    ]
    public = part(
        states, support=near, day={"steps": 48, "blocks": [0, 20]}, participants=50, steps=30
    )
    problem = asked(states, price=[1.0] * steps, uncertainty=False)
    plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
    released = {"counts": np.full(public.cells, 29)}
    problem.finish(public, plan, released, lambda *step: None)  # its kernels compile
    tracemalloc.start()
    problem.finish(public, plan, released, lambda *step: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < plan.resources.memory_bytes / 4


@pytest.mark.parametrize("day", [None, {"steps": 48, "blocks": list(range(20))}])
def test_a_plan_of_two_steps_is_no_work_either(day: Any) -> None:
    """Few steps let many draws be made, of a flow balance of 500 to 700 MB."""
    states = 300 if day is None else 100
    tracemalloc.start()
    plan = asked(states, price=[1.0, 2.0]).plan(
        part(states, day=day, participants=1000, steps=48), Budget(epsilon=10**9, delta=0)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.total.epsilon == 10**9
    assert peak < 50_000_000


def test_a_plan_expects_the_noise_of_all_blocks() -> None:
    """That of one alone was looked at, so an answer was promised that its result called mostly
    noise."""
    day = {"steps": 24, "blocks": [0, 6, 12, 18]}
    public = part(6, day=day, participants=1000, steps=25)
    problem = asked(6)
    plan = problem.plan(public, Budget(epsilon=2 * 10**8, delta=0))
    rows = np.random.default_rng(2).integers(0, 6, (1000, 25)).tolist()
    content = DrEnsembleDataset.read_rows(public, DrEnsembleContent(trajectories=rows))
    released = problem.release(public, plan, content, Noise.seeded(1))
    result = problem.finish(public, plan, released, lambda *step: None).to_json()
    assert result["uncertainty"]["values"].keys() <= {"saving"}
    expected = expectations(public, plan, problem.control(public, plan), None, 0.9)
    assert [one.within for one in expected] == [math.inf] * 4


def test_blocks_that_no_record_reaches() -> None:
    """Bounds are compared over them too: their noise over no time is no number of this machine."""
    public = part(3, day={"steps": 24, "blocks": [0, 2, 20]}, participants=100, steps=4)
    plan = asked(3, clip="auto").plan(public, Budget(epsilon=10**9, delta=10**13))
    assert any("clip (auto) is" in one for one in plan.advice)
    assert any("0 % in the shortest" in one for one in plan.advice)


@pytest.mark.parametrize(
    ("day", "where"),
    [
        ({"steps": 24, "blocks": [0, 18, 7]}, "blocks"),
        ({"steps": 24, "blocks": [0, 0, 7]}, "blocks"),
        ({"steps": 24, "blocks": [7, 0]}, "blocks/0"),
        ({"steps": 24, "blocks": []}, "blocks"),
        ({"steps": 24, "blocks": [-1, 7]}, "blocks/0"),
        ({"steps": 24, "blocks": [0, 7.0]}, "blocks/1"),
        ({"steps": 24, "blocks": [0, 7.5]}, "blocks/1"),
        ({"steps": 24, "blocks": [0, True]}, "blocks/1"),
        ({"steps": 24, "blocks": [0, "7"]}, "blocks/1"),
        ({"steps": 24, "blocks": [0, 10**18]}, "blocks/1"),
        ({"steps": 24, "blocks": [0, 24]}, "blocks"),
        ({"steps": 24, "blocks": "0, 7"}, "blocks"),
        ({"steps": 24, "blocks": {"0": 7}}, "blocks"),
        ({"steps": 10**6, "blocks": list(range(10_000))}, "blocks"),
        ({"steps": 10**7, "blocks": [0, 7]}, "steps"),
        ({"steps": 1, "blocks": [0, 7]}, "steps"),
        ({"steps": 24.0, "blocks": [0, 7]}, "steps"),
        ({"steps": 24}, "blocks"),
        ({"steps": 24, "blocks": [0, 7], "start": 0}, "start"),
    ],
)
def test_what_is_odd_is_refused_where_it_stands(day: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError) as refused:
        part(500, day=day)
    issues = refused.value.errors(include_url=False)
    wholes = [
        issue["ctx"]["error"]
        for issue in issues
        if isinstance(issue.get("ctx", {}).get("error"), FieldError)
    ]
    places = {
        "/".join(map(str, issue["loc"])) for issue in issues if issue["type"] != "value_error"
    }
    assert places | {"/".join(("day", *error.field)) for error in wholes} == {f"day/{where}"}


@pytest.mark.parametrize(
    ("day", "names"),
    [
        ({"steps": 24, "blocks": [0, 7]}, ["06:00 to 13:00", "13:00 to 06:00"]),
        (
            {"steps": 168, "blocks": [0, 120]},
            ["day 1, 06:00 to day 6, 06:00", "day 6, 06:00 to day 1, 06:00"],
        ),
        ({"steps": 36, "blocks": [0, 24]}, ["steps 0 to 23", "steps 24 to 35"]),
    ],
)
def test_blocks_are_called_by_what_tells_them_apart(day: dict[str, Any], names: list[str]) -> None:
    """Those of a week were all called 00:00 to 00:00, and those that begin again after 36 hours by
    hours that are the other block's on the next day."""
    states = {"day_begins": "06:00:00", "step_seconds": 3600, "edges": [0, 1, 2]}
    result = {
        "states": {
            **states,
            "power": [0.5, 1.5],
            "blocks": day["blocks"],
            "day_steps": day["steps"],
        }
    }
    called = charts_module("dr_ensemble").row_names({}, result, "block_transitions")
    assert [name.partition(", state 0")[0] for name in called[::2]] == names
    ticks = charts.hours_of({"first_step": day["steps"] - 1}, result, [0, 1])
    if day["steps"] == 36:
        assert ticks == {}
    else:
        assert [name[-5:] for name in ticks["xaxis"]["ticktext"]] == ["05:00", "06:00"]

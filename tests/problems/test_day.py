"""Blocks of hours with matrices of their own: counted, released, finished and drawn."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.charts import charts_module, draw_result, result_charts
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.result import expectations
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan

STATES, STEPS = 4, 49
DAY = {"steps": 24, "blocks": [0, 7, 18]}
PUBLIC: dict[str, Any] = {
    "unit": "participant",
    "states": STATES,
    "steps": STEPS,
    "participants": 400,
    "day": DAY,
}
FIELDS: dict[str, Any] = {
    "kind": "dr_ensemble",
    "dataset": "day",
    "power": [0.0, 1.0, 2.0, 5.0],
    "price": [0.1] * 10 + [0.6] * 8 + [0.1] * 6,
    "discomfort_weight": 1.0,
    "initial": "released",
}
BLOCK = np.repeat([0, 1, 2], [7, 11, 6])
"""Of each step of a day."""


def loads(seed: int = 3) -> tuple[list[list[int]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Trajectories of loads whose moves differ by block, and the matrices that they were drawn
    with."""
    rng = np.random.default_rng(seed)
    matrices = 0.5 * np.eye(STATES) + 0.5 * rng.dirichlet(np.full(STATES, 0.4), (3, STATES))
    states = rng.integers(0, STATES, (400, STEPS))
    for step in range(1, STEPS):
        for load, before in enumerate(states[:, step - 1].tolist()):
            states[load, step] = rng.choice(STATES, p=matrices[BLOCK[(step - 1) % 24], before])
    return states.tolist(), matrices


ROWS, MATRICES = loads()


def asked(
    epsilon: float = 1, delta: int = 0, public: Any = PUBLIC, **fields: Any
) -> tuple[DrEnsemble, Any, Plan, Any]:
    problem, part = (
        DrEnsemble.model_validate({**FIELDS, **fields}),
        DrEnsemblePublic.model_validate(public),
    )
    content = DrEnsembleDataset.read_rows(part, DrEnsembleContent(trajectories=ROWS))
    return (
        problem,
        part,
        problem.plan(part, Budget(epsilon=round(epsilon * 1e9), delta=delta)),
        content,
    )


def finished(epsilon: float = 1, simulated: bool = False, **fields: Any) -> dict[str, Any]:
    problem, public, plan, content = asked(epsilon, **fields)
    released = problem.release(public, plan, content, Noise.seeded(5))
    if simulated:
        released |= problem.diagnose(public, plan, content, Noise.seeded(5))
    return problem.finish(public, plan, released, lambda *step: None).to_json()


def counted(rows: list[list[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """By plain code: int64[block, from, to]."""
    found = np.zeros((3, STATES, STATES), dtype=np.int64)
    for row in rows:
        for step, (before, after) in enumerate(itertools.pairwise(row)):
            found[BLOCK[step % 24], before, after] += 1
    return found


def test_moves_are_counted_in_the_block_of_the_step_that_they_leave() -> None:
    problem, public, plan, content = asked()
    sums = problem.diagnose(public, plan, content, Noise.seeded(1))["true_counts"]
    assert np.array_equal(
        sums.reshape(3, STATES, STATES), counted(ROWS)
    )  # the grid is that of the public length


def test_blocks_cost_and_are_noised_as_one_matrix_is() -> None:
    """A participant adds a vector of the same norms, over more cells: the same event, and so the
    same price."""
    for delta, clip in ((0, None), (10**13, None), (10**13, 0.3)):
        plan = asked(delta=delta, clip=clip)[2]
        whole = asked(delta=delta, clip=clip, public={**PUBLIC, "day": None})[2]
        assert plan.events == whole.events
        assert plan.total == whole.total
        assert any("3 blocks of the day" in one for one in plan.advice)
        assert not any("blocks of the day" in one for one in whole.advice)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_one_participant_moves_the_sums_by_no_more_than_the_event_says(clip: float | None) -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        lengths = rng.integers(2, 60, 3)
        rows = [rng.integers(0, STATES, size).tolist() for size in lengths]
        if rng.random() < 0.3:
            rows[0] = [1] * len(
                rows[0]
            )  # a load that never moves: all of its weight in a cell of each block
        part = DrEnsemblePublic.model_validate(
            {"unit": "participant", "states": STATES, "day": DAY}
        )
        problem = DrEnsemble.model_validate({**FIELDS, "clip": clip})
        plan = problem.plan(part, Budget(epsilon=10**9, delta=10**13))
        (event,), grid = plan.events, plan.parameters["grid"]
        sums = [
            problem.diagnose(
                part,
                plan,
                DrEnsembleDataset.read_rows(part, DrEnsembleContent(trajectories=some)),
                None,
            )[  # type: ignore[arg-type]
                "true_counts"
            ].astype(float)
            for some in (rows, rows[1:])
        ]
        moved = sums[0] - sums[1]
        assert moved.min() >= 0
        assert moved.sum() <= grid
        assert np.linalg.norm(moved) <= (clip or 1.0) * grid
        assert np.linalg.norm(moved) <= event.sensitivity


def test_loads_follow_the_day() -> None:
    """With hardly any noise: matrices, loads and costs are those of plain code, from any hour."""
    exact = counted(ROWS) / counted(ROWS).sum(axis=2, keepdims=True)
    for first in (0, 15):
        result = finished(epsilon=1e6, first_step=first)
        assert "transitions" not in result
        assert np.array(result["block_transitions"]) == pytest.approx(exact, abs=1e-3)
        moves, horizon = np.array(result["block_transitions"]), len(FIELDS["price"])
        visits = counted(ROWS).sum(axis=2)[BLOCK[first]]
        spread, power = visits / visits.sum(), np.array(FIELDS["power"])
        default = []
        for step in range(horizon):
            default.append(spread @ power)
            spread = spread @ moves[BLOCK[(first + step) % 24]]
        assert result["default_power"] == pytest.approx(default, rel=1e-3)
        cost = np.array(FIELDS["price"])[-1] * power
        for step in range(horizon - 2, -1, -1):  # -gamma ln E exp(-cost / gamma), gamma = 1
            cost = FIELDS["price"][step] * power - np.log(
                moves[BLOCK[(first + step) % 24]] @ np.exp(-cost)
            )
        # The signal is the cost to go itself, where nothing is left open.
        assert result["cost_to_go"] == pytest.approx(cost, rel=1e-4)
    # Of one matrix it would have settled.
    assert np.ptp(finished(epsilon=1e6)["default_power"][4:]) > 0.1


def test_intervals_hold_what_plain_sums_would_say() -> None:
    """Of 20 releases 90 % intervals of the load hold the load without noise far more often than
    half of them."""
    problem, public, plan, content = asked(4)
    exact = finished(4, simulated=True)["true_default_power"]
    held = []
    for seed in range(20):
        released = problem.release(public, plan, content, Noise.seeded(seed))
        result = problem.finish(public, plan, released, lambda *step: None).to_json()
        ends = result["uncertainty"]["values"]["default_power"]
        held.append(
            np.mean((np.array(ends["lower"]) <= exact) & (exact <= np.array(ends["upper"])))
        )
        marked = result["uncertainty"]["noise_dominates"]["block_transitions"]
        assert len(marked) == 3 * STATES
        assert np.shape(result["uncertainty"]["values"]["block_transitions"]["lower"]) == (
            3,
            STATES,
            STATES,
        )
    assert np.mean(held) > 0.85


def test_a_simulation_shows_what_the_signal_does_in_truth() -> None:
    result = finished(2, simulated=True)
    assert np.min(result["cost_of_privacy"]) >= 0
    assert result["achieved_saving"] <= result["true_saving"] + 1e-9
    assert result["achieved_power"] == pytest.approx(result["expected_power"], abs=0.5)


def test_the_public_model_expects_something_of_each_quantity() -> None:
    problem, public, plan, _ = asked(4)
    found = {
        one.quantity: one
        for one in expectations(public, plan, problem.control(public, plan), None, 0.9)
    }
    assert list(found) == ["block_transitions", "expected_power", "saving", "cost_to_go"]
    whole = asked(4, public={**PUBLIC, "day": None})
    one = {
        each.quantity: each
        for each in expectations(whole[1], whole[2], whole[0].control(*whole[1:3]), None, 0.9)
    }
    # A third of the moves, the same noise.
    assert found["block_transitions"].within > one["transitions"].within


def test_a_plan_of_many_blocks_of_many_states_is_no_work() -> None:
    """Flow balance is a matrix of states by cells: 150 MB here, in a process that plans for
    everybody."""
    day = {"steps": 24, "blocks": list(range(20))}
    fields = {"power": [float(state) for state in range(100)]}
    public = DrEnsemblePublic.model_validate({**PUBLIC, "states": 100, "day": day})
    tracemalloc.start()
    plan = DrEnsemble.model_validate({**FIELDS, **fields}).plan(
        public, Budget(epsilon=10**9, delta=0)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.total.epsilon == 10**9
    assert peak < 50_000_000


def test_around_a_release_loads_follow_its_day() -> None:
    problem, public, plan, content = asked(50)
    profile = problem.profile(public, plan, problem.release(public, plan, content, Noise.seeded(2)))
    assert profile is not None
    assert problem.synthesis is not None
    made = problem.synthesis.columns(public, np.random.default_rng(1), 4000, profile)
    states = made["state"].reshape(4000, STEPS)
    seen = counted(states.tolist())
    assert seen / seen.sum(axis=2, keepdims=True) == pytest.approx(MATRICES, abs=0.06)


@pytest.mark.parametrize(
    ("day", "where"),
    [
        ({"steps": 24, "blocks": [1, 7]}, "begins at 0"),
        ({"steps": 24, "blocks": [0, 7, 7]}, "must increase"),
        ({"steps": 24, "blocks": [0, 24]}, "steps 0 to 23"),
        ({"steps": 24, "blocks": [0]}, "at least 2"),
        ({"steps": 10**5, "blocks": list(range(97))}, "at most 96"),
    ],
)
def test_days_that_are_none(day: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        DrEnsemblePublic.model_validate({**PUBLIC, "day": day})


def test_what_does_not_go_with_a_day_is_refused() -> None:
    with pytest.raises(ValidationError, match="of trajectories"):
        DrEnsemblePublic.model_validate(
            {"unit": "row", "states": 3, "row_change": 0.1, "min_probability": 0.1, "day": DAY}
        )
    meters = {
        "meters": {"start": "2026-01-01T00:00:00Z", "interval_seconds": 3600},
        "edges": [0, 1, 2, 3, 4],
    }
    with pytest.raises(ValidationError, match="first reading"):  # its hour is not known
        DrEnsemblePublic.model_validate({**PUBLIC, **meters, "steps": None})
    with pytest.raises(ValidationError, match="2000 together"):
        DrEnsemblePublic.model_validate({**PUBLIC, "states": 700})
    for fields, pointer in (
        ({"first_step": 24}, "/problem/first_step"),
        ({"policy": "taylor", "concentration": 5}, "/problem/policy"),
    ):
        with pytest.raises(InvalidInput) as refused:
            asked(**fields)
        assert [issue.pointer for issue in refused.value.issues] == [pointer]
    with pytest.raises(InvalidInput, match="declares no `day`"):
        asked(public={**PUBLIC, "day": None}, first_step=3)


def test_pictures_have_the_hours(tmp_path: Path) -> None:
    problem, _, plan, _ = asked(4)
    result = finished(4, first_step=15)
    body = problem.model_dump(mode="json") | {"first_step": 15}
    told = plan.model_dump(mode="json")
    charts = {chart.name: chart for chart in result_charts(body, told, result)}
    assert [frame["name"] for frame in charts["transitions"].figure["frames"]] == [
        *("steps 0 to 6", "steps 7 to 17", "steps 18 to 23")
    ]
    assert "ticktext" not in charts["load"].figure["layout"]["xaxis"]
    result["states"] |= {
        "day_begins": "00:00:00",
        "step_seconds": 3600,
        "edges": [0, 0.5, 1.5, 3, 7],
    }
    charts = {chart.name: chart for chart in result_charts(body, told, result)}
    hours = ["00:00 to 07:00", "07:00 to 18:00", "18:00 to 00:00"]
    assert [frame["name"] for frame in charts["transitions"].figure["frames"]] == hours
    assert charts["load"].figure["layout"]["xaxis"]["ticktext"][:3] == ["15:00", "17:00", "19:00"]
    assert "time of day" not in charts["load"].caption
    draw_result(body, result, tmp_path / "load.svg")
    assert "<!-- 17:00 -->" in (tmp_path / "load.svg").read_text()
    names = charts_module("dr_ensemble").row_names(body, result, "block_transitions")
    assert len(names) == 3 * STATES
    assert names[STATES] == "07:00 to 18:00, state 0 (0\u20130.5 kW)"
    result["uncertainty"]["noise_dominates"]["block_transitions"][STATES] = True
    drawn = {chart.name: chart for chart in result_charts(body, told, result)}["transitions"]
    # Nothing that looks as if it were known.
    assert drawn.figure["frames"][1]["data"][0]["z"][0] == [None] * STATES
    assert "left blank" in drawn.caption

"""What a job released as figures for others: synthetic data like it, and errors foretold at it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchmarks import coverage_routing
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems import DATASETS, KINDS
from discreet.problems.around import profiled
from discreet.problems.base import read_example
from discreet.problems.budgets import budgeted
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.rehearsals import job as rehearsals
from discreet.problems.rehearsals.job import Earlier, Rehearsal

NEAR = Privacy.model_validate({"epsilon": 1000, "delta": 1e-6}).budget
WHERE = "/around"


def earlier(kind: str, budget: Budget = NEAR) -> tuple[Any, Any, Any, Any]:
    """The example's problem with its public part and plan, and what it releases."""
    problem, dataset, _ = read_example(KINDS[kind])
    assert dataset is not None
    plan = problem.plan(dataset.public, budget)
    return (
        problem,
        dataset.public,
        plan,
        problem.release(dataset.public, plan, dataset.rows(), Noise.seeded(1)),
    )


@pytest.mark.parametrize("kind", ["routing", "dr_ensemble", "off_policy_evaluation"])
def test_data_made_around_a_release_release_the_same(kind: str) -> None:
    """Of as many as were counted, and as near as draws are. Of trajectories a step of a short one
    counts more than that of a long one, and where they begin is not released: that moves their
    transitions too."""
    problem, public, plan, released = earlier(kind)
    first = profiled(problem, public, plan, released, "job_1", WHERE).profile
    assert problem.synthesis is not None
    rng = np.random.default_rng(3)
    content = problem.synthesis.content(DATASETS[kind], public, rng, None, first)
    second = problem.profile(public, plan, problem.release(public, plan, content, Noise.seeded(2)))
    assert second is not None
    if "demand" in first:
        assert np.abs(second["demand"] - first["demand"]).max() <= 1
    else:
        weights = first["visits"][:, None]
        assert np.abs(weights * (second["transitions"] - first["transitions"])).max() < 0.04
        assert np.abs(second["visits"] - first["visits"]).max() < 0.1
        (count,) = first.keys() & {"participants", "trajectories"}
        assert second[count] == pytest.approx(first[count], rel=0.02)
    elsewhere = problem.synthesis.content(DATASETS[kind], public, np.random.default_rng(3), None)
    third = problem.profile(public, plan, problem.release(public, plan, elsewhere, Noise.seeded(2)))
    assert third is not None
    name = "demand" if "demand" in first else "transitions"
    assert np.abs(third[name] - first[name]).max() > 2 * np.abs(second[name] - first[name]).max()


def test_widths_told_around_an_earlier_release_are_those_that_come() -> None:
    """Of Sioux Falls at epsilon .5: nine in ten errors of 300 releases, around a release of another
    table whose pairs differ by a factor of deviation .5; an even spread tells the total travel
    time's too wide by a half."""
    case = next(one for one in coverage_routing.cases() if one.epsilon == 0.5)
    problem = case.problem.model_copy(update={"uncertainty": False})
    content = {name: array.copy() for name, array in case.content.items()}
    factors = np.random.default_rng(17).lognormal(0, 0.5, (25, 25))[
        content["trips"][:, 1], content["trips"][:, 2]
    ]
    content["trips"][:, 3] = np.rint(content["trips"][:, 3] * factors * math.exp(-0.125))
    released = problem.release(case.public, case.plan, content, Noise.seeded(0))
    around = problem.profile(case.public, case.plan, released)
    told = {one.quantity: one for one in problem.expected(case.public, case.plan, 0.9, around)}
    even = {one.quantity: one for one in problem.expected(case.public, case.plan, 0.9)}
    true = problem.finish(case.public, case.plan, {"trips": _sums(case)}, _silent).outputs
    runs = [_answer(problem, case, seed) for seed in range(300)]
    total = np.abs(
        [run["total_travel_time"].value() - true["total_travel_time"].value() for run in runs]
    )
    flows = np.abs(
        [np.subtract(run["link_flows"].value(), true["link_flows"].value()) for run in runs]
    )
    # The quantile of 300 errors is within 15 % with 1e-5.
    assert np.quantile(total, 0.9) == pytest.approx(told["total_travel_time"].within, rel=0.2)
    assert np.quantile(total, 0.9) < 0.8 * even["total_travel_time"].within
    assert np.quantile(flows, 0.9, axis=0).max() == pytest.approx(
        told["link_flows"].within, rel=0.2
    )


def _sums(case: Any) -> Any:
    return case.problem.diagnose(case.public, case.plan, case.content, Noise.seeded(0))[
        "true_trips"
    ]


def _answer(problem: Any, case: Any, seed: int) -> Any:
    released = problem.release(case.public, case.plan, case.content, Noise.seeded(seed))
    return problem.finish(case.public, case.plan, released, _silent).outputs


def _silent(step: int, total: int) -> None:
    pass


@pytest.mark.parametrize("kind", ["routing", "dr_ensemble", "off_policy_evaluation"])
def test_an_accuracy_around_a_release_is_foretold_for_it(kind: str) -> None:
    problem, public, plan, released = earlier(kind)
    around = problem.profile(public, plan, released)
    usual = problem.plan(public, Privacy.model_validate({"epsilon": 5, "delta": 1e-6}).budget)
    quantity = problem.expected(public, usual, 0.9, around)[0]
    asked = {"within": quantity.within * 3, "around": "job_1"}
    privacy = Privacy.model_validate({"accuracy": asked, "delta": 1e-6})
    made = budgeted(problem, public, privacy, around)
    (told, *_) = problem.expected(public, made.plan, 0.9, around)
    assert told.within <= asked["within"] < 1.05 * told.within
    assert (
        "if the data are as job_1 released them. Eight of ten simulated data needed"
        in made.plan.advice[0]
    )
    foretold = [one.sentence for one in problem.expected(public, made.plan, 0.9, around)]
    assert [one for one in made.plan.advice if one in foretold] == foretold
    even = {one.sentence for one in problem.expected(public, made.plan, 0.9)}
    assert not (even - set(foretold)) & set(made.plan.advice)
    with pytest.raises(InvalidInput, match="only a server can look up") as refused:
        budgeted(problem, public, privacy)
    assert refused.value.issues[0].pointer == "/privacy/accuracy/around"


def test_a_rehearsal_around_a_release_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsals, "MOST_RUNS", 2)
    problem, public, plan, released = earlier("routing")
    said = [one.model_dump(mode="json") for one in (problem, public, plan)]
    asked = Rehearsal(
        problem=said[0],
        public=said[1],
        epsilons=[1],
        around=Earlier(job="job_1", problem=said[0], public=said[1], plan=said[2]),
    )
    made = asked.plan(None, Budget(epsilon=0, delta=0))
    assert made.advice == (
        "a rehearsal costs nothing: its data are synthetic, made of what job_1 released",
    )
    result = asked.finish(None, made, released, _silent).to_json()
    assert result["data"].startswith("synthetic, made of what job_1 released, ")
    (size,) = (row["size"] for row in result["rows"] if row["quantity"] == "demand")
    profile = problem.profile(public, plan, released)
    assert profile is not None
    assert size == pytest.approx(float(profile["demand"].mean()), rel=0.05)


def test_what_tells_no_figures_is_refused() -> None:
    for kind, budget in (
        ("multi_agent", NEAR),
        ("routing", Privacy.model_validate({"epsilon": 1e-3, "delta": 1e-6}).budget),
        ("dr_ensemble", Privacy.model_validate({"epsilon": 1e-3, "delta": 1e-6}).budget),
        ("off_policy_evaluation", Privacy.model_validate({"epsilon": 1e-3, "delta": 1e-6}).budget),
    ):
        with pytest.raises(InvalidInput, match="does not show how the data are") as refused:
            profiled(*earlier(kind, budget), "job_1", WHERE)
        assert refused.value.issues[0].pointer == WHERE
    problem, public, plan, released = earlier("routing")
    around = profiled(problem, public, plan, released, "job_1", WHERE)
    assert (
        around.shaped(public.model_copy(update={"periods": 99, "max_total": 10**6}), WHERE)
        is around.profile
    )
    with pytest.raises(InvalidInput, match="a dataset with different zones"):
        around.shaped(public.model_copy(update={"zones": public.zones + 1}), WHERE)


def test_what_tells_no_figures_is_not_offered() -> None:
    """Pages link to planning around a job where this says so: a link to a refusal is none."""
    _, dataset, _ = read_example(KINDS["off_policy_evaluation"])
    assert dataset is not None
    told = {}
    for method in ("importance_sampling", "per_decision", "moments", "minibatch"):
        body = {"kind": "off_policy_evaluation", "dataset": "dst_x", "discount": 0.9}
        problem = KINDS["off_policy_evaluation"].model_validate({**body, "method": method})
        part = dataset.public.model_copy(update={"off_policy": True})
        plan = problem.plan(part, NEAR)
        content = problem.synthesis.content(
            DATASETS["off_policy_evaluation"], part, np.random.default_rng(3), 50
        )
        released = problem.release(part, plan, content, Noise.seeded(1))
        told[method] = type(problem).profiles(body, plan.parameters)
        assert told[method] == (problem.profile(part, plan, released) is not None)
    assert [method for method in told if told[method]] == ["moments"]
    assert KINDS["routing"].profiles({}, {"method": "counts"})
    assert not KINDS["routing"].profiles({}, {"method": "gradient"})
    assert not KINDS["multi_agent"].profiles({}, {})

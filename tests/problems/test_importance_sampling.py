"""The method importance_sampling of off-policy evaluation: its answers, when `auto` takes it, what
it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from benchmarks import clinics
from benchmarks import importance_sampling as bench
from benchmarks import per_decision as stepwise
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation import charts
from discreet.problems.off_policy_evaluation.dataset import OffPolicyContent, OffPolicyDataset
from discreet.problems.off_policy_evaluation.examples import SYNTHESIS
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.problems.off_policy_evaluation.weighting import CLIPS
from tests.problems.exact import NoNoise

FIXED = {"kind": "off_policy_evaluation", "dataset": "dst_x", "discount": 0.9}


def problem(**values: Any) -> OffPolicyEvaluation:
    return OffPolicyEvaluation.model_validate({**FIXED, **values})


def public(**values: Any) -> OffPolicyPublic:
    part = {"unit": "trajectory", "states": 2, "reward_bound": 1, "horizon": 8, "off_policy": True}
    return OffPolicyPublic.model_validate({**part, **values})


def planned(part: OffPolicyPublic, epsilon: float = 1.0, delta: int = 0, **values: Any) -> Any:
    return problem(**values).plan(part, Budget(epsilon=int(epsilon * 10**9), delta=delta))


def test_auto_takes_it_where_probabilities_are_there_and_no_value_function_is_asked_for() -> None:
    assert planned(public()).parameters["method"] == "importance_sampling"
    assert planned(public(off_policy=False)).parameters["method"] == "moments"
    for values in ({"initial": [1.0, 0.0]}, {"initial": "released"}):
        assert planned(public(), **values).parameters["method"] == "moments"
    assert planned(public(), method="minibatch", delta=10**13).parameters["method"] == "minibatch"
    with pytest.raises(InvalidInput, match="steps: has no effect with the method moments"):
        planned(public(), steps=5)
    columns = public(states=None, features=3)
    plan = planned(columns)  # whatever the features, of which none are asked for
    assert plan.parameters["method"] == "importance_sampling"
    assert any("method (auto) is importance_sampling" in one for one in plan.advice)


@pytest.mark.parametrize(
    ("part", "values", "pointer"),
    [
        ({"off_policy": False}, {"method": "importance_sampling"}, "/problem/method"),
        ({}, {"method": "importance_sampling", "initial": [1.0, 0.0]}, "/problem/initial"),
        ({}, {"method": "importance_sampling", "clip": 1.0}, "/problem/clip"),
        ({}, {"method": "importance_sampling", "max_importance": 2e4}, "/problem/max_importance"),
        (
            {},
            {"method": "importance_sampling", "return_bounds": [1.0, 1.0]},
            "/problem/return_bounds",
        ),
        (
            {},
            {"method": "importance_sampling", "return_bounds": [6.0, 9.0]},
            "/problem/return_bounds",
        ),
        ({}, {"method": "moments", "return_bounds": [0.0, 1.0]}, "/problem/return_bounds"),
        ({}, {"method": "per_decision", "return_bounds": [0.0, 1.0]}, "/problem/return_bounds"),
        ({}, {"method": "per_decision", "initial": [1.0, 0.0]}, "/problem/initial"),
        ({"off_policy": False}, {"method": "per_decision"}, "/problem/method"),
    ],
)
def test_what_means_nothing_is_refused(
    part: dict[str, Any], values: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        planned(public(**part), **values)
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_the_release_chooses_the_clip_for_an_eighth_of_the_price() -> None:
    """Among roots of two up to the largest weight, in either relation; of scores that move by one
    trajectory, both ways where one is replaced. A clip of one's own saves that."""
    for known, times in (({}, 1), ({"trajectories": 3000}, 2)):
        plan = planned(public(**known))
        assert plan.parameters["max_importance"] is None
        event, choice = plan.events
        assert (event.price().epsilon, choice.price().epsilon) == (875_000_000, 125_000_000)
        assert (choice.mechanism, choice.norm) == ("exponential", "score")
        assert choice.sensitivity == 1 << 24
        assert choice.scale == pytest.approx(8 * times * (1 << 24))
        assert plan.total.epsilon == 10**9
        assert not problem().noised_sums(plan)
        assert "clip" in plan.noise[1].quantity
        own = planned(public(**known), max_importance=7)
        assert (len(own.events), own.parameters["max_importance"]) == (1, 7)
        assert problem().noised_sums(own) == {"sums"}
    ruled = problem().method_for(public(max_ratio=1.5, horizon=4), "importance_sampling")
    assert ruled.candidates == pytest.approx([*CLIPS[:4], 1.5**4])
    assert problem().method_for(public(), "importance_sampling").candidates == pytest.approx(CLIPS)
    with_rho = problem().plan(public(), Budget(epsilon=10**9, delta=10**12, rho=10**17))
    assert with_rho.total.rho <= 10**17


def test_what_is_released_are_the_sums_of_the_chosen_clip_alone() -> None:
    """As with that clip named in the request; which one it is follows from scores, that is from
    what weights are."""
    asked, part = problem(return_bounds=[0, 1]), bench.public(known=False)
    plan = asked.plan(part, Budget(epsilon=10**9, delta=0))
    for square in (4.0, 48.0):
        content = bench.Patients(square).draw(np.random.default_rng(1))
        released = asked.release(part, plan, content, NoNoise())
        place = int(released["clip"][0])
        named = problem(return_bounds=[0, 1], max_importance=float(CLIPS[place]))
        own = named.plan(part, Budget(epsilon=10**9, delta=0))
        assert (named.release(part, own, content, NoNoise())["sums"] == released["sums"]).all()
        found = asked.finish(part, plan, released, lambda step, total: None).to_json()
        assert found["largest_weight"] == CLIPS[place]
        weight = (content["target"] / content["behaviour"]).reshape(bench.PATIENTS, -1).prod(axis=1)
        above = (weight[:, None] > CLIPS).sum(axis=0)
        event = plan.events[0]
        price = 10 * event.deviation() / (1 << 24) * np.log2(CLIPS)
        assert np.argmin(above + price) == place


ONE_VISIT = {"states": 1, "horizon": 1, "reward_bound": 100, "least_reward": 0, "actions": 2}


def test_a_clinic_learns_which_rule_is_better() -> None:
    """2,000 patients, one visit, epsilon 1, propensities in a column: the difference is known to
    less than a tenth of the ± 10 of before, and held; without `actions` to a third."""
    told = clinics.measured("one visit", 2000, 1.0, simulations=30)
    assert told["half"] < 1.2
    assert told["noise"] <= 0.2
    assert told["difference_holds"] >= 0.8
    assert told["value_holds"] >= 0.75
    less = clinics.measured("one visit", 2000, 1.0, declared={}, simulations=30)
    assert told["half"] < less["half"] < 3.5
    few = clinics.measured("six visits", 500, 0.5, simulations=10)
    assert few["noise"] == 1


def test_overlap_bounds_weights_as_the_largest_ratio_does() -> None:
    """Rows of less are refused; of both figures the sharper one counts."""
    assert public(overlap=0.25, horizon=3).largest_weight == pytest.approx(64)
    assert public(overlap=0.25, max_ratio=2, horizon=3).largest_weight == pytest.approx(8)
    assert public(overlap=0.25, max_ratio=9, horizon=3).largest_weight == pytest.approx(64)
    told = OffPolicyPublic.model_validate(
        {"unit": "trajectory", "reward_bound": 1, "horizon": 1, "overlap": 0.25}
    )
    row = {"trajectory": 1, "step": 0, "reward": 0.5, "terminal": True, "target": 0.5}
    good = {**row, "behaviour": 0.25}
    OffPolicyDataset.read_rows(told, OffPolicyContent(transitions=[good]))
    with pytest.raises(InvalidInput) as refused:
        OffPolicyDataset.read_rows(
            told, OffPolicyContent(transitions=[good, {**good, "trajectory": 2, "behaviour": 0.2}])
        )
    (issue,) = refused.value.issues
    assert issue.pointer == "/content/transitions/1/behaviour"
    assert "public.overlap says that no action is less probable than 0.25" in issue.detail


def estimated(asked: dict[str, Any], part: OffPolicyPublic, content: dict[str, Any]) -> Any:
    one = problem(**{"discount": 1.0, **asked})
    plan = one.plan(part, Budget(epsilon=10**13, delta=0))
    released = one.release(part, plan, content, Noise.seeded(1))
    return one.finish(part, plan, released, lambda step, total: None).to_json()


def test_estimands_are_what_they_are_named() -> None:
    """With next to no noise the values are NumPy's: of sums, of means over each one's own visits,
    and of the rule at the first visits alone."""
    part = public(states=1, horizon=6, reward_bound=100, least_reward=0, max_ratio=2)
    content = clinics.draw("mean per visit", 3000, np.random.default_rng(1))
    owner = np.repeat(np.arange(3000), np.diff(content["start"]))
    place = np.arange(owner.size) - content["start"][owner]
    ratio, reward = content["target"] / content["behaviour"], content["reward"]
    lengths = np.diff(content["start"])
    for asked, visits, share, says in (
        ({}, 6, np.ones(3000), "the sum of a person's rewards"),
        ({"estimand": "mean_per_visit"}, 6, 1 / lengths, "the mean of a person's rewards over"),
        ({"rule_visits": 2}, 2, np.ones(3000), "the target policy at the first 2 visits and then"),
        ({"estimand": "mean_per_visit", "rule_visits": 1}, 1, 1 / lengths, "at the first visit"),
    ):
        weight = np.ones(3000)
        np.multiply.at(weight, owner[place < visits], ratio[place < visits])
        gain = np.bincount(owner, reward) * share
        found = estimated({**asked, "max_importance": 1000.0}, part, content)
        assert found["largest_weight"] == pytest.approx(2.0**visits)
        assert found["policy_value"] == pytest.approx(weight @ gain / weight.sum(), rel=1e-4)
        assert found["behaviour_value"] == pytest.approx(gain.mean(), rel=1e-4)
        assert says in found["estimand"]
    for values, pointer in (
        ({"estimand": "mean_per_visit", "discount": 0.9}, "/problem/discount"),
        ({"estimand": "mean_per_visit", "method": "per_decision"}, "/problem/estimand"),
        ({"rule_visits": 2, "method": "moments"}, "/problem/rule_visits"),
    ):
        with pytest.raises(InvalidInput) as refused:
            planned(part, **values)
        assert pointer in {issue.pointer for issue in refused.value.issues}
    short = planned(public(**{**ONE_VISIT, "horizon": 4}), rule_visits=1, discount=1.0)
    assert "10 sums" in short.noise[0].quantity
    assert "9 sums" in planned(public(**{**ONE_VISIT, "horizon": 4})).noise[0].quantity


def test_returns_lie_where_public_figures_say() -> None:
    """By the bound on rewards; by public rewards, of walks that may end anywhere."""
    assert public(horizon=3).returns(0.5) == pytest.approx((-1.75, 1.75))
    ladder = {"topology": [[0, 1], [1, 0], [1, 2]], "rewards": [0.0, -0.25, 1.0]}
    assert public(**ladder, horizon=2).returns(0.5) == pytest.approx((-0.25, 1.0))
    # 1 -> 0 -> 1 -> 0 -> ...: -1/4 at every second step.
    assert public(**ladder, horizon=10**6).returns(0.5) == pytest.approx((-0.25 / (1 - 0.25), 1.0))
    # Of rewards that are never negative an episode of one step may bring nothing; of those above
    # 1/2, that much.
    assert public(horizon=3, least_reward=0).returns(0.5) == pytest.approx((0, 1.75))
    assert public(horizon=3, least_reward=0.5).returns(0.5) == pytest.approx((0.5, 1.75))
    assert public(horizon=3, least_reward=-0.5).returns(1.0) == pytest.approx((-1.5, 3))
    assert "between 0 and 5.7" in " ".join(planned(public(trajectories=500, least_reward=0)).advice)
    for values, says in (({}, "-5.7 and 5.7"), ({"return_bounds": [0, 1]}, None)):
        advice = planned(public(trajectories=500), **values).advice
        assert any(says is not None and says in one for one in advice) == (says is not None)


@pytest.mark.parametrize("known", [False, True])
def test_answers_come_near_the_truth_and_intervals_hold_it(known: bool) -> None:
    """Thirty repetitions of patients and noise; fewer than 20 of 30 hold with probability below
    1e-4 where 87 % do, and seeds are fixed."""
    found = bench.measured(4.0, 1.0, known, repetitions=30)
    for name in ("covers_clipped", "covers_robust", "covers_behaviour", "covers_difference"):
        assert found[name] >= 2 / 3, name
    assert found["rmse"] < 0.08
    assert found["rmse_behaviour"] < 0.03
    assert 0.3 < found["half_width"] / (1.645 * found["rmse"]) < 3
    assert found["half_width_robust"] > found["half_width"]


def release(epsilon: float, **values: Any) -> tuple[Any, Any, dict[str, Any]]:
    asked, part = problem(return_bounds=[0, 1], **values), bench.public(known=True)
    plan = asked.plan(part, Budget(epsilon=int(epsilon * 10**9), delta=0))
    content = bench.Patients(4.0).draw(np.random.default_rng(1))
    released = asked.release(part, plan, content, Noise.seeded(1))
    return asked, plan, asked.finish(part, plan, released, lambda step, total: None).to_json()


def test_a_result_says_in_words_what_its_interval_covers(tmp_path: Path) -> None:
    asked, plan, found = release(1)
    assert found["difference"] == pytest.approx(found["policy_value"] - found["behaviour_value"])
    said = found["uncertainty"]
    named = {"policy_value", "behaviour_value", "difference", "effective_size", "clipped_mass"}
    assert said["values"].keys() == said["noise_dominates"].keys() == named
    for name, ends in said["values"].items():
        assert ends["lower"] <= found[name] <= ends["upper"], name
    assert not said["mostly_noise"]
    assert f"clipped at {found['largest_weight']:.3g}" in found["covers"]
    assert "90 % or more the interval of policy_value holds" in found["covers"]
    assert "clipped_value" in found["covers"]
    assert said["values"]["policy_value"] == found["robust_bounds"]
    for name, inner in (("policy_value", "clipped_value"), ("difference", "clipped_difference")):
        ends = said["values"][name]
        assert ends["lower"] < found[inner]["lower"] < found[name], name
        assert found[name] < found[inner]["upper"] < ends["upper"], name
    (chart,) = charts.charts_of(asked.model_dump(mode="json"), plan.model_dump(mode="json"), found)
    assert found["covers"] in chart.caption
    (trace,) = chart.figure["data"]
    assert len(trace["y"]) == len(trace["error_y"]["array"]) == 4
    assert np.subtract(trace["y"], trace["error_y"]["arrayminus"])[1] == pytest.approx(
        said["values"]["policy_value"]["lower"], abs=1e-4
    )
    charts.draw(asked.model_dump(mode="json"), found, tmp_path / "policies.png")
    assert (tmp_path / "policies.png").stat().st_size > 5000
    _, _, without = release(1, uncertainty=False)
    assert without == {name: value for name, value in found.items() if name != "uncertainty"}


def test_an_effective_size_of_which_nothing_is_known_is_called_noise() -> None:
    """Values may be told well where the sum of squared weights is lost in noise: its number would
    be that of all."""
    for epsilon, known in ((0.05, False), (0.2, True)):
        _, _, found = release(epsilon)
        said = found["uncertainty"]
        ends = said["values"]["effective_size"]
        assert said["noise_dominates"]["effective_size"] != known
        assert (ends["lower"] > 0.1 * ends["upper"]) == known
        assert not said["noise_dominates"]["policy_value"]


def test_noise_is_called_noise() -> None:
    _, _, found = release(0.001)
    said = found["uncertainty"]
    assert said["mostly_noise"]
    assert said["noise_dominates"]["policy_value"]
    ends = said["values"]["policy_value"]
    assert ends["upper"] - ends["lower"] > 0.5  # what is known is little, and it says so
    ends = said["values"]["behaviour_value"]
    assert ends["upper"] - ends["lower"] > 0.5
    plan = planned(bench.public(known=True), 0.001)
    assert "mostly noise" in plan.advice[0]


def test_what_a_plan_expects_is_about_what_comes() -> None:
    """Of the noise alone: that of the value between the least and the most that it is for any
    value; widths fall as epsilon grows."""
    asked, part = problem(return_bounds=[0, 1]), bench.public(known=True)
    content = bench.Patients(4.0).draw(np.random.default_rng(2))
    before: dict[str, float] = {}
    for epsilon in (0.3, 3.0):
        plan = asked.plan(part, Budget(epsilon=int(epsilon * 10**9), delta=0))
        told = {one.quantity: one.within for one in asked.expected(part, plan, 0.9)}
        assert told.keys() == {"policy_value", "behaviour_value", "difference"}
        drawn: dict[str, list[float]] = {name: [] for name in told}
        for seed in range(100):
            released = asked.release(part, plan, content, Noise.seeded(seed))
            found = asked.finish(part, plan, released, lambda step, total: None).to_json()
            for name, numbers in drawn.items():
                numbers.append(found[name])
        for name, numbers in drawn.items():
            assert 0.6 < told[name] / (1.645 * np.std(numbers)) < 2.2, name
            assert told[name] < before.get(name, np.inf)
        before = told


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"least_reward": -2}, "at least -1 and below 1 is needed"),
        ({"least_reward": 1}, "at least -1 and below 1 is needed"),
        (
            {"least_reward": 0, "states": 1, "topology": [[0, 1]], "rewards": [-0.5]},
            "a reward is below least_reward",
        ),
    ],
)
def test_least_rewards_that_cannot_be_are_refused(figures: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        OffPolicyPublic.model_validate(
            {"unit": "trajectory", "reward_bound": 1, "horizon": 3, **figures}
        )


def test_a_reward_below_the_least_one_is_refused_with_its_row_and_made_up_data_have_none() -> None:
    told = OffPolicyPublic.model_validate(
        {"unit": "trajectory", "reward_bound": 1, "least_reward": 0.25, "horizon": 3}
    )
    row = {"trajectory": 1, "step": 0, "reward": 0.5, "terminal": True}
    assert OffPolicyDataset.read_rows(told, OffPolicyContent(transitions=[row]))[
        "reward"
    ].tolist() == [0.5]
    with pytest.raises(InvalidInput) as refused:
        OffPolicyDataset.read_rows(
            told, OffPolicyContent(transitions=[row, {**row, "trajectory": 2, "reward": 0.0}])
        )
    (issue,) = refused.value.issues
    assert (issue.pointer, "the public least_reward is 0.25" in issue.detail) == (
        "/content/transitions/1/reward",
        True,
    )
    made = SYNTHESIS.columns(told, np.random.default_rng(1), 200)
    assert made["reward"].min() >= 0.25


def content_of(people: stepwise.Patients) -> dict[str, Any]:
    count, steps = people.reward.shape
    behaviour = np.full(count * steps, 0.5)
    return {
        "start": np.arange(count + 1) * steps,
        "reward": people.reward.ravel(),
        "terminal": np.tile(np.arange(steps) == steps - 1, count),
        "behaviour": behaviour,
        "target": behaviour * people.ratio.ravel(),
        "state": people.state[:, :-1].ravel().astype(np.int32),
        "next_state": people.state[:, 1:].ravel().astype(np.int32),
    }


@pytest.mark.parametrize("values", [{}, {"trajectories": stepwise.PATIENTS, "max_ratio": 1.8}])
def test_weights_of_steps_answer_for_both_policies(values: dict[str, Any]) -> None:
    """Thirty repetitions of patients and noise, of rewards along the way; intervals of 90 % hold at
    least 20, and errors are below those of whole trajectories with the same noise."""
    world, rng = stepwise.World("steady", 48.0), np.random.default_rng(4)
    part = public(states=stepwise.STATES, least_reward=0, **values)
    many = world.draw(100_000, rng)
    before, truth = float(many.reward.sum(axis=1).mean()), 8 * world.worth()
    held, errors = [], []
    methods = ("importance_sampling", "per_decision")
    asked = {name: problem(method=name, discount=1.0) for name in methods}
    plans = {name: one.plan(part, Budget(epsilon=10**9, delta=0)) for name, one in asked.items()}
    for seed in range(30):
        content, found = content_of(world.draw(stepwise.PATIENTS, rng)), {}
        for name, one in asked.items():
            released = one.release(part, plans[name], content, Noise.seeded(seed))
            done = one.finish(part, plans[name], released, lambda step, total: None)
            found[name] = done.to_json()
        errors.append([found[name]["policy_value"] - truth for name in methods])
        said = found["per_decision"]["uncertainty"]["values"]
        truths = {"behaviour_value": before, "policy_value": truth, "difference": truth - before}
        held.append(
            [said[name]["lower"] <= one <= said[name]["upper"] for name, one in truths.items()]
        )
        ends = found["per_decision"]["robust_bounds"]
        held[-1].append(ends["lower"] <= truth <= ends["upper"])
    assert (np.sum(held, axis=0) >= 20).all(), np.sum(held, axis=0)
    whole, single = np.sqrt(np.mean(np.square(errors), axis=0))
    assert single < whole
    assert "Weights of steps are clipped at" in found["per_decision"]["covers"]


def test_what_makes_noise_smaller_is_said_of_the_method_that_is_asked_for() -> None:
    for method, says, other in (
        ("importance_sampling", "`per_decision`", "each step's reward"),
        ("per_decision", "between 0 and 1, and noise", "returns are taken"),
    ):
        advice = " ".join(planned(public(trajectories=500, least_reward=0), method=method).advice)
        assert says in advice, method
        assert other not in advice, method
    short = planned(public(horizon=1), method="importance_sampling")
    assert "per_decision" not in " ".join(short.advice)


def test_episodes_that_end_early_and_public_rewards_have_ranges_with_nothing_in_them() -> None:
    assert public(least_reward=0.5).rewards_with_none == (0, 1)
    ladder = {"topology": [[0, 1], [1, 2]], "states": 2}
    assert public(**ladder, rewards=[-0.25, -0.5]).rewards_with_none == (-0.5, 0)
    nothing = public(**ladder, rewards=[0.0, 0.0])
    assert nothing.rewards_with_none == nothing.returns(0.9) == (0, 1)
    row = {"trajectory": 1, "step": 0, "state": 0, "next_state": 1, "reward": 0, "terminal": False}
    content = OffPolicyDataset.read_rows(
        nothing, OffPolicyContent(transitions=[{**row, "behaviour": 0.5, "target": 0.5}])
    )
    for method in ("per_decision", "importance_sampling", "auto"):
        asked = problem(method=method)
        plan = asked.plan(nothing, Budget(epsilon=10**10, delta=0))
        released = asked.release(nothing, plan, content, Noise.seeded(1))
        found = asked.finish(nothing, plan, released, lambda step, total: None).to_json()
        assert 0 <= found["policy_value"] <= nothing.discounted_steps(0.9), method

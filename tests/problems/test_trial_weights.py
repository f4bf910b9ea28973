"""A trial that drew lots, evaluated by rules: how large weights can be, what is cut off, and lots
not drawn so."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from benchmarks import clips
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.answers import headlines_of
from discreet.problems.contents import Content
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation import charts
from discreet.problems.off_policy_evaluation.dataset import OffPolicyContent, OffPolicyDataset
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet_client import readers
from discreet_client.intervals import percent, plain
from tests.conftest import worst_cases

DRAWN, HORIZON, WELL = 2 / 3, 4, (0.3, 0.12)
"""Who is treated in a visit; the chance to be well at the end, and what each treatment adds to
it."""
ASKED = {
    "kind": "off_policy_evaluation",
    "dataset": "dst_x",
    "discount": 1,
    "return_bounds": [0, 1],
}
TRUTH = WELL[0] + WELL[1] * HORIZON
"""Were everybody treated in every visit."""


def public(**values: Any) -> OffPolicyPublic:
    part = {
        "unit": "trajectory",
        "states": 1,
        "reward_bound": 1,
        "horizon": HORIZON,
        "off_policy": True,
    }
    return OffPolicyPublic.model_validate({**part, **values})


def trial(people: int, seed: int, said: float = DRAWN) -> Content:
    """`said`: the probability that the data name for a treatment, which was drawn with DRAWN."""
    generator = np.random.default_rng(seed)
    treated = generator.random((people, HORIZON)) < DRAWN
    reward = np.zeros((people, HORIZON))
    reward[:, -1] = generator.random(people) < WELL[0] + WELL[1] * treated.sum(axis=1)
    zeros = np.zeros(people * HORIZON, dtype=np.int32)
    return {
        "start": np.arange(people + 1) * HORIZON,
        "state": zeros,
        "next_state": zeros,
        "reward": reward.ravel(),
        "terminal": np.tile(np.arange(HORIZON) == HORIZON - 1, people),
        "behaviour": np.where(treated, said, 1 - said).ravel(),
        "target": treated.ravel().astype(float),
    }


def answered(
    part: OffPolicyPublic, content: Content, seed: int, epsilon: float = 1, **asked: Any
) -> dict[str, Any]:
    problem = OffPolicyEvaluation.model_validate({**ASKED, **asked})
    plan = problem.plan(part, Budget(epsilon=int(epsilon * 10**9), delta=0))
    released = problem.release(part, plan, content, Noise.seeded(seed))
    return problem.finish(part, plan, released, lambda step, total: None).to_json()


def test_weights_are_no_larger_than_public_rules_allow() -> None:
    """(3/2)^4 = 5.06: no clip is larger, nothing is cut off, and there is no further range."""
    content = trial(600, 1)
    bounded, free = (answered(part, content, 1) for part in (public(max_ratio=1 / DRAWN), public()))
    assert bounded["largest_weight"] == pytest.approx(1.5**HORIZON)
    assert free["largest_weight"] >= 4  # all weigh 0 or 5.06
    ends = bounded["uncertainty"]["values"]
    assert (bounded["clipped_mass"], ends["clipped_mass"]) == (0, {"lower": 0, "upper": 0})
    assert bounded["robust_bounds"] == ends["policy_value"]
    assert "No weight can be cut off" in bounded["covers"]
    assert "cut off" in free["covers"]
    wide, narrow = (
        one["robust_bounds"]["upper"] - one["robust_bounds"]["lower"] for one in (free, bounded)
    )
    assert narrow < wide
    assert bounded["robust_bounds"]["lower"] < TRUTH < bounded["robust_bounds"]["upper"]
    fixed = answered(public(max_ratio=1 / DRAWN), content, 1, max_importance=1000)
    assert fixed["largest_weight"] == bounded["largest_weight"]
    unfinished = answered(
        public(max_ratio=0.9), {**content, "target": content["behaviour"] * 0.9}, 1
    )
    assert unfinished["largest_weight"] == 1  # of one that ends at once: the empty product


RULE_RATIO, RULE_HORIZON = 3, 3
"""Of a rule that takes either treatment, drawn 2 to 1, in three visits: weights up to 27."""


def selected_trial(people: int, seed: int) -> Content:
    """Half are to be treated by the rule; who is treated by it is well with 0.7, else with 0.3."""
    generator = np.random.default_rng(seed)
    shape = (people, RULE_HORIZON)
    treated, selected = generator.random(shape) < DRAWN, generator.random((people, 1)) < 0.5
    agrees = treated == selected
    zeros = np.zeros(people * RULE_HORIZON, dtype=np.int32)
    return {
        "start": np.arange(people + 1) * RULE_HORIZON,
        "state": zeros,
        "next_state": zeros,
        "reward": np.where(generator.random(shape) < np.where(agrees, 0.7, 0.3), 1.0, 0.0).ravel(),
        "terminal": np.tile(np.arange(RULE_HORIZON) == RULE_HORIZON - 1, people),
        "behaviour": np.where(treated, DRAWN, 1 - DRAWN).ravel(),
        "target": agrees.astype(float).ravel(),
    }


def test_where_noise_allows_it_no_weight_is_cut_off_and_intervals_hold_the_truth() -> None:
    """700 people at epsilon 1, whose number is private: some 13 weigh 27, too few to be told by
    their weights alone. Of far fewer all weights may be cut off."""
    part = public(
        max_ratio=RULE_RATIO, horizon=RULE_HORIZON, least_reward=0, target_policy="selected"
    )
    held, wide = 0, []
    for seed in range(60):
        found = answered(part, selected_trial(700, seed), seed, return_bounds=None)
        assert found["largest_weight"] == pytest.approx(27)
        assert found["clipped_mass"] == 0
        held += (
            found["robust_bounds"]["lower"] <= 0.7 * RULE_HORIZON <= found["robust_bounds"]["upper"]
        )
        wide.append(found["robust_bounds"]["upper"] - found["robust_bounds"]["lower"])
    assert held >= 48  # of 54 on average; fewer with probability 1 %
    assert np.median(wide) < RULE_HORIZON / 2.5
    assert "robust_bounds" not in charts._three(found)  # it is the policy's value, drawn once
    few = [answered(part, selected_trial(60, one), one, return_bounds=None) for one in range(9)]
    assert np.median([one["largest_weight"] for one in few]) < 8
    with_fixed = answered(
        part, selected_trial(250, 1), 1, return_bounds=None, max_importance=26.99999
    )
    assert with_fixed["clipped_mass"] == 0  # 27 of probabilities that were typed as 0.333333


def test_a_public_number_has_the_same_rule_and_a_clip_is_in_the_interval() -> None:
    """Of 500 people at epsilon 1 the interval is expected to be narrower if nothing is cut off; of
    100 it would be wider, and the release chooses a clip. A clip of one's own takes two thirds
    of the weights off: with clipped weights alone the interval misses what the rule is worth, and
    the interval of the value does not."""
    rule = {"max_ratio": RULE_RATIO, "horizon": RULE_HORIZON, "least_reward": 0}
    problem = OffPolicyEvaluation.model_validate({**ASKED, "return_bounds": None})
    for people, cap in ((500, pytest.approx(27)), (100, None)):
        plan = problem.plan(public(**rule, trajectories=people), Budget(epsilon=10**9, delta=0))
        assert plan.parameters["max_importance"] == cap
        assert len(plan.events) == 1 + (cap is None)
        assert any("none is cut off" in one for one in plan.advice)
    held, clipped, (truth, before) = np.zeros(3), 0, clips.worth(RULE_HORIZON, RULE_RATIO, "sicker")
    assert truth == pytest.approx(0.6 * RULE_HORIZON)
    for seed in range(40):
        content = clips.draw(500, RULE_HORIZON, RULE_RATIO, "sicker", np.random.default_rng(seed))
        for at, asked in enumerate(({}, {"max_importance": 4.4})):
            found = answered(
                public(**rule, trajectories=500), content, seed, return_bounds=None, **asked
            )
            said = found["uncertainty"]["values"]
            held[at] += said["policy_value"]["lower"] <= truth <= said["policy_value"]["upper"]
            assert said["policy_value"] == found["robust_bounds"]
            assert ("clipped_value" in found) == bool(asked)
        held[2] += said["difference"]["lower"] <= truth - before <= said["difference"]["upper"]
        clipped += found["clipped_value"]["lower"] <= truth <= found["clipped_value"]["upper"]
    assert (held >= 31).all(), held  # of 36 on average; fewer with probability 1 %
    assert clipped < 25


MILD = {"max_ratio": 2.44, "horizon": 6, "least_reward": 0, "reward_bound": 100 / 6}
"""Six visits: treated with probability .35, by a rule that treats .8 of them (ratio 2.29)."""


def mild_trial(people: int, seed: int) -> Content:
    """Rewards rise by treatment, a little."""
    rng = np.random.default_rng(seed)
    treated = rng.random((people, 6)) < 0.35
    reward = (rng.random((people, 6)) < 0.5 + 0.05 * treated) * MILD["reward_bound"]
    zeros = np.zeros(people * 6, dtype=np.int32)
    return {
        "start": np.arange(people + 1) * 6,
        "state": zeros,
        "next_state": zeros,
        "reward": reward.ravel(),
        "terminal": np.tile(np.arange(6) == 5, people),
        "behaviour": np.where(treated, 0.35, 0.65).ravel(),
        "target": np.where(treated, 0.5, 0.5).ravel(),
    }


def half(found: Any, name: str) -> float:
    ends = found["uncertainty"]["values"][name]
    return float(ends["upper"] - ends["lower"]) / 2


def test_a_true_largest_ratio_widens_no_interval() -> None:
    """Six visits of 2,000 people: a weight may be 211, far above what the noise allows. Until
    November nothing was cut off then, and the interval was ± 25 instead of ± 3."""
    content = mild_trial(2000, 1)
    wide = {}
    for ratio in (None, 10, 2.44, 2, 1.5):
        known = public(**{**MILD, "max_ratio": ratio})
        found = [answered(known, content, seed, return_bounds=None) for seed in range(30)]
        wide[ratio] = np.mean([half(one, "policy_value") for one in found])
    for more, less in itertools.pairwise((1.5, 2, 2.44, 10, None)):
        assert wide[more] <= 1.2 * wide[less], wide  # by chance
    assert wide[None] < 4


LATTICE: dict[str, tuple[Any, ...]] = {
    "max_ratio": (None, 30, 10, 5, 3, 2.44, 2, 1.5, 1.1),
    "overlap": (None, 0.01, 0.1, 0.3, 0.5, 0.7, 1.0),
    "actions": (None, 2),
    "horizon": (12, 6, 5, 3, 2, 1),
    "least_reward": (None, -0.5, 0, 0.5),
    "reward_bound": (3, 1.5, 1),
    "return_bounds": (None, (-1, 1), (0, 1), (0.3, 0.6)),
    "topology": (None, True),
}
"""Public figures, from what says least to what says most."""


def wide_of(method: str, people: int, epsilon: float, known: bool, given: dict[str, Any]) -> Any:
    """Half the widths that are expected, or None where no such request is taken."""
    figures = {name: one for name, one in given.items() if one is not None}
    bounds = figures.pop("return_bounds", None)
    if figures.pop("topology", None):
        figures |= {"topology": [[0, 0], [0, 1]], "rewards": [0.5, 1.0]}
    part = public(**figures, **({"trajectories": people} if known else {}), states=1)
    problem = OffPolicyEvaluation.model_validate(
        {**ASKED, "method": method, "return_bounds": bounds}
    )
    try:
        plan = problem.plan(part, Budget(epsilon=int(epsilon * 10**9), delta=0))
    except InvalidInput:
        return None
    if known:
        return {one.quantity: one.interval for one in problem.expected(part, plan, 0.9)}
    weighs = problem.method_for(part, method)
    low, high = weighs._bounds
    return {"value": (high - low) * weighs._with(plan.events[0], people)}


@pytest.mark.parametrize("method", ["importance_sampling", "per_decision"])
@pytest.mark.parametrize("known", [False, True])
def test_more_public_knowledge_makes_no_expected_interval_wider(method: str, known: bool) -> None:
    """Walks up the lattice of public parts, from random points, by one figure at a time."""
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(200):
        at = {name: int(rng.integers(len(levels))) for name, levels in LATTICE.items()}
        # Two actions are no bound: what they tell is bought with noise, a seventh more.
        name = str(rng.choice([one for one in LATTICE if one != "actions"]))
        if at[name] + 1 == len(LATTICE[name]):
            continue
        ends = (int(rng.choice([60, 500, 2000, 20_000])), float(rng.choice([0.1, 1, 4])), known)
        less, more = (
            wide_of(method, *ends, {one: LATTICE[one][place] for one, place in here.items()})
            for here in (at, {**at, name: at[name] + 1})
        )
        if less is None or more is None:
            continue
        compared += 1
        for quantity in less:
            assert more[quantity] <= less[quantity] * (1 + 1e-9), (at, name, quantity)
    assert compared > 25


def test_an_answer_is_noise_where_it_leaves_open_which_policy_is_better() -> None:
    """Whatever the values' own sizes: both are known to a few per cent of their range here."""
    part = public(max_ratio=1 / DRAWN, least_reward=0)
    same = trial(2000, 1)
    same["target"] = same["behaviour"]
    open_, told = answered(part, same, 1, 5), answered(part, trial(4000, 1), 1, 5)
    for found, noise in ((open_, True), (told, False)):
        said = found["uncertainty"]
        ends = said["values"]["difference"]
        assert (ends["lower"] < 0 < ends["upper"]) == noise
        assert said["mostly_noise"] == said["noise_dominates"]["difference"] == noise
        assert not said["noise_dominates"]["policy_value"]


def test_the_audit_attacks_a_release_whose_weights_are_not_cut_off() -> None:
    """Its worst case has enough trajectories for that, whatever their number is noised to."""
    cases = {case.name: case for case in worst_cases("off_policy_evaluation")}
    case = cases["off_policy_evaluation, importance sampling, public rules, added"]
    for seed in range(20):
        released = case.problem.release(case.public, case.plan, case.left, Noise.seeded(seed))
        found = case.problem.finish(case.public, case.plan, released, lambda step, total: None)
        assert found.to_json()["largest_weight"] == pytest.approx(case.public.largest_weight)


def test_a_plan_says_how_many_people_it_takes_until_nothing_is_cut_off() -> None:
    part = public(max_ratio=RULE_RATIO, horizon=RULE_HORIZON)
    problem = OffPolicyEvaluation.model_validate(ASKED)
    known = part.model_copy(update={"trajectories": 100, "neighbours": "replace"})
    for each in (part, known):
        told = problem.plan(each, Budget(epsilon=10**9, delta=0)).advice
        (clipped,) = (one for one in told if one.startswith("weights of whole trajectories"))
        assert "at one of 10 values from 1.41 to 27, which the release chooses" in clipped
        assert "trajectories on none is cut off" in clipped
    enough = public(max_ratio=RULE_RATIO, horizon=RULE_HORIZON, trajectories=2000)
    told = problem.plan(enough, Budget(epsilon=10**9, delta=0)).advice
    assert any("no weight can be larger than 27, by max_ratio or overlap" in one for one in told)


def test_a_ratio_beyond_the_public_one_is_refused_with_its_row() -> None:
    rows = [
        {"trajectory": one, "step": 0, "state": 0, "next_state": 0, "reward": 0, "terminal": True}
        | {"behaviour": 0.5, "target": target}
        for one, target in enumerate((0.75, 0.76))
    ]
    asked = {
        "name": "a",
        "kind": "off_policy_evaluation",
        "public": {},
        "content": {"transitions": rows},
    }
    asked["public"] = public(max_ratio=1.5).model_dump(exclude_none=True)
    with pytest.raises(InvalidInput) as refused:
        OffPolicyDataset.model_validate({**asked, "cap": {"epsilon": 1}}).rows()
    (issue,) = refused.value.issues
    assert issue.pointer == "/content/transitions/1/target"
    assert "public.max_ratio allows at most 1.5 x behaviour; found 0.76" in issue.detail


def test_a_plan_foretells_what_is_cut_off_of_long_episodes() -> None:
    """Half are treated in each of 14 visits: 1 in 16,384 always, weighs as much, and of the mean of
    weights 1 - c/16,384 is above the clip c. Over 4 visits with 2/3 no weight is above 5.06, and
    nothing is said; nor over 8 visits, where the release may choose the largest weight."""

    def plan(part: OffPolicyPublic, **asked: Any) -> Any:
        problem = OffPolicyEvaluation.model_validate({**ASKED, **asked})
        return problem.plan(part, Budget(epsilon=10**9, delta=0))

    long = {"max_ratio": 2, "horizon": 14}
    for part, asked in (
        (public(**long), {}),
        (public(**long, trajectories=800), {}),
        (public(**long), {"max_importance": 20}),
    ):
        found = plan(part, **asked)
        cap = found.parameters["max_importance"] or 256
        (says,) = (one for one in found.advice if one.startswith("over 14 steps"))
        assert f"as large as {plain(2**14, 3)} (" in says
        assert f"clipped at {plain(cap, 3)}" in says
        weights = np.where(np.arange(2**14) == 0, 2.0**14, 0.0)
        assert f"up to {percent(float(np.maximum(weights - cap, 0).mean()))} of the weights" in says
    never = {"max_ratio": 2, "horizon": 8000}
    eight = public(max_ratio=2, horizon=8)
    for part in (public(max_ratio=1 / DRAWN), public(), public(**never), eight):
        assert not any(one.startswith("over ") for one in plan(part).advice)


def test_lots_that_were_not_drawn_so_are_doubted_and_true_ones_are_not() -> None:
    """With 0.5 in the place of 2/3 weights have the mean (4/3)^4 = 3.2; with 0.9, the mean 0.3. Of
    400 trials with true ones each, with and without public rules, one in a hundred may be doubted,
    and 9 or more of 400 with probability 2 %."""
    for said, rules in (
        (0.5, public(max_ratio=2)),
        (0.5, public()),
        (0.9, public(max_ratio=1 / 0.9)),
    ):
        for seed in range(20):
            found = answered(rules, trial(600, seed, said), seed)
            assert "behaviour probabilities" in found["doubt"], (said, seed)
            (first, *_) = headlines_of({"kind": "off_policy_evaluation"}, found)
            assert first.text == found["doubt"]
    for rules in (public(max_ratio=1 / DRAWN), public()):
        doubted = sum(
            "doubt" in answered(rules, trial(300, seed), seed, 0.5) for seed in range(400)
        )
        assert doubted <= 8


def test_rewards_count_alike_with_discount_1() -> None:
    assert public().returns(1.0) == (-HORIZON, HORIZON)
    content = trial(20_000, 2)
    found = answered(public(max_ratio=1 / DRAWN), content, 2, 4)
    assert found["policy_value"] == pytest.approx(TRUTH, abs=0.03)
    problem = {"kind": "off_policy_evaluation", "discount": 1}
    assert "discount" not in headlines_of(problem, found)[0].text
    assert (
        "each step later discounted by 0.9"
        in headlines_of({**problem, "discount": 0.9}, found)[0].text
    )
    for method in ("moments", "minibatch"):
        asked = OffPolicyEvaluation.model_validate(
            {**ASKED, "return_bounds": None, "method": method}
        )
        with pytest.raises(InvalidInput) as refused:
            asked.plan(public(off_policy=None), Budget(epsilon=10**9, delta=10**12))
        assert any("only importance_sampling and" in one.detail for one in refused.value.issues)


def test_no_score_is_needed_of_whom_no_value_function_is_asked(tmp_path: Path) -> None:
    """Visits with dates, treatments and outcomes alone: the same content as with one state written
    out."""
    table = tmp_path / "visits.csv"
    table.write_text("pid;date;arm;well\na;1;treat;nein\na;2;wait;ja\nb;1;wait;0\nb;2;treat;Nein\n")
    rules = {
        "behaviour": {"treat": 2 / 3, "wait": 1 / 3},
        "target": {"treat": 1, "wait": 0},
        "last_row": "terminal",
    }
    said = {"unit": "trajectory", "reward_bound": 1, "horizon": 2, "reader": rules}
    columns = {"patient": "pid", "time": "date", "action": "arm", "reward": "well"}
    reading = readers.read("off_policy_evaluation", table, said, columns)
    assert reading.public["max_ratio"] == pytest.approx(1.5)
    assert reading.public["target_policy"] == "always treat"
    assert sorted(reading.columns["reward"].tolist()) == [0, 0, 0, 1]
    known = OffPolicyDataset.read_public(
        {name: one for name, one in reading.public.items() if name != "reader"}
    )
    assert known.states == 1
    rows = {
        name: column
        for name, column in reading.columns.items()
        if name not in ("state", "next_state")
    }
    (few, whole) = (
        OffPolicyDataset.read_table(known, pa.table(one)) for one in (rows, reading.columns)
    )
    assert few.keys() == whole.keys()
    assert all((few[name] == whole[name]).all() for name in few)
    lines = [
        dict(zip(rows, line, strict=True))
        for line in zip(*(one.tolist() for one in rows.values()), strict=True)
    ]
    content = OffPolicyContent.model_validate({"transitions": lines})
    assert all(
        (one == few[name]).all() for name, one in OffPolicyDataset.read_rows(known, content).items()
    )
    with pytest.raises(InvalidInput, match="needed in every row"):
        OffPolicyDataset.read_rows(known.model_copy(update={"states": 2}), content)


RULE = "age >= 65 -> treat, else wait"
OLD, HELPED = 0.4, 0.5
"""How many are old; the chance to be well that treatment adds to those, which it takes from the
young."""


def ruled(
    people: int, seed: int, target: Any, *, leaks: bool = False
) -> tuple[OffPolicyPublic, Content]:
    """One visit each of a trial that treats half, of which the client's reader makes the content.
    `leaks`: age is written down after the treatment, which makes people older."""
    generator = np.random.default_rng(seed)
    treated, old = generator.random(people) < 0.5, generator.random(people) < OLD
    well = generator.random(people) < 0.4 + np.where(old, HELPED, -0.3) * treated
    table = {
        "patient": 10**6 + np.arange(people),
        "time": np.zeros(people),
        "age": np.where(old | (leaks & treated), 80, 50),
        "action": np.where(treated, "treat", "wait").astype(object),
        "reward": well.astype(float),
    }
    reader = {"behaviour": {"treat": 0.5, "wait": 0.5}, "target": target}
    said = {
        "unit": "trajectory",
        "reward_bound": 1,
        "least_reward": 0,
        "horizon": 1,
        "reader": reader,
    }
    reading = readers.read(
        "off_policy_evaluation", table, said, {"age": "age"} if isinstance(target, str) else {}
    )
    known = OffPolicyDataset.read_public({**reading.public, "off_policy": True})
    return known, OffPolicyDataset.read_table(known, pa.table(reading.columns))


def test_a_rule_on_features_is_worth_what_it_is_worth() -> None:
    """0.4 for all, and half as much again for the old, whom alone it treats."""
    truth = 0.4 + OLD * HELPED
    held = 0
    for seed in range(10):
        found = answered(*ruled(4000, seed, RULE), seed, 2)
        held += found["robust_bounds"]["lower"] <= truth <= found["robust_bounds"]["upper"]
        assert found["policy_value"] == pytest.approx(truth, abs=0.06)
        assert found["target_policy"] == RULE
        assert "doubt" not in found
    assert held >= 8
    assert RULE in headlines_of({"kind": "off_policy_evaluation", "discount": 1}, found)[0].text


def test_a_rule_costs_what_other_policies_cost_and_is_signed_with_the_plan() -> None:
    """Its text is among the assumptions, which certificates sign, and in the result, whose digest
    they hold."""
    problem = OffPolicyEvaluation.model_validate({**ASKED, "return_bounds": None})
    by_rule, by_action = (
        problem.plan(ruled(100, 1, target)[0], Budget(epsilon=10**9, delta=0))
        for target in (RULE, {"treat": 1, "wait": 0})
    )
    assert by_rule.events == by_action.events
    assert by_rule.price == by_action.price
    assert f"the target policy is, as the dataset's owner says: {RULE}" in by_rule.assumptions
    assert (
        "the target policy is, as the dataset's owner says: always treat" in by_action.assumptions
    )
    on_policy = public(off_policy=False, target_policy=RULE)
    assert not on_policy.told_target


def test_a_rule_by_what_was_measured_after_the_treatment_is_doubted() -> None:
    """Whoever was treated counts as old: weights are no longer 1 in the mean, and nobody would know
    why."""
    for seed in range(3):
        found = answered(*ruled(4000, seed, RULE, leaks=True), seed, 2)
        assert (
            "or the target policy goes by what was measured after the treatment" in found["doubt"]
        )


@pytest.mark.parametrize("letter", ["\u202e", "\x07", "\u200b", "\u2028"])
def test_words_of_a_policy_hold_no_letter_that_cannot_be_seen(letter: str) -> None:
    """Answers say them: a letter that turns others about would have two people read two rules."""
    with pytest.raises(ValidationError, match=f"the character U\\+{ord(letter):04X} is invisible"):
        public(target_policy=f"tre{letter}at the old")
    stored = public(target_policy="treat the old").model_dump(mode="json")
    stored["target_policy"] = f"tre{letter}at the old"
    with pytest.raises(ValidationError, match="is invisible"):
        OffPolicyDataset.read_public(stored)  # of a source that is made
    assert public(target_policy="lactate ≥ 2 → traiter, sinon «rien»").target_policy

"""Policies that are rules on features: their language, what they choose, what the reader makes of
them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet_client import feature_rules, readers
from discreet_client.feature_rules import Comparison, Joined, Not, Rule, parse
from discreet_client.reading import Reading
from discreet_client.tables import TableError

ASKED = "age >= 65 and pressure > 140 -> treat, else none"
HALVES = {"treat": 0.5, "none": 0.5}
PUBLIC = {"unit": "trajectory", "reward_bound": 1, "horizon": 3}

NAMES = st.sampled_from(
    ["age", "Blood pressure", "x.1", "pressure (mmHg)", "and so", "Größe", "a-b", "2nd"]
)
TEXTS = st.sampled_from(["yes", "no", "stage II", "not improved", "a, b", "65", "5.0"])
NUMBERS = st.sampled_from(["65", "-1.5", ".5", "140.", "+1"])
COMPARISONS = st.one_of(
    st.builds(
        Comparison, NAMES, st.sampled_from(list(feature_rules.SIGNS)), NUMBERS, st.just(True)
    ),
    st.builds(
        Comparison, NAMES.map("t {}".format), st.sampled_from(["=", "!="]), TEXTS, st.just(False)
    ),
)


def joined(word: str, parts: list[Any]) -> Any:
    """As the parser has it: what is joined by the same word stands in one list."""
    flat = [
        one
        for part in parts
        for one in (part.parts if getattr(part, "word", "") == word else (part,))
    ]
    return flat[0] if len(flat) == 1 else Joined(word, tuple(flat))


CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(joined, st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)),
        inner.map(lambda one: one.part if isinstance(one, Not) else Not(one)),
    ),
    max_leaves=6,
)
RULES = st.builds(Rule, st.lists(st.tuples(CONDITIONS, TEXTS), max_size=3).map(tuple), TEXTS)


@given(RULES)
@settings(deadline=None, max_examples=200)
def test_a_rule_is_read_as_it_is_written(rule: Rule) -> None:
    """What is published is what is evaluated."""
    if len(str(rule)) <= feature_rules.LONGEST:
        assert parse(str(rule), "rule") == rule
        assert str(parse(str(rule), "rule")) == str(rule)


def test_the_first_condition_that_holds_says_what_is_done() -> None:
    text = "not (age>=65 or sex = f) -> A; age ≥ 80 and (sex != f or age < 90) -> B 12, else C"
    rule = parse(text, "rule")
    assert rule.features == ("age", "sex")
    assert rule.actions == ("A", "B 12", "C")
    ages, sexes = (
        grid.ravel()
        for grid in np.meshgrid([10.0, 65.0, 80.0, 95.0], np.array(["f", "m"], dtype=object))
    )
    chosen = rule.chosen({"age": ages, "sex": sexes}, ages.size)
    for age, sex, found in zip(ages, sexes, chosen, strict=True):
        first = "A" if not (age >= 65 or sex == "f") else "C"
        assert found == ("B 12" if age >= 80 and (sex != "f" or age < 90) else first)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a rule is needed, such as"),
        ("treat", "at the end: a feature is followed by one of >=, >, <=, <, =, !="),
        ("age >= 65", "at the end: a condition is followed by -> and an action"),
        (
            "age >= 65 -> treat",
            "at the end: an action is followed by a comma, and the last one by else and an action",
        ),
        ("age >= 65 -> treat, else", "at the end: the action after else is needed here"),
        (
            "age => 65 -> treat, else wait",
            "at '> 65 -> treat, else', letter 6: a number or a text is needed here",
        ),
        (
            "age >= 65 & p > 1 -> a, else b",
            "at '& p > 1 -> a, else b', letter 11: this is neither a name, a number",
        ),
        ("age >= old -> a, else b", "a text can be compared only by = or !="),
        (
            "age >= 65 p > 1 -> a, else b",
            "a number is followed by and, or, -> or a closing parenthesis",
        ),
        ("(age >= 65 -> a, else b", "a closing parenthesis is needed here"),
        ("age >= 65 -> a, else b, else c", "nothing may follow the action after else"),
        (
            "age >= 65,5 -> a, else b",
            "at ',5 -> a, else b', letter 10: a number has a decimal point here",
        ),
        (
            "x = 1 or x = one -> a, else b",
            "x is compared with a number and with a text: it can be one of the two",
        ),
        ("(" * 50 + "x = 1" + ")" * 50 + " -> a, else b", "nested in too many parentheses"),
        (f"{'long ' * 50} > 1 -> a, else b", "a rule has at most 200 characters"),
        ('age > 65 -> "tre\u202eat", else b', "the character U+202E is invisible, and everybody"),
        ('"a\x07ge" > 65 -> treat, else b', "letter 3: the character U+0007 is invisible"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(TableError) as refused:
        parse(text, "reader.target")
    assert says in str(refused.value)
    assert str(refused.value).startswith("reader.target")


def visits(rows: int = 400, seed: int = 3) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "patient": np.repeat(1000 + np.arange(rows // 2), 2),
        "time": np.tile([0, 1], rows // 2),
        "Age": random.integers(20, 90, rows),
        "pressure": random.normal(140, 20, rows).round(1),
        "diabetes": random.choice(["yes", "no"], rows).astype(object),
        "action": random.choice(["treat", "none"], rows).astype(object),
        "reward": random.choice(["improved", "worse"], rows).astype(object),
    }


def read(
    table: dict[str, Any], target: Any = ASKED, behaviour: Any = HALVES, **rules: Any
) -> Reading:
    reader = {
        "behaviour": behaviour,
        "target": target,
        "rewards": {"improved": 1, "worse": 0},
        **rules,
    }
    columns = {"age": "Age"} if "age" in str(target) else {}
    return readers.read("off_policy_evaluation", table, {**PUBLIC, "reader": reader}, columns)


def test_the_reader_makes_probabilities_of_a_rule() -> None:
    table = visits()
    found = read(table, "age >= 65 and pressure > 140 or diabetes = yes -> treat, else none")
    follows = ((table["Age"] >= 65) & (table["pressure"] > 140)) | (table["diabetes"] == "yes")
    assert 0.2 < follows.mean() < 0.8
    np.testing.assert_array_equal(
        found.columns["target"], (table["action"] == np.where(follows, "treat", "none")) * 1.0
    )
    np.testing.assert_array_equal(found.columns["reward"], (table["reward"] == "improved") * 1.0)
    assert set(found.columns) == {
        *("trajectory", "step", "state", "next_state", "reward", "terminal", "behaviour", "target")
    }  # and no feature is sent
    assert (
        found.public["target_policy"]
        == "(age >= 65 and pressure > 140) or diabetes = yes -> treat, else none"
    )
    assert found.public["max_ratio"] == 2
    assert not found.notes


def test_what_a_rule_says_of_nobody_is_told_to_the_owner() -> None:
    found = read(visits(), "diabetes = ja -> treat, else none")
    assert found.notes == ["reader.target: no visit has diabetes = 'ja'"]
    found = read(
        visits(), "age >= 65 -> operate, else none", {"treat": 0.4, "none": 0.4, "operate": 0.2}
    )
    assert found.notes == ["reader.target: no visit has the action 'operate'"]
    assert found.public["max_ratio"] == 5


def test_a_patient_is_read_by_that_patients_rows_alone() -> None:
    """Without some other patient each of the others has the same steps, also where values are
    carried over."""
    table = visits()
    table["pressure"][1::2][::3] = np.nan
    whole = read(table, missing="carry").columns
    kept = table["patient"] != 1007
    part = read({name: values[kept] for name, values in table.items()}, missing="carry").columns
    mine = whole["trajectory"] != 7
    for name in ("reward", "behaviour", "target", "terminal"):
        np.testing.assert_array_equal(part[name], whole[name][mine])
    carried = table["pressure"].copy()
    carried[1::2] = np.where(np.isnan(carried[1::2]), carried[::2], carried[1::2])
    follows = (table["Age"] >= 65) & (carried > 140)
    np.testing.assert_array_equal(
        whole["target"], (table["action"] == np.where(follows, "treat", "none")) * 1.0
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"target": "weight > 80 -> treat, else none"},
            "no column weight; columns are: patient, time, Age",
        ),
        (
            {"target": "reward = improved -> treat, else none"},
            "known before it is decided, and reward is none",
        ),
        ({"target": "age > 65 -> treat, " * 30_000 + "else none"}, "at most 200 characters"),
        (
            {"target": "age > 65 -> operate, else none"},
            "'operate', which reader.behaviour never does: what nobody",
        ),
        (
            {"target": "age > 65 -> treat, else none", "behaviour": {"treat": 0, "none": 1}},
            "takes 'treat', which",
        ),
        (
            {"target": "diabetes > 65 -> treat, else none"},
            "row 0, column diabetes: a number is needed ",
        ),
        (
            {"target": ASKED, "behaviour": ASKED},
            "reader.behaviour: the probability of each action is needed",
        ),
        ({"target": 7}, "or a rule on features, such as"),
    ],
)
def test_what_a_rule_cannot_be_is_refused(changes: Any, says: str) -> None:
    with pytest.raises(TableError, match=re.escape(says)):
        read(visits(), **changes)


def test_the_least_reward_follows_from_what_outcomes_count() -> None:
    """By the public rule alone: not by what the table holds, and never against what is said."""
    assert read(visits()).public["least_reward"] == 0
    assert "least_reward" not in read(visits(), rewards={"improved": 1, "worse": -1}).public
    reader = {"rewards": {"improved": 1, "worse": 0}}
    public = {**PUBLIC, "least_reward": -1, "reader": reader}
    assert readers.read("off_policy_evaluation", visits(), public, {}).public["least_reward"] == -1
    numbers = {**visits(), "reward": np.ones(400)}
    found = readers.read("off_policy_evaluation", numbers, {**PUBLIC, "reader": {}}, {})
    assert "least_reward" not in found.public


@pytest.mark.parametrize(
    ("rule", "columns", "says"),
    [
        (
            "Outcome = improved -> treat, else none",
            {"reward": "Outcome"},
            "Outcome, which is the reward",
        ),
        (
            "well = improved -> treat, else none",
            {"reward": "Outcome", "well": "Outcome"},
            "well, which is the reward",
        ),
        ("arm = treat -> treat, else none", {"arm": "action"}, "arm, which is the action"),
        (
            "Day = x -> treat, else none",
            {"reward": "Outcome", "time": "Day+Clock"},
            "Day, which is the time",
        ),
    ],
)
def test_a_rule_does_not_go_by_what_comes_after_under_another_name(
    rule: str, columns: dict[str, str], says: str
) -> None:
    """The user's own name of the outcome, of the treatment or of the patient is no feature."""
    table = visits()
    if "reward" in columns:
        table["Outcome"] = table.pop("reward")
    if "+" in columns.get("time", ""):
        table |= {"Day": table.pop("time"), "Clock": np.full(400, "10:00", dtype=object)}
    reader = {"behaviour": HALVES, "target": rule, "rewards": {"improved": 1, "worse": 0}}
    with pytest.raises(TableError, match=f"known before it is decided, and {says}, is none"):
        readers.read("off_policy_evaluation", table, {**PUBLIC, "reader": reader}, columns)


def test_a_rule_and_what_is_said_of_it_do_not_differ() -> None:
    reader = {"behaviour": HALVES, "target": ASKED, "rewards": {"improved": 1, "worse": 0}}
    public = {**PUBLIC, "target_policy": "treat the old", "reader": reader}
    with pytest.raises(TableError, match=r"target_policy is what the rule in reader\.target says"):
        readers.read("off_policy_evaluation", visits(), public, {"age": "Age"})
    with pytest.raises(TableError, match="a column target beside this rule"):
        read({**visits(), "target": np.full(400, 0.5)})


def test_names_of_actions_are_names() -> None:
    """`12` and `12.0` are one action, as in the tables of probabilities."""
    table = {**visits(), "action": np.tile([12.0, 7.0], 200)}
    found = read(table, 'age >= 0 -> "12", else "7.0"', {"12": 0.5, "7": 0.5})
    np.testing.assert_array_equal(found.columns["target"], np.tile([1.0, 0.0], 200))


def test_of_two_conditions_that_hold_the_first_counts() -> None:
    rule = parse("age >= 80 -> A, age >= 65 -> B, else C", "rule")
    assert rule.chosen({"age": np.array([90.0, 70.0, 20.0])}, 3).tolist() == ["A", "B", "C"]

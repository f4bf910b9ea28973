"""Behaviour probabilities that cannot be right are told to the owner when the data are
registered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.isolation import partitions
from discreet.problems.off_policy_evaluation import propensities
from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset
from discreet.usecases.places.reading import untold

PUBLIC = {"unit": "trajectory", "reward_bound": 1, "horizon": 6}


def table(
    people: int,
    seed: int,
    treats: float,
    said: Any = None,
    target: float = 1.0,
    visits: int = 1,
) -> dict[str, Any]:
    """Columns of a trial that treats with probability `treats`; `said`: what stands in the column
    behaviour, by treatment."""
    rng = np.random.default_rng(seed)
    treated = rng.random(people * visits) < treats
    true = np.where(treated, treats, 1 - treats)
    return {
        "trajectory": np.repeat(np.arange(people), visits),
        "step": np.tile(np.arange(visits), people),
        "reward": rng.random(people * visits),
        "terminal": np.tile(np.arange(visits) == visits - 1, people),
        "behaviour": true if said is None else said(treated, true),
        "target": np.where(treated, target, 1 - target),
    }


def sums_of(columns: dict[str, Any], **more: Any) -> Any:
    public = OffPolicyDataset.read_public({**PUBLIC, **more})
    content = OffPolicyDataset.read_table(public, pa.table(columns))
    return OffPolicyDataset.doubt_sums(public, content)


def found(columns: dict[str, Any], **more: Any) -> list[str]:
    return [issue.detail for issue in OffPolicyDataset.doubts(sums_of(columns, **more))]


def always(said: float) -> Any:
    return lambda treated, true: np.full(true.size, said)


WRONG: dict[str, tuple[float, Any, float, int, float | None]] = {
    "P(B) in all rows, the rare one": (0.8, always(0.2), 1.0, 1, None),
    "P(B) in all rows, the common one": (0.2, always(0.8), 1.0, 1, None),
    "P(B) in all rows, a mild target": (0.8, always(0.2), 0.6, 4, None),
    "drawn by 2/3, said 1/2": (2 / 3, always(0.5), 1.0, 4, None),
    "too large ones": (2 / 3, lambda treated, true: np.where(treated, 0.9, 0.1), 1.0, 4, 1.5),
    "those of the other": (0.7, lambda treated, true: 1 - true, 0.9, 2, None),
    "per cent of per cent": (0.5, lambda treated, true: true / 100, 0.9, 2, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_probabilities_that_cannot_be_right_are_found(case: str) -> None:
    treats, said, target, visits, most = WRONG[case]
    for seed in range(5):
        sums = sums_of(table(400, seed, treats, said, target, visits), max_ratio=most)
        issues = OffPolicyDataset.doubts(sums)
        (says,) = [issue.detail for issue in issues]
        assert "target / behaviour has mean 1" in says
        assert "accept_doubts" in says
        told = untold(InvalidInput(issues), "off_policy_evaluation").detail  # read from a place
        assert "column 'behaviour': target / behaviour must have mean 1" in told
        assert "found" not in told


def test_columns_that_were_swapped_are_found() -> None:
    columns = table(400, 1, 0.7, None, 0.9, 2)
    columns["target"], columns["behaviour"] = columns["behaviour"], columns["target"]
    assert found(columns)


def test_right_probabilities_are_not_doubted() -> None:
    """Rare actions and long episodes too, whose weights have means far from 1 by chance, and
    rounded ones."""
    for seed in range(15):
        for people in (1, 5, 40, 2000):
            for treats, target, visits in (
                (0.5, 1.0, 1),
                (0.02, 1.0, 1),
                (0.002, 0.9, 1),
                (0.5, 1.0, 6),
                (0.1, 0.9, 6),
                (0.9, 0.1, 6),
            ):
                most = max(target / treats, (1 - target) / (1 - treats))
                for known in (None, most):
                    rows = table(people, seed, treats, None, target, visits)
                    assert not found(rows, max_ratio=known)
    rounded = table(20_000, 1, 1 / 3, lambda treated, true: np.round(true, 2), 1.0, 6)
    assert not found(rounded)
    assert not found(rounded, max_ratio=1 / 0.33)


@pytest.mark.parametrize("actions", [2, 3, 6])
def test_of_right_probabilities_the_wealth_of_a_bet_has_mean_one_at_most(actions: int) -> None:
    """Whatever the number of actions, their probabilities and what the target prefers: exactly, by
    summing over the action of one row, of which many rows are products."""
    rng = np.random.default_rng(actions)
    for _ in range(300):
        behaviour = rng.dirichlet(np.full(actions, 0.3)).clip(1e-9)
        behaviour /= behaviour.sum()
        target = rng.permutation(behaviour) if rng.random() < 0.5 else np.eye(actions)[0]
        for most in (None, float((target / behaviour).max())):
            mean = sum(
                chance * np.exp(propensities.sums_of(one_row(chance, aim), most)[5:])
                for chance, aim in zip(behaviour, target, strict=True)
            )
            assert mean.max() <= 1 + 1e-9
            wins = mean.reshape(3, -1)[:2]  # both bets on the ratio are fair
            assert wins == pytest.approx(np.ones_like(wins))


def one_row(behaviour: float, target: float) -> Any:
    return {
        "start": np.array([0, 1]),
        "behaviour": np.array([behaviour]),
        "target": np.array([target]),
    }


@pytest.mark.parametrize("actions", [2, 3, 6])
def test_right_probabilities_of_many_actions_are_not_doubted(actions: int) -> None:
    """600 sets each, of 5 to 500 people: one in a million may be. By the rule before, which was
    exact for two actions, 47 of three and 56 of six were."""
    rng = np.random.default_rng(10 + actions)
    for number in range(600):
        rare = 10.0 ** -rng.uniform(0.3, 3)
        behaviour = np.append(rare, rng.dirichlet(np.ones(actions - 1)) * (1 - rare))
        target = np.eye(actions)[0] if number % 3 == 0 else rng.dirichlet(np.ones(actions))
        people = int(rng.integers(5, 500))
        took = rng.choice(actions, people, p=behaviour)
        content = {
            "start": np.arange(people + 1),
            "behaviour": behaviour[took],
            "target": target[took],
        }
        for most in (None, float((target / behaviour).max())):
            assert not propensities.issues(propensities.sums_of(content, most))


def test_visits_after_the_first_that_the_target_would_not_make_do_not_count() -> None:
    """Their weights are 0 whatever stands there."""
    columns = table(3000, 1, 0.5, None, 1.0, 6)
    off = np.cumsum((columns["target"] == 0).reshape(-1, 6), axis=1) > 0
    columns["target"] = np.where(off, 0.0, columns["target"].reshape(-1, 6)).ravel()
    assert not found(columns)


def test_parts_of_a_content_are_judged_together() -> None:
    """The sums of parts are those of the whole, to rounding."""
    public = OffPolicyDataset.read_public(PUBLIC)
    rows = table(500, 1, 0.3, None, 0.9, 4)
    whole = OffPolicyDataset.read_table(public, pa.table(rows))
    content = partitions.PartedContent("start", -1)
    for first in range(0, 2000, 400):
        part = pa.table({name: one[first : first + 400] for name, one in rows.items()})
        content.judge_by(propensities.sums_of(OffPolicyDataset.read_table(public, part), None))
    assert content.doubt_sums == pytest.approx(propensities.sums_of(whole, None), rel=1e-9)


def test_a_rare_action_that_nobody_drew_is_no_doubt_unless_it_must_have_been_drawn() -> None:
    """Of five actions the target always takes one of probability .01, which none of 50 people drew:
    that is chance. Of 5,000 it is not, if the owner says that no ratio is above 100."""
    for people, most, doubted in ((50, None, 0), (50, 100, 0), (5000, None, 0), (5000, 100, 1)):
        content = {
            "start": np.arange(people + 1),
            "behaviour": np.full(people, 0.2475),
            "target": np.zeros(people),
        }
        found = propensities.issues(propensities.sums_of(content, most))
        assert len(found) == doubted, (people, most)

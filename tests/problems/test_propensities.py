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


def sums_of(columns: dict[str, Any]) -> Any:
    public = OffPolicyDataset.read_public(PUBLIC)
    content = OffPolicyDataset.read_table(public, pa.table(columns))
    return OffPolicyDataset.doubt_sums(public, content)


def found(columns: dict[str, Any]) -> list[str]:
    return [issue.detail for issue in OffPolicyDataset.doubts(sums_of(columns))]


def always(said: float) -> Any:
    return lambda treated, true: np.full(true.size, said)


WRONG: dict[str, tuple[float, Any, float, int]] = {
    "P(B) in all rows, the rare one": (0.8, always(0.2), 1.0, 1),
    "P(B) in all rows, the common one": (0.2, always(0.8), 1.0, 1),
    "P(B) in all rows, a mild target": (0.8, always(0.2), 0.6, 4),
    "drawn by 2/3, said 1/2": (2 / 3, always(0.5), 1.0, 4),
    "too large ones": (2 / 3, lambda treated, true: np.where(treated, 0.9, 0.1), 1.0, 4),
    "those of the other": (0.7, lambda treated, true: 1 - true, 0.9, 2),
}


@pytest.mark.parametrize("case", WRONG)
def test_probabilities_that_cannot_be_right_are_found(case: str) -> None:
    treats, said, target, visits = WRONG[case]
    for seed in range(5):
        (says,) = found(table(400, seed, treats, said, target, visits))
        assert "target / behaviour has mean 1" in says
        assert "accept_doubts" in says
        issues = OffPolicyDataset.doubts(sums_of(table(400, seed, treats, said, target, visits)))
        told = untold(InvalidInput(issues), "off_policy_evaluation").detail  # read from a place
        assert "column 'behaviour': target / behaviour must have mean 1" in told
        assert "found" not in told


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
                assert not found(table(people, seed, treats, None, target, visits))
    rounded = found(table(20_000, 1, 1 / 3, lambda treated, true: np.round(true, 2), 1.0, 6))
    assert not rounded


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
        content.judge_by(propensities.sums_of(OffPolicyDataset.read_table(public, part)))
    assert content.doubt_sums == pytest.approx(propensities.sums_of(whole), rel=1e-9)


def test_a_doubt_says_that_more_actions_than_two_may_explain_it() -> None:
    """Right probabilities: of five actions the target always takes one that has .01, and none of 50
    people drew it. Rows cannot tell that from wrong ones, so the sentence says so."""
    content = {
        "start": np.arange(51),
        "behaviour": np.full(50, 0.2475),
        "target": np.zeros(50),
    }
    (found,) = propensities.issues(propensities.sums_of(content))
    assert "if there are two actions; of more, rare ones may be why" in found.detail

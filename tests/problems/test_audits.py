"""The audit of whole releases: honest ones hold, half the noise and a forgotten clip are caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.privacy.noise import Noise
from discreet.problems import KINDS
from discreet.problems.audits import audit_release
from discreet.problems.base import Neighbours
from discreet.usecases import audits
from discreet.usecases.audits import run_audits

CASES = [case for kind in KINDS.values() for case in kind.worst_cases()]
SAMPLES = 5000
MORE_SAMPLES = {"off_policy_evaluation, moments, tabular, replaced": 25_000}
"""Where the distance is spread evenly over four coordinates, each of which says little."""


def samples_for(case: Neighbours) -> int:
    return MORE_SAMPLES.get(case.name, SAMPLES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_honest_releases_hold_and_the_bound_is_near(case: Neighbours) -> None:
    found = audit_release(case, samples=samples_for(case), confidence=1 - 1e-6, noise=Noise.seeded(1))
    assert found.verdict == "holds"
    assert found.lower_bound > 0.1 * found.price_epsilon or not case.near


@pytest.mark.parametrize("case", [case for case in CASES if case.near], ids=lambda case: case.name)
def test_half_the_noise_is_caught(case: Neighbours) -> None:
    halves = tuple(event.less_noise(2) for event in case.plan.events)
    weaker = case.plan.model_copy(update={"events": halves})
    assert audit_release(case, samples=samples_for(case), played=weaker, noise=Noise.seeded(2)).verdict == "violated"


def test_a_forgotten_clip_is_caught() -> None:
    case = next(case for case in CASES if case.name == "routing, counts, unit person")
    unclipped = case.plan.model_copy(update={"parameters": {**case.plan.parameters, "max_trips_per_person": None}})
    assert audit_release(case, samples=SAMPLES, played=unclipped, noise=Noise.seeded(3)).verdict == "violated"


def test_a_field_too_many_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    kind = type(case.problem)
    honest = kind.release

    def talkative(self: Any, public: Any, plan: Any, content: Any, noise: Noise) -> Any:
        return {**honest(self, public, plan, content, noise), "rows": np.array([content["trips"][:, 3].sum()])}

    monkeypatch.setattr(kind, "release", talkative)
    assert audit_release(case, samples=SAMPLES, noise=Noise.seeded(4)).verdict == "violated"


def test_the_table_of_one_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its noise is the operating system's, and at its confidence one table of a hundred may say something else."""
    monkeypatch.setattr(audits, "CONFIDENCE", 1 - 1e-10)
    rows = list(run_audits(["discrete_laplace"], short=True, faults=True))
    assert [row.planted for row in rows] == [False, True]
    assert all(row.as_expected for row in rows)
    assert list(run_audits(["no such thing"])) == []

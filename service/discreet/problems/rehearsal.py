"""A kind's example, read and run from bytes to result, so that a child loads everything before
it drops its rights."""

from __future__ import annotations

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours, Problem
from discreet.problems.contents import pack, unpack
from discreet.problems.datasets import Dataset
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.results import Result


def read_example(kind: type[Problem]) -> tuple[Problem, Dataset | None, Budget]:
    """A kind's example as its models."""
    body = kind.example()
    dataset = None
    if kind.Dataset is not None:
        dataset = kind.Dataset.model_validate(body["problem"]["dataset"]).described()
        body["problem"]["dataset"] = "example"
    problem = kind.model_validate(body["problem"])
    privacy = Privacy.model_validate(body["privacy"]) if "privacy" in body else None
    return problem, dataset, problem.budget(privacy)


def rehearse(kind: type[Problem]) -> Result:
    """Run a kind's example and its worst cases from bytes to result, and give the example's.

    Loads all code, compiled kernels included, that a job will need, whichever of the kind's methods
    it uses.
    """
    problem, dataset, budget = read_example(kind)
    public, content = (None, {}) if dataset is None else (dataset.public, dataset.rows())
    example = Neighbours("example", problem, public, problem.plan(public, budget), content, {})
    if kind.Dataset is not None and kind.synthesis is not None:
        kind.synthesis.content(kind.Dataset, public, np.random.default_rng(0), None)
    for case in (*kind.worst_cases(), example):
        content = unpack(pack(case.left))
        for noise in (Noise.seeded(0), Noise.secure()):
            released = unpack(pack(case.problem.release(case.public, case.plan, content, noise)))
        case.problem.diagnose(case.public, case.plan, content, Noise.seeded(0))
        result = case.problem.finish(case.public, case.plan, released, lambda step, total: None)
    return result

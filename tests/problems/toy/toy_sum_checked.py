"""The toy kind releases a sum with noise of the right size."""

from __future__ import annotations

from discreet.privacy.noise import Noise
from discreet.problems.base import read_example
from discreet.problems.toy_sum.problem import ToySum


def test_the_sum_is_near() -> None:
    problem, dataset, budget = read_example(ToySum)
    assert dataset is not None
    plan = problem.plan(dataset.public, budget)
    released = problem.release(dataset.public, plan, dataset.rows(), Noise.seeded(1))
    result = problem.finish(dataset.public, plan, released, lambda step, total: None).to_json()
    assert abs(result["total"] - 15) < 9 * 21  # beyond with probability below 1e-9

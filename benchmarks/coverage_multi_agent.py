"""Multi-agent coordination, for `benchmarks.coverage`: affine constraints, whose mean is that of
the mean states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.coverage import Case
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.multi_agent.dataset import (
    MultiAgentContent,
    MultiAgentDataset,
    MultiAgentPublic,
)
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Plan

EPSILONS = (0.02, 0.1, 0.5, 2, 8)
SCHEDULE = {"gamma": 0.05, "alpha": 0.05, "c1": 0.3333, "c2": 0.25, "iterations": 2000}


def cases() -> Iterator[Case]:
    """Two agents with one constraint, and ten with three, at every epsilon."""
    rng = np.random.RandomState(18)
    for agents, shared in ((2, 1), (10, 3)):
        names = [f"x{k}" for k in range(agents)]
        weights = rng.randint(1, 4, (shared, agents))
        limits = 0.4 * 5 * weights.sum(axis=1)
        public = MultiAgentPublic.model_validate(
            {
                "unit": "trajectory",
                "agents": [{"name": name, "lower": 0, "upper": 5, "radius": 0.5} for name in names],
            }
        )
        wanted = rng.uniform(1, 5, agents)
        objectives = {
            name: f"({name} - {at:.3f})^2" for name, at in zip(names, wanted, strict=True)
        }
        content = MultiAgentDataset.read_rows(public, MultiAgentContent(objectives=objectives))
        constraints = [
            " + ".join(f"{weight} * {name}" for weight, name in zip(row, names, strict=True))
            + f" - {limit}"
            for row, limit in zip(weights, limits, strict=True)
        ]
        problem = MultiAgent.model_validate(
            {
                "kind": "multi_agent",
                "dataset": "dst_x",
                "constraints": constraints,
                "schedule": SCHEDULE,
            }
        )
        for epsilon in EPSILONS:
            plan = problem.plan(
                public, Privacy.model_validate({"epsilon": epsilon, "delta": 1e-3}).budget
            )

            exact = partial(_values, problem, public, plan, content, weights, limits)
            truth = f"{agents} agents, {shared} constraint{'s' * (shared > 1)}"
            yield Case(
                "multi_agent", "cloud", truth, epsilon, problem, public, plan, content, exact
            )


def _values(
    problem: MultiAgent,
    public: MultiAgentPublic,
    plan: Plan,
    content: Content,
    weights: Any,
    limits: Any,
    seed: int,
) -> Mapping[str, Any]:
    """The mean values of the constraints at the states that the release of this seed came by."""
    states = problem.diagnose(public, plan, content, Noise.seeded(seed))["true_mean_states"]
    return {"noisy_values": weights @ states - limits}

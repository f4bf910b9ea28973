"""A dataset of the study of Xie, Thomas & Miklau (2019) as the service registers it, with its
population's moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.privacy.attacks.printed import lemma_one_sigma
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.dataset import OffPolicyDataset, transitions_of
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.reproduce.simulators import (
    CHAIN_STATES,
    Rows,
)
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation.temporal_difference import mspbe
from discreet.solvers.evaluation.value_features import Tabular

Floats = NDArray[np.float64]
Moments = tuple[Floats, Floats, Floats]


EPSILON, DELTA = 0.1, 1e-5


@dataclass(frozen=True)
class Setting:
    """A dataset as it is registered, and A, b and C of its population."""

    public: OffPolicyPublic
    content: Content
    problem: dict[str, Any]
    moments: Moments

    def job(self, **fields: Any) -> OffPolicyEvaluation:
        body = {"kind": "off_policy_evaluation", "dataset": "example", **self.problem, **fields}
        return OffPolicyEvaluation.model_validate(body)

    def errors(self, releases: int, epsilon: float = EPSILON, **fields: Any) -> Floats:
        """float64[releases]: the MSPBE of each release of one plan."""
        job = self.job(**fields)
        plan = job.plan(self.public, Privacy(epsilon=epsilon, delta=DELTA).budget)
        found = np.empty(releases)
        for seed in range(releases):
            released = job.release(self.public, plan, self.content, Noise.seeded(seed))
            answer = job.finish(self.public, plan, released, lambda *_: None).to_json()
            found[seed] = self.mspbe(np.array(answer["weights"]))
        return found

    def errors_as_printed(self, releases: int, epsilon: float = EPSILON, **fields: Any) -> Floats:
        """float64[releases]: GPOPE with the sigma of Lemma 1. NOT private: its true epsilon is 9.8
        at epsilon .1."""
        plan = self.job(method="gradient", **fields).plan(
            self.public, Privacy(epsilon=epsilon, delta=DELTA).budget
        )
        steps, clip = plan.parameters["steps"], plan.parameters["clip"]
        moved = transitions_of(self.content, 1.0)
        found = np.empty(releases)
        for seed in range(releases):
            theta = gtd.gradient(
                moved,
                Tabular(CHAIN_STATES),
                self.problem["discount"],
                steps=steps,
                step_sizes=plan.parameters["step_size"] * (1 - np.arange(steps) / steps),
                clip=clip,
                noise_scale=clip * lemma_one_sigma(epsilon, DELTA, moved.trajectories, steps),
                generator=np.random.default_rng(seed),
            )
            found[seed] = self.mspbe(theta)
        return found

    def mspbe(self, weights: Floats) -> float:
        return mspbe(weights, *self.moments)


def registered(rows: Rows, public: dict[str, Any]) -> tuple[OffPolicyPublic, Content]:
    """Rows as a dataset with a public number of trajectories: the only form that every method
    takes."""
    columns: dict[str, Any] = {
        name: getattr(rows, name)
        for name in ("trajectory", "step", "reward", "terminal", "behaviour", "target")
        if getattr(rows, name) is not None
    }
    names = ("state", "next_state") if rows.state.ndim == 1 else ("x", "x_next")
    for name, values in zip(names, (rows.state, rows.next_state), strict=True):
        if values.ndim == 1:
            columns[name] = values
        else:
            columns |= {
                f"{name}_{axis}": np.ascontiguousarray(values[:, axis])
                for axis in range(values.shape[1])
            }
    fixed = {"unit": "trajectory", "trajectories": int(rows.trajectory[-1]) + 1}
    read = OffPolicyPublic.model_validate(fixed | public)
    content = OffPolicyDataset.read_table(read, pa.table(columns))
    return OffPolicyDataset.describe(read, content), content

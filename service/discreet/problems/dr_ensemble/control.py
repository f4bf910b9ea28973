"""What is asked about an ensemble: where power is dear, what discomfort weighs, by which policy; answered for any
transition matrix, that of a release, one that may lie behind it, or one made of public figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from discreet.problems.contents import Progress
from discreet.problems.dr_ensemble.dataset import Floats
from discreet.solvers.control import linearly_solvable_mdp as lsmdp
from discreet.solvers.control.ensemble_outcomes import outcomes

SAMPLE_SEED = 20_201_114
"""Of the draws of a sampled average policy: post-processing, public, and the same for the same release."""


@dataclass(frozen=True, eq=False)
class Control:
    """utility: float64[T, n], money; power: float64[n]; discomfort_weight: gamma, in money."""

    utility: Floats
    power: Floats
    discomfort_weight: float
    policy: Literal["exact", "taylor", "digamma", "average"] = "exact"
    concentration: float | None = None
    samples: int | None = None

    def solve(self, transitions: Floats, progress: Progress | None = None) -> lsmdp.Policy:
        """The policy of transitions float64[n, n]."""
        gamma, k = self.discomfort_weight, self.concentration
        if self.policy == "exact":
            return lsmdp.solve(transitions, self.utility, gamma, progress=progress)
        if self.policy != "average":
            kind, U = self.policy, self.utility
            return lsmdp.solve(transitions, U, gamma, weights=kind, concentration=k, progress=progress)
        assert k is not None
        generator = None if self.samples is None else np.random.default_rng(SAMPLE_SEED)
        return lsmdp.average_policy(
            transitions, self.utility, gamma, k, samples=self.samples, generator=generator, progress=progress
        )

    def load(self, moves: lsmdp.Policy | Floats, start: Floats) -> Floats:
        """Expected power float64[T] of a load that moves by a policy, or a matrix, from the distribution `start`."""
        return lsmdp.expected_power(lsmdp.propagate(start, moves, len(self.utility)), self.power)

    def time(self, moves: lsmdp.Policy | Floats, start: Floats) -> Floats:
        """float64[n]: of the steps that loads move in, the part that begins in each state."""
        shares: Floats = lsmdp.propagate(start, moves, len(self.utility))[:-1].mean(axis=0)
        return shares

    def cost_to_go(self, policy: lsmdp.Policy, transitions: Floats) -> Floats:
        """Expected cost float64[n] from each state at step 0, discomfort included."""
        cost: Floats = -lsmdp.evaluate(policy, transitions, self.utility, self.discomfort_weight)[0]
        return cost

    def saving(self, transitions: Floats, cost_to_go: Floats, start: Floats) -> float:
        """What loads left alone cost more than that."""
        alone = lsmdp.propagate(start, transitions, len(self.utility))
        return float(-(alone * self.utility).sum() - start @ cost_to_go)

    def answer(self, transitions: Floats, policy: lsmdp.Policy, start: Floats) -> dict[str, Any]:
        """The figures of a result: `expected_power`, `default_power`, `cost_to_go`, `saving`."""
        cost = self.cost_to_go(policy, transitions)
        return {
            "expected_power": self.load(policy, start),
            "default_power": self.load(transitions, start),
            "cost_to_go": cost,
            "saving": self.saving(transitions, cost, start),
        }

    def answers(self, matrices: Floats, start: Floats) -> dict[str, Floats]:
        """The same of many matrices float64[B, n, n], from `start` float64[n] or [B, n]: an axis more in front."""
        if self.policy == "exact":
            return vars(outcomes(matrices, self.utility, self.discomfort_weight, start, self.power))
        starts = np.broadcast_to(start, matrices.shape[:2])
        each = [self.answer(matrix, self.solve(matrix), own) for matrix, own in zip(matrices, starts, strict=True)]
        return {name: np.array([one[name] for one in each]) for name in each[0]}

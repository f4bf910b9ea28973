"""Importance sampling of single steps: each reward is weighted by the ratios up to its step.

It has the same seven sums, of the same sensitivity, as that of whole trajectories, of mean weights
of steps: `solvers.evaluation.importance_sampling` proves it. Early rewards are not multiplied by
the ratios of later steps, so less is clipped and the value varies less by chance.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from discreet.problems.off_policy_evaluation.expectation import cut_off
from discreet.problems.off_policy_evaluation.public import Ints
from discreet.problems.off_policy_evaluation.weighting import ImportanceSampling
from discreet.solvers.evaluation import importance_sampling as sampling
from discreet.solvers.evaluation import temporal_difference as td
from discreet_client.intervals import plain


class PerDecision(ImportanceSampling):
    """Clipped weights of single steps, their rewards, and both policies' values."""

    name = "per_decision"
    takes = frozenset()
    weighed: ClassVar[str] = "steps"

    def _sums(self, moved: td.Transitions, largest_weight: float) -> Ints:
        return sampling.per_decision_sums(
            moved,
            discount=self.asked.discount,
            bounds=self.public.rewards_with_none,
            largest_weight=largest_weight,
            horizon=self.public.horizon,
        )

    def _lost(self, cap: float, square: float) -> float:
        """The mean over steps, by their shares: a weight after t of them is at most max_ratio to
        the power of t."""
        steps, ratio = self.public.horizon, max(self.public.max_ratio or math.inf, 1.0)
        model, discount = cut_off(cap, square), self.asked.discount
        if math.isinf(ratio):
            return model
        shares = discount ** np.arange(steps)
        with np.errstate(over="ignore"):
            most = ratio ** np.arange(1.0, steps + 1)
        lost = np.clip(1 - cap / most, 0.0, model)
        return float(shares @ lost / shares.sum())

    def _said_of_range(self) -> tuple[str, ...]:
        low, high = self.public.rewards_with_none
        return (
            f"each step's reward is taken to lie between {plain(low, 3)} and {plain(high, 3)}, and "
            "noise is in proportion to what as many as the horizon add up to: where most steps "
            "have none, `importance_sampling` with `return_bounds` is more accurate",
        )

    @property
    def _bounds(self) -> tuple[float, float]:
        """The least and the most that rewards of all steps to the horizon may add up to."""
        low, high = self.public.rewards_with_none
        steps = self.public.discounted_steps(self.asked.discount)
        return low * steps, high * steps

"""Importance sampling of single steps: each reward is weighted by the ratios up to its step.

It has the same seven sums, of the same sensitivity, as that of whole trajectories, of mean weights
of steps: `solvers.evaluation.importance_sampling` proves it. Early rewards are not multiplied by
the ratios of later steps, so less is clipped and the value varies less by chance.
"""

from __future__ import annotations

from typing import ClassVar

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
    most_uncut = (3.0, 3.0)
    """Early steps are hardly clipped: a larger clip than this adds more noise than it saves."""

    def _sums(self, moved: td.Transitions, largest_weight: float) -> Ints:
        return sampling.per_decision_sums(
            moved,
            discount=self.asked.discount,
            bounds=self.public.rewards_with_none,
            largest_weight=largest_weight,
            horizon=self.public.horizon,
        )

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

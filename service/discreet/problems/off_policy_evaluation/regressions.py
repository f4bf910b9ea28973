"""Monte Carlo regressions of returns on states, with noise in units of a smooth sensitivity."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import chdtri, ndtri

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.problems.contents import Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.method import Asked, Chosen, Method, coarse
from discreet.problems.off_policy_evaluation.public import Floats, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD, Answer, Normal
from discreet.problems.plans import NoiseSummary
from discreet.problems.results import LEVEL, Expected
from discreet.solvers.evaluation import monte_carlo_regression as regression
from discreet.solvers.evaluation import temporal_difference as td
from discreet_client.intervals import percent, plain

LEAST_PENALTY = 1e-6
"""The least penalty of dp_lsl: one that vanishes beside rounding errors would let it fail where a
state is never visited."""
LEAST_SMOOTHING = 1e-7
"""The least smoothing of the regressions' sensitivity: below it the search for the largest takes
long and finds about the global one."""
DOUBT = 0.02
"""The part of the error probability of intervals that is spent on bounding the deviation by the
released weights."""
QUANTILE = float(ndtri((1 + LEVEL + DOUBT) / 2))
COARSE_VALUES = 256
"""Weights of the regressions are multiples of some 2^-30 of the reward bound: far below their
noise."""


class _Regression(Method):
    """Monte Carlo regression of returns on states, with noise in units of a smooth sensitivity."""

    tabular = True
    off_policy = False

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        dimension = self.features.dimension
        event = calibration.smooth_sensitivity_gaussian(
            budget.epsilon, budget.delta, dimension=dimension, neighbours=neighbours
        )
        if event.smoothing < LEAST_SMOOTHING:
            raise InvalidInput(
                f"{self.name} needs a larger epsilon for so many states", pointer="/privacy/epsilon"
            )
        what = (
            f"{dimension} weights, times a smooth sensitivity that depends on the data and is "
            "not published"
        )
        return event, what, ()

    def seconds(self, chosen: Chosen) -> float:
        return 60e-9 * self.public.most_rows

    def drawing_seconds(self, chosen: Chosen, event: Any) -> float:
        states = self.features.dimension
        return 5e-9 * states**3 + regression.distances(event.smoothing) * (5e-9 * states + 40e-9)

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        told = tuple(one.sentence for one in self.expected(event, epsilon, LEVEL))
        return (
            *told,
            "the error of this method depends on the data; that of `moments` is usually smaller by "
            "orders of magnitude",
        )

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        event: Any = events[0]
        public = self.public
        found = self._regress(
            moved,
            np.eye(public.states or 1),
            smoothing=event.smoothing,
            reward_bound=public.reward_bound,
            horizon=public.horizon,
        )
        deviation = event.scale * found.sensitivity
        drawn = found.theta + deviation * noise.generator().standard_normal(found.theta.size)
        return {"weights": coarse(drawn, public.reward_bound / COARSE_VALUES)}

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """The noise is normal and added once, so it passes through as it is. Its deviation is not
        known, but bounded: by public figures, or by the released weights themselves. Their squares
        sum to more than those of the noise alone would (a chi-square of as many degrees of freedom,
        or a larger, non-central one), so that too large a deviation would show."""
        weights = released["weights"]
        seen = float(np.linalg.norm(weights)) / math.sqrt(chdtri(weights.size, 1 - DOUBT))
        deviation = min(event.scale * self._most_sensitive(), seen)
        spread = Normal(weights, deviation * np.eye(weights.size), QUANTILE)
        far, largest = QUANTILE * deviation, self.public.largest_value(self.asked.discount) / 2
        mostly = far * (1.0 if start is None else float(np.linalg.norm(start))) >= largest
        return Answer(weights, start, np.full(weights.size, far >= largest), mostly, lambda: spread)

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        """Exact, if a public figure bounds the sensitivity."""
        half = float(ndtri((1 + confidence) / 2)) * event.scale * self._most_sensitive()
        size = self.public.largest_value(self.asked.discount)
        if not math.isfinite(half) or self.public.trajectories is None:
            return ()
        largest = f"of at most {plain(size, 3)} in {REWARD}"
        says = (
            f"the value of each state within ± {plain(half)} with {percent(confidence)}, {largest}"
        )
        says += ": mostly noise" if half >= size / 2 else ""
        return (
            Expected("values", half if half < size / 2 else math.inf, f"in {REWARD}", says, size),
        )

    @abstractmethod
    def _most_sensitive(self) -> float:
        """A public bound on the sensitivity; infinite where there is none."""

    @abstractmethod
    def _regress(self, moved: td.Transitions, phi: Floats, **shared: Any) -> Any: ...


class DpLsw(_Regression):
    """DP-LSW: the regression is weighted by visits."""

    name = "dp_lsw"

    def seconds(self, chosen: Chosen) -> float:
        # The search for the largest sensitivity ends at the visits of the state that most
        # trajectories visit.
        return (
            super().seconds(chosen)
            + 10e-9 * self.features.dimension * self.public.most_trajectories
        )

    def _most_sensitive(self) -> float:
        """The worst case: each state is visited once, or never."""
        return (
            2 * self.public.largest_value(self.asked.discount) * math.sqrt(self.features.dimension)
        )

    def _regress(self, moved: td.Transitions, phi: Floats, **shared: Any) -> Any:
        return regression.dp_lsw(moved, phi, self.asked.discount, **shared)


class DpLsl(_Regression):
    """DP-LSL: the regression has a ridge penalty."""

    name = "dp_lsl"
    takes = frozenset({"regularization"})

    @classmethod
    def issues(cls, asked: Asked, public: OffPolicyPublic) -> list[FieldIssue]:
        found, penalty = super().issues(asked, public), asked.regularization
        if penalty is not None and penalty < LEAST_PENALTY:
            found.append(
                FieldIssue(
                    "/problem/regularization",
                    f"the penalty of dp_lsl is at least {LEAST_PENALTY:g}",
                )
            )
        if penalty is None and not public.replaced:
            says = (
                "needed: the penalty of dp_lsl is about the number of trajectories, which is "
                "private here"
            )
            found.append(FieldIssue("/problem/regularization", says))
        return found

    def _penalty(self) -> float:
        return self.asked.regularization or float(self.public.trajectories or 1)

    def _most_sensitive(self) -> float:
        """The worst case: each of a public number of trajectories visits each state; see
        `regression.dp_lsl`."""
        states, largest = self.features.dimension, self.public.largest_value(self.asked.discount)
        if self.public.trajectories is None:
            return math.inf
        visits = states * self.public.trajectories
        reach = 2 * math.sqrt(states) + math.sqrt(visits / (2 * self._penalty()))
        return 2 / self._penalty() * largest * reach

    def _regress(self, moved: td.Transitions, phi: Floats, **shared: Any) -> Any:
        return regression.dp_lsl(
            moved,
            phi,
            self.asked.discount,
            penalty=self._penalty(),
            public_trajectories=self.public.trajectories,
            **shared,
        )

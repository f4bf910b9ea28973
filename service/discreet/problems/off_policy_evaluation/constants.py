"""The mean reward, and the constant value that follows from it where no episode ends.

Where no transition is terminal each row of A times the constant 1 is 1 - discount times the mean
features, up to where trajectories begin and are cut. Then of all constants the one of least MSPBE
is

    c = r / (1 - discount),   r = E[1/tau sum rho_t R_t],

and it is never worse than 0, whatever C is: with 1 among the features C^-1 takes the mean features
back to it. Where episodes end nothing of the kind holds: the same figure can be many times worse
than predicting 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.errors import FieldIssue
from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.noise import Noise
from discreet.problems.accuracy import Expected
from discreet.problems.contents import Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.answers import Answer, Normal
from discreet.problems.off_policy_evaluation.method import UNCOUNTED, Asked, Chosen, Method
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.problems.plans import NoiseSummary
from discreet.solvers.evaluation import temporal_difference as td
from discreet_client.intervals import plain

UNIT = 1 << 24
"""Counts of a trajectory whose mean reward is the bound: rounding loses less than 6e-8 of it."""
USUAL = 0.2
"""Mean rewards of about this part of their bound are reckoned with where noise is as large."""
QUANTITY = "the sum of the trajectories' mean rewards"
COUNTED = "the number of trajectories"


def event_of(public: OffPolicyPublic, epsilon: int, neighbours: str) -> DiscreteLaplace:
    """The noise of the sum of `sum_of`: a trajectory adds an integer of modulus at most UNIT, and
    another in its place may have the other sign."""
    return calibration.discrete_laplace(
        UNIT * (2 if public.replaced else 1), epsilon, neighbours=neighbours
    )


def sum_of(moved: td.Transitions, bound: float) -> Ints:
    """int64[1]: the sum over trajectories of 1/tau sum rho_t R_t, each cut off at `bound` and in
    UNIT parts of it. Each of them is a function of one record, to the last bit."""
    weighed = moved.reward if moved.on_policy else moved.reward * moved.ratio
    owner = np.repeat(np.arange(moved.trajectories), moved.lengths)
    mean = np.bincount(owner, weighed, minlength=moved.trajectories) / moved.lengths
    return np.array([np.rint(np.clip(mean / bound, -1.0, 1.0) * UNIT).astype(np.int64).sum()])


def mean_of(noised: float, deviation: float, number: float, bound: float) -> tuple[float, float]:
    """The mean reward of a noised sum in counts, and its noise's deviation; `number`: of
    trajectories."""
    part = bound / UNIT / max(number, 1.0)
    return float(np.clip(noised * part, -bound, bound)), deviation * part


def shrunk(mean: float, deviation: float, bound: float) -> float:
    """The mean reward as it is used: towards 0 where noise is as large as mean rewards usually are.

    In expectation that is no worse than 0 for any mean of at least USUAL/sqrt(2) of the bound,
    however large the noise.
    """
    usual = (USUAL * bound) ** 2
    return mean * usual / (usual + deviation**2)


class Constant(Method):
    """The mean reward over 1 - discount as the value of every state."""

    name = "constant"
    asked_again = frozenset({"discount"})
    needs_constant = True
    unit = UNIT

    @classmethod
    def issues(cls, asked: Asked, public: OffPolicyPublic) -> list[FieldIssue]:
        found = super().issues(asked, public)
        if not public.continuing:
            says = (
                "the mean reward gives a constant value only if no episode ends: register the "
                "data with public.continuing, or use moments or minibatch"
            )
            found.append(FieldIssue("/problem/method", says))
        return found

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        if self.public.replaced:
            return event_of(self.public, budget.epsilon, neighbours), QUANTITY, ()
        share = budget.epsilon // 2
        count = calibration.discrete_laplace(1, share, neighbours=neighbours)
        event = event_of(self.public, budget.epsilon - share, neighbours)
        return event, QUANTITY, ((count, NoiseSummary.of(count, COUNTED)),)

    def seconds(self, chosen: Chosen) -> float:
        return self.public.most_rows * 40e-9

    def numbers(self) -> int:
        return 1 if self.public.replaced else 2

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        if found := self.expected(event, epsilon, 0.9):
            return tuple(one.sentence for one in found)
        return (UNCOUNTED,)

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        if (m := self.public.trajectories) is None:
            return ()
        half = (
            -math.log1p(-confidence)
            * event.scale
            / UNIT
            / m
            * self.public.reward_bound
            / (1 - self.asked.discount)
        )
        size = self.public.reward_bound / (1 - self.asked.discount)
        names = [("policy_value", "the policy's value")] if self.asked.initial is not None else []
        return tuple(
            Expected(
                name,
                half,
                f"in {REWARD}",
                f"{what}, one for all states, within about ± {plain(half)} with {confidence:.0%} "
                f"of what it would be without noise, of at most {plain(size, 3)} in {REWARD}",
                size,
            )
            for name, what in (*names, ("values", "the value of a state"))
        )

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        event, *count = events
        released = {"mean_reward": noise.add(event, sum_of(moved, self.public.reward_bound))}
        if count:
            released["trajectories"] = noise.add(count[0], np.array([moved.trajectories]))
        return released

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """The interval is of the noised mean before it was shrunk, and as much wider as that moved
        it. Where the answer is mostly noise it is given too: of the others alone 55 to 73 in 100
        held a mean of 0."""
        bound, deviation = self.public.reward_bound, event.deviation()
        number = float(self.public.trajectories or released["trajectories"][0])
        raw, noise = mean_of(float(released["mean_reward"][0]), deviation, number, bound)
        if (
            not self.public.replaced
        ):  # the number's noise is as large as the sum's, in counts of one trajectory
            noise *= math.hypot(1.0, raw / bound)
        mean, mostly = shrunk(raw, noise, bound), noise >= abs(raw)
        ones = constant_weights(self) / (1 - self.asked.discount)
        wider = abs(raw - mean) / noise
        spread: Any = Normal(ones * mean, (ones * noise)[:, None], Normal.quantile + wider)
        return Answer(ones * mean, start, None, mostly, lambda: spread, noise_told=True)


def constant_weights(method: Method) -> Floats:
    """float64[d]: the weights of the value 1 everywhere."""
    weights = method.features.constant()
    assert weights is not None
    return weights

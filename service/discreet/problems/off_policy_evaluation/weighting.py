"""Importance sampling of whole trajectories: the value of the target policy over the people in the
data.

What is released are sums over trajectories, of which one moves a bounded part:
`solvers.evaluation.importance_sampling` proves it. The values and their intervals follow from them
alone: `solvers.evaluation.weighted_value`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from discreet.errors import FieldIssue
from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.problems.accuracy import LEVEL, Expected
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.expectation import GOOD, RATIO_SQUARE, cut_off
from discreet.problems.off_policy_evaluation.gradients import COUNT_SHARE
from discreet.problems.off_policy_evaluation.method import Asked, Chosen, MethodOfSums
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.problems.off_policy_evaluation.weighted_answer import DROWNED, fields_of
from discreet.problems.off_policy_evaluation.weighting_words import (
    MOST_CAP,
    POWER,
    clip_of_noised_number,
    clip_of_public_number,
    expected_sentence,
    long_episodes,
    people_needed,
    wide_range,
)
from discreet.problems.plans import NoiseSummary
from discreet.solvers.evaluation import importance_sampling as sampling
from discreet.solvers.evaluation import temporal_difference as td
from discreet.solvers.evaluation.weighted_value import WeightedSums
from discreet_client.intervals import plain

LEAST_CAP = 2.0
LARGEST_CAP = 1e4
"""Of a trajectory's weight: what follows from public figures lies between the first two; beyond the
last a weight of 1 would hardly be counted."""
PEOPLE_A_CAP = 60 / (1.1 * math.sqrt(2))
"""Trajectories for each unit of the clip, in deviations of the noise: a larger clip takes more
noise, a smaller one cuts off more. Where a trajectory is added or removed the clip is n epsilon /
60."""
ROUNDED = 1e-6
"""In parts of the largest weight: a clip that is so near to it cuts off as good as nothing."""
UNCAPPED = 1e300
"""Of the ratio of one step: whole trajectories alone are clipped."""
TYPICAL = (math.sqrt(0.75), math.sqrt(0.625))
"""How much of the noise of one entry moves a value of the middle sort: with a private, and with a
public number of trajectories; root mean squares over all values."""
BOUNDED = math.sqrt(1.25)
"""The same for a bound on a value of which weights were cut off: a sum that nothing divides."""
USUAL_QUANTILE = float(ndtri((1 + LEVEL) / 2))
HEAVY = 20.0
"""Mean square of weights in the model of what a clip costs an interval: a guess, above
`RATIO_SQUARE`, since weights of rules are 0 or large. `make bench ARGS=clips` compares the choice
that follows with the other one."""
MANY = 1e9
"""Trajectories: if even of so many weights are cut off, no number is told from which on none is."""
MARGIN = 1.5
"""Times what is told for an accuracy: where few weights are large, more is cut off, and what is
left moves further."""
TOOK = {"policy_value": (0.54, 0.74), "difference": (0.52, 0.68)}
"""`Expected.took`."""


class ImportanceSampling(MethodOfSums):
    """Clipped weights of whole trajectories, their returns, and both policies' values."""

    name = "importance_sampling"
    takes = frozenset({"return_bounds"})
    asked_again = frozenset({"features"})
    fitted = False
    chooses_cap = True
    unit = float(sampling.UNIT)
    weighed: ClassVar[str] = "whole trajectories"
    """What has a weight, in words."""

    @classmethod
    def issues(cls, asked: Asked, public: OffPolicyPublic) -> list[FieldIssue]:
        found = super().issues(asked, public)
        if not public.off_policy:
            says = (
                f"{cls.name} needs the probabilities of the actions: the columns behaviour and "
                f"target, which this dataset lacks"
            )
            found.append(FieldIssue("/problem/method", says))
        if asked.max_importance is not None and asked.max_importance > LARGEST_CAP:
            says = f"at most {LARGEST_CAP:g} with {cls.name}, where it caps products of ratios"
            found.append(FieldIssue("/problem/max_importance", says))
        if asked.return_bounds is not None:
            low, high = asked.return_bounds
            least, most = public.returns(asked.discount)
            if not low < high or not low < most or not least < high:
                says = (
                    "two figures, the lower one first, that overlap the public range of returns "
                    f"{least:g} to {most:g}"
                )
                found.append(FieldIssue("/problem/return_bounds", says))
        return found

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        """The number of trajectories gets its own noise only where the clip is to follow from
        it."""
        beside: tuple[tuple[Event, NoiseSummary], ...] = ()
        epsilon, rho = budget.epsilon, budget.rho
        if self.counted:
            share = (epsilon if rho is None else math.isqrt(2 * rho)) // COUNT_SHARE
            count = calibration.discrete_laplace(1, share, neighbours=neighbours)
            beside = (
                (
                    count,
                    NoiseSummary.of(count, "the number of trajectories, which the clip rests on"),
                ),
            )
            epsilon, rho = epsilon - share, rho if rho is None else rho - count.price().rho
        # Replacing: nonnegative parts that sum to a whole differ by two of them at most (l2 sqrt
        # 2); a square by one.
        whole, square = sampling.UNIT, sampling.SQUARE_UNIT
        parts = 2 if self.public.replaced else 1
        event = calibration.least_variance(
            sensitivity_l1=float(parts * whole + square),
            sensitivity_l2=math.nextafter(math.sqrt(parts * whole**2 + square**2), math.inf),
            epsilon=epsilon,
            delta=budget.delta,
            neighbours=neighbours,
            rho=rho,
        )
        what = (
            "7 sums over trajectories of products of clipped weights and returns, to which each "
            "of them adds 1.1 in all"
        )
        return event, what, beside

    def seconds(self, chosen: Chosen) -> float:
        return 40e-9 * self.public.most_rows + 100e-9 * min(
            self.public.most_trajectories, self.public.most_rows
        )

    def numbers(self) -> int:
        return sampling.ENTRIES

    @property
    def counted(self) -> bool:
        """Whether the clip follows from a noised number of trajectories."""
        return not self.public.replaced and self.asked.max_importance is None

    @property
    def cap_in_plan(self) -> float | None:
        return None if self.counted else self.fixed_cap

    def best_cap(self, event: Event, epsilon: float) -> tuple[float | None, str]:
        most = self.public.largest_weight
        if self.counted:
            return None, clip_of_noised_number(self.weighed, most, self._people_uncut(event))
        cap = self._largest_weight(event, self.public.trajectories or 1)
        if self._unclipped(cap):
            return cap, f"no weight can be larger than {plain(cap)}, {POWER}: none is cut off"
        enough = self._people_uncut(event)
        return cap, clip_of_public_number(self.weighed, cap, most, self._cut_off(cap), enough)

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        low, high = self._bounds
        enough = self._people_uncut(event)
        says = (*long_episodes(self, enough), *self._said_of_range())
        if self.public.trajectories is None:
            own, most = self.asked.max_importance, self.public.largest_weight
            # Few people's weights are clipped at the least, unless so many as it takes have none
            # that is cut off.
            cap = min(own or (LEAST_CAP if enough is None else most), most)
            half = (
                TYPICAL[0]
                * float(ndtri((1 + LEVEL) / 2))
                * self._deviation(event)
                * cap
                / (1 - self._cut_off(cap))
            )
            people = half / GOOD if own else max(half / GOOD, enough or 0.0)
            return (people_needed(people, GOOD * (high - low), cap, most, own), *says)
        return (*(one.sentence for one in self.expected(event, epsilon, LEVEL)[:1]), *says)

    def _said_of_range(self) -> tuple[str, ...]:
        ends = self.public.returns(self.asked.discount)
        if self._bounds != ends or self.public.rewards is not None:
            return ()
        return (wide_range(*ends, steps=self.public.horizon),)

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        """Of the target policy's value, of the behaviour policy's, and of the difference: how far
        noise alone moves them, and how wide intervals are, which also hold the chance of who came
        and what clips cut off."""
        if (n := self.public.trajectories) is None:
            return ()
        low, high = self._bounds
        size, quantile = high - low, float(ndtri((1 + confidence) / 2))
        cap = min(
            self.asked.max_importance or self._largest_weight(event, n), self.public.largest_weight
        )
        noise = quantile * self._deviation(event) / n
        policy = TYPICAL[1] * noise * cap / max(1 - self._cut_off(cap), 1e-9)
        wide = self._half_width(self._deviation(event), n, cap, quantile)
        followed = math.hypot(noise, quantile / 2 / math.sqrt(n))
        found = []
        for name, what, half, whole in (
            ("policy_value", "the target policy's value", policy, wide),
            ("behaviour_value", "the behaviour policy's value", noise, followed),
            ("difference", "their difference", math.hypot(policy, noise), math.hypot(wide, noise)),
        ):
            drowned = half >= DROWNED
            clipped = None if name == "behaviour_value" or self._unclipped(cap) else cap
            told = (half * size, whole * size, size)
            says = expected_sentence(what, *told, confidence, clipped, drowned=drowned)
            within = math.inf if drowned else half * size
            margin, took = (1.0, None) if name == "behaviour_value" else (MARGIN, TOOK[name])
            found.append(
                Expected(
                    name,
                    within,
                    f"in {REWARD}",
                    says,
                    size,
                    margin=margin,
                    took=took,
                    interval=whole * size,
                )
            )
        return tuple(found)

    def _read(self, content: Content) -> td.Transitions:
        # Bounds of returns and weights are kept by the sums themselves.
        return transitions_of(content, UNCAPPED)

    def _summed(self, chosen: Chosen, moved: td.Transitions) -> Ints:
        return self._sums(moved, self.fixed_cap)

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        event, *count = events
        before = self.release_number(events, moved.trajectories, noise) if count else {}
        cap = self.cap_after(event, before) if count else self.fixed_cap
        return {**before, "sums": noise.add(event, self._sums(moved, cap))}

    def release_number(
        self, events: tuple[Event, ...], trajectories: int, noise: Noise
    ) -> Released:
        """The noised number of trajectories, which the clip follows from."""
        _, count = events
        return {"trajectories": noise.add(count, np.array([trajectories]))}

    def cap_after(self, event: Event, before: Released) -> float:
        """Where weights are clipped, after this number was released."""
        return self._largest_weight(event, int(before["trajectories"][0]))

    def _sums(self, moved: td.Transitions, largest_weight: float) -> Ints:
        return sampling.weighted_sums(
            moved, discount=self.asked.discount, bounds=self._bounds, largest_weight=largest_weight
        )

    def fields(
        self,
        event: Event,
        released: Released,
        start: Floats | None,
        progress: Progress,
        *,
        uncertain: bool,
    ) -> dict[str, Any]:
        count = released.get("trajectories")
        cap = self.fixed_cap if count is None else self.cap_after(event, released)
        sums = WeightedSums(
            released["sums"] / self.unit,
            variance=self._deviation(event) ** 2,
            largest_weight=cap,
            quantile=float(ndtri((1 + LEVEL) / 2)),
            trajectories=self.public.trajectories,
            unclipped=self._unclipped(cap),
            most=self.public.largest_weight,
        )
        return fields_of(sums, self._bounds, self.weighed, uncertain=uncertain)

    @property
    def fixed_cap(self) -> float:
        """The value at which weights are clipped, if it is known before the release."""
        return min(self.max_ratio, self.public.largest_weight)

    def _largest_weight(self, event: Event, trajectories: int) -> float:
        """Where weights are clipped, from a public or noised number of trajectories: never from the
        weights.

        At what the noise suggests, or nowhere if the largest weight M is public and the interval is
        expected to be no wider then. So to know M, or a smaller M, never makes the expected width
        larger: with a clip below M it rests on M by what is cut off alone, which grows with M;
        without one it grows with M, and is below that of any clip of M or above.
        """
        return self._clip(self._deviation(event), trajectories)

    def _clip(self, deviation: float, trajectories: float) -> float:
        most, cap = self.public.largest_weight, clip_of(deviation, trajectories)
        if cap >= most:
            return most
        with_clip, without = (
            self._half_width(deviation, trajectories, one, USUAL_QUANTILE) for one in (cap, most)
        )
        return most if without <= with_clip else cap

    def _half_width(
        self, deviation: float, trajectories: float, cap: float, quantile: float
    ) -> float:
        """Half the width that is expected of the interval of the target policy's value, as a part
        of the range of returns: of a value in the middle.

        With a clip the interval lies between two bounds, which what is cut off separates; without
        one it is that of a ratio of sums. In either case with one more person of the largest
        weight.
        """
        n, most = max(trajectories, 1), self.public.largest_weight
        noise, square = deviation * cap / n, min(RATIO_SQUARE, most)
        if self._unclipped(cap):
            spread = (TYPICAL[self.public.replaced] * noise) ** 2 + square / 4 / n
            return quantile * math.sqrt(spread + (cap / 2 / n) ** 2)
        spread = (BOUNDED * noise) ** 2 + (square / 2 - 1 / 4) / n
        return self._lost(cap, HEAVY) / 2 + quantile * math.sqrt(spread + (cap / n) ** 2)

    def _lost(self, cap: float, square: float) -> float:
        """What is cut off of weights of mean square `square` in the model, but no more than weights
        up to the public largest one can lose."""
        return min(cut_off(cap, square), 1 - cap / self.public.largest_weight)

    def _people_uncut(self, event: Event) -> float | None:
        """Trajectories from which on no weight is cut off; None where public rules do not bound
        weights, or too far off."""
        most = self.public.largest_weight
        if math.isinf(most):
            return None
        numbers, deviation = np.geomspace(1, MANY, 200), self._deviation(event)
        clipped = [self._clip(deviation, one) < most for one in numbers.tolist()]
        return None if clipped[-1] else float(numbers[int(np.flatnonzero([True, *clipped])[-1])])

    def _unclipped(self, cap: float) -> bool:
        # Probabilities such as 0.333333 make the largest weight differ in its last digits.
        return cap >= self.public.largest_weight * (1 - ROUNDED)

    def _cut_off(self, cap: float) -> float:
        return 0.0 if self._unclipped(cap) else self._lost(cap, RATIO_SQUARE)

    def _deviation(self, event: Event) -> float:
        """Of the noise of one sum, in trajectories."""
        return event.deviation() / self.unit

    @property
    def _bounds(self) -> tuple[float, float]:
        """Of returns: public, and those that were asked for within them."""
        low, high = self.public.returns(self.asked.discount)
        if self.asked.return_bounds is not None:
            low, high = (
                max(low, self.asked.return_bounds[0]),
                min(high, self.asked.return_bounds[1]),
            )
        return low, high


def largest_weight(event: Event, trajectories: int) -> float:
    """Where weights are clipped that nothing public bounds, from a public or noised number of
    trajectories: never from the weights."""
    return clip_of(event.deviation() / sampling.UNIT, trajectories)


def clip_of(deviation: float, trajectories: float) -> float:
    """The same from the standard deviation of the noise of one sum, in trajectories."""
    return min(max(trajectories / (PEOPLE_A_CAP * deviation), LEAST_CAP), MOST_CAP)

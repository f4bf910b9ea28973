"""Importance sampling of whole trajectories: the value of the target policy over the people in the
data.

What is released are sums over trajectories, of which one moves a bounded part:
`solvers.evaluation.clipped_weights` proves it. The values and their intervals follow from them
alone.
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
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.expectation import GOOD, RATIO_SQUARE, cut_off, rounded
from discreet.problems.off_policy_evaluation.method import Asked, Chosen, MethodOfSums
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.problems.plans import NoiseSummary
from discreet.problems.results import CONFIDENCE, LEVEL, NOISE, Expected, Interval, Uncertainty
from discreet.solvers.evaluation import clipped_weights as clipping
from discreet.solvers.evaluation import importance_sampling as sampling
from discreet.solvers.evaluation.clipped_weights import ClippedSums
from discreet.solvers.evaluation.importance_sampling import Ends, Told, WeightedSums
from discreet_client.intervals import percent, plain

CLIPS: Floats = np.exp2(np.arange(1, 17) / 2)
"""Among these the release chooses where weights are clipped, and the public largest weight."""
CLIP_SHARE = 8
"""Of epsilon one part in so many is spent on that choice."""
USUAL_CLIP = 4.0
"""What plans reckon with where nothing public tells the weights."""
LARGEST_CAP = 1e4
"""Of a trajectory's weight: beyond it a weight of 1 would hardly be counted."""
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
FAR = 0.3
"""What is cut off is taken to be so far from the value, in parts of the range, where a clip is
chosen by what it cuts off."""
BY_NUMBER = 10.0
"""Where a clip is chosen by the number of weights above it: people, for each deviation of the noise
of a sum, that a clip of twice the size must leave below it."""
MOST_PENALTY = 1 << 60
MOST_UNCUT = 50.0
"""Up to this public largest weight plans compare clips with none at all: protocols that bound
weights so well give some people nearly the largest. Beyond it the weights decide, by a release."""
BY_PEOPLE = 0.25
"""Where the number of people is private, how much of one trajectory each takes off the scores of
all clips but the largest weight: of many people no weight need be cut off."""
HEAVY = 20.0
"""Mean square of weights in the model of what a clip costs an interval: a guess, above
`RATIO_SQUARE`, since weights of rules are 0 or large."""
MANY = 1e9
"""Trajectories: if even of so many weights are cut off, no number is told from which on none is."""
MARGIN = 1.5
"""Times what is told for an accuracy: where few weights are large, more is cut off, and what is
left moves further."""
TOOK = {"policy_value": (0.54, 0.74), "difference": (0.52, 0.68)}
"""`Expected.took`."""


class ImportanceSampling(MethodOfSums):
    """Clipped weights of whole trajectories, their returns, and both policies' values.

    The release chooses the clip from `candidates` by the exponential mechanism, unless the request
    names one or by public figures none is better than the largest weight there can be: it sums for
    every candidate, chooses one, and adds noise to the sums of that one alone.
    """

    name = "importance_sampling"
    takes = frozenset({"return_bounds", "estimand", "rule_visits"})
    asked_again = frozenset({"features"})
    fitted = False
    chooses_cap = True
    unit = float(clipping.UNIT)
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
        if "estimand" in cls.takes and asked.estimand == MEAN_PER_VISIT and asked.discount != 1:
            says = "1 where the mean reward of a visit is asked for: all visits count alike"
            found.append(FieldIssue("/problem/discount", says))
        if "rule_visits" in cls.takes and (asked.rule_visits or 0) >= public.horizon:
            says = (
                f"below the horizon, {public.horizon}: leave it out to follow the rule throughout"
            )
            found.append(FieldIssue("/problem/rule_visits", f"{says}; found {asked.rule_visits}"))
        if asked.estimand == MEAN_PER_VISIT and public.horizon == 1:
            says = "sum where each person has one visit, which is its mean"
            found.append(FieldIssue("/problem/estimand", f"{says}; found {asked.estimand}"))
        if asked.return_bounds is not None:
            low, high = asked.return_bounds
            least, most = returns_of(asked, public)
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
        """The choice of the clip costs an eighth of epsilon, where there is one."""
        epsilon, rho = budget.epsilon, budget.rho

        def summed(epsilon: int, rho: int | None, excess: bool) -> Event:
            l1, l2 = self._sensitivity(excess=excess)
            return calibration.least_variance(
                sensitivity_l1=l1,
                sensitivity_l2=l2,
                epsilon=epsilon,
                delta=budget.delta,
                neighbours=neighbours,
                rho=rho,
            )

        own = self.asked.max_importance
        if own is not None or self.candidates.size == 1:
            cap = min(own or math.inf, self.largest_weight)
            return (
                summed(epsilon, rho, self.excess and not self._unclipped(cap)),
                self._sums_in_words(excess=self.excess and not self._unclipped(cap)),
                (),
            )
        share = (epsilon if rho is None else math.isqrt(2 * rho)) // CLIP_SHARE
        # One more trajectory lowers every score or none; another in its place may do either.
        choice = calibration.exponential(
            float(self.unit), share, neighbours=neighbours, monotone=not self.public.replaced
        )
        rest = None if rho is None else rho - choice.price().rho
        event = summed(epsilon - share, rest, self.excess)
        whole = summed(epsilon, rho, False)
        if self._is_best_uncut(event, whole):
            return whole, self._sums_in_words(excess=False), ()
        told = NoiseSummary.of(choice, "the score of a clip, in trajectories", self.unit)
        return event, self._sums_in_words(excess=self.excess), ((choice, told),)

    def _sensitivity(self, *, excess: bool) -> tuple[float, float]:
        return clipping.sensitivity(excess=excess, replaced=self.public.replaced)

    def _sums_in_words(self, *, excess: bool) -> str:
        most = 1.25 if excess else 1.1
        return (
            f"{clipping.entries(excess)} sums over trajectories of products of clipped weights and "
            f"returns, to which each of them adds {most:g} in all"
        )

    def seconds(self, chosen: Chosen) -> float:
        return 60e-9 * self.public.most_rows + 40e-9 * (3 + self.candidates.size) * min(
            self.public.most_trajectories, self.public.most_rows
        )

    def numbers(self) -> int:
        return clipping.entries(self.excess)

    @property
    def excess(self) -> bool:
        """Whether a row tells what a clip is expected to cut off: the only visit whose ratio counts
        has two actions, by protocol."""
        return self.public.actions == 2 and self.weighed_visits == 1

    @property
    def weighed_visits(self) -> int:
        """The most visits whose ratios count."""
        return min(self.asked.rule_visits or self.public.horizon, self.public.horizon)

    @property
    def largest_weight(self) -> float:
        """No trajectory's weight is larger, by public figures; infinite where none says so."""
        return self.public.largest_weight_of(self.weighed_visits)

    @property
    def candidates(self) -> Floats:
        """The clips among which a release chooses."""
        most = self.largest_weight
        return np.append(CLIPS[most > CLIPS], [most] if most <= LARGEST_CAP else [])

    @property
    def by_release(self) -> bool:
        """Whether the release chooses the clip: the plan knows none."""
        return math.isinf(self.max_ratio)

    @property
    def cap_in_plan(self) -> float | None:
        return None if self.by_release else self.fixed_cap

    @property
    def fixed_cap(self) -> float:
        """The value at which weights are clipped, if it is known before the release."""
        return min(self.max_ratio, self.largest_weight)

    def best_cap(
        self, event: Event, epsilon: float, *, by_release: bool = False
    ) -> tuple[float | None, str]:
        most = self.largest_weight
        if by_release:
            return None, clip_by_release(self.weighed, self.candidates, self._people_uncut(event))
        return most, f"no weight can be larger than {plain(most)}, {POWER}: none is cut off"

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        low, high = self._bounds
        says = (*long_episodes(self), *self._said_of_range(), *self._said_of_actions())
        if self.public.trajectories is None:
            own, most = self.asked.max_importance, self.largest_weight
            cap = min(own or USUAL_CLIP, most)
            noise = USUAL_QUANTILE * TYPICAL[0] * self._deviation(event) * cap
            people = noise / (1 - self._cut_off(cap)) / GOOD
            return (people_needed(people, GOOD * (high - low), cap, most, own), *says)
        return (*(one.sentence for one in self.expected(event, epsilon, LEVEL)[:1]), *says)

    def _said_of_range(self) -> tuple[str, ...]:
        if self._bounds != returns_of(self.asked, self.public) or self.public.rewards is not None:
            return ()
        steps = 1 if self.asked.estimand == MEAN_PER_VISIT else self.public.horizon
        return (wide_range(*self._bounds, steps=steps),)

    def _said_of_actions(self) -> tuple[str, ...]:
        if self.public.actions is not None or self.weighed_visits > 1:
            return ()
        return (
            "if the protocol has two actions, `actions`: 2 among the public figures makes "
            "intervals much shorter: what a clip cuts off is then known without the chance of who "
            "was treated",
        )

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
        cap, usual = self.fixed_cap, self.fixed_cap
        if self.by_release:
            cap = self._usual_clip(event, n)
            usual = self._usual_clip(event, n, RATIO_SQUARE)
        noise = quantile * self._deviation(event) / n
        policy = TYPICAL[1] * noise * usual / max(1 - self._cut_off(usual), 1e-9)
        wide = self._half_width(self._deviation(event), n, cap, quantile)
        followed = math.hypot(noise, quantile / 2 / math.sqrt(n))
        found = []
        for name, what, half, whole in (
            ("policy_value", "the target policy's value", policy, wide),
            ("behaviour_value", "the behaviour policy's value", noise, followed),
            ("difference", "their difference", math.hypot(policy, noise), math.hypot(wide, noise)),
        ):
            drowned = half >= MAX_NOISE_SHARE
            clipped = None if name == "behaviour_value" or self._unclipped(usual) else usual
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

    # Release

    def _read(self, content: Content) -> Any:
        # Bounds of returns and weights are kept by the sums themselves.
        return content

    def _summed(self, chosen: Chosen, moved: Any) -> Ints:
        """int64[clips, sums + 1]: of every candidate, or of the one clip that the plan has; last
        what trajectories take off its score."""
        clips = self.candidates if self.by_release else np.array([self.fixed_cap])
        return self._sums(moved, clips)

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: Any, noise: Noise
    ) -> Released:
        return self.release_sums(events, chosen, self._summed(chosen, moved), noise)

    def release_sums(
        self, events: tuple[Event, ...], chosen: Chosen, sums: Ints, noise: Noise
    ) -> Released:
        """The choice, where there is one, and the sums of the chosen clip: the others are not
        released."""
        event, *choice = events
        if not choice:
            return {"sums": noise.add(event, sums[0, :-1])}
        place = noise.choose(choice[0], -(sums[:, -1] + self._penalties(event)))
        return {"clip": np.array([place]), "sums": noise.add(event, sums[place, :-1])}

    def _penalties(self, event: Event) -> Ints:
        """int64[clips]: what the noise of each clip takes off its score, in counts of a trajectory:
        public."""
        deviation = self._deviation(event)
        if self.excess:
            typical = TYPICAL[self.public.replaced] * USUAL_QUANTILE
            found = typical * deviation * self.candidates / FAR
        else:
            found = BY_NUMBER * deviation * np.log2(self.candidates)
            if self._by_people and (enough := self._people_uncut(event)) is not None:
                found[-1] += BY_PEOPLE * enough
        return np.minimum(np.rint(found * self.unit), MOST_PENALTY).astype(np.int64)

    def _sums(self, content: Content, clips: Floats) -> Ints:
        return clipping.candidate_sums(
            content,
            clips,
            least=self._least(clips),
            excess=self.excess and not self._is_uncut(clips),
            mean=self.asked.estimand == MEAN_PER_VISIT,
            discount=self.asked.discount,
            bounds=self._bounds,
            weighed=self.weighed_visits,
        )

    @property
    def _by_people(self) -> bool:
        """Whether the number of people has a say in the choice: it is private, and neither is the
        largest weight far off nor is it known what each clip cuts off."""
        return self.largest_weight <= MOST_UNCUT and not (self.excess or self.public.replaced)

    def _least(self, clips: Floats) -> Ints:
        """int64[clips]: what each trajectory takes off a score at least, in counts."""
        some = self._by_people & (clips < self.largest_weight)
        return np.where(some, int(BY_PEOPLE * self.unit), 0).astype(np.int64)

    def _is_uncut(self, clips: Floats) -> bool:
        """Whether the one clip is known to cut nothing off."""
        return clips.size == 1 and self._unclipped(float(clips[0]))

    # What follows from it

    def fields(
        self,
        event: Event,
        released: Released,
        start: Floats | None,
        progress: Progress,
        *,
        uncertain: bool,
    ) -> dict[str, Any]:
        place = released.get("clip")
        cap = self.fixed_cap if place is None else float(self.candidates[int(place[0])])
        sums = self._told(event, released["sums"] / self.unit, cap, chosen=place is not None)
        found = fields_of(sums, self._bounds, self.weighed, uncertain=uncertain)
        return {"estimand": estimand_in_words(self.asked), **found}

    def _told(
        self, event: Event, sums: Floats, cap: float, *, chosen: bool
    ) -> ClippedSums | WeightedSums:
        return ClippedSums(
            sums,
            excess=self.excess and (chosen or not self._unclipped(cap)),
            variance=self._deviation(event) ** 2,
            largest_weight=cap,
            quantile=USUAL_QUANTILE,
            level=LEVEL,
            trajectories=self.public.trajectories,
            unclipped=self._unclipped(cap),
            most=self.largest_weight,
        )

    # What plans reckon with

    def _is_best_uncut(self, chosen: Event, whole: Event) -> bool:
        """Whether, by public figures, no choice of the clip is expected to give a shorter interval
        than the largest weight M as the clip, with `whole` of the budget: never by the weights.
        Where it is released what each clip cuts off, that is so where no clip from 2 on has less
        noise than M without the choice.

        So to know M, or a smaller M, never makes the expected width larger: with a clip below M it
        rests on M by what is cut off alone, which grows with M; without one it grows with M, and is
        below that of any clip of M or above.
        """
        if self.excess:
            return self._deviation(whole) * self.largest_weight <= self._deviation(chosen) * 2
        if self.public.trajectories is None or self.largest_weight > MOST_UNCUT:
            return False
        return self._without(whole, self.public.trajectories) <= self._with(
            chosen, self.public.trajectories
        )

    def _without(self, event: Event, trajectories: float) -> float:
        """The expected half width where no weight is cut off."""
        return self._half_width(
            self._deviation(event), trajectories, self.largest_weight, USUAL_QUANTILE
        )

    def _with(self, event: Event, trajectories: float) -> float:
        """The same of the clip that is expected to be the best."""
        clip = self._usual_clip(event, trajectories)
        return self._half_width(self._deviation(event), trajectories, clip, USUAL_QUANTILE)

    def _usual_clip(self, event: Event, trajectories: float, square: float = HEAVY) -> float:
        """Of the candidates the one with the shortest expected interval, for weights of this mean
        square."""
        found = self._deviation(event), trajectories
        return float(
            min(
                self.candidates.tolist(),
                key=lambda one: self._half_width(*found, one, USUAL_QUANTILE, square),
            )
        )

    def _half_width(
        self,
        deviation: float,
        trajectories: float,
        cap: float,
        quantile: float,
        heavy: float = HEAVY,
    ) -> float:
        """Half the width that is expected of the interval of the target policy's value, as a part
        of the range of returns: of a value in the middle.

        With a clip the interval lies between two bounds, which what is cut off separates; without
        one it is that of a ratio of sums, as it is with a clip where the expected excess is
        released. In any case with one more person of the largest weight.
        """
        n, most = max(trajectories, 1), self.largest_weight
        noise, square = deviation * cap / n, min(RATIO_SQUARE, most)
        ratio = (TYPICAL[self.public.replaced] * noise) ** 2 + square / 4 / n
        if self._unclipped(cap):
            return quantile * math.sqrt(ratio + (cap / 2 / n) ** 2)
        lost = self._lost(cap, heavy)
        if self.excess:
            cut = lost / n + (deviation / clipping.EXCESS / n) ** 2 + 1 / n**2
            spread = ratio + (cap / 2 / n) ** 2 + cut / 4
        else:
            spread = (BOUNDED * noise) ** 2 + (square / 2 - 1 / 4) / n + (cap / n) ** 2
        return lost / 2 + quantile * math.sqrt(spread)

    def _lost(self, cap: float, square: float) -> float:
        """What is cut off of weights of mean square `square` in the model, but no more than weights
        up to the public largest one can lose."""
        return min(cut_off(cap, square), 1 - cap / self.largest_weight)

    def _people_uncut(self, event: Event) -> float | None:
        """Trajectories from which on the expected interval is shortest if no weight is cut off;
        None where public rules do not bound weights, or too far off."""
        if self.excess or self.largest_weight > MOST_UNCUT:
            return None
        numbers = np.geomspace(1, MANY, 200)
        clipped = [self._without(event, one) > self._with(event, one) for one in numbers.tolist()]
        return None if clipped[-1] else float(numbers[int(np.flatnonzero([True, *clipped])[-1])])

    def _unclipped(self, cap: float) -> bool:
        # Probabilities such as 0.333333 make the largest weight differ in its last digits.
        return cap >= self.largest_weight * (1 - ROUNDED)

    def _cut_off(self, cap: float) -> float:
        return 0.0 if self._unclipped(cap) else self._lost(cap, RATIO_SQUARE)

    def _deviation(self, event: Event) -> float:
        """Of the noise of one sum, in trajectories."""
        return event.deviation() / self.unit

    @property
    def _bounds(self) -> tuple[float, float]:
        """Of returns: public, and those that were asked for within them."""
        low, high = returns_of(self.asked, self.public)
        if self.asked.return_bounds is not None:
            low, high = (
                max(low, self.asked.return_bounds[0]),
                min(high, self.asked.return_bounds[1]),
            )
        return low, high


# Per decision -------------------------------------------------------------------------------------
# Importance sampling of single steps: each reward is weighted by the ratios up to its step.
#
# It has seven sums of mean weights of steps: `solvers.evaluation.importance_sampling`. Early
# rewards are not multiplied by the ratios of later steps, so less is clipped and the value varies
# less by chance.


class PerDecision(ImportanceSampling):
    """Clipped weights of single steps, their rewards, and both policies' values."""

    name = "per_decision"
    takes = frozenset()
    weighed: ClassVar[str] = "steps"

    @property
    def excess(self) -> bool:
        return False

    def _sensitivity(self, *, excess: bool) -> tuple[float, float]:
        return sampling.sensitivity(replaced=self.public.replaced)

    def _sums_in_words(self, *, excess: bool) -> str:
        return (
            f"{sampling.ENTRIES} sums over trajectories of products of clipped weights and "
            "rewards, to which each of them adds 1.1 in all"
        )

    def seconds(self, chosen: Chosen) -> float:
        return self.candidates.size * (40e-9 * self.public.most_rows) + 100e-9 * min(
            self.public.most_trajectories, self.public.most_rows
        )

    def numbers(self) -> int:
        return sampling.ENTRIES

    def _sums(self, content: Content, clips: Floats) -> Ints:
        return sampling.per_decision_sums(
            transitions_of(content, UNCAPPED),
            discount=self.asked.discount,
            bounds=self.public.rewards_with_none,
            clips=clips,
            horizon=self.public.horizon,
            least=self._least(clips),
        )

    def _told(
        self, event: Event, sums: Floats, cap: float, *, chosen: bool
    ) -> ClippedSums | WeightedSums:
        return WeightedSums(
            sums,
            variance=self._deviation(event) ** 2,
            largest_weight=cap,
            quantile=USUAL_QUANTILE,
            trajectories=self.public.trajectories,
            unclipped=self._unclipped(cap),
            most=self.largest_weight,
        )

    def _lost(self, cap: float, square: float) -> float:
        """The mean over steps, by their shares: a weight after t of them is at most the largest
        ratio to the power of t."""
        steps, ratio = self.public.horizon, max(self.public.largest_ratio, 1.0)
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

    def _said_of_actions(self) -> tuple[str, ...]:
        return ()

    @property
    def _bounds(self) -> tuple[float, float]:
        """The least and the most that rewards of all steps to the horizon may add up to."""
        low, high = self.public.rewards_with_none
        steps = self.public.discounted_steps(self.asked.discount)
        return low * steps, high * steps


# Estimands ----------------------------------------------------------------------------------------
# What is asked of each policy, in the words of a request.

MEAN_PER_VISIT = "mean_per_visit"


def returns_of(asked: Asked, public: OffPolicyPublic) -> tuple[float, float]:
    """Between what every person's return lies, by public figures: of the sum of rewards, or of
    their mean."""
    if asked.estimand == MEAN_PER_VISIT:
        return public.rewards_of_a_visit
    return public.returns(asked.discount)


def estimand_in_words(asked: Asked) -> str:
    """What `policy_value` is of."""
    what = "the sum of a person's rewards"
    if asked.estimand == MEAN_PER_VISIT:
        what = "the mean of a person's rewards over that person's visits"
    elif asked.discount != 1:
        what += f", each step later discounted by {plain(asked.discount)}"
    if asked.rule_visits is None:
        return what
    visits = (
        "the first visit" if asked.rule_visits == 1 else f"the first {asked.rule_visits} visits"
    )
    return f"{what}, with the target policy at {visits} and then as before"


# Weighted answer ----------------------------------------------------------------------------------
# What importance sampling answers from noised sums: both policies' values, and what each interval
# covers.
#
# The interval beside `policy_value` holds what the target policy is worth, and that beside
# `difference` what it would change, whatever the returns whose weights were cut off, since readers
# take them for that. The intervals of the values with clipped weights, which may be far shorter and
# not hold these, have fields of their own.

MAX_NOISE_SHARE = 0.25
"""Half width by noise alone, as a part of the range of returns, beyond which a value is mostly
noise. The answer as a whole is where the interval of the difference holds both signs."""
TELLING = 0.1
"""If the lower end of the interval of an effective size is at most this part of the upper, the
interval tells nothing."""


def fields_of(
    sums: ClippedSums | WeightedSums, bounds: tuple[float, float], weighed: str, *, uncertain: bool
) -> dict[str, Any]:
    """The fields of the result. `bounds`: of returns; `weighed`: what has a weight, in words;
    `uncertain`: `uncertainty` is one of them."""
    low, high = bounds
    size = high - low

    def scaled(ends: Ends, offset: float = low) -> Interval:
        return Interval(lower=offset + size * ends.lower, upper=offset + size * ends.upper)

    policy, behaviour, difference = sums.policy(), sums.behaviour(), sums.difference()
    plainly: dict[str, Told] = {
        "effective_size": sums.effective_size(),
        "clipped_mass": sums.clipped_mass(),
    }
    truth, clipped = scaled(sums.true_value()), scaled(policy.ends)
    found: dict[str, Any] = {
        "policy_value": low + size * policy.value,
        "behaviour_value": low + size * behaviour.value,
        "difference": size * difference.value,
        **{name: one.value for name, one in plainly.items()},
        "largest_weight": sums.largest_weight,
        "robust_bounds": truth,
        "covers": covers_sentence(sums, weighed, plainly["clipped_mass"], clipped),
    }
    if not sums.unclipped:
        found["clipped_value"] = clipped
        found["clipped_difference"] = scaled(difference.ends, 0.0)
    if doubt := doubt_sentence(sums):
        found["doubt"] = doubt
    if uncertain:
        drowned = sums.noise_half_width() >= MAX_NOISE_SHARE
        noise = dict.fromkeys(("policy_value", "effective_size", "clipped_mass"), drowned)
        # Whoever asks what another policy changes learns nothing where it may be better or worse,
        # however well the values themselves are known.
        change = scaled(sums.true_difference(), 0.0)
        noise["difference"] = change["lower"] < 0 < change["upper"]
        noise["behaviour_value"] = sums.behaviour_noise_half_width() >= MAX_NOISE_SHARE
        # The sum of squared weights may be lost in noise where values are not: then the effective
        # size says nothing.
        told = plainly["effective_size"].ends
        noise["effective_size"] = drowned or bool(told.lower <= TELLING * told.upper)
        found["uncertainty"] = Uncertainty(
            level=LEVEL,
            values={
                "policy_value": truth,
                "behaviour_value": scaled(behaviour.ends),
                "difference": change,
                **{
                    name: Interval(lower=one.ends.lower, upper=one.ends.upper)
                    for name, one in plainly.items()
                },
            },
            kinds={**dict.fromkeys(noise, CONFIDENCE), "effective_size": NOISE},
            noise_dominates=dict(noise),
            mostly_noise=noise["difference"],
        )
    return found


# Weighting words ----------------------------------------------------------------------------------
# Sentences about weights that are cut off, and about probabilities that are doubtful.

TOO_LARGE, TOO_SMALL = 2.6, 3.5
"""Standard deviations by which the mean of the weights may be above or below what it can be before
the probabilities are doubted. A few large weights make many means too small, and their deviations
with them; of 100 answers with the right probabilities at most one may be doubted."""
MUCH_CUT = 0.5
"""A plan warns where more than this part of the weights may be cut off."""


POWER = "by max_ratio or overlap, and horizon"


def clip_by_release(weighed: str, clips: Floats, enough: float | None) -> str:
    """Where weights are clipped if the release chooses that. `enough`: the number of trajectories
    from which on none is cut off; None where there is no such number."""
    says = (
        f"weights of {weighed} are clipped at one of {clips.size} values from {plain(clips[0], 3)} "
        f"to {plain(clips[-1], 3)}, which the release chooses by what each cuts off and by its "
        f"noise: an eighth of epsilon is spent on that, and a `max_importance` of your own saves "
        "it. The interval of the policy's value allows for what is cut off, whatever the returns "
        "of those people were; `clipped_value` does not"
    )
    if enough is None:
        return says
    return f"{says}. From about {rounded(enough):,.0f} trajectories on none is cut off"


def people_needed(people: float, within: float, cap: float, most: float, own: float | None) -> str:
    """How many trajectories a good answer takes; `own`: the clip that was asked for."""
    if cap >= most:
        clipped = "and no weight is cut off then"
    elif own is not None:
        clipped = f"with weights clipped at {plain(cap)}"
    else:
        clipped = f"if weights are clipped at {plain(cap)}, which the release decides"
    return (
        f"the target policy's value within about ± {plain(within)} by noise takes some "
        f"{rounded(people):,.0f} trajectories at this epsilon, {clipped}"
    )


def expected_sentence(
    what: str,
    half: float,
    whole: float,
    size: float,
    level: float,
    clipped: float | None,
    *,
    drowned: bool,
) -> str:
    """How far noise is expected to move a value in a range of this size, and how wide its interval
    will be. `clipped`: where weights are clipped; None where none is cut off."""
    if clipped is not None:
        what += f" with weights clipped at {plain(clipped, 3)}"
    if drowned:
        return f"{what} is expected to be mostly noise, in a range of {plain(size, 3)} in {REWARD}"
    return (
        f"{what} within about ± {plain(half)} by noise with {percent(level)}, in a range of "
        f"{plain(size, 3)} in {REWARD}; its interval, which also allows for who came and for "
        f"clips, is about ± {plain(whole)}"
    )


def covers_sentence(
    sums: ClippedSums | WeightedSums, weighed: str, mass: Told, clipped: Interval
) -> str:
    """What the interval of `policy_value` holds, and what that of `clipped_value` does not."""
    level = percent(LEVEL)
    if sums.unclipped:
        return (
            f"With probability {level} the interval of policy_value holds what the target policy "
            "is worth for people such as those in the data, by the probabilities that the data "
            "name: noise and the chance of who came are in it. "
            f"{cut_sentence(mass)}."
        )
    return (
        f"With probability {level} or more the interval of policy_value holds what the target "
        "policy is worth for people such as those in the data, by the probabilities that the data "
        "name, whatever returns the cut-off weights had: noise, the chance of who came and the "
        f"clips are in it. Weights of {weighed} are clipped at {plain(sums.largest_weight, 3)}. "
        f"{cut_sentence(mass)}; with clipped weights the value lies between "
        f"{plain(clipped['lower'], 3)} and {plain(clipped['upper'], 3)} ({level}, clipped_value), "
        "which says nothing of the returns that were cut off."
    )


def cut_sentence(mass: Told) -> str:
    """How much of the weights is cut off, where that can be told."""
    lower, upper = mass.ends
    if upper <= 0:
        return f"No weight can be cut off, {POWER}"
    if lower <= 0:
        return f"At most {percent(upper)} of the weights are cut off, perhaps none"
    return (
        f"About {percent(mass.value)} of the weights are cut off ({percent(lower)} to "
        f"{percent(upper)})"
    )


def doubt_sentence(sums: ClippedSums | WeightedSums) -> str:
    """Why the probabilities are not those by which people were treated; empty where nothing speaks
    against them."""
    upper = sums.mean_weight(TOO_SMALL).upper
    if (lower := sums.mean_weight(TOO_LARGE).lower) > 1:
        found = f"at least {plain(lower, 3)}, and can be 1 at most"
    elif sums.unclipped and upper < 1:
        found = f"at most {plain(upper, 3)}, and must be 1"
    else:
        return ""
    return (
        f"The values are wrong: the mean weight is {found}. The behaviour probabilities are wrong, "
        "or the target policy goes by what was measured after the treatment"
    )


def wide_range(low: float, high: float, steps: int) -> str:
    """What makes the noise smaller if only the bounds on rewards limit returns."""
    says = (
        f"returns are taken to lie between {plain(low, 3)} and {plain(high, 3)}, as public figures "
        "allow; noise is in proportion to that range: `return_bounds` that are known without the "
        "data make it smaller"
    )
    if steps == 1:
        return says
    return (
        f"{says}; where most steps have a reward and weights may be large, the method "
        "`per_decision` is more accurate"
    )


def long_episodes(method: Any) -> tuple[str, ...]:
    """What is lost where episodes are long: a weight w of at most W and mean 1 exceeds a clip c
    by at most 1 - c/W on average, as it does where one person in W follows the target policy
    all along and weighs W."""
    most = method.largest_weight
    cap = float(method.candidates[-1]) if method.by_release else method.fixed_cap
    lost = 1 - cap / most
    if not math.isfinite(most) or lost <= MUCH_CUT:
        return ()
    at_most = " at most" if method.by_release else ""
    return (
        f"over {method.weighed_visits} steps a weight may be as large as {plain(most, 3)} (the "
        f"largest ratio to the power of their number), and it is clipped at {plain(cap, 3)}"
        f"{at_most}: where so few do what the target policy would in every step, 1 in "
        f"{plain(most, 3)}, up to {percent(lost)} of the weights are cut off, and `robust_bounds` "
        "says little; a shorter horizon helps, or the method `moments`, which looks at single "
        "steps",
    )

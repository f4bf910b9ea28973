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
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.expectation import GOOD, RATIO_SQUARE, cut_off, rounded
from discreet.problems.off_policy_evaluation.gradients import COUNT_SHARE
from discreet.problems.off_policy_evaluation.method import Asked, Chosen, MethodOfSums
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.problems.plans import NoiseSummary
from discreet.problems.results import CONFIDENCE, LEVEL, NOISE, Expected, Interval, Uncertainty
from discreet.solvers.evaluation import importance_sampling as sampling
from discreet.solvers.evaluation import temporal_difference as td
from discreet.solvers.evaluation.importance_sampling import Ends, Told, WeightedSums
from discreet_client.intervals import percent, plain

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
            drowned = half >= MAX_NOISE_SHARE
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


# Per decision -------------------------------------------------------------------------------------
# Importance sampling of single steps: each reward is weighted by the ratios up to its step.
#
# It has the same seven sums, of the same sensitivity, as that of whole trajectories, of mean
# weights of steps: `solvers.evaluation.importance_sampling` proves it. Early rewards are not
# multiplied by the ratios of later steps, so less is clipped and the value varies less by chance.


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
    sums: WeightedSums, bounds: tuple[float, float], weighed: str, *, uncertain: bool
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

MOST_CAP = 50.0
TOO_LARGE, TOO_SMALL = 2.6, 3.5
"""Standard deviations by which the mean of the weights may be above or below what it can be before
the probabilities are doubted. A few large weights make many means too small, and their deviations
with them; of 100 answers with the right probabilities at most one may be doubted."""
MANY_PEOPLE = 30_000
"""More than most data have: if only with more of them nothing is cut off, plans warn."""
MUCH_CUT = 0.5
"""A plan warns where more than this part of the weights may be cut off."""


POWER = "by max_ratio and horizon"


def clip_of_noised_number(weighed: str, most: float, enough: float | None) -> str:
    """Where weights are clipped if the number of trajectories is private. `enough`: the number of
    trajectories from which on none is cut off; None where there is no such number."""
    says = (
        f"weights of {weighed} are clipped at a value that follows from a noised number of "
        f"trajectories, on which a {COUNT_SHARE}th of epsilon is spent; a `max_importance` of your "
        "own saves that"
    )
    if enough is None:
        return says
    return (
        f"{says}. No weight can be larger than {plain(most)}, {POWER}, and from about "
        f"{rounded(enough):,.0f} trajectories on none is cut off"
    )


def clip_of_public_number(
    weighed: str, cap: float, most: float, cut: float, enough: float | None
) -> str:
    """Where weights are clipped if the number of trajectories is public, and what that may cut
    off: `cut`, a part of the weights, in the model. `enough`: trajectories from which on none
    would be; None where there is no such number."""
    bound = "" if math.isinf(most) else f" (at most {percent(1 - cap / most)}, {POWER})"
    return (
        f"weights of {weighed} are clipped at {plain(cap)}, which follows from the public number "
        f"of trajectories and the noise; if their mean square is {RATIO_SQUARE:g}, {percent(cut)} "
        f"of the weights are cut off{bound}. The interval of the policy's value allows for that, "
        "whatever the returns of those people were; `clipped_value` does not"
        + ("" if enough is None else f". From about {rounded(enough):,.0f} trajectories none is")
    )


def people_needed(people: float, within: float, cap: float, most: float, own: float | None) -> str:
    """How many trajectories a good answer takes; `own`: the clip that was asked for."""
    if cap >= most:
        clipped = "and no weight is cut off then"
    elif own is not None:
        clipped = f"with weights clipped at {plain(cap)}"
    else:
        clipped = f"with weights clipped at {plain(cap)}; more trajectories have a larger clip"
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


def covers_sentence(sums: WeightedSums, weighed: str, mass: Told, clipped: Interval) -> str:
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


def doubt_sentence(sums: WeightedSums) -> str:
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


def long_episodes(method: Any, enough: float | None) -> tuple[str, ...]:
    """What is lost where episodes are long: a weight w of at most W and mean 1 exceeds a clip c
    by at most 1 - c/W on average, as it does where one person in W follows the target policy
    all along and weighs W. `enough`: the number of trajectories from which on nothing is cut
    off."""
    most, cap = method.public.largest_weight, MOST_CAP if method.counted else method.fixed_cap
    if method.counted and enough is not None and enough <= MANY_PEOPLE:
        return ()  # of so many trajectories no weight is cut off
    lost = 1 - cap / most
    if not math.isfinite(most) or lost <= MUCH_CUT:
        return ()
    return (
        f"over {method.public.horizon} steps a weight may be as large as {plain(most, 3)} "
        f"(max_ratio to the power of the horizon), and it is clipped at {plain(cap, 3)}: where so "
        f"few do what the target policy would in every step, 1 in {plain(most, 3)}, up to "
        f"{percent(lost)} of the weights are cut off, and `robust_bounds` says little; a shorter "
        "horizon helps, or the method `moments`, which looks at single steps",
    )

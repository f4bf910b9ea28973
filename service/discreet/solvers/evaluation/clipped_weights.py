"""Importance sampling of whole trajectories: sums for every clip that a release may choose, of
which one trajectory moves each by a bounded amount, and what follows from those of the chosen one.

    candidate_sums(content, ...) -> int64[clips, entries + 1]
    ClippedSums(noised, ...) -> values, differences and their intervals

A trajectory has the weight w, the product of its ratios target / behaviour, and the return G,
clipped to public [a, b]. For each clip W, with u = min(w, W) / W and g = (G - a) / (b - a), both
within [0, 1], and v = 1 - u, it adds `UNIT` times

    (u g², 2 u g (1 - g), u (1 - g)², v g², 2 v g (1 - g), v (1 - g)²)           masses, in all 1
    .1 u² (g², 2 g (1 - g), (1 - g)²)                                           squares, at most .1

and, of a single visit that has two actions by protocol, so that its row tells both probabilities,
what the clip cuts off in expectation over the action:

    c e, c = .15,    e = sum over actions a of max(0, target(a) - W behaviour(a)) <= 1

**Expected excess.** Weights have mean 1, so kappa = 1 - W E[u] is the part of them that W cuts off.
Given who came, W E[u] = sum over a of behaviour(a) min(target(a) / behaviour(a), W), so E[e] =
kappa: without the chance of who was treated, and e <= 1 whatever W is. So kappa costs the noise of
one person, and not of W people. (Of several visits e is as large as the weights are: its noise was
as large as what it told beyond 1 - W E[u], and the sums without it have less.)

**Choosing the clip.** Beside the sums of each clip stands what one trajectory takes off its score,
from 0 to UNIT: e of one visit of two actions, else 1 where w > W. One more trajectory lowers every
score or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.importance_sampling import (
    EVERYTHING,
    POINTS,
    Ends,
    Quadratic,
    Told,
    about,
    farthest,
    roots,
)
from discreet.solvers.evaluation.temporal_difference import Floats, Ints

UNIT = 1 << 24
"""Counts of one whole trajectory; rounding loses less than 6e-8 of a trajectory in an entry."""
SQUARES, EXCESS = 0.1, 0.15
"""What squares and the expected excess of one visit count: their errors matter less."""
SQUARE_UNIT, EXCESS_UNIT = int(SQUARES * UNIT), int(EXCESS * UNIT)

MASSES = 6


def entries(excess: bool) -> int:
    """The number of sums."""
    return MASSES + 3 + excess


def sensitivity(*, excess: bool, replaced: bool) -> tuple[float, float]:
    """How far one trajectory moves the sums of one clip, in l1 and l2, in counts.

    Masses are nonnegative integers of sum UNIT at most, squares of SQUARE_UNIT, and an excess is
    one of EXCESS_UNIT. Added: l1 is at most their sum, l2 the root of the sum of squares. Replaced:
    of nonnegative parts of a whole two differ by twice the whole in l1 and by sqrt(2) of it in l2;
    the single entry by itself.
    """
    parts, single = 2 if replaced else 1, EXCESS_UNIT if excess else 0
    l1 = float(parts * (UNIT + SQUARE_UNIT) + single)
    l2 = math.sqrt(parts * (UNIT**2 + SQUARE_UNIT**2) + single**2)
    return l1, math.nextafter(l2, math.inf)


def candidate_sums(
    content: Mapping[str, NDArray[Any]],
    clips: Floats,
    *,
    excess: bool,
    mean: bool,
    discount: float,
    bounds: tuple[float, float],
    weighed: int,
    least: Ints | None = None,
) -> Ints:
    """The sums over trajectories, int64[clips, entries + 1]: those of each clip, and last what they
    take off its score.

    content: canonical, with `start`, `reward`, `behaviour`, `target`. mean: returns are mean
    rewards. bounds: public, of returns. weighed: visits from the first on whose ratios count; later
    ones have the ratio 1. least: int64[clips], from 0 to UNIT, public: what each trajectory takes
    off the score of a clip at least.

    Total: a weight that is not a number counts as u = 0, a return that is not as g = 1/2.
    """
    low, high = bounds
    sums = np.zeros((clips.size, entries(excess) + 1), dtype=np.int64)
    _add(
        content["start"],
        content["reward"],
        content["behaviour"],
        content["target"],
        mean,
        float(discount),
        float(low),
        float(high),
        weighed,
        clips.astype(np.float64),
        np.zeros(clips.size, dtype=np.int64) if least is None else least,
        excess,
        UNIT,
        SQUARE_UNIT,
        EXCESS_UNIT,
        sums,
    )
    return sums


@numba.njit(cache=True, nogil=True)
def _add(
    start: Ints,
    reward: Floats,
    behaviour: Floats,
    target: Floats,
    mean: bool,
    discount: float,
    low: float,
    high: float,
    weighed: int,
    clips: Floats,
    least: Ints,
    excess: bool,
    unit: int,
    square: int,
    single: int,
    sums: Ints,
) -> None:
    for trajectory in range(start.size - 1):
        first, last = start[trajectory], start[trajectory + 1]
        gain, factor, weight = 0.0, 1.0, 0.0
        for t in range(first, last):
            gain += factor * reward[t]
            factor *= discount
            if t - first < weighed:
                if target[t] > 0.0 and behaviour[t] > 0.0:
                    weight += math.log(target[t]) - math.log(behaviour[t])
                else:
                    weight = -math.inf
        if mean:
            gain /= last - first
        h = unit // 2
        if not math.isnan(gain):
            h = min(int(min(max((gain - low) / (high - low), 0.0), 1.0) * unit + 0.5), unit)
        for place in range(clips.size):
            clip, at = clips[place], sums[place]
            q, off = 0, 0
            if weight >= math.log(clip):
                q = unit
            elif weight > -math.inf:  # neither it nor one that is not a number
                q = min(int(math.exp(weight - math.log(clip)) * unit + 0.5), unit)
            if excess:
                cut = 0.0
                if first < last:
                    b, t = behaviour[first], target[first]
                    cut = max(0.0, t - clip * b) + max(0.0, (1.0 - t) - clip * (1.0 - b))
                off = int(min(max(cut, 0.0), 1.0) * unit + 0.5)
                at[9] += single * off // unit
            elif weight > math.log(clip) + 1e-6:  # not by the last digits of a product
                off = unit
            _split(q, h, unit, at, 0)
            _split(unit - q, h, unit, at, 3)
            _split(square * q // unit * q // unit, h, unit, at, 6)
            at[at.size - 1] += max(off, least[place])


@numba.njit(cache=True, nogil=True)
def _split(whole: int, h: int, unit: int, at: Ints, place: int) -> None:
    """Adds `whole` in three parts by h of `unit`: floors of products, whose sum is not larger."""
    upper = whole * h // unit
    lower = whole - upper
    at[place] += upper * h // unit
    at[place + 1] += upper * (unit - h) // unit + lower * h // unit
    at[place + 2] += lower * (unit - h) // unit


# Values -------------------------------------------------------------------------------------------
# Post-processing of only the noised sums of one clip. Everything is scaled to the public range of
# returns, as 0 to 1.


@dataclass(frozen=True)
class ClippedSums:
    """The sums float64[entries] of one clip in trajectories, with noise of `variance` in each.

    largest_weight: the clip. quantile: the half width of an interval in standard deviations.
    trajectories: their number, if it is public; the masses are then moved by equal amounts to sum
    to it, which reduces noise. unclipped: whether public figures show that no weight is above the
    clip. most: what no weight can exceed by public figures.

    **The interval of what the target policy is worth** holds it whatever the returns that were cut
    off. With v the value with clipped weights, kappa the part that is cut off and m in [0, 1] the
    unknown mean return of that part, what the policy is worth is v + kappa (m - v). So upwards it
    is at most kappa (1 - v) away and downwards kappa v, D kappa for short, and with s the standard
    deviation of the estimate of v an end is the nearer one of

        cv(kappa_U D, s)    the quantile of |N(kappa_U D, s²)|, kappa_U the upper end of kappa's
        D kappa + quantile (s² + D² sd_kappa²)^(1/2)

    (Armstrong & Kolesár 2018 for cv). s is made of the noise, of sum u² (g - v)², which is
    released, and of one more person of the largest weight with the farthest return.
    """

    noised: Floats
    excess: bool
    variance: float
    largest_weight: float
    quantile: float
    level: float
    trajectories: int | None = None
    unclipped: bool = False
    most: float = math.inf

    def __post_init__(self) -> None:
        if self.noised.shape != (entries(self.excess),):
            raise ValueError(f"{entries(self.excess)} sums are needed")

    # Combinations of the sums.

    def _of(self, place: int, coefficients: Sequence[float] | Floats) -> Floats:
        """As coefficients of all sums, those from a place on."""
        found = np.zeros(self.noised.size)
        found[place : place + len(coefficients)] = coefficients
        return found

    @cached_property
    def _all(self) -> Floats:
        return self._of(0, np.ones(MASSES))

    @cached_property
    def _value(self) -> Floats:
        return self._of(0, np.tile(POINTS, 2))

    @cached_property
    def _weighted(self) -> Floats:
        return self._of(0, np.ones(3))

    @cached_property
    def _weighted_value(self) -> Floats:
        return self._of(0, POINTS)

    def _square(self, points: Sequence[float] = (1.0, 1.0, 1.0)) -> Floats:
        """Of u² (g², 2 g (1 - g), (1 - g)²)."""
        return self._of(MASSES, np.array(points) / SQUARES)

    @cached_property
    def _sums(self) -> Floats:
        found = self.noised.astype(np.float64)
        if self.trajectories is not None:
            masses = found[:MASSES]
            masses += (self.trajectories - masses.sum()) / MASSES
        return found

    def _sum(self, coefficients: Floats) -> float:
        return float(coefficients @ self._sums)

    def _noise(self, *combination: Floats) -> float:
        """The covariance by noise of two combinations, or the variance of one."""
        one, other = combination[0], combination[-1]
        known = 0.0
        if self.trajectories is not None:
            known = float(one[:MASSES].sum() * other[:MASSES].sum()) / MASSES
        found = self.variance * (float(one @ other) - known)
        return found if len(combination) > 1 else max(found, 0.0)

    def _at_most(self, coefficients: Floats) -> float:
        """A sum of what is never negative, with half a standard deviation of its noise added."""
        return max(self._sum(coefficients), 0.0) + 0.5 * math.sqrt(self._noise(coefficients))

    @property
    def count(self) -> float:
        """The number of trajectories; at least 1."""
        return max(self._sum(self._all), 1.0)

    @property
    def weight(self) -> float:
        """The sum of u."""
        return self._sum(self._weighted)

    @property
    def squares(self) -> float:
        """The sum of u²: between its minimum, for equal u, and the sum of u."""
        weight = max(self.weight, 0.0)
        found = self._sum(self._square())
        return float(min(max(found, weight**2 / self.count), weight))

    # Values.

    def policy(self) -> Told:
        """The value of the target policy with clipped weights: E[u g] / E[u]."""
        return self._policy

    @cached_property
    def _policy(self) -> Told:
        return self._told(self._weighted_value, self._weighted, self._policy_spread)

    @cached_property
    def _behaviour(self) -> Told:
        return self._told(self._value, self._all, self._behaviour_spread)

    def behaviour(self) -> Told:
        """The value of the behaviour policy: E[g]."""
        return self._behaviour

    def difference(self) -> Told:
        """The difference of the two values, which are of the same people."""
        middle, half = self._policy.value - self._behaviour.value, self._difference_half
        return Told(middle, Ends(middle - half, middle + half).within(-1, 1))

    def true_value(self) -> Ends:
        """An interval of what the target policy is worth, whatever the returns that were cut off:
        never narrower than that for clipped weights."""
        return self._whatever(self._policy, 0.0).within(0, 1)

    def true_difference(self) -> Ends:
        """The same of the difference, for which noise and chance move both values together."""
        return self._whatever(self.difference(), 1.0).within(-1, 1)

    def _whatever(self, told: Told, less: float) -> Ends:
        """The interval of what the target policy is worth, less so much of what the behaviour
        policy is. `told`: the same with clipped weights."""
        if self.unclipped:
            return told.ends
        value = self._policy.value
        below = self._reach(value, (told.value - told.ends.lower) / self.quantile)
        above = self._reach(1 - value, (told.ends.upper - told.value) / self.quantile)
        lower = max(told.value - below, self._mean(self._sums, less).lower)
        upper = min(told.value + above, 1 - less - self._mean(self._mirrored, less).lower)
        return Ends(lower, upper).around(told.ends)

    def _reach(self, far: float, deviation: float) -> float:
        """How far an end is from the value, where returns that are cut off are at most `far` from
        it."""
        *_, upper = self._cut_off
        found = centred_quantile(upper * far, deviation, self.level)
        if self._cut is not None:
            kappa, spread = self._cut
            bias = max(kappa, 0.0) * far
            found = min(found, bias + self.quantile * math.hypot(deviation, far * spread))
        return found

    @cached_property
    def _mirrored(self) -> Floats:
        """The sums of 1 - g in the place of g."""
        thirds = self._sums[: MASSES + 3].reshape(3, 3)[:, ::-1].ravel()
        return np.concatenate([thirds, self._sums[MASSES + 3 :]])

    def _mean(self, sums: Floats, less: float) -> Ends:
        """An interval of the mean of (W u - less) g, of which what the target policy is worth less
        so much of what the behaviour policy is can only be more: of the sum of its squares, which
        is released, and of one more person of the largest weight."""
        cap, count = self.largest_weight, self.count
        coefficients = cap * self._weighted_value - less * self._value
        mean = float(coefficients @ sums) / count
        squared = self._of(MASSES, np.array([cap**2, 0, 0]) / SQUARES)
        squared = squared + self._of(0, [less - 2 * cap * less, 0, 0, less, 0, 0])
        square = float(squared @ sums) + 0.5 * math.sqrt(self._noise(squared))
        most = cap**2 * max(float(sums[0]), 0.0) + less * max(float(sums[0] + sums[3]), 0.0)
        spread = max(min(square, most) - count * mean**2, 0.0) + cap**2
        half = self.quantile * math.sqrt(spread + self._noise(coefficients - mean * self._all))
        return Ends(mean - half / count, mean + half / count)

    @cached_property
    def _cut(self) -> tuple[float, float] | None:
        """kappa by what is cut off in expectation, and its standard deviation; None where that was
        not released."""
        if not self.excess:
            return None
        coefficients, count = self._of(MASSES + 3, [1 / EXCESS]), self.count
        kappa = self._sum(coefficients) / count
        # No e is above 1, so the sum of e² is at most that of e; and one more person's.
        square = self._at_most(coefficients) + 1
        return kappa, math.sqrt(square + self._noise(coefficients - kappa * self._all)) / count

    @cached_property
    def _cut_off(self) -> tuple[float, float, float]:
        """kappa, its standard deviation, and its upper end: by what is cut off in expectation or by
        the mean of the clipped weights, whichever is known better."""
        count, cap, weight = self.count, self.largest_weight, max(self.weight, 0.0)
        kappa = 1 - cap * self.weight / count
        square = cap**2 * (min(self._at_most(self._square()), weight) + 1)
        spread = max(square - count * min(max(1 - kappa, 0.0), 1.0) ** 2, cap**2)
        noise = self._noise((1 - kappa) * self._all - cap * self._weighted)
        deviation = math.sqrt(spread + noise) / count
        if self._cut is not None and self._cut[1] < deviation:
            kappa, deviation = self._cut
        # Of weights up to `most` no more than this part is above the clip.
        public = 1 - cap / self.most
        upper = min(max(kappa + self.quantile * deviation, 0.0), public)
        return min(max(kappa, 0.0), public), deviation, upper

    def clipped_mass(self) -> Told:
        """kappa: how much of the weights, whose mean is 1, is lost by clipping."""
        if self.unclipped:
            return Told(0.0, Ends(0.0, 0.0))
        kappa, deviation, upper = self._cut_off
        return Told(kappa, Ends(kappa - self.quantile * deviation, upper).within(0, 1))

    def effective_size(self) -> Told:
        """The effective sample size (sum of u)² / sum of u²: that many trajectories of equal weight
        carry the same information. The interval is for the noise."""
        value, squares = 0.0, self._square()
        if self.weight > 0:
            value = self.weight**2 / self.squares
        weight, noise = self._noise(self._weighted), self._noise(squares)
        spread = Quadratic(4 * max(self.weight, 0.0) ** 2 * weight, 0.0, noise)
        ends = roots(self.weight**2, max(self._sum(squares), 0.0), spread, self.quantile)
        low = max(ends.lower, 0.0) if ends is not EVERYTHING else 0.0
        return Told(value, Ends(min(low, value), max(ends.upper, value)).within(0, self.count))

    def mean_weight(self, quantile: float) -> Ends:
        """W E[u], the mean of the clipped weights, with this many standard deviations on either
        side. With the true behaviour probabilities it is at most 1, and 1 if nothing is cut off."""
        cap, count, weight = self.largest_weight, self.count, max(self.weight, 0.0)
        square = cap**2 * min(self._at_most(self._square()), weight)
        above = cap * self._weighted
        spread = Quadratic(square, -2 * cap * weight, count).plus(self._fieller(above, self._all))
        return roots(self._sum(above), self._sum(self._all), spread, quantile)

    def noise_half_width(self) -> float:
        """How far noise alone moves the target policy's value."""
        if self.weight <= 0:
            return math.inf
        moved = self._noise(self._weighted_value - self._policy.value * self._weighted)
        return self.quantile * math.sqrt(moved) / self.weight

    def behaviour_noise_half_width(self) -> float:
        """How far noise alone moves the behaviour policy's value."""
        moved = self._noise(self._value - self._behaviour.value * self._all)
        return self.quantile * math.sqrt(moved) / self.count

    # Spreads.

    def _fieller(self, above: Floats, below: Floats) -> Quadratic:
        """The variance by noise of above - t below."""
        return Quadratic(self._noise(above), -2 * self._noise(above, below), self._noise(below))

    def _told(self, above: Floats, below: Floats, spread: Quadratic) -> Told:
        """A ratio of sums that is known to be from 0 to 1, with all t at which above - t below is
        within the quantile of its standard deviation (Fieller 1954). If noise moved it outside, the
        interval also covers that for the nearer end."""
        value, under, over = self._ratio(above, below), self._sum(below), self._sum(above)
        ends = roots(over, under, spread.plus(self._fieller(above, below)), self.quantile)
        shift = value - over / under if under > 0 else 0.0
        return Told(
            value, Ends(ends.lower + min(shift, 0.0), ends.upper + max(shift, 0.0)).within(0, 1)
        )

    def _ratio(self, above: Floats, below: Floats) -> float:
        under = self._sum(below)
        return min(max(self._sum(above) / under, 0.0), 1.0) if under > 0 else 0.5

    def _three(self, groups: slice) -> tuple[float, float, float]:
        found = np.maximum(self._sums[:MASSES].reshape(2, 3)[groups].sum(axis=0), 0.0)
        return float(found[0]), float(found[1]), float(found[2])

    @cached_property
    def _policy_spread(self) -> Quadratic:
        """The sum of u² (g - t)², of which noise may be most: a standard deviation of that is added
        (with half of it intervals held .84). It is no more than that of u (g - t)², to which half
        of one is added, as the lesser of the two is taken. And one more person, since of few people
        of large weight nearly all may have fared alike by chance."""
        value = self._ratio(self._weighted_value, self._weighted)
        squares = self._sums[MASSES : MASSES + 3] / SQUARES
        known = about(*np.maximum(squares, 0.0).tolist())
        noise = self._noise(self._square(_distances(value, value)))
        known = known.plus(Quadratic(math.sqrt(noise), 0.0, 0.0))
        bound = about(*self._three(slice(1)))
        noise = self._noise(self._of(0, _distances(value, value)))
        bound = bound.plus(Quadratic(0.5 * math.sqrt(noise), 0.0, 0.0))
        return min(known, bound, key=lambda one: one.at(value)).plus(farthest(value))

    @cached_property
    def _behaviour_spread(self) -> Quadratic:
        """The sum of (g - t)², and one more person with the farthest return: where good or bad
        returns are rare those who came may have had too few of them by chance."""
        value = self._ratio(self._value, self._all)
        return about(*self._three(slice(None))).plus(farthest(value))

    @cached_property
    def _difference_half(self) -> float:
        """Half the interval of the difference of the values with clipped weights: of the sum over
        people of u (g - v) / mean u - (g - b), whose square is released."""
        weight, count = self.weight, self.count
        if weight <= 0 or self._policy.ends in (Ends(0, 1), EVERYTHING):
            return 1.0
        v, b, mean = self._policy.value, self._behaviour.value, weight / count
        shared = float(np.dot(self._three(slice(1)), _distances(v, b)))
        square = max(
            self._policy_spread.at(v) / mean**2 - 2 * shared / mean + self._behaviour_spread.at(b),
            farthest(v).at(v) / mean**2,
        )
        moved = (self._weighted_value - v * self._weighted) / mean - (self._value - b * self._all)
        return self.quantile * math.sqrt(square + self._noise(moved)) / count


def _distances(t: float, s: float) -> tuple[float, float, float]:
    """(g - t) (g - s) by g², 2 g (1 - g) and (1 - g)²."""
    return (1 - t) * (1 - s), -((1 - t) * s + t * (1 - s)) / 2, t * s


def centred_quantile(bias: float, deviation: float, level: float) -> float:
    """cv(bias, deviation): what |N(bias, deviation²)| exceeds with probability 1 - level."""
    if not deviation > 0:
        return bias
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - as late as the first answer

    shift = bias / deviation
    low, high = float(ndtri(level)), shift + float(ndtri((1 + level) / 2))
    low = max(low, shift + low)
    for _ in range(60):
        middle = (low + high) / 2
        inside = float(ndtr(middle - shift) - ndtr(-middle - shift))
        low, high = (middle, high) if inside < level else (low, middle)
    return deviation * high

"""Weighted importance sampling of single steps, by sums that one trajectory moves by a bounded
amount.

    per_decision_sums(transitions, discount, bounds, clips, horizon) -> int64[clips, 8]

A reward r_t is weighted by the ratios up to its step (Precup, Sutton & Singh 2000). With w_t their
product, clipped at W, u_t = w_t / W, v_t = 1 - u_t, g_t = (r_t - a) / (b - a) of public bounds of
one reward, and shares s_t = discount^t / (1 + discount + ...) of all steps to the horizon,

    u = sum s_t u_t,    u g = sum s_t u_t g_t,    v = 1 - u,    v g' = sum s_t v_t g_t,

a trajectory adds `UNIT` times

    (u g², 2 u g (1 - g), u (1 - g)², v g'², 2 v g' (1 - g'), v (1 - g')², c u²).

The first six are nonnegative and sum to 1, since (g + (1 - g))² = 1 = u + v. The sums of u, u g, u
(g - t)², g and (g - t)² follow from them: the values of both policies, their sampling errors, and
the number of trajectories. The behaviour policy's value is free of charge: without it the last
three would be one entry, 1 - u, with the same noise. After its end the rewards are 0 and w_t stays.
Every E[w_t] is 1, so the sums of u g and of u have one expected ratio for all steps together: one
denominator instead of one per step, among which the noise would be shared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions

UNIT = 1 << 24
"""Counts of one whole trajectory; rounding loses less than 6e-8 of a trajectory in an entry."""
SQUARES = 0.1
"""The weight c of u²: its error matters less than those of the others."""
SQUARE_UNIT = int(SQUARES * UNIT)
ENTRIES, MASSES = 7, 6


def sensitivity(*, replaced: bool) -> tuple[float, float]:
    """How far one trajectory moves the sums, in l1 and l2, in counts.

    It adds nonnegative integers of which the first six sum to at most UNIT, and the last is at most
    SQUARE_UNIT. Added or removed: l1 <= UNIT + SQUARE_UNIT and l2 <= (UNIT² + SQUARE_UNIT²)^(1/2).
    Replaced: the difference of the first six has l1 <= 2 UNIT and l2 <= 2^(1/2) UNIT (no entry is
    negative), that of the last is at most SQUARE_UNIT. Proof: integers q in [0, UNIT] stand for u
    and h for g; q and UNIT - q are each split in two and these in two again, by floors of products
    whose sum does not exceed what is split.
    """
    parts = 2 if replaced else 1
    root = math.sqrt(parts * UNIT**2 + SQUARE_UNIT**2)
    return float(parts * UNIT + SQUARE_UNIT), math.nextafter(root, math.inf)


def per_decision_sums(
    transitions: Transitions,
    *,
    discount: float,
    bounds: tuple[float, float],
    clips: Floats,
    horizon: int,
    least: Ints | None = None,
) -> Ints:
    """For each clip the sums over trajectories with weights of single steps, int64[clips, 8]; last
    what they take off its score: the shares of the steps whose weights are above it, from 0 to UNIT
    for a trajectory. `bounds`: public, of one reward, and contain 0 because steps after the end
    have no reward; `horizon`: the number of steps that have shares. Only ratios and rewards of
    `transitions` are read. `least`: int64[clips], from 0 to UNIT, public: what a trajectory takes
    off a score at least. Ratios are not clipped individually, only their products are.

    A weight that is not a number counts as u_t = 0, a reward that is not as g_t = 1/2.
    """
    low, high = bounds
    sums = np.zeros((clips.size, ENTRIES + 1), dtype=np.int64)
    for place, clip in enumerate(clips.tolist()):
        _add_steps(
            transitions.trajectory_start,
            transitions.reward,
            transitions.ratio,
            float(discount),
            float(low),
            float(high),
            math.log(clip),
            horizon,
            UNIT,
            SQUARE_UNIT,
            0 if least is None else int(least[place]),
            sums[place],
        )
    return sums


@numba.njit(cache=True, nogil=True)
def _add_steps(
    start: Ints,
    reward: Floats,
    ratio: Floats,
    discount: float,
    low: float,
    high: float,
    most: float,
    horizon: int,
    unit: int,
    square: int,
    least: int,
    sums: NDArray[np.int64],
) -> None:
    steps, factor = 0.0, 1.0
    for _ in range(horizon):
        steps += factor
        factor *= discount
    nothing = (0.0 - low) / (high - low)
    for trajectory in range(start.size - 1):
        weight, share, rest = 0.0, 1.0 / steps, 1.0
        kept, mine, gain, clipped, above, off = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for t in range(start[trajectory], start[trajectory + 1]):
            weight += math.log(ratio[t]) if ratio[t] != 0.0 else -math.inf
            clipped, above = 0.0, 0.0
            if weight >= most:
                clipped, above = 1.0, (1.0 if weight > most + 1e-6 else 0.0)
            elif weight > -math.inf:  # neither it nor one that is not a number
                clipped = math.exp(weight - most)
            part = 0.5
            if not math.isnan(reward[t]):
                part = min(max((reward[t] - low) / (high - low), 0.0), 1.0)
            kept += share * clipped
            mine += share * clipped * part
            gain += share * part
            off += share * above
            rest -= share
            share *= discount
        rest = max(rest, 0.0)  # for the steps after its end
        kept += rest * clipped
        mine += rest * clipped * nothing
        gain += rest * nothing
        off += rest * above
        q = min(int(kept * unit + 0.5), unit)
        g = _counts(mine, kept, unit)
        _split(q, g, _counts(gain - mine, 1.0 - kept, unit), unit, square, sums)
        sums[7] += max(min(int(off * unit + 0.5), unit), least)


@numba.njit(cache=True, nogil=True)
def _counts(part: float, whole: float, unit: int) -> int:
    """part / whole, both nonnegative up to rounding, as an integer from 0 to `unit`."""
    if not whole > 0.0:
        return 0
    return int(min(max(part / whole, 0.0), 1.0) * unit + 0.5)


@numba.njit(cache=True, nogil=True)
def _split(q: int, g: int, other: int, unit: int, square: int, sums: NDArray[np.int64]) -> None:
    """Adds one trajectory: q and `unit` - q, split by `g` and by `other`, each from 0 to `unit`."""
    for half in range(2):
        whole, h = (q, g) if half == 0 else (unit - q, other)
        upper = whole * h // unit
        lower = whole - upper
        sums[3 * half] += upper * h // unit
        sums[3 * half + 1] += upper * (unit - h) // unit + lower * h // unit
        sums[3 * half + 2] += lower * (unit - h) // unit
    sums[6] += square * q // unit * q // unit


# Weighted value -----------------------------------------------------------------------------------
# The values of two policies, with intervals, from noised sums of weighted importance sampling.
#
# Post-processing of only the sums of `importance_sampling`. Everything is scaled to the public
# range of returns, as 0 to 1. With A, B, C the sums of u g², 2 u g (1 - g), u (1 - g)²
#
# sum of u (g - t)  = A (1 - t) + B (1/2 - t) - C t,
#     sum of u (g - t)² = A (1 - t)² - B t (1 - t) + C t².
#
# An interval consists of all t at which such a sum, whose mean is 0 for the true t, is within the
# quantile of its standard deviation by noise and sampling together (Fieller 1954). This holds even
# if the weights are small compared with the noise.

POINTS = np.array([1.0, 0.5, 0.0])
"""Weights of g in the entries of g², 2 g (1 - g) and (1 - g)²."""
WEIGHTED = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
"""The entries of u among the first six."""
VALUE, WEIGHTED_VALUE, ALL = (
    np.tile(POINTS, 2),
    np.concatenate([POINTS, np.zeros(3)]),
    np.ones(MASSES),
)


class Ends(NamedTuple):
    """The ends of an interval."""

    lower: float
    upper: float

    def within(self, least: float, most: float) -> Ends:
        """The interval with both ends clipped to a range."""
        lower, upper = (min(max(one, least), most) for one in self)
        return Ends(lower, upper)

    def around(self, other: Ends) -> Ends:
        """The shortest interval that holds this one and another."""
        return Ends(min(self.lower, other.lower), max(self.upper, other.upper))


EVERYTHING = Ends(-math.inf, math.inf)


@dataclass(frozen=True)
class Told:
    """A number with its interval."""

    value: float
    ends: Ends


class Quadratic(NamedTuple):
    """c + b t + a t²: a variance as a function of t."""

    c: float
    b: float
    a: float

    def at(self, t: float) -> float:
        return self.c + t * (self.b + t * self.a)

    def times(self, factor: float) -> Quadratic:
        return Quadratic(*(factor * one for one in self))

    def plus(self, other: Quadratic) -> Quadratic:
        return Quadratic(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass(frozen=True)
class WeightedSums:
    """The sums float64[7] in trajectories, with noise of `variance` in each. `trajectories`: their
    number, if it is public; the first six are then adjusted by equal amounts to sum to it, which
    reduces noise.

    quantile: the half width of an interval in standard deviations.
    """

    noised: Floats
    variance: float
    largest_weight: float
    quantile: float
    trajectories: int | None = None
    unclipped: bool = False
    """Whether public figures show that no weight can exceed the largest: then nothing is cut
    off."""
    most: float = math.inf
    """What no weight can exceed by public figures, before it is clipped."""

    def __post_init__(self) -> None:
        if self.noised.shape != (ENTRIES,):
            raise ValueError(f"{ENTRIES} sums are needed")

    @property
    def masses(self) -> Floats:
        """The first six."""
        found: Floats = self.noised[:MASSES]
        return (
            found
            if self.trajectories is None
            else found + (self.trajectories - found.sum()) / MASSES
        )

    @property
    def count(self) -> float:
        """The number of trajectories; at least 1."""
        return max(float(self.masses.sum()), 1.0)

    @property
    def weight(self) -> float:
        """The sum of u."""
        return float(self.masses[:3].sum())

    @property
    def squares(self) -> float:
        """The sum of u²: between its minimum, for equal u, and the sum of u."""
        found, weight = self.noised[MASSES] / SQUARES, max(self.weight, 0.0)
        return float(min(max(found, weight**2 / self.count), weight))

    def policy(self) -> Told:
        """The value of the target policy with weights clipped at the largest: E[u g] / E[u]."""
        return self._told(WEIGHTED_VALUE, WEIGHTED, self._policy_spread())

    def behaviour(self) -> Told:
        """The value of the behaviour policy: E[g]."""
        return self._told(VALUE, ALL, self._behaviour_spread())

    def difference(self) -> Told:
        """The difference of the two values, which are of the same people: from the distance of each
        end of their intervals from its value, and their correlation (Zou & Donner 2008)."""
        policy, behaviour = self.policy(), self.behaviour()
        rho, middle = (
            self._correlation(policy.value, behaviour.value),
            policy.value - behaviour.value,
        )

        def reach(mine: float, its: float) -> float:
            return math.sqrt(max(0.0, mine**2 + its**2 - 2 * rho * mine * its))

        lower = middle - reach(
            policy.value - policy.ends.lower, behaviour.ends.upper - behaviour.value
        )
        upper = middle + reach(
            policy.ends.upper - policy.value, behaviour.value - behaviour.ends.lower
        )
        return Told(middle, Ends(lower, upper).within(-1, 1))

    def effective_size(self) -> Told:
        """The effective sample size (sum of u)² / sum of u²: that many trajectories of equal weight
        carry the same information. The interval is for the noise."""
        value, count = self.weight**2 / self.squares if self.weight > 0 else 0.0, self.count
        # (weight² - t squares)² is within the squared quantile times its variance by the noise of
        # both.
        weight, squares = self._noise(WEIGHTED), self.variance / SQUARES**2
        seen = max(float(self.noised[MASSES]) / SQUARES, 0.0)
        ends = roots(
            self.weight**2,
            seen,
            Quadratic(4 * max(self.weight, 0.0) ** 2 * weight, 0.0, squares),
            self.quantile,
        )
        low = max(ends.lower, 0.0) if ends is not EVERYTHING else 0.0
        return Told(value, Ends(min(low, value), max(ends.upper, value)).within(0, count))

    def clipped_mass(self) -> Told:
        """1 - W E[u]: how much of the weights, whose mean is 1, is lost by clipping."""
        if self.unclipped:
            return Told(0.0, Ends(0.0, 0.0))
        cap = self.largest_weight
        # t n = n - W sum of u; its spread by people is the sum of (1 - t - W u)².
        count, cut = self.count, cap * max(self.weight, 0.0)
        # One more person of the largest weight, as of the policy's value.
        square = cap**2 * (min(self._squares_at_most(), max(self.weight, 0.0)) + 1)
        spread = Quadratic(count - 2 * cut + square, 2 * cut - 2 * count, count)
        return self._told(ALL - cap * WEIGHTED, ALL, spread)

    def mean_weight(self, quantile: float) -> Ends:
        """W E[u], the mean of the clipped weights, with this many standard deviations on either
        side. With the true behaviour probabilities it is at most 1, and 1 if nothing is cut off."""
        cap, count = self.largest_weight, self.count
        weight = max(self.weight, 0.0)
        spread = Quadratic(cap**2 * min(self._squares_at_most(), weight), -2 * cap * weight, count)
        above, below = cap * WEIGHTED, ALL
        noise = Quadratic(self._noise(above), -2 * self._noise(above, below), self._noise(below))
        return roots(
            cap * float(self.weight), float(below @ self.masses), spread.plus(noise), quantile
        )

    def true_value(self) -> Ends:
        """An interval of the target policy's value E[w g], whatever the returns whose weights were
        cut off. It is never narrower than the interval for clipped weights."""
        if self.unclipped:
            return self.policy().ends
        return self._whatever(0.0).around(self.policy().ends).within(0, 1)

    def true_difference(self) -> Ends:
        """The same of the difference E[w g] - E[g], for which both are bounded together: chance and
        noise move them together."""
        if self.unclipped:
            return self.difference().ends
        return self._whatever(1.0).around(self.difference().ends).within(-1, 1)

    def noise_half_width(self) -> float:
        """How far noise alone moves the target policy's value."""
        if self.weight <= 0:
            return math.inf
        return (
            self.quantile
            * math.sqrt(self._noise(WEIGHTED_VALUE - self.policy().value * WEIGHTED))
            / self.weight
        )

    def behaviour_noise_half_width(self) -> float:
        """How far noise alone moves the behaviour policy's value."""
        return (
            self.quantile
            * math.sqrt(self._noise(VALUE - self.behaviour().value * ALL))
            / self.count
        )

    def _whatever(self, less: float) -> Ends:
        """An interval of E[w g] - less E[g], whatever the returns whose weights were cut off.

        W u <= w <= most u, so the value lies between W E[u g] and most E[u g]; and the same of
        1 - g, of which 1 minus the value is the mean, since E[w] = 1. Each end is the nearer of its
        two bounds. Both are missed by chance together only where both are the value; it is then
        far from the other end, unless so little is cut off that the interval for clipped weights
        holds it.
        """
        mirrored: Floats = self.masses.reshape(2, 3)[:, ::-1].ravel()
        upper = 1 - less - self._at_least(less, mirrored, self.masses)
        return Ends(self._at_least(less, self.masses, mirrored), upper)

    def _at_least(self, less: float, masses: Floats, mirrored: Floats) -> float:
        """The lower end of E[w g] - less E[g]. `mirrored`: the sums of 1 - g in the place of g."""
        found = self._mean(self.largest_weight, less, masses).lower
        if math.isfinite(self.most):
            found = max(found, 1 - less - self._mean(self.most, less, mirrored).upper)
        return found

    def _mean(self, cap: float, less: float, masses: Floats) -> Ends:
        """An interval of the mean of cap u g - less g.

        Its square needs the sum of u² g², which is at most that of u g² and at most that of u²: the
        share of squares that all weights have would be too small where large weights have large
        returns.
        """
        gains, others = max(float(masses[0]), 0.0), max(float(masses[3]), 0.0)
        weighted, plainly = (max(float(one @ masses), 0.0) for one in (WEIGHTED_VALUE, VALUE))
        square = cap**2 * min(gains, self._squares_at_most()) - 2 * cap * less * gains
        square += less**2 * (gains + others) + cap**2  # of one more person
        spread = Quadratic(max(square, 0.0), -2 * (cap * weighted - less * plainly), self.count)
        # The noise is the same in each entry, whichever end of the range a return is counted from.
        return self._fieller(cap * WEIGHTED_VALUE - less * VALUE, ALL, spread, masses)

    def _told(self, above: Floats, below: Floats, spread: Quadratic) -> Told:
        """A number that is known to be from 0 to 1. If noise moved it outside, the interval also
        covers that for the nearer end; otherwise it could be empty."""
        value, under = self._ratio(above, below), float(below @ self.masses)
        ends = self._fieller(above, below, spread)
        shift = value - float(above @ self.masses) / under if under > 0 else 0.0
        return Told(
            value, Ends(ends.lower + min(shift, 0.0), ends.upper + max(shift, 0.0)).within(0, 1)
        )

    def _ratio(self, above: Floats, below: Floats) -> float:
        under = float(below @ self.masses)
        return min(max(float(above @ self.masses) / under, 0.0), 1.0) if under > 0 else 0.5

    def _squares_at_most(self) -> float:
        """The sum of u², with half a standard deviation of its noise added."""
        return self.squares + 0.5 * math.sqrt(self.variance) / SQUARES

    def _spread(self, sums: Floats) -> Quadratic:
        """The sum of u (g - t)²."""
        return about(*np.maximum(sums, 0.0).tolist())

    def _policy_spread(self) -> Quadratic:
        """At least the sum of u² (g - t)², which nothing that is released says: that of u (g - t)²,
        or that of u² times the largest (g - t)² there can be, whichever is less at the value.

        In parts of the first as many as sum u² is of sum u would do where returns have nothing to
        do with weights; where people of large weight fare otherwise such intervals held the value
        in half of the trials.
        """
        value, most = self._ratio(WEIGHTED_VALUE, WEIGHTED), self._squares_at_most()
        far = farthest(value)
        spread = min(self._spread(self.masses[:3]), far.times(most), key=lambda one: one.at(value))
        # Of few people of large weight nearly all may have fared alike by chance: without one more,
        # who did not, intervals of some thirty held .70 to .88 of the time.
        return spread.plus(far)

    def _behaviour_spread(self) -> Quadratic:
        """The sum of (g - t)², and one more person with the farthest return: where good or bad
        returns are rare those who came may have had too few of them by chance, and intervals
        without that person held .80 to .87 of the time."""
        spread = self._spread(self.masses[:3] + self.masses[3:])
        return spread.plus(farthest(self._ratio(VALUE, ALL)))

    def _noise(self, *combination: Floats) -> float:
        """The covariance by noise of two combinations of the six, or the variance of one."""
        first, second = combination[0], combination[-1]
        known = float(first.sum() * second.sum()) / MASSES if self.trajectories is not None else 0.0
        found = self.variance * (float(first @ second) - known)
        return found if len(combination) > 1 else max(found, 0.0)

    def _fieller(
        self, above: Floats, below: Floats, spread: Quadratic, masses: Floats | None = None
    ) -> Ends:
        """All t at which (above - t below) masses is within the quantile of its standard
        deviation."""
        masses = self.masses if masses is None else masses
        noise = Quadratic(self._noise(above), -2 * self._noise(above, below), self._noise(below))
        return roots(
            float(above @ masses), float(below @ masses), spread.plus(noise), self.quantile
        )

    def _correlation(self, policy: float, behaviour: float) -> float:
        """The correlation of the errors of the two values."""
        A, B, C = np.maximum(self.masses[:3], 0.0)
        mine, its = WEIGHTED_VALUE - policy * WEIGHTED, VALUE - behaviour * ALL
        shared = A * (1 - policy) * (1 - behaviour) + C * policy * behaviour
        shared -= B / 2 * ((1 - policy) * behaviour + policy * (1 - behaviour))
        mine_variance = self._policy_spread().at(policy) + self._noise(mine)
        its_variance = self._behaviour_spread().at(behaviour) + self._noise(its)
        scale = math.sqrt(max(mine_variance * its_variance, 1e-300))
        return float(min(max((shared + self._noise(mine, its)) / scale, -1.0), 1.0))


def about(A: float, B: float, C: float) -> Quadratic:
    """The sum of (g - t)² of sums of g², 2 g (1 - g), (1 - g)², as a function of t. The second is
    at most 2 sqrt(A C) (Cauchy-Schwarz): where noise makes it larger it is taken for that, since
    the sum of squares would be negative."""
    B = min(B, 2 * math.sqrt(A * C))
    return Quadratic(A, -(2 * A + B), A + B + C)


def farthest(value: float) -> Quadratic:
    """The largest (g - t)² that a return from 0 to 1 can have about this value."""
    return Quadratic(0.0, 0.0, 1.0) if value > 0.5 else Quadratic(1.0, -2.0, 1.0)


def roots(above: float, below: float, variance: Quadratic, quantile: float) -> Ends:
    """All t with (above - t below)² <= quantile² variance(t); EVERYTHING if this set is
    unbounded."""
    square = quantile**2
    a, half, c = (
        below**2 - square * variance.a,
        above * below + square * variance.b / 2,
        above**2 - square * variance.c,
    )
    if a <= 0 or below <= 0:
        return EVERYTHING
    root = math.sqrt(max(half**2 - a * c, 0.0))
    return Ends((half - root) / a, (half + root) / a)

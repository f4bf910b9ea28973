"""The values of two policies, with intervals, from noised sums of weighted importance sampling.

Post-processing of only the sums of `importance_sampling`. Everything is scaled to the public range
of returns, as 0 to 1. With A, B, C the sums of u g², 2 u g (1 - g), u (1 - g)²

    sum of u (g - t)  = A (1 - t) + B (1/2 - t) - C t,
    sum of u (g - t)² = A (1 - t)² - B t (1 - t) + C t².

An interval consists of all t at which such a sum, whose mean is 0 for the true t, is within the
quantile of its standard deviation by noise and sampling together (Fieller 1954). This holds even if
the weights are small compared with the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.solvers.evaluation.importance_sampling import ENTRIES, MASSES, SQUARES
from discreet.solvers.evaluation.temporal_difference import Floats

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
        ends = _roots(
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
        return _roots(
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
        A, B, C = np.maximum(sums, 0.0)
        return Quadratic(A, -(2 * A + B), A + B + C)

    def _policy_spread(self) -> Quadratic:
        """At least the sum of u² (g - t)², which nothing that is released says: that of u (g - t)²,
        or that of u² times the largest (g - t)² there can be, whichever is less at the value.

        In parts of the first as many as sum u² is of sum u would do where returns have nothing to
        do with weights; where people of large weight fare otherwise such intervals held the value
        in half of the trials.
        """
        value, most = self._ratio(WEIGHTED_VALUE, WEIGHTED), self._squares_at_most()
        far = _farthest(value)
        spread = min(self._spread(self.masses[:3]), far.times(most), key=lambda one: one.at(value))
        # Of few people of large weight nearly all may have fared alike by chance: without one more,
        # who did not, intervals of some thirty held .70 to .88 of the time.
        return spread.plus(far)

    def _behaviour_spread(self) -> Quadratic:
        """The sum of (g - t)², and one more person with the farthest return: where good or bad
        returns are rare those who came may have had too few of them by chance, and intervals
        without that person held .80 to .87 of the time."""
        spread = self._spread(self.masses[:3] + self.masses[3:])
        return spread.plus(_farthest(self._ratio(VALUE, ALL)))

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
        return _roots(
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


def _farthest(value: float) -> Quadratic:
    """The largest (g - t)² that a return from 0 to 1 can have about this value."""
    return Quadratic(0.0, 0.0, 1.0) if value > 0.5 else Quadratic(1.0, -2.0, 1.0)


def _roots(above: float, below: float, variance: Quadratic, quantile: float) -> Ends:
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

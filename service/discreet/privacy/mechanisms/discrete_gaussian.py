"""Discrete Gaussian noise on integer vectors: zCDP like the continuous one, with its own
approximate-DP curve."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri_exp

from discreet.privacy import units
from discreet.privacy.mechanism import CalibratedEvent, Sampler, register
from discreet.privacy.mechanisms.gaussian import (
    SMOOTHING,
    gaussian_delta,
    gaussian_mu,
    gaussian_price,
    square_root_up,
)
from discreet.privacy.search import certified, drawable, request, smallest_scale
from discreet.privacy.units import EPSILON_UNIT, RHO_UNIT, Price

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

LARGEST_ENUMERATED_SQUARE = 9
LARGEST_ENUMERATED_SCALE = 64.0
LARGEST_SENSITIVITY = 1000
BEYOND = 1e-40
"""Far above the probability that any coordinate lies beyond the tails that `step_mu` covers."""


@register("discrete_gaussian")
class DiscreteGaussian(CalibratedEvent):
    """Each integer gets independent noise with P(z) proportional to exp(-z²/(2 scale²)), z an
    integer.

    Guarantee: rho-zCDP with rho = sensitivity²/(2 scale²) in any dimension (Canonne, Kamath &
    Steinke 2020, Theorem 14). The (epsilon, delta) curve is NOT that of the continuous Gaussian
    with this scale, whose delta it exceeds by 3 % at (1, 1e-5) and 38 % at (3, 1e-6), sensitivity
    1. Three bounds hold, and the curve is the least:

    1. The lemma of `gaussian`: mu = sensitivity/sqrt(scale² - 3), for any dimension, sensitivity
       and count.
    2. scale <= 64: mu = sensitivity·`step_mu(scale)`, also for any of these: as if the variance
       were scale² - 1/12.
    3. One release, sensitivity² < 10, scale <= 64: the exact curve of every integer difference v
       (up to order, signs and zeros, which change nothing) with |v|² <= sensitivity², maximized
       over v; see `exact_delta`.

    The second is exact to first order: for one coordinate that moves by k the true delta exceeds
    that of a Gaussian of variance scale² by a part eps²/(24 k²), and so does the bound. For little
    noise it asks for more than the least: 4 % at a scale of 1, 30 % at 0.5 (sensitivity 4).
    """

    published: ClassVar[str] = "integers with discrete Gaussian noise"

    mechanism: Literal["discrete_gaussian"] = "discrete_gaussian"
    norm: Literal["l2"] = "l2"
    noise: Literal["discrete_gaussian"] = "discrete_gaussian"
    sampling: None = None

    def square(self) -> Fraction:
        """sensitivity², exact for whole squares; else of the next double, for a rounded sqrt(3)
        lies below the root."""
        square = Fraction(self.sensitivity) ** 2
        return (
            square
            if square.denominator == 1
            else Fraction(math.nextafter(self.sensitivity, math.inf)) ** 2
        )

    def squared_loss(self) -> Fraction:
        """(sensitivity/scale)² of all releases together."""
        return self.square() / Fraction(self.scale) ** 2 * self.count

    def derive_price(self) -> Price:
        self.certify()
        return gaussian_price(self.charged_epsilon, self.charged_delta, self.squared_loss())

    def delta(self, epsilon: float) -> float:
        variance, square = Fraction(self.scale) ** 2, self.square()
        bound = 1.0
        if variance > SMOOTHING:
            bound = gaussian_delta(
                epsilon, square_root_up(square * self.count / (variance - SMOOTHING))
            )
        if self.scale <= LARGEST_ENUMERATED_SCALE and square <= LARGEST_SENSITIVITY**2:
            mu = square_root_up(square * self.count) * step_mu(self.scale) * (1 + 1e-15)
            bound = min(bound, gaussian_delta(epsilon, mu) + BEYOND)
        if (
            self.count == 1
            and square < LARGEST_ENUMERATED_SQUARE + 1
            and self.scale <= LARGEST_ENUMERATED_SCALE
        ):
            bound = min(bound, exact_delta(epsilon, int(square), self.scale))
        return bound

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        return noise.to_integers(noise.discrete_gaussian, self.scale, values)

    def reach(self, level: float) -> float:
        if self.scale > LARGEST_ENUMERATED_SCALE:  # a rounded Gaussian, see `gaussian`
            return math.ceil(super().reach(level))
        weights = np.exp(-0.5 * (np.arange(math.ceil(14 * self.scale) + 1) / self.scale) ** 2)
        within = np.cumsum(np.where(np.arange(weights.size) > 0, 2 * weights, weights))
        return float(np.searchsorted(within, level * within[-1]))

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        return self.shifted(noise, math.floor(self.sensitivity), np.int64)

    @classmethod
    def example(cls) -> DiscreteGaussian:
        return calibrate(1.0, 10**9, 10**13, neighbours="one count by 1")


@lru_cache(maxsize=4096)
def calibrate(
    sensitivity_l2: float, epsilon: int, delta: int, *, neighbours: str, count: int = 1
) -> DiscreteGaussian:
    """Integers of l2 sensitivity `sensitivity_l2`, of any dimension, `count` releases together
    (epsilon, delta)-DP."""
    eps, target = request(epsilon, delta)

    def event(scale: float) -> DiscreteGaussian:
        return DiscreteGaussian(
            sensitivity=sensitivity_l2,
            scale=scale,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    continuous = sensitivity_l2 * math.sqrt(count) / gaussian_mu(eps, target)
    scale = math.sqrt(continuous**2 + SMOOTHING) * (1 + 1e-12)
    if sensitivity_l2 <= LARGEST_SENSITIVITY and continuous < LARGEST_ENUMERATED_SCALE:
        scale = min(scale, smallest_scale(lambda s: event(s).delta(eps), target, continuous, scale))
    return certified(event, drawable(scale))


def of_rho(sensitivity_l2: float, rho: int, delta: int, *, neighbours: str) -> DiscreteGaussian:
    """The least noise that costs at most this rho (1e-18), charged at the least epsilon of its
    curve for this delta."""
    _, target = request(EPSILON_UNIT, delta)
    most = Fraction(rho, RHO_UNIT)

    def event(scale: float, epsilon: int = 0) -> DiscreteGaussian:
        return DiscreteGaussian(
            sensitivity=sensitivity_l2,
            scale=scale,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    scale = sensitivity_l2 / math.sqrt(2 * most)
    while event(scale).squared_loss() / 2 > most:
        scale = math.nextafter(scale, math.inf)
    # At that epsilon the curve is at most delta (Bun & Steinke 2016, Proposition 1.3); rounded up.
    found, below, above = event(drawable(scale)), -1, units.epsilon_units_from_rho(rho, delta) + 1
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (
            (below, middle) if found.delta(middle / EPSILON_UNIT) <= target else (middle, above)
        )
    return certified(lambda least: event(least, above), scale)


@lru_cache(maxsize=256)
def step_mu(scale: float) -> float:
    """The mu per unit of l2 sensitivity of discrete Gaussian noise X in any dimension, rounded up.

    Let T(n) = P(X >= n) of one coordinate and g(n) = -Phi^-1(T(n)): X >= n is as likely as a normal
    variable >= g(n). Of X + j against X, j >= 1, the likelihood ratio increases: the best tests are
    X >= n, with P = T(n - j), Q = T(n). Where g(n) - g(n - j) <= j m they are no better than tests
    of N(j m, 1) against N(0, 1), and so are their mixtures. So with m the largest g(n) - g(n - 1),
    shifts by v are no easier to tell apart than those of a Gaussian with mu = m |v|_2, since
    coordinates and releases compose (Dong, Roth & Su 2022, Theorem 4), whatever their number.

    g is odd about 1/2, so n >= 1 suffices, up to where P is below e^-660; tests beyond add less
    than that to delta for each coordinate that moves, of which there are at most sensitivity² in
    each of 1e9 releases. Sums of positive terms and Phi^-1 in logarithms are good to 1e-11 of a
    step.
    """
    last = math.ceil(37 * scale) + LARGEST_SENSITIVITY + 1
    logs = -0.5 * (np.arange(last + math.ceil(40 * scale) + 2, 0, -1) / scale) ** 2
    tails = np.logaddexp.accumulate(logs)[::-1][:last]
    g = -ndtri_exp(tails - np.logaddexp(0.0, math.log(2) + tails[0]))
    return float(max(2 * g[0], np.diff(g).max())) * (1 + 1e-9)


@lru_cache(maxsize=256)
def exact_delta(epsilon: float, largest_square: int, scale: float) -> float:
    """The largest delta over integer vectors v with |v|² <= largest_square, rounded up.

    For noise X and difference v the privacy loss is (|v|² + 2<v, X>)/(2 scale²), so delta = E[(1 -
    e^{eps - loss})_+] needs the distribution of the integer <v, X> alone, a convolution. Terms are
    sums of positive floats (relative error below 1e-12); |X_i| beyond 14 scales has probability
    below 2 e^{-98} in each of at most nine coordinates (X is scale²-subgaussian) and is counted in
    full.
    """
    reach = math.ceil(14 * scale)
    grid = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (grid / scale) ** 2)
    single = weights / weights.sum()
    worst = 0.0
    for vector in squares(largest_square):
        lattice = np.ones(1)
        for entry in vector:
            lattice = np.convolve(lattice, stretched(single, entry))
        square = sum(entry * entry for entry in vector)
        half = (len(lattice) - 1) // 2
        loss = (square + 2.0 * np.arange(-half, half + 1)) / (2 * scale * scale)
        worst = max(worst, float(np.sum(lattice * -np.expm1(np.minimum(epsilon - loss, 0.0)))))
    return min(1.0, worst * (1 + 1e-11) + 1e-40)


def squares(largest: int) -> Iterator[tuple[int, ...]]:
    """Non-increasing tuples of positive integers whose squares sum to at most `largest`, the empty
    one left out."""

    def extend(head: tuple[int, ...], most: int, left: int) -> Iterator[tuple[int, ...]]:
        if head:
            yield head
        for entry in range(min(most, math.isqrt(left)), 0, -1):
            yield from extend((*head, entry), entry, left - entry * entry)

    yield from extend((), largest, largest)


def stretched(single: NDArray[np.float64], entry: int) -> NDArray[np.float64]:
    """The distribution of entry·X on the integers, from that of X."""
    if entry == 1:
        return single
    wide = np.zeros((len(single) - 1) * entry + 1)
    wide[::entry] = single
    return wide

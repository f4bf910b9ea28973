"""Gaussian noise on real vectors, drawn on a grid so that no float betrays its input."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import erfcx

from discreet.privacy.mechanism import (
    CalibratedEvent,
    Count,
    Positive,
    Sampler,
    Units,
    register,
)
from discreet.privacy.search import certified, grid_of, request
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

SMOOTHING = 3
"""tau² of the lemma below, in squares of the grid."""


@register("gaussian")
class Gaussian(CalibratedEvent):
    """A real vector is rounded to a grid and gets discrete Gaussian noise, P(z) ~ exp(-z²/(2
    scale²)), on that grid.

    Rounding moves each coordinate of the difference of two inputs by at most `grid`, so on the grid
    the l2 sensitivity is s' = sensitivity + grid·sqrt(dimension). The curve follows from the

    Lemma (a discrete Gaussian is a rounded Gaussian). Let sigma² = r² + tau². Add N(0, r²) to an
    integer q, then draw an integer x with probability ~ exp(-(x-y)²/(2 tau²)) around the result y.
    The normalizing sum over x is tau sqrt(2 pi)(1 + 2 sum_k e^{-2 pi² tau² k²} cos 2 pi k y) by
    Poisson summation: within a factor 1 ± eta of a constant, eta <= 2.1 e^{-2 pi² tau²}. Hence x
    has the probability ~ exp(-(x-q)²/(2 sigma²)) of the discrete Gaussian up to a factor (1 ±
    eta)², which for tau² = 3 is 1 ± 1e-25. So for up to 1e10 coordinates and releases together the
    mechanism is, up to factors e^{±1e-15}, a post-processing of the continuous Gaussian mechanism
    with variance sigma² - 3 grid², whatever the dimension and the (adaptive) differences: mu =
    s'/sqrt(sigma² - 3 grid²).

    `count` releases are sqrt(count) mu-GDP (Dong, Roth & Su 2022). zCDP: rho = count s'²/(2
    scale²), exactly that of the discrete Gaussian (Canonne, Kamath & Steinke 2020, Theorem 14).

    `failure`: where the noise is not added by one party but within a sum that hides its summands
    (`discreet_agent.sparse_sum`), the probability, over draws that do not depend on the data, that
    it does not hide them. All that was said holds under the complement: the whole is (epsilon,
    delta + failure)-DP, and failure-approximately rho-zCDP (Bun & Steinke 2016, Definition 8.1).
    The charged delta contains it.
    """

    published: ClassVar[str] = "numbers on a fine grid with discrete Gaussian noise"

    mechanism: Literal["gaussian"] = "gaussian"
    norm: Literal["l2"] = "l2"
    noise: Literal["discrete_gaussian_on_grid"] = "discrete_gaussian_on_grid"
    sampling: None = None
    dimension: Count = Field(description="Length of the noised vector")
    grid: Positive = Field(description="Step of the grid, a power of two")
    failure: Units | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Probability, 1e-18, that what hides the noised summands fails; absent: 0",
    )

    def grid_sensitivity(self) -> Fraction:
        """The l2 sensitivity after rounding to the grid, rounded up."""
        root = Fraction(math.isqrt(self.dimension << 60) + 1, 1 << 30)
        return Fraction(self.sensitivity) + Fraction(self.grid) * root

    def derive_price(self) -> Price:
        self.certify()
        loss = self.grid_sensitivity() / Fraction(self.scale)
        return gaussian_price(
            self.charged_epsilon,
            self.charged_delta,
            loss * loss * self.count,
            Fraction(self.failure or 0, DELTA_UNIT),
        )

    def mu_squared(self) -> Fraction:
        """mu² of Gaussian DP of all releases together."""
        variance = Fraction(self.scale) ** 2 - SMOOTHING * Fraction(self.grid) ** 2
        if variance <= 0:
            raise ValueError("the grid is too coarse for the noise")
        return self.grid_sensitivity() ** 2 * self.count / variance

    def delta(self, epsilon: float) -> float:
        noised = gaussian_delta(epsilon, square_root_up(self.mu_squared()))
        if not self.failure:
            return noised
        return min(1.0, (noised + self.failure / DELTA_UNIT) * (1 + 1e-15))

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        return noise.on_grid(noise.discrete_gaussian, self.scale, self.grid, values)

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        return self.shifted(noise, self.sensitivity, np.float64)

    @classmethod
    def example(cls) -> Gaussian:
        return calibrate(1.0, 10**9, 10**13, dimension=1, neighbours="a vector by l2 norm 1")


@lru_cache(maxsize=4096)
def calibrate(
    sensitivity: float,
    epsilon: int,
    delta: int,
    *,
    neighbours: str,
    dimension: int,
    count: int = 1,
    failure: int | None = None,
) -> Gaussian:
    """A real vector of length `dimension` and this l2 sensitivity, `count` releases together
    (epsilon, delta)-DP. `failure`: see the event; delta, in the same units of 1e-18, contains it.

    The grid is the power of two below sensitivity/(2^24 sqrt(dimension)): rounding costs 6e-8 of
    the noise at most.
    """
    if failure is not None and failure >= delta:
        raise ValueError(
            f"delta must be above {failure / DELTA_UNIT:.3g}: with this probability the masks of "
            "the sums may fail to hide them"
        )
    eps, target = request(epsilon, delta - (failure or 0))
    # Of a sum of two the curve is rounded up once more.
    least = gaussian_mu(eps, target * (1 - 1e-12) if failure else target)
    grid = grid_of(sensitivity, math.sqrt(dimension), sensitivity * math.sqrt(count) / least)

    def event(scale: float) -> Gaussian:
        return Gaussian(
            sensitivity=sensitivity,
            scale=scale,
            count=count,
            dimension=dimension,
            grid=grid,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
            failure=failure,
        )

    moved = sensitivity + grid * math.sqrt(dimension)
    continuous = moved * math.sqrt(count) / least
    return certified(event, math.sqrt(continuous**2 + SMOOTHING * grid**2) * (1 + 1e-12))


def gaussian_price(
    epsilon: int, delta: int, squared_loss: Fraction, failure: Fraction = Fraction(0)
) -> Price:
    """A Gaussian charged at (epsilon, delta) of its curve; `squared_loss` is (sensitivity/scale)²
    of all releases, which hold but with probability `failure`."""
    return Price.rounded_up(
        epsilon=Fraction(epsilon, EPSILON_UNIT),
        delta=Fraction(delta, DELTA_UNIT),
        rho=squared_loss / 2,
        delta_z=failure,
    )


def square_root_up(value: Fraction) -> float:
    """A double not below the square root, and at least 1e-150: squares of smaller ones
    underflow."""
    if value < Fraction(1, 10**300):
        return 1e-150
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), rounded up (Balle & Wang 2018, Theorem 8).

    With a = mu/2 - eps/mu and u = -a/sqrt 2 both terms share a factor: the curve is e^{-a²/2}
    [erfcx(u) - erfcx(u + mu/sqrt 2)]/2. For small mu the bracket is integrated instead of
    subtracted, so that the result is good to 1e-13 relative, to which it is rounded up together
    with the error of the exponent.
    """
    if mu <= 0:
        return 0.0
    a, width = mu / 2 - epsilon / mu, mu / math.sqrt(2)
    u = -a / math.sqrt(2)
    factor = 0.5 * math.exp(-a * a / 2)
    if width < 0.5:
        points = u + width * _NODES
        value = factor * width * float(np.dot(_WEIGHTS, _falling(points)))
    elif a > 0:
        value = 0.5 * math.erfc(u) - factor * float(erfcx(u + width))
    else:
        value = factor * float(erfcx(u) - erfcx(u + width))
    return min(1.0, max(0.0, value) * (1 + 1e-13 + 1e-15 * abs(a) * (mu + epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """About the epsilon at which a Gaussian of this mu has this delta; 0 where it has less at
    epsilon 0."""
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, mu) > delta else (low, middle)
    return high


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


def _falling(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """-erfcx'(x) = 2/sqrt(pi) - 2 x erfcx(x), by its asymptotic series where that cancels."""
    far = np.maximum(x, 8.0)
    square = 1 / (2 * far * far)
    series, term = np.zeros_like(far), np.ones_like(far)
    for k in range(1, 14):
        term = -term * (2 * k - 1) * square
        series -= term
    return np.where(
        x < 8.0,
        2 / math.sqrt(math.pi) - 2 * np.minimum(x, 8.0) * erfcx(np.minimum(x, 8.0)),
        2 / math.sqrt(math.pi) * series,
    )


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu, to 1e-15 relative and from below, with gaussian_delta(epsilon, mu) <= delta,
    0 < delta < 1."""
    low, high = 1e-300, 1.0
    while gaussian_delta(epsilon, high) <= delta:
        low, high = high, high * 2
    while high / low > 1 + 1e-15:
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (middle, high) if gaussian_delta(epsilon, middle) <= delta else (low, middle)
    return low

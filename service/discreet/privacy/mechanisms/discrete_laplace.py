"""Discrete Laplace (two-sided geometric) noise on integers: pure differential privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.mechanism import MechanismEvent, Sampler, register
from discreet.privacy.search import drawable, float_above
from discreet.privacy.units import EPSILON_UNIT, Price

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise


@register("discrete_laplace")
class DiscreteLaplace(MechanismEvent):
    """Each integer gets independent noise with P(z) proportional to exp(-|z|/scale).

    Guarantee: one release is epsilon-DP with epsilon = sensitivity/scale, because
    |z| - |z - v| <= |v| in each coordinate and the |v| sum to the l1 sensitivity (Ghosh,
    Roughgarden & Sundararajan 2009). The quotient is taken exactly, of the stored floats; `noise`
    samples exactly that distribution.
    """

    published: ClassVar[str] = "integers with two-sided geometric (discrete Laplace) noise"

    mechanism: Literal["discrete_laplace"] = "discrete_laplace"
    norm: Literal["l1"] = "l1"
    noise: Literal["discrete_laplace"] = "discrete_laplace"
    sampling: None = None

    def loss(self) -> Fraction:
        """Epsilon of one release, exactly."""
        return Fraction(self.sensitivity) / Fraction(self.scale)

    def derive_price(self) -> Price:
        return pure_price(self.loss(), self.count)

    def delta(self, epsilon: float) -> float:
        return pure_delta(epsilon, self.loss() * self.count)

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        return noise.to_integers(noise.discrete_laplace, self.scale, values)

    def deviation(self) -> float:
        """The root of the variance 2 e^{-1/t}/(1 - e^{-1/t})² = 1/(2 sinh²(1/2t)) at scale t."""
        return math.sqrt(0.5) / math.sinh(min(0.5 / self.scale, 300.0))

    def reach(self, level: float) -> float:
        """The least integer n with P(|z| > n) = 2 r^{n+1}/(1 + r) <= 1 - level, where r =
        e^{-1/scale}."""
        beyond = (1 - level) * (1 + math.exp(-1 / self.scale)) / 2
        return float(max(0, math.ceil(-self.scale * math.log(beyond) - 1)))

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        return self.shifted(noise, math.floor(self.sensitivity), np.int64)

    @classmethod
    def example(cls) -> DiscreteLaplace:
        return calibrate(1.0, 10**9, neighbours="one count by 1")


@lru_cache(maxsize=4096)
def calibrate(
    sensitivity: float, epsilon: int, *, neighbours: str, count: int = 1
) -> DiscreteLaplace:
    """Integers of l1 sensitivity `sensitivity`, `count` releases, epsilon in units of 1e-9:
    pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    scale = drawable(float_above(Fraction(sensitivity) * count * EPSILON_UNIT / epsilon))
    return DiscreteLaplace(sensitivity=sensitivity, scale=scale, count=count, neighbours=neighbours)


def pure_price(loss: Fraction, count: int) -> Price:
    """`count` releases, each loss-DP: epsilons add up, and so do the (loss²/2) of zCDP."""
    return Price.rounded_up(epsilon=count * loss, rho=count * loss * loss / 2)


def pure_delta(epsilon: float, loss: Fraction) -> float:
    """Delta at epsilon of anything that is loss-DP: (e^loss - e^epsilon)/(e^loss + 1).

    Randomized response is the worst of all (Kairouz, Oh & Viswanath 2015), and discrete Laplace on
    integers with sensitivity 1 IS randomized response in its privacy loss, so for one release of it
    the bound is exact.
    """
    excess = float(loss - Fraction(epsilon))
    if excess <= 0:
        return 0.0
    # (e^loss - e^epsilon)/(e^loss + 1) = (1 - e^-excess)/(1 + e^-loss); the factor covers the
    # rounding.
    return min(1.0, -math.expm1(-excess) / (1 + math.exp(-min(float(loss), 700.0))) * (1 + 1e-14))

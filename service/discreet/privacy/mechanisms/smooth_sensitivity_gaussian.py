"""Gaussian noise scaled by a smooth bound on the local sensitivity: DP-LSW and DP-LSL of Balle et
al. 2016."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammainc, gammaincc

from discreet.privacy.mechanism import ChargedRho, Count, Positive, Sampler, register
from discreet.privacy.mechanisms.gaussian import gaussian_delta
from discreet.privacy.pld import pair_of_curve, truncated_rho
from discreet.privacy.search import certified, request, smallest_scale, with_rho
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, float_below

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

Floats = NDArray[np.float64]


@register("smooth_sensitivity_gaussian")
class SmoothSensitivityGaussian(ChargedRho):
    """f(D) + scale·S(D)·N(0, I), where S is `smoothing`-smooth: |f(D) - f(D')|_2 <= S(D) and S(D)
    <= e^smoothing S(D').

    `sensitivity` is 1, in units of S(D). S depends on the data: it is never published, logged or
    shown.

    Proof of the curve (the idea of Nissim, Raskhodnikova & Smith 2007, Lemma 2.5, with the
    constants computed instead of bounded). Between M(D) = f + sSZ and M(D') = f' + sS'Z put f' +
    sSZ: it is within the Gaussian curve with mu = 1/scale of the first, and differs from the second
    by a dilation of at most e^smoothing, whose curve is `dilation_delta`. So for any e1 + e2 = eps:
    delta <= slide(e1) + e^e1 dilate(e2), and the least over e1 counts. `count` releases:
    count·delta(eps/count).
    """

    published: ClassVar[str] = "numbers with Gaussian noise"
    scale_sentence: ClassVar[str] = (
        "The noise is {scale} times a smooth bound on how much one unit can matter."
    )
    drawn_in_floats: ClassVar[bool] = True

    mechanism: Literal["smooth_sensitivity_gaussian"] = "smooth_sensitivity_gaussian"
    sensitivity: float = Field(default=1.0, ge=1, le=1, strict=True)
    norm: Literal["smooth"] = "smooth"
    noise: Literal["gaussian"] = "gaussian"
    sampling: None = None
    smoothing: Positive = Field(description="beta of the smooth sensitivity")
    dimension: Count = Field(description="Length of the noised vector")

    def delta(self, epsilon: float) -> float:
        single, _ = self._single(epsilon / self.count, np.linspace(0.0, 1.0, 65))
        return min(1.0, self.count * single)

    def rho(self, slack: float = 1.0) -> float:
        """`count` times that of one release at (epsilon/count, delta/count): rho and delta_z add
        up. No transform is taken, so `slack` changes nothing."""
        return _rho(self)

    def _single(self, epsilon: float, fractions: Floats) -> tuple[float, float]:
        """Delta of one release, the least over these fractions of epsilon for the slide, and the
        best fraction."""
        deltas = [
            gaussian_delta(epsilon * one, 1 / self.scale)
            + math.exp(min(epsilon * one, 700.0))
            * dilation_delta(epsilon * (1 - one), self.smoothing, self.dimension)
            for one in fractions.tolist()
        ]
        best = int(np.argmin(deltas))
        return deltas[best] * (1 + 1e-12), float(fractions[best])

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """The answer moves by all of S, and S by all of its smoothing."""
        releases = self.transcript()
        generator = noise.generator()

        def at(value: float, smooth: float) -> Sampler:
            def draw(n: int) -> NDArray[Any]:
                shift = np.zeros((n, releases, self.dimension))
                shift[..., 0] = value
                return (
                    shift + self.scale * smooth * generator.standard_normal(shift.shape)
                ).reshape(n, -1)

            return draw

        return at(0.0, 1.0), at(1.0, math.exp(self.smoothing))

    @classmethod
    def example(cls) -> SmoothSensitivityGaussian:
        return calibrate(3 * 10**9, 10**13, dimension=1, neighbours="one unit, local sensitivity")


@lru_cache(maxsize=4096)
def calibrate(
    epsilon: int, delta: int, *, dimension: int, neighbours: str, count: int = 1
) -> SmoothSensitivityGaussian:
    """The smoothing of Balle, Gomrokchi & Precup 2016 and the least scale that the event's own
    curve allows with it.

    For each of `count` releases at (epsilon/count, delta/count) the smoothing is
    (epsilon/4)/(dimension + ln(2/delta)). The scale is a fraction of their 5 sqrt(2
    ln(2/delta))/epsilon, see `printed.smooth_sensitivity_scale`.
    """
    eps, target = request(epsilon, delta)
    share, log = eps / count, math.log(2 * count / target)
    smoothing = share / 4 / (dimension + log)
    while dilation_delta(share / 2, smoothing, dimension) > target / count / 4:
        smoothing *= 0.8  # their rule is for epsilon below 1 or so

    def event(scale: float) -> SmoothSensitivityGaussian:
        return SmoothSensitivityGaussian(
            scale=scale,
            smoothing=smoothing,
            dimension=dimension,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    high = 5 * math.sqrt(2 * log) / share
    return with_rho(
        certified(event, smallest_scale(lambda s: event(s).delta(eps), target, high / 10, high))
    )


@lru_cache(maxsize=256)
def _rho(event: SmoothSensitivityGaussian) -> float:
    epsilon = float_below(Fraction(event.charged_epsilon, EPSILON_UNIT * event.count))
    delta = float_below(Fraction(event.charged_delta, DELTA_UNIT * event.count))
    if not (epsilon > 0 and 0 < delta < 1):
        return math.inf
    _, best = event._single(epsilon, np.linspace(0.0, 1.0, 65))
    # Every fraction gives a bound; those near the best one at the charged point are good elsewhere
    # too.
    near = np.clip(best + np.linspace(-0.1, 0.1, 9), 0.0, 1.0)
    try:
        with np.errstate(all="ignore"):
            losses, masses = pair_of_curve(lambda x: min(1.0, event._single(x, near)[0]), epsilon)
            rho = event.count * truncated_rho(losses, masses, epsilon, delta)
    except (ValueError, ArithmeticError):
        return math.inf
    return rho if rho >= 0 else math.inf


def dilation_delta(epsilon: float, log_factor: float, dimension: int) -> float:
    """Delta between N(0, I) and its dilation by any factor within e^±log_factor, in R^dimension,
    rounded up.

    |Z|² is chi-square, its dilations have monotone likelihood ratios, so the extreme factors are
    worst: narrow against wide (loss n b - |z|²(1 - e^{-2b})/2) and wide against narrow (-n b +
    |z|²(1 - e^{-2b})/2 for |z| in units of the wide).
    """
    half, shrink = dimension / 2, -math.expm1(-2 * log_factor)
    tilt = dimension * log_factor
    outward = (epsilon + tilt) / shrink
    wide = float(gammaincc(half, outward * math.exp(-2 * log_factor)))
    wide_delta = (
        wide - math.exp(min(epsilon, 700.0)) * float(gammaincc(half, outward)) + 1e-12 * wide
    )
    inward = (tilt - epsilon) / shrink
    if inward <= 0:
        return max(0.0, wide_delta)
    narrow = float(gammainc(half, inward))
    narrow_delta = (
        narrow
        - math.exp(min(epsilon, 700.0)) * float(gammainc(half, inward * math.exp(-2 * log_factor)))
        + 1e-12 * narrow
    )
    return max(0.0, wide_delta, narrow_delta)

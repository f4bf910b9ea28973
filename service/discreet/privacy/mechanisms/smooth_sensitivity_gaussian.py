"""Gaussian noise scaled by a smooth bound on the local sensitivity: DP-LSW and DP-LSL of Balle et al. 2016."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import gammainc, gammaincc

from discreet.privacy.mechanism import ChargedRho, Count, Positive, register
from discreet.privacy.mechanisms.gaussian import gaussian_delta
from discreet.privacy.renyi import pair_of_curve, truncated_rho
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, float_below

Floats = NDArray[np.float64]


@register("smooth_sensitivity_gaussian")
class SmoothSensitivityGaussian(ChargedRho):
    """f(D) + scale·S(D)·N(0, I), where S is `smoothing`-smooth: |f(D) - f(D')|_2 <= S(D) and S(D) <= e^smoothing S(D').

    `sensitivity` is 1, in units of S(D). S depends on the data: it is never published, logged or shown.

    Proof of the curve (the idea of Nissim, Raskhodnikova & Smith 2007, Lemma 2.5, with the constants computed instead
    of bounded). Between M(D) = f + sSZ and M(D') = f' + sS'Z put f' + sSZ: it is within the Gaussian curve with mu =
    1/scale of the first, and differs from the second by a dilation of at most e^smoothing, whose curve is
    `dilation_delta`. So for any e1 + e2 = eps: delta <= slide(e1) + e^e1 dilate(e2), and the least over e1 counts.
    `count` releases: count·delta(eps/count).
    """

    mechanism: Literal["smooth_sensitivity_gaussian"] = "smooth_sensitivity_gaussian"
    sensitivity: float = Field(default=1.0, ge=1, le=1)
    norm: Literal["smooth"] = "smooth"
    noise: Literal["gaussian"] = "gaussian"
    sampling: None = None
    smoothing: Positive = Field(description="beta of the smooth sensitivity")
    dimension: Count = Field(description="Length of the noised vector")

    def delta(self, epsilon: float) -> float:
        single, _ = self._single(epsilon / self.count, np.linspace(0.0, 1.0, 65))
        return min(1.0, self.count * single)

    def rho(self, slack: float = 1.0) -> float:
        """`count` times that of one release at (epsilon/count, delta/count): rho and delta_z add up. No transform."""
        return _rho(self)

    def _single(self, epsilon: float, fractions: Floats) -> tuple[float, float]:
        """Delta of one release, the least over these fractions of epsilon for the slide, and the best fraction."""
        deltas = [
            gaussian_delta(epsilon * one, 1 / self.scale)
            + math.exp(min(epsilon * one, 700.0)) * dilation_delta(epsilon * (1 - one), self.smoothing, self.dimension)
            for one in fractions.tolist()
        ]
        best = int(np.argmin(deltas))
        return deltas[best] * (1 + 1e-12), float(fractions[best])


@lru_cache(maxsize=256)
def _rho(event: SmoothSensitivityGaussian) -> float:
    epsilon = float_below(Fraction(event.charged_epsilon, EPSILON_UNIT * event.count))
    delta = float_below(Fraction(event.charged_delta, DELTA_UNIT * event.count))
    if not (epsilon > 0 and 0 < delta < 1):
        return math.inf
    _, best = event._single(epsilon, np.linspace(0.0, 1.0, 65))
    # Every fraction gives a bound; those near the best one at the charged point are good at all.
    near = np.clip(best + np.linspace(-0.1, 0.1, 9), 0.0, 1.0)
    try:
        losses, masses = pair_of_curve(lambda x: min(1.0, event._single(x, near)[0]), epsilon)
        return event.count * truncated_rho(losses, masses, epsilon, delta)
    except (ValueError, ArithmeticError):
        return math.inf


def dilation_delta(epsilon: float, log_factor: float, dimension: int) -> float:
    """Delta between N(0, I) and its dilation by any factor within e^±log_factor, in R^dimension, rounded up.

    |Z|² is chi-square, its dilations have monotone likelihood ratios, so the extreme factors are worst. Narrow
    against wide (loss n b - |z|²(1 - e^{-2b})/2) and wide against narrow (-n b + |z|²(1 - e^{-2b})/2 for |z| in units
    of the wide).
    """
    half, shrink = dimension / 2, -math.expm1(-2 * log_factor)
    tilt = dimension * log_factor
    outward = (epsilon + tilt) / shrink
    wide = float(gammaincc(half, outward * math.exp(-2 * log_factor)))
    wide_delta = wide - math.exp(min(epsilon, 700.0)) * float(gammaincc(half, outward)) + 1e-12 * wide
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

"""Gaussian noise scaled by a smooth bound on the local sensitivity: DP-LSW and DP-LSL of Balle et al. 2016."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field
from scipy.special import gammainc, gammaincc

from discreet.privacy.mechanism import CalibratedEvent, Count, Positive, register
from discreet.privacy.mechanisms.gaussian import gaussian_delta
from discreet.privacy.units import Price


@register("smooth_sensitivity_gaussian")
class SmoothSensitivityGaussian(CalibratedEvent):
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

    def derive_price(self) -> Price:
        self.certify()
        return Price.approximate(self.charged_epsilon, self.charged_delta)

    def delta(self, epsilon: float) -> float:
        share = epsilon / self.count
        single = min(
            gaussian_delta(first, 1 / self.scale)
            + math.exp(min(first, 700.0)) * dilation_delta(share - first, self.smoothing, self.dimension)
            for first in np.linspace(0.0, share, 65).tolist()
        )
        return min(1.0, self.count * single * (1 + 1e-12))


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

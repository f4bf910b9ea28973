"""From a request (epsilon, delta in units) to the mechanism event of least noise whose price fits
it.

The functions are the mechanisms' own `calibrate`; see `search` for what they guarantee. ValueError:
the request cannot be met.
"""

from __future__ import annotations

import math
from functools import lru_cache

from discreet.privacy.mechanisms.dirichlet import calibrate as dirichlet
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.mechanisms.discrete_gaussian import calibrate as discrete_gaussian
from discreet.privacy.mechanisms.discrete_gaussian import of_rho as discrete_gaussian_of_rho
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.discrete_laplace import calibrate as discrete_laplace
from discreet.privacy.mechanisms.exponential import calibrate as exponential
from discreet.privacy.mechanisms.gaussian import calibrate as gaussian
from discreet.privacy.mechanisms.laplace import calibrate as laplace
from discreet.privacy.mechanisms.one_draw_gaussian import calibrate as one_draw_gaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import (
    calibrate as poisson_subsampled_gaussian,
)
from discreet.privacy.mechanisms.smooth_sensitivity_gaussian import (
    calibrate as smooth_sensitivity_gaussian,
)

__all__ = [
    "dirichlet",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential",
    "gaussian",
    "laplace",
    "least_variance",
    "one_draw_gaussian",
    "poisson_subsampled_gaussian",
    "smooth_sensitivity_gaussian",
]


@lru_cache(maxsize=4096)
def least_variance(
    sensitivity_l1: float,
    sensitivity_l2: float,
    epsilon: int,
    delta: int,
    *,
    neighbours: str,
    rho: int | None = None,
) -> DiscreteLaplace | DiscreteGaussian:
    """Discrete Laplace (by l1) or discrete Gaussian (by l2), whichever has less variance; delta 0:
    Laplace.

    With `rho` (units of 1e-18) epsilon is ignored: both are calibrated to cost so much rho, which
    the zCDP filter of an account adds up over jobs. A Gaussian is then charged the epsilon of its
    curve at delta.
    """
    if rho is not None:
        epsilon = math.isqrt(2 * rho)
    pure = discrete_laplace(sensitivity_l1, epsilon, neighbours=neighbours)
    if delta == 0:
        return pure
    try:
        if rho is None:
            other = discrete_gaussian(sensitivity_l2, epsilon, delta, neighbours=neighbours)
        else:
            other = discrete_gaussian_of_rho(sensitivity_l2, rho, delta, neighbours=neighbours)
    except ValueError:  # it would need more noise than can be drawn
        return pure
    # Laplace: 2 e^{-1/t}/(1 - e^{-1/t})² = 1/(2 sinh²(1/2t)). Gaussian: at most scale² (Canonne et
    # al. 2020, Cor. 9).
    half = 0.5 / pure.scale
    variance = 0.0 if half > 300 else 0.5 / math.sinh(half) ** 2
    return pure if variance <= other.scale**2 else other

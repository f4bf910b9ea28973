"""Noise levels as the papers print them, for simulation, reproduction and the audit: some are
larger than needed, one is too small.

Each function says what is true; `docs/papers.md` has the details. Nothing here may calibrate a
release.
"""

from __future__ import annotations

import math

from scipy.special import gammaln, ndtri


def classic_gaussian_sigma(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta))/epsilon per unit of sensitivity (Dwork & Roth 2014, Theorem A.1), for
    epsilon < 1 only.

    At (.1, .1) it is 22.475 where 2.847 suffices.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def hale_kappa(delta: float, epsilon: float) -> float:
    """kappa = (K + sqrt(K² + 2 eps))/(2 eps), K = Q^-1(delta): Hale & Egerstedt 2015, after Le Ny &
    Pappas 2014.

    Sound. At (.05, ln 3) it is 40 % above the analytic value: 1.7563 against 1.2559.
    """
    k = -float(ndtri(delta))
    return (k + math.sqrt(k * k + 2 * epsilon)) / (2 * epsilon)


def gohari_epsilon(
    k: float, omega: float, omega_bar: float, psi: float, entries: int, h: float
) -> float:
    """Eq. (10) of Hassan et al. (Gohari et al. 2021, Theorem 1): the most loss where all outputs
    are >= psi.

    `entries` is |W|. The set is printed with "<= psi". The exact epsilon is `Dirichlet.delta`
    inverted.
    """

    def log_beta(a: float, b: float) -> float:
        return float(gammaln(a) + gammaln(b) - gammaln(a + b))

    rest = 1 - omega_bar - omega
    ratio = log_beta(k * omega, k * rest) - log_beta(k * (omega + h / 2), k * (rest - h / 2))
    return ratio + k * h / 2 * math.log((1 - (entries - 1) * psi) / psi)


def lemma_one_sigma(epsilon: float, delta: float, population: int, steps: int) -> float:
    """The least sigma by Lemma 1 and Theorem 4 of Xie et al. 2019: too small, see `OneDrawPair`.

    The moments lambda(lambda+1)/(2 m²) min(4(e^{1/sigma²} - 1), 2 e^{1/sigma²}) per step, delta =
    min over integer lambda of e^{moments - lambda epsilon}. At (.1, 1e-5), N = m = 1e5, it is
    .5704, whose true epsilon is 9.7 to 9.8. The proof of their Theorem 1 also asks for sigma >=
    1.201 and lambda <= sigma² ln(m/sigma), which this leaves out.
    """

    def excess(sigma: float) -> float:
        growth = math.exp(1 / sigma**2)
        step = min(4 * (growth - 1), 2 * growth) / (2 * population**2)
        best = max(1, round(epsilon / (2 * steps * step) - 0.5))
        return min(steps * step * n * (n + 1) - n * epsilon for n in (best, best + 1)) - math.log(
            delta
        )

    from scipy.optimize import brentq  # noqa: PLC0415 - the API imports this module and never calls it

    return float(brentq(excess, 0.2, 1e4, xtol=1e-12))


def smooth_sensitivity_scale(epsilon: float, delta: float) -> float:
    """5 sqrt(2 ln(2/delta))/epsilon (Balle, Gomrokchi & Precup 2016): sound, six times what their
    guarantee needs."""
    return 5 * math.sqrt(2 * math.log(2 / delta)) / epsilon

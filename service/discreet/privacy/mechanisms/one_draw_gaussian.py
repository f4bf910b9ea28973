"""Gaussian steps that each use one uniformly drawn unit (GPOPE of Xie et al. 2019), replace-one
neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.privacy.mechanism import ComposedEvent, OneDrawSampling, Sampler, register
from discreet.privacy.pld import DominatingPair
from discreet.privacy.search import certified, request, smallest_composed_scale, with_rho

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OneDrawPair:
    """The stitched curve of one step: one of m = 1/q units drawn, its vector clipped at h, noise of
    deviation sigma·h.

    Replacing a unit moves what is drawn by up to 2h, so mu = 2/sigma, with probability q. For a =
    e^eps >= 1, with a' = (a-1+q)/q, mixtures M = (1-q)R + qA, M' = (1-q)R + qB and beta = a/a'
    (Balle, Barthe & Gaboardi 2018, Theorem 2):

        H_a(M || M') = q H_a'(A || (1-beta)R + beta B) <= q H_a'(N(0) || N(mu)),

    because H is convex in its second argument and A is within mu of B and of every part of R. The
    right side is q[Phi(mu/2 - ln(a')/mu) - a' Phi(-mu/2 - ln(a')/mu)]. It is reached when all
    other units lie where B does. For a < 1 H_a(M || M') = 1 - a + a H_{1/a}(M' || M) carries the
    bound over. The curve is convex at a = 1, the only place where it could fail: its slope jumps
    from -(1 - P) to -Q, where P = q Phi(mu/2) + (1-q)Phi(-mu/2), Q = Phi(-mu/2), P + Q <= 1. So it
    belongs to a pair, and composes (Zhu, Dong & Wang 2022). With z = mu/2 - ln(a')/mu the tails,
    for eps >= 0, are Q(L > eps) = -H' = Phi(z - mu) and P(L > eps) = H + a Phi(z - mu) = q Phi(z) +
    (1-q) Phi(z - mu).

    NOT Lemma 1 of Xie et al., which uses the distance h for replace-one and drops the higher
    orders; `printed` has it.
    """

    q: float
    mu: float

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        positive = epsilon >= 0
        p, q = self._upper(np.abs(epsilon))
        return np.where(positive, p, 1 - q), np.where(positive, q, 1 - p)

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        positive = epsilon >= 0
        p, q = self._upper(np.abs(epsilon))
        return np.where(positive, 1 - p, q), np.where(positive, 1 - q, p)

    def _upper(self, epsilon: Floats) -> tuple[Floats, Floats]:
        z = self.mu / 2 - np.log1p(np.expm1(epsilon) / self.q) / self.mu
        q = ndtr(z - self.mu)
        return self.q * ndtr(z) + (1 - self.q) * q, q


@register("one_draw_gaussian")
class OneDrawGaussian(ComposedEvent):
    """`count` steps, each on one uniformly drawn unit.

    A step draws one of `sampling.population` units, clips its vector in l2 and adds N(0, scale²) to
    every coordinate. `sensitivity` is twice the clip: the replaced unit may be drawn.

    Neighbours replace one unit; their number is public. Charged by PLD composition of
    `OneDrawPair`.
    """

    published: ClassVar[str] = "numbers with Gaussian noise"
    drawn_in_floats: ClassVar[bool] = True

    mechanism: Literal["one_draw_gaussian"] = "one_draw_gaussian"
    norm: Literal["l2"] = "l2"
    noise: Literal["gaussian"] = "gaussian"
    sampling: OneDrawSampling

    def pairs(self) -> tuple[DominatingPair, ...]:
        return (OneDrawPair(1 / self.sampling.population, self.sensitivity / self.scale),)

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """One unit at the clip among others at the opposite clip, and all units there."""
        steps, clip = self.transcript(), self.sensitivity / 2
        generator = noise.generator()

        def at(value: float) -> Sampler:
            def draw(n: int) -> NDArray[Any]:
                taken = generator.integers(self.sampling.population, size=(n, steps)) == 0
                return np.where(taken, value, -clip) + self.scale * generator.standard_normal(
                    (n, steps)
                )

            return draw

        return at(clip), at(-clip)

    @classmethod
    def example(cls) -> OneDrawGaussian:
        return calibrate(
            1.0,
            10**9,
            10**13,
            population=20,
            steps=20,
            neighbours="replace one unit, their number public",
        )


@lru_cache(maxsize=1024)
def calibrate(
    clip: float, epsilon: int, delta: int, *, population: int, steps: int, neighbours: str
) -> OneDrawGaussian:
    """`steps` steps on one uniformly drawn unit each, its vector clipped in l2 at `clip`."""
    eps, target = request(epsilon, delta)

    def event(scale: float) -> OneDrawGaussian:
        return OneDrawGaussian(
            sensitivity=2 * clip,
            scale=scale,
            count=steps,
            sampling=OneDrawSampling(population=population),
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    return with_rho(
        certified(event, smallest_composed_scale(event, eps, target, 1.1 * clip, 0.1 * clip))
    )

"""Gaussian steps on Poisson samples: the mini-batch mechanism, add/remove or replace-one
neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import ndtr

from discreet.privacy.mechanism import ComposedEvent, PoissonSampling, Sampler, register
from discreet.privacy.mechanisms.gaussian import gaussian_mu
from discreet.privacy.pld import CHARGED, QUICK, DominatingPair, Effort, Reversed
from discreet.privacy.search import certified, request, smallest_composed_scale, with_rho

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

Floats = NDArray[np.float64]
LEAST_PROBABILITY = 1e-9
"""The gaps between the members of a sample are made of 53 random bits, which do not tell smaller
ones apart."""


@dataclass(frozen=True)
class RemovePair:
    """P = (1-q)N(0, 1) + q N(mu, 1), Q = N(0, 1): a unit leaves, mu = clip/scale.

    Dominates removal in any dimension (Zhu, Dong & Wang 2022, Theorem 11); its reverse dominates
    addition. At x the loss is ln(1 - q + q e^{mu x - mu²/2}), increasing in x.
    """

    q: float
    mu: float

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        x = self._where(epsilon)
        q = ndtr(-x)
        return (1 - self.q) * q + self.q * ndtr(self.mu - x), q

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        x = self._where(epsilon)
        q = ndtr(x)
        return (1 - self.q) * q + self.q * ndtr(x - self.mu), q

    def _where(self, epsilon: Floats) -> Floats:
        """The x with loss epsilon; -inf where no loss is so low."""
        with np.errstate(divide="ignore"):
            return np.log1p(np.maximum(np.expm1(epsilon) / self.q, -1.0)) / self.mu + self.mu / 2


@dataclass(frozen=True)
class ReplacePair:
    """P = (1-q)N(0, 1) + q N(mu, 1), Q = (1-q)N(0, 1) + q N(-mu, 1): a unit is replaced, mu =
    clip/scale.

    Dominates replacement in any dimension, whatever the other units. Given which of those were
    drawn, and after moving the origin, the outputs are (1-q)N(0) + q N(v) and (1-q)N(0) + q N(w)
    with |v|, |w| <= mu; H is jointly convex, so the worst such case bounds the mixture. For a >= 1
    and X ~ N(0, I), H is q E[(A - c - b B)_+] up to constants b, c >= 0, A = e^{<v,X> - |v|²/2}, B
    = e^{<w,X> - |w|²/2}. With the norms given this falls in the correlation of <v,X> and <w,X>
    (mixed second derivative <= 0: concordance order, Tchen 1980), so w points against v. On that
    line the loss increases in x, the best test is x >= t, and P(x >= t) - a Q(x >= t) grows with
    |v| and |w|. a < 1 follows by symmetry.

    The loss ln((1-q+c y)/(1-q+c/y)), y = e^{mu x}, c = q e^{-mu²/2}, is epsilon at the positive
    root of c y² - (1-q)(e^eps - 1) y - c e^eps = 0.
    """

    q: float
    mu: float

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        x = self._where(epsilon)
        rest = (1 - self.q) * ndtr(-x)
        return rest + self.q * ndtr(self.mu - x), rest + self.q * ndtr(-self.mu - x)

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        p, q = self.tails(-epsilon)
        return q, p

    def _where(self, epsilon: Floats) -> Floats:
        size = np.abs(epsilon)
        c = self.q * math.exp(-(self.mu**2) / 2)
        linear = (1 - self.q) * np.expm1(size)
        y = (linear + np.hypot(linear, 2 * c * np.exp(size / 2))) / (2 * c)
        return np.copysign(np.log(np.maximum(y, 1.0)) / self.mu, epsilon)


@register("poisson_subsampled_gaussian")
class PoissonSubsampledGaussian(ComposedEvent):
    """`count` steps on Poisson samples of the units.

    In each step every unit takes part independently with `sampling.probability` and contributes a
    vector clipped in l2; N(0, scale²) is added to every coordinate of the sum.

    `relation` "add_remove": `sensitivity` is the clip, and the number of units is private (nothing
    may be divided by it). "replace": `sensitivity` is twice the clip, and the number of units is
    public. Charged by PLD composition.

    At the same clip, adding or removing a unit never needs more noise than replacing one: an absent
    unit is one whose vector is 0, so `ReplacePair` (whose proof lets |v|, |w| <= mu be anything, 0
    among them) dominates both directions.
    """

    published: ClassVar[str] = "numbers with Gaussian noise"
    drawn_in_floats: ClassVar[bool] = True

    mechanism: Literal["poisson_subsampled_gaussian"] = "poisson_subsampled_gaussian"
    norm: Literal["l2"] = "l2"
    noise: Literal["gaussian"] = "gaussian"
    sampling: PoissonSampling
    relation: Literal["add_remove", "replace"] = Field(
        description="What neighbours differ by, for the accounting"
    )

    def pairs(self) -> tuple[DominatingPair, ...]:
        q = self.sampling.probability
        if self.relation == "replace":
            return (ReplacePair(q, self.sensitivity / 2 / self.scale),)
        remove = RemovePair(q, self.sensitivity / self.scale)
        return (remove, Reversed(remove))

    def bounds(self, epsilon: float) -> Iterator[float]:
        yield self.composed_delta(epsilon, QUICK)
        if self.relation == "add_remove":
            yield self.replaced_delta(epsilon, QUICK)
        yield self.composed_delta(epsilon)

    def replaced_delta(self, epsilon: float, effort: Effort) -> float:
        """Delta where a unit is not added or removed but replaced, at the same clip and noise: a
        bound on either."""
        clip = self.sensitivity / 2 if self.relation == "replace" else self.sensitivity
        pair = ReplacePair(self.sampling.probability, clip / self.scale)
        return self.composed_deltas(epsilon, effort, (pair,))[0]

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """The unit alone: at its clip, and absent (add_remove) or at the opposite clip
        (replace)."""
        steps, replaced = self.transcript(), self.relation == "replace"
        clip = self.sensitivity / 2 if replaced else self.sensitivity
        generator = noise.generator()

        def at(value: float) -> Sampler:
            def draw(n: int) -> NDArray[Any]:
                taken = generator.random((n, steps)) < self.sampling.probability
                return np.where(taken, value, 0.0) + self.scale * generator.standard_normal(
                    (n, steps)
                )

            return draw

        return at(clip), at(-clip if replaced else 0.0)

    @classmethod
    def example(cls) -> PoissonSubsampledGaussian:
        return calibrate(
            1.0,
            10**9,
            10**13,
            probability=0.2,
            steps=20,
            relation="add_remove",
            neighbours="add or remove one unit",
        )


@lru_cache(maxsize=1024)
def calibrate(
    clip: float,
    epsilon: int,
    delta: int,
    *,
    probability: float,
    steps: int,
    relation: Literal["add_remove", "replace"],
    neighbours: str,
) -> PoissonSubsampledGaussian:
    """`steps` Poisson mini-batches, every unit's vector clipped in l2 at `clip`; the scale is the
    noise's deviation."""
    if probability < LEAST_PROBABILITY:
        raise ValueError(
            f"a unit takes part in a step with a probability of at least {LEAST_PROBABILITY:g}"
        )
    asked = partial(
        PoissonSubsampledGaussian,
        count=steps,
        sampling=PoissonSampling(probability=probability),
        neighbours=neighbours,
        charged_epsilon=epsilon,
        charged_delta=delta,
    )
    added = partial(asked, sensitivity=clip, relation="add_remove")
    replaced = partial(asked, sensitivity=2 * clip, relation="replace")
    eps, target = request(epsilon, delta)

    def smallest(event: Callable[..., PoissonSubsampledGaussian], guess: float) -> float:
        return smallest_composed_scale(
            lambda scale: event(scale=scale), eps, target, guess, 0.05 * clip
        )

    # The first guess: sampling multiplies the sensitivity by about its probability, but some noise
    # is needed even so.
    event = added if relation == "add_remove" else replaced
    weight = probability * (clip if relation == "add_remove" else 2 * clip)
    scale = smallest(event, max(0.5 * clip, weight * math.sqrt(steps) / gaussian_mu(eps, target)))
    if (
        relation == "add_remove"
        and scale < clip
        and added(scale=scale).replaced_delta(eps, CHARGED) < 0.9 * target
    ):
        # The grids of many steps may bound delta for these pairs less tightly than for the other
        # one.
        scale = min(scale, smallest(replaced, scale))
    return with_rho(certified(lambda scale: event(scale=scale), scale))

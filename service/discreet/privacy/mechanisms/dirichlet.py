"""Draws from a Dirichlet distribution around a probability row (Gohari et al. 2021; Hassan et al.,
Definition III.4).

The papers bound its privacy loss on a set of outputs and call the rest delta
(`printed.gohari_epsilon`). Here delta is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import betainc, betaincc, expit, gammaln

from discreet.privacy.mechanism import ComposedEvent, Sampler, register
from discreet.privacy.pld import FULL, DominatingPair, Effort
from discreet.privacy.search import (
    certified,
    request,
    smallest_composed_scale,
    smallest_scale,
    with_rho,
)

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

Floats = NDArray[np.float64]


@register("dirichlet")
class Dirichlet(ComposedEvent):
    """A row p of probabilities, every entry at least `floor`, is answered by a draw from
    Dir(scale·p + offset).

    Neighbours: two entries of one row move, in opposite directions, by at most h/2 each; h =
    `sensitivity`. `scale` is the concentration: more is LESS noise. With `offset` > 0 (a prior) the
    floor may be 0.

    The worst pair. Only the entries i, j that move matter: of a Dirichlet vector, x_i + x_j and the
    others are distributed alike under both rows and independent of x_i/(x_i + x_j), which is
    Beta(a_i, a_j) under p and Beta(a_i - t, a_j + t) under p', with a = scale·p + offset and t the
    change of the parameters. Let b = scale·floor + offset and T = scale·h/2. (1) Beta(a_i, a_j)
    against Beta(a_i - t, a_j + t) are sums over the parts of a Dirichlet vector whose parameter a_i
    is split into b + t and a_i - b - t, and a_j into b and a_j - b; of the four parts only the two
    with b move, so by post-processing Beta(b + t, b) against Beta(b, b + t) is no less
    distinguishable. (2) Its loss is L_t = t ln(G_{b+t}/G_b) under P, with independent Gamma
    variables. G_{b+T} is stochastically larger than G_{b+t}, so P(L_T > y) >= P(L_t > y) for y >= 0
    and every E[(1 - e^{eps - L})_+], eps >= 0, is largest at t = T. So (Beta(b+T, b), Beta(b, b+T))
    dominates; it is its own mirror image, which settles eps < 0 as well. Its loss is T ln(x/(1-x)).

    One draw: delta = Ic_u(b+T, b) - e^eps Ic_u(b, b+T), u = 1/(1 + e^{-eps/T}), Ic the upper
    regularized incomplete beta. More draws or rows (`count`) compose: averaging N draws costs N
    draws. PLD, see `pld`.
    """

    published: ClassVar[str] = "a random draw from a Dirichlet distribution around the true shares"
    scale_sentence: ClassVar[str] = (
        "Its concentration is {scale}; a larger concentration is less noise."
    )
    drawn_in_floats: ClassVar[bool] = True

    mechanism: Literal["dirichlet"] = "dirichlet"
    norm: Literal["row"] = "row"
    noise: Literal["dirichlet"] = "dirichlet"
    sampling: None = None
    floor: float = Field(
        ge=0,
        le=0.5,
        allow_inf_nan=False,
        strict=True,
        description="Least entry that a row may have, public",
    )
    offset: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, strict=True, description="Added to each parameter"
    )

    @model_validator(mode="after")
    def _within_the_simplex(self) -> Dirichlet:
        if self.least_parameter <= 0:
            raise ValueError("a Dirichlet row needs a positive floor or offset")
        if self.sensitivity > 2 or (self.offset == 0 and self.sensitivity >= 2 * self.floor):
            raise ValueError("the change of a row must be less than twice the floor")
        return self

    @property
    def least_parameter(self) -> float:
        """b of the class docstring: the least parameter that a row may give."""
        return self.scale * self.floor + self.offset

    @property
    def moved(self) -> float:
        """T of the class docstring: how far each of two parameters moves at most."""
        return self.scale * self.sensitivity / 2

    def pairs(self) -> tuple[DominatingPair, ...]:
        return (MirroredBeta(self.least_parameter, self.moved),)

    def composed_delta(self, epsilon: float, effort: Effort = FULL) -> float:
        """As for any composition; exact for one draw."""
        if self.count == 1:
            b, t = self.least_parameter, self.moved
            return beta_delta(epsilon, (b + t, b), (b, b + t))
        return super().composed_delta(epsilon, effort)

    def deviation(self) -> float:
        """sqrt(p (1 - p)/(k + 1)), largest at p = 1/2; the scale is k."""
        return 0.5 / math.sqrt(self.scale + 1)

    def less_noise(self, factor: float) -> Self:
        """The variance is about proportional to 1/concentration."""
        return self.model_copy(update={"scale": self.scale * factor**2})

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """The floor pair; a third entry holds what is left of the row."""
        releases, half = self.transcript(), self.sensitivity / 2

        def at(*moved: float) -> Sampler:
            row = [*moved, max(self.floor, 1 - sum(moved))]
            alpha = self.scale * np.array(row) + self.offset
            return lambda n: noise.dirichlet(np.broadcast_to(alpha, (n, releases, 3))).reshape(
                n, -1
            )

        return at(self.floor + half, self.floor), at(self.floor, self.floor + half)

    @classmethod
    def example(cls) -> Dirichlet:
        return calibrate(
            0.03, 0.1, 2_200_000_000, 10**13, neighbours="two entries of one row by .015"
        )


@lru_cache(maxsize=4096)
def calibrate(
    row_change: float,
    floor: float,
    epsilon: int,
    delta: int,
    *,
    neighbours: str,
    offset: float = 0.0,
    count: int = 1,
) -> Dirichlet:
    """The most concentrated Dirichlet draws, `count` of them together (epsilon, delta)-DP; see
    `Dirichlet`.

    However flat, a draw's loss has a tail e^{-y 2 floor/row_change}: small epsilons cannot be met
    without an `offset`.
    """
    eps, target = request(epsilon, delta)

    def event(inverse: float) -> Dirichlet:
        return Dirichlet(
            sensitivity=row_change,
            scale=1 / inverse,
            floor=floor,
            offset=offset,
            count=count,
            neighbours=neighbours,
            charged_epsilon=epsilon,
            charged_delta=delta,
        )

    if count == 1:
        return with_rho(
            certified(event, smallest_scale(lambda s: event(s).delta(eps), target, 1e-3, 1e-2))
        )
    return with_rho(
        certified(event, smallest_composed_scale(event, eps, target, 0.02 * count, 1e-7))
    )


@dataclass(frozen=True)
class MirroredBeta:
    """P = Beta(b+t, b), Q = Beta(b, b+t): the loss at x is t ln(x/(1-x))."""

    b: float
    t: float

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        logit, b = epsilon / self.t, self.b
        return beta_beyond(b + self.t, b, logit), beta_beyond(b, b + self.t, logit)

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        p, q = self.tails(-epsilon)
        return q, p


def beta_delta(epsilon: float, p: tuple[float, float], q: tuple[float, float]) -> float:
    """Delta at epsilon of Beta(p) against Beta(q), p_1 - q_1 = q_2 - p_2 = t > 0, rounded up.

    The loss is t ln(x/(1-x)) + c with c = lnB(q) - lnB(p).
    """
    (a, b), (a2, b2) = p, q
    t = a - a2
    constant = float(gammaln(a2) + gammaln(b2) - gammaln(a) - gammaln(b))
    logit = np.array([(epsilon - constant) / t])
    first, second = (
        float(beta_beyond(a, b, logit)[0]),
        math.exp(min(epsilon, 700.0)) * float(beta_beyond(a2, b2, logit)[0]),
    )
    return min(1.0, max(0.0, first - second) + 1e-11 * first)


def beta_beyond(a: float, b: float, logit: Floats) -> Floats:
    """P(ln(x/(1-x)) > logit) for x ~ Beta(a, b), also where 1 - x has no double: there x^b/(b B(a,
    b)) of 1 - x."""
    beyond = np.empty_like(logit)
    near, farthest = logit <= 0, logit > 600
    far = ~near & ~farthest
    beyond[near] = betaincc(a, b, expit(logit[near]))
    beyond[far] = betainc(b, a, expit(-logit[far]))
    log_front = math.log(b) + float(gammaln(a) + gammaln(b) - gammaln(a + b))
    beyond[farthest] = np.exp(np.minimum(-b * logit[farthest] - log_front, 0.0))
    return beyond

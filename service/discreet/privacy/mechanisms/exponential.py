"""The exponential mechanism: one of several candidates, the likelier the better its score is; pure
differential privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.privacy.mechanism import MechanismEvent, Sampler, register
from discreet.privacy.mechanisms.discrete_laplace import pure_delta, pure_price
from discreet.privacy.search import drawable, float_above
from discreet.privacy.units import EPSILON_UNIT, Price

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

MOST = 1 << 61
AT_ONCE = 64


@register("exponential")
class Exponential(MechanismEvent):
    """Candidate c is published with probability proportional to exp(score(c)/scale), of integer
    scores (McSherry & Talwar 2007).

    Guarantee, with s = `sensitivity` the largest change of any score. In general a release is
    (2 s/scale)-DP: the numerator changes by a factor of at most exp(s/scale), and so does the sum
    over candidates by which it is divided. If `monotone`, neighbours move all scores down or none,
    or up or none: then numerator and sum move the same way, each by a factor of 1 to exp(s/scale),
    and the quotient by at most exp(s/scale) either way: (s/scale)-DP.

    Drawn exactly: a candidate uniformly, taken with probability exp(-(best - score)/scale), until
    one is taken. That probability is that of a two-sided geometric number of this scale to be at
    least best - score if it is not negative, which `noise` draws without floating point.
    """

    published: ClassVar[str] = "one of several candidates, drawn the likelier the better it fits"
    scale_sentence: ClassVar[str] = (
        "A candidate is {scale} points worse than another where it is e times as unlikely."
    )

    mechanism: Literal["exponential"] = "exponential"
    norm: Literal["score"] = "score"
    noise: Literal["exponential"] = "exponential"
    sampling: None = None
    monotone: bool = Field(
        default=False,
        strict=True,
        description="Whether neighbours move no score up where they move another down",
    )

    def loss(self) -> Fraction:
        """Epsilon of one release, exactly."""
        return Fraction(self.sensitivity) * (1 if self.monotone else 2) / Fraction(self.scale)

    def derive_price(self) -> Price:
        return pure_price(self.loss(), self.count)

    def delta(self, epsilon: float) -> float:
        return pure_delta(epsilon, self.loss() * self.count)

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        """int64[...]: the place of the drawn candidate along the last axis of integer scores."""
        if not np.issubdtype(values.dtype, np.integer):
            raise TypeError("this mechanism takes integer scores")
        # So that no difference of two overflows; no sensitivity grows.
        rows = np.clip(values.reshape(-1, values.shape[-1]).astype(np.int64), -MOST, MOST)
        behind = rows.max(axis=1, keepdims=True) - rows
        found = np.full(len(rows), -1, dtype=np.int64)
        while (left := np.flatnonzero(found < 0)).size:
            # Of several draws at once the first that is taken counts.
            shape = (left.size, max(1, AT_ONCE // left.size))
            candidate = noise.below(values.shape[-1], math.prod(shape)).reshape(shape)
            reach = noise.discrete_laplace(self.scale, shape)
            taken = (reach >= 0) & (reach >= np.take_along_axis(behind[left], candidate, axis=1))
            some, first = taken.any(axis=1), taken.argmax(axis=1)
            found[left[some]] = candidate[some, first[some]]
        return found.reshape(values.shape[:-1])

    def deviation(self) -> float:
        """Of the Gumbel noise on each score of which the largest would be taken: the same draw."""
        return self.scale * math.pi / math.sqrt(6)

    def reach(self, level: float) -> float:
        """What the Gumbel noise on one score stays within: P(noise <= x) = exp(-exp(-x/scale))."""
        return self.scale * max(1.5, -math.log(-math.log((1 + level) / 2)))

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """Of 16 equal candidates all but the first become worse; without `monotone` the first
        becomes better besides."""
        releases, step = self.transcript(), math.floor(self.sensitivity)
        equal = np.zeros(16, dtype=np.int64)
        apart = equal - step
        apart[0] = 0 if self.monotone else step

        def at(scores: NDArray[Any]) -> Sampler:
            return lambda n: noise.add_each(self, np.tile(scores, (n, releases, 1)))

        return at(apart), at(equal)

    @classmethod
    def example(cls) -> Exponential:
        return calibrate(1.0, 10**9, neighbours="scores by 1", monotone=True)


@lru_cache(maxsize=4096)
def calibrate(
    sensitivity: float, epsilon: int, *, neighbours: str, monotone: bool, count: int = 1
) -> Exponential:
    """Integer scores each of which moves by at most `sensitivity`, `count` releases, epsilon in
    units of 1e-9: pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    times = count * (1 if monotone else 2)
    scale = drawable(float_above(Fraction(sensitivity) * times * EPSILON_UNIT / epsilon))
    return Exponential(
        sensitivity=sensitivity,
        scale=scale,
        count=count,
        neighbours=neighbours,
        monotone=monotone,
    )

"""Laplace noise on real vectors, drawn on a grid: pure differential privacy for what is released,
floats and all."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.privacy.mechanism import Count, MechanismEvent, Positive, Sampler, register
from discreet.privacy.mechanisms.discrete_laplace import pure_delta, pure_price
from discreet.privacy.search import float_above, grid_of
from discreet.privacy.units import EPSILON_UNIT, Price

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise


@register("laplace")
class Laplace(MechanismEvent):
    """A real vector is rounded to a grid and gets discrete Laplace noise, P(z) ~ exp(-|z|/scale),
    on that grid.

    Guarantee: epsilon-DP with epsilon = (sensitivity + grid·dimension)/scale, exactly: rounding
    moves each coordinate of the difference of two inputs by at most `grid`, and on the grid this is
    the discrete Laplace mechanism.
    """

    published: ClassVar[str] = "numbers on a fine grid with discrete Laplace noise"

    mechanism: Literal["laplace"] = "laplace"
    norm: Literal["l1"] = "l1"
    noise: Literal["discrete_laplace_on_grid"] = "discrete_laplace_on_grid"
    sampling: None = None
    dimension: Count = Field(description="Length of the noised vector")
    grid: Positive = Field(description="Step of the grid, a power of two")

    def loss(self) -> Fraction:
        """Epsilon of one release, exactly."""
        return (Fraction(self.sensitivity) + Fraction(self.grid) * self.dimension) / Fraction(
            self.scale
        )

    def derive_price(self) -> Price:
        return pure_price(self.loss(), self.count)

    def delta(self, epsilon: float) -> float:
        return pure_delta(epsilon, self.loss() * self.count)

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        return noise.on_grid(noise.discrete_laplace, self.scale, self.grid, values)

    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        return self.shifted(noise, self.sensitivity, np.float64)

    @classmethod
    def example(cls) -> Laplace:
        return calibrate(1.0, 10**9, dimension=1, neighbours="a vector by l1 norm 1")


@lru_cache(maxsize=4096)
def calibrate(
    sensitivity: float, epsilon: int, *, neighbours: str, dimension: int, count: int = 1
) -> Laplace:
    """A real vector of length `dimension` and this l1 sensitivity, `count` releases, epsilon in
    units of 1e-9: pure."""
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    grid = grid_of(sensitivity, dimension, sensitivity * count * EPSILON_UNIT / epsilon)
    moved = Fraction(sensitivity) + Fraction(grid) * dimension
    return Laplace(
        sensitivity=sensitivity,
        scale=float_above(moved * count * EPSILON_UNIT / epsilon),
        count=count,
        dimension=dimension,
        grid=grid,
        neighbours=neighbours,
    )

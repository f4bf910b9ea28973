"""Laplace noise on real vectors, drawn on a grid: pure differential privacy for what is released, floats and all."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from discreet.privacy.mechanism import Count, MechanismEvent, Positive, register
from discreet.privacy.mechanisms.discrete_laplace import pure_delta, pure_price
from discreet.privacy.units import Price


@register("laplace")
class Laplace(MechanismEvent):
    """A real vector is rounded to a grid and gets discrete Laplace noise, P(z) ~ exp(-|z|/scale), on that grid.

    Guarantee: epsilon-DP with epsilon = (sensitivity + grid·dimension)/scale, exactly: rounding moves each coordinate
    of the difference of two inputs by at most `grid`, and on the grid this is the discrete Laplace mechanism.
    """

    mechanism: Literal["laplace"] = "laplace"
    norm: Literal["l1"] = "l1"
    noise: Literal["discrete_laplace_on_grid"] = "discrete_laplace_on_grid"
    sampling: None = None
    dimension: Count = Field(description="Length of the noised vector")
    grid: Positive = Field(description="Step of the grid, a power of two")

    def loss(self) -> Fraction:
        """Epsilon of one release, exactly."""
        return (Fraction(self.sensitivity) + Fraction(self.grid) * self.dimension) / Fraction(self.scale)

    def derive_price(self) -> Price:
        return pure_price(self.loss(), self.count)

    def delta(self, epsilon: float) -> float:
        return pure_delta(epsilon, self.loss() * self.count)

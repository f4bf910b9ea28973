"""For every mechanism a pair of neighbouring inputs on which its privacy loss is largest, played by its own sampler.

The data of an attack are as bad as the neighbouring relation allows: one coordinate carries the whole sensitivity, rows
sit on the floor, all other units lie where the replaced one lands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.mechanism import MechanismEvent
from discreet.privacy.mechanisms.dirichlet import Dirichlet
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.mechanisms.laplace import Laplace
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import PoissonSubsampledGaussian
from discreet.privacy.mechanisms.smooth_sensitivity_gaussian import SmoothSensitivityGaussian
from discreet.privacy.noise import Noise

Sampler = Callable[[int], NDArray[Any]]
LARGEST_TRANSCRIPT = 4096


@singledispatch
def worst_case(event: MechanismEvent, noise: Noise) -> tuple[Sampler, Sampler]:
    """Samplers of the whole transcript (`count` releases side by side) on two neighbours."""
    raise TypeError(f"no attack on {event.mechanism!r} is registered")


def _transcript(event: MechanismEvent) -> int:
    if event.count > LARGEST_TRANSCRIPT:
        raise ValueError(f"transcripts of more than {LARGEST_TRANSCRIPT} releases are too long to attack")
    return event.count


@worst_case.register
def _(event: DiscreteLaplace | DiscreteGaussian, noise: Noise) -> tuple[Sampler, Sampler]:
    return _shift(event, noise, math.floor(event.sensitivity), np.int64)


@worst_case.register
def _(event: Laplace | Gaussian, noise: Noise) -> tuple[Sampler, Sampler]:
    return _shift(event, noise, event.sensitivity, np.float64)


def _shift(event: MechanismEvent, noise: Noise, shift: float, kind: type[Any]) -> tuple[Sampler, Sampler]:
    """A single coordinate at `shift`, or at 0."""
    releases = _transcript(event)

    def at(value: float) -> Sampler:
        return lambda n: noise.add_each(event, np.full((n, releases), value, dtype=kind))

    return at(shift), at(0)


@worst_case.register
def _(event: Dirichlet, noise: Noise) -> tuple[Sampler, Sampler]:
    """The floor pair; a third entry holds what is left of the row."""
    releases, half = _transcript(event), event.sensitivity / 2

    def at(*moved: float) -> Sampler:
        row = [*moved, max(event.floor, 1 - sum(moved))]
        alpha = event.scale * np.array(row) + event.offset
        return lambda n: noise.dirichlet(np.broadcast_to(alpha, (n, releases, 3))).reshape(n, -1)

    return at(event.floor + half, event.floor), at(event.floor, event.floor + half)


@worst_case.register
def _(event: PoissonSubsampledGaussian, noise: Noise) -> tuple[Sampler, Sampler]:
    """The unit alone: at its clip, and absent (add_remove) or at the opposite clip (replace)."""
    steps, replaced = _transcript(event), event.relation == "replace"
    clip = event.sensitivity / 2 if replaced else event.sensitivity
    generator = noise.generator()

    def at(value: float) -> Sampler:
        def draw(n: int) -> NDArray[Any]:
            taken = generator.random((n, steps)) < event.sampling.probability
            return np.where(taken, value, 0.0) + event.scale * generator.standard_normal((n, steps))

        return draw

    return at(clip), at(-clip if replaced else 0.0)


@worst_case.register
def _(event: OneDrawGaussian, noise: Noise) -> tuple[Sampler, Sampler]:
    """One unit at the clip among others at the opposite clip, and all units there."""
    steps, clip = _transcript(event), event.sensitivity / 2
    generator = noise.generator()

    def at(value: float) -> Sampler:
        def draw(n: int) -> NDArray[Any]:
            taken = generator.integers(event.sampling.population, size=(n, steps)) == 0
            return np.where(taken, value, -clip) + event.scale * generator.standard_normal((n, steps))

        return draw

    return at(clip), at(-clip)


@worst_case.register
def _(event: SmoothSensitivityGaussian, noise: Noise) -> tuple[Sampler, Sampler]:
    """The answer moves by all of S, and S by all of its smoothing."""
    releases = _transcript(event)
    generator = noise.generator()

    def at(value: float, smooth: float) -> Sampler:
        def draw(n: int) -> NDArray[Any]:
            shift = np.zeros((n, releases, event.dimension))
            shift[..., 0] = value
            return (shift + event.scale * smooth * generator.standard_normal(shift.shape)).reshape(n, -1)

        return draw

    return at(0.0, 1.0), at(1.0, math.exp(event.smoothing))

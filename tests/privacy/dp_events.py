"""Our events in the vocabulary of dp_accounting, for its accountants and as an independent check of
our own figures.

Two of its traps: with `REPLACE_ONE` its multipliers are relative to the largest l2 distance of two
neighbours, which for a clip at h is 2h; and its PLD accountant rejects
`SampledWithoutReplacementDpEvent`, for which Poisson sampling with `REPLACE_ONE` is no substitute
(epsilon 0.016 where 0.0999 is true).
"""

from __future__ import annotations

from functools import singledispatch

import dp_accounting
from dp_accounting import DpEvent

from discreet.privacy.mechanism import MechanismEvent
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import Gaussian, square_root_up
from discreet.privacy.mechanisms.one_draw_gaussian import OneDrawGaussian
from discreet.privacy.mechanisms.poisson_subsampled_gaussian import PoissonSubsampledGaussian


@singledispatch
def dp_event(event: MechanismEvent) -> DpEvent | None:
    """The event of dp_accounting that `event` is, or None."""
    return None


@dp_event.register
def _(event: DiscreteLaplace) -> DpEvent | None:
    if event.sensitivity != int(event.sensitivity):
        return None
    return _repeated(
        dp_accounting.dp_event.DiscreteLaplaceDpEvent(1 / event.scale, int(event.sensitivity)),
        event,
    )


@dp_event.register
def _(event: DiscreteGaussian) -> DpEvent | None:
    return dp_accounting.ZCDpEvent(float(event.squared_loss() / 2))


@dp_event.register
def _(event: Gaussian) -> DpEvent | None:
    return _repeated(
        dp_accounting.GaussianDpEvent(1 / square_root_up(event.mu_squared() / event.count)), event
    )


@dp_event.register
def _(event: PoissonSubsampledGaussian) -> DpEvent | None:
    """For replace-one neighbours dp_accounting's PLD wants the multiplier relative to one unit's
    clip as well."""
    clip = event.sensitivity if event.relation == "add_remove" else event.sensitivity / 2
    step = dp_accounting.PoissonSampledDpEvent(
        event.sampling.probability, dp_accounting.GaussianDpEvent(event.scale / clip)
    )
    return _repeated(step, event)


@dp_event.register
def _(event: OneDrawGaussian) -> DpEvent | None:
    """For its RDP accountant with `REPLACE_ONE`: the multiplier is relative to the distance 2h, our
    sensitivity."""
    gaussian = dp_accounting.GaussianDpEvent(event.scale / event.sensitivity)
    return _repeated(
        dp_accounting.SampledWithoutReplacementDpEvent(event.sampling.population, 1, gaussian),
        event,
    )


def _repeated(single: DpEvent, event: MechanismEvent) -> DpEvent:
    return dp_accounting.SelfComposedDpEvent(single, event.count)

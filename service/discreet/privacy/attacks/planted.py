"""Faults that the audit must catch: half the noise everywhere, under-noised variants of what the
papers print, and wrong ways to charge blocks of a source.

Each plays the full transcript that the claim covers, or a function of it (post-processing only
helps the mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.privacy.attacks import blocks, printed
from discreet.privacy.attacks.audit import (
    CONFIDENCE,
    SHORT,
    AuditRow,
    audit_event,
    epsilon_lower_bound,
    row,
)
from discreet.privacy.mechanism import MechanismEvent, Sampler
from discreet.privacy.mechanisms.dirichlet import Dirichlet
from discreet.privacy.mechanisms.gaussian import gaussian_mu
from discreet.privacy.noise import Noise


@dataclass(frozen=True, slots=True)
class Fault:
    """A mechanism that claims (epsilon, delta) and does not keep it."""

    name: str
    epsilon: float
    delta: float
    samplers: Callable[[Noise], tuple[Sampler, Sampler]]
    samples: int = SHORT

    def audit(self, *, confidence: float = CONFIDENCE, noise: Noise | None = None) -> AuditRow:
        """The line that must say `violated`."""
        left, right = self.samplers(noise or Noise.secure())
        bound = epsilon_lower_bound(
            left, right, self.delta, samples=self.samples, confidence=confidence
        )
        return row(self.name, bound, self.epsilon, self.delta)


def half_noise(
    event: MechanismEvent,
    *,
    samples: int = SHORT,
    confidence: float = CONFIDENCE,
    noise: Noise | None = None,
) -> AuditRow:
    """`event` charged, half its standard deviation played."""
    name = f"{event.mechanism}, half noise"
    played = event.less_noise(2.0)
    return audit_event(
        event, played=played, name=name, samples=samples, confidence=confidence, noise=noise
    )


def per_output_calibration(noise: Noise) -> tuple[Sampler, Sampler]:
    """As Hale & Egerstedt calibrate, but with the analytic Gaussian in place of their kappa: eight
    outputs, each at full sensitivity, each as if it were alone at (ln 3, .05)."""
    generator, sigma = noise.generator(), 1 / gaussian_mu(math.log(3), 0.05)

    def at(value: float) -> Sampler:
        return lambda n: value + sigma * generator.standard_normal((n, 8))

    return at(1.0), at(0.0)


def averaged_dirichlet(noise: Noise) -> tuple[Sampler, Sampler]:
    """Hassan et al., eq. (29): the average of 100 draws, taken to cost what one costs, since
    "DP is immune to post-processing"."""
    event = _dirichlet_row(count=100)
    left, right = event.worst_case(noise)

    def averaged(sampler: Sampler) -> Sampler:
        return lambda n: sampler(n).reshape(n, event.count, 3).mean(axis=1)

    return averaged(left), averaged(right)


def raw_policy(noise: Noise) -> tuple[Sampler, Sampler]:
    """Hassan et al., eq. (20): the Taylor policy of the raw row, deterministic and said to be
    private."""
    del noise
    k, values = 50.0, np.exp(-np.array([1.0, 0.5, 0.2]))

    def at(*row_: float) -> Sampler:
        p = np.array(row_)
        policy = p * np.exp(-(1 - p) / (2 * p * (k + 1))) * values
        return lambda n: np.broadcast_to(policy / policy.sum(), (n, 3))

    return at(0.115, 0.1, 0.785), at(0.1, 0.115, 0.785)


def lemma_one(noise: Noise) -> tuple[Sampler, Sampler]:
    """Xie et al., Lemma 1 at N = m = 1e5: the 64 largest of the 1e5 noisy steps, for sigma = .5704.

    All units at -1, or one of them at 1. Of n normal draws the order statistics from the top are
    Phi^-1 of e^{-t_i/n} for the arrival times t_i of a Poisson process (up to O(1/n), far below
    what the attack sees), so only those are drawn.
    """
    population = steps = 100_000
    sigma = printed.lemma_one_sigma(0.1, 1e-5, population, steps)
    generator = noise.generator()

    def at(value: float) -> Sampler:
        def draw(n: int) -> NDArray[Any]:
            arrivals = np.cumsum(generator.standard_exponential((n, 64)), axis=1)
            others = -1 - sigma * ndtri(-np.expm1(-arrivals / steps))
            drawn = generator.binomial(steps, 1 / population, size=(n, 1)) > np.arange(12)
            own = np.where(drawn, value + sigma * generator.standard_normal((n, 12)), -1.0)
            return np.sort(np.concatenate([others, own], axis=1), axis=1)[:, -64:]

        return draw

    return at(1.0), at(-1.0)


def _dirichlet_row(count: int) -> Dirichlet:
    """k = 50, floor .3, h = .03: one draw is (1.07, 1e-5)-DP."""
    return Dirichlet(
        sensitivity=0.03,
        scale=50.0,
        floor=0.3,
        count=count,
        neighbours="two entries of one row move by .015",
        charged_epsilon=1_070_000_000,
        charged_delta=10**13,
    )


FAULTS: tuple[Fault, ...] = (
    Fault("per-output calibration (hale)", math.log(3), 0.05, per_output_calibration),
    Fault("average of 100 Dirichlet draws (hassan)", 1.07, 1e-5, averaged_dirichlet, 10_000),
    Fault("policy from the raw matrix (hassan)", 5.0, 1e-5, raw_policy, 10_000),
    Fault("lemma 1, sigma .5704 (xie)", 0.1, 1e-5, lemma_one, 10_000),
    Fault(
        "blocks of a source closed by count", blocks.EPSILON, 0.0, blocks.closed_by_count, 20_000
    ),
    Fault(
        "late records charged to the block of their arrival",
        blocks.EPSILON,
        0.0,
        blocks.late_to_arrival,
        20_000,
    ),
    Fault(
        "caps of blocks sold as a person's", blocks.EPSILON, 0.0, blocks.caps_as_a_persons, 20_000
    ),
)

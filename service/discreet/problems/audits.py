"""Audit of every problem kind's whole `release`, and the table of `discreet audit`.

What is attacked is not the mechanism in the book but the code that runs: canonical content in, released arrays out, on
the kind's own worst-case neighbours. Data-dependent clipping, a forgotten sensitivity or a field too many show here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.attacks.audit import CONFIDENCE, Attack, AuditRow, row
from discreet.privacy.mechanism import CalibratedEvent
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content
from discreet.problems.plans import Plan

SAMPLES = 10_000


def audit_release(
    case: Neighbours,
    *,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    played: Plan | None = None,
    noise: Noise | None = None,
) -> AuditRow:
    """A lower bound on the epsilon of a whole release against its plan's price.

    `played` is the plan that really runs, when that is not the one that is charged: how a fault is planted. `noise` is
    the operating system's when not given.
    """
    noise = noise or Noise.secure()
    running = played or case.plan

    def sampler(content: Content) -> Any:
        def draw(count: int) -> NDArray[Any]:
            return np.stack([_flat(case, running, content, noise) for _ in range(count)])

        return draw

    price = case.plan.total
    delta = price.delta / DELTA_UNIT
    split = (1 + confidence) / 2
    attack = Attack.learn(sampler(case.left), sampler(case.right), samples)
    bound = attack.epsilon_lower_bound(delta, split)
    if len(case.plan.events) == 1 and isinstance(event := case.plan.events[0], CalibratedEvent):
        bound = max(bound, attack.curve_lower_bound(event, split))
    return row(case.name, bound, price.epsilon / EPSILON_UNIT, delta)


def _flat(case: Neighbours, plan: Plan, content: Content, noise: Noise) -> NDArray[np.float64]:
    """Everything that one release lets out, in one row."""
    released = case.problem.release(case.public, plan, content, noise)
    return np.concatenate([np.asarray(released[name], dtype=np.float64).ravel() for name in sorted(released)])

"""Audit of every problem kind's whole `release`, and the table of `discreet audit`.

What is attacked is not the mechanism in the book but the code that runs: canonical content in,
released arrays out, on the kind's own worst-case neighbours. Data-dependent clipping, a forgotten
sensitivity or a field too many show here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.attacks.audit import CONFIDENCE, Attack, AuditRow, Floats, Score, row
from discreet.privacy.mechanism import CalibratedEvent
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content
from discreet.problems.plans import Plan

SAMPLES = 4_000


def audit_release(
    case: Neighbours,
    *,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    played: Plan | None = None,
    noise: Noise | None = None,
) -> AuditRow:
    """A lower bound on the epsilon of a whole release against its plan's price.

    `played` is the plan that really runs, when that is not the one that is charged: how a fault is
    planted. `noise` is the operating system's when not given.
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
    score = _likelihood_ratio(case, running)
    attack = Attack.learn(sampler(case.left), sampler(case.right), samples, score)
    bound = attack.epsilon_lower_bound(delta, split)
    calibrated = [event for event in case.plan.events if isinstance(event, CalibratedEvent)]
    if len(calibrated) == 1:
        (event,) = calibrated
        # What a plan has beside its one calibrated event is pure.
        beside = (price.epsilon - event.price().epsilon) / EPSILON_UNIT
        bound = max(bound, attack.curve_lower_bound(event, split, beside))
    return row(case.name, bound, price.epsilon / EPSILON_UNIT, delta)


def half_noise(case: Neighbours, **options: Any) -> AuditRow:
    """`audit_release` of a planted fault: what runs has the charged standard deviation divided by 2
    · `case.slack`."""
    weaker = tuple(event.less_noise(2 * case.slack) for event in case.plan.events)
    found = audit_release(case, played=case.plan.model_copy(update={"events": weaker}), **options)
    return replace(found, name=f"{case.name}, half noise")


def _flat(case: Neighbours, plan: Plan, content: Content, noise: Noise) -> Floats:
    """Everything that one release publishes, in one row."""
    released = case.problem.release(case.public, plan, content, noise)
    return np.concatenate(
        [np.asarray(released[name], dtype=np.float64).ravel() for name in sorted(released)]
    )


class _Unnoised(Noise):
    """Adds nothing, and records the values that noise was to be added to."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0).bytes)
        self.added: list[tuple[Any, Floats]] = []

    def add(self, event: Any, values: NDArray[Any]) -> NDArray[Any]:
        self.added.append((event, np.asarray(values, dtype=np.float64).ravel()))
        return np.array(values)


def _likelihood_ratio(case: Neighbours, plan: Plan) -> Score | None:
    """The score of the likelihood ratio test, where a release is one vector with added noise; None:
    it is something else."""
    found = []
    for content in (case.left, case.right):
        noise = _Unnoised()
        size = _flat(case, plan, content, noise).size
        if [values.size for _, values in noise.added] != [size]:
            return None
        found += noise.added
    (event, left), (_, right) = found
    if event.norm == "l1":
        return lambda outputs: np.asarray(np.abs(outputs - right) - np.abs(outputs - left)).sum(
            axis=1
        )
    return lambda outputs: np.asarray((outputs - (left + right) / 2) @ (left - right))

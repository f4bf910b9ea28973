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
from scipy.special import log_softmax

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
    """Adds nothing, takes the candidate of a given place, and records the values that noise was to
    be added to and the scores that candidates had."""

    def __init__(self, place: int = 0) -> None:
        super().__init__(np.random.default_rng(0).bytes)
        self.added: list[tuple[Any, Floats]] = []
        self.scored: list[tuple[Any, Floats]] = []
        self._place = place

    def add(self, event: Any, values: NDArray[Any]) -> NDArray[Any]:
        self.added.append((event, np.asarray(values, dtype=np.float64).ravel()))
        return np.array(values)

    def choose(self, event: Any, scores: NDArray[Any]) -> int:
        self.scored.append((event, np.asarray(scores, dtype=np.float64)))
        return self._place


def _likelihood_ratio(case: Neighbours, plan: Plan) -> Score | None:
    """The score of the likelihood ratio test, where a release is one vector with added noise, or
    the place of a chosen candidate and such a vector; None: it is something else."""
    probed = [_probed(case, plan, content, 0) for content in (case.left, case.right)]
    if any(noise is None for noise in probed):
        return None
    scored = [noise.scored for noise in probed if noise is not None]
    if not scored[0]:
        return _of_vector(probed)
    places = range(scored[0][0][1].size)
    each = [
        _of_vector([_probed(case, plan, content, place) for content in (case.left, case.right)])
        for place in places
    ]
    left, right = (log_softmax(scores / event.scale) for ((event, scores),) in scored)

    def score(outputs: NDArray[Any]) -> Floats:
        chosen, rest = outputs[:, 0].astype(int), outputs[:, 1:]
        found = (left - right)[chosen]
        for place in np.unique(chosen).tolist():
            rows = chosen == place
            found[rows] += each[place](rest[rows])
        return np.asarray(found, dtype=np.float64)

    return score


def _probed(case: Neighbours, plan: Plan, content: Content, place: int) -> _Unnoised | None:
    """What noise was to be added to; None where the release is more than that."""
    noise = _Unnoised(place)
    size = _flat(case, plan, content, noise).size
    known = [*([1] * len(noise.scored)), *(values.size for _, values in noise.added)]
    return (
        noise if len(noise.added) == 1 and len(noise.scored) <= 1 and sum(known) == size else None
    )


def _of_vector(probed: list[_Unnoised | None]) -> Score:
    """The logarithm of the likelihood ratio of one vector with added noise."""
    (event, left), (_, right) = (noise.added[0] for noise in probed if noise is not None)
    if event.norm == "l1":
        return lambda outputs: (
            np.asarray(np.abs(outputs - right) - np.abs(outputs - left)).sum(axis=1) / event.scale
        )
    return lambda outputs: np.asarray(
        (outputs - (left + right) / 2) @ (left - right) / event.deviation() ** 2
    )

"""Attack every mechanism as a black box; a lower bound on epsilon above the price proves the price
wrong.

A pass proves nothing: a failed attack is no guarantee. What makes the audit worth running is that
noise which is too small is caught, and the faults of `planted` show that it is.

One attack (after Jagielski, Ullman & Oprea 2020): draw outputs on two worst-case neighbours, choose
by the first draws an event S that tells them apart, count S on fresh ones. S is a threshold of a
score: the likelihood ratio where the noise is known, otherwise one that is learnt. (epsilon,
delta)-DP means P(S) <= e^epsilon Q(S) + delta, so with one-sided Clopper-Pearson bounds

    epsilon >= ln((P(S)_low - delta)/Q(S)_high)

except with the stated probability, which is split over both bounds and over all tests of a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from discreet.privacy.mechanism import CalibratedEvent, MechanismEvent, Sampler
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT

Floats = NDArray[np.float64]
Score = Callable[[NDArray[Any]], Floats]
"""A number for each output, greater where the left dataset is likelier."""

SHORT = 100_000
LONG = 1_000_000
AT_ONCE = 100_000
CONFIDENCE = 0.999
FEW_COORDINATES = 8
LEARNT_FROM = 50_000


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of the audit: no epsilon below `lower_bound` is true of what was attacked."""

    name: str
    lower_bound: float
    price_epsilon: float
    delta: float
    verdict: Literal["holds", "violated"]


def row(name: str, lower_bound: float, price_epsilon: float, delta: float) -> AuditRow:
    """The line with its verdict: a bound above the price is a violation."""
    return AuditRow(
        name,
        lower_bound,
        price_epsilon,
        delta,
        "violated" if lower_bound > price_epsilon else "holds",
    )


def audit_event(
    event: MechanismEvent,
    *,
    played: MechanismEvent | None = None,
    name: str | None = None,
    samples: int = SHORT,
    confidence: float = CONFIDENCE,
    noise: Noise | None = None,
) -> AuditRow:
    """Attack `event` on its worst-case neighbours, `samples` draws a side for the verdict, as many
    again to learn from.

    `played` is what really runs, when that is not what is charged: how a fault is planted.
    """
    left, right = (event if played is None else played).worst_case(noise or Noise.secure())
    attack = Attack.learn(left, right, samples)
    epsilon, delta = _charged(event)
    split = (1 + confidence) / 2
    bound = attack.epsilon_lower_bound(delta, split)
    if isinstance(event, CalibratedEvent):
        bound = max(bound, attack.curve_lower_bound(event, split))
    return row(name or event.mechanism, bound, epsilon, delta)


def audit(
    events: Sequence[MechanismEvent],
    *,
    samples: int = SHORT,
    confidence: float = CONFIDENCE,
    noise: Noise | None = None,
) -> list[AuditRow]:
    """`audit_event` for each; `confidence` is that of all verdicts together."""
    split = 1 - (1 - confidence) / max(1, len(events))
    return [audit_event(event, samples=samples, confidence=split, noise=noise) for event in events]


def _charged(event: MechanismEvent) -> tuple[float, float]:
    price = event.price()
    delta = event.charged_delta if isinstance(event, CalibratedEvent) else price.delta
    return price.epsilon / EPSILON_UNIT, delta / DELTA_UNIT


def epsilon_lower_bound(
    left: Sampler, right: Sampler, delta: float, *, samples: int, confidence: float
) -> float:
    """A lower bound on the epsilon at `delta` of whatever has these outputs on two neighbours; 0:
    none found."""
    return Attack.learn(left, right, samples).epsilon_lower_bound(delta, confidence)


@dataclass(frozen=True)
class Attack:
    """Sorted scores of both datasets' outputs: those that the score was learnt from, and fresh ones
    for verdicts."""

    learnt: tuple[Floats, Floats]
    fresh: tuple[Floats, Floats]

    @classmethod
    def learn(
        cls, left: Sampler, right: Sampler, samples: int, score: Score | None = None
    ) -> Attack:
        """`samples` outputs of each dataset to learn from, as many again to judge by; where the
        score is known, half as many to choose thresholds by."""
        first = samples if score is None else samples // 2
        p, q = left(first), right(first)
        score = score or _logistic(p[:LEARNT_FROM], q[:LEARNT_FROM])
        learnt = np.sort(score(p)), np.sort(score(q))
        return cls(learnt, (np.sort(score(left(samples))), np.sort(score(right(samples)))))

    def epsilon_lower_bound(self, delta: float, confidence: float) -> float:
        """ln((P(S)_low - delta)/Q(S)_high) for the S, high scores or low ones, that the learnt
        scores recommend."""
        first, samples, both = len(self.learnt[0]), len(self.fresh[0]), np.concatenate(self.learnt)
        best, chosen = -1.0, (0.0, False)
        for threshold in np.unique(np.quantile(both, _quantiles(first))).tolist():
            for low_scores in (False, True):
                # A risk far below the verdict's: thresholds fitted to few draws disappoint on fresh
                # ones.
                bound = _epsilon_of(
                    *self._counts(self.learnt, threshold, low_scores), first, delta, 1e-5
                )
                if bound > best:
                    best, chosen = bound, (threshold, low_scores)
        return _epsilon_of(*self._counts(self.fresh, *chosen), samples, delta, (1 - confidence) / 2)

    def curve_lower_bound(
        self, event: MechanismEvent, confidence: float, beside: float = 0.0
    ) -> float:
        """The least epsilon, at the charged delta, of a mechanism of this kind that the attack does
        not refute.

        An event promises its whole curve: P(S) <= e^x Q(S) + delta(x) for every x >= 0. So one
        frequent S, the one that tells most apart, refutes every amount of noise whose curve it
        passes anywhere, with far fewer draws than a rare S at the charged delta needs. The bound is
        the epsilon of the most noise left. It speaks of the kind of noise that the event names.
        `beside`: the epsilon of what else was released, which is pure and shifts the curve.
        """
        samples, both = len(self.fresh[0]), np.concatenate(self.learnt)
        splits = [
            (at, *self._counts(self.learnt, at, False))
            for at in np.quantile(both, np.linspace(0.05, 0.95, 19))
        ]
        threshold = max(splits, key=lambda split: split[1] - split[2])[0]
        hits, alarms = self._counts(self.fresh, threshold, False)
        risk = (1 - confidence) / 2
        low, high = at_least(hits, samples, risk), at_most(alarms, samples, risk)
        epsilon, delta = _charged(event)
        points = np.linspace(0.0, epsilon, 5).tolist()

        def refuted(factor: float) -> bool:
            curve = event.less_noise(factor).rough_delta
            return any(low - math.exp(min(x + beside, 700.0)) * high > curve(x) for x in points)

        if not refuted(0.25):
            return 0.0
        within, beyond = 0.25, 16.0
        for _ in range(11):
            middle = math.sqrt(within * beyond)
            within, beyond = (middle, beyond) if refuted(middle) else (within, middle)
        return _epsilon_at(event.less_noise(within), delta) + beside

    @staticmethod
    def _counts(
        scores: tuple[Floats, Floats], threshold: float, low_scores: bool
    ) -> tuple[int, int]:
        """How often S occurs where it should and where it should not: S is above the threshold, or
        below it."""
        on_left, on_right = scores
        if low_scores:
            return int(np.searchsorted(on_right, threshold, "left")), int(
                np.searchsorted(on_left, threshold, "left")
            )
        left_above = len(on_left) - int(np.searchsorted(on_left, threshold, "right"))
        return left_above, len(on_right) - int(np.searchsorted(on_right, threshold, "right"))


def _epsilon_at(event: MechanismEvent, delta: float) -> float:
    """The epsilon at which the event's curve has this delta, from below to 1e-3."""
    curve, low, high = event.rough_delta, 0.0, 1.0
    while curve(high) > delta and high < 600:
        high *= 2
    for _ in range(11):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return low


def at_least(hits: int, samples: int, risk: float) -> float:
    """Clopper-Pearson: the probability is no smaller, except with probability `risk`."""
    return 0.0 if hits == 0 else float(betaincinv(hits, samples - hits + 1, risk))


def at_most(hits: int, samples: int, risk: float) -> float:
    """Clopper-Pearson: the probability is no larger, except with probability `risk`."""
    return 1.0 if hits == samples else float(betaincinv(hits + 1, samples - hits, 1 - risk))


def _epsilon_of(hits: int, alarms: int, samples: int, delta: float, risk: float) -> float:
    low, high = at_least(hits, samples, risk) - delta, at_most(alarms, samples, risk)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


# Learning the score.


def _quantiles(samples: int) -> Floats:
    tail = np.geomspace(10 / samples, 0.5, 60)
    return np.concatenate([tail, 1 - tail])


def _logistic(p: NDArray[Any], q: NDArray[Any]) -> Score:
    """Ridge logistic regression of "from p" on the features; the score is its logit (Newton's
    method)."""
    features = _features(p, q)
    design = features(np.concatenate([p, q]))
    target = np.concatenate([np.ones(len(p)), np.zeros(len(q))])
    weights = np.zeros(design.shape[1])
    ridge = 1e-3 * np.eye(design.shape[1])
    for _ in range(12):
        chance = expit(design @ weights)
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design / len(design) + ridge
        step = np.linalg.solve(
            curvature, design.T @ (target - chance) / len(design) - ridge @ weights
        )
        weights = weights + step
        if float(np.abs(step).max()) < 1e-6:
            break
    fitted = weights

    def score(outputs: NDArray[Any]) -> Floats:
        pieces = [
            features(outputs[at : at + AT_ONCE]) @ fitted for at in range(0, len(outputs), AT_ONCE)
        ]
        return np.concatenate(pieces)

    return score


def _features(p: NDArray[Any], q: NDArray[Any]) -> Score:
    """Standardized powers, absolute value and logarithm of each coordinate; of many coordinates
    their averages, and the same of the projection on which the two samples lie farthest apart
    (Fisher 1936)."""
    values = np.concatenate([p, q]).astype(np.float64)
    many = values.shape[1] > FEW_COORDINATES
    direction = (
        _apart(np.asarray(p, np.float64), np.asarray(q, np.float64)) if many else np.empty(0)
    )

    def columns(x: Floats, centre: Any, width: Any) -> list[Floats]:
        z = (x - centre) / width
        tame = np.clip(z, -30, 30)
        return [
            z,
            np.abs(z),
            z**2,
            np.tanh(tame) * tame**2,
            np.exp(np.minimum(tame, 8.0)),
            np.log(np.abs(x) + 1e-9),
        ]

    def measures(x: Floats, axis: int | None) -> tuple[Any, Any]:
        return np.median(x, axis=axis), np.std(x, axis=axis) + 1e-300

    each = measures(values, None if many else 0)
    along = measures(values @ direction, None) if many else each

    def raw(outputs: NDArray[Any]) -> Floats:
        x = np.asarray(outputs, dtype=np.float64)
        if not many:
            return np.concatenate(columns(x, *each), axis=1)
        averages = [column.mean(axis=1) for column in columns(x, *each)]
        return np.stack([*averages, *columns(x @ direction, *along)], axis=1)

    learnt = raw(values)
    mean, deviation = learnt.mean(axis=0), learnt.std(axis=0) + 1e-12

    def standardized(outputs: NDArray[Any]) -> Floats:
        columns = np.clip((raw(outputs) - mean) / deviation, -30, 30)
        return np.concatenate([columns, np.ones((len(columns), 1))], axis=1)

    return standardized


def _apart(p: Floats, q: Floats) -> Floats:
    """The direction in which the difference of the means is largest in units of the spread."""
    pooled = (np.cov(p, rowvar=False) + np.cov(q, rowvar=False)) / 2
    width = np.sqrt(np.diag(pooled))
    width[width == 0] = 1.0
    correlation = pooled / np.outer(width, width) + 1e-6 * np.eye(len(width))
    direction: Floats = (
        np.linalg.solve(correlation, (p.mean(axis=0) - q.mean(axis=0)) / width) / width
    )
    return direction

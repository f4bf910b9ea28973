"""What a method answers from what it released: weights, and how far its noise may have moved
them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.contents import Released
from discreet.problems.off_policy_evaluation.public import Floats
from discreet.solvers.evaluation import temporal_difference as td

Marks = NDArray[np.bool_]

TAIL, CHOSEN = 0.04, 0.008
"""Parts of draws beyond either end of an interval: a little less than (1 - LEVEL) / 2, as each
number is to be held so often, not their mean; and of numbers that have one only where noise was on
their side."""


class Spread(Protocol):
    """Where the weights would lie without noise."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of `directions` float64[k, d] times the weights: float64[k]
        each."""
        ...

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        """The ends, float64[1] each, of the interval of the policy's value."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Draws float64[draws, d] of the least and of the largest weights, whose quantiles are the ends
    of intervals. These hold the answer float64[d] too, which has a prior that draws have not.

    bare: the answer float64[d] if nobody was ever in the states that are noise. Such a state is
    worth 0, which no draw says of many of them at once: the interval is extended by as much as this
    moves the answer.
    """

    weights: Floats
    least: Floats
    largest: Floats
    bare: Floats
    weak: Marks
    """Of each weight: whether noise may be most of what it follows from, so that it chose whether
    there is an interval."""
    within: tuple[float, float]
    """Between what every weight lies, by public figures."""
    visits: Floats | None = None
    """Where the policy begins as the data do: draws float64[draws, d] of how often each state was
    visited."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        """`directions` are parts of a whole, not negative."""
        return self._ends(self.least @ directions.T, self.largest @ directions.T, directions)

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        if self.visits is None:
            return self.of(start[None])
        begin = distribution(self.visits)
        least, largest = (
            (begin * draws).sum(axis=1, keepdims=True) for draws in (self.least, self.largest)
        )
        return self._ends(least, largest, start[None])

    def _ends(self, least: Floats, largest: Floats, directions: Floats) -> tuple[Floats, Floats]:
        answer, moved = directions @ self.weights, directions @ (self.bare - self.weights)
        lower, upper = np.empty_like(answer), np.empty_like(answer)
        chosen = directions @ self.weak > 0.5
        for own, tail in ((chosen, CHOSEN), (~chosen, TAIL)):
            lower[own] = np.quantile(least[:, own], tail, axis=0, method="weibull")
            upper[own] = np.quantile(largest[:, own], 1 - tail, axis=0, method="weibull")
        lower = np.minimum(lower, answer) + np.minimum(moved, 0.0)
        upper = np.maximum(upper, answer) + np.maximum(moved, 0.0)
        return np.maximum(lower, self.within[0]), np.minimum(upper, self.within[1])


@dataclass(frozen=True)
class Normal:
    """Normal errors: `root` float64[d, j] times its transpose is at least their covariance.
    `quantile`: deviations on either side."""

    middle: Floats
    root: Floats
    quantile: float = float(ndtri((1 + LEVEL) / 2))

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        middle = directions @ self.middle
        half = self.quantile * np.linalg.norm(directions @ self.root, axis=1)
        return middle - half, middle + half

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        return self.of(start[None])


@dataclass(frozen=True)
class Answer:
    """The weights float64[d], and what may be said of them from what was released."""

    weights: Floats
    start: Floats | None
    """Mean features float64[d] of where the policy begins: their product with the weights is its
    value."""
    noise: Marks | None = None
    """Whether each weight is mostly noise; None: not known one by one."""
    mostly_noise: bool = False
    spread: Callable[[], Spread] | None = None
    """None: this method cannot say how far its noise moved the answer."""
    noise_told: bool = False
    """Whether what is mostly noise has intervals too. Where noise itself decides which weights have
    one, those that are given hold the truth too seldom."""

    def policy_value(self) -> float:
        assert self.start is not None
        return td.policy_value(self.weights, self.start)

    def uncertainty(self, *, tabular: bool, valued: bool) -> Uncertainty:
        """The uncertainty of the result. `tabular`: weights are values; `valued`: the result has a
        policy value."""
        dimension = self.weights.size
        names = ("weights", "values") if tabular else ("weights",)
        if self.spread is None and self.noise is None and not self.mostly_noise:
            return Uncertainty(level=LEVEL, values={}, noise_dominates={}, mostly_noise=False)
        noise = np.full(dimension, self.mostly_noise) if self.noise is None else self.noise
        dominated: dict[str, Any] = dict.fromkeys(names, noise.tolist())
        if valued:
            dominated["policy_value"] = self.mostly_noise
        values: dict[str, Interval] = {}
        if self.spread is not None:
            spread = self.spread()
            lower, upper = spread.of(np.eye(dimension))
            untold = noise & (not self.noise_told)
            values = dict.fromkeys(
                names, Interval(lower=_known(lower, untold), upper=_known(upper, untold))
            )
            if valued and self.start is not None:
                drowned = np.array([self.mostly_noise and not self.noise_told])
                low, high = (_known(end, drowned)[0] for end in spread.mean(self.start))
                values["policy_value"] = Interval(lower=low, upper=high)
        return Uncertainty(
            level=LEVEL, values=values, noise_dominates=dominated, mostly_noise=self.mostly_noise
        )


def distribution(counts: Floats) -> Floats:
    """Counts float64[…, states] as fractions of their sum; negative ones are taken for 0."""
    some = np.maximum(counts, 0.0)
    return np.asarray(some / np.maximum(some.sum(axis=-1, keepdims=True), 1e-300))


def _known(numbers: Floats, noise: Marks) -> list[Any]:
    """The numbers, with None for what is mostly noise."""
    return [
        None if drowned else float(number) for number, drowned in zip(numbers, noise, strict=True)
    ]


def seeded(released: Released) -> np.random.Generator:
    """A generator whose draws follow from the release, so that they are the same whenever it is
    finished.

    This holds for one version of NumPy, which certificates name: another may draw differently from
    the same seed (NEP 19).
    """
    digest = hashlib.sha256()
    for name in sorted(name for name in released if not name.startswith("true_")):
        digest.update(np.ascontiguousarray(released[name]).tobytes())
    return np.random.default_rng(list(digest.digest()))

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
    """Draws float64[draws, d] of a posterior, beside the answer float64[d].

    In a chain of many rarely visited states each draw takes some of them for absorbing, so the
    values of all draws fall together, and those of the mean counts do not. So the interval holds
    the quantiles of the draws, and the same quantiles moved until their median is the answer; where
    the true value is exactly 0 and the answer is not, only the former hold it.

    bare: the answer float64[d] if nobody was ever in the states that are noise. Such a state is
    worth 0, which no draw says of many of them at once: the interval is extended by as much as this
    moves the answer.
    """

    weights: Floats
    draws: Floats
    bare: Floats
    visits: Floats | None = None
    """Where the policy begins as the data do: draws float64[draws, d] of how often each state was
    visited."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        return self._ends(self.draws @ directions.T, directions)

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        if self.visits is None:
            return self.of(start[None])
        found = (distribution(self.visits) * self.draws).sum(axis=1, keepdims=True)
        return self._ends(found, start[None])

    def _ends(self, draws: Floats, directions: Floats) -> tuple[Floats, Floats]:
        lower, middle, upper = np.quantile(draws, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0)
        shift, moved = directions @ self.weights - middle, directions @ (self.bare - self.weights)
        lower, upper = lower + np.minimum(shift, 0.0), upper + np.maximum(shift, 0.0)
        return lower + np.minimum(moved, 0.0), upper + np.maximum(moved, 0.0)


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

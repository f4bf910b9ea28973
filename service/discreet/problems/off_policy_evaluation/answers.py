"""What a method answers from what it released: weights, and how far its noise may have moved them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.problems.accuracy import LEVEL, Interval, Uncertainty
from discreet.problems.contents import Released
from discreet.problems.off_policy_evaluation.public import Floats

Marks = NDArray[np.bool_]


class Spread(Protocol):
    """What the unnoised weights may be."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of `directions` float64[k, d] times the weights: float64[k] each."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Draws float64[draws, d] of a posterior."""

    weights: Floats

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        return ends_of(self.weights @ directions.T)


@dataclass(frozen=True)
class Normal:
    """Normal errors: `root` float64[d, j] times its transpose is at least their covariance. `quantile`: deviations on
    either side."""

    middle: Floats
    root: Floats
    quantile: float = float(ndtri((1 + LEVEL) / 2))

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        middle = directions @ self.middle
        half = self.quantile * np.linalg.norm(directions @ self.root, axis=1)
        return middle - half, middle + half


@dataclass(frozen=True)
class Answer:
    """The weights float64[d], and what may be said of them from what was released."""

    weights: Floats
    spread: Spread | None = None
    """None: of this method's noise nobody can say how far it moved the answer."""
    noise: Marks | None = None
    """Of each weight: whether noise is most of it. None: not known one by one."""
    mostly_noise: bool = False
    visits: Floats | None = None
    """Draws float64[draws, d] of how often each state was visited, or one row of their estimate; of numbered states."""

    def policy_value(self, start: Floats | None) -> float:
        """The mean value over a public start, or over the released visits."""
        if start is not None:
            return float(start @ self.weights)
        return float(np.median(self._from_visits()))

    def _from_visits(self) -> Floats:
        assert self.visits is not None
        start = self.visits / np.maximum(self.visits.sum(axis=1, keepdims=True), 1e-300)
        weights = self.spread.weights if isinstance(self.spread, Drawn) else self.weights[None]
        return np.asarray((start * weights).sum(axis=1))

    def uncertainty(self, start: Floats | None, *, tabular: bool, valued: bool) -> Uncertainty:
        """What the result says. `tabular`: weights are values; `valued`: the result has a policy value."""
        dimension = self.weights.size
        names = ("weights", "values") if tabular else ("weights",)
        noise = np.full(dimension, self.mostly_noise) if self.noise is None else self.noise
        values: dict[str, Interval] = {}
        if self.spread is None and self.noise is None and not self.mostly_noise:
            return Uncertainty(level=LEVEL, values={}, noise_dominates={}, mostly_noise=False)
        dominated: dict[str, Any] = dict.fromkeys(names, noise.tolist())
        if self.spread is not None:
            lower, upper = self.spread.of(np.eye(dimension))
            ends = Interval(lower=_known(lower, ~noise), upper=_known(upper, ~noise))
            values = dict.fromkeys(names, ends)
        if valued:
            dominated["policy_value"] = self.mostly_noise
            if self.spread is not None:
                low, high = ends_of(self._from_visits()[:, None]) if start is None else self.spread.of(start[None])
                told = np.array([not self.mostly_noise])
                values["policy_value"] = Interval(lower=_known(low, told)[0], upper=_known(high, told)[0])
        return Uncertainty(level=LEVEL, values=values, noise_dominates=dominated, mostly_noise=bool(self.mostly_noise))


def ends_of(draws: Floats) -> tuple[Floats, Floats]:
    """The quantiles of draws float64[draws, k] between which LEVEL of them lie."""
    lower, upper = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return lower, upper


def _known(numbers: Floats, told: Marks) -> list[float | None]:
    """Null for what is not told."""
    return [float(number) if say else None for number, say in zip(numbers, told, strict=True)]


def seeded(released: Released) -> np.random.Generator:
    """Draws that are the same whenever the same release is finished, for they follow from it."""
    digest = hashlib.sha256()
    for name in sorted(name for name in released if not name.startswith("true_")):
        digest.update(np.ascontiguousarray(released[name]).tobytes())
    return np.random.default_rng(list(digest.digest()))

"""Draws of the ends of states' values, by the noise alone: post-processing of a release.

A posterior of counts (`count_posterior`) is near all of them together, but it draws a count that is
unlike the others towards them, and its intervals hold the values that such a count moves too
seldom. Here no count tells of another. What was released less noise that is drawn anew is a draw of
what the true counts may have been, whatever these are (a fiducial distribution; of the ratio of two
counts its quantiles are the ends of Fieller 1954). Such counts may be negative, and where noise is
most of a row the values say nothing: such rows need a prior, see `moments`.

Only one thing is said of true counts: they are not negative. Where few of the possible transitions
occur, the least values are those where transitions that noise may hide, and that would raise them,
never occur, and the largest ones those where none occur that would lower them. So each end has the
noise of about half of the hidden counts only, and what was hidden makes the interval longer, not
wrong: a value rises with the count of a transition that leads to more than the value of its state,
whatever the other counts are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.temporal_difference import Floats, Ints

Kind = Literal["laplace", "gaussian"]
Marks = NDArray[np.bool_]

HIDDEN = 4.0
"""Noise alone may be all of a released count below so many of its deviations."""


@dataclass(frozen=True)
class NoisyCounts:
    """Released counts float64[K] of the cells int64[K, 2] of `states`, and their noise. A known sum
    of all is kept by each draw, and so by `counts`: what these miss is taken off all alike."""

    counts: Floats
    cells: Ints
    states: int
    scale: float
    """Of the noise; with `gaussian` its standard deviation."""
    kind: Kind
    total: float | None = None

    @classmethod
    def of(
        cls,
        released: Floats,
        cells: Ints,
        states: int,
        scale: float,
        kind: Kind,
        total: float | None,
    ) -> Self:
        """total: the sum of the true counts; None where it is not public."""
        missed = 0.0 if total is None else (total - float(released.sum())) / released.size
        return cls(released + missed, cells, states, scale, kind, total)

    @property
    def deviation(self) -> float:
        """Of the noise of one count."""
        return self.scale * (math.sqrt(2) if self.kind == "laplace" else 1.0)

    def rows(self, counts: Floats) -> Floats:
        """What leaves each state, of counts float64[…, K]: float64[…, states]."""
        origin, each = self.cells[:, 0], counts.reshape(-1, len(self.cells))
        found = [np.bincount(origin, some, minlength=self.states) for some in each]
        return np.array(found, dtype=np.float64).reshape(*counts.shape[:-1], self.states)

    def row_deviations(self) -> Floats:
        """Of the noise of each row's sum: float64[states]."""
        width = self.rows(np.ones(len(self.cells)))
        known = 0.0 if self.total is None else width / len(self.cells)
        return np.asarray(self.deviation * np.sqrt(width * (1 - known)))

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """What the true counts may have been: float64[draws, K]."""
        drawn = noise_of(self.kind, self.scale, (draws, len(self.cells)), rng)
        if self.total is not None:
            drawn -= drawn.mean(axis=1, keepdims=True)
        drawn += self.counts
        return drawn

    def hidden(self) -> Marks:
        """Which of the cells noise may hide: bool[K]."""
        return np.asarray(self.counts < HIDDEN * self.deviation)


def noise_of(kind: Kind, scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of such a mechanism, in whose units steps of the lattice do not matter."""
    return rng.laplace(0.0, scale, shape) if kind == "laplace" else rng.normal(0.0, scale, shape)


def gains(values: Floats, cells: Ints, discount: float, rewards: Floats | float) -> Floats:
    """How much more than the value of its state each transition leads to, float64[K], for values
    float64[states] and the rewards float64[K] of transitions where these are public, else 0."""
    after = np.append(values, 0.0)[cells[:, 1]]
    return np.asarray(rewards + discount * after - values[cells[:, 0]])


def range_of(least: float, most: float, discount: float) -> tuple[float, float]:
    """Between what all values lie, if a step's reward lies between `least` and `most`."""
    far = 1 - discount
    ends = (min(least, 0.0), max(most, 0.0))
    low, high = (end / far if far > 0 else math.inf * end if end else 0.0 for end in ends)
    return low, high

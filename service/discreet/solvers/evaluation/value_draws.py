"""Values of states for draws of the true histograms given the noised ones: post-processing of a
release.

The mean of the posterior (`count_posterior`) of visits, and of rewards given these, is a Markov
reward process; so is each draw of it. They are solved unchanged: no threshold, no pseudo-count, no
shrinkage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from discreet.solvers.evaluation.temporal_difference import Floats, Ints

Kind = Literal["laplace", "gaussian"]

SHARES = (np.arange(10) + 0.5) / 10
"""Possible shares w of states without any rewards, all equally likely."""
WIDTHS = np.array([1, 1 / 4, 1 / 16])
ODDS, LEAST = 300.0, 1e-300
"""Logarithms above this, and numbers below that, make no difference."""
ROOM = 2_000_000
"""The most entries of the matrices that are solved at once."""


def draw_rewards(
    noisy: Floats, bounds: Floats, scale: float, kind: Kind, rng: np.random.Generator
) -> Floats:
    """Draws float64[draws, states] of sums of rewards in ±`bounds` float64[draws, states], given
    the noised ones float64[states].

    In the prior, a sum is 0 with an unknown probability w, which all states share; otherwise it is
    uniform within one of `WIDTHS` times its bounds, each equally likely. `scale`: that of the
    noise, with `gaussian` its standard deviation.
    """
    widths, parts, odds, weight = _odds(noisy, bounds, scale, kind)
    chosen = (parts.cumsum(axis=0) < rng.random(bounds.shape)).sum(axis=0).clip(max=len(WIDTHS) - 1)
    drawn = _draw(noisy, np.take_along_axis(widths, chosen[None], axis=0)[0], scale, kind, rng)
    share = SHARES[
        (weight.cumsum(axis=1) < rng.random((len(weight), 1))).sum(axis=1).clip(max=SHARES.size - 1)
    ]
    none = share[:, None] / (share[:, None] + (1 - share[:, None]) * odds)
    return np.where(rng.random(drawn.shape) < none, 0.0, drawn)


def mean_rewards(noisy: Floats, bounds: Floats, scale: float, kind: Kind) -> Floats:
    """The mean float64[states] of such draws, for `bounds` float64[states]."""
    widths, parts, odds, weight = _odds(noisy, bounds[None], scale, kind)
    some = (1 - SHARES) * odds[:, :, None] / (SHARES + (1 - SHARES) * odds[:, :, None])
    means = (parts * _mean(noisy, widths, scale, kind)).sum(axis=0)
    return np.asarray(((some @ weight[:, :, None])[:, :, 0] * means)[0])


def _odds(
    noisy: Floats, bounds: Floats, scale: float, kind: Kind
) -> tuple[Floats, Floats, Floats, Floats]:
    """The bounds float64[widths, draws, states] of each width, and given the noised sums: the
    probability of each width; the odds float64[draws, states] against 0 for equal prior
    probabilities; the probability of each of `SHARES`, by draw."""
    widths = bounds * WIDTHS[:, None, None]
    logs = _log_mean(noisy, widths, scale, kind)
    zero = -np.abs(noisy / scale) if kind == "laplace" else -((noisy / scale) ** 2) / 2
    best = logs.max(axis=0)
    parts = np.exp(logs - best)
    whole = parts.sum(axis=0)
    odds = np.exp(np.clip(best - zero, -ODDS, ODDS)) * whole / len(WIDTHS)
    evidence = np.log(SHARES + (1 - SHARES) * odds[:, :, None]).sum(axis=1)
    weight = np.exp(evidence - evidence.max(axis=1, keepdims=True))
    return widths, parts / whole, odds, weight / weight.sum(axis=1, keepdims=True)


def _log_mean(middle: Floats, bounds: Floats, scale: float, kind: Kind) -> Floats:
    """The logarithm of the mean of exp(-|x - middle|/scale), or exp(-(x - middle)²/(2 scale²)),
    over x in ±bounds."""
    length = np.maximum(2 * bounds / scale, LEAST)
    if kind == "laplace":
        nearest = np.clip(middle, -bounds, bounds)
        both = -np.expm1(-(nearest + bounds) / scale) - np.expm1(-(bounds - nearest) / scale)
        mean = np.log(np.maximum(both, LEAST)) - np.abs(middle - nearest) / scale
    else:
        above, below = (log_ndtr((end - np.abs(middle)) / scale) for end in (bounds, -bounds))
        mean = (
            above
            + np.log(np.maximum(-np.expm1(below - above), LEAST))
            + 0.5 * math.log(2 * math.pi)
        )
    return np.asarray(mean - np.log(length))


def _mean(middle: Floats, bounds: Floats, scale: float, kind: Kind) -> Floats:
    """The mean of this noise about `middle`, truncated to ±bounds."""
    if kind == "laplace":
        nearest = np.clip(middle, -bounds, bounds)
        up, down = (bounds - nearest) / scale, (nearest + bounds) / scale
        above, below = -np.expm1(-up), -np.expm1(-down)
        moved = (above - up * np.exp(-up) - below + down * np.exp(-down)) / np.maximum(
            above + below, LEAST
        )
        return np.asarray(np.clip(nearest + scale * moved, -bounds, bounds))
    ends = [(end - np.abs(middle)) / scale for end in (bounds, -bounds)]
    above, below = (log_ndtr(end) for end in ends)
    size = above + np.log(np.maximum(-np.expm1(below - above), LEAST)) + 0.5 * math.log(2 * math.pi)
    high, low = (np.exp(np.minimum(-0.5 * end**2 - size, ODDS)) for end in ends)
    return np.asarray(
        np.where(middle < 0, -1.0, 1.0)
        * np.clip(np.abs(middle) + scale * (low - high), -bounds, bounds)
    )


def _draw(
    middle: Floats, bounds: Floats, scale: float, kind: Kind, rng: np.random.Generator
) -> Floats:
    """Draws of this noise about `middle`, truncated to ±bounds."""
    side, place = rng.random((2, *bounds.shape))
    if kind == "laplace":
        nearest = np.clip(middle, -bounds, bounds)
        left, right = -np.expm1(-(nearest + bounds) / scale), -np.expm1(-(bounds - nearest) / scale)
        lower = side * (left + right) < left
        away = -scale * np.log1p(-place * np.where(lower, left, right))
        return np.asarray(np.clip(nearest + np.where(lower, -away, away), -bounds, bounds))
    # Mirrored so that most of the interval lies below the middle: logarithms keep their precision
    # there.
    above, below = (log_ndtr((end - np.abs(middle)) / scale) for end in (bounds, -bounds))
    drawn = np.abs(middle) + scale * ndtri_exp(
        above + np.log(place + (1 - place) * np.exp(below - above))
    )
    return np.asarray(np.where(middle < 0, -1.0, 1.0) * np.clip(drawn, -bounds, bounds))


def batches(draws: int, states: int) -> int:
    """The number of batches in which this many draws are solved."""
    return math.ceil(draws / _together(states))


def _together(states: int) -> int:
    return max(1, ROOM // (states * (states + 1)))


class OwnRows(NamedTuple):
    """Rows of other counts, each for the value of its own state alone."""

    states: Ints
    """int64[W]: whose they are."""
    counts: Floats
    """float64[draws, K]: of these states' cells, and of others whatever."""
    rewards: Floats
    """As those of `draw_values`."""


def draw_values(
    counts: Floats,
    cells: Ints,
    states: int,
    discount: float,
    *,
    rewards: Floats,
    reward_bound: float,
    own: OwnRows | None = None,
    progress: Callable[[int], None] = lambda batch: None,
) -> Floats:
    """The values float64[draws, states] of the processes of `counts` float64[draws, K] of the cells
    int64[K, 2].

    rewards: float64[draws, states], sums in parts of `reward_bound` by state; or float64[K], the
    public reward of each cell. own: each of these states' values is that of the process in which
    its row alone is another. Counts may be negative; a state without any has the value 0.
    `progress` is called with 1, 2, … `batches`.
    """
    draws = len(counts)
    values = np.empty((draws, states))
    many = _together(states)
    each = np.empty(0, dtype=np.int64) if own is None else own.states

    def read(counts: Floats, rewards: Floats, some: slice) -> tuple[Floats, Floats]:
        """Counts float64[some, states, states + 1] and what they gained float64[some, states]."""
        onward = np.zeros((len(counts[some]), states, states + 1))
        onward[:, cells[:, 0], cells[:, 1]] = counts[some]
        if rewards.ndim == 2:
            return onward, reward_bound * rewards[some]
        worth = np.zeros((states, states + 1))
        worth[cells[:, 0], cells[:, 1]] = rewards
        return onward, np.einsum("dst,st->ds", onward, worth)

    for first in range(0, draws, many):
        some = slice(first, first + many)
        onward, gained = read(counts, rewards, some)
        visits = onward.sum(axis=2)
        known = np.where(visits != 0, visits, 1.0)
        A = np.eye(states) - discount * onward[:, :, :states] / known[:, :, None]
        right = np.zeros((len(A), states, 1 + each.size))
        right[:, :, 0] = gained / known
        right[:, each, 1 + np.arange(each.size)] = 1.0
        solved = np.linalg.solve(A, right)
        found, moved = solved[:, :, 0], solved[:, :, 1:]
        if own is not None:  # an update of rank one (Sherman and Morrison 1950) for each
            onward, gained = (one[:, each] for one in read(own.counts, own.rewards, some))
            places = np.arange(each.size)
            row = -discount * onward[:, :, :states]
            row[:, places, each] += onward.sum(axis=2)
            left = gained - np.einsum("dws,ds->dw", row, found)
            slope = np.einsum("dws,dsw->dw", row, moved)
            slope = np.where(slope != 0, slope, 1.0)  # of a row without counts
            found[:, each] += moved[:, each, places] * left / slope
        values[some] = found
        progress(first // many + 1)
    return values


# Value ends ---------------------------------------------------------------------------------------
# Draws of the ends of states' values, by the noise alone: post-processing of a release.
#
# A posterior of counts (`count_posterior`) is near all of them together, but it draws a count that
# is unlike the others towards them, and its intervals hold the values that such a count moves too
# seldom. Here no count tells of another. What was released less noise that is drawn anew is a draw
# of what the true counts may have been, whatever these are (a fiducial distribution; of the ratio
# of two counts its quantiles are the ends of Fieller 1954). Such counts may be negative, and where
# noise is most of a row the values say nothing: such rows need a prior, see `moments`.
#
# Only one thing is said of true counts: they are not negative. Where few of the possible
# transitions occur, the least values are those where transitions that noise may hide, and that
# would raise them, never occur, and the largest ones those where none occur that would lower them.
# So each end has the noise of about half of the hidden counts only, and what was hidden makes the
# interval longer, not wrong: a value rises with the count of a transition that leads to more than
# the value of its state, whatever the other counts are.

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

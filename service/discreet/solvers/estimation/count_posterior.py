"""The posterior of counts to which noise of a public distribution was added: moments and draws.

Cells are exchangeable: a true count is faint with probability w, else of a Gamma distribution; w,
its mean and its shape are unknown, and integrated over a grid by their marginal likelihood (a spike
and a slab, as in Johnstone & Silverman 2004, without choosing one of them). The grid has two
stages: a coarse one, then a fine one around the mode of the first.

Faint counts are all 0, or have a Gamma distribution of their own, whose mean and shape are unknown
too. Loads that nearly always stay in their state move now and then: each such count is lost in the
noise, but all of them together are not.

The noise is exactly that of the discrete mechanisms: on a lattice, P(z) is proportional to
exp(-|z|/scale) or exp(-z²/(2 scale²)), and the constant does not depend on the count.

Only released numbers are read, so nothing here costs any privacy. It is NOT for cells of very
different kinds (trips of origin-destination pairs), which have no common prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import expit, logit

from discreet.solvers.estimation.known_sums import Known, conditioned
from discreet.solvers.estimation.posterior_cells import FAINT, Cells, Floats, Ints, Kind, Point

MAX_CELLS = 50_000
"""The most cells. Apart from the draws, the work grows with the number of different values of the
cells, at most some 700."""
COARSE, FINE = (12, 6, 6), (7, 5, 5)
"""Points of mean, shape and w in the two stages."""
SHAPES, EMPTY = (0.15, 12.0), (0.02, 0.98)
NONE = 0.3
"""Prior probability that faint counts are all 0. With a larger one and little data, loads that
nearly always stay had intervals that were too narrow; with a smaller one, transitions that never
occur would be thought to."""
LEAST_MEAN = 1 / 16
"""Least mean of counts that are not 0, in scales of the noise."""
NEAR, GROUPED = 16.0, 0.03
"""Values beyond this many scales are in groups of 3 %, others in groups of 1/32 of a scale; the
posterior of the group is shifted."""
EVIDENT = 2e-3
"""Grid points with less than this fraction of the largest weight are left out."""


@dataclass(frozen=True)
class CountPosterior:
    """The posterior of true counts, each >= 0, given the noised ones: see `of`."""

    scale: float
    cells: Cells
    group: Ints
    """int64[cells]: the index of each cell's value among the different values."""
    moved: Floats
    """float64[cells]: how far the cell's value is above that one, in scales."""
    points: list[Point]
    weight: Floats
    """The weight of each point; they sum to 1."""

    @classmethod
    def of(
        cls,
        noisy: Floats,
        scale: float,
        kind: Kind,
        *,
        lattice: float = 0.0,
        least_mean: float = LEAST_MEAN,
    ) -> Self:
        """Given noised counts float64[cells].

        scale: that of the noise in the unit of the counts; with `gaussian` its standard deviation.
        lattice: true and noisy counts are multiples of it; so are the draws if the noise is not
        much wider, otherwise it does not matter. least_mean: of counts that are not 0, in scales;
        hundreds of cells that may all be 0 need a smaller one. ValueError for more than `MAX_CELLS`
        cells.
        """
        if noisy.size > MAX_CELLS:
            raise ValueError(f"at most {MAX_CELLS} cells, not {noisy.size}")
        values, group = _groups(noisy / scale, lattice / scale)
        cells = Cells.of(values, kind, lattice / scale)
        sizes = np.bincount(group, minlength=values.size).astype(np.float64)
        points, weight = _hyperparameters(cells, sizes, least_mean)
        return cls(
            scale, cells, group, noisy / scale - values[group], points, weight / weight.sum()
        )

    @cached_property
    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance float64[cells] of each count."""
        _, first, second = self._powers
        mean = np.where(first[self.group] > 0, np.maximum(first[self.group] + self.moved, 0.0), 0.0)
        return mean * self.scale, np.maximum(second - first**2, 0.0)[self.group] * self.scale**2

    @cached_property
    def filled_variance(self) -> Floats:
        """float64[cells]: the variance of each count if it is not 0."""
        filled, first, second = self._powers
        filled = np.maximum(filled, 1e-300)
        variance: Floats = np.maximum(second / filled - (first / filled) ** 2, 0.0)
        return variance[self.group] * self.scale**2

    @cached_property
    def _powers(self) -> Floats:
        """float64[3, values]: the means of (count > 0), of the count and of its square, in
        scales."""
        means, shapes, w, faint = (np.array(one) for one in zip(*self.points, strict=True))
        slabs, slab = np.unique(np.stack([means, shapes], axis=1), axis=0, return_inverse=True)
        faints, place = np.unique(faint, return_inverse=True)
        filled = self.cells.powers(slabs)  # [slabs, 3, values]
        some = np.zeros((faints.size, *filled.shape[1:]))
        some[faints > 0] = self.cells.powers(np.array(FAINT)[faints[faints > 0]])
        slab = slab.reshape(-1)
        least = np.where(faint[:, None] == 0, self.cells.empty, some[place, 0])
        mass = (1 - w)[:, None] * filled[slab, 0] + w[:, None] * least  # [points, values]
        share = self.weight[:, None] / np.maximum(mass, 1e-300)
        powers: Floats = np.zeros_like(filled[0])
        for parts, which, factor in ((filled, slab, 1 - w), (some, place, w)):
            chosen = which == np.arange(len(parts))[:, None]
            powers += ((chosen * factor) @ share * parts.transpose(1, 0, 2)).sum(axis=1)
        return powers

    def mean(self, known: Known | None = None) -> Floats:
        """float64[cells]: the mean of each count, conditioned on what is known as the mean of a
        normal posterior would be, and cut off at 0."""
        mean, variance = self.moments
        return mean if known is None else conditioned(mean[None], variance, known, None)[0]

    def draw(self, draws: int, rng: np.random.Generator, known: Known | None = None) -> Floats:
        """Counts float64[draws, cells], each draw conditioned on what is known."""
        # Systematic resampling: the number of draws of each point is proportional to its weight, to
        # within one.
        where = np.searchsorted(
            np.cumsum(self.weight)[:-1], (np.arange(draws) + rng.random()) / draws
        )
        counts = np.empty((draws, self.group.size))
        for point in np.unique(where):
            rows = np.flatnonzero(where == point)
            drawn = self.cells.draw(self.points[point], self.group, rows.size, rng)
            counts[rows] = np.where(drawn > 0, np.maximum(drawn + self.moved, 0.0), 0.0)
        counts *= self.scale
        return counts if known is None else conditioned(counts, self.filled_variance, known, rng)


@dataclass(frozen=True)
class GroupedPosterior:
    """Posteriors of groups of cells with separate priors, for kinds of cells that are hardly ever
    filled."""

    cells: list[Ints]
    parts: list[CountPosterior]

    @classmethod
    def of(
        cls, noisy: Floats, scale: float, kind: Kind, group: Ints, *, lattice: float = 0.0
    ) -> Self:
        """As `CountPosterior.of`; group: int64[cells], 1 for cells that may all be 0, otherwise
        0."""
        cells = [np.flatnonzero(group == each) for each in np.unique(group).tolist()]
        least = [LEAST_MEAN / (64 if group[own[0]] else 1) for own in cells]
        parts = [
            CountPosterior.of(noisy[own], scale, kind, lattice=lattice, least_mean=mean)
            for own, mean in zip(cells, least, strict=True)
        ]
        return cls(cells, parts)

    def mean(self, known: Known | None = None) -> Floats:
        """As that of `CountPosterior`."""
        mean, variance = self._moments
        return mean if known is None else conditioned(mean[None], variance, known, None)[0]

    def draw(self, draws: int, rng: np.random.Generator, known: Known | None = None) -> Floats:
        """As that of `CountPosterior`."""
        counts = np.empty((draws, sum(own.size for own in self.cells)))
        for own, part in zip(self.cells, self.parts, strict=True):
            counts[:, own] = rng.permutation(part.draw(draws, rng))
        if known is None:
            return counts
        variance = np.empty(counts.shape[1])
        for own, part in zip(self.cells, self.parts, strict=True):
            variance[own] = part.filled_variance
        return conditioned(counts, variance, known, rng)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        mean, variance = np.empty((2, sum(own.size for own in self.cells)))
        for own, part in zip(self.cells, self.parts, strict=True):
            mean[own], variance[own] = part.moments
        return mean, variance


def _groups(values: Floats, lattice: float) -> tuple[Floats, Ints]:
    """Representatives float64[groups] of the values, and the group of each."""
    size = np.abs(values)
    near = np.rint(values * 32) / 32
    far = (
        np.sign(values)
        * NEAR
        * np.exp(np.rint(np.log(np.maximum(size, NEAR) / NEAR) / GROUPED) * GROUPED)
    )
    grouped = np.where(size <= NEAR, near, far)
    if lattice > 1 / 32:
        grouped = np.where(size <= NEAR, values, np.rint(grouped / lattice) * lattice)
    found, group = np.unique(grouped, return_inverse=True)
    return found, group.reshape(-1)


def _hyperparameters(cells: Cells, size: Floats, least_mean: float) -> tuple[list[Point], Floats]:
    """Points (mean, shape, w, index in `FAINT`) and their weights, for values that `size` cells
    have each.

    The prior is uniform in the logarithms of mean and shape, in w, and over the entries of `FAINT`
    except the first, whose probability is `NONE`.
    """
    top = max(float(cells.values.max()), 1.0)
    spans = [
        (math.log(least_mean), math.log(2 * top)),
        (math.log(SHAPES[0]), math.log(SHAPES[1])),
        tuple(logit(EMPTY)),
    ]
    axes = [np.linspace(low, high, count) for (low, high), count in zip(spans, COARSE, strict=True)]
    faint = cells.faint()
    weight = _evidence(cells, size, axes, faint)
    for axis in range(3):
        share = weight.sum(axis=tuple(other for other in range(4) if other != axis))
        share /= share.sum()
        middle = float(share @ axes[axis])
        step = axes[axis][1] - axes[axis][0]
        wide = 2 * math.sqrt(float(share @ (axes[axis] - middle) ** 2) + step**2 / 4)
        low, high = (max(spans[axis][0], middle - wide), min(spans[axis][1], middle + wide))
        axes[axis] = np.linspace(low, high, FINE[axis])
    weight = _evidence(cells, size, axes, faint)
    grid = np.meshgrid(
        np.exp(axes[0]), np.exp(axes[1]), expit(axes[2]), np.arange(len(FAINT)), indexing="ij"
    )
    kept = weight > EVIDENT
    points = zip(*(axis[kept].tolist() for axis in grid), strict=True)
    return list(points), weight[kept]


def _evidence(cells: Cells, size: Floats, axes: list[Floats], faint: Floats) -> Floats:
    """Marginal likelihood of log mean, log shape and logit w on a grid, and of the entries of
    `FAINT`, relative to the largest: float64[means, shapes, w, places]."""
    means, w = np.exp(axes[0]), expit(axes[2])
    logs = np.empty((*(axis.size for axis in axes), len(FAINT)))
    lost = w[:, None] * faint[:, None, :]  # [values, w, places]
    for place, shape in enumerate(np.exp(axes[1]).tolist()):
        (filled,) = cells.sums(means, shape)  # [values, means]
        for mean in range(means.size):
            mixed = lost + (1 - w[:, None]) * filled[:, mean, None, None]
            np.log(np.maximum(mixed, 1e-300, out=mixed), out=mixed)
            logs[mean, place] = (size @ mixed.reshape(size.size, -1)).reshape(mixed.shape[1:])
    logs += np.log(w * (1 - w))[:, None]  # uniform in w, not in its logit
    logs[..., 0] += math.log(NONE / (1 - NONE) * (len(FAINT) - 1))
    evidence: Floats = np.exp(logs - logs.max())
    return evidence

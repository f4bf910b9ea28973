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
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammainc, gammaln, logit, ndtr, ndtri

# Posterior cells ----------------------------------------------------------------------------------
# Posteriors of single counts under noise, by the noised value: sums, powers, draws.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["laplace", "gaussian"]
Point = tuple[float, float, float, int]
"""Mean and shape of the counts that are not faint, w, and the index in `FAINT` for faint counts."""
REACH = {"laplace": 16.0, "gaussian": 7.0}
"""Noise beyond this many scales has a probability of 1e-7 and 3e-12."""
PIECES = 160
"""Most pieces of the range of one count, for lattices that are finer."""
FAINT = [(0.0, 1.0), *((0.1 * 2.0**power, shape) for shape in (0.3, 1.0) for power in range(8))]
"""Mean, in scales of the noise, and shape of faint counts; the first entry means that all are 0."""
GUIDES = 256
"""Number of parts of [0, 1] in the look-up tables for many draws."""


@dataclass(frozen=True)
class Cells:
    """The possible counts of each noisy value, in scales of the noise: float64[values, places]."""

    values: Floats
    places: Floats
    edges: Floats
    """float64[values, places + 1]: a place stands for the counts between two consecutive edges."""
    likelihood: Floats
    """Likelihood of each place, and in `empty` of a count of 0, relative to the largest for its
    value."""
    empty: Floats
    discrete: bool
    kept: dict[tuple[float, float], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Floats, kind: Kind, lattice: float) -> Cells:
        reach = REACH[kind]
        discrete = lattice > 2 * reach / PIECES
        if discrete:
            beyond = max(2, math.ceil(reach / lattice))
            first = np.maximum(np.rint(values / lattice) - beyond, 0)
            places = lattice * (first[:, None] + np.arange(2 * beyond + 1))
            ends = np.concatenate([places - lattice / 2, places[:, -1:] + lattice / 2], axis=1)
            edges = np.maximum(ends, 0.0)
        else:
            low = np.maximum(values - reach, 0.0)
            high = np.where(low == 0, 2 * reach, values + reach)
            # Near 0 the result may depend on small differences.
            power = np.where(low == 0, 3.0, 1.0)[:, None]
            edges = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, PIECES + 1) ** power
            places = (edges[:, 1:] + edges[:, :-1]) / 2
        logs = log_noise(
            values[:, None] - np.concatenate([np.zeros((values.size, 1)), places], axis=1), kind
        )
        likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
        return cls(values, places, edges, likelihood[:, 1:], likelihood[:, 0], discrete)

    def filled(self, means: Floats, shape: float) -> Floats:
        """Likelihood times prior of each place, if the count is not 0: float64[values, places,
        means].

        The prior is exact on a lattice and for values near 0, which share their pieces. For other
        values a piece has the integral of x^(shape - 1) times the exponential at its midpoint.
        """
        rate = shape / means
        if self.discrete:
            ends, place = np.unique(self.edges, return_inverse=True)
            below = gammainc(shape, ends[:, None] * rate)[place.reshape(self.edges.shape)]
            return self.likelihood[:, :, None] * np.diff(below, axis=1)
        near = self.edges[:, 0] == 0
        mass = np.empty((*self.places.shape, means.size))
        if near.any():
            mass[near] = np.diff(gammainc(shape, self.edges[near][0][:, None] * rate), axis=0)
        factor = np.exp(shape * np.log(rate) - gammaln(shape))
        powers = np.diff(self.edges[~near] ** shape, axis=1)[:, :, None] / shape
        mass[~near] = powers * np.exp(-self.places[~near][:, :, None] * rate) * factor
        return self.likelihood[:, :, None] * mass

    def sums(self, means: Floats, shape: float, orders: int = 1) -> Floats:
        """Sums over the places of `filled` times their powers 0, 1, …: float64[orders, values,
        means].

        These are products of matrices: values near 0 share their pieces, and pieces of other values
        begin elsewhere but have the same widths, so that the exponential is a product of that at
        the beginning and that of the offset.
        """
        if self.discrete:
            filled = self.filled(means, shape)
            return np.stack(
                [np.einsum("vp,vpm->vm", self.places**order, filled) for order in range(orders)]
            )
        rate = shape / means
        near = self.edges[:, 0] == 0
        sums = np.empty((orders, self.values.size, means.size))
        if near.any():
            prior = np.diff(gammainc(shape, self.edges[near][0][:, None] * rate), axis=0)
            for order in range(orders):
                sums[order, near] = (self.likelihood[near] * self.places[near] ** order) @ prior
        if not near.all():
            edges, places = self.edges[~near], self.places[~near]
            begin = np.exp(-edges[:, :1] * rate + shape * np.log(rate) - gammaln(shape))
            way = np.exp(-(places[0] - edges[0, 0])[:, None] * rate)
            each = self.likelihood[~near] * np.diff(edges**shape, axis=1) / shape
            for order in range(orders):
                sums[order, ~near] = (each * places**order) @ way * begin
        return sums

    def faint(self) -> Floats:
        """Likelihood of a faint count, for each of `FAINT`: float64[values, places]."""
        return np.concatenate(
            [self.empty[:, None], self.powers(np.array(FAINT[1:]), 1)[:, 0].T], axis=1
        )

    def _slab(self, mean: float, shape: float) -> Floats:
        """`filled` for one mean, cached for other points with the same mean: float64[values,
        places]."""
        if (mean, shape) not in self.kept:
            self.kept[mean, shape] = self.filled(np.array([mean]), shape)[:, :, 0]
        return self.kept[mean, shape]

    def powers(self, slabs: Floats, orders: int = 3) -> Floats:
        """`sums` of priors float64[slabs, 2], mean and shape: float64[slabs, orders, values]."""
        found = np.empty((len(slabs), orders, self.values.size))
        for shape in np.unique(slabs[:, 1]).tolist():
            own = slabs[:, 1] == shape
            found[own] = self.sums(slabs[own, 0], shape, orders).transpose(2, 0, 1)
        return found

    def mass(self, point: Point) -> Floats:
        """float64[values, 1 + places]: the posterior of 0 and of each place at one point of the
        hyperparameters."""
        mean, shape, w, faint = point
        filled = (1 - w) * self._slab(mean, shape)
        if faint > 0:
            filled = filled + w * self._slab(*FAINT[faint])
        mass = np.concatenate([(0.0 if faint > 0 else w) * self.empty[:, None], filled], axis=1)
        normalized: Floats = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
        return normalized

    def draw(self, point: Point, group: Ints, size: int, rng: np.random.Generator) -> Floats:
        """float64[size, cells]: counts of the posterior at one point of the hyperparameters."""
        cumulated = np.cumsum(self.mass(point), axis=1)
        found = _searched(cumulated, rng.random((size, group.size)), group)
        place = np.clip(found - 1, 0, self.places.shape[1] - 1)
        if self.discrete:
            drawn = self.places[group, place]
        else:
            low, high = self.edges[group, place], self.edges[group, place + 1]
            drawn = low + (high - low) * rng.random(place.shape)
        return np.where(found <= 0, 0.0, drawn)


def _searched(cumulated: Floats, u: Floats, group: Ints) -> Ints:
    """`searchsorted(cumulated[group[c]], u[:, c])` of every c: int64[draws, cells]."""
    # One search for all: the distribution of value g is shifted to [g, g + 1].
    ends, sought = (cumulated + np.arange(len(cumulated))[:, None]).ravel(), u + group
    if u.size < 4 * GUIDES * len(cumulated):
        found = np.searchsorted(ends, sought).ravel()
    # from where the table says that this part of [0, 1] begins, a few steps further (Chen and Asau
    # 1974)
    else:
        starts = np.arange(GUIDES) / GUIDES + np.arange(len(cumulated))[:, None]
        found = np.searchsorted(ends, starts)[group, (u * GUIDES).astype(np.int64)].ravel()
        ends, sought = np.append(ends, np.inf), sought.ravel()
        left = np.flatnonzero(ends[found] < sought)
        while left.size:
            found[left] += 1
            left = left[ends[found[left]] < sought[left]]
    places: Ints = found.reshape(u.shape) - cumulated.shape[1] * group
    return places


def log_noise(noise: Floats, kind: Kind) -> Floats:
    return -np.abs(noise) if kind == "laplace" else -0.5 * noise**2


# Count posterior ----------------------------------------------------------------------------------

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


# Share ends ---------------------------------------------------------------------------------------
# Intervals of a count's share of its row, by the noise alone: post-processing of a release.
#
# A posterior of counts (`count_posterior`) draws a count that is unlike the others towards them,
# and its intervals hold such a count too seldom. Here no count tells of another. If p is the share
# of a count x in the sum of its row, then (1 - p) x - p (the others) is 0, so the same of the
# noised counts is noise alone, of a distribution that follows from p; the interval holds every p
# for which that noise is not too large (Fieller 1954, "Some problems in interval estimation", with
# the exact noise in place of a normal one). So each interval holds its share as often as it says,
# whatever the counts are, also where none was counted and shares are nothing but a convention. That
# is of all releases: no rule can promise the same of those releases alone in which noise happens to
# say something of a row in which nothing was counted (Gleser & Hwang 1987).
#
# Tails of sums of Laplace noise are those of Lugannani & Rice (1980), within 3 % of the exact ones.

WEAK = 5.0
"""A row is weak that is not so many deviations of its noise: noise may choose what it says."""
TAIL, WEAK_TAIL = 0.045, 0.002
"""Probabilities that the noise is larger than either end allows. Those of weak rows are small, as
their ends differ from the whole range most often where noise is large: of the intervals that are
not the whole range, nine in ten are to hold too."""
STEPS = 256
_PLACES = np.linspace(0, 1, STEPS + 1)
SHARES: Floats = _PLACES**2 * (3 - 2 * _PLACES)
"""Shares that are tried, closer together near 0 and 1."""


class RowShares(NamedTuple):
    """The share of each count in its row, float64[cells], as it is answered, and its interval."""

    answer: Floats
    lower: Floats
    upper: Floats
    weak: NDArray[np.bool_]
    """bool[rows]: those of which noise may choose what they say."""


def share_ends(
    counts: Floats, rows: Ints, width: Ints, scale: float, kind: Kind, lattice: float = 0.0
) -> tuple[Floats, Floats]:
    """The least and the largest share float64[cells] of each noised count float64[cells] in its
    row; 0 and 1 where nothing is known.

    rows: int64[cells], the row of each cell; width: int64[rows], how many it has. `scale`: that of
    the noise; with `gaussian` its standard deviation. `lattice`: what noise is a multiple of; half
    of it is allowed besides, without which shares were missed .12 times where it is a deviation.
    """
    lower, upper = np.zeros(counts.size), np.ones(counts.size)
    sums: Floats = np.bincount(rows, counts, minlength=width.size).astype(np.float64)
    weak = weak_rows(sums, width, scale, kind)
    for number in np.unique(width).tolist():
        for tail, some in ((WEAK_TAIL, weak), (TAIL, ~weak)):
            (cells,) = np.nonzero(some[rows] & (width[rows] == number))
            if cells.size and number > 1:
                step = lattice * np.maximum(1 - SHARES, SHARES)
                allowed = scale * _quantiles(number, tail, kind) + step / 2
                own, all_of = counts[cells, None], sums[rows[cells], None]
                # A count below 0 is taken for 0, and one above its row's sum for that: the interval
                # is wider so, and never empty, which would say "not known" of a large row's.
                below = np.minimum(own, all_of) - SHARES * all_of - allowed
                lower[cells] = _first(below, SHARES)
                above = (SHARES * all_of - np.maximum(own, 0.0) - allowed)[:, ::-1]
                upper[cells] = 1 - _first(above, 1 - SHARES[::-1])
    known = width[rows] == 1
    lower[known] = 1.0
    return np.minimum(lower, upper), np.maximum(lower, upper)


def weak_rows(sums: Floats, width: Ints, scale: float, kind: Kind) -> NDArray[np.bool_]:
    """bool[rows]: of more than one cell, and not `WEAK` deviations of the noise of their sum."""
    deviation = scale * (2**0.5 if kind == "laplace" else 1.0)
    weak: NDArray[np.bool_] = (width > 1) & (sums < WEAK * deviation * np.sqrt(width))
    return weak


def _first(excess: Floats, at: Floats) -> Floats:
    """Where each row of `excess` float64[rows, places] is first at most 0, between the places;
    0 if it never is."""
    held = excess <= 0
    place = held.argmax(axis=1)
    before, each = np.maximum(place - 1, 0), np.arange(len(excess))
    high, low = excess[each, before], excess[each, place]
    part = np.where(place > 0, high / np.where(high > low, high - low, 1.0), 0.0)
    found = at[before] + np.clip(part, 0.0, 1.0) * (at[place] - at[before])
    return np.where(held.any(axis=1), found, 0.0)


@lru_cache(maxsize=256)
def _quantiles(width: int, tail: float, kind: Kind) -> Floats:
    """What (1 - p) n - p (width - 1 others) of noise of scale 1 exceeds with probability `tail`:
    float64[places], for each p of `SHARES`."""
    others = width - 1
    if kind == "gaussian":
        found: Floats = -ndtri(tail) * np.sqrt((1 - SHARES) ** 2 + others * SHARES**2)
        return found
    p, many = SHARES[:, None], np.geomspace(1e-3, 1, 400)
    largest = np.maximum(1 - p, p)
    s = (1 - np.geomspace(1, 1e-6, 400)) / largest
    s[:, 0] = many[0] * 1e-3 / largest[:, 0]
    a, b = ((factor * s) ** 2 for factor in (1 - p, p))
    cumulant = -np.log1p(-a) - others * np.log1p(-b)
    slope = 2 * ((1 - p) ** 2 / (1 - a) + others * p**2 / (1 - b))  # K'(s) / s
    curve = 2 * ((1 - p) ** 2 * (1 + a) / (1 - a) ** 2 + others * p**2 * (1 + b) / (1 - b) ** 2)
    x = s * slope
    w = np.sqrt(np.maximum(2 * (s * x - cumulant), 1e-300))
    u = s * np.sqrt(curve)
    beyond = ndtr(-w) + np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi) * (1 / u - 1 / w)
    return np.array(
        [
            np.interp(-np.log(tail), -np.log(np.maximum(one, 1e-300)), place)
            for one, place in zip(beyond, x, strict=True)
        ]
    )


# Known sums ---------------------------------------------------------------------------------------
# Known sums of counts, and draws of the counts conditioned on them.

MOST_CONDITIONED = 2_000_000
"""The most numbers, draws times weights of cells, of the draws that are conditioned together."""
REPAIRS = 8
"""Rounds that compensate for cutting off at 0."""


@dataclass(frozen=True)
class Known:
    """Known linear functions of the counts: `weights` @ counts is `target`, up to a normal error.

    weights: float64[k, cells]; target, deviation: float64[k]; a deviation of 0 for an exactly known
    value.
    """

    weights: Floats
    target: Floats
    deviation: Floats


def conditioned(
    counts: Floats, variance: Floats, known: Known, rng: np.random.Generator | None
) -> Floats:
    """Draws conditioned on what is known, each cell that is not 0 in proportion to its variance
    (conditioning by kriging).

    Without `rng` the counts are means, and so is the result.
    """
    target = np.broadcast_to(known.target, (len(counts), known.target.size))
    if rng is not None:
        target = target + known.deviation * rng.standard_normal(target.shape)
    some = max(1, MOST_CONDITIONED // known.weights.size)
    parts = [slice(first, first + some) for first in range(0, len(counts), some)]
    return np.concatenate([_met(counts[part], variance, known, target[part]) for part in parts])


def _met(counts: Floats, variance: Floats, known: Known, target: Floats) -> Floats:
    """`conditioned` of a few draws, each with its own target: float64[draws, cells]."""
    A = known.weights
    spread = np.where(counts > 0, variance, 0.0)[:, None] * A
    covariance = np.matmul(spread, A.T)
    # If all counts of a draw are 0, nothing can be adjusted: only the ridge is left, far below a
    # count.
    ridge = (
        1e-9
        * (np.trace(covariance, axis1=1, axis2=2)[:, None, None] + 1e-3)
        * np.eye(target.shape[-1])
    )
    missing = np.linalg.solve(
        covariance + np.diag(known.deviation**2) + ridge, (target - counts @ A.T)[..., None]
    )
    counts = counts + np.matmul(missing.mT, spread)[:, 0]
    met = counts @ A.T
    counts = np.maximum(counts, 0.0)
    for _ in range(REPAIRS):  # what was cut off at 0 is compensated elsewhere
        missing = np.linalg.solve(covariance + ridge, (met - counts @ A.T)[..., None])
        counts = np.maximum(counts + np.matmul(missing.mT, spread)[:, 0], 0.0)
    return counts

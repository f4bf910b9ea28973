"""Posteriors of single counts under noise, by the noised value: sums, powers, draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaln

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

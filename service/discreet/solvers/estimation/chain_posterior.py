"""Draws of the transition counts behind noised ones, where states are in order and blocks are
alike.

Each count has a Gamma prior whose mean is of its own: the time spent in its state, times the share
of the move. Shares come from coarse to fine: a kernel of distance (a load stays, moves near, or
anywhere), then all blocks together around the kernel, then each block around all of them. Kernel
and shapes are chosen by marginal likelihood; the time spent in states comes in the same way from
the row sums. So a row of which noise leaves little takes after its neighbours, where
`count_posterior`, whose cells are exchangeable, believes what the noise suggests. It is NOT for
states without order that move far: no prior rules that out, and draws of both posteriors are asked
(`worlds`).

Empirical Bayes (Robbins 1956; Gelman et al. 2013, 5.3). Only released numbers are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from discreet.solvers.estimation.count_posterior import REACH, Kind, log_noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PIECES = 48
"""Of the range of one count."""
SHAPES = (0.1, 0.25, 0.6, 1.5, 4.0, 12.0)
STAY = (0.0, 0.25, 0.5, 0.7, 0.85, 0.95)
REACHES = tuple(product((0.5, 1.0, 2.0), (1, 2)))
TAIL = (1e-4, 1e-2, 0.1, 0.4, 1.0)
PULL = (0.0, 0.5, 1.0)
"""The kernel: the probability of staying, the distance by which moves to neighbours fade and its
power, the share of moves that go anywhere, and the power of the time spent in states that draws
moves there: with .5 as many go there as come back (detailed balance)."""
LEAST_STAY = 1e-3
LEAST_MEAN = 1e-3
"""Of a count, in scales of the noise."""
SCENARIOS = 20
"""Kernels and row sums drawn; draws of the counts are divided among them."""


@dataclass(frozen=True)
class Moves:
    """Where counts belong: float64[blocks · cells], cell c of a block from state `origin[c]` to
    `to[c]`."""

    blocks: int
    states: int
    origin: Ints
    to: Ints

    @property
    def kinds(self) -> list[NDArray[np.bool_]]:
        """bool[cells]: those of loads that stay, and those of loads that move. Shapes are of each
        kind."""
        stays = self.origin == self.to
        return [kind for kind in (stays, ~stays) if kind.any()]

    def row_sums(self, counts: Floats) -> Floats:
        """float64[..., blocks, states]."""
        starts = np.flatnonzero(np.diff(self.origin, prepend=-1))
        return np.add.reduceat(self.apart(counts), starts, axis=-1)

    def apart(self, counts: Floats) -> Floats:
        """float64[..., blocks, cells]."""
        return counts.reshape(*counts.shape[:-1], self.blocks, self.origin.size)

    def kernel(self, stay: float, reach: float, tail: float) -> Floats:
        """float64[cells]: the probabilities of the moves of a load that stays with probability
        `stay`, and else moves to a state nearby, the less likely the farther by `reach`, or with
        probability `tail` anywhere."""
        found: Floats = self.kernels(np.array([stay]), reach, tail)[0]
        return found

    def kernels(
        self,
        stay: Floats,
        reach: float,
        tail: float,
        time: Floats | None = None,
        pull: float = 0.0,
        power: int = 1,
    ) -> Floats:
        """float64[stay, cells]: those of each `stay`, if states draw moves by a power of the `time`
        float64[states] that is spent there."""
        starts = np.flatnonzero(np.diff(self.origin, prepend=-1))
        away = np.abs(self.to - self.origin).astype(np.float64)
        moved = np.zeros(away.size)
        for part, weight in (
            (np.exp(-(((away - 1) / reach) ** power)), 1 - tail),
            (np.ones(away.size), tail),
        ):
            part[away == 0] = 0.0
            moved += weight * part / np.maximum(np.add.reduceat(part, starts), 1e-300)[self.origin]
        if time is not None:
            moved *= (time[self.to] / time[self.origin]) ** pull
        found = np.where(
            away > 0, (1 - stay[:, None]) * moved, np.maximum(stay[:, None], LEAST_STAY)
        )
        normalized: Floats = found / np.add.reduceat(found, starts, axis=1)[:, self.origin]
        return normalized


def draw_counts(
    noisy: Floats,
    scale: float,
    kind: Kind,
    moves: Moves,
    draws: int,
    rng: np.random.Generator,
    *,
    totals: Floats | None = None,
) -> Floats:
    """Counts float64[draws, blocks · cells] that may lie behind the noised ones.

    scale: of the noise of a count, as of `CountPosterior.of`. totals: float64[blocks], the sum of
    all counts of each block where that is public.
    """
    z = moves.apart(noisy) / scale
    sd = math.sqrt(2) if kind == "laplace" else 1.0
    width = np.bincount(moves.origin, minlength=moves.states)
    sums = moves.row_sums(noisy) / scale
    known = None if totals is None else totals / scale
    whole = float(max(sums.sum(), 1.0) if known is None else known.sum())
    share = np.maximum(sums.sum(axis=1), 0.1) if known is None else known
    share = share / share.sum()
    blocks = moves.blocks
    # The time in each state: over all blocks, then in each.
    every = _Cells.of(sums.sum(axis=0) / (sd * np.sqrt(width * blocks)), "gaussian")
    unit = sd * np.sqrt(width * blocks)
    mean = np.full(moves.states, whole / moves.states)
    time = every.draw(mean / unit, SCENARIOS, rng) * unit
    time *= whole / np.maximum(time.sum(axis=1, keepdims=True), 1e-300)
    rows = time[:, None, :]
    if blocks > 1:
        unit = np.tile(sd * np.sqrt(width), blocks)
        cells = _Cells.of(sums.ravel() / unit, "gaussian")
        mean = (share[:, None] * time[:, None, :]).reshape(SCENARIOS, -1)
        rows = (cells.draw(mean / unit, 1, rng) * unit).reshape(SCENARIOS, blocks, -1)
    rows = np.maximum(rows, 1e-6)
    rows = rows * (whole * share)[None, :, None] / rows.sum(axis=2, keepdims=True)
    # Shares of moves: a kernel, all blocks, each block.
    middle = rows.mean(axis=0)
    kernels, weight = _kernels(moves, z.sum(axis=0), sd**2 * blocks, middle.sum(axis=0))
    shares = kernels[rng.choice(len(kernels), SCENARIOS, p=weight)]
    if blocks > 1:
        wide = sd * math.sqrt(blocks)
        mean = rows.sum(axis=1)[:, moves.origin] * shares / wide
        found = np.empty_like(mean)
        for own in moves.kinds:
            cells = _Cells.of(z.sum(axis=0)[own] / wide, "gaussian")
            found[:, own] = cells.means(mean[:, own], rng)
        starts = np.flatnonzero(np.diff(moves.origin, prepend=-1))
        shares = found / np.add.reduceat(found, starts, axis=1)[:, moves.origin]
    mean = (rows[:, :, moves.origin] * shares[:, None, :]).reshape(SCENARIOS, -1)
    each = -(-draws // SCENARIOS)
    counts = np.empty((SCENARIOS * each, z.size))
    for kind_of in moves.kinds:
        own = np.tile(kind_of, blocks)
        counts[:, own] = _Cells.of(z.ravel()[own], kind).draw(mean[:, own], each, rng)
    return counts[rng.permutation(len(counts))[:draws]] * scale


def _kernels(moves: Moves, z: Floats, variance: float, time: Floats) -> tuple[Floats, Floats]:
    """Kernels float64[kernels, cells] and their weights: marginal likelihoods of all blocks'
    counts, taken for normal, with the best shape of each."""
    shapes = np.array(SHAPES)[:, None]
    popular = np.maximum(time, 1e-4 * time.sum())
    kernels = np.concatenate(
        [
            moves.kernels(np.array(STAY), reach, tail, popular, pull, power)
            for (reach, power), tail, pull in product(REACHES, TAIL, PULL)
        ]
    )
    logs = np.empty(len(kernels))
    for place, kernel in enumerate(kernels):
        mean = time[moves.origin] * kernel
        spread = variance + mean**2 / shapes
        logs[place] = -0.5 * ((z - mean) ** 2 / spread + np.log(spread)).sum(axis=1).min()
    weight = np.exp(logs - logs.max())
    some = weight > 1e-3
    return kernels[some], weight[some] / weight[some].sum()


@dataclass(frozen=True)
class _Cells:
    """Places of each count, in scales of its noise, and their likelihood: float64[values,
    PIECES]."""

    places: Floats
    edges: Floats
    likelihood: Floats

    @classmethod
    def of(cls, values: Floats, kind: Kind) -> _Cells:
        reach = REACH[kind]
        low = np.maximum(values - reach, 0.0)
        high = np.where(low == 0, 2 * reach, values + reach)
        power = np.where(low == 0, 3.0, 1.0)[:, None]
        pieces = np.linspace(0, 1, PIECES + 1)
        edges = low[:, None] + (high - low)[:, None] * pieces**power
        places = (edges[:, 1:] + edges[:, :-1]) / 2
        logs = log_noise(values[:, None] - places, kind)
        return cls(places, edges, np.exp(logs - logs.max(axis=1, keepdims=True)))

    def draw(self, means: Floats, each: int, rng: np.random.Generator) -> Floats:
        """Counts float64[scenarios · each, values], of prior means float64[values] or [scenarios,
        values]; the shape of each is drawn by its marginal likelihood."""
        means = np.atleast_2d(means)
        shapes = self._shapes(means.mean(axis=0), len(means), rng)
        found = np.empty((len(means), each, means.shape[1]))
        for scenario, (mean, shape) in enumerate(zip(means, shapes, strict=True)):
            cumulated = np.cumsum(self._mass(mean, shape), axis=1)
            cumulated /= np.maximum(cumulated[:, -1:], 1e-300)
            for one in range(each):
                u = rng.random((means.shape[1],))
                piece = np.minimum((cumulated < u[:, None]).sum(axis=1), PIECES - 1)[:, None]
                low, high = (
                    np.take_along_axis(self.edges, piece + more, axis=1)[:, 0] for more in (0, 1)
                )
                found[scenario, one] = low + (high - low) * rng.random(low.size)
        return found.reshape(-1, means.shape[1])

    def means(self, means: Floats, rng: np.random.Generator) -> Floats:
        """The posterior means float64[scenarios, values] of prior means of that shape."""
        shapes = self._shapes(means.mean(axis=0), len(means), rng)
        found = np.empty_like(means)
        for scenario, (mean, shape) in enumerate(zip(means, shapes, strict=True)):
            mass = self._mass(mean, shape)
            found[scenario] = (mass * self.places).sum(axis=1) / np.maximum(
                mass.sum(axis=1), 1e-300
            )
        return found

    def _shapes(self, mean: Floats, draws: int, rng: np.random.Generator) -> Floats:
        logs = np.array(
            [
                np.log(np.maximum(self._mass(mean, shape).sum(axis=1), 1e-300)).sum()
                for shape in SHAPES
            ]
        )
        weight = np.exp(logs - logs.max())
        return rng.choice(np.array(SHAPES), draws, p=weight / weight.sum())

    def _mass(self, mean: Floats, shape: float) -> Floats:
        """float64[values, PIECES]: likelihood times prior."""
        rate = (shape / np.maximum(mean, LEAST_MEAN))[:, None]
        prior = np.diff(self.edges**shape, axis=1) / shape * np.exp(-rate * self.places)
        found: Floats = self.likelihood * prior * np.exp(shape * np.log(rate) - gammaln(shape))
        return found

"""From a release to transition matrices: the answer, and others that may lie behind the same
release.

Counts are answered by the mean of their posterior (`solvers.estimation`), which half a dozen
families of chains showed nearer to the truth than counts shrunk by a threshold, at every price; so
were the loads, savings and policies made of it. The release of a Dirichlet draw is its own answer.
"""

from __future__ import annotations

import math
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.problems.contents import Released
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Floats, Ints
from discreet.problems.plans import Plan
from discreet.solvers.control.shrinkage import shrink
from discreet.solvers.estimation.chain_posterior import Moves, draw_counts
from discreet.solvers.estimation.count_posterior import (
    GroupedPosterior,
    Kind,
    Known,
    RowShares,
    conditioned,
    share_ends,
    weak_rows,
)

MAX_CELLS = 10_000
"""Transitions of the support beyond which counts are shrunk instead, and no interval is given."""
LEAST_DRAWS = 50
"""Of fewer no intervals are made."""
MOST_OPERATIONS = 4_000_000_000
"""Of meeting the balance in all draws; larger supports get fewer draws."""
NEAR, LEAST_GROUP = 2, 50
"""States are bins of power in order: moves by more than two are another kind of cells, where there
are enough."""
LARGEST_SHARE = 0.7
"""Above, the answer is mostly noise: intervals do not hold what they should any more."""
HIDDEN, PART = 3.0, 1.0
"""Noise may be all of a count below so many of its deviations; what it is of one, where loads are
moved one way: with 1.7 loads are covered no more often, and intervals are a fifth wider."""
HOPELESS = 7.0
"""Above, nearly all that was counted may be noise to a posterior: the counts are shrunk, which errs
less then."""
LAZY_STEPS = 1000


class Estimate(ABC):
    """What a release says of the transition matrix; of a dataset with a `day` of the matrices of
    its blocks.

    Matrices are float64[n, n] and visits float64[n] then, or float64[blocks, n, n] and
    float64[blocks, n]; rows are counted block by block.
    """

    public: DrEnsemblePublic

    @property
    @abstractmethod
    def transitions(self) -> Floats:
        """The answer: rows sum to 1."""

    @property
    @abstractmethod
    def visits(self) -> Floats:
        """How the time is spread over the states, in each block: `initial: "released"`."""

    @abstractmethod
    def draw(self, draws: int) -> tuple[Floats, Floats] | None:
        """As many matrices and visits that may lie behind the release, an axis more in front, the
        same for the same release. None where none can be had."""

    def near(self, draws: int) -> tuple[Floats, Floats] | None:
        """As `draw`, of loads that stay or move to states nearby more likely than far, in blocks
        that are alike."""
        return None

    def bare(self, order: Floats) -> tuple[Floats, Floats]:
        """Transitions and visits, an axis more in front, if no load ever made moves that noise may
        hide: any that noise may be all of; any but to the next states; any, in part; those to
        states earlier in the `order` float64[n]; those to later ones."""
        return self.transitions[None], self.visits[None]

    def barest(self) -> Floats:
        """The transitions if no load ever made a move that may be noise alone."""
        return self.transitions

    def row_shares(self) -> RowShares | None:
        """What noise leaves open of the row of each move; None where that is not known."""
        return None

    @abstractmethod
    def noise_dominates(self) -> NDArray[np.bool_]:
        """bool[rows]: those that are mostly noise."""

    def row_noise(self) -> Floats:
        """float64[rows]: of each row, the deviation of its noise over its sum, at most 1."""
        return self.noise_dominates().astype(np.float64)

    @property
    @abstractmethod
    def share(self) -> float:
        """Of the noise in what the answer is made of: its mean size, of all numbers together, over
        their sum."""

    @property
    def participants(self) -> float | None:
        """About how many there are; None where what was released counts none."""
        return None

    @property
    def mostly_noise(self) -> bool:
        """Whether the answer as a whole is."""
        return self.share > LARGEST_SHARE


@dataclass(frozen=True)
class NoisyCounts(Estimate):
    """Released counts of the transitions of the support."""

    public: DrEnsemblePublic
    deviation: float
    """Of the noise of a count, in participants."""
    counts: Floats
    """float64[cells], >= 0: those of the answer, in participants."""
    posterior: GroupedPosterior | None = None
    known: Known | None = None
    noisy: Floats | None = None
    """float64[cells]: as they were released; with a posterior."""
    scale: float = 0.0
    kind: Kind = "laplace"
    lattice: float = 0.0
    """What released counts are multiples of, in participants."""
    total: float | None = None
    """Of all true counts, where that is public."""
    seed: int = 0
    """Of draws, from the release: the same of one version of NumPy, which certificates name (NEP
    19)."""

    @classmethod
    def of(cls, public: DrEnsemblePublic, plan: Plan, released: Released) -> NoisyCounts:
        (event,), grid = plan.events, plan.parameters["grid"]
        noisy, deviation = released["counts"] / grid, event.deviation() / grid
        if noisy.size > MAX_CELLS:
            return cls(public, deviation, shrink(noisy, deviation))
        kind: Kind = "laplace" if event.noise == "discrete_laplace" else "gaussian"
        posterior = GroupedPosterior.of(
            noisy, event.scale / grid, kind, distance_groups(public), lattice=1 / grid
        )
        kept = plan.parameters.get("kept", 1.0)
        total = None if public.participants is None else public.participants * kept
        known = balance(public, float(posterior.mean().sum()))
        found = cls(
            public,
            deviation,
            posterior.mean(known),
            posterior,
            known,
            noisy,
            event.scale / grid,
            kind,
            1 / grid,
            total,
            zlib.crc32(noisy.tobytes()),
        )
        return (
            found
            if found.share <= HOPELESS
            else replace(found, counts=shrink(noisy, deviation), posterior=None)
        )

    @property
    def transitions(self) -> Floats:
        return floored(self.public, self.counts)

    @property
    def visits(self) -> Floats:
        return self._visits(self.counts)

    def draw(self, draws: int) -> tuple[Floats, Floats] | None:
        """Of the posterior; visits are those of released counts less noise that is drawn anew,
        which is what the true ones may have been whatever they are."""
        if self.posterior is None or self.noisy is None:
            return None
        if (draws := self._balanced(draws)) < LEAST_DRAWS:
            return None
        rng = np.random.default_rng(self.seed)
        drawn = self.posterior.draw(draws, rng, self.known)
        noise = rng.laplace if self.kind == "laplace" else rng.normal
        visited = self.noisy - noise(0.0, self.scale, (draws, self.noisy.size))
        return floored(self.public, drawn), self._visits(visited)

    def near(self, draws: int) -> tuple[Floats, Floats] | None:
        if self.posterior is None or self.noisy is None:
            return None
        if (draws := self._balanced(draws)) < LEAST_DRAWS:
            return None
        public, rng = self.public, np.random.default_rng(self.seed + 1)
        origin, to = np.nonzero(public.mask())
        moves = Moves(public.blocks, public.states, origin, to)
        totals = None if self.total is None else self.total * public.shares
        drawn = draw_counts(self.noisy, self.scale, self.kind, moves, draws, rng, totals=totals)
        if self.known is not None:
            drawn = conditioned(drawn, drawn.var(axis=0), self.known, rng)
        return floored(public, drawn), self._visits(drawn)

    def _balanced(self, draws: int) -> int:
        """As many of the draws as meet the balance in a bounded time."""
        if self.known is None:
            return draws
        constraints, cells = self.known.weights.shape
        most: int = MOST_OPERATIONS // (constraints**2 * cells)
        return min(draws, most)

    def bare(self, order: Floats) -> tuple[Floats, Floats]:
        """Without the counts below a deviation of their noise; without those below `HIDDEN`
        deviations but to the next states; without what noise may be of these; and without that of
        moves in one direction, from which one end of a load follows. Rows that have no others keep
        them."""
        public, noisy = self.public, self.counts if self.noisy is None else self.noisy
        origin, to = np.nonzero(public.mask())
        way = np.tile(np.sign(order[to] - order[origin]), public.blocks)
        less = np.minimum(self.counts, np.maximum(noisy - PART * self.deviation, 0.0))
        hidden = noisy < HIDDEN * self.deviation
        far = hidden & np.tile(np.abs(to - origin) > 1, public.blocks)
        kept = np.array(
            [
                np.where(self.counts >= self.deviation, self.counts, 0.0),
                np.where(far, 0.0, self.counts),
                np.where(hidden, less, self.counts),
                *(np.where(hidden & (way == side), less, self.counts) for side in (-1, 1)),
            ]
        )
        cells = self._with_rows(kept)
        return floored(public, cells), self._visits(cells)

    def barest(self) -> Floats:
        noisy = self.counts if self.noisy is None else self.noisy
        kept = np.where(noisy < HIDDEN * self.deviation, 0.0, self.counts)
        return floored(self.public, self._with_rows(kept))

    def _with_rows(self, kept: Floats) -> Floats:
        """The counts that are kept, and those of the answer in rows without any."""
        some = np.repeat(self._row_sums(kept) > 0, self.public.widths(), axis=-1)
        return np.where(some, kept, self.counts)

    def row_shares(self) -> RowShares | None:
        """By the noise of each count alone, without the prior of the answer; the answer is held
        too."""
        if self.noisy is None:
            return None
        width, sums = self.public.widths(), self._row_sums(self.counts)
        rows = np.repeat(np.arange(width.size), width)
        some = sums[rows] > 0
        answer = np.where(some, self.counts / np.where(some, sums[rows], 1.0), 1 / width[rows])
        lower, upper = share_ends(self.noisy, rows, width, self.scale, self.kind, self.lattice)
        weak = weak_rows(self._row_sums(self.noisy), width, self.scale, self.kind)
        return RowShares(answer, np.minimum(lower, answer), np.maximum(upper, answer), weak)

    def noise_dominates(self) -> NDArray[np.bool_]:
        """Where the deviation of a row's noise is at least its sum. A row of one transition is
        known."""
        dominates: NDArray[np.bool_] = self.row_noise() >= 1
        return dominates

    def row_noise(self) -> Floats:
        width, sums = self.public.widths(), self._row_sums(self.counts)
        part: Floats = np.minimum(self.deviation * np.sqrt(width) / np.maximum(sums, 1e-300), 1.0)
        return np.where(width > 1, part, 0.0)

    @property
    def participants(self) -> float | None:
        return float(self.counts.sum())

    @property
    def share(self) -> float:
        return float(self.counts.size * self.deviation / 2**0.5 / max(self.counts.sum(), 1e-300))

    @property
    def mostly_noise(self) -> bool:
        """By the sum of all true counts where that is public, else by that of the released ones:
        a posterior's is larger where noise is."""
        if self.noisy is None:
            return super().mostly_noise
        total = float(self.noisy.sum()) if self.total is None else self.total
        return self.counts.size * self.deviation / 2**0.5 > LARGEST_SHARE * total

    def _row_sums(self, cells: Floats) -> Floats:
        width = self.public.widths()
        sums: Floats = np.add.reduceat(cells, np.cumsum(width) - width, axis=-1)
        return sums

    def _visits(self, cells: Floats) -> Floats:
        sums = np.maximum(self._row_sums(cells), 0.0)
        if self.public.day is not None:
            sums = sums.reshape(*cells.shape[:-1], self.public.blocks, self.public.states)
        total = sums.sum(axis=-1, keepdims=True)
        return np.where(total > 0, sums / np.where(total > 0, total, 1.0), 1 / self.public.states)


@dataclass(frozen=True)
class DrawnRows(Estimate):
    """Released Dirichlet draws of the rows.

    No matrices are drawn that may lie behind them: a draw says about as much of a row as
    `concentration` observed moves, and where these are not many times its entries, an interval
    would tell the prior that one chose for rows.
    """

    public: DrEnsemblePublic
    rows: Floats
    """float64[cells]: as they were drawn."""
    concentration: float = math.inf
    prior: float = 0.0

    @classmethod
    def of(cls, public: DrEnsemblePublic, plan: Plan, released: Released) -> DrawnRows:
        event: Any
        (event,) = plan.events
        return cls(public, released["transitions"], event.scale, event.offset)

    @property
    def transitions(self) -> Floats:
        return floored(self.public, self.rows)

    @property
    def visits(self) -> Floats:
        return stationary(self.transitions)

    def draw(self, draws: int) -> tuple[Floats, Floats] | None:
        return None

    def noise_dominates(self) -> NDArray[np.bool_]:
        """Where a draw is worth fewer moves than the row has entries, or weighs less than the
        prior."""
        width = self.public.mask().sum(axis=1)
        dominates: NDArray[np.bool_] = (
            np.maximum(width - 1, width * self.prior) > self.concentration
        ) & (width > 1)
        return dominates

    @property
    def share(self) -> float:
        """1 if every drawn row is mostly noise, else 0; no finer figure is needed."""
        width = self.public.mask().sum(axis=1)
        return 1.0 if self.noise_dominates()[width > 1].all() else 0.0


def estimated(public: DrEnsemblePublic, plan: Plan, released: Released) -> Estimate:
    """What a release of this plan says."""
    kind = NoisyCounts if plan.parameters["method"] == "counts" else DrawnRows
    return kind.of(public, plan, released)


def unnoised(public: DrEnsemblePublic, plan: Plan, released: Released) -> Estimate:
    """The same of what a simulation shows of its data."""
    if plan.parameters["method"] == "counts":
        return NoisyCounts(public, 0.0, released["true_counts"] / plan.parameters["grid"])
    return DrawnRows(public, released["true_transitions"])


def distance_groups(public: DrEnsemblePublic) -> Ints:
    """int64[cells]: 1 for moves between states that are no neighbours, which may hardly ever be
    made, else 0; all are 0 where they are few, as two priors would fit what is noise."""
    origin, to = np.nonzero(public.mask())
    far = np.tile((np.abs(to - origin) > NEAR).astype(np.int64), public.blocks)
    return far if min(far.sum(), (1 - far).sum()) >= LEAST_GROUP else np.zeros_like(far)


def balance(public: DrEnsemblePublic, participants: float) -> Known | None:
    """A load leaves a state as often as it comes there, but for where it began and ended: at most 1
    of steps - 1.

    Where all records are of one public length the difference of a state's row and column is that of
    the participants who began and who ended there, over steps - 1. Thought of as normal about 0,
    the largest that can be is 1.4 of its deviations: vehicles all begin empty and end full. With
    sqrt(states) of them their costs were covered .07 times.
    """
    if public.steps is None:
        return None
    participants = float(public.participants or participants)
    origin, to = np.nonzero(public.mask())
    weights = np.zeros((public.states, origin.size))
    weights[origin, np.arange(origin.size)] += 1
    weights[to, np.arange(origin.size)] -= 1
    weights = np.tile(
        weights[:-1], public.blocks
    )  # they sum to 0; what comes in one block may leave in another
    deviation = participants / (public.steps - 1) / 2**0.5
    return Known(weights, np.zeros(len(weights)), np.full(len(weights), deviation))


def floored(public: DrEnsemblePublic, cells: Floats) -> Floats:
    """Transition matrices float64[..., n, n], with a `day` float64[..., blocks, n, n], of
    nonnegative cells float64[..., cells]: rows sum to 1, and no entry of the support is below a
    public `min_probability`; a row without mass is uniform."""
    mask, floor = public.mask(), floors(public)
    shape = (*cells.shape[:-1], *(() if public.day is None else (public.blocks,)))
    matrix = np.zeros((*shape, *mask.shape))
    matrix[..., mask] = cells.reshape(*shape, -1)
    width = mask.sum(axis=1)
    mass = matrix.sum(axis=-1, keepdims=True)
    shares = np.where(mass > 0, matrix / np.where(mass > 0, mass, 1.0), mask / width[:, None])
    mixed: Floats = np.where(mask, floor[:, None] + (1 - width * floor)[:, None] * shares, 0.0)
    normalized: Floats = mixed / mixed.sum(axis=-1, keepdims=True)
    return normalized


def floors(public: DrEnsemblePublic) -> Floats:
    """float64[n]: the least probability of the transitions of each state, where that is public."""
    floor: Floats = np.minimum(public.min_probability or 0.0, 1 / public.mask().sum(axis=1))
    return floor


def single_moves(public: DrEnsemblePublic, transitions: Floats, rows: Ints) -> Floats:
    """Transitions as those given, but that loads make one single move from one of the `rows`, as
    far as the floor lets them: each move of the support in turn, an axis more in front. Rows are
    counted block by block."""
    mask, floor = np.tile(public.mask(), (public.blocks, 1)), np.tile(floors(public), public.blocks)
    place, to = np.nonzero(mask[rows])
    row, each = rows[place], np.arange(place.size)
    found = np.repeat(transitions.reshape(1, *mask.shape), each.size, axis=0)
    found[each, row] = mask[row] * floor[row, None]
    found[each, row, to] += 1 - mask[row].sum(axis=1) * floor[row]
    return found.reshape(-1, *transitions.shape)


def stationary(matrix: Floats) -> Floats:
    """The distribution float64[n] that loads, evenly spread at first, tend to by matrices
    float64[n, n]."""
    spread = np.full(len(matrix), 1 / len(matrix))
    for _ in range(LAZY_STEPS):  # staying with probability 1/2 makes no other limit, and no cycle
        spread = 0.5 * (spread + spread @ matrix)
    return spread

"""Intervals of a count's share of its row, by the noise alone: post-processing of a release.

A posterior of counts (`count_posterior`) draws a count that is unlike the others towards them, and
its intervals hold such a count too seldom. Here no count tells of another. If p is the share of a
count x in the sum of its row, then (1 - p) x - p (the others) is 0, so the same of the noised
counts is noise alone, of a distribution that follows from p; the interval holds every p for which
that noise is not too large (Fieller 1954, "Some problems in interval estimation", with the exact
noise in place of a normal one). So each interval holds its share as often as it says, whatever the
counts are, also where none was counted and shares are nothing but a convention. That is of all
releases: no rule can promise the same of those releases alone in which noise happens to say
something of a row in which nothing was counted (Gleser & Hwang 1987).

Tails of sums of Laplace noise are those of Lugannani & Rice (1980), within 3 % of the exact ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["laplace", "gaussian"]

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

"""What a composition costs in zero-concentrated terms: an upper bound on its rho, from its privacy
loss distribution.

Theorem. Let (P, Q) dominate a mechanism in one direction: H_a(M(x) || M(x')) <= H_a(P || Q) for all
a >= 0. Let H_{e^eps}(P || Q) = h <= delta. Then M(x) = (1 - delta) M' + delta M'' with D_a(M' ||
M(x')) <= rho a for all a > 1,

    rho = sup over a > 1 of D_a(P' || Q)/a,    P' = min(P, e^eps Q)/(1 - h).

Proof. P = min(P, e^eps Q) + (P - e^eps Q)_+ has its second part of mass h, so P = (1 - delta) P' +
delta P'' with P'' = [P - (1 - delta) P']/delta, which is not negative because delta >= h. A pair
that dominates for all a can be processed into (M(x), M(x')) (Blackwell 1953, Theorem 10; Dong, Roth
& Su 2022, Theorem 2); the same processing takes P' to M' and P'' to M'', and Rényi divergence does
not grow. This holds for each direction with its own pair, which is what the filter's proof asks of
an entry (rho, delta_z = delta): see `filters`, where only the first of the two laws needs its bad
part cut off: E_P'[W; S] <= P'(S) <= e^eps Q(S) + d'.

With S the loss of the composition, P' is at most e^eps/(1 - h) times Q, and for b = a - 1 > 0

    b D_{1+b}(P' || Q) = ln( E_P[e^{bS}; S <= eps] + E_P[e^{(1+b) eps - S}; S > eps] ) - (1 + b)
    ln(1 - h).

Here the composition is the discrete pair of `pld`, by one FFT without a tilt; what its window
misses, its rounding and h <= delta are put on the safe side. That pair is a little worse than the
one that it dominates, so where a finer one certified the charged point, its own h may be above
delta: it is cut at the next epsilon where h is not. b D_{1+b} is convex in b: between orders it
lies below its chord, on which D/a has a maximum in closed form. D_a grows with a, so below an order
D/a is at most D there; above the last D_infinity/(1+b).

For noise that is nearly Gaussian this rho is that of the Gaussian which needs the same (epsilon,
delta), up to a few percent: about epsilon²/(4 ln(1/delta)), where an arbitrary (epsilon, delta)
costs epsilon²/2.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.privacy.pld import (
    CHARGING,
    QUICK,
    DominatingPair,
    Effort,
    Grid,
    Tail,
    Window,
    discretize,
    power,
    tail_on,
    widened,
    window_of,
)

Floats = NDArray[np.float64]

BUCKETS = 4096
CURVE_POINTS = 129
ORDERS_RATIO = 1.05
FIRST_ORDER = 1e-3
RAISED = (0.0, *(4.0**i for i in range(-10, 1)))
NEGLIGIBLE = 1e-4


def composed_rho(
    pair: DominatingPair, count: int, epsilon: float, delta: float, slack: float = 1.0
) -> float:
    """An upper bound on rho, with delta_z = delta, of `count` adaptive steps; inf where none is
    found.

    `pair` dominates one step; (epsilon, delta) should hold for the composition, epsilon > 0 and 0 <
    delta < 1. `slack` as in `Effort`: 1 or `CHARGING`.
    """
    return composed_rhos(pair, count, epsilon, delta)[slack]


@lru_cache(maxsize=1024)
def composed_rhos(
    pair: DominatingPair, count: int, epsilon: float, delta: float
) -> dict[float, float]:
    """`composed_rho` by its slack. What is charged is certified next: both are made of the same
    transforms."""
    made, found = _Transforms(pair, count, epsilon, delta), {}
    for slack in (1.0, CHARGING):
        try:
            with np.errstate(all="ignore"):
                rho = truncated_rho(*_composition(made, replace(QUICK, slack=slack)), delta)
        except (ValueError, ArithmeticError):
            rho = math.inf
        found[slack] = rho if rho >= 0 else math.inf
    return found


def truncated_rho(losses: Floats, masses: Floats, epsilon: float, delta: float) -> float:
    """sup over a > 1 of D_a(P' || Q)/a for the finite losses of P (increasing) and their masses;
    see the module.

    What P has beyond epsilon, infinite losses included, must be within h <= delta.
    """
    finite, capped = np.minimum(losses, epsilon), masses * np.exp(np.minimum(epsilon - losses, 0.0))
    finite, capped = _in_buckets(finite, capped)
    cut = -math.log1p(-delta)
    most = epsilon + cut
    # Beyond the last order even the largest loss costs less than a Gaussian with this epsilon and
    # delta.
    last = max(10.0, 8 * math.log(1 / delta) / epsilon)
    steps = 1 + math.ceil(math.log(last / FIRST_ORDER) / math.log(ORDERS_RATIO))
    orders = np.array([FIRST_ORDER * ORDERS_RATIO**i for i in range(steps + 1)])
    logs: Floats = np.array([_log_moment(finite, capped, float(b)) + (1 + b) * cut for b in orders])
    between = np.minimum(_largest_on_chords(orders, logs), most / (1 + orders[:-1]))
    after = np.append(np.maximum.accumulate(between[::-1])[::-1], 0.0)
    # All orders below any one of them cost at most its divergence.
    return max(
        float(np.min(np.maximum(np.minimum(logs / orders, most), after))),
        most / (1 + float(orders[-1])),
    )


def _largest_on_chords(b: Floats, k: Floats) -> Floats:
    """The largest k(x)/(x (1 + x)) between neighbouring points b of a convex k, from above: k lies
    below its chords.

    A chord is A + C x. Its quotient falls where A >= 0; else it is largest at (-A + sqrt(A² - A
    C))/C.
    """
    slope = np.diff(k) / np.diff(b)
    start = k[:-1] - slope * b[:-1]
    top = np.where(
        start < 0,
        (-start + np.sqrt(np.maximum(start * start - start * slope, 0.0))) / slope,
        b[:-1],
    )
    x = np.clip(top, b[:-1], b[1:])
    largest: Floats = (start + slope * x) / (x * (1 + x))
    return largest


def _log_moment(losses: Floats, masses: Floats, order: float) -> float:
    exponents = order * losses
    top = float(exponents.max())
    return top + math.log(float(np.dot(masses, np.exp(exponents - top))))


def pair_of_curve(curve: Callable[[float], float], epsilon: float) -> tuple[Floats, Floats]:
    """Finite losses up to `epsilon` and their masses under P, of a discrete pair that dominates
    every pair (P, Q) with H_{e^x}(P || Q) <= curve(x) and H_{e^x}(Q || P) <= curve(x) for x >= 0.

    For a < 1, H_a(P || Q) = 1 - a + a H_{1/a}(Q || P) carries the bound over. H is convex in a, so
    it also lies below the largest convex function under these bounds at a finite number of points,
    and below its chords: the curve of masses at the points. What is beyond epsilon counts as
    infinite.
    """
    half = np.linspace(0.0, epsilon, CURVE_POINTS)
    upper = np.array([curve(float(x)) for x in half])
    losses = np.concatenate([-half[:0:-1], half])
    a = np.exp(losses)
    bound = np.concatenate(
        [1 - a[: CURVE_POINTS - 1] + a[: CURVE_POINTS - 1] * upper[:0:-1], upper]
    )
    # From (0, 1), where every curve starts, by the lower hull.
    a, bound, losses = np.append(0.0, a), np.append(1.0, bound), np.append(-math.inf, losses)
    kept: list[int] = []
    for i in range(len(a)):
        while len(kept) > 1 and (bound[i] - bound[kept[-2]]) * (a[kept[-1]] - a[kept[-2]]) <= (
            bound[kept[-1]] - bound[kept[-2]]
        ) * (a[i] - a[kept[-2]]):
            kept.pop()
        kept.append(i)
    slopes = np.append(np.diff(bound[kept]) / np.diff(a[kept]), 0.0)
    q = np.maximum(np.diff(slopes), 0.0)
    inner = np.array(kept[1:])
    return losses[inner], a[inner] * q


class _Transforms:
    """Grids and transforms of one composition, each made once."""

    def __init__(self, pair: DominatingPair, count: int, epsilon: float, delta: float) -> None:
        self.pair, self.count, self.epsilon, self.delta = pair, count, epsilon, delta
        self._grids: dict[float, Grid] = {}
        self._tails: dict[tuple[float, float], Tail | Effort] = {}
        self._powers: dict[float, tuple[Floats, Floats, float]] = {}

    def grid(self, effort: Effort) -> Grid:
        if effort.coarseness not in self._grids:
            self._grids[effort.coarseness] = discretize(
                self.pair, self.count, NEGLIGIBLE * self.delta, effort
            )
        return self._grids[effort.coarseness]

    def tail(self, effort: Effort, cut: float) -> Tail | Effort:
        key = effort.coarseness, cut
        if key not in self._tails:
            self._tails[key] = tail_on(
                self.grid(effort), self.count, cut, NEGLIGIBLE * self.delta, effort
            )
        return self._tails[key]

    def window(self, effort: Effort) -> Window | Effort:
        """The window of the composition; or the effort with which a transform can hold it."""
        grid = self.grid(effort)
        window = window_of(grid, self.count, self.epsilon, 0.0, 4 * NEGLIGIBLE * self.delta)
        return widened(effort, grid, window) or window

    def power(self, effort: Effort, window: Window) -> tuple[Floats, Floats, float]:
        """Losses, masses, and what the window misses at either end together with the rounding
        errors of all masses."""
        if effort.coarseness not in self._powers:
            grid = self.grid(effort)
            losses, masses, error = power(grid, grid.masses, self.count, self.epsilon, window)
            extra = 2 * window.missed + error * math.sqrt(len(masses))
            self._powers[effort.coarseness] = losses + grid.shift * self.count, masses, extra
        return self._powers[effort.coarseness]


def _composition(made: _Transforms, effort: Effort) -> tuple[Floats, Floats, float]:
    """Losses and masses that dominate the finite losses of the composition, and where to cut them;
    see the module."""
    window = made.window(effort)
    cut = window if isinstance(window, Effort) else _cut(made, effort)
    if isinstance(window, Effort) or isinstance(cut, Effort):
        assert isinstance(cut, Effort)
        return _composition(made, replace(cut, slack=effort.slack))
    losses, masses, extra = made.power(effort, window)
    # What is missed or rounded counts at the loss that costs most.
    return np.append(losses, cut), np.append(masses, effort.slack * extra), cut


def _cut(made: _Transforms, effort: Effort) -> float | Effort:
    """An epsilon, not below the given one, beyond which the grid's composition has at most delta;
    or the effort that can tell."""
    wider: list[Effort] = []

    def holds(raised: float) -> bool:
        tail = made.tail(effort, made.epsilon * (1 + raised))
        if isinstance(tail, Effort):
            wider.append(tail)
        return isinstance(tail, Effort) or tail.delta(effort.slack) <= made.delta

    # Delta falls as the cut rises: the first that holds is found by bisection, since each takes a
    # transform.
    first = 0 if holds(RAISED[0]) else bisect_left(RAISED, True, 1, key=holds)
    if wider:
        return wider[0]
    if first == len(RAISED):
        raise ValueError("no epsilon near the given one holds with this delta")
    return made.epsilon * (1 + RAISED[first])


def _in_buckets(losses: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Fewer losses, whose pair dominates: what lies between two ends of a bucket goes to both, so
    that its masses under P and Q are kept."""
    low, high = float(losses.min()), float(losses.max())
    if len(losses) <= BUCKETS or not low < high:
        return losses, masses
    ends = np.linspace(low, high, BUCKETS + 1)
    place = np.minimum(np.searchsorted(ends, losses, side="right") - 1, BUCKETS - 1)
    width = (high - low) / BUCKETS
    above = (
        np.clip(np.expm1(np.minimum(ends[place] - losses, 0.0)) / math.expm1(-width), 0.0, 1.0)
        * masses
    )
    total = np.bincount(place, masses - above, BUCKETS + 1) + np.bincount(
        place + 1, above, BUCKETS + 1
    )
    return ends, np.asarray(total, dtype=np.float64)

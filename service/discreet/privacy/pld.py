"""Composition by privacy loss distributions: an upper bound on delta for `count` adaptive runs of
one step.

A step is given by a dominating pair (P, Q) through the tails of its privacy loss L = ln(dP/dQ)
under both. Its curve H(a) = P(L > ln a) - a Q(L > ln a) is convex in a = e^epsilon; on a grid of
epsilons the chords above it are the curve of a discrete pair (pessimistic "connect the dots",
Doroshenko, Ghazi, Kamath, Kumar & Manurangsi 2022), which dominates the step, and whose
`count`-fold product dominates the composition (Zhu, Dong & Wang 2022, Theorem 10). What is beyond
the grid counts as infinite loss. Unlike rounding losses up, this keeps E_P[e^-L]: its error is of
second order in the step.

The product is one FFT, on the distribution tilted by e^{lambda L} with the Chernoff-optimal lambda:
rounding then is relative to the tilted tail, not to 1. Every rounding error is bounded and added.

This calibrates single jobs; admission never uses it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

Floats = NDArray[np.float64]

FINEST_STEP = 0.01
COARSEST_STEP = 0.1
BULK = 4
TAIL_RATIO = 1 + 1 / 128  # adds (1/128)²/6 = 1e-5 of E[L²]
ROUND = 2.3e-16
LEAST = 1e-36
"""Powers of frequencies below this are taken for 0."""


@dataclass(frozen=True)
class Effort:
    """How fine the grid is and how long the transform may be. Any effort gives a bound, a smaller
    one a looser one."""

    coarseness: float
    """Factor of the step of the grid that the spread of the loss asks for."""
    wanted: int
    """The grid is made coarser, up to 10 % of the standard deviation of L, where more points than
    these are needed."""
    longest: int
    """It is made coarser without that limit where the transform would have more points than
    these."""
    widening: float
    """The step then grows by the least power of this that suffices."""
    slack: float = 1.0
    """Factor of what is added for rounding errors and for what the window misses; see
    `CHARGING`."""


FULL = Effort(1.0, 1 << 20, 1 << 23, 4.0)
"""The tightest bound, in up to 2 s. These figures never change: certificates rest on bounds that
they give."""
QUICK = Effort(1.0, 1 << 18, 1 << 20, 1.1)
"""A bound in up to 0.2 s; for up to QUICK_STEPS the noise that it asks for is within 2 % of what
FULL asks for. These figures never change either: charged rhos were computed with them."""
QUICK_STEPS = 10**7
ROUGH = Effort(8.0, 1 << 15, 1 << 17, 1.1)
"""A bound in a few ms, which shows where to look for a root."""
CHARGING = 3.0
"""The slack of what is stored as charged, so that any machine can certify it with slack 1:
transforms there may have other lengths and rounding errors, so two results differ by up to twice
the bound, of which one more is added."""
CHARGED = replace(QUICK, slack=CHARGING)


class DominatingPair(Protocol):
    """The privacy loss of one step; hashable. Every array is shaped like `epsilon` and accurate
    where it is small."""

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """P(L > epsilon), Q(L > epsilon)."""

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """P(L <= epsilon), Q(L <= epsilon)."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Reversed:
    """The pair (Q, P)."""

    pair: DominatingPair

    def tails(self, epsilon: Floats) -> tuple[Floats, Floats]:
        p, q = self.pair.heads(-epsilon)
        return q, p

    def heads(self, epsilon: Floats) -> tuple[Floats, Floats]:
        p, q = self.pair.tails(-epsilon)
        return q, p


def hockey_stick(pair: DominatingPair, epsilon: float) -> float:
    """H(e^epsilon) of one step, rounded up."""
    p, q = (float(tail[0]) for tail in pair.tails(np.array([epsilon])))
    return max(0.0, p - math.exp(epsilon) * q) + 1e-13 * p


def composed_delta(
    pair: DominatingPair, count: int, epsilon: float, negligible: float, effort: Effort = FULL
) -> float:
    """Delta at epsilon >= 0 of `count` adaptive steps, rounded up; about `negligible` of it may be
    slack.

    Guaranteed not below the truth, whatever the effort; above it by `negligible` and by what the
    step of the grid does: it is 1 % of the standard deviation of L (1e-5 of delta), up to 10 %
    (1e-3) where the transform would be too large, and more for less effort. Where doubles end
    (noise or deltas of 1e-100, say) the bound is 1.
    """
    delta = composed_tail(pair, count, epsilon, negligible, replace(effort, slack=1.0)).delta(
        effort.slack
    )
    return min(delta, 1.0) if delta >= 0 else 1.0


@dataclass(frozen=True)
class Tail:
    """The delta that a transform gives, and the bound on its rounding error: one transform serves
    every slack."""

    value: float
    rounding: float

    def delta(self, slack: float) -> float:
        """The bound with so much slack."""
        return self.value + slack * self.rounding


@lru_cache(maxsize=256)
def composed_tail(
    pair: DominatingPair, count: int, epsilon: float, negligible: float, effort: Effort
) -> Tail:
    """`composed_delta` before its slack is chosen."""
    try:
        with np.errstate(all="ignore"):
            return _composed_tail(pair, count, epsilon, negligible, effort)
    except (ValueError, ArithmeticError):
        return Tail(1.0, 0.0)


def _composed_tail(
    pair: DominatingPair, count: int, epsilon: float, negligible: float, effort: Effort
) -> Tail:
    tail = tail_on(discretize(pair, count, negligible, effort), count, epsilon, negligible, effort)
    return (
        _composed_tail(pair, count, epsilon, negligible, tail) if isinstance(tail, Effort) else tail
    )


def tail_on(
    grid: Grid, count: int, epsilon: float, negligible: float, effort: Effort
) -> Tail | Effort:
    """Delta at epsilon of `count` steps of the grid's own pair, rounded up; or the effort that it
    takes where the transform would be too long."""
    exponent, tilt = _chernoff(grid, count, epsilon)
    infinite = -math.expm1(count * math.log1p(-min(grid.infinite, 1 - 1e-16)))
    if exponent < -700:
        return Tail(infinite + 1e-300, 0.0)
    # Rounding in the masses shifts losses by less than `shift` in each step.
    shifted = epsilon - grid.shift * count
    window = window_of(grid, count, shifted, tilt, negligible)
    wider = widened(effort, grid, window)
    if wider is not None:
        return wider
    tilted, scale = _tilted_tail(grid, count, shifted, tilt, window), math.exp(exponent)
    return Tail(infinite + scale * tilted.value, scale * tilted.rounding)


def widened(effort: Effort, grid: Grid, window: Window) -> Effort | None:
    """The effort with the step at which the window fits into its longest transform; None where it
    fits as it is."""
    size = (window.below + window.above) / grid.step
    if size <= effort.longest:
        return None
    power = math.ceil(math.log(size / effort.longest) / math.log(effort.widening))
    return replace(effort, coarseness=effort.coarseness * effort.widening**power)


@dataclass(frozen=True)
class Grid:
    """Masses at the losses places·step, increasing, and at infinity."""

    step: float
    places: NDArray[np.int64]
    losses: Floats
    masses: Floats
    infinite: float
    shift: float

    def log_moment(self, order: float) -> float:
        """ln E[e^{order L}; L finite] under P."""
        exponents = order * self.losses
        top = max(0.0, float(exponents.max()))
        return top + math.log(float(np.sum(self.masses * np.exp(exponents - top))))


def discretize(pair: DominatingPair, count: int, negligible: float, effort: Effort) -> Grid:
    """One step as a discrete pair that dominates it, fine and wide enough for `count` of them."""
    most = negligible / count / 4
    high = 1e-6
    while hockey_stick(pair, high) > most and high < 500:
        high *= 1.3
    # Losses below `low` are raised to it: in all by less than 1e-7 |low|.
    low = -1e-6
    while float(pair.heads(np.array([low]))[0][0]) > 1e-7 / count and low > -500:
        low *= 1.3
    deviation = _deviation(pair, low, high)
    if not deviation > 0:
        raise ArithmeticError("the loss has no spread that doubles can tell")
    window = 30 * math.sqrt(count) * deviation + min(high, 3.0)
    step = (
        min(COARSEST_STEP * deviation, max(FINEST_STEP * deviation, window / effort.wanted))
        * effort.coarseness
    )
    places = _places(
        math.floor(low / step), math.ceil(high / step), math.ceil(BULK * deviation / step)
    )
    points: Floats = np.asarray(places * step, dtype=np.float64)
    (tail_p, tail_q), (head_p, head_q) = pair.tails(points), pair.heads(points)
    p, q = _between(tail_p, head_p), _between(tail_q, head_q)
    # A bucket's masses (p under P, q under Q) go to its ends so that both are kept.
    width = np.diff(points)
    upper = np.clip((p - np.exp(points[:-1]) * q) / -np.expm1(-width), 0.0, p)
    masses = np.zeros(len(points))
    masses[1:] += upper
    masses[:-1] += p - upper
    masses[0] += head_p[0]
    infinite = max(0.0, float(tail_p[-1] - math.exp(points[-1]) * tail_q[-1]))
    masses[-1] += float(tail_p[-1]) - infinite
    masses *= (1 - infinite) / math.fsum(masses)
    shift = (
        8
        * ROUND
        * float(np.sum(np.minimum(tail_p, head_p) + np.exp(points) * np.minimum(tail_q, head_q)))
    )
    there = masses > 0
    infinite = infinite * (1 + 1e-9) + 1e-13 * float(tail_p[-1])
    return Grid(step, places[there], points[there], masses[there], infinite, shift)


def _places(first: int, last: int, bulk: int) -> NDArray[np.int64]:
    """Every integer within ±bulk, beyond that geometric steps, up to first and last."""
    reach = max(bulk + 1, -first, last)
    far = bulk * TAIL_RATIO ** np.arange(
        1, math.ceil(math.log(reach / bulk) / math.log(TAIL_RATIO)) + 1
    )
    tail = np.unique(np.ceil(far).astype(np.int64))
    places = np.concatenate([-tail[::-1], np.arange(-bulk, bulk + 1), tail])
    return places[np.searchsorted(places, first, "right") - 1 : np.searchsorted(places, last) + 1]


def _between(tail: Floats, head: Floats) -> Floats:
    """Masses of the intervals between points: differences of whichever of tail and head is
    small."""
    return np.maximum(
        np.where(tail[1:] < head[1:], tail[:-1] - tail[1:], head[1:] - head[:-1]), 0.0
    )


def _deviation(pair: DominatingPair, low: float, high: float) -> float:
    """The standard deviation of L under P, roughly."""
    size = max(-low, high)
    points = (
        np.sinh(np.linspace(math.asinh(low / size * 1e6), math.asinh(high / size * 1e6), 1001))
        * size
        / 1e6
    )
    (tail, _), (head, _) = pair.tails(points), pair.heads(points)
    return math.sqrt(
        float(np.sum(_between(tail, head) * np.maximum(points[:-1] ** 2, points[1:] ** 2)))
    )


def _chernoff(grid: Grid, count: int, epsilon: float) -> tuple[float, float]:
    """min over lambda >= 0 of count·ln E[e^{lambda L}] - lambda·epsilon, and the lambda."""

    def exponent(log_order: float) -> float:
        order = math.exp(log_order)
        return count * grid.log_moment(order) - order * epsilon

    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - most processes never search, as in `search`

    best = minimize_scalar(exponent, bounds=(-7.0, 12.0), method="bounded", options={"xatol": 1e-3})
    value, order = float(best.fun), math.exp(float(best.x))
    rounding = count * ROUND * 64
    # A tilt that gains little widens the sum for nothing.
    return (value + rounding, order) if value < -3 else (rounding, 0.0)


@dataclass(frozen=True)
class Window:
    """The tilted sum S is within [epsilon - below, epsilon + above] but for the probability
    `missed` on each side.

    Mass outside wraps to the other end of the circle: from below it only adds, from above it is
    lost.
    """

    below: float
    above: float
    missed: float


def window_of(grid: Grid, count: int, epsilon: float, tilt: float, negligible: float) -> Window:
    """The window of the sum of `count` losses, tilted by e^{tilt L}; `missed` adds up to
    negligible/8 of delta."""
    log_moment = grid.log_moment(tilt)
    tilted = grid.masses * np.exp(tilt * grid.losses - log_moment)
    mean = float(np.sum(tilted * grid.losses))
    deviation = (
        math.sqrt(count * max(0.0, float(np.sum(tilted * (grid.losses - mean) ** 2)))) + grid.step
    )
    missed = min(1.0, negligible / 8 / math.exp(count * log_moment - tilt * epsilon))
    orders = np.geomspace(0.05, 40.0, 30) / deviation
    above = max(0.0, min(_reach(grid, count, epsilon, tilt, order, missed) for order in orders))
    below = max(0.0, min(_reach(grid, count, epsilon, tilt, -order, missed) for order in orders))
    return Window(below, above, missed)


def _tilted_tail(grid: Grid, count: int, epsilon: float, tilt: float, window: Window) -> Tail:
    """E[(1 - e^{eps - S}) e^{tilt (eps - S)}; S > eps] for the sum S of `count` tilted losses."""
    tilted = grid.masses * np.exp(tilt * grid.losses - grid.log_moment(tilt))
    sums, composed, error = power(grid, tilted, count, epsilon, window)
    excess = np.maximum(sums - epsilon, 0.0)
    weights = -np.expm1(-excess) * np.exp(-tilt * excess)
    value = float(np.dot(weights, composed))
    rounding = window.missed + error * float(np.linalg.norm(weights))
    return Tail(value * (1 + 1e-12 + 4 * ROUND * count), rounding)


def power(
    grid: Grid, masses: Floats, count: int, epsilon: float, window: Window
) -> tuple[Floats, Floats, float]:
    """The `count`-fold convolution of `masses` at the grid's places.

    Returns the sums in the window around epsilon, increasing, their masses, and the l2 norm of
    these masses' rounding errors.

    A transform has rounding errors of up to log2(size) times the norm, and the power multiplies
    them by `count`. In a long product few frequencies are left: a power below LEAST is taken for 0,
    which moves no mass by more than that.
    """
    size = next_fast_len(math.ceil((window.below + window.above) / grid.step) + 2, real=True)
    circle = np.zeros(size)
    np.add.at(circle, grid.places % size, masses)
    spectrum = rfft(circle)
    left = np.abs(spectrum) > LEAST ** (1 / count)
    powers = np.zeros_like(spectrum)
    powers[left] = spectrum[left] ** count
    composed = irfft(powers, size)
    indices = math.floor((epsilon - window.below) / grid.step) + 1 + np.arange(size)
    norms = float(np.linalg.norm(composed) * np.linalg.norm(circle))
    sums = np.asarray(indices * grid.step, dtype=np.float64)
    error = 2 * ROUND * count * math.log2(size) * norms + LEAST * math.sqrt(size)
    return sums, np.maximum(composed[indices % size], 0.0), error


def _reach(
    grid: Grid, count: int, epsilon: float, tilt: float, order: float, missed: float
) -> float:
    """How far from epsilon, upward for order > 0, the tilted sum S goes with more than probability
    `missed` (Chernoff).

    ln P(order (S - eps) > |order| reach) <= count (K(tilt + order) - K(tilt)) - order eps - |order|
    reach.
    """
    front = count * (grid.log_moment(tilt + order) - grid.log_moment(tilt)) - order * epsilon
    return (front - math.log(missed)) / abs(order)


# Renyi --------------------------------------------------------------------------------------------
# What a composition costs in zero-concentrated terms: an upper bound on its rho, from its privacy
# loss distribution.
#
# Theorem. Let (P, Q) dominate a mechanism in one direction: H_a(M(x) || M(x')) <= H_a(P || Q) for
# all a >= 0. Let H_{e^eps}(P || Q) = h <= delta. Then M(x) = (1 - delta) M' + delta M'' with D_a(M'
# || M(x')) <= rho a for all a > 1,
#
# rho = sup over a > 1 of D_a(P' || Q)/a, P' = min(P, e^eps Q)/(1 - h).
#
# Proof. P = min(P, e^eps Q) + (P - e^eps Q)_+ has its second part of mass h, so P = (1 - delta) P'
# + delta P'' with P'' = [P - (1 - delta) P']/delta, which is not negative because delta >= h. A
# pair that dominates for all a can be processed into (M(x), M(x')) (Blackwell 1953, Theorem 10;
# Dong, Roth & Su 2022, Theorem 2); the same processing takes P' to M' and P'' to M'', and Rényi
# divergence does not grow. This holds for each direction with its own pair, which is what the
# filter's proof asks of an entry (rho, delta_z = delta): see `filters`, where only the first of the
# two laws needs its bad part cut off: E_P'[W; S] <= P'(S) <= e^eps Q(S) + d'.
#
# With S the loss of the composition, P' is at most e^eps/(1 - h) times Q, and for b = a - 1 > 0
#
# b D_{1+b}(P' || Q) = ln( E_P[e^{bS}; S <= eps] + E_P[e^{(1+b) eps - S}; S > eps] ) - (1 + b)
#     ln(1 - h).
#
# Here the composition is the discrete pair of `pld`, by one FFT without a tilt; what its window
# misses, its rounding and h <= delta are put on the safe side. That pair is a little worse than the
# one that it dominates, so where a finer one certified the charged point, its own h may be above
# delta: it is cut at the next epsilon where h is not. b D_{1+b} is convex in b: between orders it
# lies below its chord, on which D/a has a maximum in closed form. D_a grows with a, so below an
# order D/a is at most D there; above the last D_infinity/(1+b).
#
# For noise that is nearly Gaussian this rho is that of the Gaussian which needs the same (epsilon,
# delta), up to a few percent: about epsilon²/(4 ln(1/delta)), where an arbitrary (epsilon, delta)
# costs epsilon²/2.

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

"""An agent's answers to prices, for `method: auto`: the point of its set that is best at a price,
blurred by randomness of its own, the haze.

An exact best response depends on the price alone. At a price that two jobs have in common, such as
zero, the same agents answer the same, and the sum of one job minus that of the same job without one
agent is that agent's answer. So what an agent contributes, x, starts at a random point of its set
and moves toward the best response by a random fraction, drawn for each variable and round:
`x += share (best - x)`, share uniform in `[1 - 2^-k, 1]` in answer k = 0, 1, … After k answers at
most 2^-(k(k-1)/2) of the start is left: the haze is large in the first sums and gone in the last,
where the method must be exact.

A haze that is drawn anew in every job averages out over many jobs. So a part of it stays the same
(`own_haze`): the start, and half of the randomness of each share and of the factor of the slopes,
are determined by the agent's private key, its data and the agents on the roster. Averaging over
many jobs of the same agents does not remove that part. The other half is drawn anew: without it,
the difference of two jobs in which only one agent has other data would be the change of that
agent's answer alone, since the haze of all others would cancel.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import ConvexSet
from discreet_agent.costs import Cost
from discreet_agent.row_sizes import own_sizes

Floats = NDArray[np.float64]
Uniform = Callable[[int], Floats]
Own = Callable[[int, int], Floats]
"""From n and a size: the n-th draw, uniform float64[size], the same at each call."""

THINNING = 0.5
"""The haze of an answer as a fraction of that of the answer before."""
BLUR = 2.0
"""An agent sends its slopes times a private factor between 1/BLUR and BLUR."""
FLAT = 1e-3
"""A cost whose least curvature is below this fraction of its largest is flat in that direction;
both in the units of the agent's windows."""
PULL = 0.2
"""Curvature that is added to a flat cost, as a fraction of the largest of `Cost.steepest` in these
units."""
SMALL, LITTLE = 1e-3, 1e-4
"""An agent's own point counts as at least these parts of its scale, beside its haze and in the
sizes of rows: the point that is zero has a scale, too."""

_START, _SLOPES, _SIZES, _FIRST_ANSWER = 0, 1, 2, 3
"""Numbers of an agent's own draws."""


def system_uniform(size: int) -> Floats:
    """float64[size] uniform in [0, 1), from the operating system."""
    return _uniform_of(secrets.token_bytes(8 * size))


def own_haze(secret: bytes, cost: Cost, domain: ConvexSet, members: Sequence[bytes]) -> Own:
    """Draws uniform in [0, 1) that are determined by an agent's private key, its own part of the
    problem and the keys on the roster: HMAC-SHA-256 of these is the seed of SHAKE-256.

    A, c and d do not enter, since an operator may vary them without the agents' consent. Another
    roster gives another haze: with the same one, two jobs between which one agent is replaced would
    differ by that agent's answer alone.
    """
    parts = [
        np.ascontiguousarray(one, dtype="<f8").tobytes() for one in (*cost.figures, *domain.figures)
    ]
    message = hashlib.sha256(b"discreet/haze/v1")
    for part in (*parts, *sorted(members)):
        message.update(hashlib.sha256(part).digest())
    seed = hmac.digest(secret, message.digest(), "sha256")

    def draw(number: int, size: int) -> Floats:
        return _uniform_of(hashlib.shake_256(seed + number.to_bytes(8, "big")).digest(8 * size))

    return draw


def _uniform_of(drawn: bytes) -> Floats:
    words = np.frombuffer(drawn, dtype="<u8")
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def windows(A: Floats, cost: Cost, domain: ConvexSet, figures: Floats) -> tuple[Floats, Floats]:
    """How far from the point of its box nearest to zero each variable is likely to be, float64[k],
    above 0: twice what the cost wishes for or what one of the operator's `figures` (float64[m], 0
    where there is none) would take of it, cut by the box, which must be bounded; the whole box
    where neither is known. The larger of the two is where to start, the less is a scale to compare
    errors with: a limit that is kept with room says nothing of how large x is."""
    lower, upper = (np.broadcast_to(side, (cost.size,)) for side in domain.sides)
    bent = np.diag(cost.curvatures(lower, upper)[0])
    near = np.clip(0.0, lower, upper)
    reach = np.maximum(upper - near, near - lower)
    with np.errstate(all="ignore"):
        wished = np.where(bent > 0, cost.steepest(lower, upper) / bent, 0.0)
        acts = (A != 0) & (figures > 0)[:, None]
        taken = np.where(acts, figures[:, None] / np.abs(A), np.inf)
    least = np.min(taken, axis=0, initial=np.inf)
    taken = np.where(np.isfinite(least), least, 0.0)
    known = (wished > 0) & (taken > 0)
    window = 2 * np.maximum(wished, taken)
    scale = np.where(known, 2 * np.minimum(wished, taken), window)

    def cut(one: Floats) -> Floats:
        found = np.where((one > 0) & np.isfinite(one), np.minimum(one, reach), reach)
        return np.where(found > 0, found, 1.0)

    return cut(window), cut(scale)


class Responder:
    """One agent: A float64[m, k] of all its couplings, the first `coupled` of the objective, its
    cost and its set, which is bounded.

    Each variable is reckoned from the point of its box nearest to zero, in the unit of its
    `windows`, of the operator's `figures` (float64[m]). The haze starts in the window: in a box
    that is a million times wider than what matters, it would hide nothing but the optimum.

    A cost that is flat in some direction has no unique best point, and its answers would jump. Its
    agent answers with the best point of `f + pull/2 |x - centre|²` instead, and moves the centre to
    its current point when all agents do (`recentre`): a proximal method of multipliers (Rockafellar
    1976).

    `uniform` draws the haze, which `haze=False` leaves out, so that attacks can show what it is
    for; `own` draws the part of it that stays the same over jobs, without which all is drawn anew.
    Raises ValueError when the box is unbounded, and for numbers that are not finite.
    """

    def __init__(
        self,
        A: Floats,
        cost: Cost,
        domain: ConvexSet,
        coupled: int,
        figures: Floats,
        uniform: Uniform = system_uniform,
        own: Own | None = None,
        *,
        haze: bool = True,
    ) -> None:
        size = cost.size
        self._lower, self._upper = (
            np.array(np.broadcast_to(np.asarray(side, dtype=np.float64), (size,)))
            for side in domain.sides
        )
        if not (np.all(np.isfinite(self._lower)) and np.all(np.isfinite(self._upper))):
            raise ValueError("method auto needs boxes with finite bounds")
        if not all(np.all(np.isfinite(one)) for one in (A, *cost.figures)):
            raise ValueError("A_u, A_g or the cost hold numbers that are not finite")
        self._A, self._cost, self._uniform, self._own = A, cost, uniform, own
        self._domain = domain
        self._haze = 1.0 if haze else 0.0
        self._blurs = haze
        self._near = np.clip(0.0, self._lower, self._upper)
        least, most = cost.curvatures(self._lower, self._upper)
        steepest = cost.steepest(self._lower, self._upper)
        self._windows, self._scale = windows(A, cost, domain, figures)
        self._least = least
        self.flat = False
        """Whether its cost has a proximal centre."""
        self._pull: Floats = self._needed_pull(least, most, steepest, coupled, figures)
        start = uniform(size) if own is None else own(_START, size)
        low = np.maximum(self._lower, self._near - self._windows)
        high = np.minimum(self._upper, self._near + self._windows)
        self.x: Floats = domain.project(low + (high - low) * start)
        """What this agent contributes: at the end its optimum."""
        self._best = self._centre = self.x
        self._slopes = np.zeros(0)
        self._answers = 0

    def _needed_pull(
        self, least: Floats, most: Floats, steepest: Floats, coupled: int, figures: Floats
    ) -> Floats:
        """The curvature to add to each variable, float64[k], of a cost whose Hessian lies between
        these matrices; zeros for one that is strongly convex."""
        W, free = self._windows, self._upper > self._lower
        bent, largest = least * np.outer(W, W), float(np.max(np.diag(most) * W**2, initial=0.0))
        money = float(np.max(steepest * W, initial=0.0))
        if not max(money, largest) > 0:  # nothing but the couplings has a price
            weights = np.abs(self._A[:coupled]) * W
            money = float(np.max(weights * np.maximum(weights, figures[:coupled, None]), initial=0))
        pull = PULL * max(money, largest * FLAT) or 1.0
        diagonal = np.diag(bent)[free]
        flat = bool(np.any(diagonal <= FLAT * PULL * (steepest * W)[free]))
        if not flat and diagonal.size:
            unit = 1 / np.sqrt(diagonal)
            scaled = bent[np.ix_(free, free)] * np.outer(unit, unit)
            flat = bool(np.linalg.eigvalsh(scaled)[0] < FLAT)
        self.flat = flat
        # A variable that is fixed has no choice, but a matrix without it no inverse.
        return np.where(flat | (~free & (np.diag(least) <= 0)), pull / W**2, 0.0)

    def recentre(self) -> None:
        """Move the centre of a flat cost's pull to the agent's current point; a strongly convex
        cost has no pull."""
        self._centre = self.x

    def slopes(self) -> Floats:
        """The most by which this agent's part of each sum falls with the sum's own price: the
        diagonal of `A H^-1 A'`, float64[m], where H is a lower bound of its curvature, times a
        private factor, which hides how steep this agent's cost is. The same at each call."""
        if not self._slopes.size:
            W = self._windows
            bent = self._least * np.outer(W, W) + np.diag(self._pull * W**2)
            fixed = self._upper == self._lower
            bent[fixed, :] = bent[:, fixed] = 0.0
            bent[fixed, fixed] = 1.0
            A = self._A * np.where(fixed, 0.0, W)
            exact = np.sum(A * np.linalg.solve(bent, A.T).T, axis=1)
            factor = BLUR ** (2 * self._drawn(_SLOPES, 1)[0] - 1) if self._blurs else 1.0
            self._slopes = np.maximum(exact, 0.0) * factor
        return self._slopes

    def sizes(self) -> Floats:
        """What this agent puts into each row at its last point, float64[m], times a private factor
        between ½ and 1: the exact sums would tell the operator's figures."""
        exact = own_sizes(self._A, self.x, self._lower, self._upper)
        moving = np.where(self._upper > self._lower, self._scale, 0.0)
        exact = exact + LITTLE * np.abs(self._A) @ moving
        sizes: Floats = exact * (1 - self._drawn(_SIZES, 1)[0] / 2 if self._blurs else 1.0)
        return sizes

    def answer(self, prices: Floats) -> tuple[Floats, float]:
        """A x for this agent's next x, float64[m], and how far x is from the best point at these
        prices (float64[m]), squared: see `_apart`."""
        p = self._A.T @ prices
        self._best = self._cost.minimum(self._domain, p, self._pull, self._centre, self._best)
        share = 1 - self._haze * self._drawn(_FIRST_ANSWER + self._answers, self.x.size)
        self._haze *= THINNING
        self._answers += 1
        self.x = self._domain.project(self.x + share * (self._best - self.x))
        return self._A @ self.x, self._apart(p)

    def _apart(self, p: Floats) -> float:
        """The squares, 1 in all at most, of the haze that is left beside each variable of x, of the
        step from the centre beside x, and of the pull beside the net slope of the cost; the last
        two in windows."""
        W = self._windows
        own = np.abs(self.x - self._near) + SMALL * self._scale
        apart = float(np.linalg.norm((self.x - self._best) / own)) ** 2
        if self.flat:
            size = float(np.linalg.norm((self.x - self._near) / W)) + SMALL
            step = (self._best - self._centre) / W
            slope = self._cost.gradient(self._near) + p
            net = np.abs(self._least) @ np.abs(self._best - self._near) + np.abs(slope)
            drawn = float(np.linalg.norm(self._pull * W**2 * step))
            whole = float(np.linalg.norm(net * W))
            apart += (float(np.linalg.norm(step)) / size) ** 2
            apart += (drawn / whole) ** 2 if whole > 0 else float(drawn > 0)
        return min(apart, 1.0) if math.isfinite(apart) else 1.0

    def _drawn(self, number: int, size: int) -> Floats:
        """In [0, 1): half of it from this agent's own draw, half drawn anew."""
        drawn = self._uniform(size)
        return drawn if self._own is None else (drawn + self._own(number, size)) / 2

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process. Private: it holds x."""
        points = {
            "x": self.x.tolist(),
            "best": self._best.tolist(),
            "centre": self._centre.tolist(),
            "slopes": self._slopes.tolist(),
        }
        return {**points, "haze": self._haze, "answers": self._answers}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.x, self._best, self._centre, self._slopes = (
            np.array(state[name]) for name in ("x", "best", "centre", "slopes")
        )
        self._haze, self._answers = state["haze"], state["answers"]

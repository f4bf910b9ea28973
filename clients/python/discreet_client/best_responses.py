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
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.convex_sets import ConvexSet
from discreet_client.costs import Cost

Floats = NDArray[np.float64]
Uniform = Callable[[int], Floats]
Own = Callable[[int, int], Floats]
"""From n and a size: the n-th draw, uniform float64[size], the same at each call."""

THINNING = 0.5
"""The haze of an answer as a fraction of that of the answer before."""
BLUR = 2.0
"""An agent sends its slopes times a private factor between 1/BLUR and BLUR."""
FLAT = 1e-3
"""A cost whose least curvature is below this fraction of its largest is flat in that direction."""
PULL = 0.2
"""Curvature that is added to a flat cost, as a fraction of `Cost.steepest` over the width of the
box."""

_START, _SLOPES, _FIRST_ANSWER = 0, 1, 2
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


class Responder:
    """One agent: A float64[m, k] of all its couplings, its cost and its set, which is bounded.

    A cost that is flat in some direction has no unique best point, and its answers would jump. Its
    agent answers with the best point of `f + pull/2 |x - centre|²` instead, and moves the centre to
    its current point when all agents do (`recentre`): a proximal method of multipliers (Rockafellar
    1976).

    `bound` is the largest magnitude that a slot holds: slopes and regrets, which the data could
    make larger, are clipped to it, so that no overflow depends on data. `uniform` draws the haze,
    which `haze=False` leaves out, so that attacks can show what it is for; `own` draws the part of
    it that stays the same over jobs, without which all is drawn anew. Raises ValueError when the
    box is unbounded, and for numbers that are not finite.
    """

    def __init__(
        self,
        A: Floats,
        cost: Cost,
        domain: ConvexSet,
        bound: float,
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
        self._A, self._cost, self._bound, self._uniform, self._own = A, cost, bound, uniform, own
        self._domain = domain
        self._haze = 1.0 if haze else 0.0
        least, most = cost.curvatures(self._lower, self._upper)
        self._pull = self._needed_pull(least, most)
        self._H: Floats = least + self._pull * np.eye(size)
        start = uniform(size) if own is None else own(_START, size)
        self.x: Floats = domain.project(self._lower + (self._upper - self._lower) * start)
        """What this agent contributes: at the end its optimum."""
        self._best = self._centre = self.x
        self._answers = 0

    def _needed_pull(self, least: Floats, most: Floats) -> float:
        """The curvature to add to a cost whose Hessian lies between these matrices; zero for one
        that is strongly convex."""
        width = float(np.max(self._upper - self._lower)) or 1.0
        largest = max(float(np.linalg.eigvalsh(most)[-1]), 0.0)
        steepest = self._cost.steepest(self._lower, self._upper)
        pull = PULL * max(steepest / width, largest * FLAT) or 1.0
        flat = np.linalg.eigvalsh(least)[0] < FLAT * max(largest, pull)
        return pull if flat else 0.0

    def recentre(self) -> None:
        """Move the centre of a flat cost's pull to the agent's current point; a strongly convex
        cost has no pull."""
        self._centre = self.x

    def slopes(self) -> Floats:
        """The most by which this agent's part of each sum falls with the sum's own price: the
        diagonal of `A H^-1 A'`, float64[m], where H is a lower bound of its curvature, times a
        private factor, which hides how steep this agent's cost is."""
        exact = np.sum(self._A * np.linalg.solve(self._H, self._A.T).T, axis=1)
        factor = BLUR ** (2 * self._drawn(_SLOPES, 1)[0] - 1) if self._haze else 1.0
        slopes: Floats = np.clip(exact * factor, 0.0, self._bound)
        return slopes

    def answer(self, prices: Floats) -> Floats:
        """float64[m + 1]: A x for this agent's next x, and its regret: how much more x costs at
        these prices (float64[m]) than the best point."""
        p = self._A.T @ prices
        self._best = self._cost.minimum(self._domain, p, self._pull, self._centre, self._best)
        share = 1 - self._haze * self._drawn(_FIRST_ANSWER + self._answers, self.x.size)
        self._haze *= THINNING
        self._answers += 1
        self.x = self._domain.project(self.x + share * (self._best - self.x))
        regret = self._cost.regret(self._domain, self.x, self._best, p, self._pull)
        return np.append(self._A @ self.x, min(max(regret, 0.0), self._bound))

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
        }
        return {**points, "haze": self._haze, "answers": self._answers}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.x, self._best, self._centre = (
            np.array(state[name]) for name in ("x", "best", "centre")
        )
        self._haze = state["haze"]
        self._answers = state.get("answers", 0)  # older versions did not count answers

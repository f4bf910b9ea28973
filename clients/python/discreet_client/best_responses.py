"""An agent's answers to prices, for `method: auto`: the point of its box that is best at a price,
told in a haze.

An exact best response depends on nothing but the price. At a price that two jobs have in common,
zero say, the same agents answer the same, and the sum of a job less that of the same job without
one of them is that one's answer. So what an agent contributes, w, starts at a point of its box that
it draws for itself, and goes toward the best response by shares that it draws for itself, one for
each variable and round: `w += share (best - w)`, share uniform in `[1 - 2^-k, 1]` in answer k = 0,
1, … Of the start a part of at most 2^-(k(k-1)/2) is left after k answers: the haze is thick in the
first sums and gone in the last, where the method must be exact.

A haze that is drawn anew in every job vanishes in the mean of many. So a part of it is the agent's
own (`own_haze`): the start, and half of what decides each share and the factor of its slopes,
follow from its private key, its data and the agents on the roster. What many jobs of the same
agents tell then stays as hazy as that. The other half is drawn anew: where nothing of it were, the
difference of two jobs in which one agent alone has other data would be its answer, without the haze
of all others.
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
"""The n-th draw of so many numbers, the same whenever it is asked for."""

THINNING = 0.5
"""The haze of an answer, in parts of that of the one before."""
BLUR = 2.0
"""An agent's slopes are told times a private factor between 1/BLUR and BLUR."""
FLAT = 1e-3
"""A cost whose least curvature is below this part of its largest is flat in that direction."""
PULL = 0.2
"""Curvature that a flat cost is lent, in parts of the largest price that its agent minds over the
width of its box."""

_START, _SLOPES, _FIRST_ANSWER = 0, 1, 2
"""Of an agent's own draws."""


def system_uniform(size: int) -> Floats:
    """float64[size] uniform in [0, 1), from the operating system."""
    return _uniform_of(secrets.token_bytes(8 * size))


def own_haze(secret: bytes, cost: Cost, domain: ConvexSet, members: Sequence[bytes]) -> Own:
    """Draws uniform in [0, 1) that follow from an agent's private key, what is its own of the
    problem, and the keys on the roster: HMAC-SHA-256 of these keys SHAKE-256.

    Not from A, c and d, which an operator may vary without the agents' doing. Another roster gives
    another haze: by the same one two jobs, in the second of which an agent is replaced, would
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

    A cost that is flat in some direction has no single best point, and answers that jump. Its agent
    answers with the best point of `f + pull/2 |x - centre|²` instead, and moves the centre to where
    it is when all agents do (`recentre`): a proximal method of multipliers (Rockafellar 1976).

    `bound` is the largest magnitude that a slot holds: what could be larger because of the data,
    slopes and regrets, is cut off there, so that no overflow depends on data. `uniform` draws the
    haze, which `haze=False` leaves out, for attacks to show what it is for; `own` draws the part of
    it that stays the same over jobs, without which all is drawn anew. Raises ValueError when the
    box has not two ends, and for numbers that are not finite.
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
            raise ValueError("method auto needs boxes with two ends")
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
        """Zero for a cost that is strongly convex: whose curvatures lie between these matrices."""
        width = float(np.max(self._upper - self._lower)) or 1.0
        largest = max(float(np.linalg.eigvalsh(most)[-1]), 0.0)
        steepest = self._cost.steepest(self._lower, self._upper)
        pull = PULL * max(steepest / width, largest * FLAT) or 1.0
        flat = np.linalg.eigvalsh(least)[0] < FLAT * max(largest, pull)
        return pull if flat else 0.0

    def recentre(self) -> None:
        """Let a flat cost pull toward where the agent is now; nothing where it is strongly
        convex."""
        self._centre = self.x

    def slopes(self) -> Floats:
        """How much this agent's part of each sum falls with the sum's own price, at most: the
        diagonal of `A H^-1 A'`, float64[m], H below its curvature, times a private factor. The
        factor hides in how it starts how steep this agent's cost is."""
        exact = np.sum(self._A * np.linalg.solve(self._H, self._A.T).T, axis=1)
        factor = BLUR ** (2 * self._drawn(_SLOPES, 1)[0] - 1) if self._haze else 1.0
        slopes: Floats = np.clip(exact * factor, 0.0, self._bound)
        return slopes

    def answer(self, prices: Floats) -> Floats:
        """float64[m + 1]: A x for this agent's next x, and its regret: how much more x costs at
        these prices (float64[ m]) than what is best at them."""
        p = self._A.T @ prices
        self._best = self._cost.minimum(self._domain, p, self._pull, self._centre, self._best)
        share = 1 - self._haze * self._drawn(_FIRST_ANSWER + self._answers, self.x.size)
        self._haze *= THINNING
        self._answers += 1
        self.x = self._domain.project(self.x + share * (self._best - self.x))
        regret = self._cost.regret(self._domain, self.x, self._best, p, self._pull)
        return np.append(self._A @ self.x, min(max(regret, 0.0), self._bound))

    def _drawn(self, number: int, size: int) -> Floats:
        """In [0, 1): half of it this agent's own, half drawn anew."""
        drawn = self._uniform(size)
        return drawn if self._own is None else (drawn + self._own(number, size)) / 2

    def state(self) -> dict[str, Any]:
        """For another process, as JSON. Private: x is in it."""
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
        self._answers = state.get("answers", 0)  # an older version's haze is all drawn anew

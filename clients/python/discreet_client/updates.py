"""The steps that agents compute where their data are, for coupled quadratic programs and
multi-agent problems through a cloud.

**Quadratic programs**: the shrunken primal-dual subgradient method. The problem (Huo & Liu, eq. 1)
is `min ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)` with `x_i` in X_i and `Σ A_g,i x_i + d <= 0`. Two sums
couple the agents, `s = Σ A_u,i x_i + c` and `l = Σ A_g,i x_i + d`; from these each agent computes
its next x_i and the next multipliers, which are the same for all (eq. 4).
`discreet.solvers.saddle.spds` runs the same class on plain sums.

**Multi-agent problems** (Hale & Egerstedt 2015): `agent_step` and the step sizes that agents and
cloud share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client.convex_sets import ConvexSet
from discreet_client.costs import Cost

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """Step sizes: `primal` alpha > 0, `dual` beta > 0, `shrink` tau in (0, 1]; `regularization` >=
    0 adds `ε/2 |x|²` to each cost and subtracts `ε/2 |λ|²` (Koshal, Nedić, Shanbhag 2011), which
    moves the solution by O(ε).
    """

    primal: float
    dual: float
    shrink: float = 1.0
    regularization: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.primal < np.inf and 0 < self.dual < np.inf):
            raise ValueError(f"steps must be positive: primal {self.primal}, dual {self.dual}")
        if not 0 < self.shrink <= 1:
            raise ValueError(f"shrink must lie in (0, 1], not {self.shrink}")
        if not 0 <= self.regularization < np.inf:
            raise ValueError(f"regularization must not be negative: {self.regularization}")


class Participant:
    """One agent of the problem: its data, its x (float64[k]) and its copy of the multipliers
    (float64[m_g]).

    A_u float64[m_u, k], A_g float64[m_g, k]; m_u or m_g may be 0. It starts at the point of its set
    closest to zero. If a part of its cost has unbounded curvature, the projection of a step becomes
    a proximal step with this part (Combettes & Wajs 2005). Raises ValueError when shapes disagree,
    and for tau < 1 with such a part, a budget or a polytope, where the shrunken step has other
    fixed points.
    """

    def __init__(
        self, A_u: Floats, A_g: Floats, cost: Cost, domain: ConvexSet, steps: Steps
    ) -> None:
        self.A_u, self.A_g = np.asarray(A_u, dtype=np.float64), np.asarray(A_g, dtype=np.float64)
        size = self.A_u.shape[-1]
        shapes = self.A_u.ndim, self.A_g.ndim, self.A_g.shape[-1], cost.size
        if shapes != (2, 2, size, size):
            raise ValueError("A_u, A_g, A_q and a_l need one column for each variable of the agent")
        if (domain.flat or cost.kinked) and steps.shrink < 1:
            raise ValueError(
                "within a budget or polytope, and with costs that have kinks, shrink must be 1"
            )
        self.cost, self.domain, self.steps = cost, domain, steps
        # Steps shrink toward the point of the set nearest to zero, which is zero, as in the paper,
        # if the set contains it.
        self._origin = domain.project(np.zeros(size))
        if self._origin.shape != (size,):
            raise ValueError("the set has another dimension than x")
        self.x = self._origin.copy()
        self.multipliers = np.zeros(self.A_g.shape[0])

    def contribution(self) -> Floats:
        """`(A_u x, A_g x)`, float64[m_u + m_g], the agent's part of the secure sum."""
        return np.concatenate([self.A_u @ self.x, self.A_g @ self.x])

    def update(self, sums: Floats) -> None:
        """One step (eq. 4), given `(Σ A_u x + c, Σ A_g x + d)` at everybody's current x."""
        coupled, excess = sums[: self.A_u.shape[0]], sums[self.A_u.shape[0] :]
        steps, origin, domain = self.steps, self._origin, self.domain
        gradient = (
            self.A_u.T @ coupled
            + self.cost.gradient(self.x)
            + self.A_g.T @ self.multipliers
            + steps.regularization * self.x
        )
        inner = origin + steps.shrink * (self.x - origin) - steps.primal * gradient
        inner = self.cost.proximal(domain, inner, steps.primal)
        if steps.shrink < 1:
            inner = domain.project(origin + (inner - origin) / steps.shrink)
        self.x = inner
        ascent = excess - steps.regularization * self.multipliers
        self.multipliers = (
            np.maximum(steps.shrink * self.multipliers + steps.dual * ascent, 0.0) / steps.shrink
        )


class Rounds:
    """A participant as the `Update` of a secure sum: `iterations` steps, or fewer once the sums
    have settled.

    With `threshold` > 0 it ends when no sum and no multiplier has moved by more than that since the
    round before, without a further step: all agents see the same sums and end together, and the
    operator learns when.

    `trend` follows the sums, and says at the end whether they have settled.
    """

    def __init__(self, participant: Participant, iterations: int, threshold: float = 0.0) -> None:
        self.participant, self.iterations, self.threshold = participant, iterations, threshold
        self.done = 0
        self.trend = Trend(participant.A_u.shape[0])
        self._last: Floats | None = None
        self._moved: Floats = np.zeros(0)
        """The last change of the multipliers."""

    def __call__(self, sums: Floats | None) -> Floats | None:
        """The next contribution, or None at the end."""
        if sums is not None:
            if self._last is not None and 0 < self.threshold >= float(
                np.max(np.abs(np.concatenate([sums - self._last, self._moved])))
            ):
                return None
            before = self.participant.multipliers
            self.participant.update(sums)
            self._moved = self.participant.multipliers - before
            self.trend.follow(sums)
            self._last = sums
            self.done += 1
        return None if self.done == self.iterations else self.participant.contribution()

    @property
    def x(self) -> Floats:
        return self.participant.x

    @property
    def multipliers(self) -> Floats:
        return self.participant.multipliers

    @property
    def moving(self) -> float:
        """See `Trend.moving`."""
        return self.trend.moving

    @property
    def violation(self) -> float:
        """See `Trend.violation`."""
        return self.trend.violation

    def settled(self, tolerance: float) -> bool:
        """See `Trend.settled`."""
        return self.trend.settled(tolerance)

    @property
    def why(self) -> str:
        """The sentence that says why the sums have not settled."""
        return (
            f"after {self.done} rounds the sums still move by {self.moving:.2g} of the longest "
            f"move, and the constraints are broken by {self.violation:.2g} of the largest sum: x "
            "is no optimum. It takes more iterations, other steps, or constraints that can be "
            "satisfied"
        )

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process. Private: it holds x."""
        x, multipliers = self.participant.x.tolist(), self.participant.multipliers.tolist()
        return {"x": x, "multipliers": multipliers, "done": self.done, "trend": self.trend.state()}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.participant.x, self.participant.multipliers = (
            np.array(state["x"]),
            np.array(state["multipliers"]),
        )
        self.done = state["done"]
        if "trend" in state:  # older versions did not keep it
            self.trend.resume(state["trend"])


WINDOW = 10
"""How many successive moves must all be small, since an oscillation stands still where it turns."""
ROUNDING = 1e-9
"""Moves below this fraction of the largest entry of any sum are rounding of the fixed point."""


class Trend:
    """Whether the opened sums still move, and whether they satisfy the constraints, which everybody
    who sees them can compute.

    A short move alone means little, since short steps make short moves. The last moves are compared
    with the longest of the run: a contraction by rho a round makes them rho^rounds of it, whatever
    the steps, while an iteration that creeps, oscillates or diverges keeps moving.
    """

    def __init__(self, coupled: int) -> None:
        self.coupled = coupled
        """The number of entries before those of the constraints, which must be at most 0."""
        self.last: Floats | None = None
        self.recent: list[float] = []
        """Lengths of the last moves, newest last."""
        self.longest = self.largest = 0.0

    def follow(self, sums: Floats) -> None:
        """Take the next sums, float64[m_u + m_g]."""
        if self.last is not None:
            moved = float(np.max(np.abs(sums - self.last), initial=0.0))
            self.recent = [*self.recent, moved][-WINDOW:]
            self.longest = max(self.longest, moved)
        self.largest = max(self.largest, float(np.max(np.abs(sums), initial=0.0)))
        self.last = sums

    @property
    def moving(self) -> float:
        """The longest of the last moves as a fraction of the longest of the run; infinite before
        there are enough."""
        if len(self.recent) < WINDOW:
            return math.inf
        moved = max(self.recent)
        return 0.0 if moved <= ROUNDING * self.largest else moved / self.longest

    @property
    def violation(self) -> float:
        """The largest violation of a constraint in the last sums, as a fraction of the largest
        entry of any sum."""
        if self.last is None:
            return math.inf
        above = float(np.max(self.last[self.coupled :], initial=0.0))
        return above / self.largest if above > 0 else 0.0

    def settled(self, tolerance: float) -> bool:
        """Whether the sums stand still and satisfy the constraints, both within the tolerance."""
        return max(self.moving, self.violation) <= tolerance

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process."""
        last = None if self.last is None else self.last.tolist()
        return {
            "last": last,
            "recent": self.recent,
            "longest": self.longest,
            "largest": self.largest,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        self.last = None if state["last"] is None else np.array(state["last"])
        self.recent, self.longest, self.largest = (
            list(state["recent"]),
            state["longest"],
            state["largest"],
        )


# Multi-agent problems through a cloud -------------------------------------------------------------


def tikhonov_sizes(k: int, gamma: float, alpha: float, c1: float, c2: float) -> tuple[float, float]:
    """gamma_k = gamma k^-c1 and alpha_k = alpha k^-c2 of step k = 1, 2, … (eq. 7)."""
    return gamma * math.exp(-c1 * math.log(k)), alpha * math.exp(-c2 * math.log(k))


def agent_step(
    state: float,
    slope: float,
    gradient: Sequence[float],
    multipliers: Sequence[float],
    gamma: float,
    alpha: float,
    lower: float,
    upper: float,
) -> float:
    """An agent's next state, eq. (15), from its own slope f_i'(x_i), and dG/dx_i (`gradient`) and
    mu (`multipliers`) from the cloud. In plain Python."""
    pull = slope
    for entry, multiplier in zip(gradient, multipliers, strict=True):
        pull += entry * multiplier
    return min(max(state - gamma * (pull + alpha * state), lower), upper)


def vector_step(
    state: Floats, slope: Floats, gradient: Floats, multipliers: Floats, gamma: float, alpha: float
) -> Floats:
    """`agent_step` for a vector state, float64[d], before its projection onto the agent's set.
    `slope`: float64[d]; `gradient`: float64[m, d]."""
    moved: Floats = state - gamma * (slope + multipliers @ gradient + alpha * state)
    return moved

"""The steps of agents of coupled quadratic programs, which they compute where their data are: the
shrunken primal-dual subgradient method.

The problem (Huo & Liu, eq. 1) is `min ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)` with `x_i` in X_i and
`Σ A_g,i x_i + d <= 0`. Two sums couple the agents, `s = Σ A_u,i x_i + c` and `l = Σ A_g,i x_i + d`;
from these each agent computes its next x_i and the next multipliers, which are the same for all
(eq. 4). `discreet.solvers.saddle.spds` runs the same class on plain sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.best_responses import Uniform, system_uniform
from discreet_agent.convex_sets import ConvexSet
from discreet_agent.costs import Cost
from discreet_agent.settling import Asked, Certificate, Own, nearest

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
    """A participant as the `Update` of a secure sum: `iterations` steps, and if agents are `asked`
    whether the sums have settled, two more sums in which the operator has no part
    (`discreet_agent.settling`). `uniform` draws what hides the agent's sizes."""

    def __init__(
        self,
        participant: Participant,
        iterations: int,
        asked: Asked | None = None,
        uniform: Uniform = system_uniform,
    ) -> None:
        self.participant, self.iterations = participant, iterations
        self._uniform = uniform
        self.done = 0
        """The number of steps."""
        self._last: Floats = np.zeros(0)
        """The sums of the last step."""
        self._moved: Floats = np.zeros(0)
        """By how much it moved x."""
        self._end = None if asked is None else Certificate(asked, participant.A_u.shape[0])

    def __call__(self, sums: Floats | None) -> Floats | None:
        """The next contribution, or None at the end."""
        one, end = self.participant, self._end
        if sums is not None:
            if self.done < self.iterations:
                before = one.x
                one.update(sums)
                self._last, self._moved = sums, one.x - before
                self.done += 1
            elif end is not None:
                end.follow(sums)
        if self.done < self.iterations:
            return one.contribution()
        if end is None or end.votes is not None:
            return None
        if end.sizes is None:
            own_x = one.x - nearest(one.domain)
            return end.row_sizes(np.vstack([one.A_u, one.A_g]), own_x, self._uniform)
        own = Own(one.A_u, one.A_g, one.cost, one.domain, one.steps.regularization)
        return end.vote(
            not own.has_settled(
                end.asked, end.sizes, self._last, one.multipliers, one.x, self._moved
            )
        )

    @property
    def x(self) -> Floats:
        return self.participant.x

    @property
    def multipliers(self) -> Floats:
        return self.participant.multipliers

    @property
    def alone(self) -> bool:
        """Whether the sum of the last contribution is of the agents alone: the two at the end."""
        return self.done >= self.iterations

    def natural(self, entry: int, value: float) -> float:
        """A value of an entry in the unit of the problem, in which sums are."""
        return value

    @property
    def opened(self) -> int:
        """The number of sums."""
        end = self._end
        return self.done + (end is not None and (end.sizes is not None) + (end.votes is not None))

    @property
    def violations(self) -> Floats:
        """By how much the last step's sums exceed each constraint, float64[m_g], in its unit."""
        return np.maximum(self._last[self.participant.A_u.shape[0] :], 0.0)

    def settled(self, tolerance: float) -> bool:
        """Whether all agents' x and the sums are within the tolerance that was asked for."""
        assert self._end is not None
        assert tolerance == self._end.asked.tolerance
        return self._end.settled(self._last, self.multipliers)

    @property
    def why(self) -> str:
        """The sentence that says why the sums have not settled; empty if they have."""
        if self._end is None or self._end.settled(self._last, self.multipliers):
            return ""
        cause = self._end.why(self._last, self.multipliers)
        if self._end.sizes is not None and not self._end.plausible:
            return f"after {self.done} steps nobody can say whether x is the optimum: {cause}"
        return (
            f"after {self.done} steps x is no optimum: {cause}. It takes more iterations, other "
            "steps, or constraints that can be satisfied"
        )

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process. Private: it holds x."""
        return {
            "x": self.x.tolist(),
            "multipliers": self.multipliers.tolist(),
            "done": self.done,
            "last": self._last.tolist(),
            "moved": self._moved.tolist(),
            **({} if self._end is None else {"end": self._end.state()}),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        self.participant.x, self.participant.multipliers, self._last, self._moved = (
            np.array(state[name]) for name in ("x", "multipliers", "last", "moved")
        )
        self.done = state["done"]
        if self._end is not None:
            self._end.resume(state["end"])

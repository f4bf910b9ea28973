"""Whether agents of a coupled quadratic program have reached its optimum by short steps (`spds`,
`rpds`), which two more sums tell at the end.

A move says nothing by itself: short steps make short moves, and any yardstick of the run, such as
its first sum or its largest one, holds the start and whatever is wide or large elsewhere. So every
residual is compared with what is used at the end, in its own unit:

1. *Sizes*: each agent adds `|A| |x - near|`, times a private factor between a half and one, near
   the point of its box nearest to zero: what is fixed moves with nobody's decision and hides no
   error. Row j of that sum is R_j.
2. *Votes*: an agent whose own x is not the best point of its set at the prices (u, λ) adds 1, the
   others 0. A variable counts as best where it is within `tolerance` of its own |x - near|, or
   where the difference is at most the tolerance times an average agent's part of R_j in each of its
   rows.

The sums have settled when nobody votes against it and every row of a constraint is exceeded by at
most `tolerance` R_j, and differs from its limit by no more if it has a price. What rounding to the
grid hides counts as a difference.

*Why that is enough.* Let z be the agents' best responses to y = (u, λ). They minimize the
Lagrangian, and for every optimum x* with multipliers λ*

    ½ Σ |z - x*|²_H <= ½ |u(z) - u|² + λ'|g(z)| + λ*'g(z)₊ ,

H the agents' own curvature. By the votes x, and so each row, differs from z by `tolerance` of its
size, and the right side is of the order `½ tolerance² Σ R² + tolerance Σ (λ + λ*) R`. None of the
numbers that are compared changes with the unit of a row, of a variable or of money, with a wider
box, or with another row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.arithmetic import box_minimum
from discreet_agent.convex_sets import Box, ConvexSet
from discreet_agent.costs import ConvexCost, Cost, QuadraticCost

Floats = NDArray[np.float64]

SUMS = 2
"""The sums that are opened after the last step, if agents say whether they have settled."""
FLAT = 1e-3
"""An agent's own curvature below this fraction of that which its part of the sums adds is flat, and
tells nothing of its x: then both count, at this fraction of the tolerance."""
SINGULAR = 1e-9
"""Curvature below this fraction of a variable's own is none."""
WINDOW = 4.0
"""Best points are searched within this multiple of an agent's own size around its x; one that is
farther away is not within any tolerance."""


@dataclass(frozen=True)
class Asked:
    """What agents are asked: whether the sums have settled within `tolerance`.

    `agents`: how many there are; `bound`: the largest entry of a contribution, and a vote;
    `rounding`: how far the grid may move an entry of a sum; `ceiling`: the largest that the sizes
    may be by the bounds that the owner has signed, float64[m], if it has.
    """

    tolerance: float
    agents: int
    bound: float
    rounding: float
    ceiling: Floats | None = None


class Certificate:
    """The end of a run, from the last sums that steps were made from: sizes, votes, and what
    follows from them. `coupled`: the number of rows of u."""

    def __init__(self, asked: Asked, coupled: int) -> None:
        self.asked, self.coupled = asked, coupled
        self.sizes: Floats | None = None
        """R, float64[m]; None until it was opened."""
        self.votes: int | None = None
        """The number of agents whose own x has not settled."""

    def row_sizes(self, A: Floats, x: Floats, uniform: Callable[[int], Floats]) -> Floats:
        """An agent's part of the sum of sizes, float64[m]; x from the point of its box nearest to
        zero. `uniform` draws its factor, in [0, 1): of an agent from the session's draws, so that
        it says the same when it is asked again."""
        factor = 1 - uniform(1)[0] / 2
        sizes: Floats = np.minimum(np.abs(A) @ np.abs(x) * factor, self.asked.bound)
        return sizes

    def vote(self, against: bool) -> Floats:
        """An agent's part of the sum of votes, float64[m]: in its first entry."""
        assert self.sizes is not None
        vote = np.zeros(self.sizes.size)
        vote[0] = self.asked.bound * against
        return vote

    def follow(self, sums: Floats) -> None:
        """Take the next of the two sums."""
        if self.sizes is None:
            self.sizes = sums
        else:
            self.votes = round(float(sums[0]) / self.asked.bound)

    def residuals(self, sums: Floats, multipliers: Floats) -> Floats:
        """By how much each row of a constraint is exceeded, or differs from its limit at a price
        above zero, float64[m_g], in its own unit."""
        excess = sums[self.coupled :]
        return np.where(multipliers > 0, np.abs(excess), np.maximum(excess, 0.0))

    def rows_within(self, sums: Floats, multipliers: Floats) -> NDArray[np.bool_]:
        """Of each row of a constraint whether its residual is within the tolerance, bool[m_g]."""
        assert self.sizes is not None
        sizes, residuals = self.sizes[self.coupled :], self.residuals(sums, multipliers)
        unused = (sizes == 0) & (residuals <= self.asked.rounding)
        close = residuals + self.asked.rounding <= self.asked.tolerance * sizes
        within: NDArray[np.bool_] = unused | close | (residuals == 0) & (sizes >= 0)
        return within

    def settled(self, sums: Floats, multipliers: Floats) -> bool:
        """What all agents say, from sums alone."""
        if self.sizes is None or self.votes != 0 or not self.plausible:
            return False
        return bool(np.all(self.rows_within(sums, multipliers)))

    @property
    def plausible(self) -> bool:
        """Whether the sizes can be those of honest agents."""
        assert self.sizes is not None
        ceiling = np.inf if self.asked.ceiling is None else self.asked.ceiling * (1 + 1e-9)
        return bool(np.all((self.sizes >= 0) & (self.sizes <= ceiling + self.asked.rounding)))

    def why(self, sums: Floats, multipliers: Floats) -> str:
        """Why the sums have not settled."""
        if self.sizes is None or self.votes is None:
            return "the agents were not asked"
        if not self.plausible:
            return "the sizes of the rows cannot be those of agents that follow the protocol"
        said = []
        if self.votes:
            said.append(
                f"{self.votes} of {self.asked.agents} agents have not reached the best point at "
                "these prices"
            )
        hidden = (self.sizes > 0) & (self.asked.tolerance * self.sizes < self.asked.rounding)
        for row in np.flatnonzero(hidden[: self.coupled])[:1]:
            said.append(
                f"row {row} is too small for the grid of the sums: agents put "
                f"{self.sizes[row]:.3g} into it"
            )
        beyond = np.flatnonzero(~self.rows_within(sums, multipliers))
        if beyond.size:
            row = int(beyond[0])
            excess, size = sums[self.coupled + row], self.sizes[self.coupled + row]
            how = "is exceeded by" if excess > 0 else "has a price and is below its limit by"
            if size > 0 and self.asked.rounding > self.asked.tolerance * size:
                how = "is too small for the grid of the sums; it differs from its limit by"
            said.append(f"constraint {row} {how} {abs(excess):.3g}, of {size:.3g} that agents use")
        return "; ".join(said)

    def state(self) -> dict[str, Any]:
        """The state as JSON, for `resume` in another process."""
        return {"sizes": None if self.sizes is None else self.sizes.tolist(), "votes": self.votes}

    def resume(self, state: Mapping[str, Any]) -> None:
        self.sizes = None if state["sizes"] is None else np.array(state["sizes"])
        self.votes = state["votes"]


def nearest(domain: ConvexSet) -> Floats:
    """The point of a set's box nearest to zero, float64[k] or a number."""
    lower, upper = domain.sides
    return np.minimum(np.maximum(0.0, lower), upper)


@dataclass(frozen=True)
class Own:
    """One agent's own part, for its vote: A_u, A_g, its cost and set, and the regularization that
    the method adds to the cost."""

    A_u: Floats
    A_g: Floats
    cost: Cost
    domain: ConvexSet
    regularization: float

    def has_settled(
        self, asked: Asked, sizes: Floats, sums: Floats, prices: Floats, x: Floats, moved: Floats
    ) -> bool:
        """Whether x, float64[k], is this agent's best point at the prices of constraints,
        float64[m_g], and the sums, float64[m_u + m_g], within the tolerance. `moved`: by how much
        the last step moved x."""
        A = np.vstack([self.A_u, self.A_g])
        own = x - nearest(self.domain)
        rows = np.abs(A) @ np.abs(own)
        if np.any((rows > 0) & (asked.tolerance * sizes < asked.rounding)):
            return False  # nobody could see a difference in this row
        best, flat, bends = self._best(sums[: self.A_u.shape[0]], prices, x)
        tolerance = asked.tolerance * (FLAT if flat else 1.0)
        return self._within(tolerance, asked.agents, sizes, own, best - x, bends) and self._within(
            asked.tolerance, asked.agents, sizes, own, moved, bends
        )

    def _within(
        self, tolerance: float, agents: int, sizes: Floats, x: Floats, apart: Floats, bends: Floats
    ) -> bool:
        A = np.abs(np.vstack([self.A_u, self.A_g]))
        apart = np.abs(apart)
        if not np.all(np.isfinite(apart)):
            return False
        own = apart <= tolerance * np.abs(x)
        share = tolerance * np.maximum(sizes, 0.0)[:, None] / agents
        in_rows = np.all((A == 0) | (A * apart <= share), axis=0)
        # A variable that is in no row is compared with all of the agent's, by their curvature.
        alone = np.sqrt(bends) * apart <= tolerance * float(np.linalg.norm(np.sqrt(bends) * x))
        return bool(np.all(own | np.where(np.any(A > 0, axis=0), in_rows, alone)))

    def _best(self, u: Floats, prices: Floats, x: Floats) -> tuple[Floats, bool, Floats]:
        """The best point at these prices, near x; whether the cost is flat; and the curvature of
        each variable. To a flat cost that of the agent's own part of the sums is added."""
        size = x.size
        own = self.cost.curvatures(x, x)[0] + self.regularization * np.eye(size)
        joint = self.A_u.T @ self.A_u
        bends = np.diag(own + joint)
        bent = np.where(bends > 0, bends, 1.0)
        scaled = own / np.sqrt(np.outer(bent, bent))
        flat = bool(np.any(bends <= 0) or np.linalg.eigvalsh(scaled)[0] < FLAT)
        linear = self.A_u.T @ u + self.A_g.T @ prices
        added = self.regularization * np.eye(size)
        if flat:
            linear, added = linear - joint @ x, added + joint
        slope = self.cost.gradient(x) + linear + added @ x
        # The size of an agent: its x, or how far a step of its own would take it.
        reach = float(np.max(np.sqrt(bent) * np.abs(x), initial=0.0))
        reach = max(reach, float(np.max(np.abs(slope) / np.sqrt(bent), initial=0.0)))
        if reach == 0 and not self.cost.kinked:
            return x, flat, bends
        width = np.where(bends > 0, WINDOW * reach / np.sqrt(bent), np.inf)
        low, high = (np.broadcast_to(side, x.shape) for side in self.domain.sides)
        low, high = np.maximum(low, x - width), np.minimum(high, x + width)
        if not (np.all(np.isfinite([low, high])) and np.all(low <= high)):
            return np.full(size, np.nan), flat, bends
        return self._minimum(linear, added, low, high, x, width), flat, bends

    def _minimum(
        self, linear: Floats, added: Floats, low: Floats, high: Floats, x: Floats, width: Floats
    ) -> Floats:
        """The least of `f(z) + ½ z'added z + linear'z` in the set between low and high."""
        quadratic, terms = (
            (self.cost.quadratic, self.cost.terms)
            if isinstance(self.cost, ConvexCost)
            else (self.cost, ())
        )
        assert isinstance(quadratic, QuadraticCost)
        H, p = quadratic.curvature + added, quadratic.a_l + linear
        diagonal = np.diag(H)
        plain = not terms and isinstance(self.domain, Box) and bool(np.all(diagonal > 0))
        if plain:
            unit = np.where(np.isfinite(width), width, 1.0)
            scaled = H / np.sqrt(np.outer(diagonal, diagonal))
            if float(np.linalg.eigvalsh(scaled)[0]) > SINGULAR:
                # In units in which x and slopes are about 1.
                money = float(np.max(diagonal * unit**2))
                bent = H * np.outer(unit, unit) / money
                found = box_minimum(bent, p * unit / money, low / unit, high / unit, x / unit)
                return np.clip(found * unit, low, high)
        from discreet_agent.convex_programs import convex_minimum  # noqa: PLC0415 - where a cut is

        return convex_minimum(_Cut(self.domain, low, high), H, p, terms, x)


@dataclass(frozen=True)
class _Cut:
    """A set within narrower bounds."""

    domain: ConvexSet
    low: Floats
    high: Floats

    @property
    def sides(self) -> tuple[Floats, Floats]:
        return self.low, self.high

    @property
    def rows(self) -> tuple[Floats, Floats, Floats]:
        return self.domain.rows

"""Algorithm 1 of Tsao et al. 2022: one projected gradient step on the routing of all pairs for each
period observed.

    terms = Terms.of(network, latency, regularization, max_total, max_pair)
    steps = terms.step_sizes(periods)
    x     = descend(flows, terms, steps, demand)     demand(k): float64[p], the trips of period k by
                                                     pair
    s     = sensitivity(terms, steps, flows.error_bound())

x[p, m] are unit flows: the share of a trip of each pair on each link. With trips Lambda of a
period, link flows `y = Lambda'x` and affine latency `t(y) = c + q y` the objective is the
regularized travel time

    F(x, Lambda) = y'(q y + c) + alpha/2 |x|²,    grad F = Lambda (2 q y + c) + alpha x

(eq. 11 and Section 3.4). `docs/papers.md` lists the paper's errors; this is the corrected
algorithm:

- line 6 descends (`x - eta grad F`), and steps run over k = 1..N;
- every ordered pair of distinct zones has a unit flow, whether it has trips or not, and 0 <= x <= 1
  (without the upper bound flow may go round in circles, and no bound on the gradient's change
  exists);
- the Hessian is `2 Lambda Lambda' (x) q + alpha I`, so for all allowed data F is L-smooth with
  `L = 2 max(q) max_pair max_total + alpha`; the paper's beta is half of it, and made from the data;
- one trip more changes `grad F` by at most C in l2, `gradient_change`; the paper puts C = beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.traffic.shortest_paths import Floats
from discreet.solvers.traffic.traffic_assignment import Latency, Network, costs_of
from discreet.solvers.traffic.unit_flow_projection import TOLERANCE, UnitFlows

ROUNDING = 1e-9
"""Allowance for floating-point errors of a step, relative to its length: far more than they are."""


@dataclass(frozen=True)
class Terms:
    """The objective, and public bounds of all allowed data.

    `constant` c, `slope` q: float64[m], of the affine latencies. `regularization`: alpha > 0.
    `max_total`, `max_pair`: public bounds on the trips of one period, of all pairs and of one.
    """

    constant: Floats
    slope: Floats
    regularization: float
    max_total: float
    max_pair: float

    @classmethod
    def of(
        cls,
        network: Network,
        latency: Latency,
        regularization: float,
        max_total: float,
        max_pair: float,
    ) -> Terms:
        """Raises InvalidArgument for a latency that is not affine."""
        costs = costs_of(network, latency, "user_equilibrium")
        if ((costs.power != 1) & (costs.scale > 0)).any():
            raise InvalidArgument("the gradient method needs an affine latency")
        return cls(
            costs.free,
            costs.scale / costs.capacity,
            regularization,
            max_total,
            min(max_pair, max_total),
        )

    @property
    def smoothness(self) -> float:
        """L: `|Lambda|_2² <= max_pair max_total`, and the Hessian's other part is alpha I."""
        return 2 * float(self.slope.max()) * self.max_pair * self.max_total + self.regularization

    @property
    def gradient_change(self) -> float:
        """C: the most that `grad F` changes in l2 when one trip of one pair is added to a period,
        at any x in [0, 1].

        It changes in the pair's own block by `(2 q y + c) + 2 (lambda + 1) q x`, in the others by
        `2 lambda q x`, where x is the unit flow of the pair; y <= max_total and lambda + 1 <=
        max_pair link by link.
        """
        slope, constant = float(np.linalg.norm(self.slope)), float(np.linalg.norm(self.constant))
        own = 2 * slope * self.max_total + constant + 2 * self.max_pair * slope
        others = 4 * self.max_pair * self.max_total * slope**2
        return math.sqrt(own**2 + others)

    def step_sizes(self, periods: int) -> Floats:
        """Line 5: eta_k = min(1/(alpha k), min(1, 2 alpha)/L), k = 1..N; never above 1/L."""
        alpha = self.regularization
        return np.minimum(
            1 / (alpha * np.arange(1, periods + 1)), min(1.0, 2 * alpha) / self.smoothness
        )

    def reach(self, steps: Floats) -> float:
        """Upper bound of the absolute value of every entry of a projected point `x - eta grad F`,
        for any allowed data."""
        slope, constant = float(self.slope.max()), float(self.constant.max())
        steepest = self.max_pair * (2 * slope * self.max_total + constant) + self.regularization
        return 1 + float(np.max(steps)) * steepest

    def gradient(self, x: Floats, trips: Floats) -> Floats:
        """`grad F(x, Lambda)`: float64[p, m] at x for `trips` float64[p]."""
        marginal = 2 * self.slope * (trips @ x) + self.constant
        change: Floats = self.regularization * x
        change += trips[:, None] * marginal
        return change


def descend(
    flows: UnitFlows,
    terms: Terms,
    steps: Floats,
    demand: Callable[[int], Floats],
    start: Floats,
    *,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] | None = None,
) -> Floats:
    """x_N: float64[p, m] from `start`, which is public. Raises the errors of a projection."""
    x, potentials = start, None
    for period, step in enumerate(steps.tolist()):
        near = flows.project(x - step * terms.gradient(x, demand(period)), potentials, tolerance)
        x, potentials = near.flow, near.potentials
        if progress is not None:
            progress(period + 1, len(steps))
    return x


def rounding_bound(terms: Terms, steps: Floats, pairs: int, links: int) -> float:
    """How far in l2 a computed point may be from the exact one: some units in the last place of
    `reach` in each entry, and those of a sum over all pairs."""
    return float(2.0**-52 * (8 * terms.reach(steps) + pairs) * math.sqrt(pairs * links))


def sensitivity(terms: Terms, steps: Floats, projection_error: float) -> float:
    """How far x_N may move in l2 if one trip is added to one period.

    A step with eta <= 1/L shrinks the distance of two runs by 1 - eta alpha (F is alpha-strongly
    convex and L-smooth, Nesterov 2004, Theorem 2.1.12), and projections do not increase it. The
    trip adds eta_t C in its period t, so the exact sensitivity is

        s = C max_t eta_t prod_{k > t} (1 - eta_k alpha)

    to which each projection, of which only the residual is known to be small, adds at most twice
    `projection_error` (to which a caller adds `rounding_bound`).
    """
    left = 1 - steps * terms.regularization
    later = np.concatenate([np.cumprod(left[::-1])[::-1][1:], [1.0]])
    exact = terms.gradient_change * float(np.max(steps * later))
    return (exact + 2 * projection_error * float(np.sum(later))) * (1 + ROUNDING)

"""Control of an ensemble whose expected load is kept within limits: a shadow price of the limits in
each step.

Of all policies p that keep the expected load x, float64[T], x_t = sum_b m_t[b] w[b], within A x <=
c, this finds the one that earns most minus its discomfort (see `linearly_solvable_mdp`). Limits are
a feeder limit x_t <= L_t, and a ramp limit |x_{t+1} - x_t| <= R_t. In the flows f_t[b, a] = m_t[b]
p_t[b, a] this is a convex programme: the discomfort gamma sum f ln(f / (m P)) is jointly convex,
all else is linear. With multipliers y >= 0 of A x <= c the Lagrangian is

    sum_t m_t U_t - discomfort(p) - y (A x - c)
        =  sum_t m_t (U_t - pi_t w) - discomfort(p) + y c,    pi = A^T y,

the unlimited problem with a price pi_t on power in each step. So the dual function is D(y) = m_0
V_0(pi) + y c, V_0 the value of the linearly-solvable problem of utility U - pi w: convex, smooth,
with gradient c - A x(pi). At its minimum x(pi) keeps the limits and y (A x - c) = 0, and the policy
of U - pi w is the best one that does (Boyd & Vandenberghe 2004, 5.2 and 5.5).

Multipliers have an upper bound Y. Then D always has a minimum. If limits cannot be kept, its policy
has the least excess, at a cost of Y per unit (the exact penalty: Nocedal & Wright 2006, 17.2); if
they can be kept for less, nothing changes. A policy cannot keep two kinds of limits: that of step
0, whose load the start fixes, and any that no multiplier below Y meets. `excess` reports both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.solvers.control.control_policies import LEAST_SUM, Support
from discreet.solvers.errors import InvalidArgument

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEAREST = 1000.0
"""Y, the largest multiplier, relative to the largest possible value of a unit of power: the
discomfort of the least likely move plus the range of utilities, over the whole range of power."""
MOST_ITERATIONS = 3000
GRADIENT = 1e-9
"""Distance of a load from its limit at which the search ends, as a fraction of the range of
power."""
TOLERANCE = 1e-6
"""An excess up to this fraction of the range of power counts as none."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of the expected load of T steps, in the unit of the states' power; inf for no
    limit."""

    feeder: Floats
    """float64[T]: the largest load of each step."""
    ramp: Floats
    """float64[T - 1]: the largest change of the load from each step to the next."""

    def excess(self, load: Floats, scale: float) -> tuple[Floats, Floats]:
        """The excess of a load float64[T] over each limit: float64[T] and float64[T - 1], 0 where
        it is at most a fraction `TOLERANCE` of `scale`, the range of power."""
        over, faster = load - self.feeder, np.abs(np.diff(load)) - self.ramp
        return tuple(np.where(beyond > TOLERANCE * scale, beyond, 0.0) for beyond in (over, faster))  # type: ignore[return-value]

    @property
    def steps(self) -> tuple[Ints, Ints]:
        """The steps from 1 on that have a feeder limit, and those whose change to the next step has
        a ramp limit."""
        return 1 + np.flatnonzero(np.isfinite(self.feeder[1:])), np.flatnonzero(
            np.isfinite(self.ramp)
        )


def priced(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    start: Floats,
    power: Floats,
    limits: Limits,
    *,
    at: Ints | None = None,
    guess: Floats | None = None,
) -> tuple[Floats, Floats]:
    """The price of power in each step, float64[T], with which the policy of `utility - price *
    power` keeps the limits at least cost, or exceeds them least; and the multipliers. `guess` may
    be the multipliers of a similar problem.

    The price is in currency per unit of power: the value of one more unit of the limits that bind
    in that step. transitions float64[n, n], or with `at` float64[K, n, n] that alternate; the rest
    as in `solve`, start and power float64[n].
    """
    P = np.asarray(transitions, dtype=np.float64)
    P = P[None] if at is None else P
    U = np.asarray(utility, dtype=np.float64) / discomfort_weight
    horizon, n = U.shape
    if limits.feeder.shape != (horizon,) or limits.ramp.shape != (horizon - 1,):
        raise InvalidArgument(
            f"limits of {limits.feeder.size} and {limits.ramp.size} steps, of a horizon of "
            f"{horizon}"
        )
    support = Support.of(np.any(P > 0, axis=0))
    cells = np.ascontiguousarray(support.gather(P))
    turns = np.zeros(horizon - 1, dtype=np.int64) if at is None else at
    scale = float(np.ptp(power)) or 1.0
    w, m = np.asarray(power, dtype=np.float64) / scale, np.asarray(start, dtype=np.float64)
    fed, ramped = limits.steps
    c = np.concatenate([limits.feeder[fed], limits.ramp[ramped], limits.ramp[ramped]]) / scale
    cuts = [fed.size, fed.size + ramped.size]

    def prices(y: Floats) -> Floats:
        """pi = A^T y."""
        price = np.zeros(horizon)
        flat, up, down = np.split(y, cuts)
        price[fed] = flat
        price[ramped + 1] += up - down
        price[ramped] -= up - down
        return price

    log_z, sums = np.empty((horizon, n)), np.empty((horizon, n))
    spread, load = np.empty((horizon, n)), np.empty(horizon)

    def dual(y: Floats) -> tuple[float, Floats]:
        value = _priced_load(
            support.row_start,
            support.to,
            cells,
            turns,
            U,
            prices(y),
            w,
            m,
            log_z,
            sums,
            spread,
            load,
        )
        change = np.diff(load)[ramped]
        return value + float(y @ c), c - np.concatenate([load[fed], change, -change])

    least = float(cells[cells > 0].min())
    dearest = DEAREST * (1.0 - np.log(least) + float(np.ptp(U)))
    begin = np.zeros(c.size) if guess is None else np.clip(guess, 0.0, dearest)
    if c.size == 0:
        return np.zeros(horizon), begin
    from scipy.optimize import minimize  # noqa: PLC0415 - 8 MB, for who asks for limits

    found = minimize(
        dual,
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, dearest)] * c.size,
        options={
            "maxiter": MOST_ITERATIONS,
            "maxfun": 2 * MOST_ITERATIONS,
            "ftol": 0.0,
            "gtol": GRADIENT,
            "maxcor": 20,
        },
    )
    return prices(found.x) * discomfort_weight / scale, found.x


def least_loads(mask: NDArray[np.bool_], start: Floats, power: Floats, horizon: int) -> Floats:
    """The least expected load float64[T] that any policy can reach in each step considered alone,
    from `start` float64[n] by moves of the support bool[n, n]: a load goes to the state of least
    power that it can reach in that many moves."""
    least, found = np.asarray(power, dtype=np.float64), np.empty(horizon)
    for step in range(horizon):
        found[step] = start @ least
        least = np.where(mask, least, np.inf).min(axis=1)
    return found


def least_changes(mask: NDArray[np.bool_], start: Floats, power: Floats, horizon: int) -> Floats:
    """The least that the expected load must change from each step to the next, float64[T - 1], by
    any policy, each change considered alone: 0 where loads can stay constant."""
    w = np.asarray(power, dtype=np.float64)
    low = np.where(mask, w, np.inf).min(axis=1) - w
    high = np.where(mask, w, -np.inf).max(axis=1) - w
    found = np.empty(horizon - 1)
    for step in range(horizon - 1):
        found[step] = max(start @ low, -(start @ high), 0.0)
        low, high = (
            np.where(mask, low, np.inf).min(axis=1),
            np.where(mask, high, -np.inf).max(axis=1),
        )
    return found


@njit(cache=True, nogil=True)
def _priced_load(
    row_start: Ints,
    to: Ints,
    cells: Floats,
    at: Ints,
    utility: Floats,
    price: Floats,
    power: Floats,
    start: Floats,
    log_z: Floats,
    sums: Floats,
    spread: Floats,
    load: Floats,
) -> float:
    """`start @ ln z_0` of utility - price * power, both over gamma; `load` is filled with the load
    of its policy.

    log_z, sums (ln of P z) and spread: float64[T, n] work arrays. Sums are of z over its maximum;
    one that underflows is recomputed in logarithms.
    """
    horizon, n = utility.shape
    z = np.empty(n)
    for b in range(n):
        log_z[horizon - 1, b] = utility[horizon - 1, b] - price[horizon - 1] * power[b]
    for t in range(horizon - 2, -1, -1):
        after, p = log_z[t + 1], cells[at[t]]
        top = after.max()
        for a in range(n):
            z[a] = np.exp(after[a] - top)
        for b in range(n):
            total = 0.0
            for cell in range(row_start[b], row_start[b + 1]):
                total += p[cell] * z[to[cell]]
            if total >= LEAST_SUM:
                sums[t, b] = top + np.log(total)
            else:
                sums[t, b] = _log_sum(row_start[b], row_start[b + 1], to, p, after)
            log_z[t, b] = utility[t, b] - price[t] * power[b] + sums[t, b]
    for b in range(n):
        spread[0, b] = start[b]
    for t in range(horizon - 1):
        after, p = log_z[t + 1], cells[at[t]]
        top = after.max()
        for a in range(n):
            z[a] = np.exp(after[a] - top)
            spread[t + 1, a] = 0.0
        for b in range(n):
            if spread[t, b] == 0.0:
                continue
            if sums[t, b] - top > -600.0:
                share = spread[t, b] * np.exp(top - sums[t, b])
                for cell in range(row_start[b], row_start[b + 1]):
                    spread[t + 1, to[cell]] += share * p[cell] * z[to[cell]]
            else:
                for cell in range(row_start[b], row_start[b + 1]):
                    if p[cell] > 0.0:
                        moved = np.exp(np.log(p[cell]) + after[to[cell]] - sums[t, b])
                        spread[t + 1, to[cell]] += spread[t, b] * moved
    value = 0.0
    for b in range(n):
        if start[b] > 0.0:
            value += start[b] * log_z[0, b]
    for t in range(horizon):
        total = 0.0
        for b in range(n):
            total += spread[t, b] * power[b]
        load[t] = total
    return value


@njit(cache=True, nogil=True)
def _log_sum(begin: int, end: int, to: Ints, p: Floats, log_z: Floats) -> float:
    """`ln sum_a p[a] z[a]` of a row's cells."""
    largest = -np.inf
    for cell in range(begin, end):
        if p[cell] > 0.0:
            largest = max(largest, np.log(p[cell]) + log_z[to[cell]])
    total = 0.0
    for cell in range(begin, end):
        if p[cell] > 0.0:
            total += np.exp(np.log(p[cell]) + log_z[to[cell]] - largest)
    found: float = largest + np.log(total)
    return found

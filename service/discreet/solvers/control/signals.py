"""A signal that loads follow: each tilts its own next move, by what the states ahead will cost.

A signal V float64[T, n] is a cost to go. A load that would move by its own transitions P moves, at
step t, by

    q_t(a | b) = P(a | b) e_t[a] / s_t[b],   e_t[a] = exp(-(V[t+1][a] - min V[t+1]) / gamma),

s the sums of its row: it draws where it would go anyway, accepts that with probability e_t, and
else draws again. It need not know P, and neither need whoever made V: the divergence from its
habits is finite whatever P is, and an error of V costs of second order, where a policy of
probabilities made of a wrong P pays gamma times the divergence of P in every row and step. With the
V that is optimal for P (`cost_to_go`), q is the optimal policy of `linearly_solvable_mdp`.

Never below no control. Let D be the cost to go without control, C that of following V, and x the
distribution of the loads that follow. By the performance difference lemma (Kakade & Langford 2002)

    D_0 - C_0 = sum_t x_t [(P - q_t) D_{t+1} - gamma KL(q_t || P)],

and, as gamma KL(q || P) = -q·V - gamma ln(P·exp(-V / gamma)) <= (P - q)·V by Jensen,

    D_0 - C_0 >= sum_t x_t (P - q_t)·(D - V)_{t+1}.

q_t is P reweighted by a decreasing function of V, so (P - q_t)·f >= 0 for each f that is comonotone
with V (Chebyshev's sum inequality). Hence a signal whose differences have the order of D's and are
no larger (D - V comonotone with V) never costs a load more than no control, **whatever its P**. Of
other signals nothing of the kind holds: what they save is estimated.

Matrices are from (row) to (column). Nothing here is private or adds noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.control.control_policies import LEAST_SUM, DesirabilityPolicy, Policy, Support
from discreet.solvers.control.linearly_solvable_mdp import ChangingPolicy, solve_many

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST_PROBABILITY = 1e-9
"""A move that loads never make counts as one of this probability where a policy orders it: its cost
would be infinite."""


@dataclass(frozen=True)
class Outcomes:
    """What follows for loads of B matrices over T steps and n states; power in the unit of the
    states' power, costs in the currency of the utility."""

    default_power: Floats
    """float64[B, T]: expected power of a load without control."""
    expected_power: Floats
    """float64[B, T]: the same if it follows the signal."""
    cost_to_go: Floats
    """float64[B, n]: expected cost of following it from each state, discomfort included."""
    saving: Floats
    """float64[B]: expected cost without control minus that, from the initial distribution."""


def cost_to_go(
    transitions: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    at: Ints | None = None,
    prices: Floats | None = None,
    power: Floats | None = None,
) -> Floats:
    """The signals float64[B, T, n] that are optimal for transitions float64[B, n, n], or with `at`
    int64[T - 1] for float64[B, K, n, n] that alternate.

    With `prices` float64[B, T], for `power` float64[n] that costs this much more in each step.
    """
    paid = utility
    if prices is not None and power is not None:
        paid = utility - prices[:, :, None] * power
    policies = solve_many(transitions, paid, discomfort_weight, at=at)
    return np.array([-discomfort_weight * policy.log_desirability for policy in policies])


def without_control(transitions: Floats, utility: Floats, at: Ints | None = None) -> Floats:
    """The cost to go without control, float64[B, T, n]; arguments as of `cost_to_go`."""
    cost = np.empty((len(transitions), *utility.shape))
    cost[:, -1] = -utility[-1]
    for t in range(len(utility) - 2, -1, -1):
        cost[:, t] = -utility[t] + (_moves(transitions, at, t) @ cost[:, t + 1, :, None])[..., 0]
    return cost


def costs(
    transitions: Floats,
    signals: Floats,
    utility: Floats,
    discomfort_weight: float,
    *,
    at: Ints | None = None,
    steps: bool = False,
) -> Floats:
    """The expected cost from each state at step 0 of following each of the signals float64[C, T,
    n], or of [B, C, T, n] those of each world: float64[B, C, n], discomfort included; with `steps`
    from each step, float64[B, C, T, n]."""
    horizon, n = utility.shape
    tilts = _tilts(signals, discomfort_weight)
    shape = (len(transitions), n, signals.shape[-3])
    cost = np.broadcast_to(-utility[-1][:, None], shape)
    every = [cost]
    for t in range(horizon - 2, -1, -1):
        moves, tilt = _moves(transitions, at, t), tilts[..., t + 1, :].swapaxes(-1, -2)
        accepted = np.exp(tilt)
        # The divergence is the mean of the tilts less ln of their mean: 0 where nothing tilts.
        gain = discomfort_weight * tilt + cost
        some = moves @ accepted
        ahead = moves @ (accepted * gain) / np.maximum(some, LEAST_SUM)
        log_some = np.log(np.maximum(some, LEAST_SUM))
        for world, row, signal in zip(*np.nonzero(some < LEAST_SUM), strict=True):
            own = np.broadcast_to(tilt, shape)[world, :, signal]
            logs, top, total = _log_row(moves[world, row], own)
            ahead[world, row, signal] = (np.exp(logs - top) / total) @ gain[world, :, signal]
            log_some[world, row, signal] = top + np.log(total)
        cost = -utility[t][:, None] + ahead - discomfort_weight * log_some
        if steps:
            every.append(cost)
    if steps:
        return np.stack(every[::-1], axis=2).transpose(0, 3, 2, 1)
    return cost.transpose(0, 2, 1)


def savings(
    transitions: Floats,
    signals: Floats,
    utility: Floats,
    discomfort_weight: float,
    initial: Floats,
    *,
    at: Ints | None = None,
) -> Floats:
    """What following each of the signals float64[C, T, n] saves loads of each of the transitions
    against no control: float64[B, C]; exactly 0 for a signal that tells no states apart. initial:
    float64[n] or [B, n]."""
    start = np.broadcast_to(initial, (len(transitions), utility.shape[1]))
    alone = _default(transitions, utility, start, at)
    cost = costs(transitions, signals, utility, discomfort_weight, at=at)
    found: Floats = alone[:, None] - np.einsum("bn,bcn->bc", start, cost)
    found[:, np.ptp(signals, axis=-1).max(axis=-1) == 0] = 0.0  # not a rounding
    return found


def followed(
    transitions: Floats,
    signal: Floats,
    utility: Floats,
    discomfort_weight: float,
    initial: Floats,
    power: Floats,
    *,
    at: Ints | None = None,
) -> Outcomes:
    """What follows if loads of each of the transitions follow a signal float64[T, n], or of
    [B, T, n] each its own, and if they follow none."""
    tilts = np.broadcast_to(_tilts(signal, discomfort_weight), (len(transitions), *utility.shape))
    start = np.broadcast_to(initial, (len(transitions), utility.shape[1]))
    default, controlled = np.empty((2, len(utility), *start.shape))
    default[0] = controlled[0] = start
    for t in range(len(utility) - 1):
        moves, accepted = _moves(transitions, at, t), np.exp(tilts[:, t + 1])
        some = (moves @ accepted[:, :, None])[..., 0]
        default[t + 1] = (default[t][:, None] @ moves)[:, 0]
        shares = (controlled[t] / np.maximum(some, LEAST_SUM))[:, None]
        controlled[t + 1] = (shares @ moves)[:, 0] * accepted
        for world in np.flatnonzero((some < LEAST_SUM).any(axis=1)).tolist():
            controlled[t + 1, world] = controlled[t, world] @ tilted(
                moves[world], tilts[world, t + 1]
            )
    own = signal[None] if signal.ndim == 2 else signal[:, None]
    cost = costs(transitions, own, utility, discomfort_weight, at=at)[:, 0]
    saving = -np.einsum("tbn,tn->b", default, utility) - np.einsum("bn,bn->b", start, cost)
    saving = np.where(np.ptp(tilts, axis=2).max(axis=1) == 0, 0.0, saving)  # not a rounding
    return Outcomes((default @ power).T, (controlled @ power).T, cost, saving)


def follower(
    transitions: Floats, signal: Floats, discomfort_weight: float, *, at: Ints | None = None
) -> Policy:
    """How loads of transitions float64[n, n], with `at` float64[K, n, n], move that follow the
    signal float64[T, n]."""
    matrices = transitions[None] if at is None else transitions
    support = Support.of(np.any(matrices > 0, axis=0))
    with np.errstate(divide="ignore"):
        weights = np.log(support.gather(matrices))
    relative = _tilts(signal, discomfort_weight)
    level = np.zeros(len(signal))
    parts = tuple(DesirabilityPolicy(support, one, relative, level) for one in weights)
    return parts[0] if at is None else ChangingPolicy(support, parts, at)


def tilted(moves: Floats, tilt: Floats) -> Floats:
    """The transitions float64[n, n] of loads that tilt their own `moves` by ln e float64[n]."""
    with np.errstate(divide="ignore"):
        logs = np.log(moves) + tilt
    found = np.exp(logs - logs.max(axis=1, keepdims=True))
    normalized: Floats = found / found.sum(axis=1, keepdims=True)
    return normalized


def ordered(
    worlds: Sequence[Floats],
    policy: Policy,
    utility: Floats,
    discomfort_weight: float,
    start: Floats,
    *,
    at: Ints | None = None,
) -> list[Floats]:
    """What it saves to order the probabilities of a policy in place of a signal, from `start`
    float64[n]: float64[B] of each of the `worlds`, transitions as of `followed`.

    Where the loads are then follows from the policy alone, so the cost is linear in ln P; moves
    that a load never makes count as those of `LEAST_PROBABILITY`.
    """
    support, cost = policy.support, 0.0
    spread: Floats = start
    flow = np.zeros((1 if at is None else int(at.max(initial=0)) + 1, support.to.size))
    for t in range(len(utility) - 1):
        log_q = policy.log_cells(t)
        moved = spread[support.origin] * np.exp(log_q)
        cost += discomfort_weight * float(moved[moved > 0] @ log_q[moved > 0])
        cost -= float(spread @ utility[t])
        flow[0 if at is None else at[t]] += moved
        spread = np.bincount(support.to, moved, minlength=spread.size).astype(np.float64)
    cost -= float(spread @ utility[-1])
    found = []
    for moves in worlds:
        alone = _default(moves, utility, np.broadcast_to(start, (len(moves), start.size)), at)
        blocks = moves[:, None] if at is None else moves[:, : len(flow)]
        logs = np.log(np.maximum(support.gather(blocks), LEAST_PROBABILITY))
        found.append(alone - cost + discomfort_weight * np.einsum("kc,bkc->b", flow, logs))
    return found


def _tilts(signals: Floats, discomfort_weight: float) -> Floats:
    """ln e of each step, <= 0."""
    tilts: Floats = -(signals - signals.min(axis=-1, keepdims=True)) / discomfort_weight
    return tilts


def _moves(transitions: Floats, at: Ints | None, t: int) -> Floats:
    return transitions if at is None else transitions[:, at[t]]


def _default(transitions: Floats, utility: Floats, start: Floats, at: Ints | None) -> Floats:
    """The expected cost without control, float64[B]."""
    spread = start
    cost: Floats = -start @ utility[0]
    for t in range(len(utility) - 1):
        spread = (spread[:, None] @ _moves(transitions, at, t))[:, 0]
        cost = cost - spread @ utility[t + 1]
    return cost


def _log_row(moves: Floats, tilt: Floats) -> tuple[Floats, float, float]:
    """Of a row whose sum underflows: logarithms of its terms, the largest, the sum relative to
    it."""
    with np.errstate(divide="ignore"):
        logs = np.log(moves) + tilt
    top = float(logs.max())
    return logs, top, float(np.exp(logs - top).sum())

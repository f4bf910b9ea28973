"""Joint Gaussian noise on several outputs of one state: its privacy guarantee, and how to split it
between the outputs.

    joint_distance(radii, sensitivities, scales)         -> mu
    split(radii, sensitivities, weights, mu)             -> Split(scales, cost, least_cost)
    equal_split(radii, sensitivities, mu)                -> scales
    sparse_split(radii, moves, mu)                       -> scales

Outputs o = 1..p of the states x_1, …, x_n; output o has sensitivity K_oj to agent j and independent
Gaussian noise of deviation s_o in each coordinate. Let agent j's trajectory move by d_j(t) at step
t, sum_t d_j(t)² <= B_j², and nothing else. Dividing output o by s_o makes all noise standard
normal, and the squared difference of the whole transcript is

    sum_t sum_o K_oj² d_j(t)² / s_o²  <=  B_j² sum_o K_oj² / s_o²  =:  mu_j²,

so the release is mu-Gaussian-DP with mu = max_j mu_j (Dong, Roth & Su 2022), even in closed loop:
given the previous outputs, the other agents' states are fixed, and the difference in each step is
that of agent j's state. An agent's state may be a vector: then K_oj bounds ||do/dx_j||_2 over its
coordinates, d_j(t) is the l2 norm of their movement in step t, and the same statement holds.
Calibrating every output separately, as the paper does, gives each one mu_0 and all of them together
sqrt(p) mu_0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle.moves import Moves

Floats = NDArray[np.float64]

ITERATIONS = 20_000
GAP = 1e-9


@dataclass(frozen=True)
class Split:
    """Scales of the outputs (0 if no agent moves the output), their cost and a lower bound of the
    cost of any split."""

    scales: Floats
    cost: float
    least_cost: float


def joint_distance(radii: ArrayLike, sensitivities: ArrayLike, scales: ArrayLike) -> float:
    """mu of all outputs together: max_j B_j sqrt(sum_o K_oj²/s_o²), rounded up.

    `radii`: float64[n], B_j. `sensitivities`: float64[p, n], K_oj. `scales`: float64[p], s_o; an
    output without noise gives infinity, unless no agent with a positive radius moves it.
    """
    moves = _moves(radii, sensitivities)
    s = np.asarray(scales, dtype=np.float64)
    if s.shape != moves.shape[:1] or not (s >= 0).all():
        raise InvalidArgument("every output needs one nonnegative scale")
    ratio = np.divide(moves, s[:, None], out=np.where(moves > 0, np.inf, 0.0), where=s[:, None] > 0)
    distance = float(np.sqrt((ratio * ratio).sum(axis=0)).max(initial=0.0))
    return distance * (1 + 1e-15 * (len(s) + 8))


def equal_split(radii: ArrayLike, sensitivities: ArrayLike, mu: float) -> Floats:
    """Each output gets the same part of mu², at its own largest sensitivity: s_o = max_j B_j K_oj
    sqrt(p)/mu.

    This is per-output calibration made sound; p is the number of outputs that any agent moves.
    """
    moves = _moves(radii, sensitivities)
    largest = moves.max(axis=1, initial=0.0)
    outputs = int(np.count_nonzero(largest))
    return _fitted(radii, sensitivities, largest * math.sqrt(outputs), mu)


def split(radii: ArrayLike, sensitivities: ArrayLike, weights: ArrayLike, mu: float) -> Split:
    """The scales of least cost sum_o w_o s_o² with joint distance at most `mu`.

    `weights`: float64[p], > 0, the harm of a unit of variance of each output; public, never
    computed from the data. With v_o = 1/s_o² and A_jo = B_j² K_oj² the problem is: minimize sum_o
    w_o/v_o subject to A v <= mu², convex. Its dual is

        maximize over lambda >= 0: 2 sum_o sqrt(w_o (A'lambda)_o) - mu² sum_j lambda_j,
        v_o = sqrt(w_o/(A'lambda)_o),

    and the best scaling of lambda gives D(lambda) = (sum_o sqrt(w_o (A'lambda)_o))²/(mu² sum_j
    lambda_j), a lower bound of the cost of every split. lambda_j <- lambda_j (Av)_j/mu² increases
    it, like multiplicative algorithms for optimal designs (Silvey, Titterington & Torsney 1978),
    until cost and bound agree to 1e-9. With one agent s_o² ~ sqrt(A_o/w_o): by Cauchy, the cost is
    (sum_o sqrt(w_o A_o))²/mu², against p sum_o w_o A_o/mu² of the equal split, which is never less.
    """
    moves = _moves(radii, sensitivities)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != moves.shape[:1] or not ((w > 0) & (w < np.inf)).all():
        raise InvalidArgument("every output needs one positive weight")
    used = moves.max(axis=1, initial=0.0) > 0
    scales = np.zeros(len(w))
    if not used.any():
        return Split(scales, 0.0, 0.0)
    square = (moves[used] ** 2).T
    unit = w[used] / w[used].max()
    v, bound = _climbed(square / square.max(), unit)
    scales[used] = 1 / np.sqrt(v)
    fitted = _fitted(radii, sensitivities, scales, mu)
    factor = float((moves[used] ** 2).max() * w[used].max()) / mu**2
    return Split(fitted, float((w * fitted**2).sum()), bound * factor * (1 - 1e-12))


def sparse_split(radii: ArrayLike, moves: Moves, mu: float) -> Floats:
    """The scales of `split` with weights of 1, float64[outputs], for sparse sensitivities in
    coordinate format.

    They are scaled up, with the same rounding as there, until the joint distance is at most `mu`.
    """
    if not 0 < mu < math.inf:
        raise InvalidArgument("mu must be positive and finite")
    reach = moves.bound * np.asarray(radii, dtype=np.float64)[moves.column]
    if not (np.isfinite(reach).all() and (reach >= 0).all()):
        raise InvalidArgument("radii and sensitivities must be finite and nonnegative")
    scales = np.zeros(moves.size)
    kept = reach > 0
    if not kept.any():
        return scales
    used, row = np.unique(moves.row[kept], return_inverse=True)
    column, reach = moves.column[kept], reach[kept]
    shape = int(column.max()) + 1, len(used)
    square = sparse.csr_array(((reach / reach.max()) ** 2, (column, row)), shape=shape)
    v, _ = _climbed(square, np.ones(len(used)))
    found = 1 / np.sqrt(v)

    def distance(at: Floats) -> float:
        parts = np.bincount(column, (reach / at[row]) ** 2)
        return float(np.sqrt(parts.max())) * (1 + 1e-15 * (len(used) + 8))

    found = found * (distance(found) / mu)
    while distance(found) > mu:
        found = found * (1 + 2**-52)
    scales[used] = found
    return scales


def _climbed(square: Any, unit: Floats) -> tuple[Floats, float]:
    """v and the dual bound for mu = 1: `square` is A, agents by outputs, scaled to 1, dense or
    sparse."""
    dual = np.where(_largest(square) > 0, 1.0, 0.0) / square.shape[0]
    for _ in range(ITERATIONS):
        pull = square.T @ dual
        v = np.sqrt(unit / pull)
        load = square @ v
        # Both for mu = 1: the primal cost after scaling v to be feasible, and the dual bound.
        cost = float((unit / v).sum() * load.max())
        bound = float(np.sqrt(unit * pull).sum() ** 2 / dual.sum())
        if cost <= bound * (1 + GAP):
            break
        dual = dual * load / load.max()
    return v, bound


def _largest(square: Any) -> Floats:
    """Of each agent."""
    found = square.max(axis=1)
    return np.asarray(
        found if isinstance(square, np.ndarray) else found.todense(), dtype=np.float64
    ).reshape(-1)


def _moves(radii: ArrayLike, sensitivities: ArrayLike) -> Floats:
    """B_j K_oj, float64[p, n]."""
    b, k = np.asarray(radii, dtype=np.float64), np.asarray(sensitivities, dtype=np.float64)
    if k.ndim != 2 or b.shape != k.shape[1:]:
        raise InvalidArgument("sensitivities must be outputs by agents, radii one number per agent")
    if not (((b >= 0) & (b < np.inf)).all() and ((k >= 0) & (k < np.inf)).all()):
        raise InvalidArgument("radii and sensitivities must be finite and nonnegative")
    return k * b


def _fitted(radii: ArrayLike, sensitivities: ArrayLike, scales: Floats, mu: float) -> Floats:
    """`scales` times the factor that brings the joint distance to `mu`, never above it."""
    if not 0 < mu < math.inf:
        raise InvalidArgument("mu must be positive and finite")
    fitted = scales * (joint_distance(radii, sensitivities, scales) / mu)
    while joint_distance(radii, sensitivities, fitted) > mu:
        fitted = fitted * (1 + 2**-52)
    return fitted

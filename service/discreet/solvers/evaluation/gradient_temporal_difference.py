"""Noised stochastic gradients on the saddle point of the MSPBE: `w'(b - A theta) - w'Cw/2`, least theta, greatest w.

    gradient(transitions, features, discount, steps=, step_sizes=, clip=, noise_scale=, generator=, …) -> theta
    minibatch(transitions, features, discount, probability=, steps=, step_size=, clip=, noise_scale=, generator=, …)

The primal-dual gradient of a trajectory (Xie et al. 2019, eq. 4.1), in one pass over its transitions and without A_i:

    B_i(theta, w) = [ -A_i'w,  A_i theta + C_i w - b_i ]
      = 1/tau sum_t [ -rho_t (phi_t·w) (phi_t - g phi_{t+1}),
                      (rho_t ((phi_t - g phi_{t+1})·theta - R_t) + phi_t·w) phi_t ]

Noise and samples come from the generator alone; `noise_scale` is the deviation of each coordinate's noise, absolute
(the paper's h sigma). Features may be scaled to unit norm by the caller: the clip is then easier to choose.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.evaluation.feature_access import Rows, add, at, dot
from discreet.solvers.evaluation.temporal_difference import Floats, Ints, Transitions, feature_rows
from discreet.solvers.evaluation.value_features import Features


def gradient(
    transitions: Transitions,
    features: Features,
    discount: float,
    *,
    steps: int,
    step_sizes: float | Floats,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    initial: Floats | None = None,
    average_from: int | None = None,
) -> Floats:
    """GPOPE, Algorithm 1 of Xie et al.: `steps` steps, each on one trajectory drawn uniformly, with replacement.

    `step_sizes`: one figure, or (steps,) of them. Returns the last theta, as printed; with `average_from` k the mean of
    the iterates after steps k+1, …, steps. Replacing a trajectory moves a step's sum by at most 2 clip in l2; m is
    public. Starts at `initial` (2d,), theta then w, zeros when not given. No trajectory: the initial theta.
    """
    rows, next_rows = feature_rows(transitions, features)
    sizes = np.broadcast_to(np.asarray(step_sizes, dtype=np.float64), steps).copy()
    iterate = _initial(initial, features.dimension)
    return _gradient(
        transitions.trajectory_start,
        rows,
        next_rows,
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        float(discount),
        sizes,
        float(clip),
        float(noise_scale),
        generator,
        iterate,
        steps - 1 if average_from is None else int(average_from),
    )


def minibatch(
    transitions: Transitions,
    features: Features,
    discount: float,
    *,
    probability: float,
    steps: int,
    step_size: float,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    initial: Floats | None = None,
    average_from: float = 0.5,
) -> Floats:
    """Steps on Poisson samples: each trajectory takes part with `probability`, independently, in every step.

    `(theta, w) -= step_size (sum of clipped B_i + noise)`: the SUM over the sample, nothing is divided by a number of
    trajectories. A caller with a public number m gives step/(probability m). Adding or removing a trajectory moves a
    step's sum by at most `clip` in l2, replacing one by 2 clip. Returns the mean of theta over the last iterates, from
    the fraction `average_from` of the steps on.
    """
    rows, next_rows = feature_rows(transitions, features)
    iterate = _initial(initial, features.dimension)
    return _minibatch(
        transitions.trajectory_start,
        rows,
        next_rows,
        transitions.reward,
        transitions.ratio,
        transitions.terminal,
        float(discount),
        float(probability),
        int(steps),
        float(step_size),
        float(clip),
        float(noise_scale),
        generator,
        iterate,
        min(int(average_from * steps), steps - 1),
    )


def _initial(initial: Floats | None, dimension: int) -> Floats:
    return np.zeros(2 * dimension) if initial is None else np.array(initial, dtype=np.float64)


@numba.njit(cache=True, nogil=True)
def _add_clipped(
    begin: int,
    end: int,
    rows: Rows,
    next_rows: Rows,
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    discount: float,
    clip: float,
    theta: Floats,
    w: Floats,
    primal: Floats,
    dual: Floats,
    here: Floats,
    ahead: Floats,
    total: Floats,
) -> None:
    """Add one trajectory's B_i, clipped, to `total`; `primal`, `dual`, `here` and `ahead` are room for it. Not finite:
    nothing."""
    if end == begin:
        return
    primal[:] = 0.0
    dual[:] = 0.0
    for t in range(begin, end):
        weight = ratio[t] if ratio.size else 1.0
        phi = at(rows, t, here)
        height = dot(phi, w)
        error = dot(phi, theta) - reward[t]
        slope = weight * height
        if not terminal[t]:
            following = at(next_rows, t, ahead)
            error -= discount * dot(following, theta)
            add(following, discount * slope, primal)
        add(phi, -slope, primal)
        add(phi, weight * error + height, dual)
    square = 0.0
    for i in range(theta.size):
        square += primal[i] * primal[i] + dual[i] * dual[i]
    norm = math.sqrt(square) / (end - begin)
    if not norm < np.inf:
        return
    factor = (1.0 if norm <= clip else clip / norm) / (end - begin)
    for i in range(theta.size):
        total[i] += factor * primal[i]
        total[theta.size + i] += factor * dual[i]


@numba.njit(cache=True, nogil=True)
def _gradient(
    start: Ints,
    rows: Rows,
    next_rows: Rows,
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    discount: float,
    step_sizes: Floats,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    average_from: int,
) -> Floats:
    dimension = iterate.size // 2
    theta, w = iterate[:dimension], iterate[dimension:]
    primal, dual, total = np.empty(dimension), np.empty(dimension), np.empty(2 * dimension)
    here, ahead = np.empty(dimension), np.empty(dimension)
    mean = np.zeros(dimension)
    averaged = 0
    trajectories = start.size - 1
    if trajectories == 0:
        return theta.copy()
    for step in range(step_sizes.size):
        i = generator.integers(0, trajectories)
        total[:] = 0.0
        _add_clipped(
            start[i],
            start[i + 1],
            rows,
            next_rows,
            reward,
            ratio,
            terminal,
            discount,
            clip,
            theta,
            w,
            primal,
            dual,
            here,
            ahead,
            total,
        )
        for j in range(total.size):
            iterate[j] -= step_sizes[step] * (total[j] + noise_scale * generator.standard_normal())
        if step >= average_from:
            averaged += 1
            for j in range(dimension):
                mean[j] += (theta[j] - mean[j]) / averaged
    return mean


@numba.njit(cache=True, nogil=True)
def _minibatch(
    start: Ints,
    rows: Rows,
    next_rows: Rows,
    reward: Floats,
    ratio: Floats,
    terminal: NDArray[np.bool_],
    discount: float,
    probability: float,
    steps: int,
    step_size: float,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    average_from: int,
) -> Floats:
    dimension = iterate.size // 2
    theta, w = iterate[:dimension], iterate[dimension:]
    primal, dual, total = np.empty(dimension), np.empty(dimension), np.empty(2 * dimension)
    here, ahead = np.empty(dimension), np.empty(dimension)
    mean = np.zeros(dimension)
    averaged = 0
    trajectories = start.size - 1
    # The gaps between members of a Poisson sample are geometric: P(gap >= k) = (1 - q)^k.
    rate = math.log1p(-probability) if probability < 1.0 else -np.inf
    for step in range(steps):
        total[:] = 0.0
        position = 0.0
        while True:
            gap = math.log1p(-generator.random()) / rate
            # Before rounding: the integer of a gap beyond 64 bits would be negative, and lead out of the arrays.
            if not gap < trajectories - position:
                break
            position += math.floor(gap)
            if position >= trajectories:
                break
            i = int(position)
            _add_clipped(
                start[i],
                start[i + 1],
                rows,
                next_rows,
                reward,
                ratio,
                terminal,
                discount,
                clip,
                theta,
                w,
                primal,
                dual,
                here,
                ahead,
                total,
            )
            position += 1.0
        for j in range(total.size):
            iterate[j] -= step_size * (total[j] + noise_scale * generator.standard_normal())
        if step >= average_from:
            averaged += 1
            for j in range(dimension):
                mean[j] += (theta[j] - mean[j]) / averaged
    return mean

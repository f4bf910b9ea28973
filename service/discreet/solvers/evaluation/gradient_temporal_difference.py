"""Noised stochastic gradients for the saddle point of the MSPBE: `w'(b - A theta) - w'Cw/2`,
minimized over theta, maximized over w.

    gradient(transitions, features, discount, steps=, step_sizes=, clip=, noise_scale=, generator=,
    …) -> theta minibatch(transitions, features, discount, probability=, steps=, step_size=, clip=,
    noise_scale=, generator=, …)

The primal-dual gradient of a trajectory (Xie et al. 2019, eq. 4.1), in one pass over its
transitions and without A_i:

    B_i(theta, w) = [ -A_i'w,  A_i theta + C_i w - b_i ]
      = 1/tau sum_t [ -rho_t (phi_t·w) (phi_t - g phi_{t+1}),
                      (rho_t ((phi_t - g phi_{t+1})·theta - R_t) + phi_t·w) phi_t ]

Noise and samples come only from the generator; `noise_scale` is the absolute standard deviation of
each coordinate's noise (the paper's h sigma). `scale` (2d,), public, positive: gradients are
clipped and get their noise in the coordinates theta/scale, w/scale, so a coordinate with a larger
scale moves further for the same noise. Whatever the scale, a trajectory moves a sum by at most the
clip.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from discreet.solvers.evaluation.feature_access import add, at, dot
from discreet.solvers.evaluation.temporal_difference import Floats, Table, Transitions, table_of
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
    """GPOPE, Algorithm 1 of Xie et al.: `steps` steps, each on one trajectory drawn uniformly, with
    replacement.

    `step_sizes`: one number, or (steps,) numbers. Returns the last theta, as in the paper; with
    `average_from` k the mean of the iterates after steps k+1, …, steps. Replacing a trajectory
    moves a step's sum by at most 2 clip in l2; m is public. Starts at `initial` (2d,), theta then
    w, by default zeros. Without trajectories it returns the initial theta.
    """
    return _gradient(
        table_of(transitions, features, discount),
        np.broadcast_to(np.asarray(step_sizes, dtype=np.float64), steps).copy(),
        float(clip),
        float(noise_scale),
        generator,
        _initial(initial, features.dimension),
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
    scale: Floats | None = None,
) -> Floats:
    """Steps on Poisson samples: each trajectory takes part with `probability`, independently, in
    every step.

    `(theta, w) -= step_size scale (sum of clipped scale B_i + noise)`: the SUM over the sample,
    nothing is divided by a number of trajectories. A caller with a public number m passes
    step/(probability m) as step size. Adding or removing a trajectory moves a step's sum by at most
    `clip` in l2, replacing one by 2 clip. Returns the mean of theta over the last iterates, from
    the fraction `average_from` of the steps on.
    """
    return _minibatch(
        table_of(transitions, features, discount),
        float(probability),
        int(steps),
        float(step_size),
        float(clip),
        np.ones(2 * features.dimension) if scale is None else np.array(scale, dtype=np.float64),
        float(noise_scale),
        generator,
        _initial(initial, features.dimension),
        min(int(average_from * steps), steps - 1),
    )


def _initial(initial: Floats | None, dimension: int) -> Floats:
    return np.zeros(2 * dimension) if initial is None else np.array(initial, dtype=np.float64)


@numba.njit(cache=True, nogil=True)
def _add_clipped(
    data: Table, i: int, clip: float, scale: Floats, iterate: Floats, room: Floats, total: Floats
) -> None:
    """Add B_i of one trajectory, clipped, to `total`; `room` float64[4, d] is overwritten. A B_i
    that is not finite adds nothing."""
    begin, end, d = data.start[i], data.start[i + 1], iterate.size // 2
    if end == begin:
        return
    theta, w = iterate[:d], iterate[d:]
    primal, dual, here, ahead = room[0], room[1], room[2], room[3]
    primal[:] = 0.0
    dual[:] = 0.0
    for t in range(begin, end):
        weight = data.ratio[t] if data.ratio.size else 1.0
        phi = at(data.here, t, here)
        height = dot(phi, w)
        error = dot(phi, theta) - data.reward[t]
        slope = weight * height
        if not data.terminal[t]:
            following = at(data.ahead, t, ahead)
            error -= data.discount * dot(following, theta)
            add(following, data.discount * slope, primal)
        add(phi, -slope, primal)
        add(phi, weight * error + height, dual)
    square = 0.0
    for j in range(d):
        primal[j] *= scale[j]
        dual[j] *= scale[d + j]
        square += primal[j] * primal[j] + dual[j] * dual[j]
    norm = math.sqrt(square) / (end - begin)
    if not norm < np.inf:
        return
    factor = (1.0 if norm <= clip else clip / norm) / (end - begin)
    for j in range(d):
        total[j] += factor * primal[j]
        total[d + j] += factor * dual[j]


@numba.njit(cache=True, nogil=True)
def _move(
    iterate: Floats,
    step_size: float,
    scale: Floats,
    noise_scale: float,
    generator: np.random.Generator,
    total: Floats,
) -> None:
    """One step against `total` and its noise; `total` is reset to 0 for the next."""
    for j in range(total.size):
        iterate[j] -= step_size * scale[j] * (total[j] + noise_scale * generator.standard_normal())
    total[:] = 0.0


@numba.njit(cache=True, nogil=True)
def _gradient(
    data: Table,
    step_sizes: Floats,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    average_from: int,
) -> Floats:
    d = iterate.size // 2
    total, room, mean, scale = np.zeros(2 * d), np.empty((4, d)), np.zeros(d), np.ones(2 * d)
    trajectories = data.start.size - 1
    if trajectories == 0:
        return iterate[:d].copy()
    for step in range(step_sizes.size):
        i = int(generator.integers(0, trajectories))
        _add_clipped(data, i, clip, scale, iterate, room, total)
        _move(iterate, step_sizes[step], scale, noise_scale, generator, total)
        if step >= average_from:
            mean += (iterate[:d] - mean) / (step - average_from + 1)
    return mean


@numba.njit(cache=True, nogil=True)
def _minibatch(
    data: Table,
    probability: float,
    steps: int,
    step_size: float,
    clip: float,
    scale: Floats,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    average_from: int,
) -> Floats:
    d = iterate.size // 2
    total, room, mean = np.zeros(2 * d), np.empty((4, d)), np.zeros(d)
    trajectories = data.start.size - 1
    # The gaps between members of a Poisson sample are geometric: P(gap >= k) = (1 - q)^k.
    rate = math.log1p(-probability) if probability < 1.0 else -np.inf
    for step in range(steps):
        position = 0.0
        while True:
            gap = math.log1p(-generator.random()) / rate
            # Limited before rounding: the integer of a gap beyond 64 bits would be negative, and
            # index outside the arrays.
            if not gap < trajectories - position:
                break
            position += math.floor(gap)
            if position >= trajectories:
                break
            _add_clipped(data, int(position), clip, scale, iterate, room, total)
            position += 1.0
        _move(iterate, step_size, scale, noise_scale, generator, total)
        if step >= average_from:
            mean += (iterate[:d] - mean) / (step - average_from + 1)
    return mean

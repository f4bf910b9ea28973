"""Noised stochastic gradients for the saddle point of the MSPBE: `w'(b - A theta) - w'Cw/2`,
minimized over theta, maximized over w.

    gradient(transitions, features, discount, steps=, step_sizes=, clip=, noise_scale=, generator=,
    …) -> theta minibatch(transitions, features, discount, probability=, steps=, step_size=, clip=,
    noise_scale=, generator=, …)

Both take transitions in memory, or trajectories that lie elsewhere (`drawn_records`), of which they
have those in memory that the next steps draw: the same weights, to the last bit.

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
from collections.abc import Iterator

import numba
import numpy as np

from discreet.solvers.evaluation.drawn_records import (
    Draw,
    DrawnTrajectories,
    Stretch,
    stretches,
)
from discreet.solvers.evaluation.temporal_difference import (
    Floats,
    Ints,
    Table,
    Transitions,
    table_of,
)
from discreet.solvers.evaluation.value_features import Features, add, at, dot


def gradient(
    transitions: Transitions | DrawnTrajectories,
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
    iterate, mean = _initial(initial, features.dimension), np.zeros(features.dimension)
    if transitions.trajectories == 0:
        return iterate[: features.dimension].copy()
    sizes = np.broadcast_to(np.asarray(step_sizes, dtype=np.float64), steps).copy()

    def draw(ahead: np.random.Generator, numbers: Ints, ends: Ints) -> int:
        return int(_draw_one_each(transitions.trajectories, iterate.size, ahead, numbers, ends))

    for stretch in _stretches(transitions, steps, generator, draw):
        _gradient(
            table_of(stretch.transitions, features, discount),
            stretch.numbers,
            transitions.trajectories,
            stretch.first,
            sizes[: stretch.last],
            float(clip),
            float(noise_scale),
            generator,
            iterate,
            mean,
            steps - 1 if average_from is None else int(average_from),
        )
        del stretch  # before the next one is read
    return mean


def minibatch(
    transitions: Transitions | DrawnTrajectories,
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
    iterate, mean = _initial(initial, features.dimension), np.zeros(features.dimension)

    def draw(ahead: np.random.Generator, numbers: Ints, ends: Ints) -> int:
        return int(
            _draw_samples(
                transitions.trajectories, float(probability), iterate.size, ahead, numbers, ends
            )
        )

    for stretch in _stretches(transitions, int(steps), generator, draw):
        _minibatch(
            table_of(stretch.transitions, features, discount),
            stretch.numbers,
            transitions.trajectories,
            float(probability),
            stretch.first,
            stretch.last,
            float(step_size),
            float(clip),
            np.ones(2 * features.dimension) if scale is None else np.array(scale, dtype=np.float64),
            float(noise_scale),
            generator,
            iterate,
            mean,
            min(int(average_from * steps), steps - 1),
        )
        del stretch  # before the next one is read
    return mean


def _stretches(
    transitions: Transitions | DrawnTrajectories,
    steps: int,
    generator: np.random.Generator,
    draw: Draw,
) -> Iterator[Stretch]:
    """All steps at once where all transitions are in memory."""
    if isinstance(transitions, Transitions):
        return iter([Stretch(transitions, np.empty(0, dtype=np.int64), 0, steps)])
    return stretches(transitions, steps, generator, draw)


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
def _place(numbers: Ints, number: int) -> int:
    """Where a trajectory stands in a table that has those of these ascending numbers; in one that
    has all, for which there are no numbers, under its own."""
    if numbers.size == 0:
        return number
    low, high = 0, numbers.size
    while high - low > 1:
        middle = (low + high) // 2
        if numbers[middle] <= number:
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def _next_member(
    position: float, rate: float, trajectories: int, generator: np.random.Generator
) -> float:
    """The first member of a Poisson sample at `position` or behind it; `trajectories` if there is
    none.

    The gaps between members are geometric: P(gap >= k) = (1 - q)^k, `rate` = ln(1 - q).
    """
    gap = math.log1p(-generator.random()) / rate
    # Limited before rounding: the integer of a gap beyond 64 bits would be negative, and index
    # outside the arrays.
    if not gap < trajectories - position:
        return float(trajectories)
    return min(position + math.floor(gap), float(trajectories))


@numba.njit(cache=True, nogil=True)
def _log_of_rest(probability: float) -> float:
    return math.log1p(-probability) if probability < 1.0 else -np.inf


@numba.njit(cache=True, nogil=True)
def _gradient(
    data: Table,
    numbers: Ints,
    trajectories: int,
    first: int,
    step_sizes: Floats,
    clip: float,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    mean: Floats,
    average_from: int,
) -> None:
    """The steps from `first` on of as many as there are step sizes; `iterate` and `mean` are
    changed. `numbers` as in `_place`."""
    d = iterate.size // 2
    total, room, scale = np.zeros(2 * d), np.empty((4, d)), np.ones(2 * d)
    for step in range(first, step_sizes.size):
        i = _place(numbers, int(generator.integers(0, trajectories)))
        _add_clipped(data, i, clip, scale, iterate, room, total)
        _move(iterate, step_sizes[step], scale, noise_scale, generator, total)
        if step >= average_from:
            mean += (iterate[:d] - mean) / (step - average_from + 1)


@numba.njit(cache=True, nogil=True)
def _draw_one_each(
    trajectories: int,
    normals: int,
    generator: np.random.Generator,
    numbers: Ints,
    ends: Ints,
) -> int:
    """`Draw` for `_gradient`: what it will draw, in the same order."""
    steps = min(numbers.size, ends.size)
    for step in range(steps):
        numbers[step] = generator.integers(0, trajectories)
        for _ in range(normals):
            generator.standard_normal()
        ends[step] = step + 1
    return steps


@numba.njit(cache=True, nogil=True)
def _minibatch(
    data: Table,
    numbers: Ints,
    trajectories: int,
    probability: float,
    first: int,
    last: int,
    step_size: float,
    clip: float,
    scale: Floats,
    noise_scale: float,
    generator: np.random.Generator,
    iterate: Floats,
    mean: Floats,
    average_from: int,
) -> None:
    """The steps first..last-1; `iterate` and `mean` are changed. `numbers` as in `_place`."""
    d = iterate.size // 2
    total, room = np.zeros(2 * d), np.empty((4, d))
    rate = _log_of_rest(probability)
    for step in range(first, last):
        position = _next_member(0.0, rate, trajectories, generator)
        while position < trajectories:
            i = _place(numbers, int(position))
            _add_clipped(data, i, clip, scale, iterate, room, total)
            position = _next_member(position + 1.0, rate, trajectories, generator)
        _move(iterate, step_size, scale, noise_scale, generator, total)
        if step >= average_from:
            mean += (iterate[:d] - mean) / (step - average_from + 1)


@numba.njit(cache=True, nogil=True)
def _draw_samples(
    trajectories: int,
    probability: float,
    normals: int,
    generator: np.random.Generator,
    numbers: Ints,
    ends: Ints,
) -> int:
    """`Draw` for `_minibatch`: what it will draw, in the same order."""
    rate, drawn = _log_of_rest(probability), 0
    for step in range(ends.size):
        position = _next_member(0.0, rate, trajectories, generator)
        while position < trajectories:
            if drawn == numbers.size:
                return step
            numbers[drawn] = int(position)
            drawn += 1
            position = _next_member(position + 1.0, rate, trajectories, generator)
        for _ in range(normals):
            generator.standard_normal()
        ends[step] = drawn
    return int(ends.size)

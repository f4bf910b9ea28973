"""The complete iteration of `saddle_point`, and its path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle import normal_noise
from discreet.solvers.saddle.saddle_kernels import Floats, Ints, Outputs, advance_compiled
from discreet.solvers.saddle.saddle_point import SaddleProblem, Schedule, noise_width

STEPS_AT_ONCE = 1 << 15
"""The most steps between two calls of `progress`."""
NOISES_AT_ONCE = STEPS_AT_ONCE * 1100
"""The most noise numbers in memory at once, unless one step needs more."""


@dataclass
class Iterate:
    """The state of a run, which `advance` moves on: everything that is needed to continue, even in
    a new process.

    `step`: number of steps done. `states`: float64[n], `multipliers`: float64[m]. The sums are over
    the `averaged` last steps.
    """

    step: int
    states: Floats
    multipliers: Floats
    averaged: int
    state_sum: Floats
    multiplier_sum: Floats
    output_sum: Floats

    @classmethod
    def initial(
        cls,
        problem: SaddleProblem,
        outputs: Outputs,
        states: ArrayLike | None = None,
        multipliers: ArrayLike = 0.0,
    ) -> Iterate:
        """The state before step 1: `states` (projected on the box; by default its midpoint) and
        `multipliers` (>= 0)."""
        middle = 0.5 * (problem.lower + problem.upper)
        start = middle if states is None else np.asarray(states, dtype=np.float64)
        if start.shape != middle.shape or not np.isfinite(start).all():
            raise InvalidArgument("the initial states must be one finite number for each agent")
        mu = np.broadcast_to(np.asarray(multipliers, dtype=np.float64), problem.constraints)
        return cls(
            0,
            problem.projected(start),
            np.maximum(mu, 0.0),
            0,
            np.zeros(len(start)),
            np.zeros(problem.constraints),
            np.zeros(len(outputs.register)),
        )


@dataclass(frozen=True)
class Path:
    """A run at p public steps, and its averages over the last part.

    Publishable: `steps`: int64[p]; `multipliers`: float64[p, m] after each of them; `released`:
    float64[p, o], the noised outputs that the step used; `mean_multipliers`: float64[m];
    `mean_released`: float64[o]. Protected: `states`: float64[p, n]; `mean_states`: float64[n], the
    mean of the iterates over the last part.
    """

    steps: Ints
    multipliers: Floats
    released: Floats
    states: Floats
    mean_multipliers: Floats
    mean_released: Floats
    mean_states: Floats


def thinned(steps: int, points: int) -> Ints:
    """`points` (or `steps`, if fewer) of the steps 1, …, steps, evenly spaced, including the last
    one."""
    count = min(steps, points)
    return -(-np.arange(1, count + 1, dtype=np.int64) * steps // count)


def run(
    problem: SaddleProblem,
    outputs: Outputs,
    schedule: Schedule,
    steps: int,
    *,
    generator: np.random.Generator | None = None,
    noise: Callable[[int, int], Floats] | None = None,
    states: ArrayLike | None = None,
    multipliers: ArrayLike = 0.0,
    points: int = 100,
    average: float = 0.5,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """`steps` steps from `states` (by default the midpoint of the box) and `multipliers`.

    Noise of unit deviation comes from `noise(count, width)`, which returns the noise of the next
    `count` steps, float64[count, width] (see `Outputs.grid`), or in simulations from a key drawn
    from `generator`: `normal_noise`, with numbers in the order of steps and outputs. `points`:
    length of the path. `average`: the averages are over the last part of the steps, from `average`
    (0 <= . < 1) on. `progress(done, steps)` is called from time to time.
    """
    if steps < 1 or points < 1 or not 0 <= average < 1:
        raise InvalidArgument("steps and points must be at least 1, and 0 <= average < 1")
    width = noise_width(outputs)
    if width and (generator is None) == (noise is None):
        raise InvalidArgument("noise comes either from a generator or from a function")
    iterate = Iterate.initial(problem, outputs, states, multipliers)
    key = None if generator is None else normal_noise.key_of(generator)
    recorded = thinned(steps, points)
    path = _room(problem, outputs, len(recorded))
    done = 0
    while iterate.step < steps:
        count = min(steps_at_once(width), steps - iterate.step)
        given = noise(count, width) if noise is not None and width else None
        until = int(np.searchsorted(recorded, iterate.step + count, side="right"))
        advance(
            problem,
            outputs,
            schedule,
            iterate,
            count,
            key=key,
            noise=given,
            average_from=int(average * steps),
            recorded=recorded[done:until],
            path=tuple(rows[done:until] for rows in path),
        )
        done = until
        if progress is not None:
            progress(iterate.step, steps)
    return Path(
        recorded,
        *path,
        mean_multipliers=iterate.multiplier_sum / iterate.averaged,
        mean_released=iterate.output_sum / iterate.averaged,
        mean_states=iterate.state_sum / iterate.averaged,
    )


def steps_at_once(width: int) -> int:
    """Number of steps whose noise, of `width` numbers each, is drawn together."""
    return max(1, min(STEPS_AT_ONCE, NOISES_AT_ONCE // max(width, 1)))


def _room(problem: SaddleProblem, outputs: Outputs, points: int) -> tuple[Floats, Floats, Floats]:
    return (
        np.empty((points, problem.constraints)),
        np.empty((points, len(outputs.register))),
        np.empty((points, len(problem.names))),
    )


def advance(
    problem: SaddleProblem,
    outputs: Outputs,
    schedule: Schedule,
    iterate: Iterate,
    count: int,
    *,
    key: np.uint64 | None = None,
    noise: Floats | None = None,
    average_from: int = 0,
    recorded: Ints | None = None,
    path: tuple[Floats, ...] | None = None,
) -> None:
    """Move `iterate` on by `count` steps; those after step `average_from` enter its sums.

    `noise`: float64[count, width], of unit deviation; or a `key`, whose noises start with step 1.
    The steps `recorded` (int64[r], in order, all among these steps) are written to `path`:
    multipliers [r, m], noised outputs [r, o], states [r, n].
    """
    width = noise_width(outputs)
    if noise is not None and noise.shape != (count, width):
        raise InvalidArgument(
            f"the noise of {count} steps has the shape {(count, width)}, not {noise.shape}"
        )
    if noise is None and key is None and width:
        raise InvalidArgument("noised outputs need noise or a key")
    wanted = np.empty(0, dtype=np.int64) if recorded is None else recorded
    rows = _room(problem, outputs, len(wanted)) if path is None else path
    log_k = np.log(np.arange(iterate.step + 1, iterate.step + count + 1, dtype=np.float64))
    agents = len(problem.names)
    sets = problem.sets
    low, high = problem.lower.copy(), problem.upper.copy()
    for begin, end in zip(sets.begin.tolist(), sets.end.tolist(), strict=True):
        low[begin:end], high[begin:end] = -np.inf, np.inf
    iterate.averaged += advance_compiled(
        *problem.program.running,
        problem.program.registers.copy(),
        problem.program.outputs[:agents].astype(np.uint32),
        problem.lower,
        problem.upper,
        (low, high),
        sets,
        outputs,
        # The register after the agents' states is the constant 0, the value of a derivative without
        # a register.
        np.where(outputs.register >= 0, outputs.register, agents).astype(np.uint32),
        outputs.constraint.astype(np.uint32),
        np.searchsorted(outputs.agent, np.arange(agents + 1)).astype(np.uint32),
        np.flatnonzero(outputs.scale).astype(np.uint32),
        schedule.gamma * np.exp(-schedule.c1 * log_k),
        schedule.alpha * np.exp(-schedule.c2 * log_k),
        iterate.step,
        average_from,
        np.uint64(0) if key is None else key,
        np.empty((0, width)) if noise is None else np.ascontiguousarray(noise, dtype=np.float64),
        iterate.states,
        iterate.multipliers,
        iterate.state_sum,
        iterate.multiplier_sum,
        iterate.output_sum,
        wanted,
        *rows,
    )
    iterate.step += count

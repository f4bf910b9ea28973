"""Saddle points of agents' Lagrangian by noised primal-dual steps with Tikhonov terms, through a
cloud.

    problem = saddle_problem(objectives, constraints, names, box)
    outputs = noised_outputs(problem, value_scale, gradient_scale)
    path    = run(problem, outputs, schedule, steps, generator=…, points=…)

Least x in the box, greatest mu >= 0 of sum_i f_i(x_i) + mu'g(x), by Algorithm 1 of Hale & Egerstedt
2015 (after Bakushinskii & Poljak 1974 and Poljak 1978), eqs. (15) and (16):

    x_i <- P[x_i - gamma_k (f_i'(x_i) + (dG/dx_i)'mu + alpha_k x_i)]    each agent
    mu  <- [mu + gamma_k (G - alpha_k mu)]_+                            the cloud, with the old x

with gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, k = 1, 2, …, and G, dG/dx the noised g, dg/dx.
The mean-square limit is the saddle point for convex f_i and g, a Slater point, and 0 < c2 < c1, c1
+ c2 < 1.

One step is `cloud_outputs` (states to noised outputs), `cloud_step` and the client's `agent_step`:
plain Python, for federated agents. The loop in numba does the same arithmetic in the same order:
same noise, same trajectory. States and what follows from them are protected data; multipliers and
noised outputs are what a release may publish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle import expression_programs, normal_noise
from discreet.solvers.saddle.expression_programs import Program, compiled
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.saddle_kernels import (
    Floats,
    Ints,
    Outputs,
    advance_compiled,
    release_outputs,
)
from discreet.solvers.saddle.set_kernels import Sets, project_sets, sets_of
from discreet_client.expressions import ZERO, Expression, derivative, gradient
from discreet_client.updates import tikhonov_sizes

STEPS_AT_ONCE = 1 << 15
"""Steps between two calls of `progress`, at most."""
NOISES_AT_ONCE = STEPS_AT_ONCE * 1100
"""Numbers of noise that are in memory together, at most, but for those of one step."""


@dataclass(frozen=True)
class Schedule:
    """gamma_k = gamma k^-c1 and alpha_k = alpha k^-c2, eq. (7).

    Raises InvalidArgument where eq. (8), 0 < c2 < c1 and c1 + c2 < 1, does not hold: then the
    iteration need not converge in mean square.
    """

    gamma: float
    alpha: float
    c1: float
    c2: float

    def __post_init__(self) -> None:
        if not (0 < self.gamma < math.inf and 0 < self.alpha < math.inf):
            raise InvalidArgument("gamma and alpha must be positive")
        if not (0 < self.c2 < self.c1 and self.c1 + self.c2 < 1):
            raise InvalidArgument(
                f"the exponents need 0 < c2 < c1 and c1 + c2 < 1, not c1 = {self.c1}, c2 = "
                f"{self.c2}"
            )

    def at(self, k: int) -> tuple[float, float]:
        """gamma_k and alpha_k of step k = 1, 2, …"""
        return tikhonov_sizes(k, self.gamma, self.alpha, self.c1, self.c2)


@dataclass(frozen=True)
class SaddleProblem:
    """n coordinates of agents' states, one an agent where nothing else is said, m constraints and e
    derivatives dg_k/dx_i that are not identically zero, compiled.

    `program` computes the slopes of objectives in x_1, …, x_n, then g_1, …, g_m, then the
    derivatives, coordinate by coordinate: `constraint`, `agent`: int64[e], k and i of each.
    `constant`: bool[e], derivatives that are numbers. `lower`, `upper`: float64[n]. `sets`: of
    agents whose coordinates are in more than the box.
    """

    names: tuple[str, ...]
    program: Program
    constraints: int
    constraint: Ints
    agent: Ints
    constant: NDArray[np.bool_]
    lower: Floats
    upper: Floats
    sets: Sets

    def projected(self, states: ArrayLike) -> Floats:
        """The nearest states that agents may have, float64[n]."""
        found = np.asarray(states, dtype=np.float64).copy()
        project_sets(self.sets, self.lower, self.upper, found)
        return np.clip(found, self.lower, self.upper)


@dataclass(frozen=True)
class Group:
    """An agent of several coordinates, which stand next to each other; `within`: its set beside the
    box, as `discreet_client.projections.onto` takes it."""

    name: str
    coordinates: tuple[str, ...]
    within: dict[str, Any] | None = None


def saddle_problem(
    objectives: Mapping[str, Expression],
    constraints: Sequence[Expression],
    names: Sequence[str],
    box: Box,
    groups: Sequence[Group] = (),
) -> SaddleProblem:
    """Compile objectives (one an agent, of its own state only; none counts as 0) and constraints,
    meant <= 0.

    `groups`: whose coordinates `names` are; an agent that has one, of its own name, need not be
    said. Convexity is the caller's to prove, see `convexity`. Raises InvalidArgument where an
    objective has another agent's state.
    """
    own = {name: (name,) for name in names} | {group.name: group.coordinates for group in groups}
    objective_of: dict[str, Expression] = {}
    for name, objective in objectives.items():
        others = objective.names - set(own.get(name, (name,)))
        if others:
            raise InvalidArgument(f"the objective of {name} depends on {', '.join(sorted(others))}")
        objective_of |= dict.fromkeys(own.get(name, ()), objective)
    slopes = [derivative(objective_of.get(name, ZERO), name) for name in names]
    place = {name: position for position, name in enumerate(names)}
    by_place = sorted(
        (
            (place[name], k, slope)
            for k, g in enumerate(constraints)
            for name, slope in gradient(g).items()
        ),
        key=lambda one: one[:2],
    )
    spans = [
        (place[one.coordinates[0]], place[one.coordinates[-1]] + 1, one.within) for one in groups
    ]
    return SaddleProblem(
        names=tuple(names),
        program=compiled([*slopes, *constraints, *(slope for _, _, slope in by_place)], names),
        constraints=len(constraints),
        constraint=np.array([k for _, k, _ in by_place], dtype=np.int64),
        agent=np.array([i for i, _, _ in by_place], dtype=np.int64),
        constant=np.array([not slope.names for _, _, slope in by_place], dtype=np.bool_),
        lower=np.array([box[name][0] for name in names], dtype=np.float64),
        upper=np.array([box[name][1] for name in names], dtype=np.float64),
        sets=sets_of(spans, len(names)),
    )


def noised_outputs(
    problem: SaddleProblem, value_scale: ArrayLike, gradient_scale: ArrayLike, *, grid: float = 0.0
) -> Outputs:
    """The outputs of a step. `value_scale`: float64[m] or one figure. `gradient_scale`: float64[m,
    n], or broadcast to.

    An entry of dg/dx that is zero takes part only where it has noise (the paper noises whole
    vectors). `grid`: for noise that is a whole number of its steps, in units of the scale: a
    discrete Gaussian. Value and noise are added as whole numbers of steps and only their sum is
    scaled, so no low bit of the result depends on how it came about.
    """
    m, n = problem.constraints, len(problem.names)
    values = np.broadcast_to(np.asarray(value_scale, dtype=np.float64), m)
    gradients = np.broadcast_to(np.asarray(gradient_scale, dtype=np.float64), (m, n))
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InvalidArgument("scales are finite and not negative")
    if not (np.isfinite(gradients).all() and (gradients >= 0).all()):
        raise InvalidArgument("scales are finite and not negative")
    found = zip(problem.agent.tolist(), problem.constraint.tolist(), strict=True)
    places = {pair: n + m + e for e, pair in enumerate(found)}
    rows = [(n + k, k, -1, float(values[k])) for k in range(m)]
    entries = sorted(places.keys() | set(map(tuple, np.argwhere(gradients.T > 0).tolist())))
    rows += [(places.get((i, k), -1), k, i, float(gradients[k, i])) for i, k in entries]
    registers = [
        int(problem.program.outputs[place]) if place >= 0 else -1 for place, _, _, _ in rows
    ]
    scale = np.array([row[3] for row in rows], dtype=np.float64)
    noised = scale > 0
    return Outputs(
        register=np.array(registers, dtype=np.int64),
        constraint=np.array([row[1] for row in rows], dtype=np.int64),
        agent=np.array([row[2] for row in rows], dtype=np.int64),
        scale=scale,
        noise=np.where(noised, np.cumsum(noised) - 1, -1).astype(np.int64),
        grid=float(grid),
    )


def noise_width(outputs: Outputs) -> int:
    """Standard noises of one step: how many outputs are noised."""
    return int(np.count_nonzero(outputs.scale))


# One step, for a cloud and agents apart -----------------------------------------------------------


def cloud_outputs(
    problem: SaddleProblem, outputs: Outputs, states: ArrayLike, noise: ArrayLike
) -> Floats:
    """The noised outputs, float64[o], at `states` (float64[n]); `noise`: float64[noise_width], of
    unit deviation, or in steps of the grid where there is one."""
    z = np.asarray(noise, dtype=np.float64)
    registers = problem.program.registers.copy()
    registers[: len(problem.names)] = states
    expression_programs.run(*problem.program.running, registers)
    released = np.empty(len(outputs.register))
    release_outputs(outputs, registers, z, released)
    return released


def cloud_step(
    multipliers: Sequence[float], values: Sequence[float], gamma: float, alpha: float
) -> list[float]:
    """The next multipliers from the noised constraint values G, eq. (16)."""
    return [
        max(mu + gamma * (value - alpha * mu), 0.0)
        for mu, value in zip(multipliers, values, strict=True)
    ]


# The loop -----------------------------------------------------------------------------------------


@dataclass
class Iterate:
    """Where a run stands; `advance` moves it. All it needs to go on, from a new process as well.

    `step`: steps done. `states`: float64[n], `multipliers`: float64[m]. The sums are over the
    `averaged` last steps.
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
        """Before step 1: `states` (projected on the box; its middle when not given) and
        `multipliers` (>= 0)."""
        middle = 0.5 * (problem.lower + problem.upper)
        start = middle if states is None else np.asarray(states, dtype=np.float64)
        if start.shape != middle.shape or not np.isfinite(start).all():
            raise InvalidArgument("the initial states are one finite number an agent")
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
    float64[p, o], the noised outputs that the step took; `mean_multipliers`: float64[m];
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
    """`points` (or `steps`, if fewer) of the steps 1, …, steps, evenly spread, the last one among
    them."""
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
    """`steps` steps from `states` (the middle of the box when not given) and `multipliers`.

    Noise of unit deviation comes from `noise(count, width)`, which returns that of the next `count`
    steps, float64[count, width] (see `Outputs.grid`), or in simulations from a key drawn from
    `generator`: `normal_noise`, its numbers in the order of steps and outputs. `points`: length of
    the path. `average`: the averages are over the last part of the steps, from `average` (0 <= . <
    1) on. `progress(done, steps)` is called now and then.
    """
    if steps < 1 or points < 1 or not 0 <= average < 1:
        raise InvalidArgument("steps and points are at least 1, and 0 <= average < 1")
    width = noise_width(outputs)
    if width and (generator is None) == (noise is None):
        raise InvalidArgument("noise comes from a generator or from a function, one of them")
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
    """Steps whose noise is drawn together, of `width` numbers each."""
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

    `noise`: float64[count, width], of unit deviation; or a `key`, whose noises are those of step 1
    on. The steps `recorded` (int64[r], in order, all of them among these) are written to `path`:
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
        # The register after the agents' states is the constant 0: what a derivative without a
        # register is.
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

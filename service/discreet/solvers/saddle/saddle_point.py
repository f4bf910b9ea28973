"""Saddle points of the agents' Lagrangian by noised primal-dual steps with Tikhonov terms, through
a cloud.

    problem = saddle_problem(objectives, constraints, names, box)
    outputs = noised_outputs(problem, value_scale, gradient_scale)
    path    = saddle_iteration.run(problem, outputs, schedule, steps, generator=…, points=…)

Minimize over x in the box and maximize over mu >= 0 sum_i f_i(x_i) + mu'g(x), by Algorithm 1 of
Hale & Egerstedt 2015 (after Bakushinskii & Poljak 1974 and Poljak 1978), eqs. (15) and (16):

    x_i <- P[x_i - gamma_k (f_i'(x_i) + (dG/dx_i)'mu + alpha_k x_i)]    each agent
    mu  <- [mu + gamma_k (G - alpha_k mu)]_+                            the cloud, with the old x

with gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, k = 1, 2, …, and G, dG/dx the noised g, dg/dx.
The mean-square limit is the saddle point for convex f_i and g, a Slater point, and 0 < c2 < c1, c1
+ c2 < 1.

One step is `cloud_outputs` (states to noised outputs), `cloud_step` and the client's `agent_step`:
plain Python, for federated agents. The loop in numba does the same arithmetic in the same order:
same noise, same trajectory. States and values computed from them are protected data; a release may
publish multipliers and noised outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle import expression_programs, normal_noise
from discreet.solvers.saddle.expression_programs import Codes, Program, Words, compiled
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.set_kernels import Sets, project_sets, sets_of
from discreet_agent.cloud_steps import tikhonov_sizes
from discreet_agent.expressions import ZERO, Expression, derivative, gradient

# Saddle kernels -----------------------------------------------------------------------------------
# Compiled kernels of the cloud's iteration: the outputs of a step, rounded to the noise's grid, and
# loops over many steps.

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint32]


_BLOCK = 128
"""Number of steps whose noise is drawn together, so that it stays in the fastest cache."""


class Outputs(NamedTuple):
    """The outputs that the cloud releases in a step: g_1, …, g_m, then o - m entries of dg/dx, by
    agent, then constraint.

    `register`: int64[o], the program's register of the exact value; -1 for a derivative that is
    zero but noised. `constraint`, `agent`: int64[o], agent -1 for a value. `scale`: float64[o],
    deviation of the noise; 0: none. `noise`: int64[o], column of the output's noise, -1 for none.
    `grid`: values are rounded to multiples of scale·grid before the noise, which then counts these
    multiples; 0: not rounded, and the noise is in units of the scale.
    """

    register: Ints
    constraint: Ints
    agent: Ints
    scale: Floats
    noise: Ints
    grid: float


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def released_value(exact: float, scale: float, grid: float, noise: float) -> float:
    """An exact value, rounded to its grid if there is one, with its noise."""
    if grid > 0.0:
        # The sum of two integers is the same double for all pairs with this sum. A sum of multiples
        # of them would not be.
        step = scale * grid
        return float(step * (np.rint(exact / step) + noise))
    return exact + scale * noise


@numba.njit(cache=True, nogil=True, error_model="numpy")
def release_outputs(outputs: Outputs, registers: Floats, noise: Floats, released: Floats) -> None:
    """Fill `released` from the registers of the program and the noise of one step."""
    for o in range(released.size):
        released[o] = registers[outputs.register[o]] if outputs.register[o] >= 0 else 0.0
        if outputs.noise[o] >= 0:
            released[o] = released_value(
                released[o], outputs.scale[o], outputs.grid, noise[outputs.noise[o]]
            )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def place_noise(noised: Indices, factor: Floats, noise: Floats, placed: Floats) -> None:
    """The noise of some steps, float64[steps, width], times its `factor` and placed in the columns
    `noised`: float64[steps, o]."""
    for t in range(noise.shape[0]):
        for column in range(np.uint64(noised.size)):
            placed[t, noised[column]] = factor[column] * noise[t, column]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance_compiled(
    code: Codes,
    operands: Words,
    registers: Floats,
    slope_register: Indices,
    lower: Floats,
    upper: Floats,
    stepped: tuple[Floats, Floats],
    sets: Sets,
    outputs: Outputs,
    register: Indices,
    constraint: Indices,
    agent_start: Indices,
    noised: Indices,
    gamma: Floats,
    alpha: Floats,
    done: int,
    average_from: int,
    key: np.uint64,
    noise: Floats,
    states: Floats,
    multipliers: Floats,
    state_sum: Floats,
    multiplier_sum: Floats,
    output_sum: Floats,
    recorded: Ints,
    multiplier_path: Floats,
    released_path: Floats,
    state_path: Floats,
) -> int:
    """Returns the number of steps that entered the sums. It uses loops instead of array expressions
    because a step takes about 150 nanoseconds.

    The outputs agent_start[i], …, agent_start[i + 1] - 1 are the derivatives in coordinate i.
    `stepped`: the bounds at which each coordinate of a step is cut off, which are those of the box
    except for agents with a set, which are projected as a whole. Unsigned indices save a check for
    negative ones.
    """
    n, m, width = states.size, multipliers.size, register.size
    on_grid, grid, scale = outputs.grid > 0.0, outputs.grid, outputs.scale
    released, placed = np.empty(width), np.zeros((_BLOCK, width))
    drawn = np.empty((_BLOCK, noised.size))
    # Outputs on a grid are scaled after the sum.
    factor = np.ones(noised.size) if on_grid else scale[noised]
    one, values = np.uint64(1), np.uint64(m)
    row, averaged = 0, 0
    registers[:n] = states
    for begin in range(0, gamma.size, _BLOCK):
        block = min(_BLOCK, gamma.size - begin)
        if noise.shape[0] > 0:
            place_noise(noised, factor, noise[begin : begin + block], placed)
        elif noised.size > 0:
            normal_noise.fill(key, (done + begin) * noised.size, drawn[:block].reshape(-1))
            place_noise(noised, factor, drawn[:block], placed)
        for t in range(block):
            k = done + begin + t + 1
            gamma_k, alpha_k = gamma[begin + t], alpha[begin + t]
            expression_programs.run(code, operands, registers)
            for o in range(width):
                if on_grid and scale[o] > 0.0:
                    released[o] = released_value(
                        registers[register[o]], scale[o], grid, placed[t, o]
                    )
                else:
                    released[o] = registers[register[o]] + placed[t, o]
            entry = values
            for i in range(n):
                pull, end = registers[slope_register[i]], np.uint64(agent_start[i + 1])
                while entry < end:
                    pull += released[entry] * multipliers[constraint[entry]]
                    entry += one
                moved = registers[i] - gamma_k * (pull + alpha_k * registers[i])
                if not np.isnan(moved):  # an objective without a slope at this point moves no agent
                    registers[i] = min(max(moved, stepped[0][i]), stepped[1][i])
            if sets.begin.size > 0:
                project_sets(sets, lower, upper, registers)
            for j in range(m):
                mu = multipliers[j] + gamma_k * (released[j] - alpha_k * multipliers[j])
                multipliers[j] = 0.0 if mu < 0.0 else mu
            if k > average_from:
                averaged += 1
                for i in range(n):
                    state_sum[i] += registers[i]
                for j in range(m):
                    multiplier_sum[j] += multipliers[j]
                for o in range(width):
                    output_sum[o] += released[o]
            if row < recorded.size and recorded[row] == k:
                multiplier_path[row] = multipliers
                released_path[row] = released
                state_path[row] = registers[:n]
                row += 1
    states[:] = registers[:n]
    return averaged


# Saddle point -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Schedule:
    """gamma_k = gamma k^-c1 and alpha_k = alpha k^-c2, eq. (7).

    Raises InvalidArgument if eq. (8), 0 < c2 < c1 and c1 + c2 < 1, does not hold: then the
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
    """n coordinates of agents' states, by default one per agent, m constraints and e derivatives
    dg_k/dx_i that are not identically zero, compiled.

    `program` computes the slopes of objectives in x_1, …, x_n, then g_1, …, g_m, then the
    derivatives, coordinate by coordinate: `constraint`, `agent`: int64[e], k and i of each.
    `constant`: bool[e], whether a derivative is a constant. `lower`, `upper`: float64[n]. `sets`:
    those of agents with constraints beyond the box.
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
    """An agent with several adjacent coordinates; `within`: its set apart from the box, in the form
    of `discreet_agent.projections.onto`."""

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
    """Compile objectives (one per agent, of its own state only; a missing one counts as 0) and
    constraints, each meaning <= 0.

    `groups`: the agents to which the coordinates `names` belong; an agent with one coordinate of
    its own name need not be listed. The caller must prove convexity, see `convexity`. Raises
    InvalidArgument if an objective contains another agent's state.
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
    """The outputs of a step. `value_scale`: float64[m] or one number. `gradient_scale`: float64[m,
    n], or broadcast to it.

    An entry of dg/dx that is zero is an output only if it has noise (the paper noises whole
    vectors). `grid`: the step, in units of the scale, of noise that is an integer number of steps:
    a discrete Gaussian. Value and noise are added as whole numbers of steps and only their sum is
    scaled, so no low bit of the result depends on how it came about.
    """
    m, n = problem.constraints, len(problem.names)
    values = np.broadcast_to(np.asarray(value_scale, dtype=np.float64), m)
    gradients = np.broadcast_to(np.asarray(gradient_scale, dtype=np.float64), (m, n))
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise InvalidArgument("scales must be finite and nonnegative")
    if not (np.isfinite(gradients).all() and (gradients >= 0).all()):
        raise InvalidArgument("scales must be finite and nonnegative")
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
    """The number of standard noises of one step: that of noised outputs."""
    return int(np.count_nonzero(outputs.scale))


# One step, for a cloud and agents apart -----------------------------------------------------------


def cloud_outputs(
    problem: SaddleProblem, outputs: Outputs, states: ArrayLike, noise: ArrayLike
) -> Floats:
    """The noised outputs, float64[o], at `states` (float64[n]); `noise`: float64[noise_width], of
    unit deviation, or in steps of the grid if there is one."""
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


# Saddle iteration ---------------------------------------------------------------------------------
# The complete iteration of `saddle_point`, and its path.

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

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle import expression_programs
from discreet.solvers.saddle.expression_programs import Program, compiled
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.saddle_kernels import Floats, Ints, Outputs, release_outputs
from discreet.solvers.saddle.set_kernels import Sets, project_sets, sets_of
from discreet_client.expressions import ZERO, Expression, derivative, gradient
from discreet_client.updates import tikhonov_sizes


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
    of `discreet_client.projections.onto`."""

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

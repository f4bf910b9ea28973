"""Scales of the noise of all outputs of a step, for a joint distance of 1, and their form in a
plan.

There are two forms: dense `units` of every value and every derivative, in plans of scalar states;
and units of the existing outputs, in the order of `layout`, if states are vectors or agents are
many. The second also has `agents`, each with its dimension and its set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.problems.multi_agent.dataset import (
    MAX_PROGRAM,
    Announcement,
    Floats,
    MultiAgentPublic,
    coordinates_of,
    term_by_term,
)
from discreet.solvers.saddle import rounding, saddle_point
from discreet.solvers.saddle.convexity import NotLipschitz, TooManyEntries, moved_by, sensitivities
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.noise_split import sparse_split, split
from discreet.solvers.saddle.saddle_point import Group, Outputs, SaddleProblem
from discreet.solvers.saddle.set_kernels import most_turns
from discreet_agent.expressions import Expression, ExpressionError

ROUNDING = 1e-9
"""Allowance for rounding in sensitivities and scales themselves."""
PROJECTION = 20
"""Operations of projecting on a budget or a ball, for each coordinate."""
ARITHMETIC = 1 / 30
"""Compiled operations for each number of a polytope's equations, as a fraction of an operation:
three times the measured value at 64 coordinates and rows, and no less than at three."""
MAX_ROUNDING = 0.1
"""The most that floating-point errors may add to the distance of neighbours; the noise covers
it."""


@dataclass(frozen=True)
class JointNoise:
    """`layout`: constraint and coordinate of each output of a step; without a coordinate it is the
    constraint's value. `units`: see the module. `width`: number of noised outputs. `operations`:
    those of constraints and their derivatives in a step. `projecting`: operations of projecting on
    agents' sets in a step. `quantities`: the noised quantities in words, with their units."""

    layout: list[list[Any]]
    units: Floats
    width: int
    operations: int
    projecting: int
    quantities: list[tuple[str, float]]
    agents: list[list[Any]] | None

    @property
    def parameters(self) -> dict[str, Any]:
        """The form in a plan."""
        more = {} if self.agents is None else {"agents": self.agents}
        return {"units": self.units.tolist(), "layout": self.layout, **more}


def joint_noise(
    constraints: list[Expression], public: MultiAgentPublic, box: Box, steps: int
) -> JointNoise:
    """The scales with which the noise of all steps hides a move of one agent's trajectory by its
    radius.

    Sensitivity, for states that are vectors. Neighbours differ in the trajectory of one agent j
    alone, by d(t) in step t, sum_t ||d(t)||_2² <= B_j². An output o moves in step t by at most K_oj
    ||d(t)||_2, K_oj a bound of the l2 norm of its partial derivatives in j's coordinates over the
    box (`many_agents.moved_by`). Divided by its unit u_o the whole transcript moves by at most
    sqrt(sum_t sum_o K_oj² ||d(t)||² / u_o²) <= B_j sqrt(sum_o K_oj² / u_o²), which `noise_split`
    makes 1 for the agent with the largest value. Projecting on a set never increases the distance
    of two states.
    """
    names = public.names
    groups = [agent.group() for agent in public.agents]
    radii = [agent.radius for agent in public.agents]
    try:
        problem = saddle_point.saddle_problem({}, constraints, names, box, groups)
    except ExpressionError as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    shape = saddle_point.noised_outputs(problem, 0.0, 0.0)
    layout = [
        [int(k), None if i < 0 else names[i]]
        for k, i in zip(shape.constraint, shape.agent, strict=True)
    ]
    sparse = term_by_term(constraints, public)
    m, n = len(constraints), len(names)
    try:
        if sparse:
            units = sparse_split(radii, moved_by(constraints, names, box, public.agent_of), 1.0)
            width, dense = int(np.count_nonzero(units)), units
        else:
            found = sensitivities(constraints, names, box)
            rows = np.vstack([found.value_entries, found.gradient_entries.reshape(m * n, n)])
            width = int((rows.max(axis=1) > 0).sum())
            dense = split(radii, rows, np.ones(len(rows)), 1.0).scales
            at = np.where(shape.agent < 0, shape.constraint, m + shape.constraint * n + shape.agent)
            units = dense[at]
    except (NotLipschitz, TooManyEntries) as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    if width == 0:
        raise InvalidInput("no constraint depends on any agent", pointer="/problem/constraints")
    factor = 1 + ROUNDING + _rounding(problem, shape, constraints, box, units, steps)
    dense = dense * factor
    agents = [[one.name, one.dimension, one.within] for one in public.agents] if sparse else None
    quantities = _quantities(layout if sparse else _all(m, names), dense)
    operations = int(problem.program.code.size) + len(layout)
    projecting = sum(map(_projecting, public.agents))
    return JointNoise(layout, dense, width, operations, projecting, quantities, agents)


def _projecting(agent: Announcement) -> int:
    """Operations of projecting on an agent's set once. For a polytope this is the largest possible
    number of steps, whatever the objectives, each with the products and the equations of all rows
    that can be active at once."""
    if agent.polytope is None:
        return PROJECTION * agent.count if agent.within is not None else 0
    d, r = agent.count, agent.polytope.rows
    q = min(d, r)
    turn = 20 * (d + r) + 3 * d * r + d * q**2 / 2 + q**3 / 6
    return math.ceil(ARITHMETIC * most_turns(d, r) * turn) + PROJECTION * d


def scales_of(problem: SaddleProblem, parameters: dict[str, Any]) -> tuple[Floats, Floats]:
    """Units of the values, float64[m], and of the derivatives, float64[m, n], from a plan."""
    units, m, n = np.array(parameters["units"]), problem.constraints, len(problem.names)
    if "agents" not in parameters:
        return units[:m], units[m:].reshape(m, n)
    gradients = np.zeros((m, n))
    gradients[problem.constraint, problem.agent] = units[m:]
    return units[:m], gradients


def groups_of(parameters: dict[str, Any]) -> list[Group]:
    """The agents whose states are vectors or have sets, from a plan."""
    agents = parameters.get("agents", [])
    return [
        Group(name, coordinates_of(name, dimension), within) for name, dimension, within in agents
    ]


def _rounding(
    problem: SaddleProblem,
    shape: Outputs,
    constraints: Sequence[Expression],
    box: Box,
    units: Floats,
    steps: int,
) -> float:
    """How much more than 1, in l2, the whole transcript may move because outputs are computed in
    floating point.

    Sensitivities are those of the exact constraints. Computed values are off by up to
    `rounding_errors`, for both neighbours, in every step, and dividing by the step of the noise's
    grid rounds once more. `units`: by output.
    """
    if problem.program.code.size > MAX_PROGRAM:
        raise InvalidInput(
            "the constraints and their derivatives are too large", pointer="/problem/constraints"
        )
    errors, sizes = rounding.rounding_errors(problem.program, box)
    of = dict(
        zip(
            problem.program.outputs.tolist(), (errors + rounding.UNIT * sizes).tolist(), strict=True
        )
    )
    square = 0.0
    for place, k, unit in zip(
        shape.register.tolist(), shape.constraint.tolist(), units.tolist(), strict=True
    ):
        error = of.get(place, 0.0)
        further = 0.0 if error == 0 else 2 * error / unit if unit > 0 else math.inf
        square += steps * further * further
        if not square <= MAX_ROUNDING**2:
            raise InvalidInput(
                f"'{str(constraints[k])[:200]}' cannot be computed exactly enough for its noise: "
                "terms are too large for what agents change in it",
                pointer=f"/problem/constraints/{k}",
            )
    return math.sqrt(square)


def _all(m: int, names: Sequence[str]) -> list[list[Any]]:
    return [[k, None] for k in range(m)] + [[k, name] for k in range(m) for name in names]


def _quantities(layout: list[list[Any]], units: Floats) -> list[tuple[str, float]]:
    words = [
        f"value of constraint {k} in each step"
        if name is None
        else f"derivative of constraint {k} in {name} in each step"
        for k, name in layout
    ]
    return [
        (quantity, float(unit)) for quantity, unit in zip(words, units, strict=True) if unit > 0
    ]

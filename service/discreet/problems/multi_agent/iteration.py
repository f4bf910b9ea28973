"""The iteration of a plan on private objectives, with the noise of its event."""

from __future__ import annotations

from typing import Any

from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.multi_agent.agents import Floats
from discreet.problems.multi_agent.dataset import MultiAgentPublic
from discreet.problems.multi_agent.joint_noise import scales_of
from discreet.problems.multi_agent.session import PATH_POINTS, grid_noise
from discreet.problems.plans import Plan
from discreet.solvers.saddle import saddle_iteration, saddle_point
from discreet.solvers.saddle.saddle_kernels import Outputs
from discreet_client.expressions import parse


def outputs_of(plan: Plan, problem: saddle_point.SaddleProblem) -> Outputs:
    (event,) = plan.events
    assert isinstance(event, Gaussian)
    values, gradients = scales_of(problem, plan.parameters)
    # Values are rounded to the event's grid in its units; the noise is in steps of the same
    # grid.
    grid = event.grid / event.scale
    return saddle_point.noised_outputs(
        problem, event.scale * values, event.scale * gradients, grid=grid
    )


def run_of(
    asked: Any, public: MultiAgentPublic, plan: Plan, content: Content, noise: Noise
) -> saddle_iteration.Path:
    """Of a `problem.MultiAgent` on these objectives and states, with noise drawn step by step."""
    texts = zip(public.agents, content["objectives"].tolist(), strict=True)
    objectives = {agent.name: parse(text, agent.coordinates) for agent, text in texts}
    problem, outputs = asked.solver_form(plan, objectives)

    (event,) = plan.events
    assert isinstance(event, Gaussian)

    def draw(count: int, width: int) -> Floats:
        return grid_noise(noise, event, count, width)

    return saddle_iteration.run(
        problem,
        outputs,
        asked.schedule.solver_form(),
        asked.schedule.iterations,
        noise=draw,
        states=content["initial"],
        points=PATH_POINTS,
    )

"""The iteration of a plan on private objectives, with the noise of its event."""

from __future__ import annotations

from collections.abc import Mapping

from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.multi_agent.agents import Floats
from discreet.problems.multi_agent.constraints import read
from discreet.problems.multi_agent.dataset import MultiAgentPublic
from discreet.problems.multi_agent.joint_noise import groups_of, scales_of
from discreet.problems.multi_agent.request import MultiAgentRequest
from discreet.problems.multi_agent.session import PATH_POINTS, grid_noise
from discreet.problems.plans import Plan
from discreet.solvers.saddle import saddle_iteration, saddle_point
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.saddle_kernels import Outputs
from discreet_client.expressions import Expression, parse


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


def form_of(
    asked: MultiAgentRequest, plan: Plan, objectives: Mapping[str, Expression]
) -> tuple[saddle_point.SaddleProblem, Outputs]:
    """See `problem.MultiAgent.solver_form`."""
    box: Box = {name: (low, high) for name, low, high in plan.parameters["box"]}
    names = tuple(box)
    constraints = [read(text, names) for text in asked.constraints]
    problem = saddle_point.saddle_problem(
        objectives, constraints, names, box, groups_of(plan.parameters)
    )
    return problem, outputs_of(plan, problem)


def run_of(
    asked: MultiAgentRequest, public: MultiAgentPublic, plan: Plan, content: Content, noise: Noise
) -> saddle_iteration.Path:
    """The run of a request on these objectives and states, with noise drawn step by step."""
    texts = zip(public.agents, content["objectives"].tolist(), strict=True)
    objectives = {agent.name: parse(text, agent.coordinates) for agent, text in texts}
    problem, outputs = form_of(asked, plan, objectives)

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

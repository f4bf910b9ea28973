"""Cloud multi-agent problems: agents share constraints, a trusted cloud coordinates them, and none
learns another's state.

Agents minimize objectives of their own states under common constraints. The cloud's outputs are
released with noise, step by step: values and gradients of the constraints. Multipliers are
functions of them. The states are the protected data and are in no private result. The paper (Hale &
Egerstedt 2015) calibrates each output separately, although every agent sees them all; see
`docs/problems/multi_agent.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.intake.field_issues import FieldError, issues_of, sentence
from discreet.privacy import calibration
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.base import ALWAYS, Neighbours, Synthesis
from discreet.problems.contents import Content, Progress, Released
from discreet.problems.federation import ROUNDS_ARE_SEEN, Member, Session
from discreet.problems.multi_agent import examples, masked
from discreet.problems.multi_agent.dataset import (
    SYNTHESIS,
    Floats,
    MultiAgentDataset,
    MultiAgentPublic,
    SessionAnnouncement,
    names_in,
    protection,
    proven,
    read,
    tightened,
)
from discreet.problems.multi_agent.intervals import expected_values, uncertainty_of
from discreet.problems.multi_agent.joint_noise import groups_of, joint_noise, scales_of
from discreet.problems.multi_agent.masked import MaskedRequest, MaskedSession
from discreet.problems.multi_agent.request import MultiAgentRequest
from discreet.problems.multi_agent.result import MultiAgentResult, headlines
from discreet.problems.multi_agent.session import PATH_POINTS, STATE, CloudSession, grid_noise
from discreet.problems.numbers import Budget
from discreet.problems.plans import LONGEST_SECONDS, NoiseSummary, Plan, Resources, sized
from discreet.problems.results import LEVEL, Expected, Output, Result
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.saddle_point import Outputs
from discreet_agent.expressions import Expression, parse
from discreet_agent.federation import history
from discreet_agent.sparse_sum import exchanges as sparse_exchanges
from discreet_agent.sparse_sum.conversation import longest_answer
from discreet_agent.sparse_sum.plan import FAILURE_UNITS

DRAWS_A_SECOND = 400_000
OPERATION_SECONDS = 12e-9
"""Seconds of one operation of an objective's derivative."""
READING_SECONDS = 1e-4
"""Seconds of parsing, differentiating and compiling one operation of an objective or a
constraint."""
NEIGHBOURS = (
    "one agent's trajectory of states, moved by at most its public radius in l2 over all steps"
)


class MultiAgent(MaskedRequest):
    """Minimize the sum of the agents' objectives subject to `constraints` <= 0, by a noised
    primal-dual iteration.

    All entries of the constraints' values and gradients that depend on a state get Gaussian noise
    in every step. Its scales are split at least cost such that the whole transcript moves by one
    unit of the single event that is charged.
    """

    title: ClassVar[str] = "Multi-agent coordination"
    private: ClassVar[str] = "each agent's state, from the other agents"
    published: ClassVar[str] = "multipliers of the shared constraints"
    seen_by_the_server: ClassVar[str] = (
        "The cloud sees the agents' states and answers with noise; no result contains states."
    )
    Dataset: ClassVar[type[MultiAgentDataset]] = MultiAgentDataset
    Fields: ClassVar[Any] = MultiAgentResult
    headlines: ClassVar[Any] = staticmethod(headlines)
    asked_again: ClassVar[Mapping[str, str]] = {"uncertainty": ALWAYS}
    synthesis: ClassVar[Synthesis | None] = SYNTHESIS
    made_up: ClassVar[str] = examples.MADE_UP

    @classmethod
    def example(cls) -> dict[str, Any]:
        return examples.example()

    @classmethod
    def example_for(cls, public: MultiAgentPublic) -> dict[str, Any]:
        return examples.example_for(public)

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        content["objectives"]["left"] += f" + {number / 10**9:.9f} * left"

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        return examples.worst_cases(cls)

    def alternative_values(self, public: MultiAgentPublic) -> dict[str, dict[str, Any]]:
        return examples.otherwise(self)

    def plan(self, public: MultiAgentPublic, budget: Budget) -> Plan:
        g = proven(self.constraints, public)
        box = tightened(g, public)
        steps = self.schedule.iterations
        joint = joint_noise(g, public, box, steps)
        width, coordinates = joint.width, len(public.names)
        masked_sums = self.masks == "sparse"
        if masked_sums:
            masked.check_linear(g)
        event = _event(budget, width * steps, masked_sums)
        if width * steps > LONGEST_SECONDS * DRAWS_A_SECOND:
            says = (
                f"{width} outputs in each of {steps} steps are more noise than is drawn in "
                f"{LONGEST_SECONDS} s"
            )
            raise InvalidInput(says, pointer="/problem/schedule/iterations")
        most, reading = public.most_operations, 0.0
        if joint.agents is not None:  # otherwise parsing and constraints are within the margin
            most += joint.operations
            reading = READING_SECONDS * (most + len(public.agents))
            most += joint.projecting
        held = PATH_POINTS + saddle_point.steps_at_once(width)
        resources = Resources.padded(
            0.5 * (1 + width * steps // DRAWS_A_SECOND),
            work=steps * most * OPERATION_SECONDS + reading,
            content_bytes=4 * 4000.0 * len(public.agents),  # texts
            memory_bytes=(1 << 28) + 8 * held * (width + len(g) + coordinates),
            steps=1
            if self.protocol == "job"
            else self.exchanges + 1,  # at the end the agents sign what they saw
        )
        if resources.release_quantum_seconds > LONGEST_SECONDS:
            says = (
                f"{steps} steps could take {resources.release_quantum_seconds:.3g} s, at most "
                f"{LONGEST_SECONDS}"
            )
            raise InvalidInput(says, pointer="/problem/schedule/iterations")
        operations = f"{public.most_operations} operations of all objectives"
        sums: dict[str, Any] = {}
        trusted: tuple[str, ...] = ("the cloud is trusted with the states",)
        if masked_sums:
            assert self.federation is not None
            terms = (min(self.federation.least, len(public.agents)), self.colluding or 1)
            sums = {"sums": masked.signed(g, public, box, joint, event, terms, steps)}
            trusted = masked.assumptions(sparse_exchanges.plan_of(sums["sums"]))
        plan = Plan.priced(
            [event],
            noise=tuple(
                NoiseSummary(
                    quantity=quantity,
                    distribution=event.noise,
                    scale=event.scale * scale,
                    standard_deviation=event.scale * scale,
                )
                for quantity, scale in joint.quantities  # for a distance of 1: the event's unit
            ),
            iterations={"steps": steps},
            resources=resources,
            unit=public.unit,
            neighbours=NEIGHBOURS,
            assumptions=(
                "constraints, step sizes, the agents' ranges and radii are public",
                *trusted,
                protection(public, steps),
                sized(operations) if self.protocol == "job" else ROUNDS_ARE_SEEN,
            ),
            parameters={
                # A list: stored objects do not keep the order of their keys, and units go by
                # position.
                "box": [[name, *ends] for name, ends in box.items()],
                **joint.parameters,
                "schedule": self.schedule.model_dump(),
                **sums,
            },
        )
        louder = masked.largest_noise(plan)
        return plan.model_copy(
            update={
                "noise": tuple(
                    one.model_copy(update={"standard_deviation": one.standard_deviation * louder})
                    for one in plan.noise
                ),
                "advice": tuple(one.sentence for one in self.expected(public, plan, LEVEL)),
            }
        )

    def expected(
        self, public: Any, plan: Plan, confidence: float, around: Any = None
    ) -> tuple[Expected, ...]:
        """Nothing before the agents have announced their ranges."""
        return (
            (expected_values(self.constraints, plan, confidence),)
            if "units" in plan.parameters
            else ()
        )

    def solver_form(
        self, plan: Plan, objectives: Mapping[str, Expression]
    ) -> tuple[saddle_point.SaddleProblem, Outputs]:
        """The iteration of a plan. An agent without an objective here keeps its own, or has the
        objective 0."""
        return form_of(self, plan, objectives)

    def release(
        self, public: MultiAgentPublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        """Noised outputs at public steps, and multipliers, which are functions of the noised
        outputs of all steps.

        Neighbours: one agent's trajectory, of a number or a vector, moves by at most its radius B_j
        in l2. Every output is divided by its unit; then the whole transcript moves by at most max_j
        B_j sqrt(sum_o K_oj²/u_o²) = 1 in l2 (`joint_noise`), even in closed loop: given the
        previous outputs, the difference of a step is that of agent j's state. The states are not
        released.
        """
        path = run_of(self, public, plan, content, noise)
        return {
            "steps": path.steps,
            "multipliers": path.multipliers,
            "outputs": path.released,
            "mean_multipliers": path.mean_multipliers,
            "mean_outputs": path.mean_released,
        }

    def diagnose(
        self, public: MultiAgentPublic, plan: Plan, content: Content, noise: Noise
    ) -> Released:
        path = run_of(self, public, plan, content, noise)
        return {"true_states": path.states, "true_mean_states": path.mean_states}

    def finish(
        self, public: MultiAgentPublic | None, plan: Plan, released: Released, progress: Progress
    ) -> Result:
        names, steps = [name for name, *_ in plan.parameters["box"]], released["steps"]
        multipliers = released["multipliers"]
        m = len(self.constraints)
        gradients = [
            {"constraint": k, "agent": name, "value": value}
            for (k, name), value in zip(
                plan.parameters["layout"], released["mean_outputs"].tolist(), strict=True
            )
            if name is not None
        ]
        values = {
            "multipliers": multipliers[-1],
            "average_multipliers": released["mean_multipliers"],
            "multiplier_path": Output(
                lambda: [
                    {"step": step, "multipliers": row}
                    for step, row in zip(steps.tolist(), multipliers.tolist(), strict=True)
                ],
                numbers=multipliers.size,
            ),
            "noisy_values": released["mean_outputs"][:m],
            "noisy_gradients": Output(lambda: gradients, numbers=2 * len(gradients)),
        }
        if self.uncertainty:
            values["uncertainty"] = uncertainty_of(
                self.constraints, plan, released["mean_outputs"][:m]
            )
        if "survivors" in released:
            survivors = released["survivors"]
            values["survivors"] = Output(
                lambda: [row.tobytes().hex() for row in survivors], numbers=survivors.size
            )
        if "agreement" in released:
            values["agreement"] = json.loads(released["agreement"].tobytes())
        if "true_states" in released:
            states, mean = released["true_states"], released["true_mean_states"]
            values |= {
                "state": Output(
                    lambda: dict(zip(names, states[-1].tolist(), strict=True)), numbers=len(names)
                ),
                "average_state": Output(
                    lambda: dict(zip(names, mean.tolist(), strict=True)), numbers=len(names)
                ),
                "state_path": states,
            }
        progress(1, 1)
        return Result.of(self.Fields, values)

    # Federated: every agent keeps its objective and its state -------------------------------------

    def check_announcement(self, announcement: Any) -> None:
        try:
            found = SessionAnnouncement.model_validate(announcement)
            self.check_masks(found)
            found.check_set()
        except ValidationError as error:
            raise InvalidInput(issues_of(error.errors(include_url=False), announcement)) from None
        except FieldError as error:
            raise InvalidInput(str(error), pointer=f"/{'/'.join(error.field)}") from None

    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        """Before there are agents, a plan of what is known without their ranges: the price, and
        that constraints are expressions."""
        if agents:
            return self.plan(self._public_of(agents), budget)
        names = names_in(self.constraints)
        assert self.federation is not None
        if self.masks == "sparse":
            masked.check_linear([read(text, names) for text in self.constraints])
        least = len(
            {re.sub(r"_[1-9][0-9]*$", "", name) for name in names}
        )  # ev_1, ev_2: these may belong to one agent
        if least > self.federation.agents:
            says = (
                f"{least} agents are named ({', '.join(names)[:80]}); federation.agents allows "
                "fewer"
            )
            raise InvalidInput(says, pointer="/problem/constraints")
        steps, m = self.schedule.iterations, len(self.constraints)
        return Plan.priced(
            [_event(budget, steps * m * (1 + self.federation.agents), self.masks == "sparse")],
            noise=(),
            iterations={"steps": steps},
            resources=Resources(
                release_quantum_seconds=0.5, memory_bytes=1 << 28, steps=self.exchanges + 1
            ),
            unit="trajectory",
            neighbours=NEIGHBOURS,
            assumptions=(ROUNDS_ARE_SEEN,),
            advice=(
                "how much noise there is follows from ranges and radii, which agents give when "
                "they enrol",
                *masked.demanded(steps if self.masks == "sparse" else 0),
            ),
        )

    def _public_of(self, agents: Sequence[Member]) -> MultiAgentPublic:
        figures = [
            {
                "name": agent.name,
                **{field: of for field, of in agent.announcement.items() if field != "masks"},
            }
            for agent in agents
        ]
        try:
            return MultiAgentPublic.model_validate({"unit": "trajectory", "agents": figures})
        except ValidationError as error:
            raise InvalidInput(
                sentence(error.errors(include_url=False)[0]), pointer="/roster/agents"
            ) from None

    def answer_bytes(self, plan: Plan, agents: int) -> int:
        most = max(
            (dimension or 1 for _, dimension, _ in plan.parameters.get("agents", [])), default=1
        )
        if "sums" in plan.parameters:
            return longest_answer(sparse_exchanges.plan_of(plan.parameters["sums"]))
        return max(STATE.size * most, history.SIGNATURE_BYTES)

    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        parts = (*self.solver_form(plan, {}), self.schedule.solver_form(), plan, agents)
        if self.masks == "none":
            return CloudSession(*parts)
        names = [name for name, *_ in plan.parameters["box"]]
        return MaskedSession(*parts, [read(text, names) for text in self.constraints])

    @classmethod
    def rehearse_session(cls) -> None:
        examples.rehearse_session(cls)


def _event(budget: Budget, dimension: int, masks: bool) -> Gaussian:
    """The event of outputs of this many numbers that move by 1 in l2, at the budget's price. With
    `masks` that of the chance that they do not hide is in it."""
    try:
        return calibration.gaussian(
            1.0,
            budget.epsilon,
            budget.delta,
            neighbours=NEIGHBOURS,
            dimension=dimension,
            failure=FAILURE_UNITS if masks else None,
        )
    except ValueError as error:
        pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
        raise InvalidInput(str(error), pointer=pointer) from None


# Iteration ----------------------------------------------------------------------------------------
# The iteration of a plan on private objectives, with the noise of its event.


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
) -> saddle_point.Path:
    """The run of a request on these objectives and states, with noise drawn step by step."""
    texts = zip(public.agents, content["objectives"].tolist(), strict=True)
    objectives = {agent.name: parse(text, agent.coordinates) for agent, text in texts}
    problem, outputs = form_of(asked, plan, objectives)

    (event,) = plan.events
    assert isinstance(event, Gaussian)

    def draw(count: int, width: int) -> Floats:
        return grid_noise(noise, event, count, width)

    return saddle_point.run(
        problem,
        outputs,
        asked.schedule.solver_form(),
        asked.schedule.iterations,
        noise=draw,
        states=content["initial"],
        points=PATH_POINTS,
    )

"""The public part of agents, and their private objectives and initial states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.contents import PRIVATE, Content, check_names, real_column
from discreet.problems.datasets import Column, Dataset
from discreet.problems.multi_agent.agents import (
    MAX_ENTRIES,
    MAX_POLYTOPES,
    AgentFigures,
    Name,
    hides_all,
)
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.saddle.convexity import TooManyEntries, prove_convex, prove_convex_sum
from discreet.solvers.saddle.expression_programs import MAX_INSTRUCTIONS, compiled
from discreet_client.expressions import Expression, ExpressionError, derivative, parse

Floats = NDArray[np.float64]

MAX_AGENTS = 2000
FEW_AGENTS = 200
"""The number of agents up to which the cost of a content is counted as before larger problems
existed: only in operations of derivatives."""
MAX_COORDINATES = 5000
"""The most coordinates of all agents together."""
MAX_CONSTRAINTS = 100
UNDECLARED_OPERATIONS = 50
"""Default bound of the mean operations of an agent's objective: releases take the time for this
many."""
NEAR = 1e-6
"""Relative distance that an initial state may have from its set: sums of decimals are rounded."""
MAX_PROGRAM = MAX_INSTRUCTIONS // 2
"""The most instructions of all constraints, and of all objectives; together the limit of a
program."""
MAX_CHARACTERS = 100_000
"""The longest text of a constraint, which allows a sum over all agents."""
MAX_CHARACTERS_TOGETHER = 500_000
Text = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
LongText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CHARACTERS)]


class MultiAgentPublic(Frozen):
    """The public part of the agents."""

    unit: Literal["trajectory"] = Field(
        description="One agent's trajectory of states is what neighbours change"
    )
    agents: Annotated[list[AgentFigures], InPieces(min_length=2, max_length=MAX_AGENTS)]

    max_operations: Annotated[int, Field(strict=True, ge=1, le=MAX_PROGRAM)] | None = Field(
        default=None,
        description="Public bound on the operations that derivatives of all objectives take, "
        "chosen without looking at them: releases take the time of so many. Absent: "
        f"{UNDECLARED_OPERATIONS} for each coordinate",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [agent.name for agent in self.agents]
        if len(set(names)) != len(names):
            raise FieldError("agents", "agents must have distinct names")
        count = sum(agent.count for agent in self.agents)
        if count > MAX_COORDINATES:
            raise FieldError(
                "agents", f"the agents have {count} coordinates together; at most {MAX_COORDINATES}"
            )
        polytopes = [
            agent.count * agent.polytope.rows for agent in self.agents if agent.polytope is not None
        ]
        if len(polytopes) > MAX_POLYTOPES or sum(polytopes) > MAX_ENTRIES:
            says = (
                f"{len(polytopes)} polytopes with {sum(polytopes)} numbers in their rows; at most "
                f"{MAX_POLYTOPES} with {MAX_ENTRIES}"
            )
            raise FieldError("agents", says)
        if len(set(self.names)) != count:
            raise FieldError("agents", "an agent has the same name as a coordinate of another one")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all coordinates in expressions, agent by agent."""
        return tuple(name for agent in self.agents for name in agent.coordinates)

    @property
    def plain(self) -> bool:
        """Whether every state is one number."""
        return all(agent.dimension is None for agent in self.agents)

    @property
    def many(self) -> bool:
        """Whether the time of parsing the objectives counts, in addition to that of their
        derivatives."""
        return not self.plain or len(self.agents) > FEW_AGENTS

    @property
    def agent_of(self) -> list[int]:
        """The position of the agent of each coordinate."""
        return [position for position, agent in enumerate(self.agents) for _ in range(agent.count)]

    @property
    def most_operations(self) -> int:
        """The most operations of the derivatives of all objectives, from public figures; with
        `many`, including the nodes of the objectives."""
        return self.max_operations or UNDECLARED_OPERATIONS * sum(
            agent.count for agent in self.agents
        )

    def box(self) -> dict[str, tuple[float, float]]:
        return {name: ends for agent in self.agents for name, ends in agent.ranges().items()}


class MultiAgentContent(Frozen):
    """The private content: each agent's objective, which depends only on its own state, and its
    initial state."""

    objectives: dict[Name, Text]
    initial: dict[Name, Real | Annotated[list[Real], Field(fail_fast=True)]] | None = Field(
        default=None,
        description="By agent; of a vector a number for all coordinates, or a list. Absent: the "
        "middle",
    )


class MultiAgentDataset(Dataset):
    """Objectives and initial states of agents, for a problem that runs in one process."""

    kind: Literal["multi_agent"]
    public: MultiAgentPublic
    content: MultiAgentContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def sizes(cls, public: MultiAgentPublic, content: Content) -> dict[str, tuple[int, int]]:
        texts = zip(public.agents, content["objectives"].tolist(), strict=True)
        objectives = [(parse(text, agent.coordinates), agent) for agent, text in texts]
        slopes = [slope for objective, agent in objectives for slope in _slopes(objective, agent)]
        operations = int(compiled(slopes, public.names, MAX_PROGRAM).code.size)
        operations += sum(objective.size for objective, _ in objectives) if public.many else 0
        return {"max_operations": (operations, public.most_operations)}

    @classmethod
    def most_units(cls, public: MultiAgentPublic) -> int | None:
        return len(public.agents)

    @classmethod
    def relation(cls, public: MultiAgentPublic) -> dict[str, Any]:
        radii = {f"radius of {agent.name}": agent.radius for agent in public.agents}
        return {"neighbours": "states moved", **radii}

    @classmethod
    def read_rows(cls, public: MultiAgentPublic, content: MultiAgentContent) -> Content:
        check_sets(public)
        found: list[FieldIssue] = []
        texts, initial, slopes = [], [], []
        for field, given in (
            ("objectives", content.objectives),
            ("initial", content.initial or {}),
        ):
            unknown = sorted(set(given) - {agent.name for agent in public.agents})
            found += [
                FieldIssue(f"/content/{field}/{name}", f"no agent is called {name}")
                for name in unknown
            ]
        for agent in public.agents:
            text = content.objectives.get(agent.name, "0")
            pointer = f"/content/objectives/{agent.name}"
            try:
                objective = parse(text, agent.coordinates)
                ends = zip(agent.lowers().tolist(), agent.uppers().tolist(), strict=True)
                prove = prove_convex_sum if public.many else prove_convex
                prove(objective, dict(zip(agent.coordinates, ends, strict=True)))
                texts.append(str(objective))
                parse(
                    texts[-1], agent.coordinates
                )  # as a release will: 1e9 has become 1000000000, which may be too long
                slopes += _slopes(objective, agent)
            except (ValueError, TooManyEntries) as error:  # not in the grammar, or not convex
                found.append(FieldIssue(pointer, str(error)))
            start, issue = _start(agent, (content.initial or {}).get(agent.name))
            found += [] if issue is None else [FieldIssue(f"/content/initial/{agent.name}", issue)]
            initial += start
        if found:
            raise InvalidInput(found)
        try:  # refused now: a release would fail because of the data
            compiled(slopes, public.names, MAX_PROGRAM)
        except ExpressionError as error:
            raise InvalidInput(str(error), pointer="/content/objectives") from None
        return {"objectives": np.array(texts), "initial": np.array(initial, dtype=np.float64)}

    @classmethod
    def columns(cls, public: MultiAgentPublic) -> list[Column]:
        return [
            Column("agent", "Which agent it is, by its public name"),
            Column("objective", "What it would make small"),
            Column("initial", "Where its state starts", needed=False),
        ]

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        agents = [
            {"name": name, "lower": 0, "upper": 5, "radius": 0.5} for name in ("left", "right")
        ]
        columns = {"agent": ["left", "right"], "objective": ["(left - 3)^2", "2 * (right - 4)^2"]}
        for more in ({}, {"initial": [1.0, 2.0]}):
            yield {"unit": "trajectory", "agents": agents}, columns | more

    @classmethod
    def read_table(cls, public: MultiAgentPublic, table: pa.Table) -> Content:
        """Columns `agent, objective` and, if initial states are given, `initial`."""
        given = ["initial"] if "initial" in table.column_names else []
        check_names(table, ["agent", "objective", *given], [], "/content")
        names = [str(name) for name in table.column("agent").to_pylist()]
        if len(set(names)) != len(names):
            raise InvalidInput("an agent appears twice", pointer="/content")
        starts: dict[str, Any] | None = None
        if given:
            starts = dict(
                zip(names, real_column(table, "initial", "/content").tolist(), strict=True)
            )
        texts = [str(text) for text in table.column("objective").to_pylist()]
        objectives = dict(zip(names, texts, strict=True))
        return cls.read_rows(public, MultiAgentContent(objectives=objectives, initial=starts))


def _slopes(objective: Expression, agent: AgentFigures) -> list[Expression]:
    return [derivative(objective, name) for name in agent.coordinates]


def _start(
    agent: AgentFigures, given: float | list[float] | None
) -> tuple[list[float], str | None]:
    """An agent's initial state, and the errors in the given value."""
    low, high = agent.lowers(), agent.uppers()
    if given is None and agent.dimension is None:
        return [float((low[0] + high[0]) / 2)], None
    if given is None:
        return agent.projected((low + high) / 2).tolist(), None
    if isinstance(given, list) and len(given) != agent.dimension:
        return [
            0.0
        ] * agent.count, f"{len(given)} numbers for a state of dimension {agent.dimension or 'one'}"
    start = np.broadcast_to(np.array(given, dtype=np.float64), agent.count)
    for value, least, most in zip(start.tolist(), low.tolist(), high.tolist(), strict=True):
        if not least <= value <= most:
            return [0.0] * agent.count, f"must be {least:g} to {most:g}; found {value:g}"
    if agent.within is not None and np.abs(agent.projected(start) - start).max() > NEAR * (
        1 + np.abs(start).max()
    ):
        return [0.0] * agent.count, f"is not in the agent's {next(iter(agent.within))}"
    return start.tolist(), None


def check_sets(public: MultiAgentPublic) -> None:
    """InvalidInput that names each agent whose polytope has no point."""
    found = []
    for place, agent in enumerate(public.agents):
        try:
            agent.check_set()
        except FieldError as error:
            pointer = f"/public/agents/{place}/{'/'.join(error.field)}"
            found.append(FieldIssue(pointer, f"{agent.name}: {error}"))
    if found:
        raise InvalidInput(found)


def protection(public: MultiAgentPublic, steps: int) -> str:
    """The unit that a radius protects: a whole trajectory only if it covers the range in every
    step."""
    if all(hides_all(agent, steps) for agent in public.agents):
        return (
            "the radii are as large as any two trajectories of the ranges are apart: all of a "
            "trajectory is hidden"
        )
    return (
        "trajectories that differ by more than a radius are told apart better than the guarantee "
        f"says: hiding any trajectory of a range over {steps} steps needs its width times "
        f"{math.sqrt(steps):.4g}"
    )

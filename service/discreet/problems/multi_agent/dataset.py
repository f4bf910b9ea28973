"""What is public of agents, and their private objectives and first states."""

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
from discreet.problems.columns import check_names, real_column
from discreet.problems.contents import PRIVATE, Content
from discreet.problems.datasets import Column, Dataset
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.saddle.convexity import prove_convex
from discreet.solvers.saddle.expression_programs import MAX_INSTRUCTIONS, compiled
from discreet_client.expressions import ExpressionError, derivative, parse

Floats = NDArray[np.float64]

MAX_AGENTS = 200
MAX_CONSTRAINTS = 100
UNDECLARED_OPERATIONS = 50
"""Of an agent's objective, on average, at most, where no bound is declared: releases take the time of so many."""
MAX_PROGRAM = MAX_INSTRUCTIONS // 2
"""Instructions of all constraints, and of all objectives: together what a program may have."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
Bound = Annotated[Real, Field(ge=-1e6, le=1e6)]


class Announcement(Frozen):
    """What is public of an agent: the range of its state, and the radius of its protection."""

    lower: Bound
    upper: Bound
    radius: Annotated[Real, Field(gt=0, le=1e9)] = Field(
        description="Neighbouring trajectories of this agent's state differ by at most this in l2, over all steps"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower < self.upper:
            raise FieldError("lower", "lower must be below upper")
        return self


class AgentFigures(Announcement):
    """An agent with its name in expressions."""

    name: Name


class MultiAgentPublic(Frozen):
    """What is published of the agents."""

    unit: Literal["trajectory"] = Field(description="One agent's trajectory of states is what neighbours change")
    agents: Annotated[list[AgentFigures], InPieces(min_length=2, max_length=MAX_AGENTS)]

    max_operations: Annotated[int, Field(strict=True, ge=1, le=MAX_PROGRAM)] | None = Field(
        default=None,
        description="Public bound on the operations that derivatives of all objectives take, chosen without looking "
        f"at them: releases take the time of so many. Absent: {UNDECLARED_OPERATIONS} for each agent",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [agent.name for agent in self.agents]
        if len(set(names)) != len(names):
            raise FieldError("agents", "agents have distinct names")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(agent.name for agent in self.agents)

    @property
    def most_operations(self) -> int:
        """How many operations the derivatives of all objectives may take, from public figures."""
        return self.max_operations or UNDECLARED_OPERATIONS * len(self.agents)

    def box(self) -> dict[str, tuple[float, float]]:
        return {agent.name: (agent.lower, agent.upper) for agent in self.agents}


class MultiAgentContent(Frozen):
    """The private content: each agent's objective, of its own state alone, and where it starts."""

    objectives: dict[Name, Text]
    initial: dict[Name, Real] | None = None


class MultiAgentDataset(Dataset):
    """Objectives and initial states of agents, for a problem that runs in one process."""

    kind: Literal["multi_agent"]
    public: MultiAgentPublic
    content: MultiAgentContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def sizes(cls, public: MultiAgentPublic, content: Content) -> dict[str, tuple[int, int]]:
        texts = zip(public.names, content["objectives"].tolist(), strict=True)
        slopes = [derivative(parse(text, [name]), name) for name, text in texts]
        operations = int(compiled(slopes, public.names, MAX_PROGRAM).code.size)
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
        found: list[FieldIssue] = []
        texts, initial, slopes = [], [], []
        for field, given in (("objectives", content.objectives), ("initial", content.initial or {})):
            unknown = sorted(set(given) - set(public.names))
            found += [FieldIssue(f"/content/{field}/{name}", f"no agent is called {name}") for name in unknown]
        for agent in public.agents:
            text = content.objectives.get(agent.name, "0")
            pointer = f"/content/objectives/{agent.name}"
            try:
                objective = parse(text, [agent.name])
                prove_convex(objective, {agent.name: (agent.lower, agent.upper)})
                texts.append(str(objective))
                parse(texts[-1], [agent.name])  # as a release will: 1e9 has become 1000000000, which may be too long
                slopes.append(derivative(objective, agent.name))
            except ValueError as error:  # of the grammar, or not convex
                found.append(FieldIssue(pointer, str(error)))
            start = (content.initial or {}).get(agent.name, (agent.lower + agent.upper) / 2)
            if not agent.lower <= start <= agent.upper:
                says = f"must be {agent.lower:g} to {agent.upper:g}; found {start:g}"
                found.append(FieldIssue(f"/content/initial/{agent.name}", says))
            initial.append(start)
        if found:
            raise InvalidInput(found)
        try:  # now: a release that met it would fail because of the data
            compiled(slopes, public.names, MAX_PROGRAM)
        except ExpressionError as error:
            raise InvalidInput(str(error), pointer="/content/objectives") from None
        return {"objectives": np.array(texts), "initial": np.array(initial, dtype=np.float64)}

    @classmethod
    def columns(cls, public: MultiAgentPublic) -> list[Column]:
        low, high = min(agent.lower for agent in public.agents), max(agent.upper for agent in public.agents)
        return [
            Column("agent", "names", "Which agent it is, by its public name", words=("name",)),
            Column("objective", "names", "What it would make small", words=("cost", "expression")),
            Column("initial", "numbers", "Where its state starts", low, high, needed=False, words=("start", "state")),
        ]

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        agents = [{"name": name, "lower": 0, "upper": 5, "radius": 0.5} for name in ("left", "right")]
        columns = {"agent": ["left", "right"], "objective": ["(left - 3)^2", "2 * (right - 4)^2"]}
        for more in ({}, {"initial": [1.0, 2.0]}):
            yield {"unit": "trajectory", "agents": agents}, columns | more

    @classmethod
    def read_table(cls, public: MultiAgentPublic, table: pa.Table) -> Content:
        """Columns `agent, objective` and, if starts are given, `initial`."""
        given = ["initial"] if "initial" in table.column_names else []
        check_names(table, ["agent", "objective", *given], [], "/content")
        names = [str(name) for name in table.column("agent").to_pylist()]
        if len(set(names)) != len(names):
            raise InvalidInput("an agent stands twice", pointer="/content")
        starts = dict(zip(names, real_column(table, "initial", "/content").tolist(), strict=True)) if given else None
        texts = [str(text) for text in table.column("objective").to_pylist()]
        objectives = dict(zip(names, texts, strict=True))
        return cls.read_rows(public, MultiAgentContent(objectives=objectives, initial=starts))


def protection(public: MultiAgentPublic, steps: int) -> str:
    """What a radius protects: a whole trajectory only where it spans the range in every step."""
    whole = [a.radius >= (a.upper - a.lower) * math.sqrt(steps) for a in public.agents]
    if all(whole):
        return "the radii are as large as any two trajectories of the ranges are apart: all of a trajectory is hidden"
    return (
        "trajectories that differ by more than a radius are told apart better than the guarantee says: "
        f"hiding any trajectory of a range over {steps} steps needs its width times {math.sqrt(steps):.4g}"
    )

"""The public part of agents, and their private objectives and initial states."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.base import Synthesis
from discreet.problems.contents import PRIVATE, Content, Profile, check_names, real_column
from discreet.problems.datasets import Column, Dataset
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.saddle.convexity import (
    NoSlaterPoint,
    NotConvex,
    TooManyEntries,
    prove_convex,
    prove_convex_sum,
    shaved_box,
    slater_point,
    strict_point,
    tightened_box,
)
from discreet.solvers.saddle.expression_programs import MAX_INSTRUCTIONS, compiled
from discreet.solvers.saddle.saddle_point import Group, saddle_problem
from discreet_agent.convex_sets import Polytope
from discreet_agent.expressions import FUNCTIONS, Expression, ExpressionError, derivative, parse
from discreet_agent.projections import onto, polytope_rows

# Synthesis ----------------------------------------------------------------------------------------
# Synthetic objectives of public agents: each prefers a state of its own within its bounds.


def rows(public: MultiAgentPublic, units: int | None) -> int:
    """One for each agent."""
    return len(public.agents)


def columns(
    public: MultiAgentPublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None = None,
) -> dict[str, Any]:
    """Columns of an upload: quadratic costs of weight 0.5 to 2 around a state within the agent's
    bounds."""
    objectives = []
    for agent in public.agents:
        terms = []
        for name, low, high in zip(
            agent.coordinates, agent.lowers().tolist(), agent.uppers().tolist(), strict=True
        ):
            wanted = generator.uniform(low, high)
            terms.append(f"{generator.uniform(0.5, 2):.3f} * ({name} - ({wanted:.4g}))^2")
        objectives.append(" + ".join(terms))
    return {"agent": [agent.name for agent in public.agents], "objective": objectives}


SYNTHESIS = Synthesis(rows, columns)


# Dataset ------------------------------------------------------------------------------------------

# Agents -------------------------------------------------------------------------------------------
# The public part of an agent: its state's coordinates, their set, and the radius of its protection.

MAX_DIMENSION = 1000
MAX_NUMBERS = 128
"""The most coordinates plus rows of a polytope: a dense system of this many equations is solved."""
MAX_ENTRIES = 20_000
"""The most entries of the rows of all polytopes together."""
MAX_POLYTOPES = 500
"""The most polytopes: each is checked for a point in some milliseconds."""
CUTS = 3
"""Number of passes that tighten a box by the rows of a polytope."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
Bound = Annotated[Real, Field(ge=-1e6, le=1e6)]
Vector = Annotated[list[Bound], Field(min_length=1, max_length=MAX_DIMENSION, fail_fast=True)]
SumBound = Annotated[Real, Field(ge=-1e9, le=1e9)]


class SumRange(Frozen):
    """The range of the sum of a state's coordinates, such as an energy over hours."""

    lower: SumBound
    upper: SumBound = Field(description="May equal `lower`: then the sum is fixed")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lower <= self.upper:
            raise FieldError("lower", "lower must not be above upper")
        return self


class Ball(Frozen):
    """Points within `radius` of `centre`."""

    centre: Vector
    radius: Annotated[Real, Field(gt=0, le=1e6)]


Row = Annotated[list[Bound], Field(min_length=1, max_length=MAX_NUMBERS, fail_fast=True)]
Rows = Annotated[list[Row], Field(max_length=MAX_NUMBERS, fail_fast=True)]
Limits = Annotated[list[SumBound], Field(max_length=MAX_NUMBERS, fail_fast=True)]


class AgentPolytope(Frozen):
    """`A x <= b` and `C x = d`, each with a column for each coordinate; either may be left out."""

    A: Rows = Field(default_factory=list, description="Rows of `A x <= b`")
    b: Limits = Field(default_factory=list)
    C: Rows = Field(default_factory=list, description="Rows of `C x = d`")
    d: Limits = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_limits(self) -> Self:
        for matrix, limits in (("A", "b"), ("C", "d")):
            rows, ends = len(getattr(self, matrix)), len(getattr(self, limits))
            if rows != ends:
                raise FieldError(limits, f"{ends} limits for the {rows} rows of {matrix}")
        if not self.b and not self.d:
            raise FieldError("A", "a polytope has a row in A or in C")
        return self

    @property
    def rows(self) -> int:
        return len(self.b) + len(self.d)


def _absent(value: Any) -> bool:
    return value is None


SETS = ("budget", "ball", "polytope")
EMPTY = "no point of the box keeps all rows"


class Announcement(Frozen):
    """The public part of an agent: the set of its states, and the radius of its protection."""

    dimension: Annotated[int, Field(strict=True, ge=1, le=MAX_DIMENSION)] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Of a state that is a vector: an agent `ev` has the coordinates `ev_1`, "
        "`ev_2`, …; absent: one number, by the agent's own name",
    )
    lower: Bound | Vector = Field(
        description="Of the state, or of each coordinate: one number for all, or a list"
    )
    upper: Bound | Vector
    budget: SumRange | None = Field(
        default=None,
        exclude_if=_absent,
        description="What the coordinates add up to, within the box",
    )
    ball: Ball | None = Field(
        default=None, exclude_if=_absent, description="In which the coordinates lie, in the box"
    )
    polytope: AgentPolytope | None = Field(
        default=None,
        exclude_if=_absent,
        description="Rows that the coordinates keep, within the box",
    )
    radius: Annotated[Real, Field(gt=0, le=1e9)] = Field(
        description="Neighbouring trajectories of this agent's state differ by at most this in l2, "
        "over all steps"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for field in ("lower", "upper"):
            given = getattr(self, field)
            if isinstance(given, list) and len(given) != self.dimension:
                says = f"{len(given)} numbers for a state of dimension {self.dimension or 'one'}"
                raise FieldError(field, says if self.dimension else "a list needs `dimension`")
        given = [field for field in SETS if getattr(self, field) is not None]
        for field in given:
            if self.dimension is None:
                raise FieldError(field, f"a {field} is of a state with a `dimension`")
        if len(given) > 1:
            says = (
                "an agent has a budget, a ball or a polytope beside its box, one of them (a budget "
                "is a row of ones in a polytope)"
            )
            raise FieldError(given[1], says)
        low, high = self.lowers(), self.uppers()
        if not (low < high).all():
            raise FieldError("lower", "lower must be below upper")
        if self.budget is not None and not (
            low.sum() <= self.budget.upper and high.sum() >= self.budget.lower
        ):
            says = f"the box allows sums of {low.sum():g} to {high.sum():g}: none of the budget"
            raise FieldError("budget", says)
        if self.ball is not None:
            if len(self.ball.centre) != self.dimension:
                raise FieldError(
                    "ball/centre",
                    f"{len(self.ball.centre)} numbers; the dimension is {self.dimension}",
                )
            centre = np.array(self.ball.centre, dtype=np.float64)
            if not np.linalg.norm(np.clip(centre, low, high) - centre) < self.ball.radius:
                raise FieldError("ball", "no point of the box is inside the ball")
        if self.polytope is not None:
            self._check_rows(self.polytope)
        return self

    def _check_rows(self, polytope: AgentPolytope) -> None:
        """Checks of a polytope that need no search for a point in it, for which see `check_set`."""
        for matrix in ("A", "C"):
            for place, row in enumerate(getattr(polytope, matrix)):
                if len(row) != self.dimension:
                    raise FieldError(
                        f"polytope/{matrix}/{place}",
                        f"{len(row)} numbers; the dimension is {self.dimension}",
                    )
        if self.count + polytope.rows > MAX_NUMBERS:
            raise FieldError(
                "polytope",
                f"{self.count} coordinates and {polytope.rows} rows are more than {MAX_NUMBERS} "
                "together",
            )
        low, high = self.cut()
        if not (low <= high).all():
            raise FieldError("polytope", EMPTY)

    def check_set(self) -> None:
        """FieldError if no state satisfies all rows of the polytope."""
        if self.polytope is None:
            return
        try:
            Polytope(np.array(self.lowers()), np.array(self.uppers()), *self._rows())
        except ValueError as error:
            raise FieldError("polytope", str(error)) from None

    @property
    def count(self) -> int:
        """Coordinates."""
        return self.dimension or 1

    @property
    def within(self) -> dict[str, Any] | None:
        """The set apart from the box, in the form of `discreet_agent.projections.onto`."""
        found = {name: getattr(self, name) for name in SETS if getattr(self, name) is not None}
        return {name: one.model_dump() for name, one in found.items()} or None

    def lowers(self) -> Floats:
        """float64[count]"""
        return np.broadcast_to(np.array(self.lower, dtype=np.float64), self.count)

    def uppers(self) -> Floats:
        """float64[count]"""
        return np.broadcast_to(np.array(self.upper, dtype=np.float64), self.count)

    def projected(self, point: Floats) -> Floats:
        """The nearest state that the agent may have."""
        return onto(point, self.lowers(), self.uppers(), self.within)

    def _rows(self) -> tuple[Floats, Floats, Floats]:
        """R float64[r, count], least and most float64[r] of the polytope."""
        assert self.polytope is not None
        return polytope_rows(self.polytope.model_dump(), self.count)

    def cut(self) -> tuple[Floats, Floats]:
        """The box, tightened by each row: `R_i x_i` is at most the row's limit minus the least sum
        of the other coordinates. All sums are rounded outwards."""
        low, high = self.lowers().copy(), self.uppers().copy()
        R, least, most = self._rows()
        for _ in range(CUTS):
            for row, begin, end in zip(R, least, most, strict=True):
                ends = np.sort(np.stack([row * low, row * high]), axis=0)
                others = ends.sum(axis=1, keepdims=True) - ends
                limit = abs(end) if np.isinf(begin) else max(abs(begin), abs(end))
                # Products below the least normal double have a larger relative error.
                room = 1e-12 * (float(np.abs(ends).sum()) + limit) + 1e-300
                used = row != 0
                bounds = np.stack([begin - others[1] - room, end - others[0] + room])[:, used]
                with np.errstate(over="ignore"):  # by a tiny entry: then it bounds nothing
                    bounds = np.sort(bounds / row[used], axis=0)
                low[used] = np.maximum(low[used], bounds[0])
                high[used] = np.minimum(high[used], bounds[1])
                if not (low <= high).all():
                    return low, high
        return low, high

    def widest(self) -> float:
        """Upper bound of the l2 distance of two states of the set."""
        low, high = (self.lowers(), self.uppers()) if self.polytope is None else self.cut()
        width = float(np.linalg.norm(high - low))
        return width if self.ball is None else min(width, 2 * self.ball.radius)


class SessionAnnouncement(Announcement):
    """What an agent of a session announces."""

    masks: Literal["sparse"] | None = Field(
        default=None,
        exclude_if=_absent,
        description="Of a job with masks, and only of one: the agent takes part in masked sums "
        "alone, and never sends its state",
    )


class AgentFigures(Announcement):
    """An agent with its name in expressions."""

    name: Name

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of its coordinates in expressions."""
        return coordinates_of(self.name, self.dimension)

    def group(self) -> Group:
        return Group(self.name, self.coordinates, self.within)

    def ranges(self) -> dict[str, tuple[float, float]]:
        """The range of each coordinate, also tightened by the set apart from the box."""
        low, high = self.lowers(), self.uppers()
        if self.polytope is not None:
            low, high = self.cut()
        if self.budget is not None:
            # The least and the most of the other coordinates; their sums are rounded.
            room = 1e-12 * float(
                np.abs(low).sum() + np.abs(high).sum() + abs(self.budget.lower + self.budget.upper)
            )
            low = np.maximum(low, self.budget.lower - (high.sum() - high) - room)
            high = np.minimum(
                high, self.budget.upper - (self.lowers().sum() - self.lowers()) + room
            )
        if self.ball is not None:
            centre = np.array(self.ball.centre, dtype=np.float64)
            room = 1e-12 * (float(np.abs(centre).max()) + self.ball.radius)
            low = np.maximum(low, centre - self.ball.radius - room)
            high = np.minimum(high, centre + self.ball.radius + room)
        ends = zip(low.tolist(), high.tolist(), strict=True)
        return dict(zip(self.coordinates, ends, strict=True))


def coordinates_of(name: str, dimension: int | None) -> tuple[str, ...]:
    """The names of an agent's coordinates in expressions."""
    return (
        (name,)
        if dimension is None
        else tuple(f"{name}_{place}" for place in range(1, dimension + 1))
    )


def hides_all(agent: Announcement, steps: int) -> bool:
    """Whether the radius covers any two trajectories of this many steps."""
    return agent.radius >= agent.widest() * math.sqrt(steps)


# Dataset ------------------------------------------------------------------------------------------

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


# Constraints --------------------------------------------------------------------------------------
# Shared constraints: parsing, proofs of convexity, and the ranges that they imply.

MAX_COUPLINGS = 10_000
"""The most constraints times squared agents for which a conic solver tightens ranges and every pair
is examined."""


def term_by_term(constraints: Sequence[Any], public: MultiAgentPublic) -> bool:
    """Whether a problem is planned term by term: if states are vectors, or agents too many to
    examine all pairs."""
    return not public.plain or len(constraints) * len(public.agents) ** 2 > MAX_COUPLINGS


def read(text: str, names: Sequence[str]) -> Expression:
    """A parsed constraint; ExpressionError if it is not an expression."""
    return parse(text, names, most_characters=MAX_CHARACTERS, most_nodes=MAX_CHARACTERS)


def names_in(texts: Sequence[str]) -> list[str]:
    """The agents that constraints name; InvalidInput if a constraint is not an expression."""
    words = {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}
    names = sorted(words - set(FUNCTIONS))
    issues = []
    for position, text in enumerate(texts):
        try:
            read(text, names)
        except ExpressionError as error:
            issues.append(FieldIssue(f"/problem/constraints/{position}", str(error)))
    if issues:
        raise InvalidInput(issues)
    return names


def proven(texts: Sequence[str], public: MultiAgentPublic) -> list[Expression]:
    """Parsed and proven convex; InvalidInput with the offending term."""
    found, issues = [], []
    prove = prove_convex_sum if term_by_term(texts, public) else prove_convex
    for position, text in enumerate(texts):
        pointer = f"/problem/constraints/{position}"
        try:
            constraint = read(text, public.names)
            prove(constraint, public.box())
            found.append(constraint)
        except (ExpressionError, NotConvex, TooManyEntries) as error:
            issues.append(FieldIssue(pointer, str(error)))
    if issues:
        raise InvalidInput(issues)
    return found


def tightened(
    constraints: list[Expression], public: MultiAgentPublic
) -> dict[str, tuple[float, float]]:
    """The ranges, tightened by the constraints: smaller ranges need less noise."""
    if term_by_term(constraints, public):
        return _shaved(constraints, public)
    try:
        slater_point(constraints, public.box())
    except NoSlaterPoint as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    return tightened_box(constraints, public.box())


def _shaved(
    constraints: list[Expression], public: MultiAgentPublic
) -> dict[str, tuple[float, float]]:
    groups = [agent.group() for agent in public.agents]
    try:
        strict_point(
            saddle_problem({}, constraints, public.names, public.box(), groups), constraints
        )
    except (NoSlaterPoint, ExpressionError) as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    return shaved_box(constraints, public.box())

"""The data of operator and agents of a coupled quadratic program, and how it is to be solved."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.intake.items import InPieces
from discreet.problems.numbers import CLIP, Delta, Epsilon, Frozen, Positive, Real
from discreet.solvers.saddle.spds import Part
from discreet_agent import secure_sum
from discreet_agent.convex_sets import Box, BudgetedBox, Polytope
from discreet_agent.cost_terms import MOST_POWER, MOST_TERMS
from discreet_agent.costs import ConvexCost, QuadraticCost, cost_of

Floats = NDArray[np.float64]
MAX_DIMENSION = 16_384

Step = Annotated[Real, Field(gt=0)]
Reach = Annotated[Real, Field(ge=0)]
Vector = Annotated[tuple[Real, ...], InPieces()]
Matrix = Annotated[tuple[Vector, ...], InPieces()]
Side = Vector | Real
Tolerance = Annotated[
    Real,
    Field(
        gt=0,
        lt=1,
        description="At the end agents say whether they have reached the optimum: each x and each "
        "constraint within this share of what is used there, in its own unit. Null: they say "
        "nothing. Sums with noise never settle, and nothing is said of them",
    ),
]


class OperatorData(Frozen):
    """The operator's data: c of the coupled objective, d of the constraints. They are neither
    published nor sent to agents."""

    c: Vector
    d: Vector


class SumBudget(Frozen):
    """The range of the sum of an agent's variables, such as the energy that a vehicle charges."""

    lower: Real
    upper: Real


class QuadraticTerm(Frozen):
    """½ x'P x, P symmetric and positive semidefinite."""

    kind: Literal["quadratic"]
    P: Matrix


class RowsTerm(Frozen):
    """A function of `A x - b`, row by row, times a weight."""

    A: Matrix | None = Field(default=None, description="One column a variable; x itself without")
    b: Side = Field(default=0.0, description="One number, or one a row of A")
    weight: Annotated[Real, Field(gt=0)] = 1.0


class PowerTerm(RowsTerm):
    """weight Σ |A x - b|^power."""

    kind: Literal["power"]
    power: Annotated[Real, Field(gt=1, le=MOST_POWER)] = 2.0


class PiecewiseLinearTerm(RowsTerm):
    """weight max (A x - b), the maximum over the rows."""

    kind: Literal["piecewise_linear"]


class LogBarrierTerm(RowsTerm):
    """-weight Σ log (b - A x); the box must lie inside its domain."""

    kind: Literal["log_barrier"]


class EntropyTerm(RowsTerm):
    """weight Σ u log u, u = A x - b, which must be above 0 on the box."""

    kind: Literal["entropy"]


CostTerm = Annotated[
    QuadraticTerm | PowerTerm | PiecewiseLinearTerm | LogBarrierTerm | EntropyTerm,
    Field(discriminator="kind"),
]


class PolytopeRows(Frozen):
    """`A x <= b` within the box, which must then be bounded."""

    A: Matrix
    b: Vector


class AgentData(Frozen):
    """One agent's part, k variables. A_u: rows of c by k; A_g: rows of d by k; A_q: any rows by k;
    a_l: k. `terms`: convex costs in addition to `|A_q x|² + a_l · x`. `budget`: least and most sum
    of its variables; `polytope`: rows that they satisfy; both within a bounded box."""

    A_u: Matrix
    A_g: Matrix
    A_q: Matrix = ()
    a_l: Annotated[tuple[Real, ...], InPieces(min_length=1)]
    terms: Annotated[tuple[CostTerm, ...], InPieces(max_length=MOST_TERMS)] = Field(
        default=(),
        description="Convex costs beside those of A_q and a_l, such as a price in steps or a wear "
        "that grows with a power",
    )
    lower: Side = 0.0
    upper: Side
    budget: SumBudget | None = None
    polytope: PolytopeRows | None = None

    @property
    def matrices(self) -> list[tuple[str, Matrix]]:
        """All matrices with one column for each variable, with their locations."""
        found = [(name, getattr(self, name)) for name in ("A_u", "A_g", "A_q")]
        for place, term in enumerate(self.terms):
            name, matrix = ("P", term.P) if isinstance(term, QuadraticTerm) else ("A", term.A)
            found.append((f"terms/{place}/{name}", matrix or ()))
        if self.polytope is not None:
            found.append(("polytope/A", self.polytope.A))
        return found

    @property
    def own_rows(self) -> int:
        """The rows of its terms and its polytope."""
        return self.solved_rows + sum(
            len(term.P) for term in self.terms if isinstance(term, QuadraticTerm)
        )

    @property
    def solved_rows(self) -> int:
        """The rows for which it uses an interior point method, or 0: quadratic terms need none."""
        rows = 0 if self.polytope is None else len(self.polytope.b)
        for term in self.terms:
            if not isinstance(term, QuadraticTerm):
                rows += len(self.a_l) if term.A is None else len(term.A)
        return rows

    @property
    def coefficients(self) -> int:
        """The number of entries of its cost and set, without its rows of the sums."""
        return len(self.a_l) * (len(self.A_q) + self.own_rows)


class FederatedAgents(Frozen):
    """The number of agents, and public dimensions of their sums."""

    count: Positive
    coupled: Annotated[
        int, Field(strict=True, ge=0, le=MAX_DIMENSION, description="Rows of A_u, entries of c")
    ]
    constraints: Annotated[
        int, Field(strict=True, ge=0, le=MAX_DIMENSION, description="Rows of A_g, entries of d")
    ]
    reach: Reach | Annotated[tuple[Reach, ...], InPieces(max_length=MAX_DIMENSION)] | None = Field(
        default=None,
        description="The largest magnitude of an entry of any agent's (A_u x, A_g x), by box "
        "and coefficients: one for all rows, or one a row, those of A_u first. The owner signs "
        "it; an agent that could pass it takes no part, and agents check every sum against it",
    )


class QpSteps(Frozen):
    """Steps of the shrunken primal-dual subgradient method."""

    primal: Step | Annotated[tuple[Step, ...], InPieces()] | None = Field(
        default=None,
        description="alpha, for all or one an agent; from the problem's constants when not given",
    )
    dual: Annotated[Real, Field(gt=0)] | None = Field(
        default=None, description="beta; given whenever primal is"
    )
    shrink: Annotated[Real, Field(gt=0, le=1, description="tau")] = 1.0
    regularization: Annotated[
        Real, Field(ge=0, description="Added curvature; moves the answer by as much")
    ] = 0.0
    iterations: Annotated[int, Field(strict=True, ge=1, le=100_000)]


class Encryption(Frozen):
    """How the sums are hidden."""

    scheme: secure_sum.Scheme = "paillier"
    key_bits: Annotated[
        int, Field(strict=True, description="Of the Paillier modulus; masking has none")
    ] = 3072
    fraction_bits: Annotated[int, Field(strict=True, ge=0, le=62)] = 32
    slot_bits: Annotated[int, Field(strict=True, ge=16, le=64, multiple_of=8)] = 64
    colluding: Annotated[
        int, Field(strict=True, ge=1, description="Agents that may pool what they know")
    ] = 1


class SumNoise(Frozen):
    """Noise inside the sums: the opened sums of all rounds together are then differentially
    private."""

    epsilon: Epsilon
    delta: Annotated[Delta, Field(gt=0)]
    clip: Annotated[Real, Field(gt=0), CLIP] | None = Field(
        default=None,
        description="Public bound on the l2 norm of a contribution, longer ones are scaled down; "
        "from the boxes when not given, which a federated job cannot",
    )


def part_of(agent: AgentData) -> Part:
    """Raises nothing once `check_shapes` has passed."""
    k = len(agent.a_l)

    def matrix(rows: Matrix) -> Floats:
        return np.array(rows, dtype=np.float64).reshape(len(rows), k)

    return Part(matrix(agent.A_u), matrix(agent.A_g), agent_cost(agent), set_of(agent))


def agent_cost(agent: AgentData) -> QuadraticCost | ConvexCost:
    """Raises BadTerm."""
    k = len(agent.a_l)
    A_q = np.array(agent.A_q, dtype=np.float64).reshape(len(agent.A_q), k)
    terms = [term.model_dump(mode="json") for term in agent.terms]
    return cost_of(A_q, np.array(agent.a_l), terms)


def set_of(agent: AgentData) -> Box | BudgetedBox | Polytope:
    """ValueError if box, budget and polytope have no common point."""
    low, high = sides_of(agent)
    budget = None if agent.budget is None else (agent.budget.lower, agent.budget.upper)
    if agent.polytope is not None:
        A = np.array(agent.polytope.A, dtype=np.float64).reshape(-1, low.size)
        return Polytope.within(low, high, A, np.array(agent.polytope.b), budget)
    return Box(low, high) if budget is None else BudgetedBox(low, high, *budget)


def sides_of(agent: AgentData) -> tuple[Floats, Floats]:
    """lower and upper, float64[k] each."""
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), len(agent.a_l))
        for side in (agent.lower, agent.upper)
    )
    return low, high

"""What operator and agents of a coupled quadratic program hold, and how it is to be solved."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.intake.items import InPieces
from discreet.problems.numbers import CLIP, Delta, Epsilon, Frozen, Positive, Real
from discreet.solvers.saddle.spds import Part
from discreet_client import secure_sum
from discreet_client.convex_sets import Box, BudgetedBox
from discreet_client.updates import QuadraticCost

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
        description="At the end agents say whether the sums have settled: the last moves no "
        "longer than this share of the longest, the constraints kept within this share of the "
        "largest entry. Null: they say nothing. Sums with noise never settle, and nothing is said "
        "of them",
    ),
]


class OperatorData(Frozen):
    """What the operator holds: c of the coupled objective, d of the constraints. Not published, nor
    told to agents."""

    c: Vector
    d: Vector


class SumBudget(Frozen):
    """How much an agent's variables sum to, such as the energy that a vehicle charges."""

    lower: Real
    upper: Real


class AgentData(Frozen):
    """One agent's part, k variables. A_u: rows of c by k; A_g: rows of d by k; A_q: any rows by k;
    a_l: k. `budget`: least and most sum of its variables, within a box of two ends."""

    A_u: Matrix
    A_g: Matrix
    A_q: Matrix = ()
    a_l: Annotated[tuple[Real, ...], InPieces(min_length=1)]
    lower: Side = 0.0
    upper: Side
    budget: SumBudget | None = None


class FederatedAgents(Frozen):
    """How many agents there will be, and public dimensions of what they sum."""

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
    """Noise inside the sums: what is opened is then private in itself, over all rounds together."""

    epsilon: Epsilon
    delta: Annotated[Delta, Field(gt=0)]
    clip: Annotated[Real, Field(gt=0), CLIP] | None = Field(
        default=None,
        description="Public bound on the l2 norm of a contribution, longer ones are scaled down; "
        "from the boxes when not given, which a federated job cannot",
    )


def part_of(agent: AgentData) -> Part:
    """Raises nothing once `_check_shapes` has passed."""
    k = len(agent.a_l)

    def matrix(rows: Matrix) -> Floats:
        return np.array(rows, dtype=np.float64).reshape(len(rows), k)

    cost = QuadraticCost(matrix(agent.A_q), np.array(agent.a_l))
    return Part(matrix(agent.A_u), matrix(agent.A_g), cost, set_of(agent))


def set_of(agent: AgentData) -> Box | BudgetedBox:
    """ValueError where box and budget have nothing in common."""
    if agent.budget is None:
        return Box(*sides_of(agent))
    return BudgetedBox(*sides_of(agent), agent.budget.lower, agent.budget.upper)


def sides_of(agent: AgentData) -> tuple[Floats, Floats]:
    """lower and upper, float64[k] each."""
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), len(agent.a_l))
        for side in (agent.lower, agent.upper)
    )
    return low, high

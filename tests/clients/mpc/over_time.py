"""Agents whose hours are coupled, and fixed-point arithmetic that is checked for overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from discreet_agent.convex_sets import Box, BudgetedBox
from discreet_agent.costs import QuadraticCost
from discreet_agent.mpc.over_time import OverTime as Computation
from discreet_agent.mpc.over_time import Plans, Programs
from discreet_agent.mpc.own_programs import OwnProgram, columns, own_program
from discreet_agent.mpc.prices import Arithmetic, FloatArithmetic
from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]


@dataclass
class OverTime:
    """Agents of hours that they couple: A_q float64[agents, rows, hours], budgets (least, most) or
    None each. `effect` [agents] is the factor with which an agent's hours enter the sums."""

    A_q: Floats
    slope: Floats
    lower: Floats
    upper: Floats
    budgets: list[tuple[float, float] | None]
    effect: Floats
    cost: Floats | None
    limit: Floats | None
    threshold: int = 1
    tolerance: float | None = 1e-3
    iterations: int = 120
    typical: float | None = None

    @classmethod
    def draw(cls, seed: int, agents: int, hours: int) -> OverTime:
        """Costs of each hour, of the sum and of changes from hour to hour; budgets that are one
        figure, a range, or none; limits that some feasible point keeps."""
        rng = np.random.default_rng(seed)
        shape = agents, hours
        A_q = np.zeros((agents, 2 * hours, hours))
        A_q[:, range(hours), range(hours)] = np.sqrt(rng.uniform(0.5, 2, shape))
        changes = np.diff(np.eye(hours), axis=0)
        for place in range(agents):
            A_q[place, hours : 2 * hours - 1] = rng.uniform(0, 0.7) * changes
            A_q[place, -1] = rng.uniform(0, 0.6)
        lower = rng.uniform(-1, 0.5, shape)
        upper = lower + rng.uniform(0, 2, shape) * (rng.random(shape) < 0.9)
        budgets: list[tuple[float, float] | None] = []
        feasible = np.zeros(shape)
        for place in range(agents):
            low, high = lower[place].sum(), upper[place].sum()
            share = rng.uniform(0.25, 0.75)
            feasible[place] = lower[place] + share * (upper[place] - lower[place])
            middle, width = low + share * (high - low), 0.1 * (high - low)
            budgets.append([(middle, middle), (middle - width, middle + width), None][place % 3])
        effect = rng.choice([1.0, 1.0, 0.5, -1.0], agents)
        slack = rng.uniform(0.05, 0.6, hours) * agents * 0.5
        return cls(
            A_q=A_q,
            slope=rng.normal(0, 2, shape),
            lower=lower,
            upper=upper,
            budgets=budgets,
            effect=effect,
            cost=rng.normal(0, 1, hours) if seed % 4 != 1 else None,
            limit=-((effect[:, None] * feasible).sum(axis=0) + slack) if seed % 4 != 2 else None,
        )

    @property
    def terms(self) -> Terms:
        """With bounds that just hold."""
        curvature = self._curvature / self.effect[:, None, None] ** 2
        eigenvalues = np.linalg.eigvalsh(curvature)
        ends = np.stack([self.lower, self.upper])
        positive, negative = np.maximum(self._curvature, 0), np.minimum(self._curvature, 0)
        marginal = [
            self.slope + np.einsum("aij,aj->ai", one, high) + np.einsum("aij,aj->ai", other, low)
            for one, other in ((positive, negative),)
            for high, low in ((self.upper, self.lower), (self.lower, self.upper))
        ]
        agents, hours = self.slope.shape
        return Terms(
            agents=agents,
            hours=hours,
            threshold=self.threshold,
            computing=2 * self.threshold + 1,
            coupled=self.cost is not None,
            limited=self.limit is not None,
            reach=float(np.abs(ends * self.effect[:, None]).max()),
            price=float(np.abs(marginal / self.effect[:, None]).max()),
            least_curvature=float(eigenvalues.min()),
            most_curvature=float(eigenvalues.max()),
            tolerance=self.tolerance,
            iterations=self.iterations,
            typical_curvature=self.typical,
        )

    @property
    def usual_curvature(self) -> float:
        """The geometric mean of the curvatures, a good figure for `typical`."""
        curvature = self._curvature / self.effect[:, None, None] ** 2
        return float(np.exp(np.log(np.linalg.eigvalsh(curvature)).mean()))

    @property
    def _curvature(self) -> Floats:
        return 2 * np.asarray(np.einsum("ari,arj->aij", self.A_q, self.A_q))

    def agent(self, place: int) -> dict[str, Any]:
        """The data of one agent, as it gives them to `Agent.solve`."""
        effect = self.effect[place] * np.eye(self.slope.shape[1])
        none = np.zeros((0, effect.shape[0]))
        budget = self.budgets[place]
        return {
            "A_u": none if self.cost is None else effect,
            "A_g": none if self.limit is None else effect,
            "A_q": self.A_q[place],
            "a_l": self.slope[place],
            "lower": self.lower[place],
            "upper": self.upper[place],
            **({} if budget is None else {"budget": budget}),
        }

    def programs(self, terms: Terms | None = None) -> list[OwnProgram]:
        terms, found = terms or self.terms, []
        for place in range(len(self.slope)):
            data = self.agent(place)
            cost = QuadraticCost(data["A_q"], data["a_l"])
            sides = data["lower"], data["upper"]
            own = BudgetedBox(*sides, *data["budget"]) if "budget" in data else Box(*sides)
            found.append(own_program(terms, data["A_u"], data["A_g"], cost, own))
        return found

    responses = programs  # as `Parties` calls them

    def computed(self, arithmetic: Arithmetic | None = None) -> tuple[Floats, bool | None]:
        """x [agents, hours] by the same algorithm in another arithmetic, and whether it settled."""
        terms, programs = self.terms, self.programs()
        plans = plans_of(terms, programs, self.cost, self.limit, arithmetic or FloatArithmetic())
        unit = 2.0**-Fixed.fraction if isinstance(arithmetic, FixedPointArithmetic) else 1.0
        quantities = np.asarray(plans.quantities, dtype=np.float64) * unit
        x = np.stack([one.x_of(quantities[place]) for place, one in enumerate(programs)])
        return x, None if plans.settled is None else bool(float(plans.settled[0]) > 0.5)

    def objective(self, x: Floats) -> float:
        own = np.einsum("ari,ai->ar", self.A_q, x)
        found = float((own**2).sum() + (self.slope * x).sum())
        if self.cost is not None:
            found += float(((self.effect @ x + self.cost) ** 2).sum() / 2)
        return found

    def violation(self, x: Floats) -> float:
        return (
            0.0 if self.limit is None else float(np.max(self.effect @ x + self.limit, initial=0.0))
        )

    def keeps(self, x: Floats) -> bool:
        """Whether every agent's x is in its own set."""
        sums = x.sum(axis=1)
        budgets = all(
            one is None or one[0] - 1e-9 <= sums[place] <= one[1] + 1e-9
            for place, one in enumerate(self.budgets)
        )
        return budgets and bool(np.all((x >= self.lower - 1e-12) & (x <= self.upper + 1e-12)))

    def by_clarabel(self) -> Floats:
        """x by an interior point method."""
        x = cp.Variable(self.slope.shape)
        sums = self.effect @ x
        goal = cp.sum(cp.multiply(self.slope, x))
        for place in range(len(self.slope)):
            goal += cp.sum_squares(self.A_q[place] @ x[place])
        limits = [x >= self.lower, x <= self.upper]
        for place, budget in enumerate(self.budgets):
            if budget is not None:
                limits += [cp.sum(x[place]) >= budget[0], cp.sum(x[place]) <= budget[1]]
        if self.cost is not None:
            goal += cp.sum_squares(sums + self.cost) / 2
        if self.limit is not None:
            limits.append(sums + self.limit <= 0)
        cp.Problem(cp.Minimize(goal), limits).solve(solver=cp.CLARABEL)
        assert x.value is not None
        return np.asarray(x.value)


def plans_of(
    terms: Terms,
    inputs: list[OwnProgram],
    cost: Floats | None,
    limit: Floats | None,
    arithmetic: Arithmetic,
    moves: list[Any] | None = None,
) -> Plans:
    """`moves`: of every step, appended to it."""
    made = arithmetic.made if isinstance(arithmetic, FixedPointArithmetic) else np.asarray
    rows = np.stack([one.rows for one in inputs])
    part = columns(terms.hours)
    given = {
        name: made(rows[:, :, part[name]]).reshape(terms.agents, terms.hours + 1, -1)
        for name in part
    }
    scaled = [None if one is None else made(one / terms.reach) for one in (cost, limit)]
    programs = Programs(
        given["matrix"],
        given["base"][:, :, 0],
        given["lower"][:, :, 0],
        given["upper"][:, :, 0],
        given["centre"][:, :-1, 0],
    )
    computation = Computation(terms, programs, scaled[0], scaled[1], arithmetic)
    state = computation.start()
    for _ in range(terms.iterations or 0):
        state = computation.step(state)
        if moves is not None:
            moves.append(state.moves)
    return computation.finish(state)


class Fixed(np.ndarray):
    """Integers in units of the last place, with the arithmetic of shares: a product is truncated at
    random, by as many parts as masks have. Raises OverflowError beyond `bits`."""

    bits = fraction = parts = 0
    rng = np.random.default_rng(0)
    largest = 0.0
    masked = 0
    """Values that are opened under a mask: of comparisons and truncations."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        whole = [isinstance(one, Whole) for one in inputs]
        plain = [self._plain(ufunc, one) for one in inputs]
        product = ufunc in (np.multiply, np.matmul)
        if ufunc is np.multiply and any(isinstance(one, int) for one in inputs):
            made = getattr(ufunc, method)(*plain, **named)
        elif ufunc is np.multiply and any(whole):
            made = getattr(ufunc, method)(*plain, **named) >> self.fraction
        elif product:
            made = np.asarray(getattr(ufunc, method)(*plain, **named))
            made = self.truncated(made, self.fraction)
        else:
            made = getattr(ufunc, method)(*plain, **named)
        Fixed.largest = max(Fixed.largest, float(np.max(np.abs(made), initial=0)))
        if Fixed.largest >= 2.0 ** (self.bits - 1):
            raise OverflowError(f"a number of more than {self.bits} bits")
        # As MPyC has it: what whole numbers come to is known to be whole.
        known = all(isinstance(one, Whole | int) for one in inputs)
        plain_sum = ufunc in (np.add, np.subtract, np.multiply)
        return np.asarray(made, dtype=object).view(Whole if known and plain_sum else Fixed)

    @classmethod
    def truncated(cls, value: Any, dropped: int) -> Any:
        Fixed.masked += value.size
        up = cls.rng.integers(0, 1 << dropped, (cls.parts, *value.shape))
        centred = up.astype(object).sum(axis=0) - ((cls.parts - 1) << dropped >> 1)
        return (value + centred) >> dropped

    def _plain(self, ufunc: Any, value: Any) -> Any:
        if isinstance(value, Fixed):
            return value.view(np.ndarray)
        if isinstance(value, int) and ufunc is np.multiply:
            return value
        return np.vectorize(lambda one: round(one * (1 << self.fraction)), otypes="O")(value)


class Whole(Fixed):
    """Numbers that are known to be whole: their products are exact."""


class FixedPointArithmetic:
    """`prices.Arithmetic` with the bits of the terms, or fewer fraction bits."""

    def __init__(self, terms: Terms, fewer: int = 0) -> None:
        Fixed.bits, Fixed.fraction = terms.bits - fewer, terms.fraction_bits - fewer
        Fixed.masked, Fixed.parts = 0, terms.mask_parts
        Fixed.largest, Fixed.rng = 0.0, np.random.default_rng(1)
        self.largest_compared = 0.0

    def made(self, value: Floats) -> Fixed:
        found = np.vectorize(lambda one: round(one * (1 << Fixed.fraction)), otypes="O")(value)
        return np.asarray(found).view(Fixed)

    def below_zero(self, value: Any, spread: float | None) -> Any:
        plain = value.view(np.ndarray)
        Fixed.masked += plain.size
        if spread is not None:
            bits = min(Fixed.bits, Fixed.fraction + math.ceil(math.log2(spread)) + 2)
            largest = float(np.max(np.abs(plain)))
            assert largest < 2.0 ** (bits - 1), "a comparison of a number that is too large"
            self.largest_compared = max(self.largest_compared, largest)
        return ((plain < 0).astype(object) * (1 << Fixed.fraction)).view(Whole)

    def scaled(self, value: Any, factor: float) -> Any:
        dropped = Fixed.fraction + max(0, -math.frexp(factor)[1])
        product = value.view(np.ndarray) * round(math.ldexp(factor, dropped))
        return np.asarray(Fixed.truncated(product, dropped)).view(Fixed)

    def stack(self, parts: list[Any], axis: int) -> Any:
        return np.concatenate([one.view(np.ndarray) for one in parts], axis=axis).view(Fixed)

    def matmul(self, left: Any, right: Any) -> Any:
        return np.matmul(left, right)

    def whole(self, value: Floats) -> Any:
        return self.made(value)

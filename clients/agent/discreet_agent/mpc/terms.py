"""The public terms of a computation on shares: signed with the roster, they fix the number of bits
and every step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from discreet_agent.federation import spoken

PROTOCOL = spoken.SHARES
FEWEST_AGENTS, MOST_AGENTS = 3, 10
MOST_HOURS = 96
STATISTICAL_BITS = 40
"""Each value that is opened under a mask reveals its secret with a probability of at most 2^-40."""

MOST_KEYS = 10
"""Most keys of pseudo-random secret sharing, C(computing, threshold) in all; with more, random
shares are dealt instead: those of masks by threshold + 1 of the computing agents, others by all."""

ACCURACY_BITS = 16
"""Accuracy of an hour's sum relative to the reach, before the loss by the steepest response."""
TOLD_BITS = 9
"""More than the bits of the tolerance, if agents are told whether the answer is within it: enough
for hours in which they use a sixteenth of the reach."""

OPTIONAL = {"iterations", "typical_curvature", "computing"}
"""Fields of terms that later versions have added."""

MOST_BITS = 62
HEADROOM_BITS = 3

# Of computations over time (`over_time`).
OPENED_BITS = 20
"""Fraction bits of what is opened: what the last steps have left in the bits below is nobody's."""
GUARD_BITS = 2
MOST_ITERATIONS = 500
RELAXATION = 1.75
MOST_PRICE = 8.0
"""The price of a limit, in units of `price`, from which on the limit is exceeded instead."""
MOVED = 1 / 4
"""Share of the tolerance by which nothing moves, in parts of what agents use, once a computation
has settled."""
NOISE = 12.0
"""Moves by the roundings of a step are less, in units of the last place, with masks of three parts;
8 were seen."""
NOISE_OF_EARLIER_TERMS = 8.0
BOX_STEP, BUDGET_STEP = 2.0, 20.0
"""Step sizes of the copies in boxes and budgets, in units of the typical curvature."""


@dataclass(frozen=True)
class Terms:
    """The terms that all parties agree on. A quantity is an agent's part of an hour's sum, a price
    the marginal cost of that sum.

    `agents`, `hours`: how many. `threshold`: how many agents may pool what they have seen and learn
    nothing; fewer than half of those that compute. `computing`: how many of the agents compute for
    all, the first on the roster; the others share their inputs among these and are opened their own
    results. None: all of them, in terms of versions before there were others, which this one reads
    and does not compute. `coupled`: whether the sums have a quadratic cost; `limited`:
    whether they have a limit. Bounds without which an agent does not take part: `reach` on the
    absolute quantities of its box; `price` on the absolute marginal cost within the box;
    `least_curvature` and `most_curvature` on its cost. `tolerance`: whether the answer is within
    this share of what agents use is opened to all (`prices.verdict_of`); None: nothing is.

    `iterations`: of ADMM (`over_time`), for agents whose costs and sets couple their hours; None:
    costs are a sum over hours, and the optimum is exact (`prices`). Over time the bounds on
    curvature are on the eigenvalues of the cost's second derivatives; `typical_curvature` is what
    step sizes follow from, by default near the least; and it says whether the steps have settled,
    too.
    """

    agents: int
    hours: int
    threshold: int
    coupled: bool
    limited: bool
    reach: float
    price: float
    least_curvature: float
    most_curvature: float
    tolerance: float | None = None
    iterations: int | None = None
    typical_curvature: float | None = None
    computing: int | None = None

    def check(self) -> None:
        """ValueError that names the field."""
        if not FEWEST_AGENTS <= self.agents <= MOST_AGENTS:
            raise ValueError(
                f"agents: {FEWEST_AGENTS} to {MOST_AGENTS} compute on shares, not {self.agents}"
            )
        if not 1 <= self.hours <= MOST_HOURS:
            raise ValueError(f"hours: 1 to {MOST_HOURS}, not {self.hours}")
        if not 1 <= self.threshold <= (self.agents - 1) // 2:
            most = (self.agents - 1) // 2
            raise ValueError(
                f"threshold: of {self.agents} agents 1 to {most} may collude, not {self.threshold}"
            )
        if self.computing is not None and not (
            2 * self.threshold + 1 <= self.computing <= self.agents
        ):
            raise ValueError(
                f"computing: {2 * self.threshold + 1} to {self.agents} agents, of whom "
                f"{self.threshold} may collude, not {self.computing}"
            )
        if not (self.coupled or self.limited):
            raise ValueError("coupled: sums with neither a cost nor a limit couple no agents")
        for name in ("reach", "price", "least_curvature", "most_curvature"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: a positive number is needed, not {value}")
        if self.least_curvature > self.most_curvature:
            raise ValueError("most_curvature: must not be below least_curvature")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ValueError("tolerance: a share between 0 and 1 is needed")
        if self.iterations is None:
            if self.typical_curvature is not None:
                raise ValueError("typical_curvature: only with iterations, for costs over time")
        elif not 1 <= self.iterations <= MOST_ITERATIONS:
            raise ValueError(f"iterations: 1 to {MOST_ITERATIONS}, not {self.iterations}")
        elif self.typical_curvature is not None and not (
            self.least_curvature <= self.typical_curvature <= self.most_curvature
        ):
            raise ValueError("typical_curvature: must be between least and most_curvature")
        try:
            needed = str(self.bits) if self.bits > MOST_BITS else ""
        except (OverflowError, ZeroDivisionError, ValueError):  # of bounds beyond what floats hold
            needed = "too many"
        if needed:
            raise ValueError(
                f"most_curvature: these bounds need numbers of {needed} bits, but at most "
                f"{MOST_BITS} are supported; bounds that are closer together, or nearer to the "
                "data, need fewer"
            )
        if self.iterations is not None and self.tolerance is not None:
            told = min(self.settled_moves(self.tolerance)) * 2.0**self.fraction_bits
            if told < self.noise:
                raise ValueError(
                    f"tolerance: {self.tolerance * self.noise / told:.2g} is the least that can be "
                    "told from roundings with these step sizes; a smaller typical_curvature makes "
                    "them smaller, and null asks nothing"
                )

    @property
    def fields(self) -> dict[str, Any]:
        """The terms as a JSON object, with the bits that follow from them."""
        return {
            "protocol": PROTOCOL,
            **{
                name: value
                for name, value in asdict(self).items()
                # Without them terms are those of versions that did not know them.
                if value is not None or name not in OPTIONAL
            },
            "bits": self.bits,
            "fraction_bits": self.fraction_bits,
        }

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Terms:
        """The terms; ValueError if another version has written them, or they are not valid."""
        try:
            optional = OPTIONAL - fields.keys()
            known: dict[str, Any] = {
                name: fields[name] for name in cls.__dataclass_fields__ if name not in optional
            }
            real: dict[str, Any] = {
                name: float(known[name])
                for name in (
                    "reach",
                    "price",
                    "least_curvature",
                    "most_curvature",
                    "typical_curvature",
                )
                if name in known
            }
            terms = cls(**(known | real))
            terms.check()
        except (TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"terms that this version does not know: {error}") from None
        if terms.fields != fields:
            raise ValueError("terms that this version does not know")
        return terms

    @property
    def parties(self) -> int:
        """How many agents compute."""
        return self.computing or self.agents

    @property
    def asks(self) -> bool:
        """Whether all are told how good the answer is."""
        return self.tolerance is not None

    @property
    def mask_parts(self) -> int:
        """How many numbers a mask is the sum of: one for each key of which `threshold` colluding
        parties lack one, or one of each dealer."""
        keys = math.comb(self.parties, self.threshold)
        return keys if keys <= MOST_KEYS else self.threshold + 1

    @property
    def rounding_bits(self) -> int:
        """Fraction bits beyond those of masks of three parts, so that truncations err as little
        (`randomness`)."""
        return 0 if self.computing is None else math.ceil(math.log2((self.mask_parts + 1) / 4) / 2)

    @property
    def noise(self) -> float:
        """Moves by roundings are less, in units of the last place: see NOISE."""
        if self.computing is None:
            return NOISE_OF_EARLIER_TERMS
        return NOISE * math.sqrt((self.mask_parts + 1) / 4)

    # All below is in units of `reach` and `price`, in which everything is computed.

    @property
    def gentlest(self) -> float:
        """The least by which an agent's quantity falls per unit of price, between its bounds."""
        return self.price / (self.reach * self.most_curvature)

    @property
    def steepest(self) -> float:
        """The most by which it falls."""
        return self.price / (self.reach * self.least_curvature)

    @property
    def weight(self) -> float:
        """Weight of the quadratic cost of a sum."""
        return self.reach / self.price if self.coupled else 0.0

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of a shared number: a price is off by a few units in the last place, a sum
        by `steepest` times as much. Over time each step sums up the errors of 2 hours + 1 products,
        and steps repeat them."""
        if self.iterations is not None:
            sums = math.ceil(math.log2(2 * self.hours + 1) / 2)
            return OPENED_BITS + GUARD_BITS + sums + self.rounding_bits
        sums = math.ceil(math.log2(self.agents * max(1.0, self.steepest)))
        accuracy = ACCURACY_BITS
        if self.tolerance is not None:
            accuracy = max(accuracy, TOLD_BITS + math.ceil(-math.log2(self.tolerance)))
        return accuracy + sums + self.rounding_bits

    @property
    def bits(self) -> int:
        """Bits of a shared number, with sign and fraction: enough for every value, whatever the
        data."""
        agents, steepest, weight = self.agents, self.steepest, self.weight
        if self.iterations is not None:
            largest_sum = agents * (self.largest_copy + 1) + max(self.limit_bound, self.cost_bound)
            return (
                self.fraction_bits
                + math.ceil(
                    math.log2(4 * largest_sum + agents * self.largest_penalty / self.stiffness)
                )
                + HEADROOM_BITS
            )
        level = agents * (1 + 2 * steepest)  # a sum whose responses are extrapolated to any price
        limit, cost = self.limit_bound, self.cost_bound
        largest = [level + limit, agents * steepest]
        if self.limited:
            most_inverse = math.sqrt(2 * agents * steepest / self.gentlest)
            largest += [
                2 * most_inverse,
                (level + limit) * most_inverse,
                (level + limit) * 2 / self.gentlest,
            ]
        if self.coupled:
            largest += [
                level + cost,
                weight * (level + cost) + 1,
                2 * math.sqrt(1 + weight * agents * steepest),
            ]
        return self.fraction_bits + math.ceil(math.log2(max(largest))) + HEADROOM_BITS

    @property
    def limit_bound(self) -> float:
        """Bound on the absolute d, in units of reach: beyond it a limit is always, or never,
        exceeded."""
        return float(self.agents + 1)

    @property
    def cost_bound(self) -> float:
        """Bound on the absolute c: beyond it the price is beyond all breakpoints."""
        return self.agents + 1 + 1 / self.weight if self.coupled else 0.0

    # Of computations over time.

    @property
    def usual(self) -> float:
        """The typical curvature in units of reach and price."""
        least, most = self.least_curvature, self.most_curvature
        typical = self.typical_curvature or least**0.75 * most**0.25
        return typical * self.reach / self.price

    @property
    def steps(self) -> tuple[float, float, float]:
        """Step sizes ρ of the copies in boxes, in budgets, and of sums."""
        usual = self.usual
        return (
            BOX_STEP * usual,
            BUDGET_STEP * usual,
            math.sqrt(usual * (usual + self.agents * self.weight)),
        )

    @property
    def masked_values(self) -> int:
        """The most values that are opened under a mask: of a step one for each comparison, `2n (H +
        1) + 2H`, and for each number that is truncated, `n (3H + 2) + 2H`; at the end not more than
        of one more step, and of the comparison with what agents use."""
        agents, hours = self.agents, self.hours
        steps = ((self.iterations or 0) + 1) * (agents * (5 * hours + 4) + 4 * hours)
        return steps + agents * (3 * hours + 6) + 2 * hours

    def settled_moves(self, tolerance: float) -> tuple[float, float, float]:
        """The most by which a step moves copies in boxes, in budgets, and of sums, where it has
        settled, in parts of what agents use in an hour; times the step size, of the price.

        With r the moves and u the multipliers the cost exceeds the least by at most `|ρ r|'|K (y* -
        y)| + |u'r|` over RELAXATION. Large step sizes make small moves wherever the optimum is, so
        that r alone would tell nothing.
        """
        box, budget, sums = self.steps
        # A budget's row has length 1: its multiplier is √hours times its part of an hour's price.
        sizes = box, budget / math.sqrt(self.hours), sums
        most_box, most_budget, most_sums = (tolerance * MOVED / max(1.0, one) for one in sizes)
        return most_box, most_budget, most_sums

    @property
    def stiffness(self) -> float:
        """`ρ + n w` of the sums."""
        return self.steps[2] + self.agents * self.weight

    @property
    def largest_penalty(self) -> float:
        return MOST_PRICE if self.limited else 0.0

    @property
    def largest_copy(self) -> float:
        """Bound on every copy t of `over_time`: from zero to a fixed point and as far again, in the
        norm of ρ.

        At the fixed point copies of boxes and sums differ from the centre by at most 2, those of
        budgets by `2 √hours`; with prices of at most p, marginal costs and prices are at most `1 +
        p`, so the multiplier of a budget can be chosen within that (times √hours in its scaling),
        and those of boxes within twice that.
        """
        agents, hours = self.agents, self.hours
        box, budget, sums = self.steps
        price = self.largest_penalty + self.weight * (agents + self.cost_bound)
        slope = 1 + price
        copies = 2 + 2 * slope / box, 2 + slope / budget, 2 + price / sums
        squares = box * copies[0] ** 2 + budget * copies[1] ** 2 + sums * copies[2] ** 2
        return 2 * math.sqrt(agents * hours * squares / min(box, sums))

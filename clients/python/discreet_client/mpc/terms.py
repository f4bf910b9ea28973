"""What is public of a computation on shares: signed with the roster, it fixes every number of bits
and every step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

PROTOCOL = "discreet-mpc-1"
FEWEST_AGENTS, MOST_AGENTS = 3, 10
MOST_HOURS = 96
STATISTICAL_BITS = 40
"""What is opened under a mask tells its secret with a chance of 2^-40 at most, each time."""

ACCURACY_BITS = 16
"""Of an hour's sum, in parts of the reach, before what the steepest response costs."""

MOST_BITS = 62
HEADROOM_BITS = 3


@dataclass(frozen=True)
class Terms:
    """What all parties agree on. Quantities are an agent's part of an hour's sum, prices what one
    more of it costs.

    `agents`, `hours`: how many. `threshold`: agents that may pool what they have seen and learn
    nothing; fewer than half of all. `coupled`: the sums have a quadratic cost; `limited`: they have
    a limit. Bounds that every agent keeps, or it takes no part: `reach` of the absolute quantities
    of its box; `price` of the absolute marginal cost within the box; `least_curvature` and
    `most_curvature` of its cost. `tolerance`: whether the limit was kept within this share of the
    largest sum is opened to all, one bit; None where nothing is.
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
        if not (self.coupled or self.limited):
            raise ValueError("coupled: sums with neither a cost nor a limit couple nobody")
        for name in ("reach", "price", "least_curvature", "most_curvature"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: a positive number is needed, not {value}")
        if self.least_curvature > self.most_curvature:
            raise ValueError("most_curvature: it is below least_curvature")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ValueError("tolerance: a share between 0 and 1 is needed")
        if self.bits > MOST_BITS:
            raise ValueError(
                f"most_curvature: these bounds need numbers of {self.bits} bits, and {MOST_BITS} "
                "are computed with; bounds that are closer together, or nearer to the data, need "
                "fewer"
            )

    @property
    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "protocol": PROTOCOL,
            **asdict(self),
            "bits": self.bits,
            "fraction_bits": self.fraction_bits,
        }

    @classmethod
    def read(cls, fields: dict[str, Any]) -> Terms:
        """ValueError for what another version has written, or terms that cannot be."""
        try:
            known = {name: fields[name] for name in cls.__dataclass_fields__}
            real = {
                name: float(known[name])
                for name in ("reach", "price", "least_curvature", "most_curvature")
            }
            terms = cls(**(known | real))
            terms.check()
        except (TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"terms that this version does not know: {error}") from None
        if terms.fields != fields:
            raise ValueError("terms that this version does not know")
        return terms

    # In units of `reach` and `price`, which everything is computed in.

    @property
    def gentlest(self) -> float:
        """The least that an agent's quantity falls by a unit of price, where it falls."""
        return self.price / (self.reach * self.most_curvature)

    @property
    def steepest(self) -> float:
        return self.price / (self.reach * self.least_curvature)

    @property
    def weight(self) -> float:
        """Of the quadratic cost of a sum."""
        return self.reach / self.price if self.coupled else 0.0

    @property
    def fraction_bits(self) -> int:
        """Of a number on shares: a price is off by a few units of the last place, a sum by
        `steepest` as much."""
        return ACCURACY_BITS + math.ceil(math.log2(self.agents * max(1.0, self.steepest)))

    @property
    def bits(self) -> int:
        """Of a number on shares, sign and fraction included: no value leaves them, whatever the
        data."""
        agents, steepest, weight = self.agents, self.steepest, self.weight
        level = agents * (1 + 2 * steepest)  # of a sum whose answers are extrapolated to any price
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
        """Of the absolute d, in units of reach: beyond it a limit is never, or always, passed."""
        return float(self.agents + 1)

    @property
    def cost_bound(self) -> float:
        """Of the absolute c: beyond it the price is beyond everybody's."""
        return self.agents + 1 + 1 / self.weight if self.coupled else 0.0

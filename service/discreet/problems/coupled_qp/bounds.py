"""Limits of entries of contributions and sums: those of the slots, and those that the owner sets.

Slots hold far more than any honest sum, so a number that one agent invents fits in. If the owner
bounds one agent's entries by `agents.reach`, agents check every opened sum against the bounds of
all together, and sign a complaint about one that is larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from attrs import define

from discreet.errors import InvalidInput
from discreet.problems.coupled_qp.data import (
    Encryption,
    FederatedAgents,
    Floats,
    OperatorData,
    SumNoise,
)
from discreet_client.prices import exponent

WIDER = 2.0**20
"""By how much an agent may reach beyond the operator's figure of a row, where `agents.reach` does
not say how far."""


@define(frozen=True)
class Units:
    """How the rows of `method: auto` travel, which the owner signs: times `2^exponents`, int[m].
    `figures`: |c| and |d| up to a power of two, 0 of 0."""

    exponents: tuple[int, ...]
    figures: tuple[float, ...]

    @property
    def signed(self) -> dict[str, Any]:
        return {"exponents": list(self.exponents), "figures": list(self.figures)}

    def scaled(self, figures: Sequence[float]) -> tuple[float, ...]:
        """Natural figures of the rows in the units of the sums."""
        return tuple(math.ldexp(one, k) for one, k in zip(figures, self.exponents, strict=True))


def units_of(operator: OperatorData, reach: Sequence[float] | None, bound: float) -> Units:
    """Such that an agent's reach, float[m], and the operator's figure fit below `bound`."""
    figures = tuple(map(_rounded_up, (*operator.c, *operator.d)))
    if reach is None:
        # The rows of the objective share a unit, so that one without a figure has that of others.
        coupled = max(figures[: len(operator.c)], default=0.0)
        reach = [
            WIDER * (one or (coupled if row < len(operator.c) else 0.0))
            for row, one in enumerate(figures)
        ]
    largest = map(max, zip(reach, figures, strict=True))
    return Units(tuple(exponent(bound, one) for one in largest), figures)


def check_grid(
    operator: OperatorData,
    units: Units,
    taken: Sequence[float] | Floats,
    rounding: float,
    tolerance: float | None,
) -> None:
    """InvalidInput that names a row whose sums are too coarse for what the agents are likely to
    take of it, float[m]; `rounding` of an entry of a sum."""
    if tolerance is None:
        return
    for row, (k, largest) in enumerate(zip(units.exponents, taken, strict=True)):
        step = math.ldexp(rounding, -k)
        if largest > 0 and step > tolerance * largest:
            coupled = row < len(operator.c)
            place = row if coupled else row - len(operator.c)
            raise InvalidInput(
                f"the slots hold what an agent can reach in this row, or this figure, only in "
                f"steps of {step:.3g}, and all agents take about {largest:.3g} of it: make boxes "
                "narrower, take what is fixed out of the row, or add it to what agents take",
                pointer=f"/problem/operator/{'c' if coupled else 'd'}/{place}",
            )


def _rounded_up(value: float) -> float:
    """The next power of two: agents are told it."""
    if not value:
        return 0.0
    mantissa, power = math.frexp(abs(value))
    return math.ldexp(1.0, power - (mantissa == 0.5))


def of_slots(encryption: Encryption, count: int) -> float:
    """The largest entry that the slots can hold from each of this many agents and the operator."""
    spare = 3 + math.ceil(math.log2(count + 1))
    return 2.0 ** (encryption.slot_bits - spare - encryption.fraction_bits)


def check_federated(
    operator: OperatorData,
    public: FederatedAgents,
    encryption: Encryption,
    noise: SumNoise | None,
    *,
    scaled: bool,
) -> None:
    """InvalidInput for entries that the slots cannot hold, and for bounds that do not fit the
    problem. `scaled`: rows travel in units in which they fit."""
    largest = math.inf if scaled else of_slots(encryption, public.count)
    beyond = f"is beyond {largest:g}, which the slots hold of {public.count} agents"
    for name in ("c", "d"):
        for place, value in enumerate(getattr(operator, name)):
            if abs(value) > largest:
                raise InvalidInput(
                    f"{value:g} {beyond}", pointer=f"/problem/operator/{name}/{place}"
                )
    if noise is not None:
        if noise.clip is None:
            says = "needed: nobody sees the boxes to derive it from"
            raise InvalidInput(says, pointer="/problem/noise/clip")
        # An agent with a longer contribution would have to give up, which would reveal something
        # about its data.
        if noise.clip > largest:
            raise InvalidInput(f"{noise.clip:g} {beyond}", pointer="/problem/noise/clip")
        if public.reach is not None:
            says = "with noise in the sums noise.clip bounds what an agent contributes"
            raise InvalidInput(says, pointer="/problem/agents/reach")
    rows = len(operator.c) + len(operator.d)
    if isinstance(public.reach, tuple) and len(public.reach) != rows:
        says = f"{len(public.reach)} numbers for {rows} rows: give one a row, or one for all"
        raise InvalidInput(says, pointer="/problem/agents/reach")
    for place, value in enumerate(of_rows(public, rows) or ()):
        if value > largest:
            where = f"/{place}" if isinstance(public.reach, tuple) else ""
            raise InvalidInput(f"{value:g} {beyond}", pointer=f"/problem/agents/reach{where}")


def of_rows(public: FederatedAgents, rows: int) -> tuple[float, ...] | None:
    """The largest magnitude of each entry of a contribution; None if the owner sets none."""
    if public.reach is None or isinstance(public.reach, tuple):
        return public.reach
    return (public.reach,) * rows


def of_sums(operator: OperatorData, public: FederatedAgents) -> tuple[float, ...] | None:
    """The largest magnitude of each entry of a sum, including the operator's part, float[rows]."""
    own = (*operator.c, *operator.d)
    reach = of_rows(public, len(own))
    if reach is None:
        return None
    return tuple(
        public.count * most + _rounded_up(value) for most, value in zip(reach, own, strict=True)
    )

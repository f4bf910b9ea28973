"""Limits of entries of contributions and sums: those of the slots, and those that the owner sets.

Slots hold far more than any honest sum, so a number that one agent invents fits in. If the owner
bounds one agent's entries by `agents.reach`, agents check every opened sum against the bounds of
all together, and sign a complaint about one that is larger.
"""

from __future__ import annotations

import math

from discreet.errors import InvalidInput
from discreet.problems.coupled_qp.data import Encryption, FederatedAgents, OperatorData, SumNoise


def of_slots(encryption: Encryption, count: int) -> float:
    """The largest entry that the slots can hold from each of this many agents and the operator."""
    spare = 3 + math.ceil(math.log2(count + 1))
    return 2.0 ** (encryption.slot_bits - spare - encryption.fraction_bits)


def check_federated(
    operator: OperatorData,
    public: FederatedAgents,
    encryption: Encryption,
    noise: SumNoise | None,
) -> None:
    """InvalidInput for entries that the slots cannot hold, and for bounds that do not fit the
    problem."""
    largest = of_slots(encryption, public.count)
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
    """The largest magnitude of each entry of a sum, including the operator's part, float[rows].

    Agents are told it, so the operator's own figure is included as the next power of two.
    """
    own = (*operator.c, *operator.d)
    reach = of_rows(public, len(own))
    if reach is None:
        return None
    return tuple(
        public.count * most + (2.0 ** math.ceil(math.log2(abs(value))) if value else 0.0)
        for most, value in zip(reach, own, strict=True)
    )

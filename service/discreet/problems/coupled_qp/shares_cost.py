"""The cost of a computation on secret shares: comparisons, time and bytes."""

from __future__ import annotations

import math

from discreet_client.mpc.terms import MOST_KEYS, Terms


def comparisons(terms: Terms) -> int:
    """The number of comparisons, of which the computation mostly consists."""
    agents = terms.agents
    if terms.iterations is not None:
        copies = agents * (terms.hours + 1)
        asked = 2 * agents * (2 * terms.hours + 1) if terms.tolerance is not None else 0
        limits = 2 * terms.hours if terms.limited else 0
        return terms.iterations * (2 * copies + limits) + asked
    reasons = 2 if terms.limited else 1
    return terms.hours * (2 * agents * (agents - 1) + 2 * agents * reasons + 6)


def message_rounds(terms: Terms) -> int:
    """About the number of sequential rounds of messages, as measured by delaying messages; each
    costs the network's latency once."""
    return EXACT_ROUNDS if terms.iterations is None else FIRST_ROUNDS + 15 * terms.iterations


def seconds_of(terms: Terms) -> float:
    """About the seconds of the computation if all parties share two slow cores, and twice the time
    on idle ones: 3, 5 and 10 agents of 24 hours were measured, exactly and over time
    (docs/problems/coupled_qp.md)."""
    subsets = min(math.comb(terms.agents, terms.threshold), MOST_KEYS)
    return (
        START_SECONDS
        + comparisons(terms)
        * COMPARISON_SECONDS
        * (1 + subsets / 8)
        * terms.agents
        * terms.bits
        / 32
    )


def bytes_of(terms: Terms) -> int:
    """About the bytes that an agent sends in total."""
    word = (terms.bits + terms.fraction_bits + 42 + 7) // 8
    return int(comparisons(terms) * terms.bits * word * WORDS_A_BIT * (terms.threshold + 1))


EXACT_ROUNDS, FIRST_ROUNDS = 80, 25
START_SECONDS = 5.0
COMPARISON_SECONDS = 2.5e-4
WORDS_A_BIT = 3.0
"""Bytes that an agent sends for a comparison, for each bit of it and each of threshold + 1."""

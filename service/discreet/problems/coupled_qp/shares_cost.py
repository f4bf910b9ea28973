"""The cost of a computation on secret shares: comparisons, time and bytes."""

from __future__ import annotations

import math

from discreet_agent.mpc.terms import MOST_KEYS, STATISTICAL_BITS, Terms


def comparisons(terms: Terms) -> int:
    """The number of comparisons, of which the computation mostly consists."""
    agents = terms.agents
    if terms.iterations is not None:
        copies = agents * (terms.hours + 1)
        asked = agents * (5 * terms.hours + 2) + terms.hours if terms.tolerance is not None else 0
        limits = 2 * terms.hours if terms.limited else 0
        return terms.iterations * (2 * copies + limits) + asked
    reasons = 2 if terms.limited else 1
    asked = agents + 2 + terms.limited if terms.tolerance is not None else 0
    return terms.hours * (2 * agents * (agents - 1) + 2 * agents * reasons + 5 + asked)


def message_rounds(terms: Terms) -> int:
    """About the number of sequential rounds of messages, as measured by delaying messages; each
    costs the network's latency once."""
    return EXACT_ROUNDS if terms.iterations is None else FIRST_ROUNDS + 15 * terms.iterations


def seconds_of(terms: Terms) -> float:
    """About the seconds of the computation if all agents share two slow cores, and twice the time
    on idle ones: 3, 5 and 10 agents of 24 hours were measured, exactly and over time
    (docs/problems/coupled_qp.md)."""
    each = COMPARISON_SECONDS * (1 + terms.threshold) * terms.bits / 32
    return START_SECONDS + comparisons(terms) * each * terms.parties


def bytes_of(terms: Terms) -> int:
    """About the bytes that an agent that computes sends in total; each other one sends a hundredth
    of that, or less."""
    masks = STATISTICAL_BITS + math.ceil(math.log2(terms.mask_parts))
    word = (terms.bits + terms.fraction_bits + masks + 9) // 8
    threshold = terms.threshold
    dealt = math.comb(terms.parties, threshold) > MOST_KEYS
    words = 4 * threshold * (1 + dealt / (threshold + 1))
    return int(comparisons(terms) * terms.bits * word * words)


EXACT_ROUNDS, FIRST_ROUNDS = 80, 25
START_SECONDS = 5.0
COMPARISON_SECONDS = 1.25e-4

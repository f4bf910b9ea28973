"""How many agents a job needs to open sums without noise unless its agents accept the exposure.

Without noise a sum hides an agent only in a crowd, and an agent that lies thins the crowd: it sets
the price that the others answer, so that few of them answer at once. `docs/security.md` describes
the attack and its success: it finds about one other agent for every eight numbers that are opened,
and no attack can solve for the two figures of an agent (its need and its price sensitivity) from
fewer than two numbers. So with ten agents for each opened number, the chance that the figures of a
given agent are found is 1 in 80 as measured, and 1 in 20 by counting equations, however the numbers
are spread over rounds and couplings. This holds for a given agent: whatever the number of agents,
some agent is found, and so is one without whom a job is run again.
"""

from __future__ import annotations

from typing import Literal

Exposure = Literal["accepted"]
MOST_ROUNDS = 1000
"""The most sums that an agent answers in a session, by default."""
ACCEPTED: Exposure = "accepted"

LEAST_AGENTS = 100
"""The fewest agents, however little is opened."""

AGENTS_PER_NUMBER = 10


def crowd(rounds: int, dimension: int) -> int:
    """The fewest agents among whom sums of `dimension` numbers may be opened in so many rounds
    without noise, unless the agents accept the exposure."""
    return max(LEAST_AGENTS, AGENTS_PER_NUMBER * rounds * dimension)

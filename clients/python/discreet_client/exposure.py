"""What opened sums show of few agents, and from how many on a job may open them without anybody's
word for it.

Without noise a sum hides an agent in a crowd only, and an agent that lies thins the crowd: it sets
the price that the others answer, so that few of them answer at once. `docs/security.md` has the
attack and what it finds: about one other agent for every eight numbers that are opened, and no
attack solves for two figures of an agent (what it needs, how much it minds) with fewer than two. So
with ten agents for each number that is opened the chance that a figure of a given agent is found is
1 in 80 as measured, and 1 in 20 by counting equations, however the numbers are spread over rounds
and couplings. That is said of a given agent: at any number somebody is found, and so is an agent
without whom a job is run again.
"""

from __future__ import annotations

from typing import Literal

Exposure = Literal["accepted"]
ACCEPTED: Exposure = "accepted"

LEAST_AGENTS = 100
"""However little is opened."""

AGENTS_PER_NUMBER = 10


def crowd(rounds: int, dimension: int) -> int:
    """The fewest agents among whom sums of `dimension` numbers may be opened in so many rounds,
    without noise and without being accepted by name."""
    return max(LEAST_AGENTS, AGENTS_PER_NUMBER * rounds * dimension)

"""How many agents a job needs to open sums without noise unless its agents accept the exposure.

Without noise a sum hides an agent only in a crowd, and an agent that lies thins the crowd: it sets
the price that the others answer, so that few of them answer at once. `docs/opened-sums.md` has the
attack and its success: it finds about one other agent for every eight numbers that are opened,
and no attack can solve for the two figures of an agent (its need and its price sensitivity) from
fewer than two numbers. So with ten agents for each opened number, the chance that the figures of a
given agent are found is 1 in 80 as measured, and 1 in 20 by counting equations, however the numbers
are spread over rounds and couplings. Chances of jobs add up, so what counts is the total of all
jobs in which an agent took part: numbers opened for each agent among whom they were (`Opens`), a
tenth at most. This holds for a given agent: whatever the number of agents,
some agent is found, and so is one without whom a job is run again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Exposure = Literal["accepted"]
MOST_ROUNDS = 1000
"""The most sums that an agent answers in a session, by default."""
ACCEPTED: Exposure = "accepted"

LEAST_AGENTS = 100
"""The fewest agents, however little is opened."""

AGENTS_PER_NUMBER = 10


@dataclass(frozen=True)
class Opens:
    """So many numbers that a job opens without noise, sums of so many agents."""

    numbers: int
    agents: int

    @property
    def share(self) -> Fraction:
        """Numbers for each agent. Those of an agent's jobs add up."""
        return Fraction(self.numbers, self.agents) if self.numbers else Fraction(0)


NOTHING_OPENED = Opens(0, 0)


def crowd(numbers: int, before: Fraction = Fraction(0)) -> int | None:
    """The fewest agents among whom so many numbers may be opened without noise unless the agents
    accept the exposure; None where no number of agents is enough. `before`: the sum of the shares
    of the jobs before in which the same agent took part."""
    left = Fraction(1, AGENTS_PER_NUMBER) - before
    if numbers == 0:
        return 0
    return max(LEAST_AGENTS, math.ceil(numbers / left)) if left > 0 else None

"""The number of neighbours and the thresholds, from exact tails of the hypergeometric
distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet_agent.secure_sum.errors import Unacceptable

SECURITY_BITS = 40
CORRECTNESS_BITS = 20
SETUPS = 16
"""Setups that the security bound covers: an agent that sees the others' nonces and then does not
open its own commitment causes another random graph to be drawn."""
FAILURE_UNITS = -(-(10**18) // 2**SECURITY_BITS)
"""2^-SECURITY_BITS in units of 1e-18, rounded up: what a price adds to its delta."""
LEAST_VARIANCE = 100
"""Least variance of an agent's noise on the grid: sums of such draws are within e^-900 of a
discrete Gaussian (Kairouz et al. 2021, Lemma 10). With less variance the sum's distribution differs
from the one for which privacy was accounted."""


@lru_cache
def largest(total: int, marked: int, drawn: int, bits: float) -> int:
    """The least x such that a random draw of `drawn` out of `total` objects, `marked` of which are
    marked, holds more than x marked ones with a probability of at most `2^-bits`. Exact."""
    allowed = Fraction(math.comb(total, drawn), 2 ** math.ceil(bits))
    beyond, x = 0, min(marked, drawn)
    while x > 0:
        beyond += math.comb(marked, x) * math.comb(total - marked, drawn - x)
        if beyond > allowed:
            return x
        x -= 1
    return 0


@dataclass(frozen=True)
class Plan:
    """The parameters that all agents agree on. `agents`: n. `neighbours`: k. `threshold`: t, the
    number of shares that reveal a secret. `corrupt`: how many agents may collude with each other
    and the server. `dropping`: how many may drop in a round. `minimum`: fewest survivors of a
    round. `jurors`, `quorum`: size of a round's jury, and how many of it must sign. `dimension`:
    entries of a vector. `rounds`: the most of the run. `variance`: that of the noise that each
    agent adds to each entry, on the grid of integers; 0 for none."""

    agents: int
    neighbours: int
    threshold: int
    corrupt: int
    dropping: int
    minimum: int
    jurors: int
    quorum: int
    dimension: int
    rounds: int
    variance: int = 0

    @classmethod
    def choose(
        cls,
        agents: int,
        dimension: int,
        rounds: int,
        *,
        gamma: float = 0.1,
        delta: float = 0.05,
        sigma: float = 0.0,
    ) -> Plan:
        """The plan with the fewest neighbours k such that `t = k/2 + c + 1 <= k - d`. Here c bounds
        the number of corrupt neighbours of any honest agent in 16 setups, except with probability
        2^-40 (which includes the juries), and d that of neighbours that drop in any of the rounds,
        except with probability 2^-20.

        `gamma`, `delta`: the fractions of corrupt agents, and of those that drop in a round, at any
        moment, independently of the graph. `sigma`: least standard deviation, in units of the grid,
        of the honest survivors' noise. Raises Unacceptable if no number of neighbours suffices.
        """
        if not (0 <= gamma < 1 and 0 <= delta < 1):
            raise Unacceptable("fractions of agents are below 1")
        return cls.of(
            agents,
            dimension,
            rounds,
            corrupt=math.floor(gamma * agents),
            dropping=math.floor(delta * agents),
            variance=Fraction(sigma) ** 2,
        )

    @classmethod
    def of(
        cls,
        agents: int,
        dimension: int,
        rounds: int,
        *,
        corrupt: int,
        dropping: int,
        variance: Fraction = Fraction(0),
    ) -> Plan:
        """The same of counts of agents, and of the variance of the honest survivors' noise."""
        if agents < 3 or dimension < 1 or rounds < 1 or corrupt < 0 or dropping < 0:
            raise Unacceptable("a plan needs at least three agents, one entry and one round")
        minimum = agents - dropping
        honest = minimum - corrupt
        if honest < 2:
            raise Unacceptable(f"with {honest} honest survivors a sum hides no agent")
        k, t = _neighbours(agents, corrupt, dropping, rounds)
        jurors, quorum = _jury(agents, corrupt, dropping, rounds)
        each = math.ceil(variance / honest)
        _check_variance(each)
        return cls(
            *(agents, k, t, corrupt, dropping, minimum, jurors, quorum, dimension, rounds),
            each,
        )

    @lru_cache  # noqa: B019 plans are few, and simulations of many agents check each one's
    def check(self) -> None:
        """Raises Unacceptable for a plan that no agent should accept.

        The agent does not trust whoever chose the plan: the bounds are computed again from n and
        `corrupt`, and a plan may only be stricter.
        """
        honest = self.minimum - self.corrupt
        if not (
            self.agents >= 3
            and self.corrupt >= 0
            and self.dropping >= 0
            and honest >= 2
            and self.minimum <= self.agents
            and self.dimension >= 1
            and self.rounds >= 1
        ):
            raise Unacceptable("the plan has a figure out of range, or hides no agent")
        _check_variance(self.variance)
        if not (self.neighbours == self.agents - 1 or 0 < self.neighbours < self.agents - 1):
            raise Unacceptable("an agent must have 1 to n - 1 neighbours")
        if self.neighbours < self.agents - 1 and self.neighbours % 2:
            raise Unacceptable("an agent must have the same number of neighbours on each side")
        colluding = largest(
            self.agents - 1, self.corrupt, self.neighbours, _security_bits(self.agents)
        )
        if not self.neighbours // 2 + colluding < self.threshold <= self.neighbours:
            raise Unacceptable(
                f"of {self.neighbours} neighbours up to {colluding} may be corrupt: a threshold of "
                f"{self.threshold} is too low, or cannot be reached"
            )
        bad = largest(self.agents, self.corrupt, self.jurors, _security_bits(self.rounds))
        if not (self.jurors + bad) // 2 < self.quorum <= self.jurors <= self.agents:
            raise Unacceptable("two quorums of the jury may have no honest juror in common")


def _check_variance(variance: int) -> None:
    if variance != 0 and variance < LEAST_VARIANCE:
        raise Unacceptable(
            f"noise of variance {variance} per agent is too little for the grid: at least "
            f"{LEAST_VARIANCE} is needed, so choose finer units"
        )


def _security_bits(events: int) -> float:
    """Bits for each of so many events: neighbourhoods and juries each take half of the bound."""
    return SECURITY_BITS + 1 + math.log2(SETUPS) + math.log2(events)


def _correctness_bits(events: int) -> float:
    return CORRECTNESS_BITS + 1 + math.log2(events)


@lru_cache
def _neighbours(agents: int, corrupt: int, dropping: int, rounds: int) -> tuple[int, int]:
    others = agents - 1
    for k in (*range(2, others, 2), others):
        t = k // 2 + largest(others, corrupt, k, _security_bits(agents)) + 1
        if t <= k - largest(others, dropping, k, _correctness_bits(agents * rounds)):
            return k, t
    raise Unacceptable(
        f"of {agents} agents {corrupt} may be corrupt and {dropping} may drop: no threshold is "
        "both above the shares that the former may hold and within those that the latter leave"
    )


@lru_cache
def _jury(agents: int, corrupt: int, dropping: int, rounds: int) -> tuple[int, int]:
    for jurors in range(1, agents + 1):
        bad = largest(agents, corrupt, jurors, _security_bits(rounds))
        quorum = (jurors + bad) // 2 + 1
        if quorum <= jurors - largest(agents, dropping, jurors, _correctness_bits(rounds)):
            return jurors, quorum
    raise Unacceptable("no jury has an honest majority among those that do not drop")

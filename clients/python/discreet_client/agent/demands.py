"""What an agent asks of a session of encrypted sums before it answers anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet_client.exposure import ACCEPTED, Exposure
from discreet_client.federation.errors import AgentError

if TYPE_CHECKING:
    from discreet_client import secure_sum


MOST_ROUNDS = 1000
"""Sums that an agent answers in a session unless it says otherwise."""


@dataclass(frozen=True)
class Demands:
    """What this agent asks of the parameters that the owner has signed; it answers nothing where they fall short.

    `agents`: on the roster, at least. `colluding`: agents that may pool what they know, at least. `rounds`: sums of the
    session that this agent answers, at most, also over restarts; None for any number. `noise`: whether the sums must be
    private in themselves. `exposure`: "accepted" where this agent takes part although the agents are few for the sums
    that are opened, so that one of them that lies can find out its data (`discreet_client.exposure`); the owner must
    have accepted it as well.
    """

    agents: int = 3
    colluding: int = 1
    rounds: int | None = MOST_ROUNDS
    noise: bool = False
    exposure: Exposure | None = None

    def check(self, sums: secure_sum.Parameters, agents: int) -> None:
        """AgentError with the figures."""
        if agents < self.agents:
            raise AgentError(f"the owner has signed a roster of {agents} agents; this one asks for {self.agents}")
        if sums.colluding < self.colluding:
            raise AgentError(
                f"the sums withstand {sums.colluding} colluding agents; this one asks for {self.colluding}"
            )
        if self.rounds is not None and sums.rounds > self.rounds:
            raise AgentError(f"{sums.rounds} sums would be opened; this agent allows {self.rounds}")
        if self.noise and not sums.noise_sigma:
            raise AgentError("the sums have no noise; this agent asks for it")
        if self.exposure not in (None, ACCEPTED):
            raise AgentError(f"exposure is {ACCEPTED!r} or left out, not {self.exposure!r}")
        if agents < sums.crowd and not self.exposure == sums.exposure == ACCEPTED:
            missing = "this agent" if sums.exposure == ACCEPTED else "the owner"
            raise AgentError(
                f"{sums.rounds} sums of {agents} agents would be opened without noise: one agent that lies can find "
                f"out the others' data with fewer than {sums.crowd} agents, and {missing} has not accepted "
                f"that (exposure: {ACCEPTED!r})"
            )

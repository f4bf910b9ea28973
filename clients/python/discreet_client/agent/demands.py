"""What an agent asks of a session of encrypted sums before it answers anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet_client.federation.errors import AgentError

if TYPE_CHECKING:
    from discreet_client import secure_sum


@dataclass(frozen=True)
class Demands:
    """What this agent asks of the parameters that the owner has signed; it answers nothing where they fall short.

    `agents`: on the roster, at least. `colluding`: agents that may pool what they know, at least. `rounds`: sums that
    are opened, at most; None for any number. `noise`: whether the sums must be private in themselves.
    """

    agents: int = 3
    colluding: int = 1
    rounds: int | None = None
    noise: bool = False

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

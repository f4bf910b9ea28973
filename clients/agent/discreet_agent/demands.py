"""What an agent demands of a session before it answers anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet_agent.exposure import ACCEPTED, MOST_ROUNDS, Exposure
from discreet_agent.federation.errors import Unfit
from discreet_agent.federation.rosters import SHORTEST_BEGINNING
from discreet_agent.federation.signing import fingerprint

if TYPE_CHECKING:
    from discreet_agent import secure_sum, sparse_sum


@dataclass(frozen=True)
class Demands:
    """What this agent demands of the parameters that the owner has signed; it declines if they
    fall short.

    `agents`: least number of agents on the roster. `colluding`: least number of colluding agents
    that the protocol must withstand. `rounds`: most sums that the session opens; None for any
    number. `noise`: whether the sums must be differentially private. `exposure`: "accepted" if this
    agent takes part although there are so few agents for the sums that are opened, in this job and
    all those before in its ledger, that a dishonest one can find out its data
    (`discreet_agent.exposure`); the owner must have accepted it as well. `known`: fingerprints, or
    at least their first 16 digits, of agents that this one knows independently of the server; at
    least `known_least` of them must be on the roster, all if it is None. A sum hides an agent among
    the others only if these do not all belong to one party. `strangers`: of the agents that compute
    on secret shares for all, the most that are neither `known` nor this one; None for any number.
    With at most as many as may collude, strangers may pool what they see, if the known ones do not
    join them and all run the program as it is. ValueError for what is none of this, a malformed
    fingerprint or a `known_least` out of range.
    """

    agents: int = 3
    colluding: int = 1
    rounds: int | None = MOST_ROUNDS
    noise: bool = False
    exposure: Exposure | None = None
    known: Sequence[str] = ()
    known_least: int | None = None
    strangers: int | None = None

    def __post_init__(self) -> None:
        numbers = {"agents": self.agents, "colluding": self.colluding}
        optional = {
            "rounds": self.rounds,
            "known_least": self.known_least,
            "strangers": self.strangers,
        }
        numbers |= {name: one for name, one in optional.items() if one is not None}
        for name, number in numbers.items():
            if type(number) is not int:
                raise ValueError(f"{name} must be a whole number, not {number!r}")
        if self.exposure not in (None, ACCEPTED):
            raise ValueError(f"exposure must be {ACCEPTED!r} or left out, not {self.exposure!r}")
        if isinstance(self.known, str) or not all(isinstance(one, str) for one in self.known):
            raise ValueError("known must be a list of fingerprints")
        for one in self.known:
            if len(one) < SHORTEST_BEGINNING or not set(one) <= set("0123456789abcdef"):
                raise ValueError(
                    f"{one!r} is not a fingerprint: {SHORTEST_BEGINNING} to 64 of its digits "
                    "0-9a-f are needed"
                )
        if self.known_least is not None and not 0 <= self.known_least <= len(self.known):
            raise ValueError(
                f"known_least must be from 0 to the number of known agents, {len(self.known)}"
            )

    def check(
        self,
        sums: secure_sum.Parameters,
        keys: Sequence[bytes],
        before: Fraction = Fraction(0),
    ) -> None:
        """Unfit if the sums fall short. `keys`: Ed25519 public keys of the agents on the roster
        that the owner has signed; `before`: what was opened in earlier jobs (`Ledger.exposed`)."""
        agents = len(keys)
        self._check_roster(keys)
        if sums.colluding < self.colluding:
            raise Unfit(
                f"the sums withstand {sums.colluding} colluding agents; this one asks for "
                f"{self.colluding}"
            )
        self._check_rounds(sums.rounds)
        if self.noise and not sums.noise_sigma:
            raise Unfit("the sums have no noise; this agent asks for it")
        if not sums.crowded(agents, before) and not self.exposure == sums.exposure == ACCEPTED:
            missing = "this agent" if sums.exposure == ACCEPTED else "the owner"
            needed = sums.crowd(before)
            earlier = ""
            if before:
                earlier = f", after {float(before):.2g} for each agent in its jobs before"
            enough = f"with fewer than {needed} agents" if needed else "with any number of agents"
            raise Unfit(
                f"{sums.numbers} numbers of {agents} agents would be opened without noise{earlier}:"
                f" one agent that lies can find out the others' data {enough}, and {missing} has "
                f"not accepted that (exposure: {ACCEPTED!r})"
            )

    def check_masks(self, plan: sparse_sum.Plan, keys: Sequence[bytes]) -> None:
        """The same of sums over a sparse graph of masks: Unfit. They have noise, or their plan
        is not signed by this client."""
        self._check_roster(keys)
        if plan.corrupt < self.colluding:
            raise Unfit(
                f"the sums withstand {plan.corrupt} agents that collude with the cloud; this one "
                f"asks for {self.colluding}"
            )
        self._check_rounds(plan.rounds)
        if not plan.variance:
            raise Unfit("the sums have no noise: the cloud would see them as they are")

    def check_shares(
        self, threshold: int, keys: Sequence[bytes], computing: Sequence[bytes]
    ) -> None:
        """Unfit if a computation on secret shares falls short; it opens nothing to which noise
        could be added. `computing`: keys of the other agents that compute."""
        self._check_roster(keys)
        if threshold < self.colluding:
            raise Unfit(
                f"the shares withstand {threshold} colluding agents; this one asks for "
                f"{self.colluding}"
            )
        known = tuple(self.known)
        strangers = [one for one in map(fingerprint, computing) if not one.startswith(known)]
        if self.strangers is not None and len(strangers) > self.strangers:
            raise Unfit(
                f"{len(strangers)} of the agents that compute for all are not among those that "
                f"this one knows; it allows {self.strangers}"
            )
        if self.noise:
            raise Unfit("results that are computed on shares have no noise; this agent asks for it")

    def _check_rounds(self, rounds: int) -> None:
        if self.rounds is not None and rounds > self.rounds:
            raise Unfit(f"{rounds} sums would be opened; this agent allows {self.rounds}")

    def _check_roster(self, keys: Sequence[bytes]) -> None:
        there = {name for name in map(fingerprint, keys) if name.startswith(tuple(self.known))}
        least = len(self.known) if self.known_least is None else self.known_least
        if len(there) < least:
            raise Unfit(
                f"of the {len(self.known)} agents that this one knows {len(there)} are on the "
                f"roster; it asks for {least}"
            )
        if len(keys) < self.agents:
            raise Unfit(
                f"the owner has signed a roster of {len(keys)} agents; this one asks for "
                f"{self.agents}"
            )

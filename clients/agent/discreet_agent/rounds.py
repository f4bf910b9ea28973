"""A round as an agent's step sees it, and the outcome of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from discreet_agent.exposure import NOTHING_OPENED, Opens
from discreet_agent.federation.errors import AgentError
from discreet_agent.federation.identity import Identity
from discreet_agent.ledger import Ledger


@dataclass(slots=True)
class Round:
    """One round as the step sees it. `state` is the step's own, kept across processes: assign it,
    and it is saved with the answer."""

    number: int
    rounds: int
    broadcast: bytes
    state: bytes
    seconds: float
    """Seconds until the deadline, counted from the arrival of the message."""
    agent: str
    """This agent's fingerprint."""
    roster: dict[str, Any] = field(repr=False)
    """The roster as the owner signed it: `agents` holds name, fingerprint, key and announcement of
    each."""
    parameters: dict[str, Any] = field(repr=False)
    """Public constants from the plan."""
    transcript: bytes = field(repr=False)
    roster_digest: bytes = field(repr=False)
    job: str = ""
    identity: Identity | None = field(default=None, repr=False)
    """The agent's key, for kinds whose agents sign messages to each other."""
    price: dict[str, str] = field(default_factory=dict)
    """The charge in the agent's ledger for this session: epsilon in units of 1e-9, delta of
    1e-18."""
    delivery: bytes = field(default=b"", repr=False)
    """What this agent alone was told beside the broadcast; empty in most kinds."""
    on_saved: Callable[[], None] | None = field(default=None, repr=False)
    """The step may set this: it is called once answer and state are on disk, before the answer is
    sent."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a session ended for this agent."""

    state: str
    code: str
    rounds: int
    broadcast: bytes
    transcript: bytes
    final_state: bytes
    charged: bool = False
    """Whether the server has charged the price."""
    blamed: tuple[tuple[str, str], ...] = ()
    """Fingerprint and cause of each agent without whom the session could not go on, as the server
    says."""

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    @property
    def failure(self) -> str:
        """What to tell the agent's user of a session that has not succeeded."""
        says = f"the session {self.state}" + (f": {self.code}" if self.code else "")
        for fingerprint, cause in self.blamed:
            says += f"; agent {fingerprint[:16]}: {cause}"
        return says + ("; the price was charged" if self.charged else "")


Step = Callable[[Round], bytes]


class Program:
    """A step with what it says of itself; a plain function says none of this."""

    first_round_with_data = 0
    """Its answers to earlier rounds hold nothing of this agent's data, so a session that ends
    before that round costs nothing."""

    def __call__(self, current: Round) -> bytes:
        """The answer to a round; an agent without a program has none."""
        raise AgentError("this agent takes part in nothing: it was given no program")

    def check(
        self, roster: dict[str, Any], price: Mapping[str, str], ledger: Ledger, state: bytes
    ) -> None:
        """Unfit, before the roster is accepted, unless this agent takes part in what the owner has
        signed at this price, and its data fit; FolderLost where `state` cannot be gone on from."""

    def opens(self, roster: dict[str, Any]) -> Opens:
        """The numbers that this session opens without noise, among how many agents."""
        return NOTHING_OPENED

    def opened(self, state: bytes) -> int:
        """How many of them were opened, of a session that has ended with this state."""
        return 0

    def without_secrets(self, state: bytes) -> bytes:
        """The state of a session that has ended, without what only its rounds needed."""
        return state


class Plain(Program):
    """A function as a program."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def __call__(self, current: Round) -> bytes:
        return self._step(current)


class Party(Protocol):
    """The interface that the program of a kind needs of an agent; `Agent` has it."""

    identity: Identity

    @property
    def roster(self) -> dict[str, Any]: ...

    @property
    def roster_digest(self) -> bytes: ...

    @property
    def announcement(self) -> Mapping[str, Any]: ...

    @property
    def journal_path(self) -> Path | None: ...

    def announce(self, figures: Mapping[str, Any]) -> None: ...

    def participate(self, step: Step) -> Outcome: ...

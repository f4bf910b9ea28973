"""A round as an agent's step sees it, and the outcome of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from discreet_client.federation.identity import Identity


@define
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
    price: dict[str, str] = field(factory=dict)
    """The charge in the agent's ledger for this session: epsilon in units of 1e-9, delta of
    1e-18."""
    delivery: bytes = field(default=b"", repr=False)
    """What this agent alone was told beside the broadcast; empty in most kinds."""
    on_saved: Callable[[], None] | None = field(default=None, repr=False)
    """The step may set this: it is called once answer and state are on disk, before the answer is
    sent."""


@define(frozen=True)
class Outcome:
    """How a session ended for this agent."""

    state: str
    code: str
    rounds: int
    broadcast: bytes
    transcript: bytes
    final_state: bytes

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"


Step = Callable[[Round], bytes]


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

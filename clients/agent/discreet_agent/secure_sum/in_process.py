"""Operator and agents in one process, with the code that separate machines run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent import paillier
from discreet_agent.packing import Floats
from discreet_agent.secure_sum.agent import Agent, Update
from discreet_agent.secure_sum.errors import Refused
from discreet_agent.secure_sum.frames import Kind, parse
from discreet_agent.secure_sum.operator import Operator
from discreet_agent.secure_sum.party import Journal, MemoryJournal
from discreet_agent.secure_sum.roster import Parameters, Roster

if TYPE_CHECKING:
    from phe import PaillierPrivateKey

Wire = Callable[[Kind, int, bytes], bytes | None]
"""Called with the kind, the agent's number and the bytes of each frame on its way to (odd kinds) or
from (even kinds) the agent; returns the bytes that arrive, None for none."""


@dataclass
class Outcome:
    """The machines after a run in one process: `error` is what ended it, None if it finished."""

    operator: Operator
    agents: list[Agent]
    error: Exception | None = None
    agent_errors: dict[int, Exception] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    """Bytes sent by each agent."""
    received: list[int] = field(default_factory=list)
    """Bytes received by each agent."""

    @property
    def certificate(self) -> dict[str, Any]:
        return self.operator.certificate()


def assemble(
    updates: Sequence[Update],
    own: Floats,
    parameters: Parameters,
    *,
    job: str = "simulation",
    journals: Sequence[Journal] | None = None,
    window: int = paillier.WINDOW_BITS,
    key: PaillierPrivateKey | None = None,
    _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS,
) -> tuple[Operator, list[Agent]]:
    """Operator and agents with fresh keys and a signed roster, for one process.

    The agents share one table of powers, which saves memory in one process. `key`: that which the
    dealer deals, in the place of a new one.
    """
    owner, server = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    identities = [Ed25519PrivateKey.generate() for _ in updates]
    members = tuple(identity.public_key().public_bytes_raw() for identity in identities)
    roster = Roster(job, members, server.public_key().public_bytes_raw(), parameters)
    shared: list[paillier.Obfuscators] = []

    def make_obfuscators(key: PaillierPrivateKey) -> paillier.Obfuscators:
        if not shared:
            shared.append(paillier.Obfuscators(key, window))
        return shared[0]

    operator = Operator(
        server, owner.public_key(), roster.signed(owner), own, _smallest_key_bits=_smallest_key_bits
    )
    agents = [
        Agent(
            identity,
            owner.public_key(),
            update,
            journals[place] if journals else MemoryJournal(),
            make_obfuscators=make_obfuscators,
            key=key,
            _smallest_key_bits=_smallest_key_bits,
        )
        for place, (identity, update) in enumerate(zip(identities, updates, strict=True))
    ]
    return operator, agents


def run_in_process(
    updates: Sequence[Update],
    own: Floats,
    parameters: Parameters,
    *,
    job: str = "simulation",
    wire: Wire | None = None,
    journals: Sequence[Journal] | None = None,
    window: int = paillier.WINDOW_BITS,
    key: PaillierPrivateKey | None = None,
    on_round: Callable[[int], None] | None = None,
    _smallest_key_bits: int = paillier.SMALLEST_KEY_BITS,
) -> Outcome:
    """Run all agents and the operator in this process, as in a job with `mode: simulation`.

    `on_round` is called with the number of sums so far. Raises the error of the machine that fails
    first; with a `wire`, whose purpose is to provoke failures, errors are in the outcome instead.
    """
    operator, agents = assemble(
        updates,
        own,
        parameters,
        job=job,
        journals=journals,
        window=window,
        key=key,
        _smallest_key_bits=_smallest_key_bits,
    )
    outcome = Outcome(operator, agents, sent=[0] * len(agents), received=[0] * len(agents))
    try:
        _drive(outcome, wire, on_round)
    except Exception as error:
        outcome.error = error
        if wire is None:
            raise
    return outcome


def _drive(outcome: Outcome, wire: Wire | None, on_round: Callable[[int], None] | None) -> None:
    operator = outcome.operator
    pass_on: Wire = wire or (lambda kind, agent, frame: frame)
    broadcast: bytes | None = operator.open()
    while broadcast is not None:
        kind = parse(broadcast)[0]
        if kind == Kind.SUM and on_round is not None:
            on_round(operator.opened)
        for place, agent in enumerate(outcome.agents):
            heard = pass_on(kind, place, broadcast)
            if heard is None or agent.ended is not None:
                continue
            outcome.received[place] += len(heard)
            try:
                answer = agent.answer(heard)
            except Exception as error:
                if wire is None:
                    raise
                outcome.agent_errors[place] = error
                continue
            if answer:
                sent = pass_on(parse(answer)[0], place, answer)
                if sent is not None:
                    outcome.sent[place] += len(sent)
                    try:
                        operator.collect(sent)
                    except Refused as error:
                        outcome.agent_errors[place] = error
        broadcast = operator.advance()

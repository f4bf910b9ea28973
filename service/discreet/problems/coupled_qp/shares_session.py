"""The operator's side of a computation on shares: it sends each agent its summand of c and d, and
stores what they sign. It takes no part in the computation, and sees nothing of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.contents import Released
from discreet.problems.federation import Member, Session, SessionFailed
from discreet_agent.federation import signing
from discreet_agent.federation.identity import Identity
from discreet_agent.mpc import evidence, keys, member
from discreet_agent.mpc.terms import Terms


class SharesSession(Session):
    """One exchange: sealed summands to the agents, their signatures back. `figures`: c and d as
    integers."""

    rounds = 1

    def __init__(self, terms: Terms, agents: Sequence[Member], figures: Sequence[int]) -> None:
        self._terms, self._figures = terms, figures
        self._agents = tuple(agents)
        self._members = [(one.key, one.announcement) for one in agents]
        self._context = evidence.context(terms, self._members)
        self._broadcast = b""
        self._evidence: dict[str, Any] = {}

    def opening(self, noise: Noise) -> bytes:
        """Each agent's summand, sealed to the key that it has announced."""
        parts = keys.summands(self._figures, len(self._agents))
        sealed = {
            one.fingerprint: keys.seal(
                bytes.fromhex(one.announcement["exchange"]), self._context, part
            )
            for one, part in zip(self._agents, parts, strict=True)
        }
        self._broadcast = member.opening(sealed)
        return self._broadcast

    def fault(self, number: int, agent: str, message: bytes) -> str:
        """Of what is neither an end that the agent has signed nor a code for why there is none."""
        try:
            said = json.loads(message)
            if "broken" in said:
                return "" if isinstance(said["broken"], str) else "wrong_form"
            if not (said["kept"] is None or isinstance(said["kept"], bool)):
                return "wrong_form"
            statement = evidence.statement(self._context, self._broadcast, said["kept"])
            key = next(one.key for one in self._agents if one.fingerprint == agent)
            signature = bytes.fromhex(said["signature"])
            return "" if signing.is_signed(key, statement, signature) else "bad_signature"
        except (ValueError, KeyError, TypeError, RecursionError, StopIteration):
            return "wrong_form"

    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        """All signatures, for all agents; SessionFailed if an agent broke off, or if agents
        disagree."""
        said = {agent: json.loads(message) for agent, message in messages.items()}
        if any("broken" in one for one in said.values()):
            broken = {agent: "broken_off" for agent, one in said.items() if "broken" in one}
            raise SessionFailed("computation_broken", broken)
        kept = [one["kept"] for one in said.values()]
        if any(one != kept[0] for one in kept):
            raise SessionFailed("protocol_broken")
        signatures = {one.key.hex(): said[one.fingerprint]["signature"] for one in self._agents}
        self._evidence = evidence.evidence(
            self._terms, self._members, self._broadcast, kept[0], signatures
        )
        self.done = True
        return json.dumps({"signatures": signatures}).encode()

    def state(self) -> bytes:
        return json.dumps({"broadcast": self._broadcast.hex(), "evidence": self._evidence}).encode()

    def restore(self, state: bytes) -> None:
        saved = json.loads(state)
        self._broadcast, self._evidence = bytes.fromhex(saved["broadcast"]), saved["evidence"]
        self.done = bool(self._evidence)

    def released(self) -> Released:
        return {"evidence": np.frombuffer(json.dumps(self._evidence).encode(), dtype=np.uint8)}


def rehearse() -> None:
    """A session of three agents from its opening to its release, in this process."""
    terms = Terms(3, 1, 1, False, True, 1.0, 1.0, 1.0, 1.0, 1e-3, computing=3)
    identities = [Identity.generate() for _ in range(3)]
    members = [
        Member(
            one.fingerprint,
            "",
            one.public_key,
            member.announcement(one, "ses_rehearsal", "127.0.0.1:1"),
        )
        for one in identities
    ]
    member.places([(one.key, one.announcement) for one in members])
    session = SharesSession(terms, members, [1 << terms.fraction_bits])
    broadcast = session.opening(Noise.secure())
    restored = SharesSession(terms, members, [1 << terms.fraction_bits])
    restored.restore(session.state())
    context = evidence.context(terms, [(one.key, one.announcement) for one in members])
    sealed = member.sealed_parts(broadcast)
    parts = [
        keys.unseal(
            keys.exchange_key(one.private_key, "ses_rehearsal"), context, sealed[one.fingerprint]
        )[0]
        for one in identities
    ]
    assert sum(parts) == 1 << terms.fraction_bits
    statement = evidence.statement(context, broadcast, True)
    answers = {
        one.fingerprint: json.dumps({"kept": True, "signature": one.sign(statement).hex()}).encode()
        for one in identities
    }
    assert all(restored.accepts(0, *one) for one in answers.items())
    restored.step(0, answers, Noise.secure())
    assert restored.done
    assert evidence.unsigned(json.loads(restored.released()["evidence"].tobytes())) == []

"""The isolated child that runs a session's steps: it alone sees what agents send."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.isolation.children import Conversation, Limits, Zygote
from discreet.problems.federation import CAUSES
from discreet.usecases.sessions.rounds import SessionLease
from discreet_agent.federation import signing


class TooFew(Exception):
    """Fewer messages are usable than a step needs; `faults` by agent of those that are not."""

    def __init__(self, faults: Mapping[str, str]) -> None:
        super().__init__()
        self.faults = known_causes(faults)


class StepFailed(Exception):
    """The session cannot continue; `code` is its kind's code for the reason, `blamed` by agent the
    causes."""

    def __init__(self, code: str, blamed: Mapping[str, str]) -> None:
        super().__init__(code)
        self.code, self.blamed = code, known_causes(blamed)


def known_causes(found: Mapping[str, str]) -> dict[str, str]:
    """The child reads what agents send: nothing but fixed names is taken from it."""
    return {agent: cause if cause in CAUSES else "wrong_form" for agent, cause in found.items()}


@dataclass(frozen=True)
class Stepped:
    """The result of a step: the state and the broadcast of the next round, what goes with it to
    single agents, and the messages that were used."""

    state: bytes
    broadcast: bytes
    deliveries: Mapping[str, bytes] = field(default_factory=dict)
    done: bool = False
    used: Mapping[str, bytes] | None = None


class SessionChild:
    """A child with the session of a lease in it. `opening` is the first broadcast with its state;
    None where the lease has a state to go on from. `deliveries` are those of the round that is open
    then. ChildFailed from every method when the child ends."""

    def __init__(
        self,
        conversation: Conversation,
        rounds: int,
        opening: Stepped | None,
        deliveries: Mapping[str, bytes],
    ) -> None:
        self._conversation = conversation
        self.rounds, self.opening, self.deliveries = rounds, opening, deliveries

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, zygote: Zygote, lease: SessionLease, limits: Limits
    ) -> AsyncIterator[SessionChild]:
        header = {
            "step": "session",
            "kind": lease.problem.kind,
            "problem": lease.problem.model_dump(mode="json"),
            "plan": lease.plan.model_dump(mode="json"),
            "agents": [
                {
                    "fingerprint": m.fingerprint,
                    "name": m.name,
                    "key": m.key.hex(),
                    "announcement": m.announcement,
                }
                for m in lease.members
            ],
            "roster": signing.digest(lease.roster or b"").hex(),
            "seed": lease.seed,
            "round": lease.round,
            "state": lease.session_state is not None,
        }
        async with zygote.converse(header, lease.session_state or b"", limits) as conversation:
            answer, payload = await conversation.receive()
            opened = Stepped(*_parts(answer, payload))
            opening = opened if lease.session_state is None else None
            yield cls(conversation, int(answer["rounds"]), opening, opened.deliveries)

    async def step(self, number: int, messages: Mapping[str, bytes], least: int) -> Stepped:
        """The session's step on at least `least` usable messages by agent; TooFew and StepFailed
        otherwise."""
        sizes = [(name, len(messages[name])) for name in sorted(messages)]
        body = b"".join(messages[name] for name, _ in sizes)
        asked = {"round": number, "messages": sizes, "least": least}
        answer, payload = await self._conversation.ask(asked, body)
        if "short" in answer:
            raise TooFew(answer["short"])
        if "failed" in answer:
            raise StepFailed(str(answer["failed"]), answer["blamed"])
        used = {name: messages[name] for name in answer["used"]}
        return Stepped(*_parts(answer, payload), done=bool(answer["done"]), used=used)

    async def release(self) -> bytes:
        """What the whole session releases, packed."""
        _, released = await self._conversation.ask({"release": True})
        return released


def chained(transcript: bytes, stepped: Stepped) -> bytes:
    """SHA-256(transcript so far ‖ agent and digest of each message that was used, sorted ‖ digest
    of the broadcast)."""
    used = sorted((stepped.used or {}).items())
    parts: Iterable[bytes] = (bytes.fromhex(name) + signing.digest(body) for name, body in used)
    return hashlib.sha256(transcript + b"".join(parts) + signing.digest(stepped.broadcast)).digest()


def _parts(answer: Mapping[str, Any], payload: bytes) -> tuple[bytes, bytes, dict[str, bytes]]:
    """State, broadcast and deliveries of a child's answer."""
    parts, at = [], 0
    for length in (answer["state"], answer["broadcast"], *answer["delivered"]):
        at, begin = at + length, at
        parts.append(payload[begin:at])
    state, broadcast, *texts = parts
    return state, broadcast, {str(agent): texts[place] for agent, place in answer["deliveries"]}

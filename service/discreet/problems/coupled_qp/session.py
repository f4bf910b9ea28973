"""The operator's state machine of an encrypted sum as a session."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.privacy.noise import Noise
from discreet.problems.contents import Released
from discreet.problems.coupled_qp.data import Floats
from discreet.problems.federation import Member, Session, SessionFailed
from discreet.problems.plans import Plan
from discreet_agent import secure_sum


class SumSession(Session):
    """The operator's state machine as a session: one exchange is one of its phases.

    Its Ed25519 key is generated here. The signature of the server, whose key the agents' tokens
    pin, authenticates it in the broadcast that contains it. `state` holds that key and the link
    masks; it is stored sealed.
    """

    def __init__(self, plan: Plan, agents: Sequence[Member], own: Floats) -> None:
        self.rounds = plan.resources.steps
        self._parameters = secure_sum.Parameters(**plan.parameters["sums"])
        self._places = {agent.fingerprint: place for place, agent in enumerate(agents)}
        self._members = tuple(agent.key for agent in agents)
        self._own = own
        self._identity: Ed25519PrivateKey | None = None
        self._operator: secure_sum.Operator | None = None
        self._job = ""

    def _begin(self, identity: Ed25519PrivateKey, job: str) -> secure_sum.Operator:
        self._identity, self._job = identity, job
        roster = secure_sum.Roster(
            job, self._members, identity.public_key().public_bytes_raw(), self._parameters
        )
        self._operator = secure_sum.Operator(
            identity, lambda document: document == roster.document, roster.document, self._own
        )
        return self._operator

    @property
    def _machine(self) -> secure_sum.Operator:
        assert self._operator is not None
        return self._operator

    def opening(self, noise: Noise) -> bytes:
        return self._begin(Ed25519PrivateKey.generate(), secrets.token_hex(16)).open()

    def fault(self, number: int, agent: str, message: bytes) -> str:
        """Of a message that is not authentic, not from this agent, or not expected; an empty one is
        right if none is expected."""
        place = self._places[agent]
        try:
            if not message:
                return "no_answer" if place in self._machine.waiting else ""
            if secure_sum.parse(message)[3] != place:
                return "wrong_frame"
            self._machine.collect(message)
        except secure_sum.SecureSumError as error:
            return error.cause
        return ""

    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        try:
            for agent in sorted(messages):
                self._machine.collect(messages[agent])
            broadcast = self._machine.advance()
        except secure_sum.Complained as complaint:
            raise SessionFailed("sum_out_of_bounds") from complaint
        except secure_sum.SecureSumError as error:
            named = {place: agent for agent, place in self._places.items()}
            blamed = {named[place]: error.cause for place in error.agents}
            raise SessionFailed("protocol_broken", blamed) from error
        assert broadcast is not None
        self.done = self._machine.finished
        return broadcast

    def state(self) -> bytes:
        assert self._identity is not None
        saved = {
            "identity": self._identity.private_bytes_raw().hex(),
            "job": self._job,
            "machine": self._machine.state().decode(),
        }
        return json.dumps(saved).encode()

    def restore(self, state: bytes) -> None:
        saved = json.loads(state)
        identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(saved["identity"]))
        self._begin(identity, saved["job"]).resume(saved["machine"].encode())
        self.done = self._machine.finished

    def released(self) -> Released:
        evidence = json.dumps(self._machine.certificate()).encode()
        return {"evidence": np.frombuffer(evidence, dtype=np.uint8)}


class TwoRounds:
    """The optimizer of a rehearsal: two sums, and the two of the agents alone that end a run."""

    def __init__(self) -> None:
        self.left = 5

    @property
    def alone(self) -> bool:
        return self.left <= 2

    def natural(self, entry: int, value: float) -> float:
        return value

    def __call__(self, sums: Floats | None) -> Floats | None:
        self.left -= 1
        return np.array([float(self.left), 1.0]) if self.left else None

    def settled(self, tolerance: float) -> bool:
        return tolerance > 0

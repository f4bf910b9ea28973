"""A small session of masked sums, in one process: for rehearsals."""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.privacy.noise import Noise
from discreet.problems.contents import pack, unpack
from discreet.problems.federation import FederatedProblem, Member
from discreet.problems.multi_agent.masked import MaskedSession
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet_client import sparse_sum
from discreet_client.federation import history, signing
from discreet_client.packing import Integers


class _Agent:
    """An agent of the sums that keeps nothing: what `sparse_sum.answer` needs of one."""

    def __init__(self) -> None:
        self.identity = Ed25519PrivateKey.generate()
        self.member = Member(
            signing.fingerprint(self.public),
            "",
            self.public,
            {"lower": 0, "upper": 1, "radius": 1, "masks": "sparse"},
        )
        self.agent: sparse_sum.Agent | None = None

    @property
    def public(self) -> bytes:
        return self.identity.public_key().public_bytes_raw()

    def begin(self, roster: sparse_sum.Roster) -> None:
        self.roster = roster
        self._candidate = sparse_sum.Candidate(self.identity, roster.digest)

    def commit(self, number: int) -> bytes:
        return self._candidate.commitment

    def open(self, commitments: list[bytes]) -> sparse_sum.Member:
        return self._candidate.open(self.roster.plan, commitments)

    def join(self, members: tuple[sparse_sum.Member, ...]) -> bytes:
        group = sparse_sum.Group(self.roster.plan, members, self.roster.digest)
        self.agent = sparse_sum.Agent(self._candidate, self.roster.keys.index(self.public), group)
        return group.context


def rehearse(kind: type[FederatedProblem], schedule: dict[str, Any]) -> None:
    """From the opening to what `finish` makes of it, and back from each state."""
    agents = {one.member.fingerprint: one for one in (_Agent() for _ in range(4))}
    names = ["a", "b", "c", "d"]
    members = [
        Member(agent, name, agents[agent].public, agents[agent].member.announcement)
        for agent, name in zip(sorted(agents), names, strict=True)
    ]
    problem = kind.model_validate(
        {
            "kind": "multi_agent",
            "constraints": [" + ".join(names) + " - 2"],
            "schedule": {**schedule, "iterations": 1},
            "protocol": "federated",
            "federation": {"agents": 4},
            "masks": "sparse",
        }
    )
    plan = problem.plan_federation(members, Budget(epsilon=10**9, delta=10**15))
    session = problem.open_session(plan, members)
    assert isinstance(session, MaskedSession)
    session.opening(Noise.secure())
    for agent in agents.values():
        agent.begin(session.conductor.roster)

    def values(number: int) -> Integers:
        return np.zeros(1, dtype=np.int64)

    durable: dict[str, Any] = dict(agents)
    for number in range(session.rounds):
        told: dict[str, Any] = dict(session.deliveries())
        answers = {
            name: sparse_sum.answer(durable[name], told[name], values) if name in told else b""
            for name in agents
        }
        if number == session.rounds - 1:
            answers = dict.fromkeys(agents, bytes(history.SIGNATURE_BYTES))
        usable = {
            name: said for name, said in answers.items() if session.accepts(number, name, said)
        }
        session.step(number, usable, Noise.secure())
        session.restore(session.state())
    problem.finish(
        None,
        Plan.model_validate_json(plan.model_dump_json()),
        unpack(pack(session.released())),
        lambda step, total: None,
    )

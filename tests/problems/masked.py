"""A session of masked sums in one process: its cloud, and agents with folders of their own."""

from __future__ import annotations

import base64
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.federation import Member
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet_agent.demands import Demands
from discreet_agent.federation import signing
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.rosters import roster_document
from discreet_agent.masked_sums import MaskedSteps
from discreet_agent.rounds import Outcome, Round, Step

BUDGET = Budget(epsilon=10**9, delta=10**15)
LIMIT = 30.0


def problem(agents: int, steps: int, **changes: Any) -> MultiAgent:
    """All agents together stay below a limit, and the first two of them near each other."""
    names = [f"a{place}" for place in range(agents)]
    return MultiAgent.model_validate(
        {
            "kind": "multi_agent",
            "constraints": [f"{' + '.join(names)} - {LIMIT:g}", "a0 - 2*a1 - 3"],
            "schedule": {
                "gamma": 0.05,
                "alpha": 0.05,
                "c1": 0.3333,
                "c2": 0.25,
                "iterations": steps,
            },
            "protocol": "federated",
            "federation": {
                "agents": agents,
                "quorum": agents - agents // 10,
                "on_missing": "finish",
            },
            "masks": "sparse",
            "colluding": 2,
            **changes,
        }
    )


ANNOUNCED = {"lower": 0, "upper": 5, "radius": 0.5, "masks": "sparse"}


@dataclass
class Party:
    """What steps need of an agent."""

    name: str
    folder: Path
    identity: Identity = field(default_factory=Identity.generate)
    roster: dict[str, Any] = field(default_factory=dict)
    roster_digest: bytes = b""
    announcement: Mapping[str, Any] = field(default_factory=lambda: dict(ANNOUNCED))

    @property
    def journal_path(self) -> Path | None:
        return self.folder / f"{self.name}.journal"

    def participate(self, step: Step) -> Outcome:
        raise NotImplementedError

    @property
    def member(self) -> Member:
        return Member(
            self.identity.fingerprint, self.name, self.identity.public_key, dict(self.announcement)
        )


class Session:
    """A cloud and its agents, exchange by exchange. `slope` of agent a_i pulls to i modulo 5."""

    def __init__(
        self, folder: Path, asked: MultiAgent, agents: int, announced: Mapping[str, Any] = ANNOUNCED
    ) -> None:
        self.asked = asked
        self.parties = [
            Party(f"a{place}", folder, announcement=dict(announced)) for place in range(agents)
        ]
        self.members = sorted((one.member for one in self.parties), key=lambda one: one.fingerprint)
        self.plan: Plan = asked.plan_federation(self.members, BUDGET)
        parameters = self.plan.model_dump(mode="json")["parameters"]
        listed = [
            {
                "name": one.name,
                "fingerprint": one.fingerprint,
                "key": base64.b64encode(one.key).decode(),
                "announcement": one.announcement,
            }
            for one in self.members
        ]
        document = roster_document("ses_1", "job_1", "multi_agent", listed, parameters)
        self.roster, self.digest = json.loads(document), signing.digest(document)
        for party in self.parties:
            party.roster, party.roster_digest = self.roster, self.digest
        self.cloud: Any = asked.open_session(self.plan, self.members)
        self.cloud.roster_digest = self.digest
        self.broadcast: bytes = self.cloud.opening(Noise.secure())
        self.steps = {one.identity.fingerprint: self.agent(one) for one in self.parties}
        self.kept: dict[str, bytes] = {}
        self.number = 0
        self._told: tuple[int, Mapping[str, bytes]] | None = None

    def agent(self, party: Party, **demands: Any) -> MaskedSteps:
        """A process of this agent."""
        target = int(party.name[1:]) % 5

        def slope(x: Any) -> Any:
            return [2 * (one - target) for one in x] if isinstance(x, list) else 2 * (x - target)

        return MaskedSteps(party, slope, None, Demands(**demands))

    def deliveries(self) -> Mapping[str, bytes]:
        """Of this exchange."""
        if self._told is None or self._told[0] != self.number:
            self._told = self.number, self.cloud.deliveries()
        return self._told[1]

    def asked_of(self, party: Party, **changes: Any) -> Round:
        """What an agent hears in this exchange."""
        price = self.plan.total
        told: dict[str, Any] = {
            "number": self.number,
            "rounds": self.cloud.rounds,
            "broadcast": self.broadcast,
            "state": self.kept.get(party.identity.fingerprint, b""),
            "seconds": 1.0,
            "agent": party.identity.fingerprint,
            "roster": self.roster,
            "parameters": self.roster["parameters"],
            "transcript": b"",
            "roster_digest": self.digest,
            "job": "job_1",
            "identity": party.identity,
            "price": {"epsilon": str(price.epsilon), "delta": str(price.delta)},
            "delivery": self.deliveries().get(party.identity.fingerprint, b""),
            **changes,
        }
        return Round(**told)

    def answer(self, party: Party, **changes: Any) -> bytes:
        """What it says, and keeps."""
        current = self.asked_of(party, **changes)
        said = self.steps[party.identity.fingerprint](current)
        self.kept[party.identity.fingerprint] = current.state
        return said

    def again(self, party: Party) -> None:
        """Its process dies; another takes up its folder."""
        name = party.identity.fingerprint
        self.steps[name].close()
        self.steps[name] = self.agent(party)

    def exchange(
        self,
        silent: Container[str] = (),
        restart: bool = False,
    ) -> None:
        """Everybody answers but those of these names. `restart`: the cloud's process dies
        before."""
        if restart:
            self.restart()
        messages = {
            party.identity.fingerprint: self.answer(party)
            for party in self.parties
            if party.name not in silent
        }
        usable = {
            agent: body
            for agent, body in messages.items()
            if self.cloud.accepts(self.number, agent, body)
        }
        assert usable.keys() == messages.keys()
        self.broadcast = self.cloud.step(self.number, usable, Noise.secure())
        self.number += 1

    def restart(self) -> None:
        state, before = self.cloud.state(), self.cloud.deliveries()
        self.cloud = self.asked.open_session(self.plan, self.members)
        self.cloud.roster_digest = self.digest
        self.cloud.restore(state)
        assert self.cloud.deliveries() == before

    def x(self, party: Party) -> Any:
        return json.loads(self.kept[party.identity.fingerprint])["x"]

    def close(self) -> None:
        for step in self.steps.values():
            step.close()

    @property
    def survivors(self) -> list[set[str]]:
        """Names of those in each sum."""
        names = {one.fingerprint: one.name for one in self.members}
        rows = np.unpackbits(self.cloud.released()["survivors"], axis=1)
        return [
            {names[one.fingerprint] for one, bit in zip(self.members, row, strict=False) if bit}
            for row in rows.tolist()
        ]

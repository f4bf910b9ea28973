"""Masked sums over a real installation: fifty agents, of whom some drop in every round."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from discreet_client.agent import Agent
from discreet_client.agent.demands import Demands
from discreet_client.agent.masked_sums import MaskedSteps
from discreet_client.agent.multi_agent import Minimum
from discreet_client.agent.rounds import Round
from discreet_client.sparse_sum import exchanges
from tests.problems.masked import ANNOUNCED, problem
from tests.rpc.conftest import Federation
from tests.rpc.helpers import final

AGENTS, STEPS, SHARE = 50, 3, 0.05


class Dies(Exception):
    """In the place of a process that is killed."""


class Mortal:
    """An agent in a thread, which dies where it is told: its connection breaks, what it has in
    memory is gone, and another takes up its folder."""

    def __init__(self, folder: Path, token: str, name: str, dies: set[int]) -> None:
        self.name, self._token, self._folder, self.dies = name, token, folder, dies
        self.found: Minimum | None = None
        self.failed: Exception | None = None
        self.deaths = 0
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _live(self) -> None:
        try:
            while self.found is None:
                self._try()
        except Exception as error:
            self.failed = error

    def _try(self) -> None:
        agent = Agent.from_token(
            self._token,
            self._folder / self.name / "agent.key",
            name=self.name,
            announcement=ANNOUNCED,
            limit_epsilon="2",
            limit_delta="0.05",
        )
        target = int(self.name[1:]) % 5
        steps = MaskedSteps(agent, lambda x: 2 * (x - target), None, Demands(agents=10))

        def step(current: Round) -> bytes:
            if current.number in self.dies:
                self.dies.discard(current.number)
                raise Dies
            return steps(current)

        try:
            self.found = steps.end(agent.participate(step))
        except Dies:
            self.deaths += 1
        finally:
            steps.close()


def test_fifty_agents_of_whom_one_in_twenty_drops_in_every_round(
    shared: Federation, tmp_path: Path, monkeypatch: Any
) -> None:
    """No restart, no lost sum: what all are told after each round is the sum over those who were in
    it. Every agent is charged once, and all end with the same multipliers and the same history."""
    asked = problem(AGENTS, STEPS).model_dump(mode="json")
    asked["federation"] |= {"join_seconds": 500, "round_seconds": 300}
    with shared.client() as client:
        job = str(
            client.submit({"problem": asked, "privacy": {"epsilon": 1, "delta": 0.001}})["id"]
        )
    generator, dies = random.Random(7), {f"a{place}": set[int]() for place in range(AGENTS)}
    for k in range(STEPS):
        for name in generator.sample(sorted(dies), round(SHARE * AGENTS)):
            phase = generator.randrange(1, exchanges.IN_A_ROUND)
            dies[name].add(exchanges.exchanges(k) + phase)
    agents = [
        Mortal(tmp_path, token, name, set(dies[name]))
        for token, name in zip(shared.invite(job, AGENTS), dies, strict=True)
    ]
    shared.joined(job, AGENTS)
    shared.approve(job)
    ended = final(shared, job)
    for agent in agents:
        agent.thread.join(60)
        assert agent.failed is None
        assert agent.found is not None
    assert ended["state"] == "succeeded"

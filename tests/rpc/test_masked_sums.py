"""Masked sums over a real installation: agents of whom some drop in every round."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.solvers.saddle import saddle_point
from discreet_agent import Agent, multi_agent
from discreet_agent.demands import Demands
from discreet_agent.federation import history
from discreet_agent.masked_sums import MaskedSteps
from discreet_agent.multi_agent import Minimum
from discreet_agent.packing import Integers
from discreet_agent.rounds import Round
from discreet_agent.secure_sum.noise import discrete_gaussian
from discreet_agent.sparse_sum import agent as sums_agent
from discreet_agent.sparse_sum import exchanges
from tests.problems.masked import ANNOUNCED, LIMIT, problem
from tests.rpc.conftest import Federation
from tests.rpc.helpers import entries, final

AGENTS, STEPS, DROPS = 20, 4, 1
"""Fifty took 90 s beside much other work; `tests/problems/test_masked_sums.py` has as many."""
LEAST = AGENTS - AGENTS // 10


class Dies(Exception):
    """In the place of a process that is killed."""


class Mortal:
    """An agent in a thread, which dies where it is told: its connection breaks, what it has in
    memory is gone, and another takes up its folder. `halts`: the exchange before whose answer it
    waits, as long as `halted` is not cleared."""

    def __init__(
        self, folder: Path, token: str, name: str, dies: set[int], halts: int | None = None
    ) -> None:
        self.name, self._token, self._folder = name, token, folder
        self._dies, self._halts = dies, halts
        self.found: Minimum | None = None
        self.failed: BaseException | None = None
        self.deaths = 0
        self.halted, self.goes_on = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _live(self) -> None:
        try:
            while self.found is None:
                self._try()
        except BaseException as error:
            self.failed = error

    def _agent(self) -> Agent:
        return Agent.from_token(
            self._token,
            self._folder / self.name / "agent.key",
            name=self.name,
            announcement=ANNOUNCED,
            limit_epsilon="2",
            limit_delta="0.05",
        )

    def _try(self) -> None:
        agent = self._agent()
        target = int(self.name[1:]) % 5
        steps = MaskedSteps(agent, lambda x: 2 * (x - target), None, Demands(agents=AGENTS))

        def step(current: Round) -> bytes:
            if current.number in self._dies:
                self._dies.discard(current.number)
                raise Dies
            if current.number == self._halts:
                self.halted.set()
                self.goes_on.wait()
            return steps(current)

        try:
            self.found = steps.end(agent.participate(step))
        except Dies:
            self.deaths += 1
        finally:
            steps.close()


class OfFile(Mortal):
    """The same by a problem file, as `discreet-agent` runs it."""

    def _try(self) -> None:
        told = multi_agent.run(
            self._agent(),
            {
                "objective": f"({self.name} - 4)^2",
                "announcement": ANNOUNCED,
                "demands": {"agents": AGENTS, "colluding": 2, "rounds": STEPS},
            },
        )
        self.found = Minimum(
            told["state"],
            told["code"],
            told["x"],
            tuple(told["multipliers"]),
            told["history"],
            tuple(told["unsigned"]),
        )


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> dict[int, dict[int, Integers]]:
    """What agents have added, noise included: by round and place on the roster."""
    found: dict[int, dict[int, Integers]] = defaultdict(dict)
    here = threading.local()
    draw, contribute = discrete_gaussian, sums_agent.Agent.contribute

    def drawn(variance: int, count: int) -> list[int]:
        here.noise = draw(variance, count)
        return list(here.noise)

    def noted(self: sums_agent.Agent, round_: int, sealed: Any, values: Integers) -> bytes:
        frame = contribute(self, round_, sealed, values)
        assert self.place not in found[round_]
        found[round_][self.place] = values + np.array(here.noise, dtype=np.int64)
        return frame

    monkeypatch.setattr(sums_agent, "discrete_gaussian", drawn)
    monkeypatch.setattr(sums_agent.Agent, "contribute", noted)
    return found


@pytest.mark.long
def test_agents_drop_in_every_round_and_the_server_is_killed(
    shared: Federation, tmp_path: Path, added: dict[int, dict[int, Integers]]
) -> None:
    """No sum is lost or begun again. What comes of each is what was added by those who were in it;
    every agent is charged once, and all end with the same multipliers and have signed the same."""
    asked = problem(AGENTS, STEPS).model_dump(mode="json")
    asked["federation"] |= {"join_seconds": 500, "round_seconds": 300}
    with shared.client() as client:
        job = str(
            client.submit({"problem": asked, "privacy": {"epsilon": 1, "delta": 0.001}})["id"]
        )
    generator = random.Random(7)
    names = [f"a{place}" for place in range(AGENTS)]
    dies: dict[str, set[int]] = {name: set() for name in names}
    for k in range(STEPS):
        for name in generator.sample(names[1:-1], DROPS):
            dies[name].add(exchanges.exchanges(k) + generator.randrange(1, exchanges.IN_A_ROUND))
    expected = sum(map(len, dies.values()))
    halts = exchanges.exchanges(1) + 2  # votes are due, of what all have contributed
    agents = [
        (OfFile if name == names[-1] else Mortal)(
            tmp_path, token, name, set(dies[name]), halts if name == names[0] else None
        )
        for token, name in zip(shared.invite(job, AGENTS), names, strict=True)
    ]
    shared.joined(job, AGENTS)
    shared.approve(job)
    agents[0].halted.wait()
    shared.rpcs[-1].kill()
    shared.rpcs[-1].wait()
    shared.start_rpc()
    agents[0].goes_on.set()
    ended = final(shared, job)
    for agent in agents:
        agent.thread.join()
        assert agent.failed is None
    assert ended["state"] == "succeeded"
    assert sum(agent.deaths for agent in agents) == expected == STEPS * DROPS
    outcomes = [agent.found for agent in agents if agent.found is not None]
    assert len(outcomes) == AGENTS
    with shared.client() as client:
        answer, roster = client.result(job), str(client.session(job)["roster"])
    result, certificate = answer["result"], answer["certificate"]

    for one, other in itertools.pairwise(outcomes):
        assert (one.multipliers, one.history) == (other.multipliers, other.history)
    assert all(one.unsigned == () for one in outcomes)
    assert result["multipliers"] == list(outcomes[0].multipliers)
    assert result["agreement"]["history"] == outcomes[0].history
    assert history.unsigned_of_result(result["agreement"], certificate, roster.encode()) == []

    survivors = [
        {place for place, bit in enumerate(bits(row)) if bit} for row in result["survivors"]
    ]
    assert len(survivors) == STEPS
    assert all(len(one) >= LEAST for one in survivors)
    assert any(len(one) < AGENTS for one in survivors)
    told = values(survivors, added, json.loads(roster))
    mean = told[STEPS // 2 :].mean(axis=0)
    assert result["noisy_values"] == pytest.approx(mean.tolist(), rel=1e-12)
    figures = {name: asked["schedule"][name] for name in ("gamma", "alpha", "c1", "c2")}
    schedule = saddle_point.Schedule(**figures)
    multipliers = [0.0, 0.0]
    for k, row in enumerate(told.tolist(), start=1):
        multipliers = saddle_point.cloud_step(multipliers, row, *schedule.at(k))
    assert result["multipliers"] == pytest.approx(multipliers, rel=1e-12)

    sums = certificate["federation"]["sums"]
    assert (sums["agents"], sums["least"], sums["colluding"]) == (AGENTS, LEAST, 2)
    assert certificate["events"][0]["failure"] == "909495"
    assert any("pool what they know with the cloud" in one for one in certificate["assumptions"])
    charged = entries(shared, job)
    assert len(charged) == AGENTS
    assert all(kinds == ["open", "reserve", "data_touched", "commit"] for kinds in charged.values())


def bits(row: str) -> list[int]:
    found: list[int] = np.unpackbits(np.frombuffer(bytes.fromhex(row), np.uint8)).tolist()
    return found


def values(
    survivors: list[set[int]], added: dict[int, dict[int, Integers]], roster: dict[str, Any]
) -> Any:
    """float64[steps, 2]: the values of the constraints, from what those in each sum added; who was
    not counts with the middle of its range."""
    parameters = roster["parameters"]
    names = [one["name"] for one in roster["agents"]]
    rows = {name: np.array([1.0, {"a0": 1.0, "a1": -2.0}.get(name, 0.0)]) for name in names}
    middle = {name: (low + high) / 2 for name, low, high in parameters["box"]}
    units = np.array(parameters["units"][:2]) * parameters["sums"]["grid"]
    told = []
    for k, there in enumerate(survivors):
        total = sum(added[k][place] for place in there)
        absent = [names[place] for place in set(range(len(names))) - there]
        public = sum((rows[name] * middle[name] for name in absent), np.zeros(2))
        told.append(np.array([-LIMIT, -3.0]) + public + units * total)
    return np.array(told)

"""Masked sums of multi-agent sessions, in one process: exact whoever drops, whatever dies."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet_client.sparse_sum import agent as sums_agent
from discreet_client.sparse_sum import exchanges
from tests.problems import masked

AGENTS, STEPS = 50, 3
CONTRIBUTE = 1


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The noise of all agents, in the order of their contributions."""
    kept: list[list[int]] = []
    draw = sums_agent.discrete_gaussian

    def noted(variance: int, count: int) -> list[int]:
        kept.append(draw(variance, count))
        return kept[-1]

    monkeypatch.setattr(sums_agent, "discrete_gaussian", noted)
    return kept


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    made: list[masked.Session] = []

    def open_(agents: int = AGENTS, steps: int = STEPS, **changes: Any) -> masked.Session:
        made.append(masked.Session(tmp_path, masked.problem(agents, steps, **changes), agents))
        return made[-1]

    yield open_
    for one in made:
        one.close()


def test_sums_are_exact_while_agents_drop_and_processes_die(
    opened: Any, drawn: list[list[int]]
) -> None:
    """In every round two agents of fifty fall silent from some step on, a third dies and comes back
    without its secrets, and the cloud's process dies before every exchange. Nothing begins again:
    each sum is that of the states and the noise of those who were in it, to the last bit."""
    session, generator = opened(), random.Random(5)
    parameters = session.roster["parameters"]
    names = [one.name for one in session.parties]
    units = np.array(parameters["units"][:2]) * parameters["sums"]["grid"]
    rows = {name: np.array([1.0, {"a0": 1.0, "a1": -2.0}.get(name, 0.0)]) for name in names}
    middle = {name: (low + high) / 2 for name, low, high in parameters["box"]}
    for _ in range(exchanges.SETTING_UP):
        session.exchange(restart=True)
    for k in range(STEPS):
        *silent, dying = generator.sample(session.parties, 3)
        since = {one.name: generator.randrange(1, 4) for one in [*silent, dying]}
        added: dict[str, Any] = {}
        for phase in range(exchanges.IN_A_ROUND):
            if since[dying.name] == phase:
                session.again(dying)
            gone = [one.name for one in silent if since[one.name] <= phase]
            drawn.clear()
            session.exchange(gone, restart=True)
            if phase == CONTRIBUTE:
                dropped = {name for name, first in since.items() if first <= phase}
                there = [one for one in session.parties if one.name not in dropped]
                for one, noise in zip(there, drawn, strict=True):
                    signed = session.steps[one.identity.fingerprint].signed
                    added[one.name] = signed.contribution(session.x(one)) + np.array(noise)
                    exact = rows[one.name] * session.x(one) / units
                    assert np.abs(added[one.name] - noise - exact).max() <= 0.5 + 1e-6
        assert session.survivors[k] == added.keys()
        public = sum(rows[name] * middle[name] for name in set(names) - added.keys())
        zero = np.array([-masked.LIMIT, -3.0])
        told = np.frombuffer(session.broadcast[32:48], dtype=">f8")
        assert told.tolist() == (zero + public + units * sum(added.values())).tolist()
    session.exchange(restart=True)
    assert session.number == session.cloud.rounds
    agreement = json.loads(session.cloud.released()["agreement"].tobytes())
    assert len(agreement["signatures"]) == AGENTS

"""Many agents of one machine, in one process, enrol in a session and answer its rounds.

DISCREET_AGENTS asks for another number: 200 enrolled and succeeded on a busy machine of two cores.
One connection, which agents of a process shared before, carries 128 streams.
"""

from __future__ import annotations

import os
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from discreet_agent import Agent, Round
from tests.rpc.conftest import Federation
from tests.rpc.helpers import final

NUMBER = struct.Struct("!q")


def join(token: str, folder: Path, place: int) -> str:
    """Take part; how it ended, or the error."""

    def step(current: Round) -> bytes:
        return NUMBER.pack(place + current.number)

    try:
        agent = Agent.from_token(token, folder / f"{place}.key", durable=False)
        return agent.participate(step).state
    except Exception as error:  # whatever an agent's user would see
        return f"{type(error).__name__}: {error}"


@pytest.mark.long
def test_many_agents_of_one_machine_take_part(shared: Federation, tmp_path: Path) -> None:
    agents = int(os.environ.get("DISCREET_AGENTS", "16"))
    job = shared.submit(agents=agents, rounds=2, mode="simulation", round_seconds=300.0)
    tokens, begun = shared.invite(job, agents), time.monotonic()
    with ThreadPoolExecutor(agents) as threads:
        runs = [threads.submit(join, token, tmp_path, place) for place, token in enumerate(tokens)]
        shared.joined(job, agents)
        print(f"{agents} agents enrolled in {time.monotonic() - begun:.1f} s")
        shared.approve(job)
        outcomes = Counter(one.result() for one in runs)
    print(f"all ended after {time.monotonic() - begun:.1f} s")
    assert outcomes == {"succeeded": agents}
    assert final(shared, job)["state"] == "succeeded"

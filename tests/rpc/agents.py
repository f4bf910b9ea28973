"""What the tests' agents do, in processes of their own: `discreet-agent --program
tests.rpc.agents:add`."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

from discreet_agent import Agent, Round

NUMBER = struct.Struct("!q")


def add(agent: Agent, problem: dict[str, Any]) -> dict[str, Any]:
    """Send `value` plus the round's number. In the file `answers` a line for every decision, which
    shows whether one is ever taken twice. `pause`: seconds before each answer. `stop_at`: die there
    before, `stop_after`: after saving."""
    folder = Path(problem["folder"])

    def step(current: Round) -> bytes:
        time.sleep(problem.get("pause", 0))
        if problem.get("hang_at") == current.number:
            time.sleep(3600)
        marker = folder / "died"
        if problem.get("stop_at") == current.number and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), 9)
        with (folder / "answers").open("a") as file:
            file.write(f"{current.number} {len(current.state)} {current.broadcast.hex()}\n")
        current.state = current.state + b"."
        if problem.get("garbage_at") == current.number:
            return b"garbage"
        return NUMBER.pack(problem["value"] + current.number)

    outcome = agent.participate(step)
    return {
        "state": outcome.state,
        "code": outcome.code,
        "rounds": outcome.rounds,
        "broadcast": outcome.broadcast.hex(),
        "transcript": outcome.transcript.hex(),
        "kept": len(outcome.final_state),
        "blamed": [list(one) for one in outcome.blamed],
    }

"""The job bodies that both SDKs run: the kinds' own examples, with content that no other test has."""

from __future__ import annotations

import copy
from typing import Any

from discreet.problems import KINDS


def examples(number: int) -> dict[str, dict[str, Any]]:
    """A job body of every kind, its dataset inside; another number is other data."""
    bodies = {kind: copy.deepcopy(problem.example()) for kind, problem in KINDS.items()}
    content = {kind: body["problem"].get("dataset", {}).get("content") for kind, body in bodies.items()}
    content["routing"]["trips"][0]["count"] += 1000 * number
    content["multi_agent"]["objectives"]["left"] = f"(left - 3)^2 + {number} * left"
    steps = len(content["dr_ensemble"]["trajectories"][0])
    content["dr_ensemble"]["trajectories"][0] = [number // 3**step % 3 for step in range(steps)]
    content["off_policy_evaluation"]["transitions"][0]["reward"] = number / 1000
    return bodies

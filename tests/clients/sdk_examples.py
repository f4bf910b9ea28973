"""The job bodies that both SDKs run: the kinds' own examples, with content that no other test
has."""

from __future__ import annotations

import copy
from typing import Any

from discreet.problems import KINDS


def examples(number: int) -> dict[str, dict[str, Any]]:
    """A job body of every kind, its dataset inside; another number is other data."""
    bodies = {kind: copy.deepcopy(problem.example()) for kind, problem in KINDS.items()}
    for kind, body in bodies.items():
        if "dataset" in body["problem"]:
            KINDS[kind].vary(body["problem"]["dataset"]["content"], 500 + number)
    return bodies

"""What each kind of problem does in an agent: `module:function` by kind, loaded when it is asked for.

A function takes the agent and the parsed problem file, calls `agent.participate`, and returns what to print, as JSON.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from discreet_client.federation.errors import AgentError

SOLVERS: dict[str, str] = {
    "coupled_qp": "discreet_client.agent.coupled_qp:run",
    "multi_agent": "discreet_client.agent.multi_agent:solve",
}

Solve = Callable[[Any, dict[str, Any]], Any]


def solver(name: str) -> Solve:
    """The function of a kind, or the one that `module:function` names."""
    place = name if ":" in name else SOLVERS.get(name)
    if place is None:
        raise AgentError(f"this agent knows no kind {name}; it knows {', '.join(sorted(SOLVERS)) or 'none'}")
    module, _, function = place.partition(":")
    found: Solve = getattr(importlib.import_module(module), function)
    return found

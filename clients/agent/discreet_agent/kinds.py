"""Finds the program that an agent runs for a kind of problem: function `run` of the module in this
package that has the kind's name.

It takes the agent and the parsed problem file, calls `agent.participate`, and returns the result to
print as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from discreet_agent.federation.errors import AgentError

Solve = Callable[[Any, dict[str, Any]], Any]


def solver(name: str) -> Solve:
    """The function of a kind, or the one that `module:function` names; AgentError if the kind has
    none."""
    module, _, function = name.partition(":")
    if not function:
        module, function = f"{__package__}.{name}", "run"
        if (
            not name.isidentifier()
            or find_spec(module) is None
            or not hasattr(import_module(module), function)
        ):
            raise AgentError(
                f"this agent has no program for the kind {name}: --program module:function names "
                "one"
            )
    found: Solve = getattr(import_module(module), function)
    return found

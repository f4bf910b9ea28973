"""Federated agents: their identity, their ledger, and the rounds of a session.

agent = Agent.from_token("dsc://host:port/ses_…?token=…&server=…&owner=…", identity="agent.key")
outcome = agent.participate(step)

The names below are loaded when they are first used: the service and the SDK need single modules,
and neither gRPC nor NumPy for most of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet_agent.agent import Agent
    from discreet_agent.connection import Tls
    from discreet_agent.costs import ConvexCost, QuadraticCost
    from discreet_agent.demands import Demands
    from discreet_agent.federation.errors import (
        AgentError,
        BadIdentity,
        BadLink,
        LedgerBroken,
        LimitExceeded,
        Lost,
        NotTrusted,
        Refused,
    )
    from discreet_agent.federation.identity import Identity
    from discreet_agent.federation.links import Link
    from discreet_agent.ledger import Ledger
    from discreet_agent.rounds import Outcome, Round, Step

__all__ = [
    "Agent",
    "AgentError",
    "BadIdentity",
    "BadLink",
    "ConvexCost",
    "Demands",
    "Identity",
    "Ledger",
    "LedgerBroken",
    "LimitExceeded",
    "Link",
    "Lost",
    "NotTrusted",
    "Outcome",
    "QuadraticCost",
    "Refused",
    "Round",
    "Step",
    "Tls",
]

_MODULES = {
    "Agent": "agent",
    "ConvexCost": "costs",
    "Demands": "demands",
    "Identity": "federation.identity",
    "Ledger": "ledger",
    "Link": "federation.links",
    "Outcome": "rounds",
    "QuadraticCost": "costs",
    "Round": "rounds",
    "Step": "rounds",
    "Tls": "connection",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES.get(name, "federation.errors")
    return getattr(importlib.import_module(f"discreet_agent.{module}"), name)

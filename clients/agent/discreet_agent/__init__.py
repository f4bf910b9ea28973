"""Federated agents: their identity, their ledger, and the rounds of a session.

agent = Agent.from_token("dsc://host:port/ses_…?token=…&server=…&owner=…", identity="agent.key")
outcome = agent.participate(step)
"""

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

"""Federated agents: their identity, their ledger, and the rounds of a session.

agent = Agent.from_token("dsc://host:port/ses_…?token=…&server=…&owner=…", identity="agent.key")
outcome = agent.participate(step)
"""

from discreet_client.agent.agent import Agent
from discreet_client.agent.connection import Tls
from discreet_client.agent.demands import Demands
from discreet_client.agent.ledger import Ledger
from discreet_client.agent.rounds import Outcome, Round, Step
from discreet_client.costs import ConvexCost, QuadraticCost
from discreet_client.federation.errors import (
    AgentError,
    BadIdentity,
    BadLink,
    LedgerBroken,
    LimitExceeded,
    Lost,
    NotTrusted,
    Refused,
)
from discreet_client.federation.identity import Identity
from discreet_client.federation.links import Link

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

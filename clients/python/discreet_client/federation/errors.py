"""Errors of an agent.

AgentError
├── BadLink            the token's text cannot be read
├── BadIdentity        the key file cannot be used
├── NotTrusted         the other side is not the one that the token pins, or contradicts itself
├── LimitExceeded      the charge would exceed the agent's own limit; it has declined
├── LedgerBroken       the agent's own ledger fails verification
├── Refused            the server refused for good; carries its code
└── Lost               the server did not come back in time
"""

from __future__ import annotations


class AgentError(Exception):
    """The agent cannot go on."""


class BadLink(AgentError):
    """The text is not a discreet token."""


class BadIdentity(AgentError):
    """The key file cannot be used."""


class NotTrusted(AgentError):
    """The other side is not the one that was pinned."""


class LimitExceeded(AgentError):
    """The charge would exceed this agent's own limit."""


class LedgerBroken(AgentError):
    """The ledger file fails verification."""


class Refused(AgentError):
    """The server refused; `code` is stable, `status` the name of the gRPC status."""

    def __init__(self, status: str, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}" if code else detail)
        self.status = status
        self.code = code


class Lost(AgentError):
    """The server did not come back in time."""

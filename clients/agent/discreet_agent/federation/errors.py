"""Errors of an agent.

AgentError
├── BadLink            the token's text cannot be read
├── BadIdentity        the key file cannot be used
├── NotTrusted         the other side is not the one that the token pins, or contradicts itself
├── LimitExceeded      the charge would exceed the agent's own limit; it has declined
├── Unfit              the agent does not take part in what the owner has signed; it has declined
├── Declined           whoever operates the agent refuses this job; it has declined
├── FolderLost         the folder of a session in which this agent has answered is gone or older
├── LedgerBroken       the agent's own ledger fails verification
├── Refused            the server refused for good; carries its code
└── Lost               the server did not come back in time
"""

from __future__ import annotations


class AgentError(Exception):
    """The agent cannot go on."""

    cause = "declined"
    """What an agent that declines says of its reason: the owner and all agents are told."""


class BadLink(AgentError):
    """The text is not a discreet token."""


class BadIdentity(AgentError):
    """The key file cannot be used."""


class NotTrusted(AgentError):
    """The other side is not the one that was pinned."""


class LimitExceeded(AgentError):
    """The charge would exceed this agent's own limit."""

    cause = "limit_exceeded"


class Unfit(AgentError):
    """The agent does not take part in what the owner has signed."""

    cause = "unfit"


class Declined(AgentError):
    """Whoever operates the agent refuses this job."""


class FolderLost(AgentError):
    """The folder of a session in which this agent has answered is gone, or was put back from an
    older copy."""

    cause = "folder_lost"


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

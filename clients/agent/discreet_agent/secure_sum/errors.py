"""What can go wrong in a secure sum."""

from __future__ import annotations

from collections.abc import Iterable

# SecureSumError
# ├── Refused        a frame is not authentic or not due; nothing has changed
# ├── Unacceptable   roster or parameters with which an honest party does not take part
# ├── Tampered       an authentic frame is wrong: a party deviates; the machine has ended
# ├── Complained     agents have signed that a sum is too large; the machine has ended
# ├── Missing        agents are missing that the protocol cannot do without; the machine has ended
# ├── Excluded       the others go on without this agent; the machine has ended
# ├── Reused         the journal has seen this epoch, round or contribution; nothing was sent
# └── Ended          the machine had ended before


class SecureSumError(Exception):
    """The protocol cannot go on. `cause` names what is wrong with a message (one of those that a
    session's outcome gives), `agents` whose it was, where that is known."""

    cause = "wrong_frame"
    agents: tuple[int, ...] = ()

    def __init__(self, says: str = "", cause: str | None = None, *agents: int) -> None:
        super().__init__(says)
        if cause is not None:
            self.cause = cause
        if agents:
            self.agents = agents


class Refused(SecureSumError):
    """A frame is not authentic or not due."""


class Unacceptable(SecureSumError):
    """Roster or parameters cannot be accepted."""


class Tampered(SecureSumError):
    """A party deviates from the protocol."""

    cause = "unreadable"


class Complained(SecureSumError):
    """Agents have signed that the last sum exceeds the bounds that the owner has signed."""

    def __init__(self, agents: Iterable[int]) -> None:
        self.agents = tuple(sorted(agents))
        who = ", ".join(map(str, self.agents))
        super().__init__(f"the last sum is out of bounds, say the agents {who}")


class Missing(SecureSumError):
    """Agents are missing."""

    def __init__(self, agents: Iterable[int], why: str) -> None:
        missing = sorted(agents)
        super().__init__(f"{why}: missing {', '.join(map(str, missing))}", "no_answer", *missing)


class Excluded(SecureSumError):
    """The others go on without this agent."""


class Reused(SecureSumError):
    """This round has been answered before."""


class Ended(SecureSumError):
    """The machine has ended."""

"""An agent's state in one session, on disk before anything that follows from it is sent.

A new process goes on from here: it sends the same bytes again, and never computes two answers to
one round.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from discreet_agent.federation.errors import AgentError
from discreet_agent.federation.files import write_private

REFUSED = "refused"
"""File in the folder of the sessions: a job or session that is refused, a line each."""


@dataclass(slots=True)
class Sent:
    """The answer to one round."""

    number: int
    body: bytes
    answers: bytes


@dataclass(slots=True)
class Ended:
    """How the session ended."""

    state: str
    code: str
    rounds: int
    broadcast: bytes
    transcript: bytes
    charged: bool = False
    blamed: tuple[tuple[str, str], ...] = ()
    """Fingerprint and cause of each agent without whom the session could not go on."""


@dataclass(slots=True)
class Memory:
    """One session of one agent. `keep` writes all of it at once."""

    path: Path
    account: str = ""
    roster: bytes = b""
    sent: Sent | None = None
    state: bytes = b""
    ended: Ended | None = None
    durable: bool = True
    """False for benchmarks: nothing is written."""

    @classmethod
    def load(cls, path: Path) -> Memory:
        """The state that was saved last, or an empty one; AgentError if the file is not JSON."""
        try:
            read = json.loads(path.read_text())
        except FileNotFoundError:
            return cls(path)
        except ValueError as error:
            raise AgentError(f"{path} cannot be read") from error
        sent, ended = read["sent"], read["ended"]
        return cls(
            path,
            account=read["account"],
            roster=bytes.fromhex(read["roster"]),
            sent=None
            if sent is None
            else Sent(sent["number"], _bytes(sent["body"]), _bytes(sent["answers"])),
            state=_bytes(read["state"]),
            ended=None
            if ended is None
            else Ended(
                ended["state"],
                ended["code"],
                ended["rounds"],
                _bytes(ended["broadcast"]),
                _bytes(ended["transcript"]),
                ended["charged"],
                tuple((fingerprint, cause) for fingerprint, cause in ended["blamed"]),
            ),
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the session against other processes, and load what one of them may have saved.

        Two processes that each answer one round would reveal the difference of their answers.
        AgentError if another process holds the lock.
        """
        if not self.durable:
            yield
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AgentError(
                    f"another process takes part in this session with {self.path}"
                ) from None
            self._become(Memory.load(self.path))
            yield
        finally:
            os.close(file)

    def keep(self, **changes: Any) -> None:
        """Change these fields, on disk first: on AgentError, raised if the file cannot be written,
        this object is unchanged, and nothing is sent.
        """
        after = replace(self, **changes)
        if self.durable:
            fields = asdict(after)
            del fields["path"], fields["durable"]
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_private(self.path, json.dumps(fields, default=bytes.hex).encode())
            except OSError as error:
                raise AgentError(
                    f"{self.path} cannot be written: {error.strerror or error}"
                ) from error
        self._become(after)

    def _become(self, other: Memory) -> None:
        for name in ("account", "roster", "sent", "state", "ended"):
            setattr(self, name, getattr(other, name))


def refused(folder: Path) -> set[str]:
    """The jobs and sessions that this agent does not take part in (`discreet-agent refuse`)."""
    try:
        return set((folder / REFUSED).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)

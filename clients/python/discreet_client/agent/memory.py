"""What an agent knows of one session, on disk before anything that follows from it is sent.

A new process goes on from here: it sends again the very bytes it had decided on, and never decides twice for one round.
"""

from __future__ import annotations

import json
from pathlib import Path

from attrs import asdict, define, field

from discreet_client.federation.files import write_private


@define
class Sent:
    """The answer to one round."""

    number: int
    body: bytes
    answers: bytes


@define
class Ended:
    """How the session ended."""

    state: str
    code: str
    rounds: int
    broadcast: bytes
    transcript: bytes


@define
class Memory:
    """One session of one agent. `save` writes all of it at once."""

    path: Path
    account: str = ""
    roster: bytes = b""
    sent: Sent | None = None
    state: bytes = b""
    ended: Ended | None = None
    durable: bool = field(default=True, metadata={"note": "False: nothing is written; for benchmarks"})

    @classmethod
    def load(cls, path: Path) -> Memory:
        """What was saved last, or a blank one."""
        try:
            read = json.loads(path.read_text())
        except FileNotFoundError:
            return cls(path)
        sent, ended = read["sent"], read["ended"]
        return cls(
            path,
            account=read["account"],
            roster=bytes.fromhex(read["roster"]),
            sent=None if sent is None else Sent(sent["number"], _bytes(sent["body"]), _bytes(sent["answers"])),
            state=_bytes(read["state"]),
            ended=None
            if ended is None
            else Ended(
                ended["state"], ended["code"], ended["rounds"], _bytes(ended["broadcast"]), _bytes(ended["transcript"])
            ),
        )

    def save(self) -> None:
        if not self.durable:
            return
        fields = asdict(self, filter=lambda attribute, _: attribute.name not in ("path", "durable"))
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self.path, json.dumps(fields, default=bytes.hex).encode())


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)
